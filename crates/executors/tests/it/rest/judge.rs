//! Reads a document on its own, and says whether a request fits it.
//!
//! Nothing of the importer is used here: references, parameters, styles and
//! bodies are read again, from the raw document and from the raw request, and
//! values are checked by a JSON Schema validator against the document's own
//! schemas. Three readings are shared with the importer on purpose, because
//! they are about documents that contradict themselves: `oneOf` means `anyOf`,
//! enums have the type of their schema, and what `readOnly` names is no part of
//! a request.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::rc::Rc;

use jsonschema::Validator;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use windlass_executors::rest::Preview;

pub(crate) struct Judge {
    files: HashMap<String, Value>,
    /// By the place of the schema: many requests ask for the same.
    validators: RefCell<HashMap<usize, Rc<Validator>>>,
}

/// Where a value stands: in a file.
#[derive(Clone, Copy)]
struct Spot<'j> {
    file: &'j str,
    value: &'j Value,
}

impl<'j> Spot<'j> {
    fn get(self, key: &str) -> Option<Self> {
        Some(Self { value: self.value.get(key)?, ..self })
    }

    fn text(self, key: &str) -> Option<&'j str> {
        self.value.get(key)?.as_str()
    }

    fn items(self, key: &str) -> Vec<Self> {
        let items = self.value.get(key).and_then(Value::as_array);
        items.into_iter().flatten().map(|value| Self { value, ..self }).collect()
    }
}

impl Judge {
    /// Reads a document and, where it has some, the files below its folder.
    pub(crate) fn new(path: &Path, text: &str) -> Self {
        let mut files = HashMap::from([(String::new(), parse(text))]);
        let folder = path.parent().unwrap();
        let mut open = vec![String::new()];
        while let Some(name) = open.pop() {
            let mut found = Vec::new();
            outside(&files[&name], &mut found);
            for reference in found {
                let full = join(&name, &reference);
                if !files.contains_key(&full)
                    && let Ok(text) = std::fs::read_to_string(folder.join(&full))
                {
                    files.insert(full.clone(), parse(&text));
                    open.push(full);
                }
            }
        }
        Self { files, validators: RefCell::default() }
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

    fn root(&self) -> Spot<'_> {
        Spot { file: "", value: &self.files[""] }
    }

    fn is_swagger(&self) -> bool {
        self.root().value.get("swagger").is_some()
    }

    fn follow<'j>(&'j self, spot: Spot<'j>) -> Spot<'j> {
        let mut spot = spot;
        for _ in 0..40 {
            match spot.text("$ref").and_then(|reference| self.lookup(spot.file, reference)) {
                Some(next) => spot = next,
                None => return spot,
            }
        }
        spot
    }

    fn lookup<'j>(&'j self, file: &'j str, reference: &str) -> Option<Spot<'j>> {
        let (name, pointer) = reference.split_once('#').unwrap_or((reference, ""));
        let full = if name.is_empty() { file.to_owned() } else { join(file, name) };
        let (file, root) = self.files.get_key_value(&full)?;
        let value = root.pointer(&decode(pointer)).or_else(|| find_anchor(root, pointer))?;
        Some(Spot { file, value })
    }

    /// What the query says of a parameter; it is taken out of the list.
    fn query_value(
        &self,
        parameter: Spot<'_>,
        name: &str,
        query: &mut Vec<(String, String)>,
    ) -> Option<Vec<String>> {
        let style = parameter.text("style").unwrap_or("form");
        let explode = parameter
            .value
            .get("explode")
            .and_then(Value::as_bool)
            .unwrap_or(style == "form" || style == "deepObject");
        let schema = self.schema_of(parameter);
        let object = schema.is_some_and(|schema| self.is_type(schema, "object"))
            && parameter.get("content").is_none();
        let wanted = |own: &str| {
            if style == "deepObject" {
                own == name || own.starts_with(&format!("{name}["))
            } else if object && explode && style == "form" {
                // The names of the properties stand for themselves.
                own == name || self.has_property(schema, own)
            } else {
                own == name
            }
        };
        let found: Vec<(String, String)> =
            query.iter().filter(|(own, _)| wanted(own)).cloned().collect();
        query.retain(|(own, _)| !wanted(own));
        if found.is_empty() {
            return None;
        }
        Some(if object || style == "deepObject" {
            found.into_iter().flat_map(|(name, value)| [format!("\u{1}{name}"), value]).collect()
        } else {
            found.into_iter().map(|(_, value)| value).collect()
        })
    }

