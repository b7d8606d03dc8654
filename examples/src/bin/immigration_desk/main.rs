//! A multi-agent example: an immigration desk with a coordinator, six specialists
//! and eight direct tools, all defined in `examples/immigration-desk`.
//!
//! With an API key it uses the real API; without one, a scripted mock model,
//! which checks every request that it gets.
//!
//! Run it: `cargo run -p windlass-examples --bin immigration_desk`
//! or: `ANTHROPIC_API_KEY=… cargo run -p windlass-examples --bin immigration_desk -- "your question"`

mod scripted_model;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass::{
    BoxFuture, Call, CallRequest, Context, Engine, ErrorKind, Executor, Kind, Lang, Output, Secret,
};
use windlass_executors::agent::{Agents, Listener, MemoryLog, RunEvent, cost_summary};
use windlass_executors::builtin::Builtins;
use windlass_executors::model::{ModelSettings, Models};
use windlass_executors::outbound::OutboundPolicy;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/immigration-desk");
const QUESTION: &str = "我 35 岁,硕士,工作 10 年,想去香港,有哪些方案?请记住我的年龄。";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let key = std::env::var("ANTHROPIC_API_KEY").ok().filter(|key| !key.is_empty());
    let question = std::env::args().nth(1).unwrap_or_else(|| QUESTION.to_owned());
    let script = match key {
        Some(_) => None,
        None => Some(scripted_model::start().await?),
    };
    let mut settings = ModelSettings::default();
    if let Some(script) = &script {
        let endpoint = format!("anthropic http://{}", script.address).parse()?;
        settings.providers.insert("anthropic".to_owned(), endpoint);
    }
    let key = Secret::new(key.unwrap_or_else(|| "sk-scripted".to_owned()));
    let keys = BTreeMap::from([("anthropic".to_owned(), key)]);
    let models = Models::new(settings, OutboundPolicy::default()).with_keys(keys);
    let agents = Agents::new(models).lang(Lang::Zh).log(Arc::new(MemoryLog::default()));

    let engine = Engine::builder()
        .kind(Kind::Agent, move |spec| agents.bind(spec))
        .kind(Kind::Native, |spec| direct_tool(spec.name.as_str()))
        .kind(Kind::Builtin, |spec| Builtins::default().bind(spec))
        .build()?;
    let report = engine.load_folder(FOLDER);
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    println!("{} tools, agents among them\n", report.tools);

    // The progress that a front end would show.
    let listener = Listener::new(|event| match event {
        RunEvent::Call { agent, tool, .. } => println!("{agent} 调用 {tool}"),
        RunEvent::Result { agent, tool, is_success, .. } => {
            println!("{agent} {tool} {}", if *is_success { "完成" } else { "失败" });
        }
        _ => {}
    });
    let context = Context::for_conversation("front", "conversation-1").object(listener);
    let request = CallRequest::new("coordinator", json!({"message": question})).context(context);
    let result = engine.call(request).await;
    println!("\n{}\n", result.to_text(Lang::Zh));
    for cost in cost_summary([&result]) {
        println!(
            "{}: {} tokens in, {} out, ${:.4}, {} turns",
            cost.agent_name,
            cost.input_tokens,
            cost.output_tokens,
            cost.estimated_cost_usd,
            cost.turns_used
        );
    }
    if let Some(script) = script {
        assert!(result.is_success(), "{:?}", result.outcome);
        script.check();
    }
    Ok(())
}

/// The code of the direct tools.
fn direct_tool(name: &str) -> Result<Arc<dyn Executor>, windlass::Error> {
    let run: fn(&Value) -> Value = match name {
        "search_knowledge" => |arguments| {
            let query = arguments["query"].as_str().unwrap_or_default();
            json!(format!("知识库:与“{query}”有关的是高才通(TTPS)与优才(QMAS)。"))
        },
        "get_user_context" => |_| json!({"userId": "u-1", "age": 35}),
        "web_search" => |_| json!("没有更多结果。"),
        "get_exchange_rate" => |_| json!({"rate": 0.92}),
        "check_off_topic" => |_| json!({"offTopic": false}),
        "save_user_memory" => |_| json!("已保存用户信息"),
        "generate_payment" => {
            |arguments| json!({"url": format!("https://pay.example/{}", arguments["userId"])})
        }
        other => {
            let why = format!("nobody wrote `{other}`");
            return Err(windlass::Error::new(ErrorKind::ExecutorNotFound, why));
        }
    };
    Ok(Arc::new(Direct(run)))
}

struct Direct(fn(&Value) -> Value);

impl Executor for Direct {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, windlass::Error>> {
        let output = match (self.0)(call.arguments()) {
            Value::String(text) => Output::text(text),
            value => Output::json(value),
        };
        Box::pin(std::future::ready(Ok(output)))
    }
}
