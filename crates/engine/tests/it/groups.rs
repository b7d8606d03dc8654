//! Tool groups, activated globally, for a session, and by the model itself.

use serde_json::{Value, json};
use windlass::{CallRequest, Context, Engine, ErrorKind, Session, TenantId, ToolBuilder};

fn engine() -> Engine {
    let tool = |name: &str| ToolBuilder::from_fn(name, |_: Value| async { "ok" });
    Engine::builder()
        .group("basic", "Everyday tools", true)
        .group("admin", "Tools for administrators", false)
        .tool(tool("look").group("basic"))
        .tool(tool("wipe").group("admin"))
        .tool(tool("free"))
        .group_tool()
        .build()
        .unwrap()
}

fn names(engine: &Engine, session: Option<&Session>) -> Vec<String> {
    engine.active_tools(session).iter().map(|tool| tool.name().to_string()).collect()
}

async fn call(
    engine: &Engine,
    conversation: &str,
    tool: &str,
    arguments: Value,
) -> Option<ErrorKind> {
    let context = Context::for_conversation("agent", conversation);
    let result = engine.call(CallRequest::new(tool, arguments).context(context)).await;
    result.error().map(windlass::Error::kind)
}

#[tokio::test]
async fn only_active_groups_are_listed_and_run() {
    let engine = engine();
    assert_eq!(names(&engine, None), ["free", "look", "update_tool_groups"]);
    assert_eq!(call(&engine, "c", "wipe", json!({})).await, Some(ErrorKind::ToolInactive));
    engine.groups().update(&["admin"], true).unwrap();
    engine.groups().update(&["basic"], false).unwrap();
    assert_eq!(names(&engine, None), ["free", "update_tool_groups", "wipe"]);
    assert_eq!(call(&engine, "c", "wipe", json!({})).await, None);
    let error = engine.groups().update(&["basic", "nope"], true).unwrap_err();
    assert!(error.message().contains("nope") && error.message().contains("admin"));
    assert_eq!(names(&engine, None), ["free", "update_tool_groups", "wipe"], "nothing changed");
}

#[tokio::test]
async fn a_model_changes_its_own_session_only() {
    let engine = engine();
    let activate = json!({"activate": ["admin"]});
    assert_eq!(call(&engine, "one", "update_tool_groups", activate).await, None);
    assert_eq!(call(&engine, "one", "wipe", json!({})).await, None);
    assert_eq!(call(&engine, "two", "wipe", json!({})).await, Some(ErrorKind::ToolInactive));
    // The same conversation id of another tenant is another session.
    let other = Session::new(TenantId::new("other"), "one");
    assert!(!names(&engine, Some(&other)).contains(&"wipe".to_owned()));
    let only = json!({"activate": ["admin"], "only": true});
    assert_eq!(call(&engine, "one", "update_tool_groups", only).await, None);
    assert_eq!(call(&engine, "one", "look", json!({})).await, Some(ErrorKind::ToolInactive));
    let unknown = json!({"activate": ["root"]});
    assert_eq!(
        call(&engine, "one", "update_tool_groups", unknown).await,
        Some(ErrorKind::NotFound)
    );
    // One wrong name and nothing changes.
    let half = json!({"activate": ["basic"], "deactivate": ["root"]});
    assert_eq!(call(&engine, "one", "update_tool_groups", half).await, Some(ErrorKind::NotFound));
    assert_eq!(call(&engine, "one", "look", json!({})).await, Some(ErrorKind::ToolInactive));
    let session = Session::new(TenantId::default(), "one");
    engine.groups().reset_session(&session);
    assert_eq!(names(&engine, Some(&session)), ["free", "look", "update_tool_groups"]);
}

#[tokio::test]
async fn registering_replacing_and_unregistering() {
    let engine = engine();
    let free = || ToolBuilder::from_fn("free", |_: Value| async { "new" });
    let error = engine.registry().register(free()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyRegistered);
    engine.registry().replace(free()).unwrap();
    let result = engine.call(CallRequest::new("free", json!({}))).await;
    assert_eq!(result.to_text(windlass::Lang::En), "new");
    engine.registry().unregister("free").unwrap();
    assert_eq!(engine.registry().unregister("free").unwrap_err().kind(), ErrorKind::ToolNotFound);
    assert_eq!(call(&engine, "c", "free", json!({})).await, Some(ErrorKind::ToolNotFound));
    // A name that no API takes is found by its wire form, too.
    let dotted = ToolBuilder::from_fn("a.b/c", |_: Value| async { "dotted" });
    let wire = engine.registry().register(dotted).unwrap().name().wire();
    assert_ne!(wire, "a.b/c");
    assert_eq!(call(&engine, "c", &wire, json!({})).await, None);
    for bad in ["", "has space"] {
        let bad = ToolBuilder::from_fn(bad, |_: Value| async { "x" });
        let error = engine.registry().register(bad).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidDefinition);
    }
}
