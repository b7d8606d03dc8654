//! Hot reload: a changed file replaces its tools, a broken one keeps them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass::{
    Call, CallRequest, Engine, Error, ErrorKind, Event, EventBody, Executor, Kind, Lang, Output,
    Subscription, WatchOptions,
};

/// Answers with the tool's description, so that a test sees which version ran.
struct Describe;

impl Executor for Describe {
    fn execute<'a>(&'a self, call: &'a Call) -> windlass::BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(Output::text(call.tool().spec().description.get(Lang::En)))
        })
    }
}

fn engine() -> Engine {
    Engine::builder()
        .kind(Kind::Builtin, |spec| match spec.entry.handler.as_str() {
            "describe" => Ok(Arc::new(Describe) as Arc<dyn Executor>),
            other => Err(Error::new(ErrorKind::ExecutorNotFound, format!("no `{other}`"))),
        })
        .build()
        .unwrap()
}

fn write(folder: &Path, file: &str, name: &str, description: &str) {
    let yaml = format!(
        "name: {name}\ndescription: {description}\nentry: {{type: builtin, handler: describe}}\n"
    );
    // Renaming is how editors replace a file.
    fs::write(folder.join("new.tmp"), yaml).unwrap();
    fs::rename(folder.join("new.tmp"), folder.join(file)).unwrap();
}

async fn until(events: &mut Subscription, wanted: &str) -> Vec<Event> {
    let mut seen = Vec::new();
    loop {
        let event = tokio::time::timeout(Duration::from_secs(20), events.next())
            .await
            .unwrap_or_else(|_| panic!("no {wanted} after {seen:?}"))
            .unwrap();
        let found = event.body.name() == wanted;
        seen.push(event);
        if found {
            return seen;
        }
    }
}

fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.body.name()).collect()
}

async fn text(engine: &Engine, tool: &str) -> String {
    engine.call(CallRequest::new(tool, json!({}))).await.to_text(Lang::En)
}

