//! Resolves `$ref` within and between the files of a document.
//!
//! All files are loaded before anything is resolved, so that targets can simply be
//! borrowed. A path outside the document's folder, a URL and an unreadable file resolve
//! to nothing, and whoever needs the target reports it.

use std::collections::{HashMap, HashSet};

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::{DocumentLimits, ReadFile, text};
use crate::rest::schema::brief;

/// Maximum length of a chain of references.
const MAX_CHAIN: usize = 32;
const ANCHOR: &str = "$anchor";

/// A value in one of the files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'d> {
    pub(crate) file: usize,
    pub(crate) value: &'d Value,
}

impl<'d> At<'d> {
    /// A member of it.
    pub(crate) fn get(self, key: &str) -> Option<Self> {
        Some(Self { value: self.value.get(key)?, ..self })
    }

    /// The string under a key.
    pub(crate) fn text(self, key: &str) -> Option<&'d str> {
        self.value.get(key)?.as_str()
    }

    pub(crate) fn flag(self, key: &str) -> Option<bool> {
        self.value.get(key)?.as_bool()
    }

    /// The items of a list under a key.
    pub(crate) fn list(self, key: &str) -> impl Iterator<Item = Self> + use<'d> {
        let items = self.value.get(key).and_then(Value::as_array);
        items.into_iter().flatten().map(move |value| Self { value, ..self })
    }

    /// The entries of a mapping under a key.
    pub(crate) fn map(self, key: &str) -> impl Iterator<Item = (&'d str, Self)> + use<'d> {
        self.value.get(key).map(|value| Self { value, ..self }).into_iter().flat_map(Self::entries)
    }

    /// The entries of this mapping without `x-` extensions.
    pub(crate) fn entries(self) -> impl Iterator<Item = (&'d str, Self)> + use<'d> {
        let map = self.value.as_object();
        map.into_iter()
            .flatten()
            .filter(|(key, _)| !key.starts_with("x-"))
            .map(move |(key, value)| (key.as_str(), Self { value, ..self }))
    }

    /// The identity of this value: its address.
    pub(crate) fn id(self) -> *const Value {
        std::ptr::from_ref(self.value)
    }
}

/// All files of a document; the first is the document itself.
pub(crate) struct Files {
    files: Vec<(String, Value)>,
    by_name: HashMap<String, usize>,
    /// Values named by `$anchor`, as file and JSON pointer.
    anchors: HashMap<(usize, String), String>,
    /// Warnings about missing files.
    notes: Vec<String>,
}

impl Files {
    pub(super) fn load(
        document: &str,
        limits: &DocumentLimits,
        read: ReadFile<'_>,
    ) -> Result<Self, String> {
        let mut files = vec![(String::new(), text::parse(document, limits)?)];
        let mut by_name = HashMap::from([(String::new(), 0)]);
        let mut anchored = document.contains(ANCHOR);
        let mut tried = HashSet::new();
        let (mut bytes, mut missing) = (document.len(), Missing::default());
        let mut next = 0;
        while next < files.len() {
            let mut wanted = Vec::new();
            outside(&files[next].1, &mut wanted);
            let folder = files[next].0.clone();
            for name in wanted.into_iter().filter_map(|reference| beside(&folder, &reference)) {
                if !tried.insert(name.clone()) {
                    continue;
                }
                if files.len() >= limits.files {
                    missing.more += 1;
                    continue;
                }
                let value = read(&name).and_then(|text| {
                    bytes += text.len();
                    if bytes > limits.file_bytes {
                        return Err(format!("all files are more than {} bytes", limits.file_bytes));
                    }
                    anchored |= text.contains(ANCHOR);
                    text::parse(&text, limits)
                });
                match value {
                    Ok(value) => {
                        by_name.insert(name.clone(), files.len());
                        files.push((name, value));
                    }
                    Err(why) => missing.unread(&name, &why),
                }
            }
            next += 1;
        }
        let mut anchors = HashMap::new();
        for (file, (_, value)) in files.iter().enumerate().filter(|_| anchored) {
            note_anchors(value, &mut String::new(), &mut |name, pointer| {
                anchors.entry((file, name.to_owned())).or_insert_with(|| pointer.to_owned());
            });
        }
        Ok(Self { files, by_name, anchors, notes: missing.notes(limits) })
    }

    /// Total number of values in all files.
    pub(crate) fn values(&self) -> usize {
        let mut left: Vec<&Value> = self.files.iter().map(|(_, value)| value).collect();
        let mut values = 0;
        while let Some(value) = left.pop() {
            values += 1;
            match value {
                Value::Array(items) => left.extend(items),
                Value::Object(map) => left.extend(map.values()),
                _ => {}
            }
        }
        values
    }

    /// Warnings about the document as a whole.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(crate) fn root(&self) -> At<'_> {
        At { file: 0, value: &self.files[0].1 }
    }

    /// The target of a `$ref`, and the last segment of its name.
    pub(crate) fn lookup(&self, file: usize, reference: &str) -> Option<At<'_>> {
        let (path, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let file = match path {
            "" => file,
            path => match beside(&self.files.get(file)?.0, path)
                .and_then(|name| self.by_name.get(&name))
            {
                Some(file) => *file,
                None => return self.by_bare_name(reference),
            },
        };
        let fragment = percent_decode_str(fragment).decode_utf8().ok()?;
        let root = &self.files.get(file)?.1;
        let value = match fragment.as_ref() {
            "" => Some(root),
            pointer if pointer.starts_with('/') => root.pointer(pointer),
            anchor => root.pointer(self.anchors.get(&(file, anchor.to_owned()))?),
        };
        value.map(|value| At { file, value })
    }

    /// Follows references to a value that is none; `None` if one is dangling or they form
    /// a cycle.
    pub(crate) fn follow<'d>(&'d self, at: At<'d>) -> Option<At<'d>> {
        let mut at = at;
        for _ in 0..MAX_CHAIN {
            match at.text("$ref") {
                Some(reference) => at = self.lookup(at.file, reference)?,
                None => return Some(at),
            }
        }
        None
    }

    /// Old documents write `$ref: Pet`.
    fn by_bare_name(&self, name: &str) -> Option<At<'_>> {
        let root = self.root();
        let schemas = root.get("definitions").or_else(|| root.get("components")?.get("schemas"))?;
        schemas.get(name)
    }
}

