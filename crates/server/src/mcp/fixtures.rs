//! The tools that the official MCP conformance suite expects of a server. Only built
//! with the feature `fixtures`; no release has them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use windlass::definition::{LibrarySpec, PromptSpec};
use windlass::{
    Behaviour, Body, BoxFuture, Call, Content, Data, Engine, Error, ErrorKind, Executor, Exposure,
    Output, ToolBuilder,
};
use windlass_executors::mcp::convert::log_message;
use windlass_executors::mcp::{Answers, Asker, Questions};

const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";
const PAUSE: Duration = Duration::from_millis(50);

/// Adds the pack to an engine.
pub(crate) fn register(engine: &Engine) -> Result<(), Error> {
    engine.load_text("fixtures", include_str!("../../fixtures/library.yaml"));
    for (name, about, schema, run) in tools() {
        let builder = ToolBuilder::native(name, schema, Arc::new(Fixture(run, engine.clone())))
            .description(about)
            .behaviour(Behaviour { destructive: false, ..Behaviour::READ_ONLY })
            .with(|spec| {
                if name == "test_prompt_maker" {
                    spec.exposure = Exposure::Hidden;
                }
            });
        engine.registry().register(builder)?;
    }
    Ok(())
}

type FixtureRun = for<'a> fn(&'a Call, &'a Engine) -> BoxFuture<'a, Result<Output, Error>>;

struct Fixture(FixtureRun, Engine);

impl Executor for Fixture {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        (self.0)(call, &self.1)
    }
}

