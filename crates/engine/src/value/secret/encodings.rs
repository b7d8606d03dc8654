//! Encodings of a secret in which it may appear in other text.
//!
//! A secret may be quoted whole or in part, plain or encoded. For parts see
//! [`super::part`]. Encodings are those of JSON, URLs and HTML as common
//! libraries write them, and base64 and hex, which are frequent in debug output
//! and headers.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use super::part;

/// Minimum length of a base64 fragment that is searched for: what is left of
/// six characters in the middle of a longer text.
const MIN_BASE64: usize = 7;

/// All encodings of a text and of its parts, without duplicates.
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
        // Some encoders encode every character.
        let each = text.bytes().map(|byte| hex(&[byte], upper));
        let each = each.fold(Zeroizing::new(String::new()), |mut all, code| {
            all.push('%');
            all.push_str(&code);
            all
        });
        add(all, each);
    }
    // Shortcut: most secrets consist of characters that need no encoding.
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
        // PHP's escaping, and JSON inside JSON.
        replaced(&quoted, &[('/', "\\/")]),
        self::quoted(&quoted),
        quoted,
        percent(true, b"-._~", "%20"),
        percent(false, b"-._~", "%20"),
        // Form encoding, and JavaScript's `encodeURIComponent`.
        percent(true, b"*-._", "+"),
        percent(true, b"-._~!*'()", "%20"),
        // Characters that may stay unencoded in a path or query.
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

/// Base64, alone and as part of a longer text, where a secret may start at
/// three bit offsets; characters shared with its neighbours are left out.
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

/// Escaped as a JSON string.
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
