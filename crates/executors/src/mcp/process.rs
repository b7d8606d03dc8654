//! A server's process: started with what it may know, and ended with all that
//! it started.

use std::collections::{BTreeMap, VecDeque};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use windlass::{Error, ErrorKind, Veil};

use super::environment::inherited;
use super::{descendants, watchdog};

/// Becomes the program once it is told to. Should this process be killed before
/// the watchdog knows of the group, there is nobody to tell it, and it ends.
const GATE: &str = r#"read -r _ && exec "$0" "$@""#;
/// How long a server may take to end by itself once its input has ended.
const GRACE: Duration = Duration::from_secs(1);
/// How long it may take after it was asked to.
const LAST_GRACE: Duration = Duration::from_millis(500);
/// What is kept of stderr, to say why a server ended.
const STDERR_LINES: usize = 8;
const STDERR_LINE: usize = 2_000;
/// What is read of a line of stderr; the rest of it is dropped.
const STDERR_READ: usize = 256 * 1024;

/// What to start.
pub(super) struct Program {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: Option<String>,
    /// Hides what it is told in secret.
    pub(super) veil: Arc<Veil>,
}

/// A running server. When it is dropped, the whole group is killed, and what has
/// left it.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
    /// What it and all that it starts are known by.
    mark: String,
    said: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    /// Starts a program in a group of its own.
    pub(super) async fn start(
        server: &str,
        program: &Program,
    ) -> Result<(Self, ChildStdin, ChildStdout), Error> {
        watchdog::ready();
        let mark = descendants::new_mark();
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", GATE, &program.command])
            .args(&program.args)
            .env_clear()
            .envs(inherited())
            .envs(&program.env)
            .env(descendants::MARK, &mark)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(cwd) = &program.cwd {
            command.current_dir(cwd);
        }
        let failed = |why: String| {
            let why = format!("the server `{server}` cannot be started: {why}");
            Error::new(ErrorKind::Network, why)
        };
        let mut child =
            command.spawn().map_err(|error| failed(format!("{}: {error}", program.command)))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        group.iter().for_each(|group| watchdog::watch(group.as_raw_pid(), &mark));
        let said = Arc::<Mutex<VecDeque<String>>>::default();
        if let Some(stderr) = child.stderr.take() {
            let veil = Arc::clone(&program.veil);
            tokio::spawn(read_stderr(server.to_owned(), stderr, Arc::clone(&said), veil));
        }
        let pipes = (child.stdin.take(), child.stdout.take());
        let process = Self { child, group, mark, said };
        match pipes {
            (Some(mut stdin), Some(stdout)) => {
                let told = stdin.write_all(b"\n").await;
                told.map_err(|error| failed(error.to_string()))?;
                Ok((process, stdin, stdout))
            }
            _ => Err(failed("it has no pipes".to_owned())),
        }
    }

    /// Ends when it has.
    pub(super) async fn gone(&mut self) {
        let _ = self.child.wait().await;
    }

    /// Why it ended, for operators: its status, and what it said last.
    pub(super) async fn ended(&mut self) -> String {
        let status = tokio::time::timeout(LAST_GRACE, self.child.wait()).await;
        // What it said last may still be on its way.
        tokio::task::yield_now().await;
        let said: Vec<String> = self.said.lock().iter().cloned().collect();
        let status = match status {
            Ok(Ok(status)) => describe(status),
            Ok(Err(error)) => format!("ended: {error}"),
            Err(_) => "closed its output".to_owned(),
        };
        if said.is_empty() { status } else { format!("{status}: {}", said.join(" | ")) }
    }

    /// Ends it: by itself where it can, else by force. Its input has been closed
    /// before.
    pub(super) async fn stop(&mut self) {
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _ = tokio::time::timeout(LAST_GRACE, self.child.wait()).await;
        }
        if let Some(killing) = self.kill() {
            let _ = tokio::time::timeout(LAST_GRACE, killing).await;
        }
        // Killed, it ends at once; this takes it off the list of processes.
        let _ = tokio::time::timeout(LAST_GRACE, self.child.wait()).await;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // That nobody is left is what we want.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills what is left of the group, and what has left it: the server may have
    /// ended, and what it started may not. To look at all processes takes a
    /// moment, which nobody else waits for.
    fn kill(&mut self) -> Option<JoinHandle<()>> {
        self.signal(Signal::KILL);
        let (group, mark) = (self.group.take()?, std::mem::take(&mut self.mark));
        let killing = move || {
            descendants::kill(&mark);
            // Only now: until here, the watchdog would have to do it.
            watchdog::forget(group.as_raw_pid(), &mark);
        };
        match Handle::try_current() {
            Ok(runtime) => Some(runtime.spawn_blocking(killing)),
            Err(_) => {
                killing();
                None
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Writes a server's stderr to the log, line by line, and keeps the last ones.
async fn read_stderr(
    server: String,
    stderr: impl AsyncRead + Unpin,
    said: Arc<Mutex<VecDeque<String>>>,
    veil: Arc<Veil>,
) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        // The whole line: a secret must not be cut in two before it is found.
        match read_line(&mut stderr, &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = veil.over_text(text.trim_end());
        let end = text.floor_char_boundary(STDERR_LINE);
        let text = &text[..end];
        if text.is_empty() {
            continue;
        }
        tracing::info!(server, "{text}");
        let mut said = said.lock();
        if said.len() == STDERR_LINES {
            said.pop_front();
        }
        said.push_back(text.to_owned());
    }
}

/// Reads a line to its end and keeps its beginning. Says how many bytes it had.
async fn read_line(
    stderr: &mut BufReader<impl AsyncRead + Unpin>,
    line: &mut Vec<u8>,
) -> std::io::Result<usize> {
    let mut read = 0;
    loop {
        let available = stderr.fill_buf().await?;
        let newline = available.iter().position(|byte| *byte == b'\n');
        let taken = newline.map_or(available.len(), |at| at + 1);
        let room = STDERR_READ.saturating_sub(line.len()).min(taken);
        line.extend_from_slice(&available[..room]);
        stderr.consume(taken);
        read += taken;
        if newline.is_some() || taken == 0 {
            return Ok(read);
        }
    }
}
