//! How a server listens.

use std::net::SocketAddr;

use super::raw::RawServer;
use crate::exit::Failure;
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
        Ok(Self { listen: raw.listen, tls, http: raw.http })
    }
}
