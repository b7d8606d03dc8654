//! Hooks look at calls before and after they run, and may change, skip or stop
//! them.
//!
//! Run it: `cargo run -p windlass-examples --bin hooks`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use windlass::hook::{self, After, Before};
use windlass::{
    BoxFuture, Call, CallRequest, Engine, Error as ToolError, ErrorKind, Hook, Lang, Output, tool,
};

/// Lists the files of a folder.
#[tool(read_only, inline)]
fn list_files(
    /// The folder
    folder: String,
) -> Result<Vec<String>, String> {
    match folder.as_str() {
        "/home/ada" => Ok(vec!["notes.txt".to_owned(), ".ssh".to_owned()]),
        _ => Err(format!("{folder} cannot be read")),
    }
}

/// Deletes a file.
#[tool(destructive, inline)]
fn delete_file(
    /// The file
    path: String,
) -> String {
    format!("{path} is gone")
}

/// Counts how often each outcome came: a hook with state of its own.
#[derive(Default)]
struct Counter {
    good: AtomicU64,
    bad: AtomicU64,
}

/// A newtype of `Arc`, so that the program can read the counts.
struct Counting(Arc<Counter>);

impl Hook for Counting {
    fn after<'a>(&'a self, _call: &'a Call, _output: &'a Output) -> BoxFuture<'a, After> {
        self.0.good.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { After::Keep })
    }

    fn error<'a>(&'a self, _call: &'a Call, _error: &'a ToolError) -> BoxFuture<'a, After> {
        self.0.bad.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { After::Keep })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let counter = Arc::new(Counter::default());
    let engine = Engine::builder()
        .tool(list_files::tool())
        .tool(delete_file::tool())
        .hook(Counting(Arc::clone(&counter)))
        // Stop: refuse destructive calls.
        .hook(hook::before(|call| match call.tool().spec().behaviour.destructive {
            true => Before::Stop(ToolError::new(ErrorKind::Denied, "a person must do this")),
            false => Before::Run,
        }))
        // Rewrite the arguments; they are validated again.
        .hook(hook::before(|call| match call.argument("folder").and_then(|f| f.as_str()) {
            Some("~") => Before::Rewrite(json!({"folder": "/home/ada"})),
            _ => Before::Run,
        }))
        // Rewrite the result: leave hidden files out.
        .hook(hook::after(|_call, output| {
            match output.value().and_then(|value| value.as_array()) {
                Some(files) => After::Rewrite(Output::json(
                    files
                        .iter()
                        .filter(|file| !file.as_str().is_some_and(|name| name.starts_with('.')))
                        .cloned()
                        .collect::<Vec<_>>(),
                )),
                None => After::Keep,
            }
        }))
        .build()?;

    let mut texts = Vec::new();
    for (tool, arguments) in [
        ("list_files", json!({"folder": "~"})),
        ("list_files", json!({"folder": "/root"})),
        ("delete_file", json!({"path": "/home/ada/notes.txt"})),
    ] {
        let result = engine.call(CallRequest::new(tool, arguments.clone())).await;
        let text = result.to_text(Lang::En);
        println!("{tool} {arguments}\n  -> {text}");
        texts.push(text);
    }
    assert_eq!(texts[0], r#"["notes.txt"]"#);
    assert_eq!(texts[1], "Tool execution failed: /root cannot be read");
    assert!(texts[2].starts_with("This call was refused: a person must do this"));

    let (good, bad) = (counter.good.load(Ordering::Relaxed), counter.bad.load(Ordering::Relaxed));
    println!("\n{good} ran well, {bad} failed; the refused one never ran");
    assert_eq!((good, bad), (1, 1));
    Ok(())
}
