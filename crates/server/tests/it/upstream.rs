//! A scripted upstream server on loopback, which records its requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// A request that it got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Where it was asked, as the beginning of a URL.
    pub(crate) url: String,
    /// All lines before the body, as they were sent.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Asked {
    /// Method and path.
    pub(crate) fn what(&self) -> (&str, &str) {
        let mut words = self.head.split(' ');
        (words.next().unwrap_or_default(), words.next().unwrap_or_default())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(": ")?;
            own.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn contains(&self, what: &str) -> bool {
        self.head.contains(what) || self.body.contains(what)
    }

    fn read(url: &str, stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut asked = Self { url: url.to_owned(), ..Self::default() };
        loop {
            let before = asked.head.len();
            stream.read_line(&mut asked.head).ok().filter(|read| *read > 0)?;
            if &asked.head[before..] == "\r\n" {
                asked.head.truncate(before);
                break;
            }
        }
        let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        asked.body = String::from_utf8_lossy(&body).into_owned();
        Some(asked)
    }
}

/// What it says.
pub(crate) struct Said {
    status: &'static str,
    kind: &'static str,
    headers: String,
    body: String,
}

impl Said {
    pub(crate) fn json(status: &'static str, body: &Value) -> Self {
        Self::text(status, "application/json", body.to_string())
    }

    pub(crate) fn text(status: &'static str, kind: &'static str, body: String) -> Self {
        Self { status, kind, headers: String::new(), body }
    }

    pub(crate) fn nothing(status: &'static str) -> Self {
        Self::text(status, "application/json", String::new())
    }

    /// A token of OAuth 2.0 that is good for so many seconds.
    pub(crate) fn token(access: &str, refresh: Option<&str>, seconds: u32) -> Self {
        let mut token =
            json!({"access_token": access, "token_type": "bearer", "expires_in": seconds});
        if let Some(refresh) = refresh {
            token["refresh_token"] = refresh.into();
        }
        Self::json("200 OK", &token)
    }

    pub(crate) fn with(mut self, header: &str, value: &str) -> Self {
        self.headers += &format!("{header}: {value}\r\n");
        self
    }
}

/// The server.
pub(crate) struct TestUpstream {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl TestUpstream {
    pub(crate) fn start(answer: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (kept, answer) = (Arc::clone(&asked), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                thread::spawn(move || {
                    let mut stream = BufReader::new(stream);
                    while let Some(asked) = Asked::read(&format!("http://{address}"), &mut stream) {
                        kept.lock().unwrap().push(asked.clone());
                        let Said { status, kind, headers, body } = answer(&asked);
                        let head =
                            format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{headers}");
                        let length = body.len();
                        let out = stream.get_mut();
                        if write!(out, "{head}Content-Length: {length}\r\n\r\n{body}").is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, asked }
    }

    /// The beginning of its URLs.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked until now.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// How many requests have this somewhere.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.asked().iter().filter(|asked| asked.contains(what)).count()
    }

    pub(crate) fn forget(&self) {
        self.asked.lock().unwrap().clear();
    }
}
