//! Escapes text chosen by callers for PostgreSQL.
//!
//! PostgreSQL's `text` cannot hold a zero byte, and an index entry is limited to a third
//! of a page. A hostile name must not make its whole batch fail.

use std::borrow::Cow;
use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Escape character; doubled if it occurs itself.
const MARK: char = '\u{1a}';
const ZERO: &str = "\u{1a}0";
const MARK_ITSELF: &str = "\u{1a}1";

/// Maximum length of a text that is used as a key itself.
const MAX_KEY_BYTES: usize = 1000;
/// Length of the prefix that a longer one keeps before its hash.
const KEY_BEGINNING: usize = 800;

/// Escapes text for storage; [`read`] reverses it.
pub(crate) fn kept(text: &str) -> Cow<'_, str> {
    if text.contains(['\0', MARK]) {
        Cow::Owned(text.replace(MARK, MARK_ITSELF).replace('\0', ZERO))
    } else {
        Cow::Borrowed(text)
    }
}

/// The original of a stored text.
pub(crate) fn read(stored: &str) -> Cow<'_, str> {
    if stored.contains(MARK) {
        Cow::Owned(stored.replace(ZERO, "\0").replace(MARK_ITSELF, "\u{1a}"))
    } else {
        Cow::Borrowed(stored)
    }
}

/// Text as part of a key: escaped and, if it is very long, shortened to a prefix and a
/// hash.
pub(crate) fn key(text: &str) -> Cow<'_, str> {
    let stored = kept(text);
    if stored.len() <= MAX_KEY_BYTES {
        return stored;
    }
    let mut short = stored[..stored.floor_char_boundary(KEY_BEGINNING)].to_owned();
    short.push(MARK);
    short.push('#');
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a `String` cannot fail.
        let _ = write!(short, "{byte:02x}");
    }
    Cow::Owned(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        for text in [
            "",
            "plain",
            "天气",
            "\0",
            "a\0b\0",
            "\u{1a}",
            "\u{1a}0",
            "\u{1a}1\0",
            "\0\u{1a}\u{1a}0",
        ] {
            let stored = kept(text);
            assert!(!stored.contains('\0'), "{text:?}");
            assert_eq!(read(&stored), text);
        }
    }

    #[test]
    fn keys_are_short_and_tell_long_texts_apart() {
        let long = "天".repeat(5000);
        let other = format!("{long}.");
        assert!(key(&long).len() <= MAX_KEY_BYTES);
        assert_ne!(key(&long), key(&other));
        assert_eq!(key("a\0"), kept("a\0"));
    }
}
