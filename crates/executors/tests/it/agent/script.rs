//! A scripted model, and tools for its agents.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use windlass::{
    Behaviour, BoxFuture, Call, CallRequest, CallResult, Context, Engine, Error, Executor,
    Exposure, Kind, Lang, Output, Secret, Text, ToolBuilder,
};
use windlass_executors::agent::{Agents, MemoryLog};
use windlass_executors::model::{ModelSettings, Models};
use windlass_executors::outbound::OutboundPolicy;

use crate::support::{Seen, Site, reply};

/// Answers in this order; one request too many is a server error.
pub(super) fn in_turn(answers: Vec<Vec<u8>>) -> impl Fn(&Seen) -> Vec<u8> + Send + Sync {
    let next = AtomicUsize::new(0);
    move |_| {
        let answer = answers.get(next.fetch_add(1, Ordering::SeqCst));
        answer.cloned().unwrap_or_else(|| reply(500, &[], "nobody expected this request"))
    }
}

/// A stream of events.
pub(super) fn sse(events: &[Value]) -> Vec<u8> {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    reply(200, &[("content-type", "text/event-stream")], body)
}

/// An answer at once.
pub(super) fn whole(answer: &Value) -> Vec<u8> {
    reply(200, &[("content-type", "application/json")], answer.to_string())
}

pub(super) fn say(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub(super) fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

/// The events of an Anthropic message with these blocks: 100 tokens in, 20 out.
pub(super) fn events(blocks: &[Value]) -> Vec<Value> {
    let usage = json!({"input_tokens": 100, "output_tokens": 1});
    let mut events = vec![json!({"type": "message_start", "message": {"usage": usage}})];
    for (at, block) in blocks.iter().enumerate() {
        let (start, delta) = match block["type"].as_str() {
            Some("text") => (
                json!({"type": "text", "text": ""}),
                json!({"type": "text_delta", "text": block["text"]}),
            ),
            _ => (
                json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
                json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}),
            ),
        };
        events.push(json!({"type": "content_block_start", "index": at, "content_block": start}));
        events.push(json!({"type": "content_block_delta", "index": at, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": at}));
    }
    events.push(json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 20}}));
    events.push(json!({"type": "message_stop"}));
    events
}

pub(super) fn message(blocks: &[Value]) -> Vec<u8> {
    sse(&events(blocks))
}

/// A stream of Chat Completions.
pub(super) fn chat(text: &str, calls: &[(&str, &str, &str)]) -> Vec<u8> {
    let chunk = |delta: Value, reason: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": text}), Value::Null)];
    for (at, (id, name, arguments)) in calls.iter().enumerate() {
        let begun = json!({"index": at, "id": id, "function": {"name": name, "arguments": ""}});
        chunks.push(chunk(json!({"tool_calls": [begun]}), Value::Null));
        let more = json!({"index": at, "function": {"arguments": arguments}});
        chunks.push(chunk(json!({"tool_calls": [more]}), Value::Null));
    }
    chunks.push(chunk(json!({}), json!("stop")));
    chunks.push(json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 20}}));
    sse(&chunks)
}

pub(super) fn gemini_call(name: &str, arguments: &Value) -> Value {
    json!({"functionCall": {"name": name, "args": arguments}})
}

/// A stream of Gemini, a part an event.
pub(super) fn gemini(parts: &[Value]) -> Vec<u8> {
    let chunk = |part: &Value| {
        json!({
            "candidates": [{"content": {"role": "model", "parts": [part]}}],
            "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20},
        })
    };
    let mut chunks: Vec<Value> = parts.iter().map(chunk).collect();
    if let Some(last) = chunks.last_mut() {
        last["candidates"][0]["finishReason"] = "STOP".into();
    }
    sse(&chunks)
}

/// A tool that needs a model's help.
struct Translate(Models);

impl Executor for Translate {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let text = call.argument("text").and_then(Value::as_str).unwrap_or_default();
            let model = "claude-haiku-4-20250514";
            Ok(Output::text(self.0.invoke(call, model, "Translate into French.", text).await?))
        })
    }
}

