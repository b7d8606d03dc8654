//! The files of a document, and resolution of references.

use std::collections::HashMap;
use std::path::Path;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::Judge;

/// Where a value stands: in a file.
#[derive(Clone, Copy)]
pub(super) struct Spot<'j> {
    pub(super) file: &'j str,
    pub(super) value: &'j Value,
}

impl<'j> Spot<'j> {
    pub(super) fn get(self, key: &str) -> Option<Self> {
        Some(Self { value: self.value.get(key)?, ..self })
    }

    pub(super) fn text(self, key: &str) -> Option<&'j str> {
        self.value.get(key)?.as_str()
    }

    pub(super) fn items(self, key: &str) -> Vec<Self> {
        let items = self.value.get(key).and_then(Value::as_array);
        items.into_iter().flatten().map(|value| Self { value, ..self }).collect()
    }
}

impl Judge {
    pub(super) fn root(&self) -> Spot<'_> {
        Spot { file: "", value: &self.files[""] }
    }

    pub(super) fn is_swagger(&self) -> bool {
        self.root().value.get("swagger").is_some()
    }

    pub(super) fn follow<'j>(&'j self, spot: Spot<'j>) -> Spot<'j> {
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
}

/// A document and, where it has some, the files below its folder.
pub(super) fn load(path: &Path, text: &str) -> HashMap<String, Value> {
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
    files
}

/// `y` and `no` are texts since YAML 1.2.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! { strict_booleans: true }
}

pub(super) fn parse(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) => serde_saphyr::from_str_with_options(text, options())
            .unwrap_or_else(|error| panic!("the judge cannot read this: {error}")),
    }
}

pub(super) fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

pub(super) fn join(from: &str, reference: &str) -> String {
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

pub(super) fn outside(value: &Value, found: &mut Vec<String>) {
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
