//! MCP client at the boundary of the engine, with servers that behave and servers that do
//! not.

mod answers;
mod expiring;
mod lists;
mod played;
mod processes;
mod questions;
mod web;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass::{CallRequest, CallResult, Context, Engine, ErrorKind, EventBody, Lang, TenantId};
use windlass_executors::mcp::{
    Answers, Asker, MemoryNotebook, MemoryTokens, Notebook, Servers, Start, State, ToolFailure,
};
use windlass_executors::outbound::OutboundPolicy;

use played::server;

/// An engine with servers that play these parts.
struct Rig {
    engine: Engine,
    servers: Servers,
}

impl Rig {
    async fn new(servers: &[(&str, Value)]) -> Self {
        let rig = Self::with(servers, Arc::new(MemoryNotebook::default())).await;
        assert_eq!(rig.servers.listed(Duration::from_secs(30)).await.len(), 0);
        rig
    }

    async fn with(servers: &[(&str, Value)], notebook: Arc<dyn Notebook>) -> Self {
        let engine = Engine::builder().build().unwrap();
        let list: serde_json::Map<String, Value> =
            servers.iter().map(|(name, server)| ((*name).to_owned(), server.clone())).collect();
        let text = json!({"mcpServers": list}).to_string();
        assert_eq!(engine.load_text("servers.json", &text).errors, []);
        let policy = OutboundPolicy::default();
        let tokens = Arc::new(MemoryTokens::default());
        let servers = Servers::follow(&engine, notebook, tokens, policy, Start::Unknown);
        Self { engine, servers }
    }

    async fn call(&self, tool: &str, arguments: Value) -> CallResult {
        self.engine.call(CallRequest::new(tool, arguments)).await
    }

