//! An HTTP server whose sessions expire.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::Rig;
use std::time::Duration;

/// Its sessions so far, and how often its tool has run.
#[derive(Default)]
struct Kept {
    sessions: AtomicUsize,
    forgotten: AtomicUsize,
    ran: AtomicUsize,
}

/// Starts one that refuses sessions which it does not know in this way.
fn start(refusal: &'static str) -> (String, Arc<Kept>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let kept = Arc::<Kept>::default();
    let own = Arc::clone(&kept);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let kept = Arc::clone(&own);
            thread::spawn(move || {
                let _ = answer(stream, &kept, refusal);
            });
        }
    });
    (format!("http://{address}/mcp"), kept)
}

fn answer(mut stream: TcpStream, kept: &Kept, refusal: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length, mut session) = (String::new(), 0, String::new());
    reader.read_line(&mut line)?;
    let is_post = line.starts_with("POST");
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        match line.split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
            Some(("mcp-session-id", value)) => value.trim().clone_into(&mut session),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default();
    let mut head = "HTTP/1.1 200 OK\r\ncontent-type: application/json".to_owned();
    let forgotten = kept.forgotten.load(Ordering::SeqCst);
    let number: usize = session.strip_prefix("s-").and_then(|own| own.parse().ok()).unwrap_or(0);
    let result = match method {
        // Without `connection: close` the next call may be sent into a socket
        // that is about to close, and nobody may repeat a call.
        _ if !is_post => {
            return write!(
                stream,
                "HTTP/1.1 405 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
        }
        "initialize" => {
            let number = kept.sessions.fetch_add(1, Ordering::SeqCst) + 1;
            head += &format!("\r\nmcp-session-id: s-{number}");
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "expiring", "version": "1"}})
        }
        _ if number <= forgotten => {
            let (status, body) = refusal.split_once('|').unwrap();
            let length = body.len();
            return write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
        _ if message["id"].is_null() => {
            return write!(
                stream,
                "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
        }
        "tools/list" => json!({"tools": [{"name": "count", "inputSchema": {"type": "object"}}]}),
        "tools/call" => {
            let ran = kept.ran.fetch_add(1, Ordering::SeqCst) + 1;
            json!({"content": [{"type": "text", "text": ran.to_string()}]})
        }
        _ => json!({}),
    };
    let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    write!(stream, "{head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_a_session_that_has_expired_runs_once_in_a_new_one() {
    let refusals = [
        r#"404 Not Found|{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#,
        r#"400 Bad Request|{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#,
        r#"400 Bad Request|{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}"#,
        r#"400 Bad Request|{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: No valid session ID provided"}}"#,
        "400 Bad Request|Bad Request: No valid session ID provided",
        "404 Not Found|gone",
    ];
    for refusal in refusals {
        let (url, kept) = start(refusal);
        let rig = Rig::new(&[("s", json!({"url": url}))]).await;
        let count = async || {
            let result = rig.call("s/count", json!({})).await;
            result.outcome.unwrap_or_else(|error| panic!("{refusal}: {error:?}")).to_text()
        };
        assert_eq!(count().await, "1");
        for expected in ["2", "3"] {
            let sessions = kept.sessions.load(Ordering::SeqCst);
            kept.forgotten.store(sessions, Ordering::SeqCst);
            let again = tokio::time::timeout(Duration::from_secs(20), count()).await;
            assert_eq!(again.unwrap(), expected, "{refusal}");
            assert_eq!(kept.sessions.load(Ordering::SeqCst), sessions + 1, "{refusal}");
        }
    }
}

/// A refusal that only speaks of sessions may be of a call that has run.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_not_repeated_for_words_about_sessions() {
    let refusals = [
        r#"400 Bad Request|{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the booking session is closed"}}"#,
        r#"400 Bad Request|{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Session not found"}}"#,
        r#"400 Bad Request|{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"Session not found"}}"#,
        r#"400 Bad Request|{"error":"Session not found"}"#,
        "400 Bad Request|database session not initialized",
    ];
    for refusal in refusals {
        let (url, kept) = start(refusal);
        let rig = Rig::new(&[("s", json!({"url": url}))]).await;
        rig.call("s/count", json!({})).await.outcome.unwrap();
        let sessions = kept.sessions.load(Ordering::SeqCst);
        kept.forgotten.store(sessions, Ordering::SeqCst);
        let again = tokio::time::timeout(Duration::from_secs(20), rig.call("s/count", json!({})));
        assert!(again.await.unwrap().outcome.is_err(), "{refusal}");
        assert_eq!(kept.ran.load(Ordering::SeqCst), 1, "{refusal}");
    }
}
