//! TLS configuration: the trusted CA certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use windlass::{Error, ErrorKind};

/// Loads the system's CA certificates and the given files. Done once, for the first TLS
/// connection.
pub(super) async fn connector(ca_files: &[PathBuf]) -> Result<TlsConnector, Error> {
    let ca_files = ca_files.to_vec();
    let read = tokio::task::spawn_blocking(move || roots(&ca_files));
    let roots =
        read.await.map_err(|cause| failed("certificates cannot be read").with_source(cause))??;
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|cause| failed("cannot set up TLS").with_source(cause))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots(ca_files: &[PathBuf]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for file in ca_files {
        let certificates = own(file).map_err(|why| failed(format!("{}: {why}", file.display())))?;
        roots.add_parsable_certificates(certificates);
    }
    if roots.is_empty() {
        return Err(failed(
            "this machine trusts no certificates; install `ca-certificates`, or name a file in \
             `outbound.ca_files`",
        ));
    }
    Ok(roots)
}

fn own(file: &Path) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    CertificateDer::pem_file_iter(file)?.collect()
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Network, message).nothing_done()
}
