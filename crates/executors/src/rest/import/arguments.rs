//! Turns parameters and body of an operation into the arguments of a tool.
//!
//! Where possible, the fields of the body are arguments beside the parameters: models
//! fill a flat object more reliably than a nested one. Names that every model API accepts
//! are kept; if two parts of a request have a field of the same name, the second one gets
//! a suffix (`body_id`).

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::Importer;
use crate::rest::document::{Body, Encoding, Operation, Param};
use crate::rest::media::{self, Form};
use crate::rest::plan::{BodyPlan, Credential, Field, FieldEncoding, Location, ParameterPlan};
use crate::rest::request::{is_header_name, is_reserved_header, is_signing};
use crate::rest::schema::{brief, file_schema, required_of};

/// Maximum length of an argument name.
const MAX_NAME: usize = 64;

/// A body with more fields stays a single argument.
const MAX_FLAT: usize = 500;

/// The arguments of a tool and their locations in the request.
#[derive(Default)]
pub(super) struct Arguments {
    properties: Map<String, Value>,
    required: Vec<String>,
    taken: HashSet<String>,
    pub(super) places: Vec<ParameterPlan>,
    pub(super) body: Option<BodyPlan>,
    /// Headers that are credentials.
    pub(super) credentials: Vec<Credential>,
    /// Parameters that are the key of a security scheme: its name, and whether it is
    /// required.
    pub(super) keys: Vec<(String, bool)>,
    pub(super) notes: Vec<String>,
}

impl Arguments {
    /// The shaped schema of all arguments.
    pub(super) fn schema(&mut self) -> Value {
        let mut schema = json!({
            "type": "object",
            "properties": std::mem::take(&mut self.properties),
            "additionalProperties": false,
        });
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        schema
    }

    fn add(&mut self, wanted: &str, part: &str, shaped: Value, required: bool) -> String {
        let name = self.free_name(wanted, part);
        if required {
            self.required.push(name.clone());
        }
        self.properties.insert(name.clone(), shaped);
        name
    }

    fn free_name(&mut self, wanted: &str, part: &str) -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let mut name = String::new();
        for c in wanted.chars().take(MAX_NAME) {
            match c {
                c if fits(c) => name.push(c),
                _ if name.is_empty() || name.ends_with('_') => {}
                _ => name.push('_'),
            }
        }
        let name = if wanted.chars().all(fits) { name } else { name.trim_matches('_').to_owned() };
        let name = if name.is_empty() { part.to_owned() } else { name };
        if self.taken.insert(name.clone()) {
            return name;
        }
        let short: String = name.chars().take(MAX_NAME - part.len() - 4).collect();
        let mut other = format!("{part}_{short}");
        let mut copy = 2;
        while !self.taken.insert(other.clone()) {
            other = format!("{part}_{short}_{copy}");
            copy += 1;
        }
        other
    }
}

