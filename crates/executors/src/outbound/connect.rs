//! Opens connections. This is the one place where a name becomes an address:
//! the address is judged, and then that very address is connected to. Literal
//! addresses take the same way.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tower_service::Service;
use windlass::{BoxFuture, Error, ErrorKind};

use super::policy::{OutboundPolicy, Proxy, plain_name};
use super::wire::{Stream, Wire};
use super::{target, tls, tunnel};

/// How many names are looked up at once; the system's resolver takes a thread
/// for each.
const MAX_LOOKUPS: usize = 32;

/// Finds the addresses of a name.
pub type Lookup =
    Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync + 'static>;

/// Makes connections for the client, and for whoever speaks another protocol.
#[derive(Clone)]
pub(super) struct Connector(Arc<ConnectorState>);

struct ConnectorState {
    policy: Arc<OutboundPolicy>,
    lookup: Lookup,
    places: Arc<Semaphore>,
    tls: OnceCell<TlsConnector>,
}

impl Connector {
    pub(super) fn new(policy: Arc<OutboundPolicy>, lookup: Lookup) -> Self {
        let places = Arc::new(Semaphore::new(policy.max_connections));
        Self(Arc::new(ConnectorState { policy, lookup, places, tls: OnceCell::new() }))
    }

    /// A connection to a host, once one of its addresses has been found fine.
    pub(super) async fn tcp(&self, host: &str, port: u16) -> Result<TcpStream, Error> {
        let until = Instant::now() + self.0.policy.connect_timeout;
        let reached = timeout_at(until, self.reach(host, port, until)).await;
        reached.unwrap_or_else(|_| Err(self.too_slow(host, port)))
    }

    async fn open(self, uri: Uri) -> Result<Wire, Error> {
        let secure = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let until = Instant::now() + self.0.policy.connect_timeout;
        let opened = timeout_at(until, async {
            let place = self.place().await?;
            let tcp = self.reach(host, port, until).await?;
            let stream: Box<dyn Stream> = match secure {
                true => Box::new(self.greet(host, tcp).await?),
                false => Box::new(tcp),
            };
            Ok(Wire::new(stream, place))
        });
        opened.await.unwrap_or_else(|_| Err(self.too_slow(host, port)))
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit, Error> {
        let place = Arc::clone(&self.0.places).acquire_owned().await;
        place.map_err(|_| Error::new(ErrorKind::Internal, "the outgoing client has ended"))
    }

    async fn reach(&self, host: &str, port: u16, until: Instant) -> Result<TcpStream, Error> {
        let open = self.addresses(host, port).await?;
        match &self.0.policy.proxy {
            Some(proxy) => self.through(proxy, SocketAddr::new(open[0], port)).await,
            None => dial(&open, host, port, until).await,
        }
    }

    /// The addresses of a host that may be connected to; at least one.
    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<IpAddr>, Error> {
        let (name, mut found) = match host.parse::<IpAddr>() {
            Ok(address) => (None, vec![address]),
            Err(_) => {
                let name = plain_name(host);
                (Some(name), self.find(name).await?)
            }
        };
        let mut what = None;
        found.retain(|address| match self.0.policy.judge(name, *address, port) {
            Ok(()) => true,
            Err(special) => {
                what = Some(special);
                false
            }
        });
        match what {
            _ if !found.is_empty() => Ok(found),
            Some(what) => Err(target::refused(host, what)),
            None => Err(unreachable(format!("the name {host} has no address"))),
        }
    }

    async fn find(&self, name: &str) -> Result<Vec<IpAddr>, Error> {
        (self.0.lookup)(name.to_owned()).await.map_err(|cause| {
            unreachable(format!("the name {name} cannot be resolved")).with_source(cause)
        })
    }

    /// The proxy gets the address that was checked; what it would make of the
    /// name nobody here can know.
    async fn through(&self, proxy: &Proxy, to: SocketAddr) -> Result<TcpStream, Error> {
        let stream = TcpStream::connect((proxy.host.as_str(), proxy.port)).await;
        let mut stream = stream
            .map_err(|cause| unreachable("the proxy cannot be reached").with_source(cause))?;
        tunnel::ask(&mut stream, to, proxy.authorization.as_ref()).await?;
        Ok(stream)
    }

    async fn greet(&self, host: &str, tcp: TcpStream) -> Result<impl Stream + use<>, Error> {
        let connector =
            self.0.tls.get_or_try_init(|| tls::connector(&self.0.policy.ca_files)).await?;
        let name = ServerName::try_from(plain_name(host).to_owned())
            .map_err(|_| target::invalid(format!("`{host}` is no name that a certificate has")))?;
        connector.connect(name, tcp).await.map_err(|cause| {
            unreachable(format!("no secure connection to {host}: {cause}")).with_source(cause)
        })
    }

    fn too_slow(&self, host: &str, port: u16) -> Error {
        let limit = windlass::duration::format(self.0.policy.connect_timeout);
        Error::new(
            ErrorKind::Timeout,
            format!("connecting to {host}:{port} took more than {limit}"),
        )
        .nothing_done()
    }
}

impl Service<Uri> for Connector {
    type Response = Wire;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Wire, Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().open(uri))
    }
}

/// Tries the addresses one after the other; each gets its share of the time.
async fn dial(
    addresses: &[IpAddr],
    host: &str,
    port: u16,
    until: Instant,
) -> Result<TcpStream, Error> {
    let mut last = None;
    for (tried, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = until.saturating_duration_since(Instant::now()) / left;
        match timeout(share, TcpStream::connect((*address, port))).await {
            Ok(Ok(stream)) => {
                // Requests are small; waiting to fill a packet only costs.
                drop(stream.set_nodelay(true));
                return Ok(stream);
            }
            Ok(Err(cause)) => last = Some(cause),
            Err(_) => last = Some(io::ErrorKind::TimedOut.into()),
        }
    }
    let cause = last.unwrap_or_else(|| io::ErrorKind::NotFound.into());
    if cause.kind() == io::ErrorKind::TimedOut {
        let why = format!("connecting to {host}:{port} took too long");
        return Err(Error::new(ErrorKind::Timeout, why).nothing_done());
    }
    Err(unreachable(format!("{host}:{port} cannot be reached: {cause}")).with_source(cause))
}

/// Asks the system.
pub(super) fn system_lookup() -> Lookup {
    let threads = Arc::new(Semaphore::new(MAX_LOOKUPS));
    Arc::new(move |name| {
        let threads = Arc::clone(&threads);
        Box::pin(async move {
            let thread = threads.acquire_owned().await.map_err(io::Error::other)?;
            let found = tokio::task::spawn_blocking(move || {
                let found = (name.as_str(), 0).to_socket_addrs();
                // A lookup that nobody waits for any more still has its thread.
                drop(thread);
                found.map(|found| found.map(|address| address.ip()).collect())
            });
            found.await.map_err(io::Error::other)?
        })
    })
}

fn unreachable(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Network, message).nothing_done()
}
