//! Documents of real services. They are not part of this repository: the folder
//! `shared` stands beside the clone.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_executors::rest::{Import, ImportOptions, Origin, import};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/openapi")
}

pub(crate) fn documents() -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        let entries = fs::read_dir(dir).unwrap_or_else(|error| {
            panic!("the documents of real services are missing: {}: {error}", dir.display())
        });
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "json" || e == "yaml" || e == "yml") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&folder(), &mut found);
    found.sort();
    found
}

pub(crate) fn read(path: &Path) -> Option<Import> {
    let text = fs::read_to_string(path).unwrap();
    let beside = path.parent().unwrap();
    let read = |name: &str| fs::read_to_string(beside.join(name)).map_err(|e| e.to_string());
    if !text.contains("openapi") && !text.contains("swagger") {
        return None;
    }
    let origin = Origin { url: Some("https://api.example.com/openapi.json"), read: &read };
    Some(
        import("api", &text, &ImportOptions::default(), origin)
            .unwrap_or_else(|e| panic!("{}: {e}", path.display())),
    )
}

#[test]
fn every_document_imports() {
    let (mut tools, mut unsupported) = (0, 0);
    for path in documents() {
        let began = std::time::Instant::now();
        let Some(import) = read(&path) else { continue };
        let bytes: usize = import.tools.iter().map(|t| t.spec.input.to_string().len()).sum();
        println!(
            "{:>6} ms {:>5} tools {:>3} no {:>6} avg {:>6} max  {}",
            began.elapsed().as_millis(),
            import.tools.len(),
            import.unsupported.len(),
            bytes / import.tools.len().max(1),
            import.tools.iter().map(|t| t.spec.input.to_string().len()).max().unwrap_or(0),
            path.file_name().unwrap().display()
        );
        for one in &import.unsupported {
            println!("     {} : {}", one.operation, one.reason);
        }
        let mut notes = std::collections::BTreeMap::new();
        for t in &import.tools {
            for n in &t.notes {
                *notes.entry(n.clone()).or_insert(0) += 1;
            }
        }
        for (n, c) in notes.iter().take(12) {
            println!("       {c} x {n}");
        }
        tools += import.tools.len();
        unsupported += import.unsupported.len();
    }
    println!("{tools} tools, {unsupported} not");
}
