//! Converts a document's schemas to JSON Schema that models can read.
//!
//! There are two steps. *Shaping* translates the schemas once for all tools: keywords of
//! old dialects (`nullable`, boolean `exclusiveMinimum`) are replaced, `allOf` is merged,
//! `readOnly` properties are left out of requests, and documentation (`example`, `xml`,
//! `x-…`) is dropped. References stay references, by number. *Emitting* ([`emit`])
//! assembles what one tool needs: a schema used once is inlined, one that is shared or
//! recursive goes to `$defs`, and what is too large is cut.
//!
//! Both steps are loops over work lists rather than recursion through references, so a
//! self-referential document cannot exhaust the stack.

mod emit;
mod html;
mod keywords;
mod merge;
mod squeeze;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass::definition::check_schema;

pub(crate) use self::emit::{Bounds, brief};
pub(crate) use self::keywords::file_schema;
use super::document::{At, Files};

/// Maximum nesting of inline schemas.
const MAX_DEPTH: usize = 160;
/// Maximum nesting of `allOf`.
const MAX_MERGES: usize = 24;
/// Maximum number of schemas merged at one place: two that each lead to two others are a
/// million after twenty levels.
const MAX_MERGED: usize = 5_000;
/// Budget of values copied while merging, per value of the document (the second constant
/// applies in any case). Beyond it nothing is merged: a document whose `allOf` leads to
/// the same schemas over and over would take exponential time.
const COPIES: usize = 20;
const MIN_COPIES: usize = 50_000;
/// Maximum number of alternatives.
const MAX_ALTERNATIVES: usize = 1_000;
/// Maximum number of warnings for one place.
const MAX_NOTES: usize = 20;
/// Key of a numbered reference until it is emitted.
const NUMBER: &str = "$number";

/// Who sends the data that a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Windlass: read-only properties are left out.
    Request,
    /// Windlass, as a form whose fields may be files.
    Form,
    /// The API: write-only properties are left out, and nothing is required.
    Response,
}

/// Translates the schemas of one document, for one direction.
pub(crate) struct Shaper<'d> {
    files: &'d Files,
    direction: Direction,
    /// Numbers of reference targets, by their address.
    numbers: HashMap<*const Value, usize>,
    targets: Vec<Target<'d>>,
    /// Cache: whether a regular expression is usable.
    patterns: HashMap<String, bool>,
    merging: Vec<*const Value>,
    merged: usize,
    /// Cache of merged schemas that do not depend on their place.
    whole: HashMap<*const Value, Arc<Value>>,
    /// How often something was cut because of its place.
    cuts: usize,
    /// The remaining copy budget.
    copies: usize,
    depth: usize,
    notes: Vec<String>,
}

struct Target<'d> {
    at: At<'d>,
    name: String,
    shaped: Option<Arc<Value>>,
    /// Small enough to be inlined everywhere.
    small: bool,
    notes: Vec<String>,
}

impl<'d> Shaper<'d> {
    pub(crate) fn new(files: &'d Files, direction: Direction) -> Self {
        Self {
            files,
            direction,
            numbers: HashMap::new(),
            targets: Vec::new(),
            patterns: HashMap::new(),
            merging: Vec::new(),
            merged: 0,
            whole: HashMap::new(),
            cuts: 0,
            copies: MIN_COPIES.saturating_add(COPIES.saturating_mul(files.values())),
            depth: 0,
            notes: Vec::new(),
        }
    }

    /// Shapes a schema, with numbered references. Also returns warnings.
    pub(crate) fn shape(&mut self, at: At<'d>) -> (Value, Vec<String>) {
        self.merged = 0;
        let shaped = self.any(at);
        (shaped, std::mem::take(&mut self.notes))
    }

    /// Shapes a schema with the target of its reference inlined.
    pub(crate) fn shape_whole(&mut self, at: At<'d>) -> (Value, Vec<String>) {
        self.merged = 0;
        let shaped = self.whole(at);
        (shaped, std::mem::take(&mut self.notes))
    }