    fn has_property(&self, schema: Option<Spot<'_>>, name: &str) -> bool {
        let Some(schema) = schema.map(|schema| self.follow(schema)) else { return false };
        schema.get("properties").is_some_and(|all| all.get(name).is_some())
            || schema.value.get("additionalProperties").is_some_and(|more| *more != json!(false))
            || ["allOf", "oneOf", "anyOf"].iter().any(|word| {
                schema.items(word).into_iter().any(|one| self.has_property(Some(one), name))
            })
    }

    fn schema_of<'j>(&'j self, parameter: Spot<'j>) -> Option<Spot<'j>> {
        let content = || {
            let (_, media) = parameter.value.get("content")?.as_object()?.iter().next()?;
            Spot { file: parameter.file, value: media }.get("schema")
        };
        parameter.get("schema").or_else(content).or_else(|| self.is_swagger().then_some(parameter))
    }

    fn is_type(&self, schema: Spot<'_>, kind: &str) -> bool {
        let schema = self.follow(schema);
        let own = match schema.value.get("type") {
            Some(Value::Array(kinds)) => kinds.contains(&json!(kind)),
            Some(own) => own == kind,
            None => {
                kind == "object" && schema.get("properties").is_some()
                    || kind == "array" && schema.get("items").is_some()
            }
        };
        own || ["allOf", "oneOf", "anyOf"]
            .iter()
            .any(|word| schema.items(word).into_iter().any(|one| self.is_type(one, kind)))
    }

    /// What is wrong with the value of a parameter.
    fn check(&self, parameter: Spot<'_>, place: &str, raw: &[String]) -> Option<String> {
        let schema = self.schema_of(parameter)?;
        if parameter.get("content").is_some() {
            let value = serde_json::from_str(&decode(raw.first()?)).ok()?;
            return self.reject(schema, &value);
        }
        let style = parameter.text("style").unwrap_or(match place {
            "query" => "form",
            _ => "simple",
        });
        let explode =
            parameter.value.get("explode").and_then(Value::as_bool).unwrap_or(style == "form");
        let separator = match parameter.text("collectionFormat") {
            Some("ssv") => "%20",
            Some("tsv") => "%09",
            Some("pipes") => "%7C",
            _ => match style {
                "spaceDelimited" => "%20",
                "pipeDelimited" => "%7C",
                "label" if explode => ".",
                "matrix" if explode => ";",
                _ => ",",
            },
        };
        let first = raw.first()?.as_str();
        let name = parameter.text("name").unwrap_or_default();
        let first = match style {
            "label" => first.strip_prefix('.')?,
            "matrix" => first.strip_prefix(';')?,
            _ => first,
        };
        let first = if style == "matrix" && !explode
            || style == "matrix"
                && !self.is_type(schema, "array")
                && !self.is_type(schema, "object")
        {
            first.strip_prefix(&format!("{name}="))?
        } else {
            first
        };
        let decoded = |text: &str| if place == "header" { text.to_owned() } else { decode(text) };
        let mut candidates = vec![];
        if first.starts_with('\u{1}') {
            let whole = object_of(name, raw, first, separator, explode, &decoded);
            // A plain value stands behind the name itself.
            let plain = (raw.len() == 2).then(|| json!(decoded(&raw[1])));
            candidates.extend(whole.get(LIST).cloned());
            candidates.extend(plain);
            candidates.push(whole);
        }
        if self.is_type(schema, "array") {
            let parts: Vec<String> = if raw.len() > 1 {
                raw.iter().map(|one| decoded(one)).collect()
            } else {
                let strip = |part: &str| {
                    if style == "matrix" && explode {
                        part.strip_prefix(&format!("{name}=")).unwrap_or(part).to_owned()
                    } else {
                        part.to_owned()
                    }
                };
                first.split(separator).map(|part| decoded(&strip(part))).collect()
            };
            candidates.push(json!(parts));
            if first.is_empty() {
                candidates.push(json!([]));
            }
        }
        if self.is_type(schema, "object") {
            candidates.push(object_of(name, raw, first, separator, explode, &decoded));
        }
        candidates.push(json!(raw.iter().map(|one| decoded(one)).collect::<Vec<_>>().join("&")));
        candidates.push(json!(decoded(first)));
        let mut why = None;
        for candidate in candidates {
            let value = self.coerce(schema, candidate, 0);
            match self.reject(schema, &value) {
                None => return None,
                Some(reason) => why = why.or(Some(format!("{reason} in {value}"))),
            }
        }
        why
    }

