//! URLs of requests, safe against path traversal.
//!
//! A value in a path is exactly one segment, or an error. Percent-encoding alone does not
//! guarantee that: parsers treat `%2e%2e` as `..`, and many servers decode twice.

use percent_encoding::percent_decode_str;
use serde_json::Value;
use url::{Position, Url};
use windlass::{Error, ErrorKind};

use super::{encode, refused, style};
use crate::rest::plan::{Location, ParameterPlan, Plan};

/// The base URL of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    url: Url,
    /// Its path without a trailing slash.
    path: String,
}

impl Base {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if let Some((name, _)) = text.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
            let why = "has no value; import the document again with a base URL";
            return Err(format!("the variable `{name}` of the address {why}"));
        }
        let mut url = Url::parse(text).map_err(|_| {
            "it is not an absolute address; import the document again with a base URL".to_owned()
        })?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err("only http:// and https:// addresses can be called".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("credentials do not belong into an address".to_owned());
        }
        url.set_fragment(None);
        url.set_query(None);
        let path = url.path().trim_end_matches('/').to_owned();
        Ok(Self { url, path })
    }

    /// Resolves what a caller wrote: a path below the base, or a full URL below it.
    pub(crate) fn join(&self, text: &str) -> Result<Url, Error> {
        let outside = || refused("the `url` is not below the address of this tool".to_owned());
        if is_dots(text.split(['?', '#']).next().unwrap_or_default()) || text.contains('\\') {
            return Err(outside());
        }
        let mut base = self.url.clone();
        base.set_path(&format!("{}/", self.path));
        let relative = if text.contains("://") { text } else { text.trim_start_matches('/') };
        let url = base.join(relative).map_err(|_| outside())?;
        let below = url.path().strip_prefix(&self.path).is_some_and(|rest| rest.starts_with('/'));
        let plain = url.username().is_empty() && url.password().is_none();
        if url.origin() == self.url.origin() && below && plain { Ok(url) } else { Err(outside()) }
    }

    /// The URL of a path below the base.
    pub(super) fn with(&self, path: &Path, query: &[String]) -> Result<Url, Error> {
        let mut url = self.url.clone();
        let wanted = format!("{}{}", self.path, path.text);
        let wanted = if wanted.is_empty() { "/" } else { &wanted };
        url.set_path(wanted);
        let all: Vec<&str> =
            path.query.iter().map(String::as_str).chain(query.iter().map(String::as_str)).collect();
        if !all.is_empty() {
            url.set_query(Some(&all.join("&")));
        }
        // The parser removes `.` and `..`; a path that it changed is not the one that was
        // asked for.
        let below = url.path() == wanted
            && (self.path.is_empty()
                || url.path() == self.path
                || url.path().strip_prefix(self.path.as_str()).is_some_and(|r| r.starts_with('/')));
        let origin = ..Position::BeforePath;
        if !below || url[origin] != self.url[origin] {
            return Err(refused("the arguments lead out of the API's address".to_owned()));
        }
        Ok(url)
    }
}

/// A path with its arguments filled in, and the query pairs of its template.
pub(super) struct Path {
    text: String,
    query: Vec<String>,
}

/// Splits a template into path and query pairs. A fragment only serves to distinguish
/// operations with the same path.
pub(crate) fn parts(template: &str) -> (&str, impl Iterator<Item = &str>) {
    let template = template.split('#').next().unwrap_or_default();
    let (path, query) = template.split_once('?').unwrap_or((template, ""));
    (path, query.split('&').filter(|pair| !pair.is_empty()))
}

/// Fills a template.
pub(super) fn build<'a>(
    plan: &Plan,
    value_of: &dyn Fn(&ParameterPlan) -> Option<&'a Value>,
) -> Result<Path, Error> {
    let (template, pairs) = parts(&plan.path);
    let mut text = String::new();
    for segment in template.split('/').skip(usize::from(template.starts_with('/'))) {
        text.push('/');
        fill(segment, plan, value_of, &mut text)?;
    }
    if template.is_empty() {
        text.clear();
    }
    let mut query = Vec::new();
    // Constant pairs, and those that repeat a part of the path; a query parameter writes
    // its own pair.
    let in_path = |name: &str| {
        let known = |place: &ParameterPlan| place.location == Location::Path && place.name == name;
        plan.parameters.iter().any(known)
    };
    for pair in pairs.filter(|pair| names_of(pair).all(in_path)) {
        let mut written = String::new();
        fill(pair, plan, value_of, &mut written)?;
        query.push(written);
    }
    Ok(Path { text, query })
}

/// The names in braces.
pub(crate) fn names_of(template: &str) -> impl Iterator<Item = &str> {
    template.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0))
}

/// Fills one segment of a template.
fn fill<'a>(
    segment: &str,
    plan: &Plan,
    value_of: &dyn Fn(&ParameterPlan) -> Option<&'a Value>,
    filled: &mut String,
) -> Result<(), Error> {
    let start = filled.len();
    let mut rest = segment;
    let mut has_value = false;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        literal(before, filled);
        let place = (plan.parameters.iter())
            .find(|place| place.location == Location::Path && place.name == name)
            .ok_or_else(|| {
                let why = format!("nothing fills `{name}` in the path `{}`", plan.path);
                Error::new(ErrorKind::InvalidDefinition, why)
            })?;
        let value = value_of(place).ok_or_else(|| {
            refused(format!("`{}` is part of the path and cannot be left out", place.argument()))
        })?;
        filled.push_str(&written(place, value)?);
        has_value = true;
        rest = after;
    }
    literal(rest, filled);
    if has_value && is_dots(&filled[start..]) {
        return Err(refused("a part of the path is `.` or `..`".to_owned()));
    }
    Ok(())
}

/// A value as part of a segment.
fn written(place: &ParameterPlan, value: &Value) -> Result<String, Error> {
    let argument = place.argument();
    for text in style::texts(value) {
        if text.chars().any(char::is_control) || text.contains('\\') {
            return Err(refused(format!(
                "`{argument}` is part of the path and has a control character or a backslash"
            )));
        }
        if is_dots(&text) {
            return Err(refused(format!(
                "`{argument}` is part of the path and cannot be `{text}`"
            )));
        }
    }
    let text = style::path(place, value, |text| encode(text, false));
    if text.is_empty() {
        return Err(refused(format!("`{argument}` is part of the path and cannot be empty")));
    }
    Ok(text)
}

/// Whether a text is `.` or `..`, even percent-encoded once or twice.
fn is_dots(text: &str) -> bool {
    if !text.contains(['.', '%']) {
        return false;
    }
    let once = percent_decode_str(text).decode_utf8_lossy();
    let twice = percent_decode_str(&once).decode_utf8_lossy();
    [text, &once, &twice].iter().any(|text| {
        // Some servers treat `..;x` as `..`, and all treat a slash as a separator.
        text.split(['/', ';']).any(|part| matches!(part, "." | ".."))
    })
}

/// Percent-encodes literal text of a template, and leaves existing escapes alone.
fn literal(text: &str, written: &mut String) {
    const PLAIN: &[u8] = b"-._~!$'()*,;:@%=&+";
    for c in text.chars() {
        let plain = u8::try_from(c).is_ok_and(|b| b.is_ascii_alphanumeric() || PLAIN.contains(&b));
        if plain {
            written.push(c);
        } else {
            written.push_str(&encode(c.encode_utf8(&mut [0; 4]), false));
        }
    }
}
