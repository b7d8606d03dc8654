//! A client for the official MCP conformance suite: it does what an agent would do,
//! through the engine. Only built with the feature `fixtures`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use windlass::{CallRequest, Context, Engine, Lang, Secret, TenantId, Tool};
use windlass_executors::mcp::{
    Answers, Asker, LoginOptions, MemoryNotebook, MemoryTokens, Questions, Server, Servers, Start,
};
use windlass_executors::outbound::{Outbound, OutboundPolicy, Request};

use crate::cli::exit::{Exit, Failure};
use crate::installation::block_on_all;

/// Uses the server at this address.
pub(crate) fn run(url: &str) -> Result<Exit, Failure> {
    block_on_all(async {
        let engine = Engine::builder().build()?;
        let servers = json!({"mcpServers": {"s": {"url": url}}}).to_string();
        engine.load_text("conformance", &servers);
        let notebook = Arc::new(MemoryNotebook::default());
        let policy = this_machine();
        let tokens = Arc::new(MemoryTokens::default());
        let servers = Servers::follow(&engine, notebook, tokens, policy, Start::Unknown);
        let server = servers.get_for(&TenantId::default(), "s");
        let server = server.ok_or_else(|| Failure::usage("there is no server"))?;
        let context: Value = std::env::var("MCP_CONFORMANCE_CONTEXT")
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        let mut logins = 0;
        let mut errors = servers.listed(Duration::from_secs(20)).await;
        while !errors.is_empty() && server.challenge().is_some() && logins < LOGINS {
            errors.iter().for_each(|error| eprintln!("{error}"));
            logins += 1;
            log_in(&server, &context).await?;
            errors = servers.listed(Duration::from_secs(20)).await;
        }
        errors.iter().for_each(|error| eprintln!("{error}"));
        for (tool, arguments) in calls(&engine, &context) {
            loop {
                let can = json!({"elicitation": {"form": {}}, "sampling": {}});
                let request = CallRequest::new(tool.as_str(), arguments.clone())
                    .context(Context::default().object(Asker::new(can, answer)))
                    .timeout(Duration::from_secs(20));
                let result = engine.call(request).await;
                eprintln!("{tool}: {}", result.to_text(Lang::En));
                // More is wanted than was granted: once more, but not for ever.
                if result.is_success() || server.challenge().is_none() || logins >= LOGINS {
                    break;
                }
                logins += 1;
                log_in(&server, &context).await?;
            }
        }
        servers.stop().await;
        Ok(if errors.is_empty() { Exit::Success } else { Exit::Failed })
    })
}

/// Limit of logins in one scenario.
const LOGINS: usize = 3;

/// The suite plays all parts on this machine, which is closed otherwise.
fn this_machine() -> OutboundPolicy {
    let mut policy = OutboundPolicy::default();
    policy.allow.extend(["127.0.0.0/8", "localhost"].iter().flat_map(|place| place.parse()));
    policy
}

/// Logs in as a person would, with a browser that agrees to everything.
async fn log_in(server: &Arc<Server>, context: &Value) -> Result<(), Failure> {
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let options = LoginOptions {
        redirect_uri: "http://localhost:3000/callback".to_owned(),
        client_id: text("client_id"),
        client_secret: text("client_secret").map(Secret::new),
        client_metadata_url: Some("https://conformance-test.local/client-metadata.json".to_owned()),
    };
    let login = server.login(options).await?;
    let request = Request::parse(axum::http::Method::GET, login.url())?.without_redirects();
    let answer = Outbound::new(this_machine()).send(request).await?;
    let back = answer.header("location").unwrap_or_default().to_owned();
    Ok(login.finish(&back).await?)
}

/// The calls that a scenario wants, else one of each tool.
fn calls(engine: &Engine, context: &Value) -> Vec<(String, Value)> {
    let wanted = context["toolCalls"].as_array().or_else(|| context["tool_calls"].as_array());
    if let Some(wanted) = wanted {
        let name = |call: &Value| format!("s/{}", call["name"].as_str().unwrap_or_default());
        return wanted.iter().map(|call| (name(call), call["arguments"].clone())).collect();
    }
    let tools = engine.registry().list();
    let made = tools.iter().map(|tool| {
        let mut arguments = made_up(tool);
        // A tool that wants a schema wants to see what we made of another's.
        if let (Some(schema), Some(other)) =
            (arguments.get_mut("schema"), tools.iter().find(|other| other.name() != tool.name()))
        {
            *schema = other.spec().input.clone();
        }
        (tool.name().to_string(), arguments)
    });
    made.collect()
}

/// Arguments that fit a tool's schema.
fn made_up(tool: &Tool) -> Value {
    let schema = tool.model_schema();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let value = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("test"),
    };
    let made: Map<String, Value> =
        required.into_iter().map(|name| (name.to_owned(), value(name))).collect();
    Value::Object(made)
}

/// Answers as a willing person and a model would.
fn answer(questions: Questions) -> windlass::BoxFuture<'static, Result<Answers, windlass::Error>> {
    let one = |question: &Value| match question["method"].as_str() {
        Some("elicitation/create") => {
            let properties = question["params"]["requestedSchema"]["properties"].as_object();
            let defaults: Map<String, Value> = (properties.into_iter().flatten())
                .filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())))
                .collect();
            json!({"action": "accept", "content": defaults})
        }
        Some("sampling/createMessage") => {
            let content = json!({"type": "text", "text": "An answer of a model."});
            json!({"role": "assistant", "content": content, "model": "m", "stopReason": "endTurn"})
        }
        _ => json!({"roots": []}),
    };
    let answers = questions.into_iter().map(|(key, question)| (key, one(&question))).collect();
    Box::pin(std::future::ready(Ok(answers)))
}