fn tools() -> Vec<(&'static str, &'static str, Value, FixtureRun)> {
    let none = || json!({"type": "object", "properties": {}});
    let text = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    vec![
        ("test_simple_text", "Returns a text.", none(), |_, _| {
            ready(Output::text("This is a simple text response for testing."))
        }),
        ("test_image_content", "Returns an image.", none(), |_, _| ready(image().into())),
        ("test_audio_content", "Returns a sound.", none(), |_, _| {
            let data = Data { base64: AUDIO.to_owned(), mime_type: "audio/wav".to_owned() };
            ready(Content::new(Body::Audio(data)).into())
        }),
        ("test_embedded_resource", "Returns a resource.", none(), |_, _| {
            ready(
                resource("test://embedded-resource", "text/plain", "An embedded resource.").into(),
            )
        }),
        ("test_multiple_content_types", "Returns several blocks.", none(), |_, _| {
            let data = r#"{"test":"data","value":123}"#;
            ready(Output::from(vec![
                Content::text("Multiple content types test:"),
                image(),
                resource("test://mixed-content-resource", "application/json", data),
            ]))
        }),
        ("test_tool_with_logging", "Logs while it runs.", none(), |call, _| Box::pin(log(call))),
        ("test_logging_tool", "Logs while it runs.", none(), |call, _| Box::pin(log(call))),
        ("test_error_handling", "Always fails.", none(), |_, _| {
            let why = "This tool intentionally returns an error for testing";
            Box::pin(std::future::ready(Err(Error::tool(why).with_feedback(why))))
        }),
        ("test_tool_with_progress", "Reports how far it is.", none(), |call, _| {
            Box::pin(progress(call))
        }),
        ("test_sampling", "Asks a model.", text("prompt"), |call, _| Box::pin(sample(call))),
        ("test_missing_capability", "Asks a model.", none(), |call, _| Box::pin(sample(call))),
        ("test_elicitation", "Asks a person.", text("message"), |call, _| {
            Box::pin(async move {
                let message = call.argument("message").and_then(Value::as_str).unwrap_or_default();
                let schema = json!({"type": "object", "properties": {
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                }, "required": ["username", "email"]});
                elicit(call, "user", message, schema).await
            })
        }),
        ("test_streaming_elicitation", "Asks a person.", none(), |call, _| {
            Box::pin(elicit(call, "name", "Your name?", object("name", "string")))
        }),
        ("test_elicitation_sep1034_defaults", "Asks with defaults.", none(), |call, _| {
            Box::pin(elicit(call, "user", "Please check these.", defaults()))
        }),
        ("test_elicitation_sep1330_enums", "Asks with choices.", none(), |call, _| {
            Box::pin(elicit(call, "choice", "Please choose.", choices()))
        }),
        ("json_schema_2020_12_tool", "Has a rich schema.", rich(), |_, _| {
            ready(Output::text("The schema was honoured."))
        }),
        ("test_reconnection", "Takes a moment.", none(), |_, _| {
            Box::pin(async {
                sleep(PAUSE * 2).await;
                Ok(Output::text("Reconnection test completed."))
            })
        }),
        ("test_trigger_tool_change", "Changes the tools.", none(), |_, engine| {
            Box::pin(async move { change_tools(engine) })
        }),
        ("test_trigger_prompt_change", "Changes the prompts.", none(), |_, engine| {
            Box::pin(async move { change_prompts(engine) })
        }),
        ("test_input_required_result_elicitation", "Asks for a name.", none(), |call, _| {
            Box::pin(async move {
                let question = question("What is your name?", "name", "string");
                let answers = ask(call, [("user_name", question)]).await?;
                let name = &answers["user_name"]["content"]["name"];
                Ok(Output::text(format!("Hello, {}!", name.as_str().unwrap_or("stranger"))))
            })
        }),
        ("test_input_required_result_sampling", "Asks a model.", none(), |call, _| {
            Box::pin(async move {
                let question = sampling("What is the capital of France?");
                let answers = ask(call, [("capital_question", question)]).await?;
                Ok(Output::text(answers["capital_question"]["content"]["text"].to_string()))
            })
        }),
        ("test_input_required_result_list_roots", "Asks for folders.", none(), |call, _| {
            Box::pin(async move {
                let question = json!({"method": "roots/list", "params": {}});
                let answers = ask(call, [("client_roots", question)]).await?;
                Ok(Output::text(answers["client_roots"]["roots"].to_string()))
            })
        }),
        ("test_input_required_result_request_state", "Asks to confirm.", none(), |call, _| {
            Box::pin(confirm(call))
        }),
        ("test_input_required_result_tampered_state", "Asks to confirm.", none(), |call, _| {
            Box::pin(confirm(call))
        }),
        ("test_input_required_result_multiple_inputs", "Asks three things.", none(), |call, _| {
            Box::pin(async move {
                let questions = [
                    ("user_name", question("What is your name?", "name", "string")),
                    ("greeting", sampling("Generate a greeting")),
                    ("client_roots", json!({"method": "roots/list", "params": {}})),
                ];
                ask(call, questions).await?;
                Ok(Output::text("All three were answered."))
            })
        }),
        ("test_input_required_result_multi_round", "Asks twice.", none(), |call, _| {
            Box::pin(async move {
                let first = question("Step 1: What is your name?", "name", "string");
                ask(call, [("step1", first)]).await?;
                let second = question("Step 2: What is your favorite color?", "color", "string");
                ask(call, [("step2", second)]).await?;
                Ok(Output::text("Both steps are done."))
            })
        }),
        ("test_input_required_result_capabilities", "Asks what it can.", none(), |call, _| {
            Box::pin(async move {
                let asker = asker(call)?;
                let all = [
                    ("sampling", "summary", sampling("Summarise this.")),
                    ("elicitation", "detail", question("Any detail?", "detail", "string")),
                ];
                let can =
                    all.into_iter().filter(|(need, ..)| asker.capabilities().get(need).is_some());
                let questions: Vec<(&str, Value)> =
                    can.map(|(_, key, question)| (key, question)).collect();
                ask(call, questions).await?;
                Ok(Output::text("Answered."))
            })
        }),
        ("test_prompt_maker", "Makes a prompt.", none(), |call, _| {
            Box::pin(async move {
                let question = question("What context should the prompt use?", "context", "string");
                let answers = ask(call, [("user_context", question)]).await?;
                let context = answers["user_context"]["content"]["context"].as_str();
                let text = format!("Use this context: {}", context.unwrap_or_default());
                let message = json!({"role": "user", "content": {"type": "text", "text": text}});
                Ok(Output::json(json!({"messages": [message]})))
            })
        }),
    ]
}

fn ready<'a>(output: Output) -> BoxFuture<'a, Result<Output, Error>> {
    Box::pin(std::future::ready(Ok(output)))
}

fn image() -> Content {
    let data = Data { base64: IMAGE.to_owned(), mime_type: "image/png".to_owned() };
    Content::new(Body::Image(data))
}