async fn watches(options: WatchOptions) {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine();
    write(folder.path(), "a.yaml", "alpha", "first version");
    let mut events = engine.events();
    let (report, watch) = engine.watch_folder(folder.path(), options).unwrap();
    assert_eq!((report.tools, report.errors.len()), (1, 0));
    assert_eq!(text(&engine, "alpha").await, "first version");
    until(&mut events, "execution_completed").await;

    // A running call keeps its version.
    let running = tokio::spawn({
        let engine = engine.clone();
        async move { text(&engine, "alpha").await }
    });
    write(folder.path(), "a.yaml", "alpha", "second version");
    let seen = until(&mut events, "reload_completed").await;
    assert!(names(&seen).contains(&"reload_started"));
    assert!(names(&seen).contains(&"tool_loaded") && names(&seen).contains(&"tool_updated"));
    assert_eq!(running.await.unwrap(), "first version");
    assert_eq!(text(&engine, "alpha").await, "second version");

    // A broken file keeps the last good version and says where it is broken.
    fs::write(
        folder.path().join("a.yaml"),
        "name: alpha\nparameters:\n  - {name: x, type: strng}\n",
    )
    .unwrap();
    let seen = until(&mut events, "reload_completed").await;
    let error = seen.iter().find_map(|event| match &event.body {
        EventBody::LoadError { error, .. } => Some(error.clone()),
        _ => None,
    });
    assert!(error.as_ref().is_some_and(|error| error.contains("a.yaml:3:")), "{error:?}");
    assert_eq!(text(&engine, "alpha").await, "second version");

    // A new file adds, a removed one removes.
    write(folder.path(), "b.yaml", "beta", "another");
    let seen = until(&mut events, "reload_completed").await;
    assert!(names(&seen).contains(&"tool_added"), "{seen:?}");
    assert_eq!(text(&engine, "beta").await, "another");
    fs::remove_file(folder.path().join("b.yaml")).unwrap();
    let seen = until(&mut events, "reload_completed").await;
    assert!(names(&seen).contains(&"tool_removed"), "{seen:?}");
    assert!(engine.registry().get("beta").is_none());
    assert!(engine.registry().get("alpha").is_some());
    drop(watch);
    write(folder.path(), "c.yaml", "gamma", "unseen");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(engine.registry().get("gamma").is_none(), "nobody watches any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_seen_when_the_system_tells() {
    watches(WatchOptions { interval: Duration::from_secs(3600), notify: true }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_seen_by_looking() {
    watches(WatchOptions { interval: Duration::from_millis(50), notify: false }).await;
}

#[tokio::test]
async fn a_tool_without_its_handler_loads_and_says_so_when_called() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "name: later\ndescription: x\nparameters: [{name: n, type: integer, required: true}]\nentry: {type: builtin, handler: http_request}\n";
    fs::write(folder.path().join("later.yaml"), yaml).unwrap();
    fs::write(folder.path().join("bad.yaml"), "name: [").unwrap();
    let engine = engine();
    let report = engine.load_folder(folder.path());
    assert_eq!((report.files, report.tools, report.errors.len()), (2, 1, 1));
    let call = |arguments| engine.call(CallRequest::new("later", arguments));
    let invalid = call(json!({})).await;
    assert_eq!(invalid.error().unwrap().kind(), ErrorKind::InvalidArguments, "checked first");
    let result = call(json!({"n": 1})).await;
    assert_eq!(result.error().unwrap().kind(), ErrorKind::ExecutorNotFound);
}

#[tokio::test]
async fn two_files_with_one_name_are_reported_and_healed() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.yaml", "same", "from a");
    write(folder.path(), "b.yaml", "same", "from b");
    let engine = engine();
    let mut events = engine.events();
    let options = WatchOptions { interval: Duration::from_secs(3600), notify: true };
    let (report, _watch) = engine.watch_folder(folder.path(), options).unwrap();
    assert_eq!(report.errors.len(), 1, "{:?}", report.errors);
    assert_eq!(text(&engine, "same").await, "from a");
    fs::remove_file(folder.path().join("a.yaml")).unwrap();
    until(&mut events, "reload_completed").await;
    assert_eq!(text(&engine, "same").await, "from b");
}

#[tokio::test]
async fn a_name_that_moves_to_another_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "b.yaml", "moved", "from b");
    let engine = engine();
    let mut events = engine.events();
    let options = WatchOptions { interval: Duration::from_secs(3600), notify: true };
    let (report, _watch) = engine.watch_folder(folder.path(), options).unwrap();
    assert_eq!(report.tools, 1);
    // First the copy, then the removal, as many programs rename.
    write(folder.path(), "a.yaml", "moved", "from a");
    until(&mut events, "reload_completed").await;
    fs::remove_file(folder.path().join("b.yaml")).unwrap();
    until(&mut events, "reload_completed").await;
    assert_eq!(text(&engine, "moved").await, "from a");
}

#[tokio::test]
async fn a_changed_provider_reaches_its_tools() {
    let folder = tempfile::tempdir().unwrap();
    let provider = |name: &str| {
        let yaml = format!("identity: {{name: {name}, author: us, label: {{en_US: P}}}}\n");
        fs::write(folder.path().join("desk/desk.yaml"), yaml).unwrap();
    };
    fs::create_dir_all(folder.path().join("desk/tools")).unwrap();
    provider("first");
    let tool = "identity: {name: look, author: us, label: {en_US: L}}\ndescription: {en_US: Looks.}\nparameters: []\n";
    fs::write(folder.path().join("desk/tools/look.yaml"), tool).unwrap();
    let engine = engine();
    let mut events = engine.events();
    let options = WatchOptions { interval: Duration::from_secs(3600), notify: true };
    let (report, _watch) = engine.watch_folder(folder.path(), options).unwrap();
    assert_eq!((report.tools, report.errors.len()), (1, 0), "{:?}", report.errors);
    let named = || engine.registry().get("look").unwrap().spec().provider.clone();
    assert_eq!(named().as_deref(), Some("first"));
    provider("second_name");
    until(&mut events, "reload_completed").await;
    assert_eq!(named().as_deref(), Some("second_name"));
}
