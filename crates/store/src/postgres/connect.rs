//! Opens connections for the writer and for readers.

use std::future::poll_fn;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Notification};
use tokio_postgres_rustls::MakeRustlsConnect;
use windlass::Error;

use super::fault::{Fault, unavailable};
use super::options::PostgresOptions;
use super::url::PostgresUrl;

/// A database and its connection settings.
#[derive(Clone)]
pub(crate) struct Target {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    pub(crate) place: Arc<str>,
    /// Statements that set up a session.
    session: Arc<str>,
}

impl Target {
    pub(crate) fn new(url: &PostgresUrl, options: &PostgresOptions) -> Result<Self, Error> {
        let mut config = url.config().clone();
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.connect_timeout);
        }
        // Without encryption, the driver must not ask for it either.
        let tls = if url.wants_tls() {
            Some(tls()?)
        } else {
            config.ssl_mode(tokio_postgres::config::SslMode::Disable);
            None
        };
        let session = format!(
            "SET statement_timeout = {0}; \
             SET idle_in_transaction_session_timeout = {0}; \
             SET default_transaction_isolation = 'read committed'",
            options.statement_timeout.as_millis().max(1)
        );
        Ok(Self { config, tls, place: url.place().into(), session: session.into() })
    }

    /// A read-write connection.
    pub(crate) async fn writer(&self) -> Result<Client, Fault> {
        let client = self.open().await?;
        client.batch_execute(&self.session).await?;
        Ok(client)
    }

    /// A read-only connection.
    pub(crate) async fn reader(&self) -> Result<Client, Fault> {
        let client = self.writer().await?;
        client.batch_execute("SET default_transaction_read_only = on").await?;
        Ok(client)
    }

    /// A connection that receives notifications (`LISTEN`).
    pub(crate) async fn listener(
        &self,
        hear: impl FnMut(Notification) + Send + 'static,
    ) -> Result<Client, Fault> {
        let client = match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                drop(tokio::spawn(drive(connection, hear)));
                client
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                drop(tokio::spawn(drive(connection, hear)));
                client
            }
        };
        client.batch_execute(&self.session).await?;
        Ok(client)
    }

    /// Spawns the task that drives the connection; it ends when the client is dropped or
    /// the server closes it.
    async fn open(&self) -> Result<Client, tokio_postgres::Error> {
        match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                drop(tokio::spawn(connection));
                Ok(client)
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                drop(tokio::spawn(connection));
                Ok(client)
            }
        }
    }
}

/// Drives a connection to its end, and forwards notifications.
async fn drive<S, T>(mut connection: Connection<S, T>, mut hear: impl FnMut(Notification))
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            hear(notification);
        }
    }
}

fn tls() -> Result<MakeRustlsConnect, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (trusted, _) = roots.add_parsable_certificates(found.certs);
    if trusted == 0 {
        return Err(unavailable(
            "cannot verify the database server: this machine trusts no certificates; install `ca-certificates`, or name a file with SSL_CERT_FILE",
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|cause| unavailable("cannot set up TLS").with_source(cause))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
