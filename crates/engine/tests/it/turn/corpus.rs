//! Recorded exchanges with real APIs, which are kept outside of the repository.

use std::path::PathBuf;

use needs_shared::needs_shared;
use serde_json::{Value, json};
use windlass::{Context, Lang, ModelCall, Turn, TurnFormat};

use super::{Log, engine};

struct Exchange {
    format: TurnFormat,
    origin: String,
    answer: Value,
}

/// All exchanges.
fn exchanges() -> Vec<Exchange> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/wire");
    let files = [
        (TurnFormat::Anthropic, "anthropic.jsonl"),
        (TurnFormat::OpenAi, "openai-chat.jsonl"),
        (TurnFormat::Responses, "openai-responses.jsonl"),
    ];
    let mut exchanges = Vec::new();
    for (format, file) in files {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for line in text.lines() {
            let mut exchange: Value = serde_json::from_str(line).unwrap();
            let origin = exchange["origin"].to_string();
            exchanges.push(Exchange { format, origin, answer: exchange["response"].take() });
        }
    }
    exchanges
}

/// A call in a plain form: id, name, arguments.
type Plain = (String, String, Value);

/// The calls of an exchange, found by a plain search for what their blocks look
/// like; streams are put together first, piece by piece.
fn wanted(exchange: &Exchange) -> Vec<Plain> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let parsed = |value: &Value| match value.as_str() {
        Some("") => json!({}),
        Some(text) => serde_json::from_str(text).unwrap(),
        None => value.clone(),
    };
    let events: Vec<Value> = match &exchange.answer {
        Value::String(stream) => (stream.lines())
            .filter_map(|line| line.strip_prefix("data: "))
            .filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect(),
        whole => vec![whole.clone()],
    };
    let mut calls: Vec<(u64, Plain)> = Vec::new();
    let mut pieces: Vec<(u64, String)> = Vec::new();
    for event in &events {
        let at = |value: &Value| value.as_u64().unwrap();
        for block in event["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_use" {
                calls.push((0, (text(&block["id"]), text(&block["name"]), block["input"].clone())));
            }
        }
        if event["content_block"]["type"] == "tool_use" {
            let block = &event["content_block"];
            let call = (text(&block["id"]), text(&block["name"]), json!(""));
            calls.push((at(&event["index"]), call));
        }
        if let Some(piece) = event["delta"]["partial_json"].as_str() {
            pieces.push((at(&event["index"]), piece.to_owned()));
        }
        for call in event["choices"][0]["message"]["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let arguments = parsed(&function["arguments"]);
            calls.push((0, (text(&call["id"]), text(&function["name"]), arguments)));
        }
        for call in event["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            if call["id"].is_string() {
                let new = (text(&call["id"]), text(&function["name"]), json!(""));
                calls.push((at(&call["index"]), new));
            }
            pieces.push((at(&call["index"]), text(&function["arguments"])));
        }
        let done =
            event["item"].as_object().filter(|_| event["type"] == "response.output_item.done");
        let items = event["output"].as_array().into_iter().flatten().chain(None);
        for item in items.cloned().chain(done.map(|item| json!(item))) {
            if item["type"] == "function_call" {
                let arguments = parsed(&item["arguments"]);
                calls.push((0, (text(&item["call_id"]), text(&item["name"]), arguments)));
            }
        }
    }
    let mut found = Vec::new();
    for (place, (id, name, arguments)) in calls {
        let arguments = match arguments {
            Value::String(_) => {
                let own =
                    pieces.iter().filter(|(at, _)| *at == place).map(|(_, piece)| piece.as_str());
                parsed(&json!(own.collect::<String>()))
            }
            whole => whole,
        };
        found.push((id, name, arguments));
    }
    found
}

