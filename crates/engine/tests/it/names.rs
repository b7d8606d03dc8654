//! Wire names of tools: readable, at most 64 characters, unique.

use std::collections::HashSet;

use serde_json::{Value, json};
use windlass::definition::{Format, export};
use windlass::{
    CallRequest, Caller, Context, Engine, ErrorKind, Lang, TenantId, ToolBuilder, TurnFormat,
};

fn tool(name: &str) -> ToolBuilder {
    let said = name.to_owned();
    ToolBuilder::from_fn(name, move |_: Value| {
        let said = said.clone();
        async move { said }
    })
}

fn engine(names: &[&str]) -> Engine {
    Engine::builder().tools(names.iter().map(|name| tool(name))).build().unwrap()
}

/// What models of every API see, which is the same for all.
fn shown(engine: &Engine, tenant: &TenantId) -> Vec<String> {
    let tools = engine.active_tools_for(tenant);
    let of = |format: Format, pointer: &str| -> Vec<String> {
        let all = export(tools.iter().map(|tool| &**tool), format, Lang::En);
        let name = |one: &Value| one.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        all.as_array().unwrap().iter().map(name).collect()
    };
    let names = of(TurnFormat::Anthropic.into(), "/name");
    assert_eq!(names, of(TurnFormat::OpenAi.into(), "/function/name"));
    assert_eq!(names, of(TurnFormat::Gemini.into(), "/name"));
    assert_eq!(names, of(Format::Mcp, "/name"));
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(names.iter().all(|name| name.len() <= 64 && name.chars().all(fits)), "{names:?}");
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{names:?}");
    names
}

async fn says(engine: &Engine, tenant: &TenantId, name: &str) -> String {
    let caller = Caller { tenant: tenant.clone(), ..Caller::default() };
    let context = Context::new(caller);
    let request = CallRequest::new(name, json!({})).context(context);
    engine.call(request).await.to_text(Lang::En)
}

#[tokio::test]
async fn names_are_readable_and_each_leads_to_its_tool() {
    let everybody = TenantId::default();
    let engine = engine(&["eff/pay", "shop.order", "a/b/c:d", "plain", "天气", "x/yy"]);
    let names = shown(&engine, &everybody);
    assert_eq!(names[..4], ["a__b__c_d", "eff__pay", "plain", "shop_order"]);
    for (name, own) in [("eff__pay", "eff/pay"), ("shop_order", "shop.order"), ("plain", "plain")] {
        assert_eq!(says(&engine, &everybody, name).await, own);
    }
    // Conversations from before know the form with the hash.
    assert_eq!(says(&engine, &everybody, "eff_pay__7283d063df15").await, "eff/pay");
    let long = format!("{}/{}", "server".repeat(9), "tool".repeat(9));
    engine.registry().register(tool(&long)).unwrap();
    for name in shown(&engine, &everybody) {
        let found = engine.registry().get(&name).unwrap();
        assert_eq!(says(&engine, &everybody, &name).await, found.name().as_str());
    }
}

/// The longest names there are lead to their tools; a longer one is cut where it is kept.
#[tokio::test]
async fn a_name_that_no_tool_can_have_is_cut() {
    let everybody = TenantId::default();
    let longest = "𠮷".repeat(128);
    let engine = engine(&[&longest]);
    assert_eq!(says(&engine, &everybody, &longest).await, longest);
    let longer = format!("{longest}{}", "x".repeat(10_000));
    let result = engine.call(CallRequest::new(longer.as_str(), json!({}))).await;
    assert_eq!(result.error().unwrap().kind(), ErrorKind::ToolNotFound);
    let record = engine.records().get(&everybody, result.id).await.unwrap().unwrap();
    assert_eq!((&result.tool_name, record.tool_name.len()), (&record.tool_name, 256 + "…".len()));
}

#[tokio::test]
async fn where_two_would_share_a_name_neither_has_it() {
    let everybody = TenantId::default();
    let engine = engine(&["a.b", "c"]);
    assert_eq!(shown(&engine, &everybody), ["a_b", "c"]);
    engine.registry().register(tool("a:b")).unwrap();
    for name in shown(&engine, &everybody) {
        assert_ne!(name, "a_b");
        assert_eq!(says(&engine, &everybody, &name).await.replace([':', '.'], "_")[..1], name[..1]);
    }
    assert!(says(&engine, &everybody, "a_b").await.contains("Unknown tool"), "it could be either");
    // The name is free again when one goes, and a tool that is called so has it.
    engine.registry().unregister("a:b").unwrap();
    assert_eq!(says(&engine, &everybody, "a_b").await, "a.b");
    engine.registry().register(tool("a_b")).unwrap();
    assert_eq!(says(&engine, &everybody, "a_b").await, "a_b");
    let names = shown(&engine, &everybody);
    assert_eq!(says(&engine, &everybody, &names[0]).await, "a.b");
    // A name that looks like another with its hash takes nothing from it.
    let (mine, other) = (engine.registry().get("a.b").unwrap().name().hashed(), tool("a_b/0"));
    let disguise = mine.replacen("__", "/", 1);
    engine.registry().register(tool(&disguise)).unwrap();
    engine.registry().register(other).unwrap();
    assert_eq!(says(&engine, &everybody, &mine).await, "a.b");
    for name in shown(&engine, &everybody) {
        assert_eq!(engine.registry().get(&name).unwrap().wire_name(), name);
    }
}

#[tokio::test]
async fn a_tenants_tool_changes_no_name_that_others_see() {
    let (ada, bob) = (TenantId::new("ada"), TenantId::new("bob"));
    let engine = engine(&["eff/pay"]);
    engine.registry().register_for(&ada, tool("eff__pay")).unwrap();
    assert_eq!(shown(&engine, &bob), ["eff__pay"]);
    assert_eq!(says(&engine, &bob, "eff__pay").await, "eff/pay");
    let names = shown(&engine, &ada);
    assert!(names.contains(&"eff__pay".to_owned()), "{names:?}");
    assert_eq!(says(&engine, &ada, "eff__pay").await, "eff__pay");
    let other = names.iter().find(|name| *name != "eff__pay").unwrap();
    assert_eq!(says(&engine, &ada, other).await, "eff/pay");
}
