//! Database URLs: `postgres://user:password@host:port/database`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use windlass::{Error, ErrorKind};

/// The directory of sockets for `postgres:///database`.
const SOCKETS: &str = "/var/run/postgresql";

/// TCP timeout after which the server counts as gone.
const SILENCE: Duration = Duration::from_secs(5);

/// A checked database URL. Displays without the password.
///
/// With `?sslmode=require` (or `verify-full`) the connection uses TLS, and the server's
/// certificate must be valid for its name; `SSL_CERT_FILE` names a file with additional
/// CA certificates. Without it, connections are not encrypted.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    config: Config,
    place: String,
}

impl PostgresUrl {
    /// Servers and database: `host:port/database`.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Whether connections use TLS.
    pub(crate) fn wants_tls(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Require
    }
}

impl FromStr for PostgresUrl {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        // The driver's message may quote a part of a password that was not
        // percent-encoded, so it is not repeated.
        let refused = || {
            Error::new(
                ErrorKind::InvalidArguments,
                "the URL of the database is not understood; write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters of the password percent-encoded (`@` is %40, `/` is %2F, `?` is %3F), and options such as ?sslmode=require at the end",
            )
        };
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(refused());
        }
        // The driver would take the first `@` for the end of the password, and the rest
        // of it for the host.
        if url.matches('@').count() > 1 {
            return Err(refused());
        }
        let mut config: Config = verified_modes(url).parse().map_err(|_| refused())?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            if std::path::Path::new(SOCKETS).is_dir() {
                config.host(SOCKETS);
            } else {
                config.host("localhost");
            }
        }
        if config.get_application_name().is_none() {
            config.application_name("windlass");
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        config.keepalives_idle(SILENCE).keepalives_interval(SILENCE).keepalives_retries(2);
        let place = place(&config);
        Ok(Self { config, place })
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}", self.place)
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The driver only knows `require`, for which we verify the certificate, as the stricter
/// modes of other programs do.
fn verified_modes(url: &str) -> String {
    match url.split_once('?') {
        Some((address, options)) => {
            let options = options
                .replace("sslmode=verify-full", "sslmode=require")
                .replace("sslmode=verify-ca", "sslmode=require");
            format!("{address}?{options}")
        }
        None => url.to_owned(),
    }
}

fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |index: usize| {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        if port == 5432 { String::new() } else { format!(":{port}") }
    };
    let mut servers: Vec<String> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(index, host)| match host {
            Host::Tcp(name) => format!("{name}{}", port(index)),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}{}", path.display(), port(index)),
        })
        .collect();
    if servers.is_empty() {
        let addresses = config.get_hostaddrs().iter().enumerate();
        servers.extend(addresses.map(|(index, address)| format!("{address}{}", port(index))));
    }
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("{}/{database}", servers.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for url in [
            "postgres://ada:hunter2@db.example/records",
            "postgresql://ada:hunter2@db.example:5432/records?sslmode=require",
            "postgres://db.example/records?user=ada&password=hunter2",
            "postgres://ada:p?hunter2/@db.example/records",
        ] {
            let url: PostgresUrl = url.parse().unwrap();
            assert_eq!(format!("{url} {url:?}"), "postgres://db.example/records ".repeat(2).trim());
        }
        for url in [
            "postgres://ada:p@hunter2@db.example/records",
            "postgres://ada:p@hunter2/x@db.example/records",
            "postgres://ada@db.example/records?hunter2=1",
            "postgres://ada:hunter2@db.example:many/records",
            "mysql://ada:hunter2@db.example/records",
        ] {
            let error = url.parse::<PostgresUrl>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn places_name_every_server() {
        for (url, wanted) in [
            ("postgres://a@h:6000/d", "h:6000/d"),
            ("postgres://a@h1:1,h2:2/d?target_session_attrs=read-write", "h1:1,h2:2/d"),
            ("postgres://ada@h", "h/ada"),
            ("postgres://a@%2Ftmp%2Fsockets/d", "/tmp/sockets/d"),
        ] {
            assert_eq!(url.parse::<PostgresUrl>().unwrap().place(), wanted);
        }
    }

    #[test]
    fn stricter_modes_are_what_require_does() {
        for mode in ["require", "verify-full", "verify-ca"] {
            let url = format!("postgres://a@h/d?sslmode={mode}");
            assert!(url.parse::<PostgresUrl>().unwrap().wants_tls(), "{mode}");
        }
        assert!(!"postgres://a@h/d".parse::<PostgresUrl>().unwrap().wants_tls());
    }
}
