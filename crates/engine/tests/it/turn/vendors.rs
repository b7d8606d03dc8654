//! Vendor-specific fields of model APIs.

use serde_json::{Value, json};
use windlass::{Context, Lang, Turn, TurnAnswer, TurnFormat};

use super::{Log, answer, engine};

async fn streamed(events: &[Value]) -> (TurnAnswer, Vec<Value>) {
    let log = Log::default();
    let mut turn = engine(&log).open_turn(None, Context::default(), Lang::En);
    for event in events {
        turn.feed_event(event.clone()).unwrap();
    }
    let answer = turn.finish().await;
    let ran = log.lock().clone();
    (answer, ran)
}

/// A stream of Chat Completions with these deltas.
async fn chat(deltas: &[Value]) -> (TurnAnswer, Vec<Value>) {
    let chunk = |delta: &Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let mut events: Vec<Value> = deltas.iter().map(chunk).collect();
    events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    streamed(&events).await
}

#[tokio::test]
async fn an_empty_function_call_is_no_call() {
    for empty in [
        json!({}),
        json!({"name": "", "arguments": ""}),
        json!({"name": null, "arguments": null}),
        json!({"name": "", "arguments": "{}"}),
    ] {
        let message = json!({"role": "assistant", "content": "Hello.", "function_call": empty});
        let turn = Turn::read(json!({"choices": [{"message": message}]})).unwrap();
        assert!(turn.calls().is_empty(), "{empty}");
        assert_eq!(*turn.message(), json!({"role": "assistant", "content": "Hello."}));
        let call = json!({"index": 0, "id": "a", "type": "function",
                          "function": {"name": "get_thing", "arguments": "{\"x\": 1}"}});
        let (answer, ran) = chat(&[
            json!({"content": "Hel", "function_call": empty}),
            json!({"content": "lo.", "function_call": empty, "tool_calls": [call]}),
        ])
        .await;
        assert_eq!((ran, answer.messages.len()), (vec![json!({"x": 1})], 1), "{empty}");
        let kept = answer.assistant.unwrap();
        assert_eq!((&kept["content"], kept.get("function_call")), (&json!("Hello."), None));
    }
}

#[tokio::test]
async fn streamed_blocks_of_content_are_kept() {
    let thought =
        |text: &str| json!([{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]);
    let (answer, _) = chat(&[
        json!({"role": "assistant", "content": ""}),
        json!({"content": thought("I ")}),
        json!({"content": thought("see.")}),
        json!({"content": [{"type": "text", "text": "Par"}]}),
        json!({"content": "is"}),
        json!({"content": [{"type": "reference", "reference_ids": [1]},
                           {"type": "text", "text": "."}]}),
    ])
    .await;
    assert_eq!(
        answer.assistant.unwrap()["content"],
        json!([
            {"type": "thinking", "thinking": [{"type": "text", "text": "I see."}]},
            {"type": "text", "text": "Paris"},
            {"type": "reference", "reference_ids": [1]},
            {"type": "text", "text": "."},
        ])
    );
    let (answer, _) =
        chat(&[json!({"content": "Hi"}), json!({"content": [{"type": "text", "text": "!"}]})])
            .await;
    assert_eq!(answer.assistant.unwrap()["content"], json!([{"type": "text", "text": "Hi!"}]));
    let (answer, _) = chat(&[json!({"content": "Hi"}), json!({"content": "!"})]).await;
    assert_eq!(answer.assistant.unwrap()["content"], "Hi!");
}

#[tokio::test]
async fn citations_and_compactions_are_kept() {
    let start = |at: u64, block: Value| json!({"type": "content_block_start", "index": at, "content_block": block});
    let delta =
        |at: u64, delta: Value| json!({"type": "content_block_delta", "index": at, "delta": delta});
    let cited = |page: u64| json!({"type": "page_location", "cited_text": "x", "start_page": page});
    let (answer, _) = streamed(&[
        json!({"type": "message_start", "message": {}}),
        start(0, json!({"type": "compaction", "content": null})),
        delta(
            0,
            json!({"type": "compaction_delta", "content": "So far: ",
                        "encrypted_content": "e"}),
        ),
        delta(0, json!({"type": "compaction_delta", "content": "nothing."})),
        start(1, json!({"type": "text", "text": "", "citations": null})),
        delta(1, json!({"type": "text_delta", "text": "Gre"})),
        delta(1, json!({"type": "citations_delta", "citation": cited(1)})),
        delta(1, json!({"type": "citations_delta", "citation": cited(2)})),
        delta(1, json!({"type": "text_delta", "text": "en."})),
        start(2, json!({"type": "novelty"})),
        delta(2, json!({"type": "novelty_delta", "spark": "a", "n": 1})),
        delta(2, json!({"type": "novelty_delta", "spark": "b"})),
        start(3, json!({"type": "thinking", "thinking": ""})),
        delta(3, json!({"type": "thinking_delta", "thinking": "Hm", "estimated_tokens": 3})),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        json!({"type": "message_stop"}),
    ])
    .await;
    assert_eq!(
        answer.assistant.unwrap()["content"],
        json!([
            {"type": "compaction", "content": "So far: nothing.", "encrypted_content": "e"},
            {"type": "text", "text": "Green.", "citations": [cited(1), cited(2)]},
            {"type": "novelty", "spark": "ab", "n": 1},
            {"type": "thinking", "thinking": "Hm"},
        ])
    );
}

#[tokio::test]
async fn streamed_custom_calls_keep_name_and_input() {
    // The text looks like arguments that end in the middle.
    let begun = json!({"index": 0, "id": "a", "type": "custom",
                       "custom": {"name": "get_thing", "input": "{} "}});
    let more = |text: &str| json!({"tool_calls": [{"index": 0, "custom": {"input": text}}]});
    let (answer, ran) =
        chat(&[json!({"tool_calls": [begun]}), more("&& {\"x"), more("\": 1}")]).await;
    assert_eq!(ran, [json!({"input": "{} && {\"x\": 1}"})]);
    assert_eq!(
        answer.assistant.unwrap()["tool_calls"],
        json!([{"id": "a", "type": "custom",
                "custom": {"name": "get_thing", "input": "{} && {\"x\": 1}"}}])
    );
    assert_eq!(answer.messages[0]["tool_call_id"], "a");
    // One that is cut does not run, whatever its text looks like.
    let (answer, ran) = streamed(&[
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [begun]}}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}),
    ])
    .await;
    assert_eq!((ran.len(), answer.messages.len()), (0, 1));
}