    /// A text as the type that the schema wants.
    fn coerce(&self, schema: Spot<'_>, value: Value, depth: usize) -> Value {
        let schema = self.follow(schema);
        if depth > 12 {
            return value;
        }
        match value {
            Value::String(text) => {
                let number =
                    || serde_json::from_str::<Value>(&text).ok().filter(|value| !value.is_string());
                let is = |kind| self.is_type(schema, kind);
                if is("string") && !(is("integer") || is("number") || is("boolean")) {
                    return json!(text);
                }
                if is("integer") || is("number") || is("boolean") || is("object") || is("array") {
                    return number().unwrap_or(json!(text));
                }
                if is("string") { json!(text) } else { number().unwrap_or(json!(text)) }
            }
            Value::Array(items) => {
                let inner = schema.get("items").or_else(|| {
                    ["allOf", "oneOf", "anyOf"]
                        .iter()
                        .flat_map(|word| schema.items(word))
                        .find_map(|one| self.follow(one).get("items"))
                });
                items
                    .into_iter()
                    .map(|item| match inner {
                        Some(inner) => self.coerce(inner, item, depth + 1),
                        None => item,
                    })
                    .collect()
            }
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .map(|(name, value)| {
                        let inner = self.property(schema, &name, 0);
                        let value = match inner {
                            Some(inner) => self.coerce(inner, value, depth + 1),
                            None => value,
                        };
                        (name, value)
                    })
                    .collect(),
            ),
            other => other,
        }
    }

    fn property<'j>(&'j self, schema: Spot<'j>, name: &str, depth: usize) -> Option<Spot<'j>> {
        let schema = self.follow(schema);
        let own = schema.get("properties").and_then(|all| all.get(name));
        let own = own
            .or_else(|| schema.get("additionalProperties").filter(|more| more.value.is_object()));
        own.or_else(|| {
            if depth > 6 {
                return None;
            }
            ["allOf", "oneOf", "anyOf"]
                .iter()
                .flat_map(|word| schema.items(word))
                .find_map(|one| self.property(one, name, depth + 1))
        })
    }

    fn check_body(
        &self,
        spot: Spot<'_>,
        item: Spot<'_>,
        request: &Preview,
        faults: &mut Vec<String>,
    ) {
        let swagger: Vec<Spot<'_>> = item
            .items("parameters")
            .into_iter()
            .chain(spot.items("parameters"))
            .map(|one| self.follow(one))
            .collect();
        if self.is_swagger() {
            let body = swagger.iter().find(|one| one.text("in") == Some("body"));
            let form: Vec<_> =
                swagger.iter().filter(|one| one.text("in") == Some("formData")).collect();
            match (&request.body, body) {
                (Some((kind, _)), Some(_)) if !kind.contains("json") => {}
                (Some((_, bytes)), Some(body)) => {
                    faults.extend(self.check_json(body.get("schema"), bytes));
                }
                (None, Some(body)) if body.value.get("required") == Some(&json!(true)) => {
                    faults.push("the body is missing".into());
                }
                (Some((kind, bytes)), None) if !form.is_empty() => {
                    let sent = fields(kind, bytes);
                    for field in form {
                        let name = field.text("name").unwrap();
                        let given = sent.iter().any(|(own, _)| own == name);
                        if field.value.get("required") == Some(&json!(true)) && !given {
                            faults.push(format!("the field {name} is missing"));
                        }
                    }
                }
                (Some(_), None) => faults.push("there is a body".into()),
                _ => {}
            }
            return;
        }
        let Some(body) = spot.get("requestBody").map(|body| self.follow(body)) else {
            if request.body.is_some() {
                faults.push("there is a body".into());
            }
            return;
        };
        let Some((kind, bytes)) = &request.body else {
            let empty =
                body.value.get("content").and_then(Value::as_object).is_none_or(Map::is_empty);
            if body.value.get("required") == Some(&json!(true)) && !empty {
                faults.push("the body is missing".into());
            }
            return;
        };
        let plain = kind.split(';').next().unwrap_or_default();
        let content = body.value.get("content").and_then(Value::as_object);
        let media = content.into_iter().flatten().find(|(own, _)| {
            let own = own.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            own == plain
                || matches!(own.as_str(), "*/*" | "application/*") && plain == "application/json"
        });
        let Some((_, media)) = media else {
            faults.push(format!("the type {kind} is none of the body's"));
            return;
        };
        let media = self.follow(Spot { file: body.file, value: media });
        let Some(schema) = media.get("schema") else { return };
        if plain.ends_with("json") {
            faults.extend(self.check_json(Some(schema), bytes));
        } else if plain == "application/x-www-form-urlencoded" || plain == "multipart/form-data" {
            faults.extend(self.check_form(schema, media, kind, bytes));
        }
    }

    fn check_json(&self, schema: Option<Spot<'_>>, bytes: &[u8]) -> Option<String> {
        match serde_json::from_slice(bytes) {
            Ok(value) => self.reject(schema?, &value).map(|why| format!("the body: {why}")),
            Err(error) => Some(format!("the body is no JSON: {error}")),
        }
    }

    /// Plain fields of a form; those with a structure are put together again.
    fn check_form(
        &self,
        schema: Spot<'_>,
        media: Spot<'_>,
        kind: &str,
        bytes: &[u8],
    ) -> Option<String> {
        let mut object = Map::new();
        for (name, text) in fields(kind, bytes) {
            let base = name.split('[').next().unwrap_or_default().to_owned();
            let deep = media
                .get("encoding")
                .and_then(|all| all.get(&base))
                .and_then(|one| one.text("style"))
                == Some("deepObject");
            if deep && name.contains('[') {
                let keys: Vec<String> = name
                    .split('[')
                    .skip(1)
                    .map(|key| key.trim_end_matches(']').to_owned())
                    .collect();
                insert_deep(object.entry(base).or_insert(Value::Null), &keys, text);
                continue;
            }
            let property = self.property(schema, &name, 0);
            let is_list = property.is_some_and(|property| self.is_type(property, "array"))
                && !text.starts_with('[');
            match object.get_mut(&name) {
                Some(Value::Array(items)) => items.push(json!(text)),
                _ if is_list => drop(object.insert(name, json!([text]))),
                _ => drop(object.insert(name, json!(text))),
            }
        }
        let value = self.coerce(schema, Value::Object(object), 0);
        self.reject(schema, &value).map(|why| format!("the form: {why} in {value}"))
    }

    /// Why a value does not fit a schema of the document.
    fn reject(&self, schema: Spot<'_>, value: &Value) -> Option<String> {
        let validator = self.validator(schema);
        let error = validator.iter_errors(value).next()?;
        Some(format!("{error} at {}", error.instance_path()))
    }

    fn validator(&self, schema: Spot<'_>) -> Rc<Validator> {
        let place = std::ptr::from_ref(schema.value).addr();
        if let Some(known) = self.validators.borrow().get(&place) {
            return Rc::clone(known);
        }
        let mut defs = BTreeMap::new();
        let mut whole = self.plain(schema, &mut defs, 0);
        if let Value::Object(whole) = &mut whole {
            let defs = defs.into_iter().map(|(key, value)| (key, value.unwrap_or(json!({}))));
            whole.insert("$defs".into(), Value::Object(defs.collect()));
        }
        let built = jsonschema::options().offline().build(&whole);
        let built = built.unwrap_or_else(|error| panic!("the judge cannot read {whole}: {error}"));
        let validator = Rc::new(built);
        self.validators.borrow_mut().insert(place, Rc::clone(&validator));
        validator
    }

    /// A schema in the words of JSON Schema, with what it refers to in `$defs`.
    fn plain(
        &self,
        spot: Spot<'_>,
        defs: &mut BTreeMap<String, Option<Value>>,
        depth: usize,
    ) -> Value {
        let Value::Object(map) = spot.value else {
            return if spot.value.is_boolean() { spot.value.clone() } else { json!({}) };
        };
        if depth > 60 {
            return json!({});
        }
        let null = ["nullable", "x-nullable"].iter().any(|key| map.get(*key) == Some(&json!(true)));
        if let Some(reference) = spot.text("$ref") {
            let target = self.follow(spot);
            if target.text("$ref").is_some() {
                return json!({});
            }
            let _ = reference;
            let key = format!("{:x}", std::ptr::from_ref(target.value).addr());
            if !defs.contains_key(&key) {
                defs.insert(key.clone(), None);
                let made = self.plain(target, defs, depth + 1);
                defs.insert(key.clone(), Some(made));
            }
            let reference = json!({"$ref": format!("#/$defs/{key}")});
            return if null { json!({"anyOf": [reference, {"type": "null"}]}) } else { reference };
        }
        let binary = spot.text("type") == Some("file")
            || spot.text("format") == Some("binary")
            || spot.text("contentMediaType") == Some("application/octet-stream");
        if binary {
            return json!({});
        }
        let mut out = Map::new();
        let mut hidden = Vec::new();
        for (key, value) in map {
            let inner = Spot { value, ..spot };
            match key.as_str() {
                "properties" | "patternProperties" => {
                    let all = value.as_object().into_iter().flatten().filter(|(name, value)| {
                        let read_only = self.follow(Spot { value, ..spot }).value.get("readOnly")
                            == Some(&json!(true))
                            || value.get("readOnly") == Some(&json!(true));
                        if read_only {
                            hidden.push((*name).clone());
                        }
                        !read_only
                    });
                    let made: Map<String, Value> = all
                        .map(|(name, value)| {
                            (name.clone(), self.plain(Spot { value, ..spot }, defs, depth + 1))
                        })
                        .collect();
                    out.insert(key.clone(), Value::Object(made));
                }
                "allOf" | "prefixItems" => drop(
                    out.insert(
                        key.clone(),
                        inner
                            .value
                            .as_array()
                            .into_iter()
                            .flatten()
                            .map(|value| self.plain(Spot { value, ..spot }, defs, depth + 1))
                            .collect(),
                    ),
                ),
                "oneOf" | "anyOf" => {
                    let made: Vec<Value> = value
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|value| self.plain(Spot { value, ..spot }, defs, depth + 1))
                        .collect();
                    if !made.is_empty() {
                        let known =
                            out.get("allOf").and_then(Value::as_array).cloned().unwrap_or_default();
                        out.insert(
                            "allOf".into(),
                            Value::Array(
                                known.into_iter().chain([json!({"anyOf": made})]).collect(),
                            ),
                        );
                    }
                }
                "items" | "additionalProperties" | "not" | "contains"
                    if value.is_object() || value.is_boolean() =>
                {
                    drop(out.insert(key.clone(), self.plain(inner, defs, depth + 1)));
                }
                "minimum" | "maximum" => {
                    let exclusive =
                        if key == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" };
                    let key =
                        if map.get(exclusive) == Some(&json!(true)) { exclusive } else { key };
                    if value.is_number() {
                        out.insert(key.into(), value.clone());
                    }
                }
                "exclusiveMinimum" | "exclusiveMaximum" if value.is_number() => {
                    drop(out.insert(key.clone(), value.clone()));
                }
                "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
                | "maxProperties"
                    if value.is_u64() =>
                {
                    drop(out.insert(key.clone(), value.clone()));
                }
                "const" | "uniqueItems" if key == "const" || value.is_boolean() => {
                    drop(out.insert(key.clone(), value.clone()));
                }
                "pattern"
                    if value.as_str().is_some_and(|pattern| {
                        jsonschema::options().build(&json!({"pattern": pattern})).is_ok()
                    }) =>
                {
                    drop(out.insert(key.clone(), value.clone()));
                }
                "type" => {
                    const KNOWN: [&str; 7] =
                        ["string", "number", "integer", "boolean", "array", "object", "null"];
                    let mut kinds: Vec<&str> = match value {
                        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
                        Value::String(kind) => vec![kind],
                        _ => vec![],
                    };
                    if kinds.iter().all(|kind| KNOWN.contains(kind)) && !kinds.is_empty() {
                        if null && !kinds.contains(&"null") {
                            kinds.push("null");
                        }
                        out.insert(key.clone(), json!(kinds));
                    }
                }
                "enum" => {
                    let text = spot.text("type") == Some("string");
                    let mut values: Vec<Value> = value
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|value| match value {
                            Value::String(_) | Value::Null => value.clone(),
                            other if text => json!(other.to_string()),
                            other => other.clone(),
                        })
                        .collect();
                    if null {
                        values.push(Value::Null);
                    }
                    if !values.is_empty() {
                        out.insert(key.clone(), Value::Array(values));
                    }
                }
                _ => {}
            }
        }
        if let Some(Value::Array(names)) = map.get("required") {
            let kept: Vec<&Value> = names
                .iter()
                .filter(|name| {
                    name.as_str().is_some_and(|name| !hidden.iter().any(|own| own == name))
                })
                .collect();
            out.insert("required".into(), json!(kept));
        }
        Value::Object(out)
    }
}

