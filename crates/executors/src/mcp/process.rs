//! A server's child process: started in its own process group with a minimal environment,
//! and killed with everything that it started.

use std::collections::{BTreeMap, VecDeque};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
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

/// Starts as a shell that waits for a line on stdin before it becomes the program. If
/// this process is killed before the watchdog knows the process group, the shell reads
/// the end of stdin and exits.
const GATE: &str = r#"read -r _ && exec "$0" "$@""#;
/// How long a server may take to exit once its stdin is closed.
const GRACE: Duration = Duration::from_secs(1);
/// How long it may take to exit after `SIGTERM`.
const LAST_GRACE: Duration = Duration::from_millis(500);
/// How long its last output is waited for once it has exited.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How many lines of stderr are kept to say why a server exited.
const STDERR_LINES: usize = 8;
const STDERR_LINE: usize = 2_000;
/// Maximum bytes read of one line of stderr; the rest is dropped.
const STDERR_READ: usize = 256 * 1024;

/// The command to start.
pub(super) struct Program {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: Option<String>,
    /// Redacts its secrets in what it writes.
    pub(super) veil: Arc<Veil>,
    /// Where its process id is told.
    pub(super) process: Arc<AtomicI32>,
}

/// A running server. Dropping it kills the whole process group, and every process that
/// left the group.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
    /// The mark in the environment of the process and its descendants.
    mark: String,
    said: Arc<Mutex<VecDeque<String>>>,
    /// Reads its stderr until that ends.
    listening: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts a program in a process group of its own.
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
        if let Some(group) = group {
            watchdog::watch(group.as_raw_pid(), &mark);
            program.process.store(group.as_raw_pid(), Ordering::Relaxed);
        }
        let said = Arc::<Mutex<VecDeque<String>>>::default();
        let listening = child.stderr.take().map(|stderr| {
            let veil = Arc::clone(&program.veil);
            tokio::spawn(read_stderr(server.to_owned(), stderr, Arc::clone(&said), veil))
        });
        let pipes = (child.stdin.take(), child.stdout.take());
        let process = Self { child, group, mark, said, listening };
        match pipes {
            (Some(mut stdin), Some(stdout)) => {
                let told = stdin.write_all(b"\n").await;
                told.map_err(|error| failed(error.to_string()))?;
                Ok((process, stdin, stdout))
            }
            _ => Err(failed("it has no pipes".to_owned())),
        }
    }

    /// Waits until it has exited.
    pub(super) async fn gone(&mut self) {
        let _ = self.child.wait().await;
    }

    /// Why it exited, for operators: the exit status and its last stderr lines.
    pub(super) async fn ended(&mut self) -> String {
        let status = tokio::time::timeout(LAST_GRACE, self.child.wait()).await;
        // Its last output may not have been read yet; a child of its own may keep
        // the pipe open.
        if let Some(listening) = &mut self.listening
            && tokio::time::timeout(LAST_WORDS, &mut *listening).await.is_ok()
        {
            self.listening = None;
        }
        let said: Vec<String> = self.said.lock().iter().cloned().collect();
        let status = match status {
            Ok(Ok(status)) => describe(status),
            Ok(Err(error)) => format!("ended: {error}"),
            Err(_) => "closed its output".to_owned(),
        };
        if said.is_empty() { status } else { format!("{status}: {}", said.join(" | ")) }
    }

    /// Stops it: gracefully if it reacts, else with `SIGKILL`. Its stdin has been closed
    /// before.
    pub(super) async fn stop(&mut self) {
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _ = tokio::time::timeout(LAST_GRACE, self.child.wait()).await;
        }
        if let Some(killing) = self.kill() {
            let _ = tokio::time::timeout(LAST_GRACE, killing).await;
        }
        // After `SIGKILL` it exits at once; waiting reaps the zombie.
        let _ = tokio::time::timeout(LAST_GRACE, self.child.wait()).await;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may be empty already, which is fine.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills what is left of the process group, and processes that have left it: the
    /// server may have exited while its children run on. Scanning `/proc` takes a moment,
    /// so it is done in the background.
    fn kill(&mut self) -> Option<JoinHandle<()>> {
        self.signal(Signal::KILL);
        let (group, mark) = (self.group.take()?, std::mem::take(&mut self.mark));
        let killing = move || {
            descendants::kill(&mark);
            // Only now: if this process is killed earlier, the watchdog still has to do
            // it.
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

/// Writes a server's stderr to the log line by line, and keeps the last lines.
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
        // The whole line: a secret that is cut in two would not be redacted.
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

/// Reads a line to its end, but keeps only its beginning. Returns its length in bytes.
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
