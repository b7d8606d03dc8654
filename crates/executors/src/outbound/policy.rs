//! [`OutboundPolicy`]: which addresses outgoing requests may reach, and their limits.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use url::{Host, Url};
use windlass::Secret;

use super::address;

/// The settings of [`Outbound`](super::Outbound). The default allows the public internet
/// and nothing else.
#[derive(Clone, Debug)]
pub struct OutboundPolicy {
    /// Exceptions to the SSRF guard: destinations that may be reached although they are
    /// not public.
    pub allow: Vec<Allowed>,
    /// Networks that must never be reached; takes precedence over `allow`.
    pub deny: Vec<Network>,
    /// A proxy for all requests; proxy variables in the environment are ignored. It is
    /// given the checked address, not the host name.
    pub proxy: Option<Proxy>,
    /// Timeout for DNS lookup, TCP connect and TLS handshake.
    pub connect_timeout: Duration,
    /// Timeout for the first byte of the response, and between chunks of its body.
    pub read_timeout: Duration,
    /// Timeout for the whole request, including redirects and the body.
    pub total_timeout: Duration,
    /// Maximum number of redirects to follow.
    pub max_redirects: usize,
    /// Maximum size of a decoded response body.
    pub max_response_bytes: u64,
    /// Maximum size of the response headers.
    pub max_header_bytes: usize,
    /// Connection pool: idle connections kept for each host.
    pub idle_per_host: usize,
    /// Connection pool: how long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Maximum number of open connections. The default is 20 for each of 10 hosts.
    pub max_connections: usize,
    /// PEM files of CA certificates that are trusted in addition to the system's.
    pub ca_files: Vec<PathBuf>,
    /// The `User-Agent` of requests.
    pub user_agent: String,
}

impl Default for OutboundPolicy {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            proxy: None,
            connect_timeout: Duration::from_secs(3),
            read_timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(300),
            max_redirects: 5,
            max_response_bytes: 10 * 1024 * 1024,
            max_header_bytes: 64 * 1024,
            idle_per_host: 20,
            idle_timeout: Duration::from_secs(30),
            max_connections: 250,
            ca_files: Vec::new(),
            user_agent: concat!("windlass/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl OutboundPolicy {
    /// `Ok` if the policy allows a connection to this address; otherwise the class of the
    /// address. `name` is the host name that resolved to it.
    pub(super) fn judge(
        &self,
        name: Option<&str>,
        address: IpAddr,
        port: u16,
    ) -> Result<(), &'static str> {
        if self.deny.iter().any(|network| network.holds(address)) {
            return Err("an address that the operator has closed");
        }
        let Some(special) = address::special(address) else { return Ok(()) };
        let allowed = self.allow.iter().any(|rule| {
            rule.port.is_none_or(|own| own == port)
                && match &rule.what {
                    What::Network(network) => network.holds(address),
                    What::Name(own) => special.inner && name == Some(own),
                    What::Below(suffix) => {
                        special.inner && name.is_some_and(|name| name.ends_with(suffix.as_str()))
                    }
                }
        });
        if allowed { Ok(()) } else { Err(special.what) }
    }
}

/// A destination exempt from the SSRF guard: a name (`db.internal`, `*.internal`), an
/// address (`127.0.0.1`, `::1`) or a network (`10.0.0.0/8`), either with a port
/// (`localhost:8080`, `[::1]:8080`, `10.0.0.0/8:443`) or with all ports.
///
/// A name allows the loopback, private and carrier-grade NAT addresses that it resolves
/// to. Link-local, metadata and reserved addresses must be allowed by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    what: What,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Network(Network),
    Name(String),
    /// The suffix of a wildcard, with its leading dot.
    Below(String),
}