/// `y` and `no` are texts since YAML 1.2.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! { strict_booleans: true }
}

fn parse(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) => serde_saphyr::from_str_with_options(text, options())
            .unwrap_or_else(|error| panic!("the judge cannot read this: {error}")),
    }
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn join(from: &str, reference: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in reference.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn outside(value: &Value, found: &mut Vec<String>) {
    if let Some(reference) = value.get("$ref").and_then(Value::as_str)
        && !reference.starts_with('#')
        && !reference.contains("://")
    {
        found.push(reference.split('#').next().unwrap().to_owned());
    }
    match value {
        Value::Object(map) => map.values().for_each(|value| outside(value, found)),
        Value::Array(items) => items.iter().for_each(|value| outside(value, found)),
        _ => {}
    }
}

fn find_anchor<'j>(value: &'j Value, name: &str) -> Option<&'j Value> {
    if value.get("$anchor").and_then(Value::as_str) == Some(name) {
        return Some(value);
    }
    match value {
        Value::Object(map) => map.values().find_map(|value| find_anchor(value, name)),
        Value::Array(items) => items.iter().find_map(|value| find_anchor(value, name)),
        _ => None,
    }
}

/// Headers that OpenAPI itself does not take as parameters, and those that
/// Windlass does not let arguments set.
fn is_ignored(place: &str, name: &str) -> bool {
    place == "header"
        && [
            "accept",
            "content-type",
            "authorization",
            "host",
            "content-length",
            "content-encoding",
            "cookie",
            "via",
            "expect",
        ]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own))
}

