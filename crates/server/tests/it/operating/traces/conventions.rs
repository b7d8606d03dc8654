//! Names and attributes of spans: OpenTelemetry's conventions for generative AI and the
//! Model Context Protocol.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::server::{Answer, start};
use super::{PARENT, TRACE, attribute, collector, named, settings, spans};
use crate::http::{Server, until};
use crate::upstream::{Said, TestUpstream};

#[test]
fn spans_name_the_version_of_their_conventions_and_hold_content_only_if_told() {
    for content in [false, true] {
        let collector = collector("200 OK");
        let settings = format!("{}  content: {content}\n", settings(&collector));
        let mut server = start(&settings, &[]);
        let body = r#"{"tool": "echo", "arguments": {"message": "what-people-wrote"},
                       "call_ref": "toolu_7"}"#;
        assert_eq!(server.call(&[], body).json()["is_success"], true);
        server.signal("-TERM");
        server.ended();
        let sent = collector.asked();
        for one in &sent {
            let sent: Value = serde_json::from_str(&one.body).unwrap();
            let resource = &sent["resourceSpans"][0];
            let schema = "https://opentelemetry.io/schemas/1.41.0";
            assert_eq!(resource["schemaUrl"], schema);
            assert_eq!(resource["scopeSpans"][0]["schemaUrl"], schema);
        }
        let spans = spans(&collector);
        let call = named(&spans, "execute_tool echo")[0];
        assert_eq!(attribute(call, "gen_ai.tool.call.id").as_deref(), Some("toolu_7"));
        let arguments = attribute(call, "gen_ai.tool.call.arguments");
        let result = attribute(call, "gen_ai.tool.call.result");
        if content {
            assert_eq!(arguments.as_deref(), Some(r#"{"message":"what-people-wrote"}"#));
            assert_eq!(result.as_deref(), Some("what-people-wrote"));
        } else {
            assert_eq!((arguments, result), (None, None));
            assert!(sent.iter().all(|one| !one.body.contains("what-people-wrote")));
        }
    }
}

/// What Anthropic's API streams: a few words, 100 tokens in, 20 out.
fn words() -> Said {
    let events = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 100, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ];
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    Said::text("200 OK", "text/event-stream", stream)
}

/// A server with an agent of this model.
fn with_agent(collector: &TestUpstream, model: &TestUpstream, more: Value) -> Server {
    let providers = format!("models: {{providers: {{anthropic: 'anthropic {}'}}}}\n", model.url());
    let server = start(&(settings(collector) + &providers), &[]);
    let mut agent = json!({
        "name": "helper", "kind": "agent", "description": "Helps.", "model": "claude-haiku-4",
    });
    agent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = server.send("POST", "/v1/tools", &[], &json!({"definition": agent}).to_string());
    assert_eq!(made.status, 201, "{made:?}");
    server
}

#[test]
fn an_agent_is_a_span_and_each_question_to_its_model_is_one_within() {
    let (collector, model) = (collector("200 OK"), TestUpstream::start(|_| words()));
    let mut server = with_agent(&collector, &model, json!({}));
    let body = r#"{"message": "canary-question", "conversation_id": "c-2"}"#;
    let ran = server.send("POST", "/v1/agents/helper/runs", &[], body);
    assert_eq!(ran.json()["result"]["is_success"], true, "{ran:?}");
    server.signal("-TERM");
    server.ended();
    let spans = spans(&collector);
    let run = named(&spans, "invoke_agent helper")[0];
    let chat = named(&spans, "chat claude-haiku-4")[0];
    assert_eq!((&run["kind"], &chat["kind"]), (&json!(1), &json!(3)), "{spans:#?}");
    assert_eq!(chat["parentSpanId"], run["spanId"]);
    assert_eq!(chat["traceId"], run["traceId"]);
    let port = model.url().rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
    for (span, name, wanted) in [
        (run, "gen_ai.operation.name", "invoke_agent"),
        (run, "gen_ai.agent.name", "helper"),
        (run, "gen_ai.provider.name", "anthropic"),
        (run, "gen_ai.conversation.id", "c-2"),
        (run, "gen_ai.usage.input_tokens", "100"),
        (chat, "gen_ai.operation.name", "chat"),
        (chat, "gen_ai.provider.name", "anthropic"),
        (chat, "gen_ai.request.model", "claude-haiku-4"),
        (chat, "gen_ai.response.model", "claude-haiku-4"),
        (chat, "gen_ai.usage.input_tokens", "100"),
        (chat, "gen_ai.usage.output_tokens", "20"),
        (chat, "server.address", "127.0.0.1"),
        (chat, "server.port", &port),
    ] {
        assert_eq!(attribute(span, name).as_deref(), Some(wanted), "{name}: {span:#}");
    }
    assert!(collector.asked().iter().all(|one| !one.body.contains("canary")), "no content");
}

