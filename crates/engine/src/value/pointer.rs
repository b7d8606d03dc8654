//! Keys in JSON pointers (RFC 6901), where `~` and `/` have another meaning.

/// A key as one token of a pointer.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// The key that a token of a pointer stands for.
pub(crate) fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive() {
        for key in ["", "plain", "a/b", "~", "~1", "a~0/b"] {
            assert_eq!(unescape(&escape(key)), key);
            assert!(!escape(key).contains('/'));
        }
    }
}