fn plain(call: &ModelCall) -> Plain {
    let arguments = match &call.arguments {
        Value::String(text) if text.is_empty() => json!({}),
        Value::String(text) => serde_json::from_str(text).unwrap(),
        value => value.clone(),
    };
    (call.id.as_deref().unwrap_or_default().to_owned(), call.name.to_string(), arguments)
}

#[needs_shared]
#[tokio::test]
async fn every_call_of_recorded_exchanges_is_found() {
    let exchanges = exchanges();
    let engine = engine(&Log::default());
    let (mut calls, mut streams) = (0, 0);
    for exchange in &exchanges {
        let wanted = wanted(exchange);
        let (found, answer) = match &exchange.answer {
            Value::String(stream) => {
                streams += 1;
                let mut turn = engine.open_turn(None, Context::default(), Lang::En);
                let mut pieces = pieces_of(stream.as_bytes());
                for piece in pieces.by_ref() {
                    turn.feed(piece).unwrap();
                }
                let found: Vec<Plain> = turn.calls().iter().map(plain).collect();
                let answer = turn.finish().await;
                assert!(answer.is_whole, "{}", exchange.origin);
                // The message that was put together asks for the same calls.
                let kept = answer.assistant.clone().unwrap();
                let again = Turn::read_as(exchange.format, kept).unwrap();
                let again: Vec<Plain> = again.calls().iter().map(plain).collect();
                assert_eq!(again, found, "{}", exchange.origin);
                (found, answer)
            }
            whole => {
                assert_eq!(TurnFormat::of(whole), Some(exchange.format), "{}", exchange.origin);
                let turn = Turn::read(whole.clone()).unwrap();
                let found = turn.calls().iter().map(plain).collect();
                (found, engine.turn(turn, Context::default(), Lang::En).await)
            }
        };
        assert_eq!(found, wanted, "{}", exchange.origin);
        assert_eq!(answer.results.len(), found.len());
        let told = json!(answer.messages).to_string();
        for (id, _, _) in &found {
            assert_eq!(told.matches(id.as_str()).count(), 1, "{} {id}", exchange.origin);
        }
        calls += found.len();
    }
    // So many are there; a reader that finds nothing in both ways is no reader.
    assert!(calls >= 190 && streams >= 36, "{calls} calls, {streams} streams");
}

/// Wherever a recorded stream is cut, what runs is a call of the whole message with
/// all of its arguments, and every call that began is answered.
#[needs_shared]
#[tokio::test]
async fn a_recorded_stream_that_is_cut_runs_whole_calls_only() {
    let exchanges = exchanges();
    let engine = engine(&Log::default());
    let (mut cuts, mut ran) = (0, 0);
    for exchange in &exchanges {
        let Value::String(stream) = &exchange.answer else { continue };
        let wanted = wanted(exchange);
        let events: Vec<&str> = stream.split_inclusive("\n\n").collect();
        // Long streams are mostly text; some sixty cuts of each will do.
        for end in (0..events.len()).step_by(events.len().div_ceil(60).max(1)) {
            let mut turn = engine.open_turn(Some(exchange.format), Context::default(), Lang::En);
            turn.feed(events[..end].concat().as_bytes()).unwrap();
            turn.end();
            let whole = turn.calls().iter().filter(|call| !call.is_broken());
            for call in whole.map(plain) {
                assert!(wanted.contains(&call), "{} {end}: {call:?}", exchange.origin);
                ran += 1;
            }
            let calls = turn.calls().len();
            assert!(calls <= wanted.len(), "{} {end}", exchange.origin);
            assert_eq!(turn.finish().await.results.len(), calls);
            cuts += 1;
        }
    }
    assert!(cuts > 500 && ran > 100, "{cuts} cuts, {ran} calls");
}

/// The bytes in pieces of changing sizes.
fn pieces_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    let mut size = 1;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        size = (size * 7 + 3) % 61 + 1;
        let (piece, more) = rest.split_at(size.min(rest.len()));
        rest = more;
        Some(piece)
    })
}
