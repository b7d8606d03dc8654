//! Media types: which of several to use (content negotiation), and how to handle each.

pub(crate) const JSON: &str = "application/json";
pub(crate) const URLENCODED: &str = "application/x-www-form-urlencoded";
pub(crate) const MULTIPART: &str = "multipart/form-data";

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    UrlEncoded,
    Multipart,
    /// Text that the caller writes: plain text, XML, CSV, JSON lines …
    Text,
    Bytes,
}

/// The type in lower case, without parameters.
pub(crate) fn plain(media_type: &str) -> String {
    let plain = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if plain.is_empty() || plain == "*/*" || plain == "application/*" {
        JSON.to_owned()
    } else {
        plain
    }
}

/// The type as it is sent: with parameters, which an API may need (`;
/// odata=minimalmetadata`), except those that only the sender knows.
pub(crate) fn written(media_type: &str) -> String {
    let mut written = plain(media_type);
    for parameter in parameters(media_type) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let ours = name.eq_ignore_ascii_case("boundary")
            || name.eq_ignore_ascii_case("charset")
                && !unquoted(value).eq_ignore_ascii_case("utf-8")
            || name.eq_ignore_ascii_case("q");
        let fits = parameter.chars().all(|c| c.is_ascii_graphic() || c == ' ');
        if !parameter.is_empty() && !ours && fits {
            written.push_str("; ");
            written.push_str(parameter);
        }
    }
    written
}

pub(crate) fn form(media_type: &str) -> Form {
    match plain(media_type).as_str() {
        kind if is_json(kind) => Form::Json,
        URLENCODED => Form::UrlEncoded,
        kind if kind.starts_with("multipart/") => Form::Multipart,
        kind if is_text(kind) => Form::Text,
        _ => Form::Bytes,
    }
}

pub(crate) fn is_json(media_type: &str) -> bool {
    let kind = plain(media_type);
    kind == JSON || kind == "text/json" || kind.ends_with("+json") || kind.ends_with("/json")
}

pub(crate) fn is_form(media_type: &str) -> bool {
    matches!(form(media_type), Form::UrlEncoded | Form::Multipart)
}

fn is_text(kind: &str) -> bool {
    const TEXTS: [&str; 13] = [
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/jsonlines",
        "application/x-jsonlines",
        "application/graphql",
        "application/javascript",
        "application/sql",
        "application/sparql-query",
        "application/toml",
    ];
    kind.starts_with("text/")
        || kind.ends_with("+xml")
        || kind.ends_with("+yaml")
        || TEXTS.contains(&kind)
}

/// Chooses the request media type that models write best.
pub(crate) fn choose<'a>(media_types: impl Iterator<Item = &'a str>) -> Option<usize> {
    let rank = |media_type: &str| match form(media_type) {
        Form::Json if plain(media_type) == JSON => 0,
        Form::Json if !is_patch(media_type) => 1,
        Form::Json => 2,
        Form::UrlEncoded => 3,
        Form::Multipart => 4,
        Form::Text if plain(media_type) == "text/plain" => 5,
        Form::Text => 6,
        Form::Bytes => 7,
    };
    media_types.enumerate().min_by_key(|(at, kind)| (rank(kind), *at)).map(|(at, _)| at)
}

/// A patch document is harder to write than the resource itself.
fn is_patch(media_type: &str) -> bool {
    plain(media_type) == "application/json-patch+json"
}

/// The `charset` parameter in lower case.
pub(crate) fn charset(media_type: &str) -> Option<String> {
    parameters(media_type).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let charset = name.trim().eq_ignore_ascii_case("charset");
        charset.then(|| unquoted(value).to_ascii_lowercase())
    })
}

/// The parameters. A semicolon in quotation marks is part of a value.
fn parameters(media_type: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    let ends = move |c: char| {
        quoted ^= c == '"' && !escaped;
        escaped = quoted && c == '\\' && !escaped;
        c == ';' && !quoted
    };
    media_type.split(ends).skip(1).map(str::trim)
}

fn unquoted(value: &str) -> &str {
    value.trim().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::{charset, written};

    #[test]
    fn a_charset_is_found_beside_quoted_parameters() {
        let said = r#"text/html; title="; charset=x"; Charset="Latin1""#;
        assert_eq!(charset(said).as_deref(), Some("latin1"));
        assert_eq!(charset("text/html; title=\"charset=x"), None);
    }

    #[test]
    fn parameters_that_mean_something_are_kept() {
        for (said, sent) in [
            ("application/json; odata=minimalmetadata", "application/json; odata=minimalmetadata"),
            (
                "Application/JSON;odata=none;streaming=true",
                "application/json; odata=none; streaming=true",
            ),
            ("application/json; charset=utf-8", "application/json; charset=utf-8"),
            (r#"text/csv; charset="UTF-8""#, r#"text/csv; charset="UTF-8""#),
            (
                r#"application/json;profile="a;b;q=1 \";c";q=1"#,
                r#"application/json; profile="a;b;q=1 \";c""#,
            ),
            ("text/plain; charset=latin1", "text/plain"),
            ("multipart/form-data; boundary=x", "multipart/form-data"),
            ("*/*; q=0.5", "application/json"),
            ("application/json; x=a\r\nHost: b", "application/json"),
        ] {
            assert_eq!(written(said), sent);
        }
    }
}
