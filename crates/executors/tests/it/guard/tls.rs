//! TLS connections.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use windlass::ErrorKind;
use windlass_executors::outbound::{Outbound, OutboundPolicy};

use super::{get, lookup, refused};
use crate::support::{Site, allowing, raw, redirect, text};

/// A server with a certificate for `secure.example`, and where that is.
async fn serve(answer: Vec<u8>) -> (SocketAddr, tempfile::NamedTempFile) {
    let names = vec!["secure.example".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), cert.pem()).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let address = raw(move |stream| {
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            drop(stream.read(&mut [0; 4096]).await);
            drop(stream.write_all(&answer).await);
            drop(stream.shutdown().await);
        }
    })
    .await;
    (address, file)
}

fn client(policy: OutboundPolicy) -> Outbound {
    Outbound::with_lookup(policy, lookup(|_| vec!["127.0.0.1".parse().unwrap()]))
}

#[tokio::test]
async fn a_certificate_counts_for_its_name_and_if_it_is_trusted() {
    let (address, file) = serve(text("secure")).await;
    let mut policy = allowing(&["127.0.0.1"]);
    policy.ca_files = vec![file.path().to_owned()];
    let trusting = client(policy);
    let url = |name: &str| format!("https://{name}:{}/", address.port());
    let answer = get(&trusting, &url("secure.example")).await.unwrap();
    assert_eq!(answer.bytes().await.unwrap(), "secure");
    assert!(get(&trusting, &url("secure.example.")).await.is_ok());
    for name in ["other.example", "127.0.0.1"] {
        let error = refused(get(&trusting, &url(name)).await);
        assert_eq!(error.kind(), ErrorKind::Network, "{error:?}");
        assert!(error.message().contains("certificate"), "{error}");
    }
    let error = refused(get(&client(allowing(&["127.0.0.1"])), &url("secure.example")).await);
    assert_eq!(error.kind(), ErrorKind::Network, "{error:?}");
    let plain = raw(|mut stream| async move {
        drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await);
    })
    .await;
    let error = refused(get(&trusting, &format!("https://secure.example:{}/", plain.port())).await);
    assert_eq!(error.kind(), ErrorKind::Network, "{error:?}");
}

#[tokio::test]
async fn a_redirect_does_not_take_encryption_away() {
    let plain = Site::start(|_| text("plain")).await;
    let to = format!("http://secure.example:{}/", plain.port());
    let (address, file) = serve(redirect(302, &to)).await;
    let mut policy = allowing(&["127.0.0.1"]);
    policy.ca_files = vec![file.path().to_owned()];
    let url = format!("https://secure.example:{}/", address.port());
    assert_eq!(refused(get(&client(policy), &url).await).kind(), ErrorKind::Denied);
    assert_eq!(plain.seen().len(), 0);
}
