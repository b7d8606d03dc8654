//! Parts of a secret that are secret by themselves: password, path and query of
//! a URL, each line of a multi-line key.
//!
//! Servers quote the path of a request rather than the whole URL. But hosts and
//! common path segments (`/api/v2`) appear in many answers, and are not
//! redacted.

use zeroize::Zeroizing;

use super::MIN_CHARS;

/// Minimum length of a line that is searched for alone.
const MIN_LINE: usize = 16;
/// Minimum length of a path that is searched for as a whole.
const MIN_PATH: usize = 8;
/// Segments of this length are not words.
const LONG: usize = 16;
/// Common path segments.
const ORDINARY: [&str; 26] = [
    "api", "apis", "app", "catch", "client", "common", "data", "events", "graphql", "hook",
    "hooks", "incoming", "latest", "mcp", "message", "messages", "oauth", "public", "rest", "rpc",
    "send", "services", "sse", "webhook", "webhooks", "wiki",
];

/// The parts of a text, if it has any.
pub(super) fn of(text: &str) -> Vec<Zeroizing<String>> {
    let mut parts = Vec::new();
    let mut add = |part: &str| {
        if part.chars().count() >= MIN_CHARS && part != text {
            parts.push(Zeroizing::new(part.to_owned()));
        }
    };
    for line in text.lines().filter(|_| text.contains('\n')) {
        if line.trim().len() >= MIN_LINE && !line.starts_with("-----") {
            add(line.trim());
        }
    }
    if let Some(address) = Address::read(text) {
        address.parts(&mut add);
    }
    parts
}

/// A URL, split as written.
struct Address<'t> {
    user: Option<&'t str>,
    path: &'t str,
    query: Option<&'t str>,
}

impl<'t> Address<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once("://")?;
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        if scheme.is_empty() || !scheme.chars().all(is_scheme) {
            return None;
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        let (path, query) = match tail.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (tail, None),
        };
        Some(Self { user, path, query })
    }

    fn parts(&self, add: &mut impl FnMut(&str)) {
        let Self { user, path, query } = self;
        if let Some(user) = user {
            add(user);
            let password = user.split_once(':').map_or("", |(_, password)| password);
            add(password);
            add(&decoded(password));
        }
        let segments = || path.split('/').filter(|segment| !segment.is_empty());
        let is_secret = path.len() >= MIN_PATH && segments().any(|it| !is_ordinary(it));
        for path in [*path, path.trim_matches('/')].into_iter().filter(|_| is_secret) {
            add(path);
            add(&decoded(path));
        }
        for segment in segments().filter(|segment| is_opaque(segment)) {
            add(segment);
            add(&decoded(segment));
        }
        let Some(query) = query else { return };
        add(query);
        if is_secret {
            add(&format!("{path}?{query}"));
        }
        for (_, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            if is_opaque(value) {
                add(value);
                add(&decoded(value));
            }
        }
    }
}

/// Whether a segment is a common word, or a version.
fn is_ordinary(segment: &str) -> bool {
    let version = segment.strip_prefix('v').unwrap_or(segment);
    ORDINARY.contains(&segment.to_ascii_lowercase().as_str())
        || version.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// Whether a text is not a word: it has digits among letters, capitals in the
/// middle, or is longer than words are.
pub(super) fn is_opaque(text: &str) -> bool {
    let has = |is: fn(char) -> bool| text.chars().any(is);
    let letters = has(|c| c.is_alphabetic());
    let digits = has(|c| c.is_ascii_digit());
    let capitals = text.chars().skip(1).any(char::is_uppercase);
    text.chars().count() >= MIN_CHARS
        && !is_ordinary(text)
        && (text.len() >= LONG || (letters && digits) || capitals || text.contains('%'))
}

/// Percent-decodes a text.
fn decoded(text: &str) -> Zeroizing<String> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let code = (*first == b'%').then(|| more.get(..2)).flatten();
        let code = code.and_then(|code| str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    Zeroizing::new(str::from_utf8(&bytes).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<String> {
        of(text).iter().map(|part| part.to_string()).collect()
    }

    #[test]
    fn an_address_has_secret_parts() {
        let found =
            parts("https://hooks.example.com/services/T0000AAAA/canary%2Dtail?sig=a1b2c3&v=2");
        for wanted in [
            "/services/T0000AAAA/canary%2Dtail",
            "services/T0000AAAA/canary-tail",
            "T0000AAAA",
            "canary%2Dtail",
            "canary-tail",
            "sig=a1b2c3&v=2",
            "a1b2c3",
        ] {
            assert!(found.iter().any(|part| part == wanted), "{wanted}: {found:?}");
        }
        assert!(!found.iter().any(|part| part.contains("example.com") || part == "services"));
        let found = parts("postgres://app:hunter22@db:5432/shop");
        assert!(found.contains(&"hunter22".to_owned()), "{found:?}");
    }

    #[test]
    fn ordinary_addresses_and_texts_have_none() {
        for text in [
            "https://api.example.com",
            "https://example.com/rest/api/2",
            "https://example.com/api/v1.2/",
            "no address at all",
            "a://b",
        ] {
            assert_eq!(parts(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn each_line_of_a_key_is_secret() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nshort\n-----END KEY-----\n";
        assert_eq!(parts(key), ["MIIEvQIBADANBgkqhkiG"]);
    }
}
