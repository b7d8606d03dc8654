//! `windlass serve`: the engine as a service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass::{Engine, FolderWatch};
use windlass_executors::mcp::{Servers, Start};

use crate::approvals::{Desk, SharedDesk};
use crate::cli;
use crate::credential_source::VaultSource;
use crate::exit::{Exit, Failure};
use crate::http::{self, App, Hub, Links, Listener, Metrics, Tls};
use crate::identity::{Keys, NewKey};
use crate::interrupt::Interrupts;
use crate::logging;
use crate::mcp::KeptNotebook;
use crate::output::Screen;
use crate::settings::Settings;
use crate::wiring;

/// Serve the HTTP API
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:7700] [env: WINDLASS_LISTEN]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The certificate chain for TLS, in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Listen elsewhere than on this machine without TLS, because something in front has it
    #[arg(long)]
    without_tls: bool,
}

fn after_help() -> String {
    cli::examples(&[
        ("Serve on this machine", "windlass serve"),
        (
            "On all addresses, with TLS",
            "windlass serve --listen 0.0.0.0:7700 --tls-certificate cert.pem --tls-key key.pem",
        ),
        (
            "Several servers on one database",
            "windlass serve --database postgres://user@host/windlass",
        ),
        (
            "Call a tool",
            "curl -H \"Authorization: Bearer $KEY\" localhost:7700/v1/calls -d '{\"tool\": \"echo\"}'",
        ),
    ])
}

/// Runs the command.
pub(crate) fn run(args: &ServeArgs, settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    logging::start(screen);
    wiring::block_on_all(async { serve(args, settings, screen).await })
}

async fn serve(args: &ServeArgs, settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    let address = args.listen.unwrap_or(settings.server.listen);
    let tls = tls(args, &settings);
    let listener = Listener::bind(address, tls.as_ref()).await.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot listen on {address}: {error}"))
            .hint("choose another address with --listen")
    })?;
    let mut interrupts = Interrupts::listen()?;
    let documents = wiring::documents(&settings.database).await?;
    let metrics = Arc::<Metrics>::default();
    let credentials = Arc::new(wiring::credentials(&settings, &documents)?);
    let (source, asked) = VaultSource::new(Arc::clone(&credentials));
    let desk = Desk::new(Arc::clone(&documents));
    let builder = Engine::builder().credentials(source).approvals(SharedDesk(Arc::clone(&desk)));
    let engine = wiring::serving(builder, &settings, screen, &metrics).await?;
    let _ = asked.set(engine.clone());
    let notebook = Arc::new(KeptNotebook(Arc::clone(&documents)));
    let servers = Arc::new(Servers::follow(&engine, notebook, Start::Unknown));
    let watches = watch(&engine, &settings, screen);
    let keys = Keys::new(Arc::clone(&documents));
    let first = keys.create_first().await?;
    let draining = CancellationToken::new();
    let app = Arc::new(App {
        hub: Hub::new(Arc::clone(&documents)),
        engine,
        servers,
        desk,
        links: Links::new(&*documents).await?,
        documents,
        keys,
        credentials,
        metrics,
        settings: settings.server.http.clone(),
        lang: settings.lang,
        draining: draining.clone(),
        tasks: TaskTracker::new(),
        started: Instant::now(),
    });
    http::prepare(&app).await?;
    app.hub.start(&app.engine, draining.clone()).await?;
    tokio::spawn(heed_changes(Arc::clone(&app)));
    let open = TaskTracker::new();
    let bound = listener.address()?;
    let serving = tokio::spawn(listener.serve(http::router(&app), draining.clone(), open.clone()));
    announce(screen, bound, tls.is_some(), args.without_tls, first.as_ref());
    interrupts.next().await;
    tracing::info!("draining: no new calls, those that run may end");
    draining.cancel();
    drop(watches);
    let _ = serving.await;
    drain(&app, &open, &mut interrupts).await;
    app.servers.stop().await;
    Ok(Exit::Success)
}

fn tls(args: &ServeArgs, settings: &Settings) -> Option<Tls> {
    match (&args.tls_certificate, &args.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(Tls { certificate: certificate.clone(), key: key.clone() })
        }
        _ => settings.server.tls.clone(),
    }
}

/// Definitions are read again when they change, unless that is switched off.
pub(super) fn watch(engine: &Engine, settings: &Settings, screen: Screen) -> Vec<FolderWatch> {
    let Some(options) = settings.reload else { return Vec::new() };
    let folders = settings.tools.iter().filter(|folder| folder.path.is_dir());
    folders
        .filter_map(|folder| match engine.watch_folder(&folder.path, options) {
            Ok((_, watch)) => Some(watch),
            Err(error) => {
                screen.warn(format_args!("{}: not watched: {error}", folder.path.display()));
                None
            }
        })
        .collect()
}

/// Does what other servers ask for.
async fn heed_changes(app: Arc<App>) {
    let mut changes = app.documents.changes();
    loop {
        use tokio::sync::broadcast::error::RecvError;
        let change = match changes.recv().await {
            Ok(change) => change,
            Err(RecvError::Lagged(_)) => windlass_store::Change {
                space: String::new(),
                tenant: windlass::TenantId::default(),
                id: String::new(),
            },
            Err(RecvError::Closed) => return,
        };
        http::heed(&app, &change).await;
    }
}

fn announce(
    screen: Screen,
    address: SocketAddr,
    has_tls: bool,
    on_purpose: bool,
    first: Option<&NewKey>,
) {
    let scheme = if has_tls { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    if screen.json {
        let key = first.map(|key| key.text.expose());
        println!("{}", serde_json::json!({"listening": url, "admin_key": key}));
    } else {
        println!("windlass listens on {url}");
        println!("API: {url}/docs, {url}/openapi.json");
        if let Some(key) = first {
            println!("\nThe first admin key. It is shown only now:\n\n  {}\n", key.text.expose());
        }
    }
    if !address.ip().is_loopback() && !has_tls && !on_purpose {
        screen.warn(format_args!(
            "{address} can be reached from other machines and has no TLS: keys and results cross \
             the network in the clear. Use --tls-certificate and --tls-key, or say --without-tls \
             if a proxy in front has TLS"
        ));
    }
    tracing::info!(address = %address, tls = has_tls, "listening");
}

/// Lets what runs end, but no longer than was set, or until somebody insists.
async fn drain(app: &App, open: &TaskTracker, interrupts: &mut Interrupts) {
    open.close();
    app.tasks.close();
    let ended = async {
        open.wait().await;
        app.tasks.wait().await;
        app.engine.finish().await;
    };
    tokio::select! {
        () = ended => tracing::info!("all calls have ended"),
        () = tokio::time::sleep(app.settings.drain) => {
            tracing::warn!(calls = app.engine.calls_under_way(), "calls were cut off");
        }
        () = interrupts.next() => tracing::warn!("calls were cut off on request"),
    }
    let flushed = tokio::time::timeout(Duration::from_secs(10), app.engine.records().flush()).await;
    if !matches!(flushed, Ok(Ok(()))) {
        tracing::error!("some records could not be written");
    }
}
