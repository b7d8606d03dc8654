//! Extracts metadata from an agent's answer, by JSON pointer or regular expression.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};
use windlass::{Error, ErrorKind};

/// Size limit of a compiled regular expression.
const MAX_PATTERN: usize = 64 * 1024;

/// The extraction rules, by name.
pub(super) struct Extract(Vec<(String, How)>);

enum How {
    /// A JSON pointer into the JSON in the answer.
    Pointer(String),
    /// A regular expression: its first group, or else the whole match.
    Pattern(Regex),
}

impl Extract {
    pub(super) fn new(facts: &BTreeMap<String, String>) -> Result<Self, Error> {
        let read = |(name, how): (&String, &String)| {
            if how.starts_with('/') {
                return Ok((name.clone(), How::Pointer(how.clone())));
            }
            let pattern =
                RegexBuilder::new(how).size_limit(MAX_PATTERN).build().map_err(|why| {
                    let why = format!("the pattern of `{name}` in `extract` is wrong: {why}");
                    Error::new(ErrorKind::InvalidDefinition, why)
                })?;
            Ok((name.clone(), How::Pattern(pattern)))
        };
        facts.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The metadata found in a text.
    pub(super) fn from(&self, text: &str) -> Map<String, Value> {
        let json = if self.0.is_empty() { None } else { json_in(text) };
        let found = self.0.iter().filter_map(|(name, how)| {
            let value = match how {
                How::Pointer(pointer) => json.as_ref()?.pointer(pointer)?.clone(),
                How::Pattern(pattern) => {
                    let found = pattern.captures(text)?;
                    found.get(1).or_else(|| found.get(0))?.as_str().into()
                }
            };
            Some((name.clone(), value))
        });
        found.collect()
    }
}

/// The JSON in a text: all of it, or what is between the first and the last brace.
fn json_in(text: &str) -> Option<Value> {
    let whole = serde_json::from_str(text).ok();
    whole.or_else(|| {
        let (from, to) = (text.find('{')?, text.rfind('}')?);
        serde_json::from_str(text.get(from..=to)?).ok()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn facts_come_from_json_and_from_patterns() {
        let facts = [("score", "/score"), ("level", r"level: (\w+)"), ("none", "/none")];
        let facts = facts.map(|(name, how)| (name.to_owned(), how.to_owned())).into();
        let extract = Extract::new(&facts).unwrap();
        let found = extract.from("So:\n```json\n{\"score\": 7}\n```\nlevel: high");
        assert_eq!(Value::Object(found), json!({"score": 7, "level": "high"}));
        assert!(Extract::new(&[("a".to_owned(), "(".to_owned())].into()).is_err());
    }
}