#[tokio::test]
async fn calls_that_the_api_runs_itself_are_not_run() {
    let custom = |id: &str, name: &str| {
        json!({"type": "custom_tool_call", "id": format!("ctc_{id}"), "call_id": id, "name": name,
               "input": "{\"query\":\"x\"}", "status": "completed"})
    };
    let own = json!({"type": "function_call", "call_id": "own", "name": "get_thing",
                     "arguments": "{\"x\":1}"});
    let shell = json!({"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]},
                       "environment": {"type": "container_reference", "container_id": "c"}});
    let answered = [
        json!({"type": "shell_call", "call_id": "t", "action": {"commands": ["ls"]}}),
        json!({"type": "shell_call_output", "call_id": "t", "output": []}),
    ];
    for (items, about) in [
        (vec![custom("xs_call_1", "get_thing")], json!({})),
        (vec![custom("c", "x_keyword_search")], json!({})),
        (vec![custom("c", "get_thing")], json!({"model": "grok-4-fast"})),
        (vec![custom("c", "get_thing")], json!({"tools": [{"type": "x_search"}]})),
        (vec![shell], json!({})),
        (answered.to_vec(), json!({})),
    ] {
        let mut whole = about.clone();
        whole["object"] = "response".into();
        whole["output"] = items.iter().cloned().chain([own.clone()]).collect();
        let turn = Turn::read_as(TurnFormat::Responses, whole.clone()).unwrap();
        assert_eq!(turn.calls().len(), 1, "{whole}");
        assert_eq!(turn.message(), &whole["output"]);
        if items.len() > 1 {
            continue;
        }
        let mut events = vec![json!({"type": "response.created", "response": about})];
        for (at, item) in items.iter().chain([&own]).enumerate() {
            for kind in ["response.output_item.added", "response.output_item.done"] {
                events.push(json!({"type": kind, "output_index": at, "item": item}));
            }
        }
        events.push(json!({"type": "response.completed", "response": {}}));
        let (answer, ran) = streamed(&events).await;
        assert_eq!((ran, answer.messages.len()), (vec![json!({"x": 1})], 1), "{about}");
        assert_eq!(answer.assistant.as_ref(), Some(&whole["output"]));
    }
    // Somebody's own custom tool runs, also one of the same name.
    let declared = json!({"object": "response", "output": [custom("c", "browse_page")],
                          "tools": [{"type": "custom", "name": "browse_page"}]});
    assert_eq!(Turn::read(declared).unwrap().calls().len(), 1);
}