/// The raw texts in a path, by the names in its template.
fn path_values<'t>(template: &'t str, path: &str) -> HashMap<&'t str, String> {
    let mut values = HashMap::new();
    let templates: Vec<&str> = template.split('/').collect();
    let given: Vec<&str> = path.split('/').collect();
    // What stands before is the base.
    for (wanted, given) in templates.iter().rev().zip(given.iter().rev()) {
        let mut rest = *given;
        let mut wanted = *wanted;
        while let Some((before, after)) = wanted.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { break };
            rest = rest.strip_prefix(before).unwrap_or(rest);
            let literal = after.split('{').next().unwrap_or_default();
            let end = if literal.is_empty() {
                rest.len()
            } else {
                rest.find(literal).unwrap_or(rest.len())
            };
            values.insert(name, rest[..end].to_owned());
            rest = &rest[end..];
            wanted = after;
        }
    }
    values
}

/// Where a list is put that stands in brackets.
const LIST: &str = "\u{1}list";

/// An object from what a style made of it.
fn object_of(
    name: &str,
    raw: &[String],
    first: &str,
    separator: &str,
    explode: bool,
    decoded: &dyn Fn(&str) -> String,
) -> Value {
    let mut object = Value::Object(Map::new());
    if raw.first().is_some_and(|text| text.starts_with('\u{1}')) {
        for pair in raw.chunks(2) {
            let key = pair[0].trim_start_matches('\u{1}');
            match key.strip_prefix(name).filter(|rest| rest.starts_with('[')) {
                Some(keys) => {
                    let keys: Vec<String> = keys
                        .split('[')
                        .skip(1)
                        .map(|key| key.trim_end_matches(']').to_owned())
                        .collect();
                    let is_list = keys[0].is_empty() || keys[0].chars().all(|c| c.is_ascii_digit());
                    let inside = if is_list { &mut object[LIST] } else { &mut object };
                    insert_deep(inside, &keys, decoded(&pair[1]));
                }
                None if key == name => {
                    let parts: Vec<String> = pair[1].split(separator).map(decoded).collect();
                    for pair in parts.chunks(2).filter(|pair| pair.len() == 2) {
                        object[&pair[0]] = json!(pair[1]);
                    }
                }
                None => object[key] = json!(decoded(&pair[1])),
            }
        }
        return object;
    }
    let parts: Vec<&str> = first.split(separator).collect();
    if explode {
        for (key, value) in parts.iter().filter_map(|part| part.split_once('=')) {
            object[decoded(key)] = json!(decoded(value));
        }
    } else {
        for pair in parts.chunks(2).filter(|pair| pair.len() == 2) {
            object[decoded(pair[0])] = json!(decoded(pair[1]));
        }
    }
    object
}