    async fn echo(&self, server: &str, message: &str) -> String {
        let result = self.call(&format!("{server}/echo"), json!({"message": message})).await;
        result.outcome.unwrap_or_else(|error| panic!("{server}: {error:?}")).to_text()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_both_eras_run_calls() {
    let rig = Rig::new(&[("old", server("old")), ("new", server("modern"))]).await;
    assert_eq!(rig.echo("old", "a").await, "a");
    assert_eq!(rig.echo("new", "b").await, "b");
    let tool = rig.engine.registry().get("old/echo").unwrap();
    assert_eq!(tool.spec().description.get(Lang::En), "Says it again.");
    assert_eq!(tool.spec().provider.as_deref(), Some("old"));
    assert!(
        !tool.spec().behaviour.read_only,
        "a server is not believed unless the operator says so"
    );
    assert!(rig.engine.registry().get("old/bad name").is_none(), "a bad name is no tool");
    let refused = rig.call("old/echo", json!({"message": 5, "more": 1})).await;
    assert_eq!(refused.error().map(|error| error.kind()), Some(ErrorKind::InvalidArguments));
    rig.servers.stop().await;
    assert!(rig.engine.registry().get("old/echo").is_none(), "its tools go with a server");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_sent_what_the_caller_gave_and_what_it_requires() {
    let rig = Rig::new(&[("s", server("old"))]).await;
    for (given, sent) in [
        (json!({}), json!({"version": 2})),
        (json!({"settings": {}}), json!({"settings": {}, "version": 2})),
        (json!({"notify": true, "version": 2}), json!({"notify": true, "version": 2})),
        (json!({"count": null}), json!({"count": null, "version": 2})),
    ] {
        let result = rig.call("s/given", given.clone()).await;
        let output = result.outcome.unwrap_or_else(|error| panic!("{given}: {error:?}"));
        assert_eq!(serde_json::from_str::<Value>(&output.to_text()).unwrap(), sent);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_does_not_compile_reaches_the_model_and_is_checked_as_far_as_it_can_be() {
    let rig = Rig::new(&[("s", server("old"))]).await;
    let tool = rig.engine.registry().get("s/odd").unwrap();
    assert_eq!(*tool.model_schema(), played::odd());
    assert!(tool.unchecked().unwrap().contains("is not checked"), "{:?}", tool.unchecked());
    assert_eq!(rig.engine.registry().get("s/given").unwrap().unchecked(), None);
    let fits = json!({"name": "a", "share": 0.5, "code": "x", "kind": 3, "far": [1]});
    let result = rig.call("s/odd", fits.clone()).await;
    let text = result.outcome.unwrap_or_else(|error| panic!("{error:?}")).to_text();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), fits);
    for wrong in [json!({"name": "a", "share": 0}), json!({"name": 5}), json!({"share": 1})] {
        let refused = rig.call("s/odd", wrong.clone()).await;
        assert_eq!(refused.error().map(|e| e.kind()), Some(ErrorKind::InvalidArguments), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_in_a_call_may_have_acted() {
    let rig = Rig::new(&[("s", server("old"))]).await;
    let failed = rig.call("s/crash", json!({})).await;
    assert_eq!(failed.error().unwrap().kind(), ErrorKind::Network);
    let (english, chinese) = (failed.to_text(Lang::En), failed.to_text(Lang::Zh));
    assert!(english.contains("may have taken effect") && !english.contains("ry again"));
    assert!(chinese.contains("可能已经生效") && !chinese.contains("重试"), "{chinese}");
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_count_where_the_operator_trusts_them() {
    let mut trusted = server("old");
    trusted["trust_annotations"] = json!(true);
    let rig = Rig::new(&[("s", trusted)]).await;
    let behaviour = |name: &str| rig.engine.registry().get(name).unwrap().spec().behaviour;
    assert!(behaviour("s/echo").read_only);
    assert!(!behaviour("s/never").read_only);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_say_how_long_its_calls_take() {
    let mut impatient = server("old");
    impatient["timeout"] = json!("300ms");
    let rig = Rig::new(&[("s", impatient)]).await;
    let begun = Instant::now();
    let late = rig.call("s/never", json!({})).await;
    assert_eq!(late.error().map(|error| error.kind()), Some(ErrorKind::Timeout));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_do_not_follow_the_rules_answer_all_the_same() {
    let plays =
        ["late", "twice", "wrong-id", "mute", "slow", "dies-of-news", "late+twice+wrong-id"];
    let servers: Vec<(String, Value)> =
        plays.iter().enumerate().map(|(at, play)| (format!("s{at}"), server(play))).collect();
    let named: Vec<(&str, Value)> =
        servers.iter().map(|(name, server)| (name.as_str(), server.clone())).collect();
    let rig = Rig::new(&named).await;
    for round in 0..3 {
        for (name, _) in &servers {
            let said = format!("{name} {round}");
            assert_eq!(rig.echo(name, &said).await, said);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_end_is_one_clear_error_and_the_next_call_works() {
    let mut huge = server("huge");
    huge["max_message_bytes"] = json!(1_000_000);
    let rig = Rig::new(&[("s", huge)]).await;
    let failed = rig.call("s/echo", json!({"message": "x"})).await;
    let error = failed.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::Network);
    assert!(error.message().contains("more than 1000000 bytes"), "{error}");
    let next = rig.call("s/environment", json!({})).await;
    assert!(next.is_success(), "{:?}", next.error());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_in_a_call_says_why_and_comes_back() {
    let rig = Rig::new(&[("s", server("old"))]).await;
    for round in 0..3 {
        let failed = rig.call("s/crash", json!({})).await;
        let error = failed.error().unwrap();
        assert_eq!(error.kind(), ErrorKind::Network, "{round}: {error}");
        assert!(error.message().contains("status 7"), "{error}");
        assert!(error.message().contains("out of patience"), "{error}");
        let (en, zh) = (error.feedback(Lang::En), error.feedback(Lang::Zh));
        assert!(!en.contains("服务") && zh.contains("服务"), "one language each: {en} {zh}");
        assert_eq!(rig.echo("s", "still there").await, "still there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_an_answer_ends_at_its_deadline_and_holds_up_nobody() {
    let rig = Rig::new(&[("s", server("old"))]).await;
    let start = Instant::now();
    let request = CallRequest::new("s/never", json!({})).timeout(Duration::from_millis(300));
    let (stuck, quick) = tokio::join!(rig.engine.call(request), rig.echo("s", "quick"));
    assert_eq!(stuck.error().unwrap().kind(), ErrorKind::Timeout);
    assert_eq!(quick, "quick");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(rig.echo("s", "on").await, "on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_server_holds_up_neither_the_start_nor_the_others() {
    let dead = json!({"command": "/bin/false"});
    let missing = json!({"command": "/no/such/program"});
    let start = Instant::now();
    let rig = Rig::with(
        &[("dead", dead), ("missing", missing), ("s", server("old"))],
        Arc::new(MemoryNotebook::default()),
    )
    .await;
    assert!(start.elapsed() < Duration::from_secs(1), "nothing is waited for");
    let errors = rig.servers.listed(Duration::from_secs(30)).await;
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert_eq!(rig.echo("s", "fine").await, "fine");
    let dead = rig.servers.get_for(&TenantId::default(), "dead").unwrap();
    assert!(matches!(dead.state(), State::Down(why) if why.contains("status 1")));
    let unknown = rig.call("dead/x", json!({})).await;
    assert_eq!(unknown.error().unwrap().kind(), ErrorKind::ToolNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_was_is_known_before_it_runs_again() {
    let notebook: Arc<dyn Notebook> = Arc::new(MemoryNotebook::default());
    let first = Rig::with(&[("s", server("old"))], Arc::clone(&notebook)).await;
    assert_eq!(first.servers.listed(Duration::from_secs(30)).await.len(), 0);
    first.servers.stop().await;
    let second = Rig::with(&[("s", server("old"))], Arc::clone(&notebook)).await;
    assert_eq!(second.servers.listed(Duration::from_secs(1)).await.len(), 0);
    let own = second.servers.get_for(&TenantId::default(), "s").unwrap();
    assert_eq!(own.state(), State::Idle, "nobody has needed it yet");
    assert_eq!(second.echo("s", "now").await, "now");
    assert_eq!(own.state(), State::Up);
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_comes_in_order_and_before_the_result() {
    let rig = Rig::new(&[("s", server("old"))]).await;
    let mut events = rig.engine.events();
    assert!(rig.call("s/report", json!({})).await.is_success());
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        match &event.body {
            EventBody::ExecutionProgress { progress, .. } => seen.push(progress.to_text()),
            EventBody::ExecutionCompleted { .. } => break,
            _ => {}
        }
    }
    let shown: Vec<Value> = seen.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let steps: Vec<Option<f64>> = shown.iter().map(|step| step["progress"].as_f64()).collect();
    assert_eq!(steps, [Some(1.0), Some(2.0), Some(3.0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_keeps_its_form() {
    let rig = Rig::new(&[("s", server("old"))]).await;
    let failed = rig.call("s/fail", json!({})).await;
    let error = failed.error().unwrap();
    assert_eq!((error.kind(), error.message()), (ErrorKind::ToolError, "no such thing"));
    let ToolFailure(output) = ToolFailure::of(error).unwrap();
    assert_eq!(output.value().unwrap()["code"], 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_tool_is_held_until_an_operator_looks() {
    let mut careful = server("changes");
    careful["quarantine"] = json!(true);
    let rig = Rig::new(&[("careful", careful), ("easy", server("changes"))]).await;
    let description = |name: &str| {
        let tool = rig.engine.registry().get(name).unwrap();
        tool.spec().description.get(Lang::En).to_owned()
    };
    for name in ["careful", "easy"] {
        assert_eq!(rig.echo(name, "before").await, "before");
        assert!(rig.call(&format!("{name}/touch"), json!({})).await.is_success());
    }
    let changed = async {
        while !description("easy/echo").contains(".ssh") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), changed).await.unwrap();
    let held = async {
        loop {
            let result = rig.call("careful/echo", json!({"message": "x"})).await;
            if let Some(error) = result.error() {
                return error.clone();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let error = tokio::time::timeout(Duration::from_secs(10), held).await.unwrap();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(description("careful/echo"), "Says it again.", "models see what was accepted");
    assert_eq!(rig.echo("easy", "after").await, "after");
    let server = rig.servers.get_for(&TenantId::default(), "careful").unwrap();
    assert_eq!(server.held().len(), 1);
    assert_eq!(server.accept(&["other".to_owned()]), [] as [&str; 0]);
    assert_eq!(server.accept(&[]), ["echo"]);
    let accepted = async {
        while !description("careful/echo").contains(".ssh") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), accepted).await.unwrap();
    assert_eq!(rig.echo("careful", "again").await, "again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_was_taken_away_and_comes_back_as_another_is_held() {
    let mut careful = server("swaps");
    careful["quarantine"] = json!(true);
    let notebook: Arc<dyn Notebook> = Arc::new(MemoryNotebook::default());
    let rig = Rig::with(&[("s", careful.clone())], Arc::clone(&notebook)).await;
    assert_eq!(rig.servers.listed(Duration::from_secs(30)).await.len(), 0);
    let server = rig.servers.get_for(&TenantId::default(), "s").unwrap();
    assert_eq!(rig.echo("s", "before").await, "before");
    let waits = async |done: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(10), "not in time");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(rig.call("s/touch", json!({})).await.is_success());
    waits(&|| rig.engine.registry().get("s/echo").is_none()).await;
    assert!(rig.call("s/touch", json!({})).await.is_success());
    waits(&|| rig.engine.registry().get("s/echo").is_some()).await;
    let refused = rig.call("s/echo", json!({"message": "x"})).await;
    assert_eq!(refused.error().unwrap().kind(), ErrorKind::Denied);
    let shown = |rig: &Rig| {
        let tool = rig.engine.registry().get("s/echo").unwrap();
        tool.spec().description.get(Lang::En).to_owned()
    };
    assert_eq!(shown(&rig), "Says it again.", "models see what was accepted");
    assert_eq!(server.accept(&[]), ["echo"]);
    waits(&|| shown(&rig).contains(".ssh")).await;
    assert_eq!(rig.echo("s", "after").await, "after");
    rig.servers.stop().await;
    // What was accepted last counts, also at another start: the first list of the
    // new process is what was accepted at first.
    let again = Rig::with(&[("s", careful)], notebook).await;
    assert_eq!(again.servers.listed(Duration::from_secs(30)).await.len(), 0);
    let refused = again.call("s/echo", json!({"message": "x"})).await;
    assert_eq!(refused.error().unwrap().kind(), ErrorKind::Denied);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_say_which_era_a_server_is_of() {
    let with = |play: &str, protocol: &str| {
        let mut server = server(play);
        server["protocol"] = json!(protocol);
        server
    };
    let start = Instant::now();
    let rig = Rig::new(&[("s", with("mute", "legacy"))]).await;
    assert_eq!(rig.echo("s", "old").await, "old");
    assert!(start.elapsed() < Duration::from_millis(2_900), "it was asked nothing in vain");
    let rig = Rig::new(&[("s", with("modern", "modern"))]).await;
    assert_eq!(rig.echo("s", "new").await, "new");
    let notebook = Arc::new(MemoryNotebook::default());
    let rig = Rig::with(&[("s", with("old", "modern"))], notebook).await;
    let errors = rig.servers.listed(Duration::from_secs(30)).await;
    assert!(errors[0].message().contains("refused `server/discover`"), "{errors:?}");
    assert!(errors[0].message().contains("`initialize` (was not asked)"), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_keeps_dying_says_when_it_is_tried_again() {
    let rig = Rig::new(&[("s", server("old"))]).await;
    for _ in 0..8 {
        let failed = rig.call("s/crash", json!({})).await;
        let error = failed.error().unwrap();
        if error.message().contains("is tried again in ") {
            assert!(error.retry_after().is_some_and(|after| after > Duration::from_secs(2)));
            assert!(error.message().contains("status 7"), "{error}");
            let said = error.feedback(Lang::En);
            assert!(said.contains("is tried again in "), "{said}");
            return;
        }
        assert!(error.message().contains("out of patience"), "{error}");
    }
    panic!("it was never left alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_reaches_the_caller_or_is_declined_at_once() {
    let mut refused = server("old");
    refused["elicitation"] = json!("refuse");
    let rig = Rig::new(&[("s", server("old")), ("refused", refused)]).await;
    let alone = rig.call("s/ask", json!({})).await;
    assert!(alone.output().unwrap().to_text().contains("decline"), "{alone:?}");
    let asker = Asker::new(json!({"elicitation": {}}), |questions| {
        Box::pin(async move {
            let answer = json!({"action": "accept", "content": {"yes": true}});
            Ok(questions.into_keys().map(|key| (key, answer.clone())).collect::<Answers>())
        })
    });
    let ask = |tool: &'static str| {
        let context = Context::default().object(asker.clone());
        rig.engine.call(CallRequest::new(tool, json!({})).context(context))
    };
    let asked = ask("s/ask").await;
    assert!(asked.output().unwrap().to_text().contains("accept"), "{asked:?}");
    let not_asked = ask("refused/ask").await;
    assert!(not_asked.output().unwrap().to_text().contains("decline"), "{not_asked:?}");
}