#[tokio::test]
async fn shells_and_patches_get_an_answer() {
    let items = [
        json!({"type": "local_shell_call", "id": "lsh_1", "call_id": "a", "status": "completed",
               "action": {"type": "exec", "command": ["ls"], "env": {}}}),
        json!({"type": "shell_call", "id": "sh_1", "call_id": "b", "status": "completed",
               "action": {"commands": ["ls"]}, "environment": {"type": "local"}}),
        json!({"type": "apply_patch_call", "id": "apc_1", "call_id": "c", "status": "completed",
               "operation": {"type": "delete_file", "path": "a.txt"}}),
    ];
    let whole = answer(json!({"object": "response", "output": items})).await;
    let mut events = Vec::new();
    for (at, item) in items.iter().enumerate() {
        for kind in ["response.output_item.added", "response.output_item.done"] {
            events.push(json!({"type": kind, "output_index": at, "item": item}));
        }
    }
    events.push(json!({"type": "response.completed", "response": {}}));
    let (streamed, _) = streamed(&events).await;
    assert_eq!((whole.assistant, streamed.assistant), (None, Some(json!(items))));
    assert_eq!(whole.messages, streamed.messages);
    let text = |at: usize| whole.results[at].to_text(Lang::En);
    assert!(text(0).contains("local_shell"), "{}", text(0));
    assert_eq!(
        json!(whole.messages),
        json!([
            {"type": "local_shell_call_output", "output": text(0), "call_id": "a"},
            {"type": "shell_call_output", "call_id": "b", "output": [
                {"stdout": "", "stderr": text(1), "outcome": {"type": "exit", "exit_code": 1}}]},
            {"type": "apply_patch_call_output", "status": "failed", "output": text(2),
             "call_id": "c"},
        ])
    );
}

/// Whoever has a tool of that name runs it.
#[tokio::test]
async fn a_shell_of_ones_own_runs() {
    let shell = |arguments: Value| async move { format!("ran {}", arguments["commands"][0]) };
    let engine = windlass::Engine::builder()
        .tool(windlass::ToolBuilder::from_fn("shell", shell))
        .build()
        .unwrap();
    let item = json!({"type": "shell_call", "call_id": "b", "action": {"commands": ["ls"]}});
    let turn = Turn::read_as(TurnFormat::Responses, json!([item])).unwrap();
    let answer = engine.turn(turn, Context::default(), Lang::En).await;
    assert_eq!(
        answer.messages[0]["output"][0],
        json!({"stdout": "ran \"ls\"", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}})
    );
}

