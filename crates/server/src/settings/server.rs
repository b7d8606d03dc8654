//! How a server listens.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::variable;
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

/// The section `server`, read.
#[derive(Debug, Default)]
pub(super) struct ServerFile {
    pub(super) listen: Option<SocketAddr>,
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<String>,
    pub(super) tls_certificate: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
    pub(super) max_body_bytes: Option<usize>,
    pub(super) max_requests: Option<usize>,
    pub(super) drain: Option<Duration>,
    pub(super) approvals_expire: Option<Duration>,
}

impl ServerSettings {
    /// The environment wins over the file, the file over the default.
    pub(super) fn resolve(file: ServerFile, base: &Path) -> Result<Self, Failure> {
        let defaults = HttpSettings::default();
        let from_environment = variable("WINDLASS_LISTEN").map(|text| {
            text.parse().map_err(|_| {
                Failure::usage(format!("WINDLASS_LISTEN={text}: an address such as 127.0.0.1:7700"))
            })
        });
        let tls = match (file.tls_certificate, file.tls_key) {
            (Some(certificate), Some(key)) => {
                Some(Tls { certificate: base.join(certificate), key: base.join(key) })
            }
            (None, None) => None,
            _ => {
                let why = "server.tls_certificate and server.tls_key belong together";
                return Err(Failure::usage(why));
            }
        };
        Ok(Self {
            listen: from_environment
                .transpose()?
                .or(file.listen)
                .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 7700))),
            tls,
            http: HttpSettings {
                hosts: file.hosts,
                origins: file.origins,
                max_body_bytes: file.max_body_bytes.unwrap_or(defaults.max_body_bytes),
                max_requests: file.max_requests.unwrap_or(defaults.max_requests),
                drain: file.drain.unwrap_or(defaults.drain),
                approvals_expire: file.approvals_expire.unwrap_or(defaults.approvals_expire),
            },
        })
    }
}
