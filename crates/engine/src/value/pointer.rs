//! Escaping of keys in JSON pointers (RFC 6901).

/// Escapes a key.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Unescapes a token.
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
