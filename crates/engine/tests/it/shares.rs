//! What is remembered of sessions is bounded, and no tenant takes it from another.

use serde_json::Value;
use windlass::{Engine, Exposure, Session, TenantId, ToolBuilder};

/// More than an engine remembers.
const MANY: usize = 10_050;

fn session(tenant: &str, name: usize) -> Session {
    Session::new(TenantId::new(tenant), name.to_string())
}

#[tokio::test]
async fn a_tenant_with_endless_sessions_changes_nothing_in_those_of_others() {
    let found = ToolBuilder::from_fn("found", |_: Value| async { "" })
        .with(|spec| spec.exposure = Exposure::Deferred);
    let engine = Engine::builder().search_tool().tool(found).build().unwrap();
    let groups = engine.groups();
    groups.create("danger", "Tools that do harm.", true);
    let quiet = session("quiet", 0);
    groups.update_session(&quiet, &[], &["danger"]).unwrap();
    let name = engine.registry().get("found").unwrap().name().clone();
    engine.activate(&quiet, [&name].into_iter());
    for number in 0..MANY {
        let noisy = session("noisy", number);
        groups.update_session(&noisy, &["danger"], &[]).unwrap();
        engine.activate(&noisy, [&name].into_iter());
    }
    assert!(!groups.is_active("danger", Some(&quiet)), "what was switched off is on again");
    let shown = engine.active_tools(Some(&quiet));
    assert!(shown.iter().any(|tool| *tool.name() == name), "what was found is gone");
    // The newest of the noisy one are there, the oldest are not.
    let shows = |session: &Session| {
        engine.active_tools(Some(session)).iter().any(|tool| *tool.name() == name)
    };
    assert!(shows(&session("noisy", MANY - 1)) && !shows(&session("noisy", 0)));
}
