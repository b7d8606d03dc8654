//! A scripted HTTP server that answers calls byte by byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// What a tool's call is answered with.
pub(crate) enum Said {
    /// A status and a body, of this media type.
    Body(&'static str, &'static str, String),
    /// Events, and then nothing for a while.
    Events(String),
}

/// Starts one, and gives its address.
pub(crate) fn start(tools: &'static [&'static str], play: fn(&str, &Value) -> Said) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let _ = answer(stream, tools, play);
            });
        }
    });
    format!("http://{address}/mcp")
}

fn answer(
    mut stream: TcpStream,
    tools: &[&str],
    play: fn(&str, &Value) -> Said,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line)?;
    let is_post = line.starts_with("POST");
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = &message["id"];
    let result = |result: Value| {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        Said::Body("200 OK", "application/json", body)
    };
    let said = match message["method"].as_str().unwrap_or_default() {
        _ if !is_post => Said::Body("405 Method Not Allowed", "text/plain", String::new()),
        _ if id.is_null() => Said::Body("202 Accepted", "text/plain", String::new()),
        "initialize" => result(json!({"protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}})),
        "tools/list" => {
            let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
            result(json!({"tools": tools.iter().map(tool).collect::<Vec<_>>()}))
        }
        "tools/call" => play(message["params"]["name"].as_str().unwrap_or_default(), id),
        "ping" => result(json!({})),
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
            Said::Body("200 OK", "application/json", body)
        }
    };
    match said {
        Said::Body(status, media, body) => {
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\
                 connection: close\r\n\r\n{body}"
            )
        }
        Said::Events(events) => {
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                 connection: close\r\n\r\n"
            )?;
            stream.write_all(events.as_bytes())?;
            stream.flush()?;
            thread::sleep(Duration::from_secs(60));
            Ok(())
        }
    }
}
