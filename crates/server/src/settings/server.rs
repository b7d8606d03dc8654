//! The section `server`: the listener and its limits.

use std::net::SocketAddr;

use super::raw::RawServer;
use crate::cli::exit::Failure;
use crate::http::{HttpSettings, Tls};

/// The section `server`, resolved.
#[derive(Clone, Debug)]
pub(crate) struct ServerSettings {
    /// Where to listen.
    pub(crate) listen: SocketAddr,
    pub(crate) tls: Option<Tls>,
    pub(crate) http: HttpSettings,
}

impl ServerSettings {
    pub(super) fn resolve(raw: RawServer) -> Result<Self, Failure> {
        let tls = match (raw.tls_certificate, raw.tls_key) {
            (Some(certificate), Some(key)) => Some(Tls { certificate, key }),
            (None, None) => None,
            _ => {
                let why = "server.tls_certificate and server.tls_key belong together";
                return Err(Failure::usage(why));
            }
        };
        let http = HttpSettings { has_tls: tls.is_some(), ..raw.http };
        Ok(Self { listen: raw.listen, tls, http })
    }

    /// Whether other machines can reach the server, as far as its address says.
    pub(crate) fn is_remote(&self) -> bool {
        !self.listen.ip().to_canonical().is_loopback()
    }

    /// Refuses to send keys and results over a network in the clear, unless
    /// somebody said that something in front has TLS.
    pub(crate) fn refuse_plain_text(&self) -> Result<(), Failure> {
        if !self.is_remote() || self.tls.is_some() || self.http.without_tls {
            return Ok(());
        }
        let why = format!(
            "{} can be reached from other machines, and there is no TLS: keys and results would \
             cross the network in the clear",
            self.listen
        );
        Err(Failure::usage(why).hint(
            "use --tls-certificate and --tls-key; or, if something in front has TLS, say \
             --without-tls (server.without_tls: true)",
        ))
    }
}
