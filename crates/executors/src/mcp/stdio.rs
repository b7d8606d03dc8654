//! Messages as lines of a process's standard input and output.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, CustomResult, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Notify;
use tokio::time::timeout;
use windlass::Error;

use super::process::{Process, Program};

/// The largest message that is taken from a server that says nothing else.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// How long the last line of a server that has ended may be on its way.
const LAST_LINE: Duration = Duration::from_millis(50);
/// How every message begins.
const START: &[u8] = b"{\"";

/// Why a connection ended, for the calls that were under way.
#[derive(Clone, Default)]
pub(super) struct Ending(Arc<Mutex<Option<String>>>);

impl Ending {
    /// The first reason is the one that counts.
    pub(super) fn put(&self, why: impl Into<String>) {
        self.0.lock().get_or_insert_with(|| why.into());
    }

    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().clone()
    }
}

/// A process that speaks the protocol.
pub(super) struct Stdio {
    process: Process,
    input: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    max_message: usize,
    ending: Ending,
    /// Told when the server reads no more.
    deaf: Arc<Notify>,
}

impl Stdio {
    pub(super) async fn start(
        server: &str,
        program: &Program,
        max_message: usize,
        ending: Ending,
    ) -> Result<Self, Error> {
        let (process, stdin, stdout) = Process::start(server, program).await?;
        Ok(Self {
            process,
            input: Arc::new(tokio::sync::Mutex::new(Some(stdin))),
            output: BufReader::with_capacity(64 * 1024, stdout),
            line: Vec::new(),
            max_message,
            ending,
            deaf: Arc::default(),
        })
    }

    /// Waits for the next line, or for the end of what there is to read.
    async fn next_line(&mut self) -> io::Result<Line> {
        let Self { process, output, line, max_message, deaf, .. } = self;
        tokio::select! {
            biased;
            read = read_line(output, line, *max_message) => read,
            // It may still be there, but nothing can be asked of it.
            () = deaf.notified() => {
                deaf.notify_one();
                Ok(Line::End)
            }
            // What it has started may hold its output open for as long as it likes.
            () = process.gone() => {
                let last = timeout(LAST_LINE, read_line(output, line, *max_message)).await;
                last.unwrap_or(Ok(Line::End))
            }
        }
    }
}

/// Reads a line. It may be given up at any time and goes on where it was.
async fn read_line(
    output: &mut BufReader<ChildStdout>,
    line: &mut Vec<u8>,
    max_message: usize,
) -> io::Result<Line> {
    loop {
        let available = output.fill_buf().await?;
        if available.is_empty() {
            return Ok(Line::End);
        }
        let newline = available.iter().position(|byte| *byte == b'\n');
        let taken = newline.map_or(available.len(), |at| at + 1);
        if line.len() + taken > max_message {
            return Ok(Line::TooLong);
        }
        line.extend_from_slice(&available[..taken]);
        output.consume(taken);
        if newline.is_some() {
            return Ok(Line::Whole);
        }
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (input, deaf) = (Arc::clone(&self.input), Arc::clone(&self.deaf));
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let Some(pipe) = input.as_mut() else {
                return Err(io::Error::from(io::ErrorKind::NotConnected));
            };
            let written = match pipe.write_all(&line).await {
                Ok(()) => pipe.flush().await,
                Err(error) => Err(error),
            };
            if written.is_err() {
                deaf.notify_one();
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.next_line().await {
                Ok(Line::Whole) => {}
                Ok(Line::End) => {
                    let why = self.process.ended().await;
                    self.ending.put(why);
                    return None;
                }
                // What would come next is the middle of it, so there is no way on.
                Ok(Line::TooLong) => {
                    let limit = self.max_message;
                    self.ending.put(format!("sent a message of more than {limit} bytes"));
                    return None;
                }
                Err(error) => {
                    self.ending.put(format!("cannot be read from: {error}"));
                    return None;
                }
            }
            let read = parse(&self.line).or_else(|| parse(after_noise(&self.line)?));
            if read.is_none() && !self.line.trim_ascii().is_empty() {
                let start = &self.line[..self.line.len().min(200)];
                let line = String::from_utf8_lossy(start);
                tracing::warn!(line = %line.trim_end(), "a server wrote something else than a message");
            }
            self.line.clear();
            if self.line.capacity() > 1024 * 1024 {
                self.line = Vec::new();
            }
            if let Some(message) = read {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // A server that does not read keeps a writer waiting, but not us.
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        self.process.stop().await;
        Ok(())
    }
}

/// The message in a line that something else was written into first, without an
/// end of its own: a prompt, or how far an installation is.
fn after_noise(line: &[u8]) -> Option<&[u8]> {
    let start = line.windows(START.len()).position(|part| part == START)?;
    line.get(start..)
}

/// Reads a message. A result stays the JSON that it is: what it means depends on
/// the request, and nothing that a server says about it gets lost.
pub(super) fn parse(line: &[u8]) -> Option<ServerJsonRpcMessage> {
    let mut value: Value = serde_json::from_slice(line).ok()?;
    let map = value.as_object_mut()?;
    if !map.contains_key("method") {
        let id = map.get("id").filter(|id| !id.is_null()).cloned();
        let id: Option<RequestId> = id.and_then(|id| serde_json::from_value(id).ok());
        if let Some(result) = map.remove("result") {
            let result = ServerResult::CustomResult(CustomResult(result));
            return Some(JsonRpcMessage::response(result, id?));
        }
        let error: ErrorData = serde_json::from_value(map.remove("error")?).ok()?;
        return Some(JsonRpcMessage::error(error, id));
    }
    serde_json::from_value(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stay_as_they_are_and_noise_is_no_message() {
        let line = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"own":{"x":1}}}"#;
        let Some(JsonRpcMessage::Response(response)) = parse(line) else { panic!("no response") };
        let ServerResult::CustomResult(CustomResult(result)) = response.result else {
            panic!("not as it is")
        };
        assert_eq!(result["own"]["x"], 1);
        let error = parse(br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#);
        assert!(matches!(error, Some(JsonRpcMessage::Error(error)) if error.id.is_none()));
        let noise: [&[u8]; 5] =
            [b"Listening on 3000", b"[1]", b"{}", br#"{"id":1}"#, br#"{"id":{},"result":1}"#];
        for noise in noise {
            assert!(parse(noise).is_none(), "{}", String::from_utf8_lossy(noise));
        }
        let behind = after_noise(b"ready> {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
        assert!(behind.and_then(parse).is_some(), "a message may be behind noise");
    }
}
