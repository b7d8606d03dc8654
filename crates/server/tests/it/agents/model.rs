//! A model on loopback that answers from a script and remembers every request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

type Answer = dyn Fn(&Value) -> Vec<Value> + Send + Sync;

/// The model.
pub(crate) struct Model {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
}

pub(crate) fn say(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Words that come one by one.
pub(crate) fn say_in_pieces(pieces: &[String]) -> Value {
    json!({"type": "text", "pieces": pieces})
}

pub(crate) fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

impl Model {
    pub(crate) fn start(answer: impl Fn(&Value) -> Vec<Value> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<(String, Value)>>>::default();
        let (kept, answer): (_, Arc<Answer>) = (Arc::clone(&seen), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &kept, &*answer));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn requests(&self) -> Vec<Value> {
        self.seen.lock().unwrap().iter().map(|(_, request)| request.clone()).collect()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(key, _)| key.clone()).collect()
    }
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<(String, Value)>>, answer: &Answer) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let (mut length, mut key) = (0, String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().unwrap();
                }
                Some((name, value)) if name.eq_ignore_ascii_case("x-api-key") => {
                    key = value.to_owned();
                }
                _ if line.trim_end().is_empty() => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let request: Value = serde_json::from_slice(&body).unwrap();
        let blocks = answer(&request);
        seen.lock().unwrap().push((key, request));
        let body = stream_of(&blocks);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length:";
        if write!(stream, "{head} {}\r\n\r\n{body}", body.len()).is_err() {
            return;
        }
    }
}

/// A message as the API streams it: 100 tokens in, 20 out.
fn stream_of(blocks: &[Value]) -> String {
    let usage = json!({"input_tokens": 100, "output_tokens": 1});
    let mut events = vec![json!({"type": "message_start", "message": {"usage": usage}})];
    for (at, block) in blocks.iter().enumerate() {
        let mut start = block.clone();
        let deltas: Vec<Value> = match (block["type"] == "text", block["pieces"].as_array()) {
            (true, pieces) => {
                start = json!({"type": "text", "text": ""});
                let pieces = pieces.cloned().unwrap_or_else(|| vec![block["text"].clone()]);
                pieces.iter().map(|text| json!({"type": "text_delta", "text": text})).collect()
            }
            (false, _) => {
                start["input"] = json!({});
                let input = block["input"].to_string();
                vec![json!({"type": "input_json_delta", "partial_json": input})]
            }
        };
        events.push(json!({"type": "content_block_start", "index": at, "content_block": start}));
        events.extend(
            deltas
                .into_iter()
                .map(|delta| json!({"type": "content_block_delta", "index": at, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": at}));
    }
    events.push(json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 20}}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}
