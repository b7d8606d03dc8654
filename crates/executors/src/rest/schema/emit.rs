//! Assembles the schema of one tool within a size limit.
//!
//! Every byte costs tokens in every request to a model. So a schema used once is inlined,
//! a shared one is written once under `$defs`, and descriptions are shortened. A schema
//! that is still too large loses optional properties, innermost first, and then the
//! details of its largest parts ([`super::squeeze`]). The rest still accepts every value
//! that the API accepts.

use std::collections::{BTreeSet, HashMap, VecDeque};

use serde_json::{Map, Value, json};

use super::html;
use super::squeeze::{squeeze, stub, written};
use super::{NUMBER, Shaper, required_of};

/// Beyond this nesting, even a schema used once goes to `$defs`.
const MAX_INLINE_NESTING: usize = 28;
/// The engine accepts 64 levels.
const MAX_NESTING: usize = 52;
/// A schema of at most this size is inlined everywhere.
const SMALL: usize = 100;
const OUTLINE: &str = "the schema is large; only the types of the arguments are told";
const LEFT_OUT: &str = "the schema is large; fields that nobody has to set were left out";

/// Keywords whose value is a single schema.
const ONE: [&str; 8] =
    ["items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"];

/// Limits of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Maximum length of one description in characters.
    pub(crate) description: usize,
    /// Maximum size as JSON, in bytes.
    pub(crate) bytes: usize,
}

/// How far a schema that is too large is cut.
#[derive(Clone, Copy)]
struct Cut {
    description: usize,
    /// Nesting of objects below which only required properties are kept.
    depth: usize,
    /// Nesting below which descriptions are dropped.
    described: usize,
}

impl Shaper<'_> {
    /// The tool's schema from a shaped one, and what was cut.
    pub(crate) fn emit(&mut self, root: &Value, bounds: Bounds) -> Emitted {
        let all = usize::MAX;
        let short = bounds.description.min(100);
        let cuts = [
            Cut { description: bounds.description, depth: all, described: all },
            Cut { description: short, depth: all, described: all },
            Cut { description: short, depth: 6, described: 4 },
            Cut { description: short, depth: 4, described: 3 },
            Cut { description: short, depth: 3, described: 2 },
            Cut { description: short, depth: 2, described: 2 },
            Cut { description: short.min(60), depth: 1, described: 1 },
            Cut { description: 0, depth: 1, described: 0 },
            Cut { description: 0, depth: 0, described: 0 },
        ];
        // A schema still larger than this is cut further rather than squeezed.
        let largest = bounds.bytes.saturating_mul(2);
        // The fullest version within the limit, or else a start for squeezing.
        let mut start = None;
        for (at, cut) in cuts.into_iter().enumerate() {
            let is_last = at + 1 == cuts.len();
            let most = if is_last { largest.saturating_mul(2) } else { largest };
            let Some(schema) = self.emit_cut(root, cut, most) else { continue };
            let bytes = written(&schema);
            let left_out = (at > 1).then(|| LEFT_OUT.to_owned());
            if bytes <= bounds.bytes {
                return Emitted { schema, cut: left_out.into_iter().collect() };
            }
            if start.is_none() && bytes <= largest || is_last {
                start.get_or_insert((schema, left_out));
            }
        }
        let (schema, left_out) =
            start.unwrap_or_else(|| (self.outline(root), Some(OUTLINE.to_owned())));
        let (schema, done) = squeeze(schema, bounds.bytes);
        Emitted { schema, cut: left_out.into_iter().chain(done).collect() }
    }

    /// Only the names and types of all arguments, for a schema that is far too large.
    fn outline(&mut self, root: &Value) -> Value {
        let mut outline = stub(root, root);
        let properties = root.get("properties").and_then(Value::as_object);
        if let (Value::Object(outline), Some(properties)) = (&mut outline, properties) {
            let mut stubs = Map::new();
            for (name, property) in properties {
                let number = property.get(NUMBER).and_then(Value::as_u64);
                let target = number.and_then(|n| usize::try_from(n).ok()).map(|n| self.target(n));
                stubs.insert(name.clone(), stub(target.as_deref().unwrap_or(property), property));
            }
            outline.insert("properties".to_owned(), Value::Object(stubs));
            for key in ["required", "additionalProperties"] {
                let plain = root.get(key).filter(|value| value.is_array() || value.is_boolean());
                outline.extend(plain.map(|value| (key.to_owned(), value.clone())));
            }
        }
        outline
    }

    /// Warnings about all parts of a shaped schema.
    pub(crate) fn notes_of(&mut self, root: &Value) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut found = numbers_in(root);
        let mut notes: Vec<String> = Vec::new();
        while let Some(number) = found.pop() {
            if seen.insert(number) && seen.len() < 500 {
                found.extend(numbers_in(&self.target(number)));
                for note in &self.targets[number].notes {
                    if !notes.contains(note) {
                        notes.push(note.clone());
                    }
                }
            }
        }
        notes
    }

    /// `None` if it is far too large.
    fn emit_cut(&mut self, root: &Value, cut: Cut, most: usize) -> Option<Value> {
        let uses = self.count(root, cut, most)?;
        let mut names = Names::default();
        let mut write = Write { shaper: self, cut, uses: &uses, names: &mut names, left: most };
        let mut schema = write.copy(root, 0, 0)?;
        let mut defs = Map::new();
        let mut next = 0;
        while let Some((number, name)) = write.names.order.get(next).cloned() {
            next += 1;
            let depth = uses.get(&number).map_or(0, |used| used.depth);
            let target = write.shaper.target(number);
            defs.insert(name, write.copy(&target, depth, 2)?);
        }
        if let (Value::Object(map), false) = (&mut schema, defs.is_empty()) {
            map.insert("$defs".to_owned(), Value::Object(defs));
        }
        Some(schema)
    }

    /// How often each target is used, and how deep it first occurs.
    fn count(&mut self, root: &Value, cut: Cut, most: usize) -> Option<HashMap<usize, Used>> {
        let mut uses: HashMap<usize, Used> = HashMap::new();
        let mut queue = VecDeque::new();
        let mut values = 0;
        let mut note = |found: Vec<(usize, usize)>, queue: &mut VecDeque<(usize, usize)>| {
            for (number, depth) in found {
                let used = uses.entry(number).or_insert_with(|| {
                    queue.push_back((number, depth));
                    Used { times: 0, depth }
                });
                used.times += 1;
            }
        };
        let mut found = Vec::new();
        references(root, 0, cut.depth, &mut found, &mut values);
        note(std::mem::take(&mut found), &mut queue);
        while let Some((number, depth)) = queue.pop_front() {
            references(&self.target(number), depth, cut.depth, &mut found, &mut values);
            note(std::mem::take(&mut found), &mut queue);
            if values > most {
                return None;
            }
        }
        Some(uses)
    }
}

