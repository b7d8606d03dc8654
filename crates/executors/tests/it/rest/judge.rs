//! Independent oracle: reads a document and says whether a request conforms to it.
//!
//! It uses nothing of the importer: references, parameters, styles and bodies are
//! interpreted again, from the raw document and the raw request, and values are validated
//! against the document's own schemas. Three interpretations are shared with the importer
//! on purpose, because they concern documents that contradict themselves: `oneOf` means
//! `anyOf`, enum values have the type of their schema, and `readOnly` properties are not
//! part of a request.

mod body;
mod coerce;
mod document;
mod parameter;
mod schema;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::rc::Rc;

use jsonschema::Validator;
use serde_json::{Value, json};
use windlass_executors::rest::Preview;

use self::document::decode;
use self::parameter::{is_ignored, path_values};

pub(crate) struct Judge {
    files: HashMap<String, Value>,
    /// By the place of the schema: many requests ask for the same.
    validators: RefCell<HashMap<usize, Rc<Validator>>>,
    /// Patterns that were tried, and whether they can be read.
    patterns: RefCell<HashMap<String, bool>>,
}

impl Judge {
    /// Reads a document and, where it has some, the files below its folder.
    pub(crate) fn new(path: &Path, text: &str) -> Self {
        let files = document::load(path, text);
        Self { files, validators: RefCell::default(), patterns: RefCell::default() }
    }

    /// Everything that is wrong with a request for an operation (`GET /pets`).
    pub(crate) fn faults(&self, operation: &str, request: &Preview) -> Vec<String> {
        let (method, template) = operation.split_once(' ').unwrap();
        let mut faults = Vec::new();
        let root = self.root();
        let item = root
            .get("paths")
            .and_then(|paths| paths.get(template))
            .map(|item| self.follow(item))
            .unwrap();
        let spot = self.follow(item.get(&method.to_lowercase()).unwrap());
        if request.method != method {
            faults.push(format!("the method is {}", request.method));
        }
        let rest = request.url.strip_prefix("https://judged.example/base").unwrap_or("?outside");
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut query: Vec<(String, String)> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decode(name), value.to_owned()))
            .collect();
        if let Some((_, fixed)) = template.split('#').next().unwrap().split_once('?') {
            query.retain(|(name, _)| !fixed.contains(name.as_str()));
        }
        let values = path_values(template.split(['?', '#']).next().unwrap(), path);
        let mut seen = BTreeMap::new();
        for parameter in item.items("parameters").into_iter().chain(spot.items("parameters")) {
            let parameter = self.follow(parameter);
            let (Some(name), Some(place)) = (parameter.text("name"), parameter.text("in")) else {
                continue;
            };
            seen.insert((name.trim().to_owned(), place.to_owned()), parameter);
        }
        for ((name, place), parameter) in &seen {
            let raw = match place.as_str() {
                "path" => values.get(name.as_str()).cloned().map(|value| vec![value]),
                "query" => self.query_value(*parameter, name, &mut query),
                "header" => request
                    .headers
                    .iter()
                    .find(|(own, _)| own.eq_ignore_ascii_case(name))
                    .map(|(_, value)| vec![value.clone()]),
                _ => continue,
            };
            let needed =
                parameter.value.get("required") == Some(&json!(true)) && !is_ignored(place, name);
            match raw {
                None if needed
                    && (place != "path" || template.contains(&format!("{{{name}}}"))) =>
                {
                    faults.push(format!("the parameter {name} in {place} is missing"));
                }
                None => {}
                Some(raw) => faults.extend(
                    self.check(*parameter, place, &raw)
                        .map(|why| format!("{name} in {place}: {why}")),
                ),
            }
        }
        faults.extend(query.iter().map(|(name, _)| format!("{name} is no parameter of the query")));
        self.check_body(spot, item, request, &mut faults);
        faults
    }
}