/// The form that `from_str` reads.
impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.what, self.port) {
            (What::Network(network), Some(_)) if network.is_one_of_six() => {
                write!(f, "[{network}]")?;
            }
            (What::Network(network), _) => write!(f, "{network}")?,
            (What::Name(name), _) => f.write_str(name)?,
            (What::Below(suffix), _) => write!(f, "*{suffix}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(network) = text.parse() {
            return Ok(Self { what: What::Network(network), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (host, Some(port.ok_or_else(|| format!("`{text}` has no valid port"))?))
            }
            None => (text, None),
        };
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(network) = bare.parse() {
            return Ok(Self { what: What::Network(network), port });
        }
        let (name, below) = match host.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (host, false),
        };
        // `*` is only allowed as the first label.
        if name.contains('*') {
            return Err(format!(
                "`{text}` would open nothing: a star stands for what is before a name, as in \
                 `*.internal`; write `0.0.0.0/0` and `::/0` for all addresses"
            ));
        }
        match Host::parse(name) {
            Ok(Host::Domain(name)) => {
                let name = plain_name(&name);
                let what = if below {
                    What::Below(format!(".{name}"))
                } else {
                    What::Name(name.to_owned())
                };
                Ok(Self { what, port })
            }
            // An unusual notation of an address would allow a host other than the one
            // that the reader of the setting expects.
            _ => Err(format!(
                "`{text}` is no host, address or network; write `db.internal`, `*.internal`, \
                 `10.0.0.0/8` or `[::1]:8080`"
            )),
        }
    }
}

/// A network in CIDR notation, such as `10.0.0.0/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u32,
}

impl Network {
    /// Whether it is a single IPv6 address, which needs brackets before a port.
    fn is_one_of_six(&self) -> bool {
        self.first.is_ipv6() && self.bits == 128
    }

    /// Whether the network contains an address.
    pub fn holds(&self, address: IpAddr) -> bool {
        address::holds(self.first, self.bits, address)
    }
}

/// CIDR notation; a single address stands alone.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = if self.first.is_ipv4() { 32 } else { 128 };
        match self.bits == most {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}/{}", self.first, self.bits),
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no network; write `10.0.0.0/8` or `fd00::/8`");
        let (first, bits) = match text.split_once('/') {
            Some((first, bits)) => (first, Some(bits.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let first: IpAddr = first.parse().map_err(|_| wrong())?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { first, bits })
    }
}

/// An HTTP proxy that supports `CONNECT`.
#[derive(Clone)]
pub struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    /// The `Proxy-Authorization` header, from the user and password in the URL.
    pub(super) authorization: Option<Secret>,
}

impl FromStr for Proxy {
    type Err = String;

    /// Reads `http://user:password@proxy.internal:3128`. Errors never quote the text,
    /// which may hold a password.
    fn from_str(text: &str) -> Result<Self, String> {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        use percent_encoding::percent_decode_str;

        let wrong = || "a proxy is written as `http://proxy.internal:3128`".to_owned();
        let url = Url::parse(text).map_err(|_| wrong())?;
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(wrong());
        };
        if url.scheme() != "http" || url.path() != "/" || url.query().is_some() {
            return Err(wrong());
        }
        let authorization = (!url.username().is_empty() || url.password().is_some()).then(|| {
            let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
            pair.push(b':');
            pair.extend(percent_decode_str(url.password().unwrap_or_default()));
            Secret::new(format!("Basic {}", STANDARD.encode(pair)))
        });
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port, authorization })
    }
}