fn insert_deep(value: &mut Value, keys: &[String], text: String) {
    let Some((key, rest)) = keys.split_first() else {
        *value = json!(text);
        return;
    };
    let is_index = key.is_empty() || key.chars().all(|c| c.is_ascii_digit());
    if is_index && !value.is_object() || value.is_array() {
        if !value.is_array() {
            *value = json!([]);
        }
        if let Value::Array(items) = value {
            let at = key.parse().unwrap_or(items.len());
            while items.len() <= at {
                items.push(Value::Null);
            }
            insert_deep(&mut items[at], rest, text);
        }
        return;
    }
    if !value.is_object() {
        *value = json!({});
    }
    if let Value::Object(map) = value {
        insert_deep(map.entry(key.clone()).or_insert(Value::Null), rest, text);
    }
}

/// The fields of a form, as text.
fn fields(kind: &str, bytes: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(bytes);
    let Some((_, boundary)) = kind.split_once("boundary=") else {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        return pairs
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (decode(name), decode(value)))
            .collect();
    };
    let boundary = format!("--{boundary}");
    let parts = text.split(&boundary).skip(1);
    parts
        .filter_map(|part| {
            let (head, body) = part.split_once("\r\n\r\n")?;
            let name = head.split("name=\"").nth(1)?.split('"').next()?;
            Some((name.to_owned(), body.strip_suffix("\r\n").unwrap_or(body).to_owned()))
        })
        .collect()
}