    /// Whether a schema describes binary data.
    pub(crate) fn is_file(&self, at: At<'d>) -> bool {
        let map = self.files.follow(at).and_then(|at| at.value.as_object());
        map.is_some_and(keywords::is_file)
    }

    /// Whether a schema asks for properties beyond the named ones. One that says nothing
    /// allows them, too, but rarely means it.
    pub(crate) fn is_open(&self, at: At<'d>) -> bool {
        let (mut seen, mut left) = (HashSet::new(), vec![at]);
        while let Some(at) = left.pop() {
            let Some(at) = self.files.follow(at).filter(|at| seen.insert(at.id())) else {
                continue;
            };
            let more = at.value.get("additionalProperties");
            if more.is_some_and(|more| *more == json!(true) || *more == json!({})) {
                return true;
            }
            left.extend(at.list("allOf"));
        }
        false
    }

    /// The address of a schema's final target, as its identity.
    pub(crate) fn followed(&self, at: At<'d>) -> *const Value {
        self.files.follow(at).unwrap_or(at).id()
    }

    /// Whether a property is left out of requests because it is read-only.
    pub(crate) fn left_out(&self, at: At<'d>) -> bool {
        let word = match self.direction {
            Direction::Request | Direction::Form => "readOnly",
            Direction::Response => "writeOnly",
        };
        at.flag(word) == Some(true)
            || self.files.follow(at).is_some_and(|at| at.flag(word) == Some(true))
    }

    /// The target of a numbered reference.
    fn target(&mut self, number: usize) -> Arc<Value> {
        if let Some(shaped) = &self.targets[number].shaped {
            return Arc::clone(shaped);
        }
        let before = std::mem::take(&mut self.notes);
        let at = self.targets[number].at;
        (self.depth, self.merged) = (0, 0);
        let shaped = Arc::new(self.any(at));
        let target = &mut self.targets[number];
        target.notes = std::mem::replace(&mut self.notes, before);
        target.small = emit::is_small(&shaped);
        target.shaped = Some(Arc::clone(&shaped));
        shaped
    }

    fn any(&mut self, at: At<'d>) -> Value {
        if self.depth >= MAX_DEPTH {
            self.note("a schema is nested too deeply and was cut");
            self.cuts += 1;
            return json!({});
        }
        self.depth += 1;
        let shaped = match at.value {
            Value::Bool(false) => json!({"not": {}}),
            Value::Object(map) => match map.get("$ref").and_then(Value::as_str) {
                Some(reference) => self.reference(at, map, reference),
                None => self.object(at, map),
            },
            _ => json!({}),
        };
        self.depth -= 1;
        shaped
    }

    fn reference(&mut self, at: At<'d>, map: &'d Map<String, Value>, reference: &str) -> Value {
        let Some(target) = self.files.follow(at) else {
            self.note(format!("`{}` leads to nothing", shorten(reference)));
            return describe(json!({}), map);
        };
        let number = match self.numbers.get(&target.id()) {
            Some(number) => *number,
            None => {
                let number = self.targets.len();
                self.numbers.insert(target.id(), number);
                let name = name_of(reference);
                self.targets.push(Target {
                    at: target,
                    name,
                    shaped: None,
                    small: false,
                    notes: Vec::new(),
                });
                number
            }
        };
        let shaped = describe(json!({ NUMBER: number }), map);
        if keywords::nullable(map) { or_null(shaped) } else { shaped }
    }

