//! Connection watchdog: enforces all timeouts of a connection, against slow-loris
//! clients, stalled readers and idle connections, for HTTP/1.1 and HTTP/2, with and
//! without TLS.
//!
//! | timeout | what is late |
//! |---|---|
//! | header | the first request, including the preface, and the rest of one that has begun |
//! | idle | the next request; pings do not count |
//! | send | a client that does not read its answer, whether the socket or the HTTP/2 window is full |
//! | total | the connection itself |
//!
//! [`WatchedSocket`] reports reads and writes of the socket, [`ResponseBody`] the
//! progress of answers; [`Watchdog`] decides.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use windlass::TenantId;

use super::slots::RequestSlot;

/// How long an idle connection stays open after it was told to close.
/// Whoever asks for something in that time is answered, in place of meeting a
/// closed door.
pub(crate) const LINGER: Duration = Duration::from_millis(250);
/// How much of a body is handed on at once. The rest waits here, where it is
/// seen whether the client takes it.
const PIECE: usize = 64 * 1024;
/// A client that takes less than this in the time it has takes nothing.
const LEAST: usize = 1024;

/// How long a connection may take for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) header: Duration,
    pub(crate) idle: Duration,
    pub(crate) send: Duration,
    pub(crate) total: Duration,
}

impl Timeouts {
    fn shortest(&self) -> Duration {
        self.header.min(self.idle).min(self.send).max(LINGER)
    }
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// It has nothing to do, or is too old: it is told so, and ends when its
    /// requests have.
    Close,
    /// Nothing is to be expected of it.
    Drop,
    /// It takes nothing: what waits in its socket goes with it.
    Cut,
}

/// A connection.
pub(crate) struct Watchdog {
    pub(crate) peer: IpAddr,
    opened: Instant,
    state: Mutex<WatchdogState>,
    /// It was evicted to make room.
    evicted: Notify,
}

struct WatchdogState {
    /// Requests that have come and whose answers have not gone.
    under_way: usize,
    has_asked: bool,
    /// When the last answer had gone; before the first, when it was opened.
    idle_since: Instant,
    /// When the first byte of a request came that is not complete. Only HTTP/1:
    /// in HTTP/2 it may be anything.
    reading_since: Option<Instant>,
    reads_heads: bool,
    /// Bodies that wait for the client, and since when; the oldest first.
    stalled: Vec<(u64, Instant)>,
    next_body: u64,
    /// The socket is full since then, and has taken so much meanwhile.
    blocked: Option<(Instant, usize)>,
    /// When it was asked to close, and its deadline.
    closing: Option<(Instant, Option<Instant>)>,
    is_cut: bool,
    /// The keys whose bearers have used it; the oldest first.
    claims: Vec<KeyClaim>,
}

/// A key whose bearer has used a connection.
#[derive(Clone, Debug)]
pub(crate) struct KeyClaim {
    pub(crate) key: Arc<str>,
    pub(crate) tenant: TenantId,
}

/// How a connection is doing.
pub(crate) struct ConnectionStatus {
    /// Whether it has a request under way.
    pub(crate) is_busy: bool,
    /// Who goes first where somebody has to: whoever never asked anything, then
    /// whoever never showed a key, then whoever has been idle the longest.
    pub(crate) rank: (bool, bool, Instant),
}

impl Watchdog {
    pub(crate) fn new(peer: IpAddr) -> Arc<Self> {
        let now = Instant::now();
        let state = WatchdogState {
            under_way: 0,
            has_asked: false,
            idle_since: now,
            reading_since: None,
            reads_heads: false,
            stalled: Vec::new(),
            next_body: 0,
            blocked: None,
            closing: None,
            is_cut: false,
            claims: Vec::new(),
        };
        Arc::new(Self { peer, opened: now, state: Mutex::new(state), evicted: Notify::new() })
    }

    /// It speaks HTTP/1: what comes between requests is the head of one.
    pub(crate) fn reads_heads(&self) {
        self.state.lock().reads_heads = true;
    }

    /// A request has come. It is under way until what comes back is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> RequestInFlight {
        let mut state = self.state.lock();
        state.under_way += 1;
        state.has_asked = true;
        state.reading_since = None;
        state.next_body += 1;
        RequestInFlight { traffic: Arc::clone(self), body: state.next_body, is_marked: false }
    }

    /// Tells it to end; it has to at `latest`, whatever it does.
    pub(crate) fn close(&self, latest: Option<Instant>) {
        self.state.lock().closing = Some((Instant::now(), latest));
    }

    /// What waits in its socket is thrown away when it ends.
    pub(crate) fn cut(&self) {
        self.state.lock().is_cut = true;
    }

    /// It was evicted to make room.
    pub(crate) fn evict(&self) {
        self.evicted.notify_one();
    }

    pub(crate) fn standing(&self) -> ConnectionStatus {
        let state = self.state.lock();
        ConnectionStatus {
            is_busy: state.under_way > 0,
            rank: (!state.claims.is_empty(), state.has_asked, state.idle_since),
        }
    }

    /// The keys whose bearers have used it.
    pub(crate) fn claims<T>(&self, look: impl FnOnce(&mut Vec<KeyClaim>) -> T) -> T {
        look(&mut self.state.lock().claims)
    }

    /// Ends when the connection is to.
    pub(crate) async fn over(&self, timeouts: Timeouts) -> CloseReason {
        loop {
            let now = Instant::now();
            let (next, is_closing) = {
                let state = self.state.lock();
                match state.judge(now, self.opened, &timeouts) {
                    Ok(next) => (next, state.closing.is_some()),
                    Err(over) => return over,
                }
            };
            // A phase that starts meanwhile has its own timeout, which may be shorter.
            let next = next.min(now + timeouts.shortest() / 2);
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.evicted.notified(), if !is_closing => return CloseReason::Close,
            }
        }
    }
}

