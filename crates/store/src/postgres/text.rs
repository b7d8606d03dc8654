//! Text that callers choose, in forms that PostgreSQL takes.
//!
//! PostgreSQL's `text` cannot hold a zero byte, and an index holds no value of
//! more than a third of a page. Neither may let a hostile name stop the batch
//! that it is in.

use std::borrow::Cow;
use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Begins what stands in place of something else; itself written twice over.
const MARK: char = '\u{1a}';
const ZERO: &str = "\u{1a}0";
const MARK_ITSELF: &str = "\u{1a}1";

/// The longest text that is a key of its own.
const MAX_KEY_BYTES: usize = 1000;
/// What is left of a longer one, before its hash.
const KEY_BEGINNING: usize = 800;

/// The text as it is stored. [`read`] gives it back.
pub(crate) fn kept(text: &str) -> Cow<'_, str> {
    if text.contains(['\0', MARK]) {
        Cow::Owned(text.replace(MARK, MARK_ITSELF).replace('\0', ZERO))
    } else {
        Cow::Borrowed(text)
    }
}

/// The text that was stored.
pub(crate) fn read(stored: &str) -> Cow<'_, str> {
    if stored.contains(MARK) {
        Cow::Owned(stored.replace(ZERO, "\0").replace(MARK_ITSELF, "\u{1a}"))
    } else {
        Cow::Borrowed(stored)
    }
}

/// The text as a part of a key: as it is stored, but where it is very long,
/// its beginning and a hash of the whole.
pub(crate) fn key(text: &str) -> Cow<'_, str> {
    let stored = kept(text);
    if stored.len() <= MAX_KEY_BYTES {
        return stored;
    }
    let mut short = stored[..stored.floor_char_boundary(KEY_BEGINNING)].to_owned();
    short.push(MARK);
    short.push('#');
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a string does not fail.
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
