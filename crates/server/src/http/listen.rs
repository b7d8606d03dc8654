//! Takes connections: HTTP/1.1 and HTTP/2, with or without TLS, until the
//! server is to end.
//!
//! Which of the two a client speaks is found out before anything is read: what
//! was read and has to be read again would cost every connection a second,
//! larger buffer.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
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
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::service_fn;

use super::front::Front;

/// How long connections stay open when the server is to end. Whoever asks for
/// something in that time is told so, in place of meeting a closed door.
const LINGER: Duration = Duration::from_millis(250);
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
pub(crate) struct Listener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    pub(crate) async fn bind(address: SocketAddr, tls: Option<TlsAcceptor>) -> io::Result<Self> {
        Ok(Self { socket: TcpListener::bind(address).await?, tls })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop`, then lets the requests that are under way end.
    pub(crate) async fn serve(self, front: Front, stop: CancellationToken, open: TaskTracker) {
        let Self { socket, tls } = self;
        // What is more waits where the system keeps it, and costs us nothing.
        let places =
            Arc::new(Semaphore::new(front.max_connections().clamp(1, Semaphore::MAX_PERMITS)));
        let front = Arc::new(front);
        loop {
            let next = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (place, socket.accept().await)
            };
            let (place, accepted) = tokio::select! {
                next = next => next,
                () = stop.cancelled() => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Too many open files, mostly: others have to end first.
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let (front, tls, stop) = (Arc::clone(&front), tls.clone(), stop.clone());
            open.spawn(async move {
                let _place = place;
                welcome(stream, tls, front, stop).await;
            });
        }
    }
}

async fn welcome(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    front: Arc<Front>,
    stop: CancellationToken,
) {
    // Answers are small and wanted at once.
    let _ = stream.set_nodelay(true);
    match tls {
        None => {
            let version = tokio::select! {
                version = timeout(front.header_timeout(), spoken(&stream)) => version,
                // Whoever has said nothing yet is waited for no longer than others.
                () = ending(&stop) => return,
            };
            if let Ok(Ok(version)) = version {
                converse(stream, version, front, stop).await;
            }
        }
        // Kept apart: what TLS needs is more than all the rest.
        Some(tls) => Box::pin(converse_safely(stream, tls, front, stop)).await,
    }
}

async fn converse_safely(
    stream: TcpStream,
    tls: TlsAcceptor,
    front: Arc<Front>,
    stop: CancellationToken,
) {
    match timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let version = match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => Version::Two,
                _ => Version::One,
            };
            converse(stream, version, front, stop).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a client did not agree on keys"),
        Err(_) => tracing::debug!("a client took too long to agree on keys"),
    }
}

/// Ends shortly after the server is told to.
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

async fn converse<S>(stream: S, version: Version, front: Arc<Front>, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let builder = Builder::new(TokioExecutor::new());
    let mut builder = match version {
        Version::One => builder.http1_only(),
        Version::Two => builder.http2_only(),
    };
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(front.header_timeout())
        .max_buf_size(64 * 1024)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(256)
        .keep_alive_interval(Duration::from_secs(30));
    let service = service_fn(move |request: Request<_>| {
        let front = Arc::clone(&front);
        async move { Ok::<_, Infallible>(front.answer(request).await) }
    });
    let connection =
        builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = ending(&stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "a connection broke off");
    }
}