impl WatchdogState {
    /// The next time at which something may be late, or what is over.
    fn judge(
        &self,
        now: Instant,
        opened: Instant,
        timeouts: &Timeouts,
    ) -> Result<Instant, CloseReason> {
        let stalled = self.stalled.first().map(|(_, since)| *since);
        let blocked = self.blocked.map(|(since, _)| since);
        let sends = [stalled, blocked].into_iter().flatten();
        let sends = sends.map(|since| (since + timeouts.send, CloseReason::Cut));
        let idle = (self.under_way == 0).then(|| match (self.closing, self.reading_since) {
            (Some((since, _)), _) => (self.idle_since.max(since) + LINGER, CloseReason::Drop),
            (None, _) if !self.has_asked => (opened + timeouts.header, CloseReason::Drop),
            (None, Some(since)) => (since + timeouts.header, CloseReason::Drop),
            (None, None) => (self.idle_since + timeouts.idle, CloseReason::Close),
        });
        let total = match self.closing {
            Some((_, latest)) => latest.map(|latest| (latest, CloseReason::Cut)),
            None => Some((opened + timeouts.total, CloseReason::Close)),
        };
        let all = sends.chain(idle).chain(total);
        match all.min_by_key(|(deadline, _)| *deadline) {
            Some((deadline, over)) if deadline <= now => Err(over),
            Some((deadline, _)) => Ok(deadline),
            None => Ok(now + timeouts.send),
        }
    }

    /// The socket took so much of what there was.
    fn sent(&mut self, taken: usize, all: usize) {
        match &mut self.blocked {
            Some((_, before)) if taken < all && *before + taken < LEAST => *before += taken,
            blocked => *blocked = None,
        }
    }
}

/// A request under way, until its answer has gone.
pub(crate) struct RequestInFlight {
    traffic: Arc<Watchdog>,
    body: u64,
    is_marked: bool,
}

impl RequestInFlight {
    /// The body waits for the client.
    fn given(&mut self) {
        self.is_marked = true;
        self.traffic.state.lock().stalled.push((self.body, Instant::now()));
    }

    /// The client took what it was given.
    fn taken(&mut self) {
        if std::mem::take(&mut self.is_marked) {
            self.traffic.state.lock().forget(self.body);
        }
    }
}

impl WatchdogState {
    fn forget(&mut self, body: u64) {
        self.stalled.retain(|(own, _)| *own != body);
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        let mut state = self.traffic.state.lock();
        if self.is_marked {
            state.forget(self.body);
        }
        state.under_way -= 1;
        state.idle_since = Instant::now();
    }
}

/// The body of an answer on its way.
pub(crate) struct ResponseBody {
    body: Body,
    /// What was cut off a part that was too large to hand on at once.
    rest: Bytes,
    exchange: RequestInFlight,
    /// The slot of a running stream.
    _slot: Option<Arc<RequestSlot>>,
}

impl ResponseBody {
    pub(crate) fn new(
        body: Body,
        mut exchange: RequestInFlight,
        slot: Option<Arc<RequestSlot>>,
    ) -> Self {
        if !body.is_end_stream() {
            exchange.given();
        }
        Self { body, rest: Bytes::new(), exchange, _slot: slot }
    }

    fn hand_on(&mut self, mut data: Bytes) -> Frame<Bytes> {
        if data.len() > PIECE {
            self.rest = data.split_off(PIECE);
        }
        // Also for the last chunk: the body is dropped once it was sent.
        self.exchange.given();
        Frame::data(data)
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.exchange.taken();
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(self.hand_on(rest))));
        }
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| match frame?.into_data() {
            Ok(data) => Ok(self.hand_on(data)),
            Err(other) => Ok(other),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, more) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + more);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + more);
        }
        hint
    }
}

/// The socket of a connection.
pub(crate) struct WatchedSocket {
    stream: TcpStream,
    traffic: Arc<Watchdog>,
}

impl WatchedSocket {
    pub(crate) fn new(stream: TcpStream, traffic: Arc<Watchdog>) -> Self {
        Self { stream, traffic }
    }

    fn sent(&self, result: &Poll<io::Result<usize>>, all: usize) {
        let mut state = self.traffic.state.lock();
        match result {
            Poll::Ready(Ok(taken)) if state.blocked.is_some() => state.sent(*taken, all),
            Poll::Pending if state.blocked.is_none() => {
                state.blocked = Some((Instant::now(), 0));
            }
            _ => {}
        }
    }
}

impl Drop for WatchedSocket {
    fn drop(&mut self) {
        if self.traffic.state.lock().is_cut {
            // Resets the connection; the kernel would keep unread data for minutes.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for WatchedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            let mut state = self.traffic.state.lock();
            if state.reads_heads && state.under_way == 0 && state.reading_since.is_none() {
                state.reading_since = Some(Instant::now());
            }
        }
        read
    }
}

impl AsyncWrite for WatchedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.sent(&result, buf.len());
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.sent(&result, bufs.iter().map(|buf| buf.len()).sum());
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
