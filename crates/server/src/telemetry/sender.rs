//! OTLP/HTTP sender: posts one batch of spans at a time to the collector, and
//! retries failures that may be temporary.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use crate::settings::Headers;

/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before each further attempt.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// What is read of an answer.
const MAX_ANSWER: usize = 64 * 1024;

/// The way to a collector.
pub(super) struct SpanSender {
    endpoint: Uri,
    headers: HeaderMap,
    tls: Option<TlsConnector>,
    /// Whether the last batch arrived, so that an outage is logged once.
    works: bool,
}

/// Why a batch did not arrive.
enum SendFailure {
    /// It will not, ever.
    Refused(StatusCode),
    /// It may, later.
    Unreachable(String),
}

impl SpanSender {
    pub(super) fn new(endpoint: &Uri, extra: &Headers) -> Self {
        let mut headers = HeaderMap::new();
        for (name, value) in &extra.0 {
            if let Ok(mut value) = HeaderValue::from_str(value.expose()) {
                value.set_sensitive(true);
                headers.append(name.clone(), value);
            }
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(host) = endpoint.authority()
            && let Ok(host) = HeaderValue::from_str(host.as_str())
        {
            headers.insert(header::HOST, host);
        }
        let tls = (endpoint.scheme_str() == Some("https")).then(connector).flatten();
        Self { endpoint: endpoint.clone(), headers, tls, works: true }
    }

    /// Sends a batch; whether it arrived. Once the server ends, there is one
    /// attempt only.
    pub(super) async fn send(&mut self, body: Vec<u8>, stop: &CancellationToken) -> bool {
        let body = Bytes::from(body);
        let mut pauses = AGAIN.into_iter();
        let why = loop {
            let sent = tokio::time::timeout(PATIENCE, self.post(body.clone())).await;
            match sent.unwrap_or_else(|_| Err(SendFailure::Unreachable("no answer".to_owned()))) {
                Ok(()) => {
                    if !std::mem::replace(&mut self.works, true) {
                        tracing::info!("traces are sent again");
                    }
                    return true;
                }
                Err(SendFailure::Refused(status)) => break format!("refused with {status}"),
                Err(SendFailure::Unreachable(why)) => match pauses.next() {
                    Some(pause) if !stop.is_cancelled() => {
                        tokio::select! {
                            () = tokio::time::sleep(pause) => {}
                            () = stop.cancelled() => {}
                        }
                    }
                    _ => break why,
                },
            }
        };
        if std::mem::replace(&mut self.works, false) {
            tracing::warn!(endpoint = %self.endpoint, why, "traces cannot be sent and are dropped");
        }
        false
    }

    async fn post(&self, body: Bytes) -> Result<(), SendFailure> {
        let unreachable =
            |error: &dyn std::fmt::Display| SendFailure::Unreachable(error.to_string());
        let host = self.endpoint.host().unwrap_or_default();
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let port = self.endpoint.port_u16().unwrap_or(match self.tls {
            Some(_) => 443,
            None => 80,
        });
        if self.tls.is_none() && self.endpoint.scheme_str() == Some("https") {
            return Err(SendFailure::Unreachable("TLS cannot be set up".to_owned()));
        }
        let stream = TcpStream::connect((name, port)).await.map_err(|it| unreachable(&it))?;
        match &self.tls {
            None => self.exchange(stream, body).await,
            Some(tls) => {
                let name = ServerName::try_from(name.to_owned()).map_err(|it| unreachable(&it))?;
                let stream = tls.connect(name, stream).await.map_err(|it| unreachable(&it))?;
                self.exchange(stream, body).await
            }
        }
    }

    async fn exchange<S>(&self, stream: S, body: Bytes) -> Result<(), SendFailure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let unreachable = |error: hyper::Error| SendFailure::Unreachable(error.to_string());
        let path = self.endpoint.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::post(path)
            .body(Full::new(body))
            .map_err(|error| SendFailure::Unreachable(error.to_string()))?;
        request.headers_mut().clone_from(&self.headers);
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
        let talk = async {
            let answer = sender.send_request(request).await.map_err(unreachable)?;
            let status = answer.status();
            // The body is read to the end, so that the connection can be reused.
            let _ = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            Ok(status)
        };
        // The connection task ends with the request, or before it.
        let mut talk = std::pin::pin!(talk);
        let status = tokio::select! {
            status = &mut talk => status,
            _ = connection => talk.await,
        }?;
        match status.as_u16() {
            200..300 => Ok(()),
            429 | 502 | 503 | 504 => Err(SendFailure::Unreachable(status.to_string())),
            _ => Err(SendFailure::Refused(status)),
        }
    }
}

/// Trusts whom the operating system trusts.
fn connector() -> Option<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)
        .inspect_err(|error| tracing::error!(%error, "TLS cannot be set up for traces"))
        .ok()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Some(TlsConnector::from(Arc::new(config)))
}