    /// A schema with its top-level references resolved.
    fn whole(&mut self, at: At<'d>) -> Value {
        let Some(target) = self.files.follow(at) else { return self.any(at) };
        if self.merging.contains(&target.id()) || self.merging.len() >= MAX_MERGES {
            self.cuts += 1;
            return self.any(at);
        }
        self.merged += 1;
        if self.merged > MAX_MERGED {
            self.note("a schema is made of too many others and was cut");
            self.cuts += 1;
            return json!({});
        }
        let mut shaped = match self.whole.get(&target.id()) {
            Some(known) => Value::clone(known),
            None => {
                let cuts = self.cuts;
                self.merging.push(target.id());
                let shaped = self.any(target);
                self.merging.pop();
                if self.cuts == cuts && at.id() != target.id() {
                    self.whole.insert(target.id(), Arc::new(shaped.clone()));
                }
                shaped
            }
        };
        self.copies = self.copies.saturating_sub(values_in(&shaped));
        // Keywords beside a `$ref` take precedence over its target's.
        if let (Some(map), Value::Object(shaped)) = (at.value.as_object(), &mut shaped)
            && at.id() != target.id()
            && let Some(text) = map.get("description").filter(|text| text.is_string())
        {
            shaped.insert("description".to_owned(), text.clone());
        }
        shaped
    }

    fn object(&mut self, at: At<'d>, map: &'d Map<String, Value>) -> Value {
        let mut out = self.keywords(at, map);
        self.alternatives(at, &mut out);
        let mut shaped = Value::Object(out);
        let mut seen = HashSet::new();
        for member in at.list("allOf") {
            // Duplicates add nothing.
            if !seen.insert(self.followed(member)) {
                continue;
            }
            let member = self.all_of(member);
            shaped = merge::both(shaped, member);
        }
        if keywords::nullable(map) {
            shaped = or_null(shaped);
        }
        if self.direction == Direction::Response {
            shaped = relaxed(shaped);
        }
        shaped
    }

    /// A member of `allOf` for merging, with its reference resolved.
    fn all_of(&mut self, member: At<'d>) -> Value {
        let Some(target) = self.files.follow(member) else { return self.any(member) };
        if self.merging.contains(&target.id()) || self.merging.len() >= MAX_MERGES {
            // A type that extends itself adds nothing.
            self.cuts += 1;
            return json!({});
        }
        if self.copies == 0 {
            self.note("the document merges too many schemas; some stay apart");
            self.cuts += 1;
            return self.any(member);
        }
        self.whole(member)
    }

    /// `oneOf` and `anyOf`. Alternatives of real documents overlap, so `oneOf` would
    /// reject valid arguments; the API decides.
    fn alternatives(&mut self, at: At<'d>, out: &mut Map<String, Value>) {
        for word in ["oneOf", "anyOf"] {
            let mut shaped: Vec<Value> = Vec::new();
            if at.list(word).nth(MAX_ALTERNATIVES).is_some() {
                self.note(format!("more than {MAX_ALTERNATIVES} alternatives are not checked"));
                continue;
            }
            for alternative in at.list(word) {
                let one = match self.tag_of(at, alternative) {
                    Some((property, value)) => tagged(self.all_of(alternative), property, &value),
                    None => self.any(alternative),
                };
                if !shaped.contains(&one) {
                    shaped.push(one);
                }
            }
            let alternatives = match shaped.len() {
                0 => continue,
                1 => shaped.swap_remove(0),
                _ => json!({"anyOf": shaped}),
            };
            let known = Value::Object(std::mem::take(out));
            *out = match merge::both(known, alternatives) {
                Value::Object(merged) => merged,
                _ => Map::new(),
            };
        }
    }

    /// The discriminator property and its value for an alternative.
    fn tag_of(&self, at: At<'d>, alternative: At<'d>) -> Option<(&'d str, String)> {
        let discriminator = at.get("discriminator")?;
        let property = discriminator.text("propertyName")?;
        let reference = alternative.text("$ref")?;
        let target = self.files.follow(alternative)?;
        let mapped = discriminator.map("mapping").find(|(_, to)| {
            to.value.as_str().is_some_and(|to| {
                to == reference
                    || self.files.lookup(at.file, to).is_some_and(|to| to.id() == target.id())
            })
        });
        let value = mapped.map_or_else(|| name_of(reference), |(value, _)| value.to_owned());
        // A property that the alternative describes itself is left alone.
        let own = target.get("properties").and_then(|all| all.get(property));
        let own = own.and_then(|own| self.files.follow(own));
        let said = own.is_some_and(|own| own.get("enum").is_some() || own.get("const").is_some());
        (!said).then_some((property, value))
    }

