//! robots.txt parser and cache (RFC 9309).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use percent_encoding::{CONTROLS, utf8_percent_encode};
use tokio::time::Instant;
use url::{Position, Url};
use windlass::{Call, Error, ErrorKind, FairMap};

use crate::outbound::{Outbound, Request};

/// Our product token in robots.txt.
const AGENT: &str = "windlass";
/// Maximum size that is parsed, as RFC 9309 recommends.
const MAX_BYTES: u64 = 512 * 1024;
const MAX_RULES: usize = 2_000;
const MAX_PATTERN: usize = 1_000;
const TIME: Duration = Duration::from_secs(10);
/// TTL of cached rules, and of an unreachable robots.txt.
const FRESH: Duration = Duration::from_secs(3600);
const FRESH_FAULT: Duration = Duration::from_secs(60);
const SITES: usize = 256;

/// Cache of rules by site. The tenant that reads the most sites loses the one that was
/// read least recently.
pub(in super::super) struct Robots(Mutex<FairMap<String, (Instant, Arc<Rules>)>>);

impl Default for Robots {
    fn default() -> Self {
        Self(Mutex::new(FairMap::new(SITES)))
    }
}

impl Robots {
    /// Refuses a page that robots.txt disallows.
    pub(super) async fn check(
        &self,
        outbound: &Outbound,
        call: &Call,
        page: &Url,
    ) -> Result<(), Error> {
        let site = page.origin().ascii_serialization();
        let known = self.0.lock().touch(&site).map(|known| known.clone());
        let rules = match known.filter(|(until, _)| Instant::now() < *until) {
            Some((_, rules)) => rules,
            None => {
                let rules = Arc::new(fetch(outbound, call, page).await?);
                let fresh = if matches!(*rules, Rules::Unknown) { FRESH_FAULT } else { FRESH };
                let known = (Instant::now() + fresh, Arc::clone(&rules));
                self.0.lock().insert(&call.caller().tenant, &site, known);
                rules
            }
        };
        let path = &page[Position::BeforePath..Position::AfterQuery];
        match rules.allow(path) {
            Some(true) => Ok(()),
            Some(false) => Err(Error::new(
                ErrorKind::Denied,
                format!("{site} does not want this page to be read by programs (robots.txt)"),
            )),
            None => Err(Error::new(
                ErrorKind::UpstreamFailed,
                format!("{site} does not say what may be read: its robots.txt fails"),
            )),
        }
    }
}

async fn fetch(outbound: &Outbound, call: &Call, page: &Url) -> Result<Rules, Error> {
    let url = page
        .join("/robots.txt")
        .map_err(|_| Error::new(ErrorKind::InvalidArguments, "the URL has no site"))?;
    let request = Request::get(url).made_by(call).total_timeout(TIME).max_bytes(MAX_BYTES);
    let mut answer = match outbound.send(request).await {
        // A redirect loop counts as a missing file.
        Err(error) if error.kind() == ErrorKind::UpstreamRejected => return Ok(Rules::none()),
        answer => answer?,
    };
    match answer.status().as_u16() {
        200..=299 => {}
        500.. => return Ok(Rules::Unknown),
        _ => return Ok(Rules::none()),
    }
    let mut text = Vec::new();
    // Of a file that is too large, the beginning counts.
    while let Ok(Some(chunk)) = answer.chunk().await {
        text.extend_from_slice(&chunk);
    }
    Ok(Rules::parse(&String::from_utf8_lossy(&text)))
}

/// The rules of a site.
#[derive(Debug)]
enum Rules {
    /// Patterns, and whether they allow what they match.
    Known(Vec<(String, bool)>),
    /// robots.txt could not be fetched.
    Unknown,
}

impl Rules {
    fn none() -> Self {
        Self::Known(Vec::new())
    }

