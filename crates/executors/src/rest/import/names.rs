//! What tools are called.
//!
//! A name depends on its own operation only, but for those that share one: they
//! get a mark made from their method and path. An operation that had a name
//! keeps it, and a name that another tool has is not given again. So a document
//! that grows, or is sorted another way, does not rename tools that models
//! already know, and hides none.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::ImportOptions;
use crate::rest::document::Operation;
use crate::rest::schema::brief;
use windlass::ToolName;

/// What every model API takes.
const MAX: usize = 64;
/// `_` and eight signs.
const MARK: usize = 9;

/// What names there are already.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Those of other tools: they are not given again.
    pub taken: HashSet<String>,
    /// Those that operations (`GET /pets`) got at the last import: they keep
    /// them.
    pub kept: HashMap<String, String>,
}

/// A name for an operation, and what is odd about it.
pub(super) type Named = (ToolName, Option<String>);

/// A name for every operation, or why it can have none.
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

/// What is said of all tools whose names others have.
pub(super) fn summary(renamed: &[String]) -> Option<String> {
    const SHOWN: usize = 5;
    let more = match renamed.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let first = renamed.get(..SHOWN).unwrap_or(renamed).join("; ");
    (!renamed.is_empty()).then(|| format!("names are taken: {first}{more}"))
}

/// What is said of names for operations that are none of the document's.
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

/// Method and path, which no two operations share.
fn place_of(operation: &Operation<'_>) -> String {
    format!("{} {}", operation.method, operation.path)
}

struct Wanted {
    name: String,
    /// Method and path.
    place: String,
    provider: String,
    /// Somebody chose the name.
    renamed: bool,
}

impl Wanted {
    /// The name that the operation has already, where it is still one that it
    /// would get and nobody else has it.
    fn kept<'k>(&self, known: &'k Names) -> Option<&'k str> {
        let name = known.kept.get(&self.place)?;
        let own = *name == self.name || self.marked().contains(name);
        (own && !known.taken.contains(name)).then_some(name)
    }

    /// The name with a mark. Two providers may have the same operation.
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

/// Only what every model API takes, without signs at the ends.
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

/// The name with a mark of its operation, short enough.
fn marked(name: &str, place: &str) -> String {
    let kept: String = name.chars().take(MAX - MARK).collect();
    format!("{}_{:08x}", kept.trim_end_matches('_'), fnv1a(place) & 0xffff_ffff)
}

/// A hash that never changes between releases: names are kept by models.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
