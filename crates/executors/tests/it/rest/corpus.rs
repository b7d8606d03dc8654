//! API documents of real services. They are not part of this repository: the folder
//! `shared` is expected beside the clone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use needs_shared::needs_shared;
use serde_json::Value;
use windlass::{
    BoxFuture, Call, CallRequest, Content, Engine, Error, Executor, Output, ToolBuilder, ToolSpec,
};
use windlass_executors::rest::{Import, ImportOptions, Origin, import, preview};

use super::generate::arguments;
use super::judge::Judge;

/// Operations whose own document contradicts itself, with how.
const EXCUSED: &[(&str, &str)] = &[
    (
        "schema-types.json: PUT /anything/quirks/polymorphism",
        "`allOf` of types that exclude each other",
    ),
    ("schema-types.json: POST /anything/quirks/polymorphism", "the same"),
    ("schema-types.json: PATCH /anything/quirks/polymorphism", "the same"),
    ("schema-types.yaml: PUT /anything/quirks/polymorphism", "the same"),
    ("schema-types.yaml: POST /anything/quirks/polymorphism", "the same"),
    ("schema-types.yaml: PATCH /anything/quirks/polymorphism", "the same"),
    (
        "schema-additional-properties.json: POST /post",
        "`additionalProperties: false` in a part of `allOf`",
    ),
    ("schema-additional-properties.yaml: POST /post", "the same"),
    (
        "jira-cloud.yaml: POST /rest/api/3/expression/eval",
        "it allows no property that its alternatives demand",
    ),
    ("jira-cloud.yaml: PUT /rest/api/3/field/{fieldId}/context/defaultValue", "the same"),
    (
        "jira-cloud.yaml: PUT /rest/api/3/issuesecurityschemes/{schemeId}/level/{levelId}/member",
        "it demands a property that it does not allow",
    ),
    ("jira-cloud.yaml: POST /rest/api/3/screenscheme", "the same"),
];

fn documents() -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        let entries = fs::read_dir(dir).unwrap_or_else(|error| {
            panic!("the documents of real services are missing: {}: {error}", dir.display())
        });
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "json" || e == "yaml" || e == "yml") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/openapi"),
        &mut found,
    );
    // The large ones first, so that all threads end together.
    found.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).map_or(0, |about| about.len())));
    found
}

fn read(path: &Path, text: &str) -> Import {
    let beside = path.parent().unwrap();
    let read = |name: &str| fs::read_to_string(beside.join(name)).map_err(|e| e.to_string());
    let options = ImportOptions {
        base_url: Some("https://judged.example/base".into()),
        ..ImportOptions::default()
    };
    let origin = Origin { url: None, read: &read };
    import("api", text, &options, origin).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[derive(Default)]
struct Tally {
    documents: usize,
    tools: usize,
    requests: usize,
    unsupported: Vec<String>,
    faults: Vec<String>,
}

impl Tally {
    fn add(&mut self, path: &Path) {
        let text = fs::read_to_string(path).unwrap();
        // Parts of other documents, and notes beside them.
        if !["openapi", "swagger"].iter().any(|word| {
            text.contains(&format!("{word}: ")) || text.contains(&format!("\"{word}\":"))
        }) {
            return;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let import = read(path, &text);
        let judge = Judge::new(path, &text);
        self.documents += 1;
        self.tools += import.tools.len();
        self.unsupported.extend(
            import
                .unsupported
                .iter()
                .map(|one| format!("{name}: {}: {}", one.operation, one.reason)),
        );
        for tool in &import.tools {
            let label = format!("{name}: {}", tool.operation);
            for given in arguments(&tool.spec.input) {
                let Some(given) = given else {
                    self.faults.push(format!("{label}: no arguments were found"));
                    continue;
                };
                self.requests += 1;
                if let Some(other) = altered(&tool.spec, &given) {
                    self.faults.push(format!("{label}: {given} became {other}"));
                }
                match preview(&tool.spec, &given) {
                    Ok(request) => {
                        let faults = judge.faults(&tool.operation, &request);
                        self.faults
                            .extend(faults.into_iter().map(|fault| format!("{label}: {fault}")));
                    }
                    Err(error) => self.faults.push(format!("{label}: {error}")),
                }
            }
        }
    }
}

/// What the engine makes of the arguments of a change, where that is something
/// else than what was given.
fn altered(spec: &ToolSpec, given: &Value) -> Option<Value> {
    if spec.behaviour.read_only {
        return None;
    }
    let tool = ToolBuilder::new(spec.clone(), Arc::new(Echo));
    let tool = tool.with(|spec| (spec.provider, spec.output) = (None, None));
    let engine = Engine::builder().tool(tool).build().unwrap();
    let call = engine.call(CallRequest::new(spec.name.as_str(), given.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let result = runtime.block_on(call);
    let seen = match &result.outcome {
        Ok(output) => output.value().cloned().unwrap_or_default(),
        Err(error) => error.to_string().into(),
    };
    (seen != *given).then_some(seen)
}

/// Gives back the arguments that reach it.
struct Echo;

impl Executor for Echo {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        let output = Output::from(Content::json(call.arguments().clone()));
        Box::pin(std::future::ready(Ok(output)))
    }
}

#[needs_shared]
#[test]
fn documents_of_real_services_become_tools_whose_requests_fit() {
    let documents = documents();
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut own = Tally::default();
                while let Some(path) = documents.get(next.fetch_add(1, Ordering::Relaxed)) {
                    own.add(path);
                }
                let mut all = all.lock().unwrap();
                all.documents += own.documents;
                all.tools += own.tools;
                all.requests += own.requests;
                all.unsupported.append(&mut own.unsupported);
                all.faults.append(&mut own.faults);
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    for (operation, _) in EXCUSED {
        let before = all.faults.len();
        all.faults.retain(|fault| !fault.starts_with(operation));
        assert!(all.faults.len() < before, "{operation} needs no excuse any more");
    }
    println!(
        "{} documents, {} tools, {} operations without: {:#?}",
        all.documents,
        all.tools,
        all.unsupported.len(),
        all.unsupported
    );
    println!("{} requests, {} faults: {:#?}", all.requests, all.faults.len(), all.faults);
    let share = all.tools as f64 / (all.tools + all.unsupported.len()) as f64;
    assert!(all.documents > 150 && share >= 0.995, "{} documents, {share}", all.documents);
    assert!(all.faults.is_empty(), "{} faults", all.faults.len());
}
