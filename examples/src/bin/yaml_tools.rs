//! Tools from definition files, run by the built-in handlers.
//!
//! Run it: `cargo run -p windlass-examples --bin yaml_tools`

use std::error::Error;

use serde_json::json;
use windlass::{CallRequest, Context, Engine, Kind, Lang, Session, TenantId};
use windlass_executors::builtin::Builtins;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let builtins = Builtins::default();
    let engine = Engine::builder()
        // Without this line, definitions of this kind load and fail when called.
        .kind(Kind::Builtin, move |spec| builtins.bind(spec))
        .group("extras", "Tools that are rarely needed", false)
        .build()?;
    let report = engine.load_folder(FOLDER);
    for error in &report.errors {
        println!("not loaded: {error}");
    }
    println!("{} tools from {} files", report.tools, report.files);
    assert!(report.errors.is_empty());

    // A tool of an inactive group cannot be called ...
    let session = Session::new(TenantId::default(), "conversation-1");
    let context = || Context::for_conversation("agent", "conversation-1");
    let shout = || CallRequest::new("shout", json!({"text": "land ho"})).context(context());
    let off = engine.call(shout()).await;
    println!("shout, while its group is off: {}", off.to_text(Lang::En));
    assert!(!off.is_success());

    // ... until this conversation activates the group.
    engine.groups().update_session(&session, &["extras"], &[])?;
    let on = engine.call(shout()).await;
    println!("shout, once it is on: {}", on.to_text(Lang::En));
    assert!(on.is_success());

    let welcome = CallRequest::new("welcome", json!({}));
    let welcome = welcome.context(Context::default().variable("greeting", "Welcome aboard"));
    let welcome = engine.call(welcome).await;
    println!("welcome: {}", welcome.to_text(Lang::En));
    assert_eq!(welcome.to_text(Lang::En), "Welcome aboard");

    // A mistake in a definition is reported with its position and a suggestion.
    let broken = "name: broken\nparameters:\n  - {name: a, type: strng}\n";
    let report = engine.load_text("broken.yaml", broken);
    println!("\nnot loaded: {}", report.errors[0]);
    assert_eq!((report.errors[0].line, report.tools), (3, 0));
    Ok(())
}
