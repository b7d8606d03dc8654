//! Stdio transport: one JSON-RPC message per line.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Notify;
use tokio::time::timeout;
use windlass::{Error, Veil};

use super::message::{self, Unreadable};
use super::process::{Process, Program};

/// Default maximum size of a message.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// How long to wait for the last line of a process that has exited.
const LAST_LINE: Duration = Duration::from_millis(50);
/// Every message begins with this.
const START: &[u8] = b"{\"";

/// Why a connection ended, for the calls in flight.
#[derive(Clone, Default)]
pub(super) struct Ending(Arc<Mutex<Option<String>>>);

impl Ending {
    /// The first reason is kept.
    pub(super) fn put(&self, why: impl Into<String>) {
        self.0.lock().get_or_insert_with(|| why.into());
    }

    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().clone()
    }
}

/// A child process that speaks the protocol.
pub(super) struct Stdio {
    process: Process,
    input: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    max_message: usize,
    ending: Ending,
    veil: Arc<Veil>,
    /// Notified when the server no longer reads its stdin.
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
            veil: Arc::clone(&program.veil),
            deaf: Arc::default(),
        })
    }

    /// Waits for the next line, or for the end of the output.
    async fn next_line(&mut self) -> io::Result<Line> {
        let Self { process, output, line, max_message, deaf, .. } = self;
        tokio::select! {
            biased;
            read = read_line(output, line, *max_message) => read,
            // It may still be running, but can no longer be sent anything.
            () = deaf.notified() => {
                deaf.notify_one();
                Ok(Line::End)
            }
            // Its children may hold its stdout open for as long as they like.
            () = process.gone() => {
                let last = timeout(LAST_LINE, read_line(output, line, *max_message)).await;
                last.unwrap_or(Ok(Line::End))
            }
        }
    }

    /// The message in the current line, or the error response that replaces an unreadable
    /// one.
    fn take_message(&mut self) -> Option<ServerJsonRpcMessage> {
        if let Some(hidden) = self.veil.over_json(&self.line) {
            self.line = hidden;
        }
        let message = read(&self.line, self.max_message).or_else(|unreadable| {
            if !self.line.trim_ascii().is_empty() {
                // It may be the response of a call, so its content stays out of the log.
                let bytes = self.line.len();
                tracing::warn!(bytes, "a server wrote something else than a message");
                let start = &self.line[..bytes.min(200)];
                let (line, why) = (String::from_utf8_lossy(start), unreadable.why.as_str());
                tracing::debug!(line = line.trim_end(), why, "what it wrote");
            }
            unreadable.into_answer().ok_or(())
        });
        self.line.clear();
        if self.line.capacity() > 1024 * 1024 {
            self.line = Vec::new();
        }
        message.ok()
    }
}

/// Reads a line. Cancel-safe: resumes where it stopped.
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
                // The next bytes would be the middle of this line, so the connection
                // cannot go on.
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
            if let Some(message) = self.take_message() {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // A server that does not read its stdin blocks the writer task, but not us.
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        self.process.stop().await;
        Ok(())
    }
}

/// Parses the message in a line, or in what follows noise.
fn read(line: &[u8], max_message: usize) -> Result<ServerJsonRpcMessage, Unreadable> {
    message::read(line, max_message).or_else(|unreadable| match after_noise(line) {
        Some(rest) if rest.len() < line.len() => {
            message::read(rest, max_message).map_err(|behind| match behind.id {
                Some(_) => behind,
                None => unreadable,
            })
        }
        _ => Err(unreadable),
    })
}

/// The message in a line that starts with output of another kind and no line end, such as
/// a prompt or a progress bar.
fn after_noise(line: &[u8]) -> Option<&[u8]> {
    let start = line.windows(START.len()).position(|part| part == START)?;
    line.get(start..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_may_be_behind_noise() {
        let line = b"ready> {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}";
        assert!(read(line, MAX_MESSAGE).is_ok());
        assert_eq!(read(b"ready> {\"jsonrpc\"", MAX_MESSAGE).unwrap_err().id, None);
    }
}
