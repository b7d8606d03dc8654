//! Names of imported tools, which stay stable across imports.
//!
//! A name depends only on its own operation, except where several would have the same
//! one: those get a hash of their method and path as a suffix. An operation that had a
//! name keeps it, and a name in use is not given again. So a document that grows or is
//! reordered neither renames tools that models already know nor hides any.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::ImportOptions;
use crate::rest::document::Operation;
use crate::rest::schema::brief;
use windlass::ToolName;

/// The maximum length that every model API accepts.
const MAX: usize = 64;
/// Length of the suffix: `_` and eight hex digits.
const MARK: usize = 9;

/// Names in use.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names of other tools, which are not given again.
    pub taken: HashSet<String>,
    /// Names that operations (`GET /pets`) got at the last import, which they keep.
    pub kept: HashMap<String, String>,
}

/// The name of an operation, and a warning about it.
pub(super) type Named = (ToolName, Option<String>);

/// Chooses a name for every operation, or says why it gets none.
pub(super) fn choose(
    provider: &str,
    operations: &[&Operation<'_>],
    options: &ImportOptions,
    known: &Names,
) -> Vec<Result<Named, String>> {
    let wanted: Vec<Wanted> =
        operations.iter().map(|one| Wanted::of(provider, one, options)).collect();
    let kept: Vec<Option<&str>> = wanted.iter().map(|one| one.kept(known)).collect();
    let mut taken: HashSet<String> = known.taken.clone();
    taken.extend(kept.iter().flatten().map(|name| (*name).to_owned()));
    let mut times: HashMap<&str, usize> = HashMap::new();
    for (one, _) in wanted.iter().zip(&kept).filter(|(_, kept)| kept.is_none()) {
        *times.entry(&one.name).or_default() += 1;
    }
    let mut names = Vec::with_capacity(wanted.len());
    for (one, kept) in wanted.iter().zip(&kept) {
        let shared = times.get(one.name.as_str()).is_some_and(|times| *times > 1);
        let taken_already = || format!("another tool is called `{}`, too", one.name);
        let (name, note) = match kept {
            Some(name) => ((*name).to_owned(), None),
            None if !shared && taken.insert(one.name.clone()) => (one.name.clone(), None),
            None if one.renamed => {
                names.push(Err(taken_already()));
                continue;
            }
            None => {
                let mut marked = one.marked().into_iter();
                let Some(name) = marked.find(|name| taken.insert(name.clone())) else {
                    names.push(Err(taken_already()));
                    continue;
                };
                let of_another = known.taken.contains(&one.name);
                let note = format!("`{}` is another tool; this one is `{name}`", one.name);
                (name, of_another.then_some(note))
            }
        };
        let checked = ToolName::new(&name).map_err(|error| error.message().to_owned());
        names.push(checked.map(|name| (name, note)));
    }
    names
}

/// A warning about all tools whose names were taken.
pub(super) fn summary(renamed: &[String]) -> Option<String> {
    const SHOWN: usize = 5;
    let more = match renamed.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let first = renamed.get(..SHOWN).unwrap_or(renamed).join("; ");
    (!renamed.is_empty()).then(|| format!("names are taken: {first}{more}"))
}

/// A warning about renamings of operations that the document does not have.
pub(super) fn unused(
    rename: &BTreeMap<String, String>,
    operations: &[&Operation<'_>],
) -> Vec<String> {
    let is_there = |text: &str| {
        let called = |one: &&Operation<'_>| one.id == Some(text) || place_of(one) == text;
        operations.iter().any(called)
    };
    let unused = rename.keys().filter(|operation| !is_there(operation));
    unused.map(|operation| format!("there is no `{}` to rename", brief(operation, 80))).collect()
}

/// Method and path, which identify an operation.
fn place_of(operation: &Operation<'_>) -> String {
    format!("{} {}", operation.method, operation.path)
}

struct Wanted {
    name: String,
    /// Method and path.
    place: String,
    provider: String,
    /// The name comes from the import options.
    renamed: bool,
}

impl Wanted {
    /// The name from the last import, if the operation could still get it and no other
    /// tool has it.
    fn kept<'k>(&self, known: &'k Names) -> Option<&'k str> {
        let name = known.kept.get(&self.place)?;
        let own = *name == self.name || self.marked().contains(name);
        (own && !known.taken.contains(name)).then_some(name)
    }

    /// The name with a suffix; two, in case another provider has the same operation.
    fn marked(&self) -> [String; 2] {
        let other = format!("{} {}", self.provider, self.place);
        [marked(&self.name, &self.place), marked(&self.name, &other)]
    }

    fn of(provider: &str, operation: &Operation<'_>, options: &ImportOptions) -> Self {
        let (place, provider) = (place_of(operation), provider.to_owned());
        let by_id = operation.id.and_then(|id| options.rename.get(id));
        if let Some(name) = by_id.or_else(|| options.rename.get(&place)) {
            return Self { name: clean(name), place, provider, renamed: true };
        }
        let prefix = options.prefix.as_deref().unwrap_or_default();
        let own = operation.id.map(clean).filter(|name| !name.is_empty());
        let name = own.unwrap_or_else(|| clean(&from_place(operation)));
        let full = clean(&format!("{prefix}{name}"));
        let name = if full.len() > MAX { marked(&full, &place) } else { full };
        Self { name, place, provider, renamed: false }
    }
}

/// `GET /pets/{petId}` becomes `get_pets_petId`.
fn from_place(operation: &Operation<'_>) -> String {
    format!("{}_{}", operation.method.to_lowercase(), operation.path)
}

/// Only characters that every model API accepts, trimmed of separators.
fn clean(name: &str) -> String {
    let mut cleaned = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || c == '-' {
            cleaned.push(c);
        } else if !cleaned.ends_with('_') || c == '_' {
            cleaned.push('_');
        }
    }
    cleaned.trim_matches('_').to_owned()
}

/// The name with the suffix of its operation, within the maximum length.
fn marked(name: &str, place: &str) -> String {
    let kept: String = name.chars().take(MAX - MARK).collect();
    format!("{}_{:08x}", kept.trim_end_matches('_'), fnv1a(place) & 0xffff_ffff)
}

/// FNV-1a, a hash that stays the same across releases: models remember names.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