    /// Whether a regular expression can be compiled here.
    fn usable(&mut self, pattern: &str) -> bool {
        if let Some(known) = self.patterns.get(pattern) {
            return *known;
        }
        let usable = check_schema(&json!({"type": "string", "pattern": pattern})).is_ok();
        self.patterns.insert(pattern.to_owned(), usable);
        usable
    }

    fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Number of values in a JSON value.
fn values_in(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(values_in).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(values_in).sum::<usize>(),
        _ => 1,
    }
}

/// An alternative with its discriminator fixed to a value.
fn tagged(alternative: Value, property: &str, value: &str) -> Value {
    let tag = json!({
        "type": "object",
        "properties": {property: {"const": value}},
        "required": [property],
    });
    merge::both(tag, alternative)
}

/// Adds the keywords beside a reference.
fn describe(mut shaped: Value, map: &Map<String, Value>) -> Value {
    if let (Value::Object(shaped), Some(Value::String(text))) =
        (&mut shaped, map.get("description"))
    {
        shaped.insert("description".to_owned(), Value::String(text.clone()));
    }
    shaped
}

/// The schema, or null.
fn or_null(shaped: Value) -> Value {
    let Value::Object(mut map) = shaped else { return shaped };
    let null = json!("null");
    match map.get("type").cloned() {
        Some(Value::String(one)) if one != "null" => {
            map.insert("type".to_owned(), Value::Array(vec![Value::String(one), null]));
        }
        Some(Value::Array(mut many)) if !many.contains(&null) => {
            many.push(null);
            map.insert("type".to_owned(), Value::Array(many));
        }
        Some(_) => {}
        None if map.contains_key("anyOf")
            || map.contains_key("allOf")
            || map.contains_key(NUMBER) =>
        {
            return alternative_null(map);
        }
        None => {}
    }
    if let Some(Value::Array(values)) = map.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    Value::Object(map)
}

/// Adds null to a schema without a `type` of its own.
fn alternative_null(mut map: Map<String, Value>) -> Value {
    let description = map.shift_remove("description");
    let mut any = match map.shift_remove("anyOf") {
        Some(Value::Array(any)) if map.is_empty() => any,
        Some(any) => {
            map.insert("anyOf".to_owned(), any);
            vec![Value::Object(map)]
        }
        None => vec![Value::Object(map)],
    };
    let null = json!({"type": "null"});
    if !any.contains(&null) {
        any.push(null);
    }
    let mut both = json!({"anyOf": any});
    if let Some(text) = description {
        both["description"] = text;
    }
    both
}

/// Relaxes a response schema: services omit fields, send null and add enum values.
fn relaxed(shaped: Value) -> Value {
    const DEMANDS: [&str; 20] = [
        "required",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "multipleOf",
        "pattern",
        "uniqueItems",
        "additionalProperties",
        "default",
        "not",
        "dependentRequired",
        "const",
        "format",
    ];
    let Value::Object(mut map) = shaped else { return shaped };
    map.retain(|key, value| {
        !DEMANDS.contains(&key.as_str()) || key == "additionalProperties" && value.is_object()
    });
    Value::Object(map)
}

/// The last segment of a reference.
fn name_of(reference: &str) -> String {
    let last = reference.rsplit(['/', '#']).find(|part| !part.is_empty()).unwrap_or("schema");
    let last = last.strip_suffix(".json").or_else(|| last.strip_suffix(".yaml")).unwrap_or(last);
    last.chars().filter(|c| c.is_ascii_alphanumeric() || "_-.".contains(*c)).take(48).collect()
}

fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

/// The names of all required properties.
pub(crate) fn required_of(schema: &Value) -> HashSet<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}