/// References to files that were not read.
#[derive(Default)]
struct Missing {
    /// How many files exceed the limit.
    more: usize,
    unread: Vec<String>,
    not_told: usize,
}

impl Missing {
    /// Maximum number that are reported one by one.
    const TOLD: usize = 10;

    fn unread(&mut self, name: &str, why: &str) {
        if self.unread.len() >= Self::TOLD {
            self.not_told += 1;
            return;
        }
        let (name, why) = (brief(name, 200), brief(why, 200));
        self.unread.push(format!("the file `{name}` cannot be read: {why}"));
    }

    fn notes(self, limits: &DocumentLimits) -> Vec<String> {
        let mut notes = self.unread;
        if self.not_told > 0 {
            notes.push(format!("{} more files cannot be read", self.not_told));
        }
        if self.more > 0 {
            let (more, most) = (self.more, limits.files);
            notes.push(format!(
                "the document has more than {most} files; {more} or more were not read, and what \
                 they say is missing: set `max_files`"
            ));
        }
        notes
    }
}

/// All references in a tree that lead to other files.
fn outside(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref")
                && !reference.starts_with('#')
            {
                found.push(reference.split('#').next().unwrap_or_default().to_owned());
            }
            map.values().for_each(|value| outside(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| outside(value, found)),
        _ => {}
    }
}

/// The path of a referenced file, relative to the document's folder. `None` for a URL and
/// for a path outside that folder.
fn beside(from: &str, reference: &str) -> Option<String> {
    if reference.contains("://") || reference.starts_with('/') || reference.contains(['\\', '\0']) {
        return None;
    }
    let decoded = percent_decode_str(reference).decode_utf8().ok()?;
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in decoded.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part if part.contains(['\\', '\0', ':']) => return None,
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Reports every `$anchor` of a tree with its JSON pointer.
fn note_anchors(value: &Value, pointer: &mut String, note: &mut impl FnMut(&str, &str)) {
    let length = pointer.len();
    match value {
        Value::Object(map) => {
            if let Some(Value::String(anchor)) = map.get(ANCHOR) {
                note(anchor, pointer);
            }
            for (key, value) in map {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                note_anchors(value, pointer, note);
                pointer.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                pointer.push_str(&format!("/{index}"));
                note_anchors(value, pointer, note);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}