/// Without user and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "http://[{}]:{}", self.host, self.port),
            false => write!(f, "http://{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A host name without its trailing dot.
pub(super) fn plain_name(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(allow: &[&str], name: Option<&str>, address: &str, port: u16) -> bool {
        let allow = allow.iter().map(|rule| rule.parse().unwrap()).collect();
        let policy = OutboundPolicy { allow, ..OutboundPolicy::default() };
        policy.judge(name, address.parse().unwrap(), port).is_ok()
    }

    #[test]
    fn rules_are_shown_as_they_are_written() {
        for text in [
            "db.internal",
            "*.internal:80",
            "10.0.0.0/8",
            "10.0.0.0/8:443",
            "127.0.0.1:80",
            "::1",
            "[::1]:80",
            "fd00::/8",
        ] {
            assert_eq!(text.parse::<Allowed>().unwrap().to_string(), text);
        }
        let proxy: Proxy = "http://ada:hunter2@proxy.internal:3128".parse().unwrap();
        assert_eq!(proxy.to_string(), "http://proxy.internal:3128");
    }

    #[test]
    fn a_rule_opens_what_it_says_and_nothing_else() {
        assert!(judge(&[], Some("example.com"), "93.184.216.34", 443));
        assert!(!judge(&[], Some("example.com"), "10.0.0.1", 443));
        assert!(judge(&["10.0.0.0/8"], Some("example.com"), "10.9.8.7", 443));
        assert!(!judge(&["10.0.0.0/8:80"], None, "10.9.8.7", 443));
        assert!(judge(&["127.0.0.1:8080"], None, "127.0.0.1", 8080));
        assert!(!judge(&["127.0.0.1:8080"], None, "127.0.0.2", 8080));
        assert!(!judge(&["127.0.0.1"], None, "::ffff:127.0.0.1", 80));
        assert!(judge(&["[::1]:80"], None, "::1", 80));
        assert!(judge(&["::1"], None, "::1", 81));
        assert!(judge(&["DB.Internal."], Some("db.internal"), "192.168.1.1", 5432));
        assert!(!judge(&["db.internal"], Some("not-db.internal"), "192.168.1.1", 5432));
        assert!(judge(&["*.internal"], Some("a.b.internal"), "192.168.1.1", 1));
        assert!(!judge(&["*.internal"], Some("evilinternal"), "192.168.1.1", 1));
        assert!(!judge(&["*.internal"], Some("internal"), "192.168.1.1", 1));
        assert!(!judge(&["db.internal"], None, "192.168.1.1", 5432), "a name opens no address");
    }

    #[test]
    fn a_name_does_not_open_the_addresses_of_clouds() {
        for address in ["169.254.169.254", "100.100.100.200", "fd00:ec2::254", "0.0.0.0", "fe80::1"]
        {
            assert!(!judge(&["*.internal"], Some("a.internal"), address, 80), "{address}");
            assert!(judge(&[address], None, address, 80), "{address}");
        }
    }

    #[test]
    fn what_is_closed_stays_closed() {
        let policy = OutboundPolicy {
            allow: vec!["10.0.0.0/8".parse().unwrap()],
            deny: vec!["10.1.0.0/16".parse().unwrap(), "8.8.8.8".parse().unwrap()],
            ..OutboundPolicy::default()
        };
        let judge = |address: &str| policy.judge(None, address.parse().unwrap(), 80);
        assert!(judge("10.2.0.1").is_ok() && judge("8.8.4.4").is_ok());
        assert!(judge("10.1.0.1").is_err() && judge("8.8.8.8").is_err());
    }

    #[test]
    fn rules_that_mean_nothing_are_refused() {
        for rule in ["", "10.0.0.0/33", "host:0", "host:x", "0x7f.1", "::1/129", "a b", "http://a"]
        {
            assert!(rule.parse::<Allowed>().is_err(), "{rule}");
        }
    }

    #[test]
    fn a_proxys_password_is_not_shown() {
        let proxy: Proxy = "http://me:p%40ss@proxy.internal:3128".parse().unwrap();
        assert_eq!(format!("{proxy:?}"), "http://proxy.internal:3128");
        assert_eq!(proxy.authorization.unwrap().expose(), "Basic bWU6cEBzcw==");
        for wrong in ["https://secret@x", "socks5://secret@x", "secret", "http://secret@x/path"] {
            let error = wrong.parse::<Proxy>().unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
