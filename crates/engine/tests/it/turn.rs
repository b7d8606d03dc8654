//! Turns: a model's message in, the next message out.

mod broken;
mod corpus;
mod dialects;
mod partial;
mod streams;
mod trace;
mod vendors;

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::{Content, Context, Engine, Lang, Output, ToolBuilder, Turn, TurnAnswer, TurnFormat};

/// What tools were called with, in the order in which they ran.
pub(super) type Log = Arc<Mutex<Vec<Value>>>;

pub(super) fn engine(log: &Log) -> Engine {
    let tool = |name: &str| {
        let log = Arc::clone(log);
        ToolBuilder::from_fn(name, move |arguments: Value| {
            let log = Arc::clone(&log);
            async move {
                log.lock().push(arguments.clone());
                format!("did {arguments}")
            }
        })
    };
    let png = |_: Value| async {
        Output::from(vec![
            Content::text("a dot"),
            Content::image("data:image/png;base64,iVBORw0KGgo="),
            Content::blob(*b"%PDF-1.7", "application/pdf"),
        ])
    };
    Engine::builder()
        .tool(tool("get_thing"))
        .tool(tool("save_thing"))
        .tool(ToolBuilder::from_fn("get_picture", png))
        .tool(ToolBuilder::from_fn("get_nothing", |_: Value| async { "" }))
        .tool(ToolBuilder::from_fn("get_data", |_: Value| async {
            windlass::Json(json!({"n": 1}))
        }))
        .build()
        .unwrap()
}

pub(super) async fn answer(message: Value) -> TurnAnswer {
    let turn = Turn::read(message).unwrap();
    engine(&Log::default()).turn(turn, Context::default(), Lang::En).await
}

#[tokio::test]
async fn anthropic_gets_one_message_with_all_results() {
    let answer = answer(json!({
        "id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "toolu_1", "name": "get_thing", "input": {"a": 1}},
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
            {"type": "tool_use", "id": "toolu_2", "name": "get_nowhere", "input": {}},
            {"type": "tool_use", "id": "toolu_3", "name": "get_picture", "input": {}},
            {"type": "tool_use", "id": "toolu_4", "name": "get_nothing", "input": {}},
        ],
    }))
    .await;
    assert_eq!(answer.results.len(), 4);
    assert_eq!(answer.assistant, None);
    assert_eq!(
        answer.messages,
        [json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1",
             "content": [{"type": "text", "text": "did {\"a\":1}"}]},
            {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true,
             "content": [{"type": "text", "text": answer.results[1].to_text(Lang::En)}]},
            {"type": "tool_result", "tool_use_id": "toolu_3", "content": [
                {"type": "text", "text": "a dot"},
                {"type": "image", "source":
                    {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                {"type": "document", "source":
                    {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjc="}},
            ]},
            {"type": "tool_result", "tool_use_id": "toolu_4",
             "content": [{"type": "text", "text": "(no output)"}]},
        ]})]
    );
}

#[tokio::test]
async fn openai_gets_a_message_for_each_result_and_images_after_them() {
    let answer = answer(json!({"choices": [{"index": 0, "message": {
        "role": "assistant", "content": null,
        "tool_calls": [
            {"id": "call_1", "type": "function",
             "function": {"name": "get_thing", "arguments": "{\"a\": \"5\"}"}},
            {"id": "call_2", "type": "function",
             "function": {"name": "get_thing", "arguments": "{\"a\": "}},
            {"id": "call_3", "type": "function",
             "function": {"name": "get_picture", "arguments": ""}},
        ],
    }}]}))
    .await;
    let broken = answer.results[1].to_text(Lang::En);
    assert!(broken.contains("breaks off"), "{broken}");
    let pdf = "data:application/pdf;base64,JVBERi0xLjc=";
    assert_eq!(
        answer.messages,
        [
            json!({"role": "tool", "tool_call_id": "call_1", "content": "did {\"a\":\"5\"}"}),
            json!({"role": "tool", "tool_call_id": "call_2", "content": broken}),
            json!({"role": "tool", "tool_call_id": "call_3",
                   "content": "a dot\n[image/png]\n[application/pdf]"}),
            json!({"role": "user", "content": [
                {"type": "text", "text": "These belong to the tool results above, in order:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                {"type": "file", "file": {"filename": "document.pdf", "file_data": pdf}},
            ]}),
        ]
    );
}

#[tokio::test]
async fn responses_get_an_item_for_each_result() {
    let answer = answer(json!({"object": "response", "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_data",
         "arguments": "{}", "status": "completed"},
        {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "get_picture",
         "arguments": "{}", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "call_3", "name": "get_thing", "input": "ls"},
    ]}))
    .await;
    assert_eq!(
        answer.messages,
        [
            json!({"type": "function_call_output", "call_id": "call_1", "output": "{\"n\":1}"}),
            json!({"type": "function_call_output", "call_id": "call_2", "output": [
                {"type": "input_text", "text": "a dot"},
                {"type": "input_image", "detail": "auto",
                 "image_url": "data:image/png;base64,iVBORw0KGgo="},
                {"type": "input_file", "filename": "document.pdf",
                 "file_data": "data:application/pdf;base64,JVBERi0xLjc="},
            ]}),
            json!({"type": "custom_tool_call_output", "call_id": "call_3",
                   "output": "did {\"input\":\"ls\"}"}),
        ]
    );
}

