//! Expansion of `${VARIABLE}` in server definitions, in the syntax of Claude Code and
//! Cursor, and of `${input:NAME}`, in that of VS Code.
//!
//! Variables are expanded only in definitions that the operator wrote into a file. In a
//! tenant's own definition they are taken literally, since it must not read this process's
//! environment; inputs are credentials, of whoever owns the definition.

use windlass::{Error, ErrorKind};

/// What stands for a name in a text.
pub(super) enum Expansion {
    Value(String),
    /// The name as it is written.
    Literal,
    /// Nothing, unless the text has a default.
    Missing,
}

/// What the name of an input begins with.
pub(super) const INPUT: &str = "input:";

/// Replaces each `${NAME}`, `${env:NAME}`, `${NAME:-default}` and `${input:NAME}`.
pub(super) fn expand(text: &str, find: impl Fn(&str) -> Expansion) -> Result<String, Error> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, after) = rest.split_at(start);
        expanded.push_str(before);
        let Some(end) = after.find('}') else {
            expanded.push_str(after);
            return Ok(expanded);
        };
        let (name, default) = match after[2..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&after[2..end], None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        match (find(name), default) {
            (Expansion::Value(value), _) => expanded.push_str(&value),
            (Expansion::Literal, _) => expanded.push_str(&after[..=end]),
            (Expansion::Missing, Some(default)) => expanded.push_str(default),
            (Expansion::Missing, None) => {
                let why = match name.strip_prefix(INPUT) {
                    Some(input) => format!("there is no input `{input}`, which the server needs"),
                    None => format!("the environment has no `{name}`, which the server needs"),
                };
                return Err(Error::new(ErrorKind::InvalidDefinition, why));
            }
        }
        rest = &after[end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str) -> Expansion {
        match name {
            "KEY" | "input:api-key" => Expansion::Value("${KEY}".to_owned()),
            "theirs" => Expansion::Literal,
            _ => Expansion::Missing,
        }
    }

    #[test]
    fn variables_and_defaults_are_put_in_once() {
        for (text, expanded) in [
            ("plain $KEY {KEY}", "plain $KEY {KEY}"),
            ("a ${KEY} b", "a ${KEY} b"),
            ("${env:KEY}${OTHER:-x}", "${KEY}x"),
            ("${OTHER:-}", ""),
            ("open ${KEY", "open ${KEY"),
            ("Bearer ${input:api-key}", "Bearer ${KEY}"),
            ("a ${theirs} ${env:theirs}${KEY}", "a ${theirs} ${env:theirs}${KEY}"),
        ] {
            assert_eq!(expand(text, known).unwrap(), expanded, "{text}");
        }
        let error = expand("${OTHER}", known).unwrap_err();
        assert!(error.message().contains("`OTHER`"), "{error}");
        let error = expand("${input:OTHER}", known).unwrap_err();
        assert!(error.message().contains("no input `OTHER`"), "{error}");
    }
}
