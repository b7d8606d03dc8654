//! What becomes of a secret that others quote: the encodings that JSON, addresses
//! and pages give to a text, as the libraries of the field write them.

use zeroize::Zeroizing;

/// A text and what is made of it, each once.
pub(super) fn of(text: &str) -> Vec<Zeroizing<String>> {
    let mut all = vec![Zeroizing::new(text.to_owned())];
    // Most secrets are made of signs that nobody has to encode.
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) {
        return all;
    }
    let quoted = Zeroizing::new(serde_json::to_string(text).unwrap_or_default());
    let quoted = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    let page = |apostrophe, quote| {
        replaced(
            text,
            &[('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('\'', apostrophe), ('"', quote)],
        )
    };
    let percent = |upper, keep: &[u8], space| percent(text, upper, keep, space);
    for made in [
        Zeroizing::new(quoted.to_owned()),
        // PHP's way to quote.
        replaced(quoted, &[('/', "\\/")]),
        percent(true, b"-._~", "%20"),
        percent(false, b"-._~", "%20"),
        // A form, and what JavaScript leaves alone in a part of an address.
        percent(true, b"*-._", "+"),
        percent(true, b"-._~!*'()", "%20"),
        page("&#39;", "&quot;"),
        page("&#x27;", "&quot;"),
        page("&#39;", "&#34;"),
        page("'", "&quot;"),
        page("'", "\""),
    ] {
        if !all.contains(&made) {
            all.push(made);
        }
    }
    all
}

fn replaced(text: &str, pairs: &[(char, &str)]) -> Zeroizing<String> {
    let mut made = Zeroizing::new(String::with_capacity(text.len()));
    for c in text.chars() {
        match pairs.iter().find(|(own, _)| *own == c) {
            Some((_, other)) => made.push_str(other),
            None => made.push(c),
        }
    }
    made
}

fn percent(text: &str, upper: bool, keep: &[u8], space: &str) -> Zeroizing<String> {
    let mut made = Zeroizing::new(String::with_capacity(text.len() * 2));
    for byte in text.bytes() {
        match byte {
            b' ' => made.push_str(space),
            byte if byte.is_ascii_alphanumeric() || keep.contains(&byte) => {
                made.push(char::from(byte));
            }
            byte if upper => made.push_str(&format!("%{byte:02X}")),
            byte => made.push_str(&format!("%{byte:02x}")),
        }
    }
    made
}