#[test]
fn a_question_whose_answer_breaks_off_is_a_span_with_its_error() {
    let asked = AtomicUsize::new(0);
    let model = TestUpstream::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => {
            let begun = json!({"type": "message_start", "message": {"usage": {"input_tokens": 7}}});
            Said::text("200 OK", "text/event-stream", format!("data: {begun}\n\n"))
        }
        _ => words(),
    });
    let collector = collector("200 OK");
    let mut server = with_agent(&collector, &model, json!({}));
    let ran = server.send("POST", "/v1/agents/helper/runs", &[], r#"{"message": "Hello?"}"#);
    assert_eq!(ran.json()["result"]["is_success"], true, "{ran:?}");
    server.signal("-TERM");
    server.ended();
    let spans = spans(&collector);
    let chats = named(&spans, "chat claude-haiku-4");
    let errors: Vec<_> = chats.iter().map(|chat| attribute(chat, "error.type")).collect();
    assert_eq!(errors, [Some("network".to_owned()), None], "{chats:#?}");
    assert_eq!(chats[0]["status"]["code"], 2);
    assert_eq!(attribute(chats[0], "gen_ai.usage.input_tokens").as_deref(), Some("7"));
}

#[test]
fn a_question_that_nobody_waits_for_any_more_is_a_span_too() {
    let model = TestUpstream::start(|_| {
        std::thread::sleep(Duration::from_secs(5));
        words()
    });
    let collector = collector("200 OK");
    let mut server = with_agent(&collector, &model, json!({"timeout": 1}));
    let ran = server.send("POST", "/v1/agents/helper/runs", &[], r#"{"message": "Hello?"}"#);
    assert_eq!(ran.json()["result"]["error_kind"], "timeout", "{ran:?}");
    server.signal("-TERM");
    server.ended();
    let spans = spans(&collector);
    let chat = named(&spans, "chat claude-haiku-4")[0];
    assert_eq!(attribute(chat, "error.type").as_deref(), Some("cancelled"), "{chat:#}");
    assert_eq!(chat["parentSpanId"], named(&spans, "invoke_agent helper")[0]["spanId"]);
}

/// A server of the older era, which keeps what it is asked.
fn far() -> TestUpstream {
    TestUpstream::start(|asked| {
        let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        let offers = json!({"tools": {}, "prompts": {}, "resources": {}});
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        let tools = ["look", "fail"];
        let tools = tools.map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": offers,
                "serverInfo": {"name": "far", "version": "1"}}),
            "tools/list" => json!({"tools": tools}),
            "tools/call" if message["params"]["name"] == "fail" => {
                json!({"content": text("no"), "isError": true})
            }
            "tools/call" => json!({"content": text("seen")}),
            "prompts/list" => json!({"prompts": [{"name": "greet"}]}),
            "prompts/get" if message["params"]["name"] == "greet" => {
                json!({"messages": [{"role": "user", "content": text("Hi.")[0]}]})
            }
            "resources/list" => json!({"resources": [{"uri": "far://notes", "name": "notes"}]}),
            "resources/read" => json!({"contents": [{"uri": "far://notes", "text": "noted"}]}),
            "ping" => json!({}),
            _ if message.get("id").is_none() => return Said::nothing("202 Accepted"),
            _ => {
                let error = json!({"code": -32602, "message": "Nobody knows that"});
                let refused = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
                return Said::json("200 OK", &refused);
            }
        };
        Said::json("200 OK", &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    })
}

/// A server with that server behind it.
fn in_front_of(far: &TestUpstream, collector: &TestUpstream) -> Server {
    let server = start(&(settings(collector) + "outbound: {allow: [127.0.0.1]}\n"), &[]);
    let definition =
        json!({"definition": {"mcpServers": {"far": {"url": format!("{}/mcp", far.url())}}}});
    let made = server.send("POST", "/v1/providers", &[], &definition.to_string());
    assert_eq!(made.status, 201, "{made:?}");
    until("its tools are known", || {
        (server.send("GET", "/v1/tools/far%2Flook", &[], "").status == 200).then_some(())
    });
    server
}

