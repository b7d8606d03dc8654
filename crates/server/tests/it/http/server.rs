//! A server in a folder of its own, which ends with its test.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wire::Client;
use crate::project::Project;

/// A tool that writes, and takes its time.
pub(crate) const SLOW_WRITE: &str = "
name: slow_write
description: Takes its time, and may change something.
parameters: [{name: seconds, type: number, required: true}]
entry: {type: builtin, handler: wait}
";
/// A tool that writes.
pub(crate) const WRITE: &str = "
name: write_note
description: Pretends to write a note.
category: file
parameters: [{name: message, type: string, required: true}]
entry: {type: builtin, handler: echo}
behaviour: {destructive: true}
";

/// How a server is started.
const SERVE: &[&str] = &["serve", "--json", "--listen", "127.0.0.1:0"];

/// A server.
pub(crate) struct Server {
    pub(crate) project: Arc<Project>,
    args: Vec<String>,
    variables: Vec<(String, String)>,
    child: Child,
    pub(crate) address: SocketAddr,
    /// The first admin key.
    pub(crate) admin: String,
}

impl Server {
    /// A server with the tools above.
    pub(crate) fn start() -> Self {
        Self::with("", &[])
    }

    /// The same with this windlass.yaml and these variables.
    pub(crate) fn with(settings: &str, variables: &[(&str, &str)]) -> Self {
        let project = Project::empty();
        project.write("windlass.yaml", settings);
        project.write("tools/slow_write.yaml", SLOW_WRITE).write("tools/write.yaml", WRITE);
        Self::run(Arc::new(project), &[], variables, None)
    }

    /// A server in a folder that exists.
    pub(crate) fn run(
        project: Arc<Project>,
        args: &[&str],
        variables: &[(&str, &str)],
        admin: Option<&str>,
    ) -> Self {
        let mut command = project.command(SERVE);
        command.args(args).envs(variables.iter().copied());
        Self::spawn(command, project, args, variables, admin)
    }

    /// A server that is refused a write where a limit on files is met, and not
    /// ended.
    pub(crate) fn run_shielded(project: Arc<Project>) -> Self {
        let mut command = project.isolated("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_windlass")]);
        command.args(SERVE);
        Self::spawn(command, project, &[], &[], None)
    }

    fn spawn(
        mut command: Command,
        project: Arc<Project>,
        args: &[&str],
        variables: &[(&str, &str)],
        admin: Option<&str>,
    ) -> Self {
        let log = File::options().create(true).append(true).open(project.path("log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            let log = std::fs::read_to_string(project.path("log")).unwrap();
            panic!("{error}: {line:?}: {log}")
        });
        let (_, address) = told["listening"].as_str().unwrap().split_once("://").unwrap();
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let admin = told["admin_key"].as_str().or(admin).unwrap_or_default().to_owned();
        Self {
            address: address.parse().unwrap(),
            project,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            variables: variables.iter().map(own).collect(),
            child,
            admin,
        }
    }

    /// Kills it without a word, and starts it again in the same folder.
    pub(crate) fn kill_and_start(mut self) -> Self {
        self.kill();
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let variables: Vec<(&str, &str)> =
            self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Self::run(Arc::clone(&self.project), &args, &variables, Some(&self.admin))
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        until("the server ends", || self.child.try_wait().unwrap())
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn terminate(&mut self) {
        self.signal("-TERM");
        self.child.wait().unwrap();
    }

    /// How many megabytes of memory it holds.
    pub(crate) fn megabytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let held = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        held.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.project.path("log")).unwrap()
    }

    /// A client with the first admin key.
    pub(crate) fn admin(&self) -> Client {
        self.client(&self.admin)
    }

    pub(crate) fn client(&self, key: &str) -> Client {
        Client::new(self.address, Some(key))
    }

    /// A client without a key.
    pub(crate) fn nobody(&self) -> Client {
        Client::new(self.address, None)
    }

    /// A client with a new key of a tenant.
    pub(crate) fn key(&self, tenant: &str, role: &str) -> Client {
        let body =
            json!({"name": format!("{role} of {tenant}"), "role": role, "tenant_id": tenant});
        let made = self.admin().post("/v1/keys", &body).is(201);
        self.client(made["secret"].as_str().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "not in time: {what}");
        sleep(Duration::from_millis(20));
    }
}
