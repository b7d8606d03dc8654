//! Expansion of `${VARIABLE}` in server definitions, in the syntax of Claude Code and
//! Cursor.
//!
//! Only definitions that the operator wrote into a file are expanded. A tenant's own
//! definition is taken literally, since it must not read this process's environment.

use windlass::{Error, ErrorKind};

/// Replaces each `${NAME}`, `${env:NAME}` and `${NAME:-default}`.
pub(super) fn expand(
    text: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<String, Error> {
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
        match variable(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => expanded.push_str(&value),
            None => {
                let why = format!("the environment has no `{name}`, which the server needs");
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

    fn known(name: &str) -> Option<String> {
        (name == "KEY").then(|| "${KEY}".to_owned())
    }

    #[test]
    fn variables_and_defaults_are_put_in_once() {
        for (text, expanded) in [
            ("plain $KEY {KEY}", "plain $KEY {KEY}"),
            ("a ${KEY} b", "a ${KEY} b"),
            ("${env:KEY}${OTHER:-x}", "${KEY}x"),
            ("${OTHER:-}", ""),
            ("open ${KEY", "open ${KEY"),
        ] {
            assert_eq!(expand(text, known).unwrap(), expanded, "{text}");
        }
        let error = expand("${OTHER}", known).unwrap_err();
        assert!(error.message().contains("`OTHER`"), "{error}");
    }
}