#[tokio::test]
async fn gemini_gets_one_message_with_all_responses() {
    let answer = answer(json!({"candidates": [{"content": {"role": "model", "parts": [
        {"text": "Looking."},
        {"functionCall": {"name": "get_data", "args": {}}, "thoughtSignature": "s"},
        {"functionCall": {"id": "f2", "name": "get_nowhere", "args": {}}},
    ]}}]}))
    .await;
    let error = answer.results[1].to_text(Lang::En);
    assert_eq!(
        answer.messages,
        [json!({"role": "user", "parts": [
            {"functionResponse": {"name": "get_data", "response": {"n": 1}}},
            {"functionResponse": {"id": "f2", "name": "get_nowhere", "response": {"error": error}}},
        ]})]
    );
}

#[tokio::test]
async fn broken_calls_get_one_answer_each() {
    let answer = answer(json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "same", "name": "get_thing", "input": {"n": 1}},
        {"type": "tool_use", "id": "same", "name": "get_thing", "input": {"n": 2}},
        {"type": "tool_use", "name": "get_thing", "input": {"n": 3}},
        {"type": "tool_use", "id": "no_name", "input": {}},
        {"type": "tool_use", "id": "list", "name": "get_thing", "input": [1]},
        {"type": "tool_use", "id": "no_input", "name": "get_thing"},
        {"type": "tool_use"},
    ]}))
    .await;
    let ids = |blocks: &Value, key: &str| -> Vec<String> {
        blocks.as_array().unwrap().iter().map(|b| b[key].as_str().unwrap().to_owned()).collect()
    };
    let kept = answer.assistant.expect("a message with other ids");
    let asked = ids(&kept["content"], "id");
    assert_eq!(asked, ids(&answer.messages[0]["content"], "tool_use_id"));
    let mut unique = asked.clone();
    unique.sort();
    unique.dedup();
    assert_eq!((asked.len(), unique.len()), (7, 7), "{asked:?}");
    assert_eq!((asked[0].as_str(), asked[3].as_str()), ("same", "no_name"));
    let fine: Vec<bool> = answer.results.iter().map(windlass::CallResult::is_success).collect();
    assert_eq!(fine, [true, true, true, false, false, true, false]);
}

#[tokio::test]
async fn a_message_without_calls_has_no_answer() {
    for message in [
        json!({"role": "assistant", "content": "Hello."}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}),
        json!({"choices": [{"message": {"role": "assistant", "content": "Hello."}}]}),
        json!({"output": []}),
        json!({"candidates": [{"content": {"parts": [{"text": "Hello."}]}}]}),
        json!({"role": "assistant", "content": null}),
        json!([{"type": "text", "text": "Hello."}]),
        json!({"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]}),
        json!({"candidates": [{"finishReason": "SAFETY"}]}),
    ] {
        let answer = answer(message.clone()).await;
        assert!(answer.messages.is_empty() && answer.results.is_empty(), "{message}");
    }
}

#[test]
fn what_is_no_message_is_refused() {
    for message in [json!(null), json!([]), json!("hello"), json!({"role": "user"}), json!(7)] {
        assert!(Turn::read(message.clone()).is_err(), "{message}");
    }
    for format in TurnFormat::ALL {
        assert_eq!(format.name().parse::<TurnFormat>(), Ok(format));
        assert!(Turn::read_as(format, json!({"choices": 5})).is_err(), "{format:?}");
    }
}