    /// Parses the group for our product token, else the one for `*`.
    fn parse(text: &str) -> Self {
        let (mut own, mut others) = (None, Vec::new());
        let (mut for_us, mut for_all, mut in_names) = (false, false, false);
        let lines = text.trim_start_matches('\u{feff}').lines();
        for line in lines {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "user-agent" => {
                    if !in_names {
                        (for_us, for_all) = (false, false);
                    }
                    in_names = true;
                    let name = value.split(['/', ' ']).next().unwrap_or_default();
                    if name.eq_ignore_ascii_case(AGENT) {
                        for_us = true;
                        own.get_or_insert_with(Vec::new);
                    }
                    for_all |= name == "*";
                }
                "allow" | "disallow" => {
                    in_names = false;
                    let short = !value.is_empty() && value.len() <= MAX_PATTERN;
                    let rule = (utf8_percent_encode(value, CONTROLS).to_string(), key == "allow");
                    let own = own.as_mut().filter(|own| for_us && own.len() < MAX_RULES);
                    if let Some(own) = own.filter(|_| short) {
                        own.push(rule.clone());
                    }
                    if for_all && short && others.len() < MAX_RULES {
                        others.push(rule);
                    }
                }
                _ => {}
            }
        }
        Self::Known(own.unwrap_or(others))
    }

    /// Whether a path is allowed; `None` if unknown. The longest match wins, and of
    /// equally long ones the one that allows.
    fn allow(&self, path: &str) -> Option<bool> {
        let Self::Known(rules) = self else { return None };
        let matching = rules.iter().filter(|(pattern, _)| matches(pattern, path));
        let longest = matching.max_by_key(|(pattern, allow)| (pattern.len(), *allow));
        Some(path == "/robots.txt" || longest.is_none_or(|(_, allow)| *allow))
    }
}

/// Whether a pattern matches the beginning of a path. `*` matches anything, and a final
/// `$` the end.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, whole) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else { return false };
    let mut last_was_star = false;
    let parts: Vec<&str> = parts.collect();
    for (at, part) in parts.iter().enumerate() {
        // With `$`, the last part must match at the end of the path.
        if whole && at + 1 == parts.len() {
            return rest.ends_with(part);
        }
        let Some(found) = rest.find(part) else { return false };
        rest = &rest[found + part.len()..];
        last_was_star = true;
    }
    !whole || rest.is_empty() || (last_was_star && parts.last().is_some_and(|part| part.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_the_standard_says() {
        for (pattern, path, expected) in [
            ("/", "/x", true),
            ("/fish", "/fish.html", true),
            ("/fish", "/Fish", false),
            ("/fish*", "/fish", true),
            ("/*.php", "/a/b.php?x", true),
            ("/*.php$", "/a/b.php", true),
            ("/*.php$", "/a/b.php?x", false),
            ("/*.php$", "/a.php/b.php", true),
            ("/a*b*c", "/axxbxxcxx", true),
            ("/a*b*c", "/axxcxxb", false),
            ("/x$", "/x", true),
            ("/x$", "/xy", false),
            ("*", "/anything", true),
            ("/*$", "/anything", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn our_own_rules_come_before_those_for_all() {
        let text = "\u{feff}User-agent: *\nDisallow: /\n\nUser-Agent: other\nUser-agent: Windlass/1\n\
                    Disallow: /private # no\nAllow: /private/open\n\nUser-agent: third\nDisallow: /x\n";
        let rules = Rules::parse(text);
        assert_eq!(rules.allow("/"), Some(true));
        assert_eq!(rules.allow("/x"), Some(true));
        assert_eq!(rules.allow("/private/a"), Some(false));
        assert_eq!(rules.allow("/private/open/a"), Some(true));
        let rules = Rules::parse("user-agent: *\ndisallow: /a\nallow: /a\ndisallow:\n");
        assert_eq!(rules.allow("/a"), Some(true));
        assert_eq!(Rules::parse("nonsense").allow("/a"), Some(true));
        assert_eq!(Rules::Unknown.allow("/a"), None);
    }
}