/// A finished schema.
pub(crate) struct Emitted {
    pub(crate) schema: Value,
    /// What was left out.
    pub(crate) cut: Vec<String>,
}

struct Used {
    times: usize,
    depth: usize,
}

/// Names of definitions, in order of first use.
#[derive(Default)]
struct Names {
    order: Vec<(usize, String)>,
    by_number: HashMap<usize, String>,
}

impl Names {
    fn of(&mut self, number: usize, wanted: &str) -> String {
        if let Some(name) = self.by_number.get(&number) {
            return name.clone();
        }
        let wanted = if wanted.is_empty() { "schema" } else { wanted };
        let mut name = wanted.to_owned();
        let mut copy = 2;
        while self.order.iter().any(|(_, known)| *known == name) {
            name = format!("{wanted}_{copy}");
            copy += 1;
        }
        self.order.push((number, name.clone()));
        self.by_number.insert(number, name.clone());
        name
    }
}

/// Writes values within a budget.
struct Write<'s, 'd> {
    shaper: &'s mut Shaper<'d>,
    cut: Cut,
    uses: &'s HashMap<usize, Used>,
    names: &'s mut Names,
    left: usize,
}

impl Write<'_, '_> {
    /// Copies a shaped schema. `depth` counts nested objects, `nesting` levels of JSON.
    fn copy(&mut self, value: &Value, depth: usize, nesting: usize) -> Option<Value> {
        let Value::Object(map) = value else { return Some(value.clone()) };
        if nesting > MAX_NESTING {
            return Some(json!({}));
        }
        self.left = self.left.checked_sub(8 * map.len() + 2)?;
        if let Some(number) = map.get(NUMBER).and_then(Value::as_u64) {
            let number = usize::try_from(number).ok()?;
            return self.reference(number, map, nesting);
        }
        let mut out = Map::with_capacity(map.len());
        let required = required_of(value);
        for (key, inner) in map {
            let copied = match (key.as_str(), inner) {
                ("description", Value::String(text)) => {
                    let most = if depth > self.cut.described { 0 } else { self.cut.description };
                    let text = brief(text, most);
                    if text.is_empty() {
                        continue;
                    }
                    self.left = self.left.checked_sub(text.len())?;
                    Value::String(text)
                }
                ("properties", Value::Object(properties)) => {
                    let all = depth <= self.cut.depth;
                    let room = if all { properties.len() } else { required.len() };
                    let mut kept = Map::with_capacity(room);
                    for (name, property) in properties {
                        if !all && !required.contains(name.as_str()) {
                            continue;
                        }
                        kept.insert(name.clone(), self.copy(property, depth + 1, nesting + 2)?);
                    }
                    // Otherwise the omitted properties would be rejected.
                    Value::Object(kept)
                }
                ("patternProperties" | "dependentSchemas", Value::Object(all)) => {
                    let mut kept = Map::new();
                    for (name, schema) in all {
                        kept.insert(name.clone(), self.copy(schema, depth + 1, nesting + 2)?);
                    }
                    Value::Object(kept)
                }
                ("anyOf" | "allOf" | "prefixItems", Value::Array(all)) => {
                    let copies: Option<Vec<Value>> =
                        all.iter().map(|schema| self.copy(schema, depth, nesting + 2)).collect();
                    Value::Array(copies?)
                }
                (word, inner) if ONE.contains(&word) => self.copy(inner, depth, nesting + 1)?,
                (_, inner) => {
                    self.left = self.left.checked_sub(size(inner))?;
                    inner.clone()
                }
            };
            out.insert(key.clone(), copied);
        }
        if depth > self.cut.depth && out.get("additionalProperties") == Some(&Value::Bool(false)) {
            out.shift_remove("additionalProperties");
        }
        Some(Value::Object(out))
    }

