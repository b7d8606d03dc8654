//! Parameters of a path and its operations, with their styles.

use super::api::Param;
use super::reference::{At, Files};
use crate::rest::media;
use crate::rest::plan::{Location, Style};
use crate::rest::request::{names_of, parts};

/// Maximum number of parameters of an operation.
pub(super) const MAX_PARAMETERS: usize = 500;

/// The parameters of an operation. Its own override those of the path with the same name
/// and location. A name in the path template that nobody describes becomes a string
/// parameter.
pub(super) fn collect<'d>(
    files: &'d Files,
    path: &'d str,
    levels: [At<'d>; 2],
    notes: &mut Vec<String>,
    read: impl Fn(At<'d>, &mut Vec<String>) -> Option<Param<'d>>,
) -> Vec<Param<'d>> {
    let mut all: Vec<Param<'d>> = Vec::new();
    for at in levels.into_iter().flat_map(|level| level.list("parameters")) {
        if all.len() >= MAX_PARAMETERS {
            notes.push(format!("there are more than {MAX_PARAMETERS} parameters"));
            break;
        }
        let Some(at) = files.follow(at) else {
            notes.push("a parameter cannot be found: its reference leads to nothing".to_owned());
            continue;
        };
        let Some(parameter) = read(at, notes) else { continue };
        let same =
            |other: &Param<'_>| other.name == parameter.name && other.place == parameter.place;
        match all.iter().position(same) {
            Some(known) => all[known] = parameter,
            None => all.push(parameter),
        }
    }
    fit(path, &mut all, notes);
    all
}

/// Fits parameters to the path template: a name that occurs only after `?` is a query
/// parameter, whatever the document says.
fn fit<'d>(path: &'d str, all: &mut Vec<Param<'d>>, notes: &mut Vec<String>) {
    let mut names = names_in(path);
    names.extend(mixed_in(path));
    let pairs = pairs_in(path);
    let is_known = |all: &[Param<'_>], place, name: &str| {
        all.iter().any(|one| one.place == place && one.name == name)
    };
    for (key, name) in &pairs {
        let wanted = |one: &&mut Param<'_>| one.place == Location::Path && one.name == *name;
        if names.contains(name) || is_known(all, Location::Query, key) {
            continue;
        }
        if let Some(own) = all.iter_mut().find(wanted) {
            (own.name, own.place) = ((*key).to_owned(), Location::Query);
            own.style = own.place.style();
            own.explode = own.style.explodes();
        }
    }
    all.retain(|parameter| {
        let used = parameter.place != Location::Path || names.contains(&parameter.name.as_str());
        if !used {
            notes.push(format!("the path has no place for the parameter `{}`", parameter.name));
        }
        used
    });
    let pairs = pairs.into_iter().filter(|(_, name)| !names.contains(name)).map(|(key, name)| {
        let known = [key, name].into_iter().find(|one| is_known(all, Location::Query, one));
        (known.unwrap_or(key), Location::Query)
    });
    let wanted: Vec<(&str, Location)> = pairs.collect();
    let in_path = names.iter().map(|name| (*name, Location::Path));
    for (name, place) in in_path.chain(wanted) {
        if !is_known(all, place, name) {
            notes.push(format!("the parameter `{name}` of the path is not described"));
            all.push(undescribed(name, place));
        }
    }
}

/// The distinct names in braces, except those in the query.
pub(crate) fn names_in(path: &str) -> Vec<&str> {
    once(names_of(parts(path).0))
}

/// Query parameters in a path template: `key={name}`.
pub(crate) fn pairs_in(path: &str) -> Vec<(&str, &str)> {
    let (_, pairs) = parts(path);
    pairs.filter_map(whole).collect()
}

fn whole(pair: &str) -> Option<(&str, &str)> {
    let (key, value) = pair.split_once('=')?;
    let name = value.strip_prefix('{')?.strip_suffix('}')?;
    (!key.contains('{') && !name.contains(['{', '}'])).then_some((key, name))
}