impl<'d> Importer<'_, 'd> {
    /// The arguments of an operation.
    pub(super) fn arguments(&mut self, operation: &Operation<'d>) -> Arguments {
        let mut all = Arguments::default();
        for parameter in &operation.parameters {
            self.parameter(operation, parameter, &mut all);
        }
        if let Some(body) = &operation.body {
            self.body(operation, body, &mut all);
        }
        all
    }

    fn parameter(&mut self, operation: &Operation<'d>, parameter: &Param<'d>, all: &mut Arguments) {
        if let Some(scheme) = self.forms.key(parameter.place, &parameter.name) {
            // A model must neither know nor choose credentials.
            all.keys.push((scheme, parameter.required));
            return;
        }
        let is_set = |own: &String| own.eq_ignore_ascii_case(&parameter.name);
        if parameter.place == Location::Header && self.options.headers.keys().any(is_set) {
            return;
        }
        if parameter.place == Location::Header && is_reserved_header(&parameter.name) {
            if parameter.name.eq_ignore_ascii_case("authorization") && self.forms.is_told() {
                // Authentication is configured already.
            } else if parameter.name.eq_ignore_ascii_case("authorization") {
                all.credentials.push(self.forms.header("Authorization"));
            } else {
                let name = &parameter.name;
                all.notes.push(format!("the header `{name}` is not for arguments to set"));
            }
            return;
        }
        let signs = match parameter.place {
            Location::Header => is_signing(&parameter.name),
            // A query parameter called `signature` may mean anything.
            Location::Query => parameter.name.starts_with("X-") && is_signing(&parameter.name),
            _ => false,
        };
        if signs {
            let name = &parameter.name;
            all.notes.push(format!("`{name}` is part of a signature, not for arguments to set"));
            return;
        }
        if parameter.place == Location::Header && !is_header_name(&parameter.name) {
            let name = brief(&parameter.name.escape_debug().to_string(), 80);
            all.notes.push(format!("`{name}` is not the name of a header"));
            return;
        }
        let (mut shaped, notes) = match parameter.schema {
            // Files are only possible in a body; elsewhere they are text.
            Some(schema) if self.requests.is_file(schema) => {
                (json!({"type": "string"}), Vec::new())
            }
            Some(schema) => self.shaper(operation).shape(schema),
            None => (json!({"type": "string"}), Vec::new()),
        };
        all.notes.extend(notes);
        if let Value::Object(map) = &mut shaped
            && !parameter.description.trim().is_empty()
        {
            map.insert("description".to_owned(), json!(parameter.description.trim()));
        }
        let part = parameter.place.name();
        let name = all.add(&parameter.name, part, shaped, parameter.required);
        all.places.push(ParameterPlan {
            argument: (name != parameter.name).then_some(name),
            name: parameter.name.clone(),
            location: parameter.place,
            style: (parameter.style != parameter.place.style()).then_some(parameter.style),
            explode: (parameter.explode != parameter.style.explodes()).then_some(parameter.explode),
            allow_reserved: parameter.allow_reserved,
            json: parameter.json,
        });
    }

    fn body(&mut self, operation: &Operation<'d>, body: &Body<'d>, all: &mut Arguments) {
        let form = media::form(&body.media.media_type);
        let mut plan = BodyPlan {
            media_type: body.media.media_type.clone(),
            required: body.required,
            argument: None,
            fields: Vec::new(),
            encoding: body.media.encoding.iter().map(written).collect(),
        };
        let shaped = match form {
            Form::Text => {
                let kind = &body.media.media_type;
                if body.media.schema.is_some() && media::plain(kind) != "text/plain" {
                    all.notes.push(format!("the body is {kind}: the caller writes it as text"));
                }
                json!({"type": "string"})
            }
            Form::Bytes => file_schema("The content"),
            _ if !body.media.fields.is_empty() => self.fields(operation, body, all),
            _ => {
                let shaped =
                    body.media.schema.map(|schema| self.shaper(operation).shape_whole(schema));
                let (shaped, notes) = shaped.unwrap_or_else(|| (json!({}), Vec::new()));
                all.notes.extend(notes);
                shaped
            }
        };
        let mut shaped = shaped;
        if form == Form::Multipart {
            self.parts(body, &mut shaped, &mut plan);
        }
        let open = body.media.schema.is_some_and(|schema| self.requests.is_open(schema));
        let fields = form != Form::Text && form != Form::Bytes && !open;
        if fields && is_flat(&shaped, body.required) {
            plan.fields = flatten(shaped, all);
        } else if fields && is_closed_and_empty(&shaped) {
            // It has no fields that could be set.
        } else {
            plan.argument = Some(whole(shaped, body, all));
        }
        all.body = Some(plan);
    }

    /// Sets the types of form parts from their schemas, and turns binary parts into
    /// files.
    fn parts(&self, body: &Body<'d>, shaped: &mut Value, plan: &mut BodyPlan) {
        let form = body.media.schema.and_then(|schema| self.files.follow(schema));
        for (name, part) in form.into_iter().flat_map(|form| form.map("properties")) {
            let Some(part) = self.files.follow(part) else { continue };
            let items = part.get("items").and_then(|items| self.files.follow(items));
            let one = items.unwrap_or(part);
            let encoding = plan.encoding.entry(name.to_owned()).or_default();
            if encoding.content_type.is_none() {
                let said = one.text("contentMediaType").map(media::written);
                encoding.content_type = said.filter(|_| one.text("contentEncoding").is_none());
            }
            let bytes = encoding.content_type.as_deref().map(media::form) == Some(Form::Bytes);
            let text = one.text("type").is_none_or(|kind| kind == "string");
            let plain = ["contentEncoding", "enum", "const", "pattern", "$ref", "properties"]
                .iter()
                .all(|key| one.get(key).is_none());
            let place = match items {
                Some(_) => format!("/properties/{}/items", escaped(name)),
                None => format!("/properties/{}", escaped(name)),
            };
            if bytes
                && text
                && plain
                && let Some(shaped) = shaped.pointer_mut(&place)
            {
                let told = shaped["description"].as_str().unwrap_or("A file.").to_owned();
                *shaped = file_schema(&told);
            }
        }
        plan.encoding.retain(|_, encoding| *encoding != FieldEncoding::default());
    }

    /// The fields of a form as one object schema.
    fn fields(&mut self, operation: &Operation<'d>, body: &Body<'d>, all: &mut Arguments) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in &body.media.fields {
            let (mut shaped, notes) = self.shaper(operation).shape(field.schema);
            all.notes.extend(notes);
            if let Value::Object(map) = &mut shaped
                && !field.description.trim().is_empty()
            {
                map.insert("description".to_owned(), json!(field.description.trim()));
            }
            if field.required {
                required.push(field.name);
            }
            properties.insert(field.name.to_owned(), shaped);
        }
        let mut shaped = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            shaped["required"] = json!(required);
        }
        shaped
    }
}

