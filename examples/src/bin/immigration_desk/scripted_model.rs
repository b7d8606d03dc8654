//! A mock model on loopback that plays the coordinator and the specialists from a
//! script, and checks every request: an error in one of them ends the example.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The model.
pub(crate) struct Script {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    requests: usize,
    faults: Vec<String>,
}

impl Script {
    /// Ends the program if a request was not as expected.
    pub(crate) fn check(&self) {
        let state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        assert!(state.faults.is_empty(), "{:#?}", state.faults);
        // Two of the coordinator, two of the policy expert, one each of the
        // others.
        assert_eq!(state.requests, 6, "requests to the model");
        println!("the scripted model has checked {} requests", state.requests);
    }
}

pub(crate) async fn start() -> Result<Script, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let state = Arc::<Mutex<State>>::default();
    let shared = Arc::clone(&state);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&shared)));
        }
    });
    Ok(Script { address, state })
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) -> std::io::Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
        stream.read_exact(&mut body).await?;
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let answer = {
            let mut state = state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            state.requests += 1;
            let mut faults = faults(&head, &request);
            state.faults.append(&mut faults);
            answer(&request)
        };
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length:";
        let whole = format!("{head} {}\r\n\r\n{answer}", answer.len());
        stream.write_all(whole.as_bytes()).await?;
    }
}

/// What is wrong with a request.
fn faults(head: &str, request: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |fine: bool, what: &str| {
        if !fine {
            faults.push(format!("{what}: {request}"));
        }
    };
    check(head.starts_with("post /v1/messages http/1.1"), "the address");
    check(head.contains("x-api-key: sk-scripted"), "the key");
    check(head.contains("anthropic-version: 2023-06-01"), "the version");
    check(request["stream"] == true, "streaming");
    check(request["max_tokens"].is_u64(), "max_tokens");
    let system = request["system"][0]["text"].as_str().unwrap_or_default();
    let tools = request["tools"].as_array().map_or(0, Vec::len);
    check(tools == expected_tools(system), "the tools");
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    check(messages.len() % 2 == 1, "a person speaks last");
    for pair in messages.windows(2) {
        let roles = (pair[0]["role"].as_str(), pair[1]["role"].as_str());
        check(roles.0 != roles.1, "they take turns");
        // Every call has its result, in order.
        let ids = |message: &Value, key: &str| -> Vec<Value> {
            let blocks = message["content"].as_array().cloned().unwrap_or_default();
            blocks.iter().filter_map(|block| block.get(key).cloned()).collect()
        };
        if roles.0 == Some("assistant") {
            check(ids(&pair[0], "id") == ids(&pair[1], "tool_use_id"), "the answers");
        }
    }
    faults
}

fn expected_tools(system: &str) -> usize {
    match system {
        system if system.contains("移民顾问") => 14,
        system if system.contains("政策专家") || system.contains("策略专家") => 2,
        system if system.contains("长期记忆") => 2,
        _ => 1,
    }
}

/// The response of the model, by the agent that it plays and the progress of the conversation.
fn answer(request: &Value) -> String {
    let system = request["system"][0]["text"].as_str().unwrap_or_default();
    let turn = request["messages"].as_array().map_or(0, Vec::len);
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let say = |text: &str| json!({"type": "text", "text": text});
    let blocks = match (system, turn) {
        (system, 1) if system.contains("移民顾问") => vec![
            say("我先请教几位专家。"),
            call(
                "toolu_1",
                "invoke_policy_expert",
                json!({"query": "高才通条件", "category": "TTPS"}),
            ),
            call("toolu_2", "invoke_assessment_expert", json!({"userInfo": {"age": 35}})),
            call("toolu_3", "invoke_case_analyst", json!({"query": "35 岁硕士"})),
            call("toolu_4", "save_user_memory", json!({"key": "age", "value": "35"})),
        ],
        (system, _) if system.contains("移民顾问") => {
            vec![say("您可以申请高才通或优才。您的年龄已经记下了。")]
        }
        (system, 1) if system.contains("政策专家") => {
            vec![call("toolu_1", "search_knowledge", json!({"query": "高才通"}))]
        }
        (system, _) if system.contains("政策专家") => vec![say("高才通需要名校学位或高收入。")],
        (system, _) if system.contains("评估专家") => vec![say("条件良好。\n评分: 82")],
        _ => vec![say("类似案例:张先生,36 岁,硕士,优才获批。")],
    };
    stream(&blocks)
}

/// A message as the API streams it.
fn stream(blocks: &[Value]) -> String {
    let usage = json!({"input_tokens": 900, "output_tokens": 1});
    let mut events = vec![json!({"type": "message_start", "message": {"usage": usage}})];
    for (at, block) in blocks.iter().enumerate() {
        let (mut start, delta) = match block["type"].as_str() {
            Some("text") => (block.clone(), json!({"type": "text_delta", "text": block["text"]})),
            _ => (
                block.clone(),
                json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}),
            ),
        };
        match start["type"] == "text" {
            true => start["text"] = "".into(),
            false => start["input"] = json!({}),
        }
        events.push(json!({"type": "content_block_start", "index": at, "content_block": start}));
        events.push(json!({"type": "content_block_delta", "index": at, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": at}));
    }
    events.push(json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 120}}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}