fn resource(uri: &str, mime_type: &str, text: &str) -> Content {
    let inner = json!({"uri": uri, "mimeType": mime_type, "text": text});
    Content::new(Body::Resource(json!({"type": "resource", "resource": inner})))
}

fn object(name: &str, kind: &str) -> Value {
    json!({"type": "object", "properties": {name: {"type": kind}}, "required": [name]})
}

fn question(message: &str, name: &str, kind: &str) -> Value {
    let params = json!({"message": message, "requestedSchema": object(name, kind)});
    json!({"method": "elicitation/create", "params": params})
}

fn sampling(text: &str) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": text}});
    let params = json!({"messages": [message], "maxTokens": 100});
    json!({"method": "sampling/createMessage", "params": params})
}

fn asker(call: &Call) -> Result<Arc<Asker>, Error> {
    call.object().ok_or_else(|| Error::new(ErrorKind::Denied, "nobody can be asked"))
}

async fn ask(
    call: &Call,
    questions: impl IntoIterator<Item = (&str, Value)>,
) -> Result<Answers, Error> {
    let questions: Questions =
        questions.into_iter().map(|(key, question)| (key.to_owned(), question)).collect();
    asker(call)?.ask(questions).await
}

async fn elicit(
    call: &Call,
    key: &'static str,
    message: &str,
    schema: Value,
) -> Result<Output, Error> {
    let params = json!({"message": message, "requestedSchema": schema});
    let question = json!({"method": "elicitation/create", "params": params});
    let answers = ask(call, [(key, question)]).await?;
    let (action, content) = (&answers[key]["action"], &answers[key]["content"]);
    Ok(Output::text(format!("Elicitation completed: action={action}, content={content}")))
}

async fn confirm(call: &Call) -> Result<Output, Error> {
    ask(call, [("confirm", question("Please confirm", "ok", "boolean"))]).await?;
    Ok(Output::text("state-ok"))
}

async fn sample(call: &Call) -> Result<Output, Error> {
    let prompt = call.argument("prompt").and_then(Value::as_str).unwrap_or("Hello");
    let answers = ask(call, [("model", sampling(prompt))]).await?;
    let text = answers["model"]["content"]["text"].as_str().unwrap_or_default().to_owned();
    Ok(Output::text(format!("LLM response: {text}")))
}

async fn log(call: &Call) -> Result<Output, Error> {
    for said in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        call.emitter().emit(log_message("info", "fixtures", said));
        sleep(PAUSE).await;
    }
    Ok(Output::text("Logged."))
}

async fn progress(call: &Call) -> Result<Output, Error> {
    for done in [0, 50, 100] {
        call.emitter().emit(Content::json(json!({"progress": done, "total": 100})));
        sleep(PAUSE).await;
    }
    Ok(Output::text("Done."))
}

/// A tool more each time, so that the list is another.
fn change_tools(engine: &Engine) -> Result<Output, Error> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let name = format!("test_made_{}", MADE.fetch_add(1, Ordering::Relaxed));
    let made: FixtureRun = |_, _| ready(Output::text("I was made."));
    let tool = ToolBuilder::native(
        "test_made",
        json!({"type": "object", "properties": {}}),
        Arc::new(Fixture(made, engine.clone())),
    );
    engine.registry().replace(tool.description(name))?;
    Ok(Output::text("The tools have changed."))
}

fn change_prompts(engine: &Engine) -> Result<Output, Error> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let message = format!("I was made {} times.", MADE.fetch_add(1, Ordering::Relaxed) + 1);
    let content = json!({"type": "text", "text": message});
    let prompt = PromptSpec {
        name: "test_made".to_owned(),
        description: Some("A prompt that was made.".into()),
        messages: vec![json!({"role": "user", "content": content})],
        ..PromptSpec::default()
    };
    let library = LibrarySpec { prompts: vec![prompt], ..LibrarySpec::default() };
    engine.library().replace_source(None, "made", library);
    Ok(Output::text("The prompts have changed."))
}

fn defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {
            "type": "string",
            "description": "User status",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "description": "Is verified", "default": true},
    }, "required": []})
}

fn choices() -> Value {
    let options = json!(["option1", "option2", "option3"]);
    let titled = json!([
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"},
    ]);
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }})
}

fn rich() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}
