//! Prints the messages that models are to read next, a JSON line each with its
//! format: for messages of every kind of call and result, and for the recorded
//! exchanges beside the repository, where they are there; with `CI` set they must
//! be. `cargo xtask sdks` holds them against the types of the official SDKs.

#![allow(clippy::unwrap_used, reason = "a failure here should stop the run")]

use std::path::Path;

use serde_json::{Value, json};
use windlass::{
    Body, Content, Context, Data, Engine, Error, Lang, Output, ToolBuilder, Turn, TurnAnswer,
    TurnFormat,
};

const RECORDED: [(TurnFormat, &str); 3] = [
    (TurnFormat::Anthropic, "anthropic.jsonl"),
    (TurnFormat::OpenAi, "openai-chat.jsonl"),
    (TurnFormat::Responses, "openai-responses.jsonl"),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let engine = engine()?;
    for (format, message) in own() {
        let turn = Turn::read_as(format, message)?;
        let answer = engine.turn(turn, Context::default(), Lang::En).await;
        print(format, &answer);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/wire");
    for (format, file) in RECORDED {
        let path = folder.join(file);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                // On stderr: what is printed is read by a program.
                eprintln!("left out: {}: {error}", path.display());
                assert!(std::env::var_os("CI").is_none_or(|set| set.is_empty()), "CI needs it");
                continue;
            }
        };
        for line in text.lines() {
            let mut exchange: Value = serde_json::from_str(line).unwrap();
            let answer = match exchange["response"].take() {
                Value::String(stream) => {
                    let mut turn = engine.open_turn(Some(format), Context::default(), Lang::En);
                    turn.feed(stream.as_bytes())?;
                    turn.finish().await
                }
                whole => {
                    let turn = Turn::read_as(format, whole)?;
                    engine.turn(turn, Context::default(), Lang::En).await
                }
            };
            print(format, &answer);
        }
    }
    Ok(())
}

/// Tools that give back every kind of content.
fn engine() -> Result<Engine, Error> {
    let picture = |_: Value| async {
        Output::from(vec![
            Content::text("A picture:"),
            Content::new(Body::Image(Data::new([1, 2, 3], "image/png"))),
            Content::blob([4, 5], "application/pdf"),
            Content::json(json!({"a": 1})),
            Content::link("https://example.com/", "A page"),
        ])
    };
    let fail = |_: Value| async { Err::<String, _>(Error::tool("it broke")) };
    Engine::builder()
        .tool(ToolBuilder::from_fn("get_picture", picture))
        .tool(ToolBuilder::from_fn("get_nothing", |_: Value| async { "" }))
        .tool(ToolBuilder::from_fn("get_broken", fail))
        .build()
}

/// A message in each format that calls everything, and what does not exist; some
/// calls have no id, or another's.
fn own() -> [(TurnFormat, Value); 3] {
    let names = ["get_picture", "get_nothing", "get_broken", "no_such_tool"];
    let all = |call: fn(&str, &str) -> Value| -> Vec<Value> {
        let ids = ["a", "b", "a", ""];
        names.iter().zip(ids).map(|(name, id)| call(id, name)).collect()
    };
    let anthropic =
        all(|id, name| json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
    let chat = all(
        |id, name| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}),
    );
    let items = all(
        |id, name| json!({"type": "function_call", "call_id": id, "name": name, "arguments": "{}"}),
    );
    [
        (TurnFormat::Anthropic, json!({"role": "assistant", "content": anthropic})),
        (TurnFormat::OpenAi, json!({"role": "assistant", "content": null, "tool_calls": chat})),
        (TurnFormat::Responses, json!({"output": items})),
    ]
}

fn print(format: TurnFormat, answer: &TurnAnswer) {
    let own = match &answer.assistant {
        Some(Value::Array(items)) => items.clone(),
        own => own.iter().cloned().collect(),
    };
    for message in own.iter().chain(&answer.messages) {
        println!("{}", json!({"format": format.name(), "message": message}));
    }
}
