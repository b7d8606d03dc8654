//! Accepts connections: HTTP/1.1 and HTTP/2, with or without TLS, until shutdown.
//!
//! The protocol version is detected by peeking at the socket before anything is
//! read: bytes that are read and replayed would cost every connection a second,
//! larger buffer.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::service_fn;

use super::Ingress;
use super::connections::{ConnectionPermit, Connections, NoCapacity};
use super::failed_keys::PEER;
use super::watchdog::{CloseReason, LINGER, WatchedSocket};

/// How long a client may take to agree on keys.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait after the system could not give us a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// What HTTP/2 begins with, and no request of HTTP/1.
const PREFACE: &[u8] = b"PRI ";
/// How long to wait for the rest of it.
const MORE: Duration = Duration::from_millis(5);

/// The files of a certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Tls {
    /// Reads both files, and finds out whether they belong together.
    pub(crate) fn acceptor(&self) -> io::Result<TlsAcceptor> {
        let bad = |path: &PathBuf, why: &dyn std::fmt::Display| {
            io::Error::other(format!("{}: {why}", path.display()))
        };
        let certificates = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| bad(&self.certificate, &error))?;
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| bad(&self.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(|error| bad(&self.certificate, &error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// A socket that takes connections.
pub(crate) struct HttpListener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl HttpListener {
    pub(crate) async fn bind(address: SocketAddr, tls: Option<TlsAcceptor>) -> io::Result<Self> {
        Ok(Self::of(TcpListener::bind(address).await?, tls))
    }

    /// One that somebody has bound.
    pub(crate) fn of(socket: TcpListener, tls: Option<TlsAcceptor>) -> Self {
        Self { socket, tls }
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop`, then lets the requests that are under way end.
    pub(crate) async fn serve(self, front: Ingress, stop: CancellationToken, open: TaskTracker) {
        let Self { socket, tls } = self;
        let (connections, front) = (front.connections(), Arc::new(front));
        loop {
            let next = async {
                let (stream, peer) = socket.accept().await?;
                Ok(enter(stream, &connections, peer.ip(), &front).await)
            };
            let accepted: io::Result<_> = tokio::select! {
                next = next => next,
                () = stop.cancelled() => break,
            };
            let (stream, place) = match accepted {
                Ok(Some(entered)) => entered,
                Ok(None) => continue,
                Err(error) => {
                    // Mostly EMFILE (too many open files): wait until other connections
                    // have ended.
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let (front, tls, stop) = (Arc::clone(&front), tls.clone(), stop.clone());
            open.spawn(welcome(
                stream,
                tls,
                ConnectionContext { front, place: Arc::new(place), stop },
            ));
        }
    }
}

/// A place for a connection, as soon as there is one; none where its address has
/// too many. While one waits, the next wait where the system keeps them.
async fn enter(
    stream: TcpStream,
    connections: &Arc<Connections>,
    peer: IpAddr,
    front: &Ingress,
) -> Option<(TcpStream, ConnectionPermit)> {
    loop {
        match connections.enter(peer) {
            Ok(place) => return Some((stream, place)),
            Err(NoCapacity::Full) => connections.left().await,
            Err(NoCapacity::Refused) => {
                front.count_cut();
                tracing::debug!(%peer, "an address has too many connections");
                let _ = stream.set_zero_linger();
                return None;
            }
        }
    }
}

/// What a connection needs while it is open.
struct ConnectionContext {
    front: Arc<Ingress>,
    place: Arc<ConnectionPermit>,
    stop: CancellationToken,
}

async fn welcome(stream: TcpStream, tls: Option<TlsAcceptor>, visit: ConnectionContext) {
    // TCP_NODELAY: responses are small and latency matters.
    let _ = stream.set_nodelay(true);
    match tls {
        None => {
            let version = tokio::select! {
                version = spoken(&stream) => version,
                _ = visit.place.traffic.over(visit.front.timeouts()) => return,
                // The header timeout also covers a client that has sent nothing yet.
                () = ending(&visit.stop) => return,
            };
            if let Ok(version) = version {
                let wire = WatchedSocket::new(stream, Arc::clone(&visit.place.traffic));
                converse(wire, version, visit).await;
            }
        }
        // Boxed: the TLS state is larger than everything else.
        Some(tls) => Box::pin(converse_safely(stream, tls, visit)).await,
    }
}

async fn converse_safely(stream: TcpStream, tls: TlsAcceptor, visit: ConnectionContext) {
    let wire = WatchedSocket::new(stream, Arc::clone(&visit.place.traffic));
    let accepted = tokio::select! {
        accepted = timeout(HANDSHAKE, tls.accept(wire)) => accepted,
        _ = visit.place.traffic.over(visit.front.timeouts()) => return,
    };
    match accepted {
        Ok(Ok(stream)) => {
            let version = match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => Version::Two,
                _ => Version::One,
            };
            converse(stream, version, visit).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a client did not agree on keys"),
        Err(_) => tracing::debug!("a client took too long to agree on keys"),
    }
}

/// Ends shortly after shutdown begins.
async fn ending(stop: &CancellationToken) {
    stop.cancelled().await;
    sleep(LINGER).await;
}

/// What a client speaks.
#[derive(Clone, Copy)]
enum Version {
    One,
    Two,
}

/// Looks at how a connection begins, and leaves it unread.
async fn spoken(stream: &TcpStream) -> io::Result<Version> {
    let mut begin = [0; PREFACE.len()];
    loop {
        let count = stream.peek(&mut begin).await?;
        match &begin[..count] {
            begin if begin == PREFACE => return Ok(Version::Two),
            [] => return Ok(Version::One),
            begin if PREFACE.starts_with(begin) => sleep(MORE).await,
            _ => return Ok(Version::One),
        }
    }
}

async fn converse<S>(stream: S, version: Version, visit: ConnectionContext)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let ConnectionContext { front, place, stop } = visit;
    let (timeouts, traffic) = (front.timeouts(), Arc::clone(&place.traffic));
    let builder = Builder::new(TokioExecutor::new());
    let mut builder = match version {
        Version::One => {
            traffic.reads_heads();
            builder.http1_only()
        }
        Version::Two => builder.http2_only(),
    };
    builder
        .http1()
        .timer(TokioTimer::new())
        // The watchdog applies the same timeout, and tells idle clients from slow ones.
        .header_read_timeout(None)
        .max_buf_size(64 * 1024)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(256)
        .keep_alive_interval(Duration::from_secs(30));
    let own = Arc::clone(&front);
    let service = service_fn(move |request: Request<_>| {
        let (front, place) = (Arc::clone(&own), Arc::clone(&place));
        let client = place.client(request.headers());
        PEER.scope(client, async move { Ok::<_, Infallible>(front.answer(request, &place).await) })
    });
    let connection =
        builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let mut ending = std::pin::pin!(ending(&stop));
    let mut is_closing = false;
    loop {
        let over = tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection broke off");
                }
                return;
            }
            // Requests in flight get the drain period.
            () = ending.as_mut(), if !is_closing => None,
            over = traffic.over(timeouts) => Some(over),
        };
        match over {
            None | Some(CloseReason::Close) => {
                is_closing = true;
                let latest = over.map(|_| Instant::now() + timeouts.send);
                traffic.close(latest);
                connection.as_mut().graceful_shutdown();
            }
            Some(CloseReason::Drop) => return,
            Some(CloseReason::Cut) => {
                front.count_cut();
                traffic.cut();
                return tracing::debug!("a client that takes nothing is cut off");
            }
        }
    }
}
