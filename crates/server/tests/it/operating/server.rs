//! A server in a folder of its own, and a client that speaks plain HTTP/1.1.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::project::Project;

/// A tool that may change something, and takes its time.
pub(super) const SLOW: &str = "
name: slow
description: Takes its time, and may change something.
parameters: [{name: seconds, type: number, required: true}]
entry: {type: builtin, handler: wait}
";

/// A provider that wants a secret, and a tool of it.
pub(super) fn weather(project: &Project) {
    let provider = "identity: {name: skies, author: ada, label: Skies}\n\
                    credentials_for_provider:\n  \
                    token: {type: secret-input, required: true}\n  \
                    region: {type: text-input, required: false}\n";
    let tool = "name: forecast\ndescription: Says what it is asked to say.\n\
                parameters:\n  - {name: message, type: string, required: true}\n  \
                - {name: token, type: secret-input, required: true}\n\
                entry: {type: builtin, handler: echo}\n";
    project.write("tools/skies/skies.yaml", provider);
    project.write("tools/skies/tools/forecast.yaml", tool);
}

pub(super) struct Server {
    pub(super) project: Project,
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) key: String,
}

impl Server {
    pub(super) fn start(settings: &str, variables: &[(&str, &str)]) -> Self {
        let project = Project::empty();
        project.write("windlass.yaml", settings).write("tools/slow.yaml", SLOW);
        Self::run(project, variables, "")
    }

    /// In a folder that exists; `key` is the admin's, where it has one.
    pub(super) fn run(project: Project, variables: &[(&str, &str)], key: &str) -> Self {
        let log = File::options().create(true).append(true).open(project.path("log")).unwrap();
        let mut command = project.command(&["serve", "--json", "--listen", "127.0.0.1:0"]);
        command.envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let log = || std::fs::read_to_string(project.path("log")).unwrap();
        let told: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}{}", log()));
        let address = told["listening"].as_str().unwrap().split_once("://").unwrap().1;
        let key = told["admin_key"].as_str().unwrap_or(key).to_owned();
        Self { address: address.parse().unwrap(), project, child, key }
    }

    pub(super) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Waits until it has ended by itself.
    pub(super) fn ended(&mut self) -> ExitStatus {
        until("the server ends", || self.child.try_wait().unwrap())
    }

    /// Kills it without a word; the folder stays.
    pub(super) fn kill(mut self) -> (Project, String) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let project = std::mem::replace(&mut self.project, Project::empty());
        (project, std::mem::take(&mut self.key))
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.project.path("log")).unwrap()
    }

    pub(super) fn connect(&self) -> Connection {
        Connection::open(self.address, &self.key)
    }

    /// One request on a connection of its own.
    pub(super) fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        self.connect().send(method, path, headers, body).unwrap()
    }

    pub(super) fn call(&self, headers: &[&str], body: &str) -> Answer {
        self.send("POST", "/v1/calls", headers, body)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that stays open.
pub(super) struct Connection {
    reader: BufReader<TcpStream>,
    key: String,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Connection {
    pub(super) fn open(address: SocketAddr, key: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { reader: BufReader::new(stream), key: key.to_owned() }
    }

    pub(super) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> io::Result<Answer> {
        self.ask(method, path, headers, body)?;
        self.answer()
    }

    pub(super) fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> io::Result<()> {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        text += &format!("Authorization: Bearer {}\r\n", self.key);
        headers.iter().for_each(|header| text += &format!("{header}\r\n"));
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.reader.get_mut().write_all(text.as_bytes())
    }

    /// The head and the whole body.
    pub(super) fn answer(&mut self) -> io::Result<Answer> {
        let mut answer = self.head()?;
        let mut body = Vec::new();
        if let Some(length) = answer.headers.get("content-length") {
            body.resize(length.parse().unwrap(), 0);
            self.reader.read_exact(&mut body)?;
        } else {
            while let Some(chunk) = self.chunk()? {
                body.extend(chunk);
            }
        }
        answer.body = String::from_utf8(body).unwrap();
        Ok(answer)
    }

    pub(super) fn head(&mut self) -> io::Result<Answer> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no answer: {first:?}")))?;
        let mut headers = HashMap::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        Ok(Answer { status, headers, body: String::new() })
    }

    /// The next piece of a stream; none at its end.
    pub(super) fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = self.line()?;
        let size = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk)?;
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// Waits until something is so.
#[track_caller]
pub(super) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "not in time: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// All records of a project, read when no server has it any more.
pub(super) fn records(project: &Project) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut args = vec!["calls", "--limit", "1000"];
        if let Some(after) = &after {
            args.extend(["--after", after]);
        }
        let page = project.json(&args);
        all.extend(page["records"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => return all,
        }
    }
}