/// A request of the newer era, within the trace of the tests.
fn ask(server: &Server, method: &str, target: &str) -> Answer {
    let key = if method == "resources/read" { "uri" } else { "name" };
    let mut params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "traceparent": format!("00-{TRACE}-{PARENT}-01"),
        "tracestate": "vendor=1",
    }});
    params[key] = target.into();
    let (method_header, name) = (format!("Mcp-Method: {method}"), format!("Mcp-Name: {target}"));
    let headers = [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        &method_header,
        &name,
    ];
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    server.send("POST", "/mcp", &headers, &body.to_string())
}

#[test]
fn a_request_of_mcp_says_what_it_is_about_and_how_it_failed() {
    let (collector, far) = (collector("200 OK"), far());
    let mut server = in_front_of(&far, &collector);
    for (method, target, wanted) in [
        ("prompts/get", "far__greet", "Hi."),
        ("prompts/get", "far__nothing", "Nobody knows that"),
        ("resources/read", "far://notes", "noted"),
        ("tools/call", "far__fail", "no"),
    ] {
        let answer = ask(&server, method, target);
        assert!(answer.body.contains(wanted), "{method} {target}: {answer:?}");
    }
    server.signal("-TERM");
    server.ended();
    let spans = spans(&collector);
    let told = |name: &str, keys: [&str; 5]| {
        let span = named(&spans, name).first().copied().unwrap_or(&Value::Null);
        keys.map(|key| attribute(span, key).unwrap_or_default())
    };
    let keys = [
        "gen_ai.prompt.name",
        "mcp.resource.uri",
        "gen_ai.tool.name",
        "error.type",
        "rpc.response.status_code",
    ];
    assert_eq!(told("prompts/get far__greet", keys), ["far__greet", "", "", "", ""], "{spans:#?}");
    let refused = ["far__nothing", "", "", "-32602", "-32602"];
    assert_eq!(told("prompts/get far__nothing", keys), refused);
    assert_eq!(told("resources/read", keys), ["", "far://notes", "", "", ""]);
    assert_eq!(told("tools/call far/fail", keys), ["", "", "far/fail", "tool_error", ""]);
    let asked = far.asked();
    let prompt = asked.iter().find(|one| one.body.contains("prompts/get")).unwrap();
    assert!(prompt.body.contains(TRACE), "prompts are asked for within the trace: {prompt:?}");
}

#[test]
fn a_trace_crosses_the_model_context_protocol_both_ways() {
    let (collector, far) = (collector("200 OK"), far());
    let mut server = in_front_of(&far, &collector);
    let answer = ask(&server, "tools/call", "far__look");
    assert!(answer.body.contains("seen"), "{answer:?}");
    server.signal("-TERM");
    server.ended();
    let spans = spans(&collector);
    let mine: Vec<Value> = spans.iter().filter(|span| span["traceId"] == TRACE).cloned().collect();
    let asked = named(&mine, "tools/call far/look")[0];
    assert_eq!((&asked["parentSpanId"], &asked["kind"]), (&json!(PARENT), &json!(2)), "{mine:#?}");
    let http = named(&spans, "POST /mcp")[0];
    assert_eq!(asked["links"][0]["spanId"], http["spanId"], "{asked:#}");
    for (name, wanted) in [
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2026-07-28"),
        ("jsonrpc.request.id", "7"),
        ("gen_ai.tool.name", "far/look"),
        ("gen_ai.operation.name", "execute_tool"),
        ("network.transport", "tcp"),
    ] {
        assert_eq!(attribute(asked, name).as_deref(), Some(wanted), "{name}: {asked:#}");
    }
    let run = named(&mine, "execute_tool far/look")[0];
    assert_eq!(run["parentSpanId"], asked["spanId"]);
    assert_eq!(attribute(run, "gen_ai.tool.type").as_deref(), Some("extension"));
    assert_eq!(attribute(run, "mcp.method.name").as_deref(), Some("tools/call"));
    // What the server behind us was told.
    let told = far.asked();
    let told = told.iter().find(|one| one.body.contains("tools/call")).unwrap();
    let told: Value = serde_json::from_str(&told.body).unwrap();
    let own = run["spanId"].as_str().unwrap();
    let meta = &told["params"]["_meta"];
    assert_eq!(meta["traceparent"], format!("00-{TRACE}-{own}-01"), "{told}");
    assert_eq!(meta["tracestate"], "vendor=1", "{told}");
}
