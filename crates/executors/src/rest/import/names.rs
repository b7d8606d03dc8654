//! What tools are called.
//!
//! A name depends on its own operation only, but for those that share one: they
//! get a mark made from their method and path. So a document that grows, or is
//! sorted another way, does not rename tools that models already know.

use std::collections::HashMap;

use super::ImportOptions;
use crate::rest::document::Operation;
use windlass::ToolName;

/// What every model API takes.
const MAX: usize = 64;
/// `_` and eight signs.
const MARK: usize = 9;

/// A name for every operation, or why it can have none.
pub(super) fn choose(
    operations: &[&Operation<'_>],
    options: &ImportOptions,
) -> Vec<Result<ToolName, String>> {
    let wanted: Vec<Wanted> = operations.iter().map(|one| Wanted::of(one, options)).collect();
    let mut times: HashMap<&str, usize> = HashMap::new();
    for one in &wanted {
        *times.entry(&one.name).or_default() += 1;
    }
    let mut taken: HashMap<String, &str> = HashMap::new();
    let mut names = Vec::with_capacity(wanted.len());
    for one in &wanted {
        let name = match times.get(one.name.as_str()) {
            Some(1) => one.name.clone(),
            _ if one.renamed => {
                names.push(Err(format!("another operation is called `{}`, too", one.name)));
                continue;
            }
            _ => marked(&one.name, &one.place),
        };
        let outcome = match taken.get(&name) {
            Some(other) => Err(format!("`{other}` is called `{name}`, too")),
            None => ToolName::new(&name).map_err(|error| error.message().to_owned()),
        };
        taken.insert(name, &one.place);
        names.push(outcome);
    }
    names
}

struct Wanted {
    name: String,
    /// Method and path, which no two operations share.
    place: String,
    /// Somebody chose the name.
    renamed: bool,
}

impl Wanted {
    fn of(operation: &Operation<'_>, options: &ImportOptions) -> Self {
        let place = format!("{} {}", operation.method, operation.path);
        let by_id = operation.id.and_then(|id| options.rename.get(id));
        if let Some(name) = by_id.or_else(|| options.rename.get(&place)) {
            return Self { name: clean(name), place, renamed: true };
        }
        let prefix = options.prefix.as_deref().unwrap_or_default();
        let own = operation.id.map(clean).filter(|name| !name.is_empty());
        let name = own.unwrap_or_else(|| clean(&from_place(operation)));
        let full = clean(&format!("{prefix}{name}"));
        let name = if full.len() > MAX { marked(&full, &place) } else { full };
        Self { name, place, renamed: false }
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
