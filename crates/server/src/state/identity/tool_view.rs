//! [`ToolView`]: which of a tenant's tools, prompts and resources the bearer of a key
//! sees.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::{Error, ErrorKind};

/// How many patterns a view has at most, and how long each is.
const MAX_PATTERNS: usize = 100;
const MAX_PATTERN: usize = 200;

/// Names of tools, in which `*` stands for anything: `files/*`, `calculator`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ToolView(Arc<[String]>);

impl ToolView {
    /// The view of these patterns; none where there are none.
    pub(crate) fn new(patterns: Vec<String>) -> Result<Option<Self>, Error> {
        let wrong = |why: String| Err(Error::new(ErrorKind::InvalidArguments, why));
        if patterns.len() > MAX_PATTERNS {
            return wrong(format!("a view has at most {MAX_PATTERNS} patterns"));
        }
        let is_bad = |pattern: &&String| {
            pattern.is_empty()
                || pattern.chars().count() > MAX_PATTERN
                || pattern.chars().any(|c| c.is_control() || c.is_whitespace())
        };
        if let Some(bad) = patterns.iter().find(is_bad) {
            return wrong(format!("`{}` is no pattern of names", bad.escape_debug()));
        }
        Ok((!patterns.is_empty()).then(|| Self(patterns.into())))
    }

    /// Whether something of this name is in it.
    pub(crate) fn shows(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| fits(pattern, name))
    }

    /// Whether everything of a provider is in it.
    pub(crate) fn shows_all_of(&self, provider: &str) -> bool {
        // Only `*` matches names that cannot be written as a pattern.
        self.shows(&format!("{provider}/\0"))
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, is_shown) in [
            ("files/*", "files/read", true),
            ("files/*", "other/read", false),
            ("*", "anything", true),
            ("calculator", "calculator", true),
            ("calculator", "calculators", false),
            ("*/read_*", "files/read_text", true),
            ("*/read_*", "files/write_text", false),
            ("a*b", "ab", true),
            ("a*ba", "aba", true),
            ("ab*ba", "aba", false),
            ("a*b*c", "a-b-b-c", true),
        ] {
            let view = ToolView::new(vec![pattern.to_owned()]).unwrap().unwrap();
            assert_eq!(view.shows(name), is_shown, "{pattern} {name}");
        }
        assert_eq!(ToolView::new(Vec::new()).unwrap(), None);
        for (pattern, is_all) in
            [("files/*", true), ("f*", true), ("*", true), ("files/read", false), ("*/r*", false)]
        {
            let view = ToolView::new(vec![pattern.to_owned()]).unwrap().unwrap();
            assert_eq!(view.shows_all_of("files"), is_all, "{pattern}");
        }
        for bad in ["", "a b", "a\n"] {
            assert!(ToolView::new(vec![bad.to_owned()]).is_err(), "{bad:?}");
        }
    }
}
