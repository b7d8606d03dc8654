//! Client with keep-alive connections, cheap enough to measure the server and not itself.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::answer::Answer;

/// One connection.
pub(crate) struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::with_capacity(4096) })
    }

    /// Sends a request and waits for the response.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.read.clear();
        self.stream.write_all(request).await?;
        loop {
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(answer) = Answer::read(&self.read) {
                return Ok(answer);
            }
        }
    }

    /// The body of a response.
    pub(crate) fn body(&self, answer: Answer) -> &[u8] {
        &self.read[answer.body..answer.end]
    }

    /// Reads a stream to its end, as a subscriber does. Returns the number of bytes.
    pub(crate) async fn read_on(mut self) -> usize {
        let mut all = 0;
        loop {
            self.read.clear();
            match self.stream.read_buf(&mut self.read).await {
                Ok(0) | Err(_) => return all,
                Ok(count) => all += count,
            }
        }
    }
}

/// The result of a load test.
pub(crate) struct Load {
    /// Response times, sorted.
    times: Vec<Duration>,
    took: Duration,
}

impl Load {
    pub(crate) fn new(mut times: Vec<Duration>, took: Duration) -> Self {
        times.sort_unstable();
        Self { times, took }
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.times.len() as f64 / self.took.as_secs_f64()
    }

    /// The 99th percentile of the response times, in milliseconds.
    pub(crate) fn p99(&self) -> f64 {
        let at = (self.times.len() * 99 / 100).min(self.times.len().saturating_sub(1));
        self.times.get(at).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

/// Closed loop: each connection sends its next request after the response. Every response
/// must be a success.
pub(crate) async fn closed_loop(
    address: SocketAddr,
    request: &[u8],
    connections: usize,
    time: Duration,
) -> anyhow::Result<Load> {
    let request: Rc<[u8]> = request.into();
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(address).await?);
    }
    LocalSet::new()
        .run_until(async {
            let began = Instant::now();
            let askers: Vec<_> = open
                .into_iter()
                .map(|mut connection| {
                    let request = Rc::clone(&request);
                    tokio::task::spawn_local(async move {
                        let mut times = Vec::with_capacity(4096);
                        let mut last = Instant::now();
                        while last - began < time {
                            let answer = connection.ask(&request).await?;
                            anyhow::ensure!(
                                answer.status == 200,
                                "{}",
                                String::from_utf8_lossy(connection.body(answer))
                            );
                            let now = Instant::now();
                            times.push(now - last);
                            last = now;
                        }
                        Ok(times)
                    })
                })
                .collect();
            let mut times = Vec::new();
            for asker in askers {
                times.extend(asker.await??);
            }
            Ok(Load::new(times, began.elapsed()))
        })
        .await
}