/// An engine with agents and the tools that they call.
pub(super) struct Desk {
    pub(super) engine: Engine,
    /// How often something was saved.
    pub(super) saved: Arc<AtomicUsize>,
}

impl Desk {
    pub(super) fn new(model: &Site, api: &str, definition: &str) -> Self {
        Self::in_language(model, api, definition, Lang::En)
    }

    /// The same with a model that does what it wants with its connections.
    pub(super) fn at(address: SocketAddr, api: &str, definition: &str) -> Self {
        let desk = Self::asking(address, api, Lang::En);
        let report = desk.engine.load_text("agents.yaml", definition);
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        desk
    }

    pub(super) fn in_language(model: &Site, api: &str, definition: &str, lang: Lang) -> Self {
        let desk = Self::empty(model, api, lang);
        let report = desk.engine.load_text("agents.yaml", definition);
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        desk
    }

    pub(super) fn empty(model: &Site, api: &str, lang: Lang) -> Self {
        Self::asking(model.address, api, lang)
    }

    fn asking(address: SocketAddr, api: &str, lang: Lang) -> Self {
        let saved = Arc::<AtomicUsize>::default();
        let endpoint: BTreeMap<_, _> = [api, "local"]
            .into_iter()
            .map(|name| (name.to_owned(), format!("{api} http://{address}").parse().unwrap()))
            .collect();
        let settings = ModelSettings { providers: endpoint.clone(), ..ModelSettings::default() };
        let keys = endpoint.into_keys().map(|name| (name, Secret::new("sk-test")));
        let models = Models::new(settings, OutboundPolicy::default()).with_keys(keys.collect());
        let translate = Arc::new(Translate(models.clone()));
        let agents = Agents::new(models).lang(lang).log(Arc::new(MemoryLog::default()));
        let deferred = |name: &str| {
            let about = Text::Many(
                [
                    ("en_US".to_owned(), "The exchange rate of two currencies.".to_owned()),
                    ("zh_Hans".to_owned(), "查询两种货币的汇率。".to_owned()),
                ]
                .into(),
            );
            ToolBuilder::from_fn(name, |_: Value| async { 7 })
                .description(about)
                .behaviour(Behaviour::READ_ONLY)
                .with(|spec| spec.exposure = Exposure::Deferred)
        };
        let save = {
            let saved = Arc::clone(&saved);
            move |_: Value| {
                let saved = Arc::clone(&saved);
                async move { format!("saved {}", saved.fetch_add(1, Ordering::SeqCst) + 1) }
            }
        };
        let wait = |arguments: Value| async move {
            let millis = arguments["millis"].as_u64().unwrap_or(60_000);
            tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
            "waited"
        };
        let engine = Engine::builder()
            .kind(Kind::Agent, move |spec| agents.bind(spec))
            .tool(
                ToolBuilder::from_fn("get_stock", |_: Value| async { 7 })
                    .behaviour(Behaviour::READ_ONLY),
            )
            .tool(ToolBuilder::from_fn("get_slowly", wait).behaviour(Behaviour::READ_ONLY))
            .tool(ToolBuilder::from_fn("save_note", save))
            .tool(ToolBuilder::native(
                "get_translation",
                json!({"type": "object", "properties": {"text": {"type": "string"}}}),
                translate,
            ))
            .tool(deferred("get_exchange_rate"))
            .tool(deferred("get_secret_rate"))
            .tool(
                ToolBuilder::from_fn("get_much", |_: Value| async { "much ".repeat(40_000) })
                    .behaviour(Behaviour::READ_ONLY),
            )
            .search_tool()
            .output_tool()
            .build()
            .unwrap();
        Self { engine, saved }
    }

    pub(super) async fn run(&self, agent: &str, input: Value) -> CallResult {
        self.run_as(agent, input, Context::default()).await
    }

    pub(super) async fn run_as(&self, agent: &str, input: Value, context: Context) -> CallResult {
        self.engine.call(CallRequest::new(agent, input).context(context)).await
    }
}