/// Names in a query that are only part of a value.
fn mixed_in(path: &str) -> Vec<&str> {
    let (_, pairs) = parts(path);
    once(pairs.filter(|pair| whole(pair).is_none()).flat_map(names_of))
}

fn once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    names.for_each(|name| {
        if !all.contains(&name) {
            all.push(name);
        }
    });
    all
}

fn undescribed<'d>(name: &str, place: Location) -> Param<'d> {
    Param {
        name: name.to_owned(),
        place,
        style: place.style(),
        explode: place.style().explodes(),
        allow_reserved: false,
        json: false,
        required: true,
        description: "",
        schema: None,
    }
}

/// A parameter of OpenAPI 3.
pub(super) fn openapi<'d>(
    files: &'d Files,
    at: At<'d>,
    notes: &mut Vec<String>,
) -> Option<Param<'d>> {
    let (name, place) = name_and_place(at, notes)?;
    let style = match at.text("style") {
        None => place.style(),
        Some(written) => {
            Style::from_name(written).filter(|style| fits(*style, place)).unwrap_or_else(|| {
                notes.push(format!(
                    "the style `{written}` of the parameter `{name}` is not for a {}",
                    place.name()
                ));
                place.style()
            })
        }
    };
    // `content` instead of `schema`: a single media type, sent as text.
    let content = at.map("content").next();
    let content_schema = content.and_then(|(_, media)| files.follow(media)?.get("schema"));
    let json = content.is_some_and(|(kind, _)| media::is_json(kind) || kind == "*/*");
    Some(Param {
        place,
        style,
        explode: at.flag("explode").unwrap_or_else(|| style.explodes()),
        allow_reserved: at.flag("allowReserved").unwrap_or_default(),
        json,
        required: place == Location::Path || at.flag("required").unwrap_or_default(),
        description: at.text("description").unwrap_or_default(),
        schema: at.get("schema").or(content_schema),
        name,
    })
}

/// A Swagger 2.0 parameter outside a body; it is its own schema.
pub(super) fn swagger<'d>(at: At<'d>, notes: &mut Vec<String>) -> Option<Param<'d>> {
    let (name, place) = name_and_place(at, notes)?;
    let (style, explode) = collection(at, place);
    Some(Param {
        place,
        style,
        explode,
        allow_reserved: false,
        json: false,
        required: place == Location::Path || at.flag("required").unwrap_or_default(),
        description: at.text("description").unwrap_or_default(),
        // Some documents have a `schema`, as in OpenAPI 3.
        schema: Some(at.get("schema").unwrap_or(at)),
        name,
    })
}

/// Converts Swagger's `collectionFormat` to a style.
pub(super) fn collection(at: At<'_>, place: Location) -> (Style, bool) {
    let format = at.text("collectionFormat").or_else(|| at.get("items")?.text("collectionFormat"));
    match format {
        Some("multi") => (Style::Form, true),
        Some("ssv") => (Style::SpaceDelimited, false),
        Some("tsv") => (Style::TabDelimited, false),
        Some("pipes") => (Style::PipeDelimited, false),
        _ => (place.style(), false),
    }
}

fn name_and_place(at: At<'_>, notes: &mut Vec<String>) -> Option<(String, Location)> {
    let name = at.text("name").map(str::trim).unwrap_or_default();
    let place = match at.text("in") {
        Some("path") => Location::Path,
        Some("query") => Location::Query,
        Some("header") => Location::Header,
        Some("cookie") => Location::Cookie,
        Some("body" | "formData") => return None,
        other => {
            notes.push(format!("a parameter in `{}` is left out", other.unwrap_or("nothing")));
            return None;
        }
    };
    if name.is_empty() {
        notes.push("a parameter without a name is left out".to_owned());
        return None;
    }
    Some((name.to_owned(), place))
}

fn fits(style: Style, place: Location) -> bool {
    match place {
        Location::Path => matches!(style, Style::Matrix | Style::Label | Style::Simple),
        Location::Query => matches!(
            style,
            Style::Form | Style::SpaceDelimited | Style::PipeDelimited | Style::DeepObject
        ),
        Location::Header => style == Style::Simple,
        Location::Cookie => style == Style::Form,
    }
}
