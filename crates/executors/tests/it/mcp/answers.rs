//! Responses that are unreadable, too large, or no responses at all: each causes one
//! clear error at once, and the server stays usable.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass::{CallRequest, Error, ErrorKind, Lang};
use windlass_executors::mcp::{ProtocolError, ToolFailure};

use super::Rig;
use super::played::server;
use super::web::{self, Said};

/// The error of a call that must not wait for its time to be up.
async fn fails_at_once(rig: &Rig, tool: &str, arguments: Value) -> Error {
    let start = Instant::now();
    let request = CallRequest::new(tool, arguments.clone()).timeout(Duration::from_secs(50));
    let failed = rig.engine.call(request).await;
    let error = failed.error().unwrap_or_else(|| panic!("{tool} {arguments}")).clone();
    assert!(start.elapsed() < Duration::from_secs(25), "{tool} {arguments}: {error}");
    assert!(!error.message().contains("::"), "no names of ours: {error}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_read_fails_its_call_at_once() {
    let rig = Rig::new(&[("s", server("old"))]).await;
    for how in ["nan", "surrogate", "latin-1", "number", "deep"] {
        let error = fails_at_once(&rig, "s/garble", json!({"message": how})).await;
        assert_eq!(error.kind(), ErrorKind::UpstreamFailed, "{how}: {error}");
        assert!(error.message().contains("no valid JSON"), "{how}: {error}");
    }
    let neither = fails_at_once(&rig, "s/garble", json!({"message": "neither"})).await;
    assert!(neither.message().contains("neither a result nor an error"), "{neither}");
    let nobodys = fails_at_once(&rig, "s/garble", json!({"message": "no-id"})).await;
    assert!(nobodys.message().contains("cannot read that"), "{nobodys}");
    let many = fails_at_once(&rig, "s/garble", json!({"message": "many"})).await;
    assert!(many.message().contains("more than 1048576 values"), "{many}");
    assert_eq!(rig.echo("s", "on").await, "on");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_no_larger_than_results() {
    let mut small = server("old");
    small["max_output_bytes"] = json!(20_000);
    let rig = Rig::new(&[("s", server("old")), ("small", small)]).await;
    for (name, most) in [("s", 101 * 1024), ("small", 20_100)] {
        let tool = format!("{name}/garble");
        let failed = fails_at_once(&rig, &tool, json!({"message": "failure"})).await;
        assert_eq!(failed.kind(), ErrorKind::ToolError);
        // Texts are bounded by the engine; what came with them was not.
        let ToolFailure(output) = ToolFailure::of(&failed).unwrap();
        let text = output.to_text();
        assert!(text.ends_with("of 1000000 bytes are shown]"));
        assert!((10_000..most).contains(&text.len()), "{name}: {}", text.len());
        assert!(failed.message().len() < most && failed.feedback(Lang::En).len() < most);
        let refused = fails_at_once(&rig, &tool, json!({"message": "refusal"})).await;
        let cause = ProtocolError::of(&refused).unwrap();
        assert_eq!((cause.code, &cause.data), (-32001, &None));
        assert!(cause.message.len() < 9_000 && refused.message().len() < 9_000);
    }
}

const TOOLS: &[&str] = &[
    "accepted",
    "alien",
    "nan",
    "page",
    "broken",
    "refused",
    "event_nan",
    "event_alien",
    "event_endless",
    "event_large",
    "own_refusal",
];

fn play(tool: &str, id: &Value) -> Said {
    let json = |body: String| Said::Body("200 OK", "application/json", body);
    let result = |id: Value, text: &str| {
        let result = json!({"content": [{"type": "text", "text": text}]});
        json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
    };
    let nan = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"v\":NaN}}}}");
    match tool {
        "accepted" => Said::Body("202 Accepted", "text/plain", String::new()),
        "alien" => json(result(json!("somebody else"), "for them")),
        "nan" => json(nan),
        "page" => Said::Body("200 OK", "text/html", "<html>Log in</html>".to_owned()),
        "broken" => Said::Body("500 Internal Server Error", "text/plain", String::new()),
        "refused" => Said::Body("400 Bad Request", "text/plain", String::new()),
        "own_refusal" => {
            let error = json!({"code": -32602, "message": "not like that"});
            json(json!({"jsonrpc": "2.0", "id": "server-error", "error": error}).to_string())
        }
        "event_nan" => Said::Events(format!("data: {nan}\n\n")),
        "event_alien" => Said::Events(format!("data: {}\n\n", result(json!("x"), "for them"))),
        "event_endless" => Said::Events(format!("data: {}", "x".repeat(17 * 1024 * 1024))),
        _ => {
            let text = "y".repeat(12_000_000);
            Said::Events(format!("event: message\ndata: {}\n\n", result(id.clone(), &text)))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_what_is_no_answer_fails_its_call_at_once() {
    let rig = Rig::new(&[("web", json!({"url": web::start(TOOLS, play)}))]).await;
    for (tool, kind, why) in [
        ("accepted", ErrorKind::UpstreamFailed, "answered with HTTP 202"),
        ("alien", ErrorKind::UpstreamFailed, "the answer to another request"),
        ("nan", ErrorKind::UpstreamFailed, "no valid JSON"),
        ("page", ErrorKind::UpstreamFailed, "`text/html`"),
        ("broken", ErrorKind::UpstreamFailed, "answered with HTTP 500"),
        ("refused", ErrorKind::UpstreamRejected, "answered with HTTP 400"),
        ("own_refusal", ErrorKind::UpstreamRejected, "not like that"),
        ("event_nan", ErrorKind::UpstreamFailed, "no valid JSON"),
        ("event_alien", ErrorKind::UpstreamFailed, "for another request"),
        ("event_endless", ErrorKind::UpstreamFailed, "more than 16777216 bytes"),
    ] {
        let error = fails_at_once(&rig, &format!("web/{tool}"), json!({})).await;
        assert_eq!(error.kind(), kind, "{tool}: {error}");
        assert!(error.message().contains(why), "{tool}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_event_is_read_once() {
    let mut large = json!({"url": web::start(TOOLS, play)});
    large["max_output_bytes"] = json!(20_000_000);
    let rig = Rig::new(&[("web", large)]).await;
    let start = Instant::now();
    let done = rig.call("web/event_large", json!({})).await;
    assert_eq!(done.output().unwrap().to_text().len(), 12_000_000);
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}