    fn reference(
        &mut self,
        number: usize,
        map: &Map<String, Value>,
        nesting: usize,
    ) -> Option<Value> {
        let used = self.uses.get(&number)?;
        let target = self.shaper.target(number);
        let small = self.shaper.targets[number].small;
        let depth = used.depth;
        let description = map.get("description").and_then(Value::as_str);
        let mut written = if small || used.times == 1 && nesting < MAX_INLINE_NESTING {
            self.copy(&target, depth, nesting)?
        } else {
            let wanted = self.shaper.targets[number].name.clone();
            json!({"$ref": format!("#/$defs/{}", self.names.of(number, &wanted))})
        };
        if let (Value::Object(out), Some(text)) = (&mut written, description) {
            let most = if depth > self.cut.described { 0 } else { self.cut.description };
            let text = brief(text, most);
            if !text.is_empty() {
                out.insert("description".to_owned(), Value::String(text));
            }
        }
        Some(written)
    }
}

/// All reachable references in a shaped schema, with their depth.
fn references(
    value: &Value,
    depth: usize,
    most: usize,
    found: &mut Vec<(usize, usize)>,
    values: &mut usize,
) {
    let Value::Object(map) = value else { return };
    *values += 1;
    if let Some(number) = map.get(NUMBER).and_then(Value::as_u64) {
        found.extend(usize::try_from(number).ok().map(|number| (number, depth)));
        return;
    }
    let required = required_of(value);
    for (key, inner) in map {
        match (key.as_str(), inner) {
            ("properties", Value::Object(all)) => {
                for (name, schema) in all {
                    if depth <= most || required.contains(name.as_str()) {
                        references(schema, depth + 1, most, found, values);
                    }
                }
            }
            ("patternProperties" | "dependentSchemas", Value::Object(all)) => {
                all.values().for_each(|schema| references(schema, depth + 1, most, found, values));
            }
            ("anyOf" | "allOf" | "prefixItems", Value::Array(all)) => {
                all.iter().for_each(|schema| references(schema, depth, most, found, values));
            }
            (word, inner) if ONE.contains(&word) => references(inner, depth, most, found, values),
            _ => {}
        }
    }
}

/// Whether a schema is inlined everywhere.
pub(super) fn is_small(shaped: &Value) -> bool {
    size(shaped) <= SMALL && numbers_in(shaped).is_empty()
}

fn numbers_in(value: &Value) -> Vec<usize> {
    let mut found = Vec::new();
    references(value, 0, usize::MAX, &mut found, &mut 0);
    found.into_iter().map(|(number, _)| number).collect()
}

/// The beginning of a text on one line, cut at the end of a sentence or word.
pub(crate) fn brief(text: &str, most: usize) -> String {
    // Far more than is shown, since a text may be mostly tags.
    let text = &text[..text.floor_char_boundary(most.saturating_mul(32).max(1_024))];
    let text = &*html::text(text);
    let is_plain = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_spaced = |text: &str| text.trim() == text && !text.contains("  ");
    if text.len() <= most && is_plain(text) && is_spaced(text) {
        return text.to_owned();
    }
    let mut line = String::with_capacity(text.len().min(most * 4));
    let mut seen = 0;
    for word in text.split_whitespace() {
        let before = line.len();
        if !line.is_empty() {
            line.push(' ');
        }
        if word.contains(is_unseen) {
            line.extend(word.chars().filter(|c| !is_unseen(*c)));
        } else {
            line.push_str(word);
        }
        seen += line[before..].chars().count();
        if seen > most {
            break;
        }
    }
    let Some((end, _)) = line.char_indices().nth(most) else { return line };
    if most == 0 {
        return String::new();
    }
    let shown = &line[..end];
    if let Some(sentence) = shown.rfind(". ").filter(|at| *at > end / 2) {
        return shown[..=sentence].to_owned();
    }
    let word = shown.rfind(' ').filter(|at| *at > end / 2).unwrap_or(end);
    format!("{}…", shown[..word].trim_end())
}

/// Whether a character is invisible to people but not to models (prompt injection):
/// control characters, bidirectional overrides and tag characters.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

/// Approximate size of a value as JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 6,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(map) => {
            2 + map.iter().map(|(key, item)| key.len() + 4 + size(item)).sum::<usize>()
        }
    }
}
