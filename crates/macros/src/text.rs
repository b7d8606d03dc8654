//! Rules for names, durations and doc comments.
//!
//! The rules for names and durations repeat the engine's: a macro cannot call
//! the crate that it generates code for, and the compiler should find mistakes
//! before registration does.

use std::time::Duration;

use syn::{Attribute, Expr, ExprLit, Lit, Meta, MetaNameValue};

/// As in the engine's `value/name.rs`.
const MAX_TOOL_NAME: usize = 128;
/// As in the engine's `value/duration.rs`.
const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);

/// Checks a tool's name.
pub(crate) fn check_tool_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a tool name is empty".to_owned());
    }
    if name.chars().count() > MAX_TOOL_NAME {
        return Err(format!("a tool name has at most {MAX_TOOL_NAME} characters"));
    }
    match name.chars().find(|&c| !(c.is_alphanumeric() || "_-./:".contains(c))) {
        Some(bad) => {
            Err(format!("a tool name cannot have a {bad:?}; use letters, digits and _ - . / :"))
        }
        None => Ok(()),
    }
}

/// Parses `30s`, `500ms`, `2m`, `1h`, or a bare number of seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; write 30s, 500ms, 2m or 1h");
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let scale = match unit.trim() {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    match Duration::try_from_secs_f64(number * scale) {
        Ok(duration) if !duration.is_zero() && duration <= MAX_DURATION => Ok(duration),
        _ => Err(format!("`{text}` is out of range; use more than 0 and at most a year")),
    }
}

/// The joined doc comments, without common indentation and surrounding empty
/// lines.
pub(crate) fn doc_comment(attributes: &[Attribute]) -> Option<String> {
    let written: Vec<String> = attributes.iter().filter_map(doc_text).collect();
    let lines: Vec<&str> = written.iter().flat_map(|text| text.split('\n')).collect();
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let shared = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(indentation)
        .min()
        .unwrap_or_default();
    let text: Vec<&str> =
        lines.iter().map(|line| line.get(shared..).unwrap_or_default().trim_end()).collect();
    let text = text.join("\n");
    let text = text.trim_matches('\n');
    (!text.is_empty()).then(|| text.to_owned())
}

/// The text of one `#[doc = "…"]`, without the leading stars of a `/** … */`
/// comment.
fn doc_text(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(MetaNameValue { path, value, .. }) = &attribute.meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = value else { return None };
    if !path.is_ident("doc") {
        return None;
    }
    let text = text.value();
    let mut lines: Vec<&str> = text.lines().collect();
    let is_block = lines.len() > 1;
    let starred = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with('*');
    if is_block && lines.iter().skip(1).all(starred) {
        for line in lines.iter_mut().skip(1) {
            let rest = line.trim_start();
            *line = rest.strip_prefix('*').unwrap_or(rest);
        }
    }
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn doc_comments_lose_their_indentation_only() {
        let attributes: Vec<Attribute> = vec![
            parse_quote!(#[doc = ""]),
            parse_quote!(#[doc = " Gets the weather.  "]),
            parse_quote!(#[inline]),
            parse_quote!(#[doc = ""]),
            parse_quote!(#[doc = "   - indented"]),
            parse_quote!(#[doc = ""]),
        ];
        assert_eq!(doc_comment(&attributes).unwrap(), "Gets the weather.\n\n  - indented");
        let block: Attribute =
            parse_quote!(#[doc = "\n     * Gets\n     *\n     * the weather.\n     "]);
        assert_eq!(doc_comment(&[block]).unwrap(), "Gets\n\nthe weather.");
        assert_eq!(doc_comment(&[parse_quote!(#[doc(hidden)])]), None);
        assert_eq!(doc_comment(&[parse_quote!(#[doc = "  "])]), None);
    }

    #[test]
    fn durations_and_names_follow_the_engine() {
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "fast", "-1s", "0", "1e9h", "3 weeks", "9000h"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        for good in ["get_weather", "天气", "a.b/c:d-e"] {
            assert_eq!(check_tool_name(good), Ok(()));
        }
        for bad in ["", "a b", "a\nb", "drop;table", &"x".repeat(129)] {
            assert!(check_tool_name(bad).is_err(), "{bad:?}");
        }
    }
}
