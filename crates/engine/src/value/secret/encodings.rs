//! Shapes of a secret: the texts that it may come back as.
//!
//! A secret is quoted whole or in part, as it is or encoded. Parts are those that
//! are secret by themselves: see [`super::part`]. Encodings are those of JSON,
//! addresses and pages, as the libraries of the field write them, and base64 and
//! hex, which debug output and headers are full of.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use super::part;

/// The shortest piece of base64 that is looked for: what is left of six
/// characters in the middle of a longer text.
const MIN_BASE64: usize = 7;

/// A text and what is made of it and its parts, each once.
pub(super) fn of(text: &str) -> Vec<Zeroizing<String>> {
    let mut all = Vec::new();
    encode(text, &mut all);
    for part in part::of(text) {
        encode(&part, &mut all);
    }
    all
}

fn encode(text: &str, all: &mut Vec<Zeroizing<String>>) {
    add(all, Zeroizing::new(text.to_owned()));
    base64(text.as_bytes(), all);
    for upper in [false, true] {
        add(all, hex(text.as_bytes(), upper));
        // Some encode every sign.
        let each = text.bytes().map(|byte| hex(&[byte], upper));
        let each = each.fold(Zeroizing::new(String::new()), |mut all, code| {
            all.push('%');
            all.push_str(&code);
            all
        });
        add(all, each);
    }
    // Most secrets are made of signs that nobody has to encode.
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) {
        return;
    }
    let quoted = quoted(text);
    let page = |apostrophe, quote| {
        replaced(
            text,
            &[('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('\'', apostrophe), ('"', quote)],
        )
    };
    let percent = |upper, keep: &[u8], space| percent(text, upper, keep, space);
    for made in [
        // PHP's way to quote, and JSON in JSON.
        replaced(&quoted, &[('/', "\\/")]),
        self::quoted(&quoted),
        quoted,
        percent(true, b"-._~", "%20"),
        percent(false, b"-._~", "%20"),
        // A form, and what JavaScript leaves alone in a part of an address.
        percent(true, b"*-._", "+"),
        percent(true, b"-._~!*'()", "%20"),
        // What stays as it is in the path and the query of an address.
        percent(true, b"-._~!$&'()*+,;=:@/?", "%20"),
        page("&#39;", "&quot;"),
        page("&#x27;", "&quot;"),
        page("&#39;", "&#34;"),
        page("'", "&quot;"),
        page("'", "\""),
    ] {
        add(all, made);
    }
}

fn add(all: &mut Vec<Zeroizing<String>>, made: Zeroizing<String>) {
    if !made.is_empty() && !all.contains(&made) {
        all.push(made);
    }
}

/// Base64, alone and as part of a longer text, where the bits of a secret may
/// begin at three places of a group. What its neighbours have a part in is left
/// out there.
fn base64(bytes: &[u8], all: &mut Vec<Zeroizing<String>>) {
    for alphabet in [&STANDARD, &URL_SAFE] {
        add(all, Zeroizing::new(alphabet.encode(bytes)));
    }
    for alphabet in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        for before in 0..3 {
            let mut padded = Zeroizing::new(vec![0; before + bytes.len()]);
            padded[before..].copy_from_slice(bytes);
            let text = Zeroizing::new(alphabet.encode(padded.as_slice()));
            let (from, to) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
            if let Some(own) = text.get(from..to).filter(|own| own.len() >= MIN_BASE64) {
                add(all, Zeroizing::new(own.to_owned()));
            }
        }
    }
}

fn hex(bytes: &[u8], upper: bool) -> Zeroizing<String> {
    let digits: &[u8; 16] = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let mut made = Zeroizing::new(String::with_capacity(bytes.len() * 2));
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            made.push(char::from(digits[usize::from(digit)]));
        }
    }
    made
}

/// As it stands in a string of JSON.
fn quoted(text: &str) -> Zeroizing<String> {
    let quoted = Zeroizing::new(serde_json::to_string(text).unwrap_or_default());
    let inside = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    Zeroizing::new(inside.to_owned())
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
            byte => {
                made.push('%');
                made.push_str(&hex(&[byte], upper));
            }
        }
    }
    made
}
