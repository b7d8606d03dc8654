//! `list_files`: lists a directory.

use cap_std::fs::{Dir, DirEntry};
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass::{Error, Output};

use super::{Granted, fault, path};

const MAX_ENTRIES: usize = 1_000;
const MAX_DEPTH: usize = 16;
/// Maximum number of entries read before sorting.
const MAX_LOOKED_AT: usize = 100_000;

/// Lists a directory, sorted by name. Symbolic links are listed, but not followed.
pub(super) fn run(granted: &Granted, arguments: &Value) -> Result<Output, Error> {
    let path = path(arguments, ".")?;
    let recursive = arguments["recursive"].as_bool().unwrap_or(false);
    let dir = granted.dir.open_dir(path).map_err(|cause| fault(path, cause))?;
    let mut listing = Listing { entries: Vec::new(), truncated: false };
    let depth = if recursive { MAX_DEPTH } else { 1 };
    listing.add(&dir, "", depth).map_err(|cause| fault(path, cause))?;
    let mut lines: Vec<String> = listing
        .entries
        .iter()
        .map(|entry| {
            let name = entry["path"].as_str().unwrap_or_default();
            match entry["type"].as_str() {
                Some("folder") => format!("{name}/"),
                Some("file") => format!("{name} ({} bytes)", entry["size"]),
                _ => format!("{name} (link)"),
            }
        })
        .collect();
    match (listing.truncated, lines.is_empty()) {
        (true, _) => lines.push(format!("[only {MAX_ENTRIES} entries are shown]")),
        (false, true) => lines.push("(empty)".to_owned()),
        _ => {}
    }
    Ok(Output::text(lines.join("\n")).with_structured(json!({
        "path": path, "entries": listing.entries, "truncated": listing.truncated,
    })))
}

struct Listing {
    entries: Vec<Value>,
    truncated: bool,
}

impl Listing {
    fn add(&mut self, dir: &Dir, prefix: &str, depth: usize) -> std::io::Result<()> {
        let mut found: Vec<(String, DirEntry)> = Vec::new();
        for entry in dir.entries()?.take(MAX_LOOKED_AT).flatten() {
            found.push((entry.file_name().to_string_lossy().into_owned(), entry));
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, entry) in found {
            if self.entries.len() >= MAX_ENTRIES {
                self.truncated = true;
                return Ok(());
            }
            let path = format!("{prefix}{name}");
            let Ok(about) = entry.metadata() else { continue };
            let modified = about.modified().ok().map(|time| time.into_std());
            let modified = modified.and_then(|time| Timestamp::try_from(time).ok());
            let what = match () {
                () if about.is_dir() => "folder",
                () if about.is_file() => "file",
                () => "other",
            };
            self.entries.push(json!({
                "path": path, "type": what, "size": about.len(),
                "modified": modified.map(|time| time.to_string()),
            }));
            if about.is_dir() && depth > 1 {
                // An unreadable directory is listed without content.
                if let Ok(inner) = entry.open_dir() {
                    drop(self.add(&inner, &format!("{path}/"), depth - 1));
                }
            }
        }
        Ok(())
    }
}
