//! A server with a slow tool, and an HTTP/1.1 client with keep-alive connections.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::http::Server;
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

/// A server with the slow tool.
pub(super) fn start(settings: &str, variables: &[(&str, &str)]) -> Server {
    let project = Project::empty();
    project.write("windlass.yaml", settings).write("tools/slow.yaml", SLOW);
    Server::run(Arc::new(project), &[], variables, None)
}

impl Server {
    pub(super) fn connect(&self) -> Connection {
        Connection::open(self.address, &self.admin)
    }

    /// One request on a connection of its own.
    pub(super) fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        self.connect().send(method, path, headers, body).unwrap()
    }

    pub(super) fn call(&self, headers: &[&str], body: &str) -> Answer {
        self.send("POST", "/v1/calls", headers, body)
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