#[tokio::test]
async fn who_called_is_told_in_the_answer() {
    let caller = json!({"type": "program", "caller_id": "prog_1"});
    let items = json!([
        {"type": "function_call", "call_id": "a", "name": "get_data", "arguments": "{}",
         "caller": caller},
        {"type": "custom_tool_call", "call_id": "b", "name": "get_data", "input": "",
         "caller": caller},
        {"type": "shell_call", "call_id": "c", "action": {"commands": []}, "caller": caller},
        {"type": "apply_patch_call", "call_id": "d", "operation": {}, "caller": caller},
        {"type": "function_call", "call_id": "e", "name": "get_data", "arguments": "{}",
         "caller": null},
    ]);
    let mut events = Vec::new();
    for (at, item) in items.as_array().unwrap().iter().enumerate() {
        events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    let (streamed, _) = streamed(&events).await;
    for answer in [answer(items).await, streamed] {
        for message in &answer.messages[..4] {
            assert_eq!(message["caller"], caller, "{message}");
        }
        assert_eq!(answer.messages[4].get("caller"), None);
    }
    // Anthropic knows by the id who called, and wants the family of a tool back. The
    // message keeps both.
    let block = json!({"type": "tool_use", "id": "t", "name": "get_data", "input": {},
                       "caller": {"type": "code_execution_20250825", "tool_id": "srv"},
                       "toolset_name": "browser"});
    let whole = answer(json!({"role": "assistant", "content": [block]})).await;
    assert_eq!(whole.assistant, None);
    assert_eq!(whole.messages[0]["content"][0]["toolset_name"], "browser");
    let mut turn = engine(&Log::default()).open_turn(None, Context::default(), Lang::En);
    for event in [
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
    ] {
        turn.feed_event(event).unwrap();
    }
    let answer = turn.finish().await;
    assert_eq!(answer.assistant.unwrap()["content"], json!([block]));
    assert_eq!(answer.messages, whole.messages);
}

#[tokio::test]
async fn a_nested_message_of_an_error_is_told() {
    let wrapped = json!({"error": {"message": "{\"error\": {\"message\": \"quota is used up\"}}"}});
    for event in [
        json!({"error": {"error": {"message": "quota is used up"}}}),
        wrapped.clone(),
        json!({"choices": [], "error": {"message": "Provider returned error",
               "metadata": {"raw": "{\"detail\": \"quota is used up\"}"}}}),
        json!({"type": "error", "error": {"details": [{"message": "quota is used up"}]}}),
        json!({"type": "response.failed", "response": {"error": wrapped["error"]}}),
        json!({"candidates": [], "error": [{"error": {"message": "quota is used up"}}]}),
    ] {
        let mut turn = engine(&Log::default()).open_turn(None, Context::default(), Lang::En);
        let error = turn.feed_event(event.clone()).unwrap_err();
        assert!(error.message().contains("quota is used up"), "{event}: {error:?}");
    }
}

#[test]
fn an_error_in_place_of_a_message_is_no_message() {
    use TurnFormat::{Anthropic, Gemini, OpenAi, Responses};
    let wrapped = json!({"message": "{\"error\": {\"message\": \"quota is used up\"}}"});
    for (format, answer) in [
        (OpenAi, json!({"error": wrapped})),
        (OpenAi, json!({"error": "quota is used up", "choices": []})),
        (
            Responses,
            json!({"object": "response", "status": "failed", "output": [], "error": wrapped}),
        ),
        (Anthropic, json!({"type": "error", "error": {"message": "quota is used up"}})),
        (Gemini, json!({"error": {"code": 429, "message": "quota is used up"}})),
    ] {
        for read in [Turn::read(answer.clone()), Turn::read_as(format, answer.clone())] {
            let error = read.unwrap_err();
            assert!(error.message().contains("quota is used up"), "{answer}: {error}");
        }
    }
    // What is no message is none, whatever the format is said to be.
    for answer in
        [json!({"detail": [{"msg": "field required"}]}), json!({}), json!({"choices": []})]
    {
        assert!(Turn::read_as(OpenAi, answer.clone()).is_err(), "{answer}");
    }
    // A message that says that it had an error before is one.
    let said =
        json!({"error": null, "choices": [{"message": {"role": "assistant", "content": "a"}}]});
    assert_eq!(Turn::read(said).unwrap().message()["content"], "a");
}

#[test]
fn parts_whose_call_is_no_object_are_no_calls() {
    let call = json!({"functionCall": {"name": "get_thing", "args": {}}});
    let parts = json!([{"functionCall": null}, {"functionCall": []}, {"function_call": "x"}, call,
        {"text": "a", "functionCall": null}]);
    let turn = Turn::read(json!({"candidates": [{"content": {"parts": parts}}]})).unwrap();
    assert_eq!(turn.calls().len(), 1);
    assert_eq!(turn.message()["parts"], json!([call, {"text": "a", "functionCall": null}]));
    assert!(turn.is_mended());
}

#[tokio::test]
async fn half_a_surrogate_pair_does_not_end_a_turn() {
    let log = Log::default();
    let mut turn = engine(&log).open_turn(None, Context::default(), Lang::En);
    let call = r#"{"index":0,"id":"a","function":{"name":"get_thing","arguments":"{\"x\": \"\\ud83d\"}"}}"#;
    for data in [
        r#"{"choices":[{"index":0,"delta":{"content":"Hi \ud83d"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"\ude00!"}}]}"#,
        &format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{call}]}}}}]}}"#),
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
    ] {
        turn.feed(format!("data: {data}\n\n").as_bytes()).unwrap();
    }
    let answer = turn.finish().await;
    assert!(answer.is_whole);
    assert_eq!(answer.assistant.unwrap()["content"], "Hi \u{fffd}\u{fffd}!");
    assert_eq!(*log.lock(), [json!({"x": "\u{fffd}"})]);
}

#[tokio::test]
async fn an_end_without_a_message_is_no_message() {
    for format in [None, Some(TurnFormat::OpenAi)] {
        let mut turn = engine(&Log::default()).open_turn(format, Context::default(), Lang::En);
        turn.feed(b"data: [DONE]\n\n").unwrap();
        assert!(!turn.finish().await.is_whole, "{format:?}");
    }
}
