//! A raw HTTP client, which sends exactly what it is given.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::described;

/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Somebody with a key, or without.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) key: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sent {
    pub(crate) name: String,
    pub(crate) id: Option<u64>,
    pub(crate) data: Value,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, key: Option<&str>) -> Self {
        Self { address, key: key.map(str::to_owned) }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.json("POST", path, &[], body)
    }

    /// The result of a call; none where the server is gone.
    pub(crate) fn try_post(&self, path: &str, body: &Value) -> Option<Value> {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            self.key.as_deref().unwrap_or_default(),
            body.len()
        );
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.write_all((head + &body).as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        self.json("PUT", path, &[], body)
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], b"")
    }

    pub(crate) fn json(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let headers = [headers, &[("Content-Type", "application/json")]].concat();
        self.send(method, path, &headers, body.to_string().as_bytes())
    }

    /// Sends a request and holds the answer against the document.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let answer = self.send_unchecked(method, path, headers, body);
        if path.starts_with("/v1/") {
            described::check(self.address, method, path, &answer);
        }
        answer
    }

    pub(crate) fn send_unchecked(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut stream = self.begin(method, path, headers, body);
        Answer::read(&mut stream)
    }

    /// Sends a request; whoever asked reads what comes.
    pub(crate) fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> BufReader<TcpStream> {
        self.begin_on(connect(self.address), method, path, headers, body)
    }

    /// The same on a connection that is there.
    pub(crate) fn begin_on(
        &self,
        mut stream: TcpStream,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> BufReader<TcpStream> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += &format!("Host: {}\r\n", self.address);
        }
        if let Some(key) = &self.key {
            head += &format!("Authorization: Bearer {key}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).unwrap();
        // A server that has refused the head may hang up meanwhile.
        let _ = stream.write_all(body);
        BufReader::new(stream)
    }

    /// Follows a stream of events.
    pub(crate) fn follow(&self, path: &str, last: Option<u64>) -> Events {
        let last = last.map(|last| if last == 0 { "0".to_owned() } else { format!("{last:016x}") });
        let headers: Vec<_> = last.iter().map(|last| ("Last-Event-ID", last.as_str())).collect();
        Events::new(self.begin("GET", path, &headers, b""), "GET", path)
    }

    /// Posts something whose answer is a stream of events.
    pub(crate) fn stream(&self, path: &str, body: &Value) -> Events {
        let headers = [("Content-Type", "application/json"), ("Accept", "text/event-stream")];
        let stream = self.begin("POST", path, &headers, body.to_string().as_bytes());
        Events::new(stream, "POST", path)
    }
}

/// A connection that holds little of what nobody has read.
pub(crate) fn connect_narrow(address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(address).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

impl Answer {
    pub(crate) fn read(stream: &mut BufReader<TcpStream>) -> Self {
        let (status, headers) = head(stream);
        let mut answer = Self { status, headers, body: Vec::new() };
        if answer.header("transfer-encoding").is_some() {
            while let Some(part) = chunk(stream) {
                answer.body.extend(part);
            }
        } else {
            let _ = stream.read_to_end(&mut answer.body);
        }
        answer
    }

    /// The head of an answer whose body may never end.
    pub(crate) fn head(stream: &mut BufReader<TcpStream>) -> Self {
        let (status, headers) = head(stream);
        Self { status, headers, body: Vec::new() }
    }

    /// All of it but what differs from request to request, with this id blotted
    /// out.
    pub(crate) fn comparable(&self, id: &str) -> String {
        let differs = ["x-request-id", "date"];
        let headers: Vec<_> =
            self.headers.iter().filter(|(name, _)| !differs.contains(&name.as_str())).collect();
        format!("{} {headers:?} {}", self.status, self.text()).replace(id, "ID")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The JSON of an answer with this status.
    #[track_caller]
    pub(crate) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self}");
        if self.body.is_empty() { Value::Null } else { self.value() }
    }

    /// A problem with this status and code.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let problem = self.is(status);
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self}");
        assert_eq!(problem["code"], code, "{self}");
        assert_eq!(problem["status"], status);
        problem
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} {}", self.status, self.headers, self.text())
    }
}

fn head(stream: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no answer: {line:?}"));
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_owned(), value.to_owned()));
    }
    (status, headers)
}

/// The next chunk; none after the last one, or where the stream broke off.
fn chunk(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut size = String::new();
    stream.read_line(&mut size).ok().filter(|read| *read > 0)?;
    let size = usize::from_str_radix(size.trim(), 16).unwrap();
    let mut part = vec![0; size + 2];
    stream.read_exact(&mut part).ok()?;
    part.truncate(size);
    (size > 0).then_some(part)
}

/// Events as they come.
pub(crate) struct Events {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
    waiting: String,
    route: (&'static str, String),
}

impl Events {
    pub(crate) fn new(mut stream: BufReader<TcpStream>, method: &'static str, path: &str) -> Self {
        let (status, headers) = head(&mut stream);
        assert_eq!(status, 200, "{headers:?}");
        let media = headers.iter().find(|(name, _)| name == "content-type").unwrap();
        assert_eq!(media.1, "text/event-stream");
        let address = stream.get_ref().peer_addr().unwrap();
        Self { stream, address, waiting: String::new(), route: (method, path.to_owned()) }
    }

    /// The next event; none where the stream has ended.
    pub(crate) fn next(&mut self) -> Option<Sent> {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < PATIENCE, "nothing but signs of life");
            if let Some((event, rest)) = self.waiting.split_once("\n\n") {
                let sent = Sent::read(event);
                self.waiting = rest.to_owned();
                let Some(sent) = sent else { continue };
                described::check_event(self.address, self.route.0, &self.route.1, &sent);
                return Some(sent);
            }
            let part = chunk(&mut self.stream)?;
            self.waiting += std::str::from_utf8(&part).unwrap();
        }
    }

    /// Up to and with the first event of this name.
    #[track_caller]
    pub(crate) fn up_to(&mut self, name: &str) -> Vec<Sent> {
        let mut seen = Vec::new();
        loop {
            let next = self.next();
            seen.push(next.unwrap_or_else(|| panic!("no {name} in {seen:?}")));
            if seen.last().is_some_and(|last| last.name == name) {
                return seen;
            }
        }
    }

    pub(crate) fn rest(mut self) -> Vec<Sent> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

impl Sent {
    /// An event; none for a comment that keeps the stream alive.
    fn read(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(|value| value.strip_prefix(' ').unwrap_or(value))
        };
        Some(Self {
            name: field("event")?.to_owned(),
            id: field("id").map(|id| u64::from_str_radix(id, 16).unwrap()),
            data: serde_json::from_str(field("data")?).unwrap(),
        })
    }
}
