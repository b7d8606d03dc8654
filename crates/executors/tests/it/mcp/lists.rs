//! Lists of tools that are malformed, truncated or stale.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass::{Engine, TenantId};
use windlass_executors::mcp::{MemoryNotebook, MemoryTokens, Notebook, Servers, Start, State};
use windlass_executors::outbound::OutboundPolicy;

use super::Rig;
use super::played::server;

const LONG: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_interrupted_before_its_list_is_asked_again() {
    let notebook: Arc<dyn Notebook> = Arc::new(MemoryNotebook::default());
    let first = Rig::with(&[("s", server("prompts+hangs"))], Arc::clone(&notebook)).await;
    let own = first.servers.get_for(&TenantId::default(), "s").unwrap();
    let greeted = async {
        while !own.offers().prompts {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, greeted).await.unwrap();
    first.servers.stop().await;
    let note = notebook.read(None, "s").await.unwrap();
    assert!(note.is_none(), "nothing is known before it has said what it has: {note:?}");
    let engine = Engine::builder().build().unwrap();
    let text = json!({"mcpServers": {"s": server("prompts")}}).to_string();
    engine.load_text("servers.json", &text);
    let tokens = Arc::new(MemoryTokens::default());
    let policy = OutboundPolicy::default();
    let second = Servers::follow(&engine, notebook, tokens, policy, Start::Needed);
    let own = second.get_for(&TenantId::default(), "s").unwrap();
    own.listed().await.unwrap();
    assert!(engine.registry().get("s/echo").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_or_older_note_is_not_believed() {
    for note in [json!({"offers": {"prompts": true, "resources": false}}), json!({"listed": true})]
    {
        let notebook: Arc<dyn Notebook> = Arc::new(MemoryNotebook::default());
        let mut note = note;
        let played = server("old");
        note["reached"] = json!([played["command"], played["args"]]).to_string().into();
        notebook.write(None, "s", serde_json::from_value(note.clone()).unwrap()).await.unwrap();
        let rig = Rig::with(&[("s", played)], notebook).await;
        assert_eq!(rig.servers.listed(LONG).await.len(), 0);
        assert!(rig.engine.registry().get("s/echo").is_some(), "{note}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_lists_are_bounded_and_told_and_their_good_tools_work() {
    let plays = [
        ("nameless", "4 of 5 tools are left out"),
        ("many", "more than 2000 tools"),
        ("endless", "more than 200 pages"),
        ("circle", "begin again"),
    ];
    let servers: Vec<_> =
        plays.iter().map(|(play, _)| (*play, server(&format!("odd+{play}")))).collect();
    let rig = Rig::new(&servers).await;
    for (name, told) in plays {
        assert_eq!(rig.echo(name, "fine").await, "fine");
        let own = rig.servers.get_for(&TenantId::default(), name).unwrap();
        let odd = own.odd();
        assert!(odd.len() == 1 && odd[0].contains(told), "{name}: {odd:?}");
    }
    let count = |name: &str| {
        let tools = rig.engine.registry().list();
        tools.iter().filter(|tool| tool.spec().provider.as_deref() == Some(name)).count()
    };
    assert_eq!((count("nameless"), count("many")), (1, 2_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_whose_names_no_tool_can_have_are_told() {
    let notebook: Arc<dyn Notebook> = Arc::new(MemoryNotebook::default());
    let played = server("odd+misnamed");
    let rig = Rig::with(&[("s", played.clone())], Arc::clone(&notebook)).await;
    assert_eq!(rig.servers.listed(LONG).await.len(), 0);
    assert_eq!(rig.echo("s", "fine").await, "fine");
    let odd = rig.servers.get_for(&TenantId::default(), "s").unwrap().odd();
    assert!(odd[0].contains("a tool is left out") && odd[0].contains("two words"), "{odd:?}");
    assert_eq!(odd.len(), 11, "{odd:?}");
    assert_eq!(odd[10], "13 more tools are left out");
    // Also where the list is remembered.
    drop(rig);
    let rig = Rig::with(&[("s", played)], notebook).await;
    assert_eq!(rig.servers.listed(LONG).await.len(), 0);
    let own = rig.servers.get_for(&TenantId::default(), "s").unwrap();
    assert_eq!((own.state(), own.odd()), (State::Idle, odd));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_list_is_an_error_with_a_pause_that_doubles() {
    let notebook = Arc::new(MemoryNotebook::default());
    let rig = Rig::with(&[("s", server("odd+no-list"))], notebook).await;
    let own = rig.servers.get_for(&TenantId::default(), "s").unwrap();
    let errors = rig.servers.listed(LONG).await;
    assert!(errors[0].message().contains("is no list"), "{errors:?}");
    assert!(matches!(own.state(), State::Down(why) if why.contains("is no list")));
    // Tried again sooner at first: in the end, whoever calls is told when.
    let mut last = Duration::ZERO;
    for _ in 0..200 {
        let error = own.listed().await.unwrap_err();
        last = last.max(error.retry_after().unwrap_or_default());
        if last > Duration::from_secs(2) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(last > Duration::from_secs(2), "{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_both_eras_is_spoken_to_in_the_one_in_which_it_can_ask() {
    let rig = Rig::new(&[("s", server("dual+fastmcp"))]).await;
    let asked = rig.call("s/ask", json!({})).await;
    let said = asked.output().map(|output| output.to_text()).unwrap_or_default();
    assert!(said.contains("decline"), "it was asked, and nobody answered: {asked:?}");
    let mut silent = server("dual+fastmcp");
    (silent["elicitation"], silent["sampling"]) = (json!("refuse"), json!("refuse"));
    let rig = Rig::new(&[("s", silent)]).await;
    assert_eq!(rig.echo("s", "new").await, "new");
    let refused = rig.call("s/ask", json!({})).await;
    assert!(refused.error().is_some(), "nothing may be asked, so the newer era does: {refused:?}");
}

/// What the first question shows counts for the next ones; a call that runs beside
/// it is not touched.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_ask_in_the_newer_era_is_spoken_to_in_the_older_from_then_on() {
    let rig = Rig::new(&[("s", server("dual+late"))]).await;
    let (first, beside) = tokio::join!(rig.call("s/ask", json!({})), rig.echo("s", "beside"));
    assert!(first.error().is_some(), "{first:?}");
    assert_eq!(beside, "beside");
    let mut said = String::new();
    for _ in 0..100 {
        let asked = rig.call("s/ask", json!({})).await;
        said = asked.output().map(|output| output.to_text()).unwrap_or_default();
        if said.contains("decline") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(said.contains("decline"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_the_newer_era_alone_works_whatever_it_does_when_asked_for_the_older() {
    let plays = ["modern", "modern+dies-of-the-past+fastmcp"];
    let servers: Vec<_> = plays.iter().map(|play| (*play, server(play))).collect();
    let named: Vec<_> =
        ["a", "b"].iter().zip(servers).map(|(name, (_, own))| (*name, own)).collect();
    let rig = Rig::new(&named).await;
    for name in ["a", "b"] {
        assert_eq!(rig.echo(name, "new").await, "new");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_remembered_servers_waits_for_none_of_them() {
    let notebook: Arc<dyn Notebook> = Arc::new(MemoryNotebook::default());
    let servers: Vec<(String, serde_json::Value)> =
        (0..33).map(|number| (format!("s{number}"), server("old"))).collect();
    let note = json!({"listed": true, "tools": [{"name": "echo", "inputSchema": {}}],
        "reached": json!([servers[0].1["command"], servers[0].1["args"]]).to_string()});
    for (name, _) in &servers {
        notebook.write(None, name, serde_json::from_value(note.clone()).unwrap()).await.unwrap();
    }
    let named: Vec<_> = servers.iter().map(|(name, own)| (name.as_str(), own.clone())).collect();
    let rig = Rig::with(&named, notebook).await;
    let begin = std::time::Instant::now();
    assert_eq!(rig.servers.listed(LONG).await.len(), 0);
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
    for (name, _) in &servers {
        let own = rig.servers.get_for(&TenantId::default(), name).unwrap();
        assert_eq!(own.state(), State::Idle);
        assert!(rig.engine.registry().get(&format!("{name}/echo")).is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_servers_start_together_and_one_that_is_called_does_not_wait_its_turn() {
    let slow: Vec<(String, serde_json::Value)> =
        (0..33).map(|number| (format!("s{number}"), server("old"))).collect();
    let named: Vec<_> = slow.iter().map(|(name, own)| (name.as_str(), own.clone())).collect();
    let rig = Rig::with(&named, Arc::new(MemoryNotebook::default())).await;
    let last = rig.servers.get_for(&TenantId::default(), "s32").unwrap();
    last.listed().await.unwrap();
    let up = |state: &State| *state == State::Up;
    let others = (0..33).filter(|number| {
        let own = rig.servers.get_for(&TenantId::default(), &format!("s{number}")).unwrap();
        up(&own.state())
    });
    assert!(others.count() < 33, "it was not the last one to start");
    assert_eq!(rig.servers.listed(LONG).await.len(), 0);
    assert_eq!(rig.echo("s0", "fine").await, "fine");
}