/// Whether the fields of a body can become arguments beside the parameters: it is an
/// object with nothing but properties, and leaving all of them out is either not allowed
/// or means no body.
fn is_flat(shaped: &Value, required: bool) -> bool {
    const SAID: [&str; 5] =
        ["type", "properties", "required", "description", "additionalProperties"];
    let Value::Object(map) = shaped else { return false };
    let only = map.iter().all(|(key, value)| {
        SAID.contains(&key.as_str()) && (key != "additionalProperties" || value.is_boolean())
    });
    let properties = map.get("properties").and_then(Value::as_object);
    only && map.get("type") == Some(&json!("object"))
        && properties.is_some_and(|properties| (1..=MAX_FLAT).contains(&properties.len()))
        && (required || required_of(shaped).is_empty())
}

/// Whether a body is an object without any properties.
fn is_closed_and_empty(shaped: &Value) -> bool {
    let Value::Object(map) = shaped else { return false };
    let nothing = |key: &str| map.get(key).is_some_and(|value| *value == json!({}));
    let closed = map.get("additionalProperties") == Some(&json!(false));
    let only = ["type", "properties", "description", "additionalProperties"];
    map.get("type") == Some(&json!("object"))
        && (nothing("properties") && !map.contains_key("additionalProperties") || closed)
        && map.get("properties").is_none_or(|all| *all == json!({}))
        && map.keys().all(|key| only.contains(&key.as_str()))
}

/// Whether a body is an object in which nothing is required.
fn is_empty_object(shaped: &Value) -> bool {
    let Value::Object(map) = shaped else { return false };
    let only = ["type", "properties", "description", "additionalProperties"];
    map.get("type") == Some(&json!("object")) && map.keys().all(|key| only.contains(&key.as_str()))
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn flatten(shaped: Value, all: &mut Arguments) -> Vec<Field> {
    let required: HashSet<String> = required_of(&shaped).into_iter().map(str::to_owned).collect();
    let Value::Object(mut map) = shaped else { return Vec::new() };
    let Some(Value::Object(mut properties)) = map.shift_remove("properties") else {
        return Vec::new();
    };
    for name in &required {
        // Required, but not described.
        properties.entry(name.clone()).or_insert_with(|| json!({}));
    }
    let mut fields = Vec::with_capacity(properties.len());
    for (name, shaped) in properties {
        let argument = all.add(&name, "body", shaped, required.contains(&name));
        fields.push(if argument == name {
            Field::Same(name)
        } else {
            Field::Renamed { argument, name }
        });
    }
    fields
}

fn whole(mut shaped: Value, body: &Body<'_>, all: &mut Arguments) -> String {
    let text = body.description.trim();
    if let Value::Object(map) = &mut shaped
        && !text.is_empty()
    {
        map.insert("description".to_owned(), json!(text));
    }
    // Without arguments, an empty object is sent.
    let required = body.required && !is_empty_object(&shaped);
    all.add("body", "request", shaped, required)
}

fn written((name, encoding): (&String, &Encoding)) -> (String, FieldEncoding) {
    let Encoding { style, explode, content_type } = encoding.clone();
    (name.clone(), FieldEncoding { style, explode, content_type })
}
