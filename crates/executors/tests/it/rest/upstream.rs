//! A service on loopback that records its requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came over the wire.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// What is answered.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("Content-Type", content_type.to_owned())];
        Self { status, headers, body: body.into() }
    }

    pub(crate) fn json(body: &serde_json::Value) -> Self {
        Self::new(200, "application/json", body.to_string())
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

type Answer = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

pub(crate) struct TestUpstream {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<Mutex<usize>>,
}

impl TestUpstream {
    pub(crate) async fn start(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (seen, connections) =
            (Arc::<Mutex<Vec<Seen>>>::default(), Arc::<Mutex<usize>>::default());
        let (kept, counted, answer) =
            (Arc::clone(&seen), Arc::clone(&connections), Arc::new(answer) as Answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *counted.lock().unwrap() += 1;
                tokio::spawn(serve(stream, Arc::clone(&kept), Arc::clone(&answer)));
            }
        });
        Self { url, seen, connections }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn last(&self) -> Seen {
        self.seen().pop().expect("nothing was asked")
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

async fn serve(mut stream: TcpStream, kept: Arc<Mutex<Vec<Seen>>>, answer: Answer) -> Option<()> {
    let mut buffer = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            let mut chunk = [0; 8192];
            match stream.read(&mut chunk).await.ok()? {
                0 => return None,
                read => buffer.extend_from_slice(&chunk[..read]),
            }
        };
        let text = String::from_utf8_lossy(&buffer[..head]).into_owned();
        let mut lines = text.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let mut seen =
            Seen { method: first.next()?.into(), target: first.next()?.into(), ..Seen::default() };
        for line in lines {
            let (name, value) = line.split_once(':')?;
            seen.headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length: usize = seen.header("content-length").parse().unwrap_or(0);
        while buffer.len() < head + 4 + length {
            let mut chunk = [0; 8192];
            let read = stream.read(&mut chunk).await.ok()?;
            buffer.extend_from_slice(&chunk[..read]);
        }
        seen.body = buffer[head + 4..head + 4 + length].to_vec();
        buffer.drain(..head + 4 + length);
        let reply = answer(&seen);
        kept.lock().unwrap().push(seen);
        let mut head =
            format!("HTTP/1.1 {} X\r\nContent-Length: {}\r\n", reply.status, reply.body.len());
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.ok()?;
        stream.write_all(&reply.body).await.ok()?;
    }
}
