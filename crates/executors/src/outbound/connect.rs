//! Opens connections. This is the only place where a host name becomes an address: the
//! address is checked, and the connection goes to that same address, so DNS rebinding
//! gains nothing. Literal addresses take the same path.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use http::Uri;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tower_service::Service;
use windlass::{BoxFuture, Error, ErrorKind};

use super::places::{self, Places, Whose};
use super::policy::{OutboundPolicy, Proxy, plain_name};
use super::wire::{Stream, Wire};
use super::{target, tls, tunnel};

/// Maximum concurrent DNS lookups; the system resolver blocks a thread for each.
const MAX_LOOKUPS: usize = 32;
/// Lookups of this process, whoever's client asks.
static LOOKUPS: LazyLock<Arc<Places>> = LazyLock::new(|| Places::new(MAX_LOOKUPS));

/// Resolves a host name to its addresses.
pub type Lookup =
    Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync + 'static>;

/// Connector for the HTTP client, and for clients of other protocols.
#[derive(Clone)]
pub(super) struct Connector(Arc<ConnectorState>);

struct ConnectorState {
    policy: Arc<OutboundPolicy>,
    lookup: Lookup,
    places: Arc<Places>,
    tls: OnceCell<TlsConnector>,
}

impl Connector {
    pub(super) fn new(policy: Arc<OutboundPolicy>, lookup: Lookup) -> Self {
        let places = Places::new(policy.max_connections);
        Self(Arc::new(ConnectorState { policy, lookup, places, tls: OnceCell::new() }))
    }

    /// One with another policy that shares places and lookups with this one.
    pub(super) fn beside(&self, policy: Arc<OutboundPolicy>) -> Self {
        let ConnectorState { lookup, places, .. } = &*self.0;
        let (lookup, places) = (Arc::clone(lookup), Arc::clone(places));
        Self(Arc::new(ConnectorState { policy, lookup, places, tls: OnceCell::new() }))
    }

    /// Connects to a host over TCP, using only addresses that the policy allows.
    pub(super) async fn tcp(&self, host: &str, port: u16) -> Result<TcpStream, Error> {
        let until = Instant::now() + self.0.policy.connect_timeout;
        let reached = timeout_at(until, self.reach(host, port, until)).await;
        reached.unwrap_or_else(|_| Err(self.too_slow(host, port)))
    }

    async fn open(self, uri: Uri, whose: Whose) -> Result<Wire, Error> {
        let secure = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let until = Instant::now() + self.0.policy.connect_timeout;
        let opened = timeout_at(until, async {
            let place = self.0.places.take(&whose).await;
            let tcp = self.reach(host, port, until).await?;
            let stream: Box<dyn Stream> = match secure {
                true => Box::new(self.greet(host, tcp).await?),
                false => Box::new(tcp),
            };
            Ok(Wire::new(stream, place))
        });
        opened.await.unwrap_or_else(|_| Err(self.too_slow(host, port)))
    }

    async fn reach(&self, host: &str, port: u16, until: Instant) -> Result<TcpStream, Error> {
        let open = self.addresses(host, port).await?;
        match &self.0.policy.proxy {
            Some(proxy) => self.through(proxy, SocketAddr::new(open[0], port)).await,
            None => dial(&open, host, port, until).await,
        }
    }

    /// The addresses of a host that the policy allows; at least one.
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

    /// Connects through a proxy. It is given the checked address instead of the host
    /// name, because its own DNS lookup could have another result.
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
        let whose = places::whose();
        // Another task may go on with it, if a connection is free before.
        Box::pin(places::as_work_of(whose.clone(), self.clone().open(uri, whose)))
    }
}

/// Tries the addresses one after the other; each gets a share of the connect timeout.
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
                // Requests are small, so Nagle's algorithm only adds latency.
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

/// Lookup by the system's DNS resolver.
pub(super) fn system_lookup() -> Lookup {
    off_thread(|name| (name, 0).to_socket_addrs())
}

/// Asks somebody who takes a thread.
fn off_thread<F, A>(ask: F) -> Lookup
where
    F: Fn(&str) -> io::Result<A> + Send + Sync + Clone + 'static,
    A: Iterator<Item = SocketAddr>,
{
    Arc::new(move |name| {
        let ask = ask.clone();
        let whose = places::whose();
        Box::pin(async move {
            // It is used from the beginning: nobody may take it away.
            let thread = LOOKUPS.take(&whose).await.in_use();
            let found = tokio::task::spawn_blocking(move || {
                let found = ask(&name);
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use windlass::TenantId;

    use super::*;
    use crate::outbound::on_behalf;

    #[tokio::test(flavor = "multi_thread")]
    async fn names_that_nobody_answers_for_hold_up_their_own_tenant_alone() {
        let answers = Arc::new(AtomicBool::new(false));
        let may_answer = Arc::clone(&answers);
        let lookup = off_thread(move |name: &str| {
            while name.starts_with("slow") && !may_answer.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(["192.0.2.1:0".parse().map_err(io::Error::other)?].into_iter())
        });
        let [noisy, quiet] = ["noisy", "quiet"].map(TenantId::new);
        let mut flood = tokio::task::JoinSet::new();
        for number in 0..2 * MAX_LOOKUPS {
            let (lookup, noisy) = (Arc::clone(&lookup), noisy.clone());
            let name = format!("slow-{number}.example");
            flood.spawn(async move { on_behalf(Some(&noisy), lookup(name)).await });
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        for _ in 0..3 {
            let found = on_behalf(Some(&quiet), async { lookup("fine.example".to_owned()).await });
            let found = timeout(Duration::from_secs(3), found).await;
            assert_eq!(found.unwrap().unwrap().len(), 1);
        }
        answers.store(true, Ordering::Relaxed);
        for found in flood.join_all().await {
            assert_eq!(found.unwrap().len(), 1);
        }
    }
}
