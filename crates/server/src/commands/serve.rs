//! `windlass serve`: the engine as a service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass::{Engine, FolderWatch};
use windlass_executors::mcp::{LoginOptions, Servers, Start};
use windlass_executors::rest::AskConsent;

use crate::approvals::{Desk, SharedDesk};
use crate::cli;
use crate::consents::Consents;
use crate::credential_source::VaultSource;
use crate::exit::{Exit, Failure};
use crate::http::{self, App, Hub, Links, Listener, Metrics, Tls};
use crate::identity::{Bearers, Keys, NewKey};
use crate::interrupt::Interrupts;
use crate::logging;
use crate::mcp::{KeptNotebook, KeptTokens};
use crate::output::Screen;
use crate::questions::Questions;
use crate::runs::KeptRuns;
use crate::settings::{Flag, Settings};
use crate::telemetry;
use crate::vault::Grants;
use crate::wiring;

/// How long what was cut off, and what is still to be told, may take.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long the last records may take.
const LAST_WRITE: Duration = Duration::from_secs(10);

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

impl ServeArgs {
    /// Those of them that are settings.
    pub(crate) fn flags(&self) -> Result<Vec<Flag>, Failure> {
        let mut flags = Vec::new();
        flags.extend(self.listen.map(|address| ("--listen", vec![address.to_string()])));
        for (flag, path) in
            [("--tls-certificate", &self.tls_certificate), ("--tls-key", &self.tls_key)]
        {
            let Some(path) = path else { continue };
            let wrong = || Failure::usage(format!("{flag} {}: not UTF-8", path.display()));
            flags.push((flag, vec![path.to_str().ok_or_else(wrong)?.to_owned()]));
        }
        Ok(flags)
    }
}

/// Runs the command.
pub(crate) fn run(args: &ServeArgs, settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    logging::start(&settings.log, screen);
    wiring::block_on_all(async { serve(args, settings, screen).await })
}

async fn serve(args: &ServeArgs, settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    // First of all: the first process of a container gets no signal that it
    // does not listen to.
    let mut interrupts = Interrupts::listen()?;
    let (address, tls) = (settings.server.listen, &settings.server.tls);
    let acceptor = tls.as_ref().map(Tls::acceptor).transpose().map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot speak TLS: {error}"))
            .hint("look at --tls-certificate and --tls-key; `windlass doctor` says what is wrong")
    })?;
    let listener = Listener::bind(address, acceptor).await.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot listen on {address}: {error}"))
            .hint("choose another address with --listen; `windlass doctor` says what is wrong")
    })?;
    let documents = wiring::documents_with(&settings.database, &settings.records).await?;
    let metrics = Arc::<Metrics>::default();
    let (tracer, exporter) = telemetry::start(&settings.telemetry, &metrics.traces).unzip();
    let credentials = Arc::new(wiring::credentials(&settings, &documents)?);
    let grants = Arc::new(Grants::new(Arc::clone(&documents), Arc::clone(&credentials)));
    let outbound = wiring::outbound(&settings);
    let (source, asked) =
        VaultSource::new(Arc::clone(&credentials), Arc::clone(&grants), outbound.clone());
    let own_address = own_address(&settings, listener.address()?);
    let consents =
        Arc::new(Consents::new(Arc::clone(&documents), outbound.clone(), grants, &own_address));
    let ask: AskConsent = Arc::new({
        let consents = Arc::clone(&consents);
        move |call, consent| {
            let consents = Arc::clone(&consents);
            Box::pin(async move { consents.ask(call, consent).await })
        }
    });
    let (rules, patience) = (settings.approvals.clone(), settings.server.http.approvals_expire);
    let desk = Desk::new(Arc::clone(&documents), rules, patience);
    let questions = Arc::<Questions>::default();
    let builder = Engine::builder()
        .credentials(source)
        .approvals(SharedDesk(Arc::clone(&desk)))
        .object(questions.askers());
    let runs = Arc::new(KeptRuns(Arc::clone(&documents)));
    let (tracing, ask) = (tracer.clone(), Some(ask));
    let engine =
        wiring::serving(builder, &settings, screen, &metrics, tracing, ask, runs.clone()).await?;
    let _ = asked.set(engine.clone());
    let notebook = Arc::new(KeptNotebook(Arc::clone(&documents)));
    let tokens = Arc::new(KeptTokens(Arc::clone(&credentials)));
    let policy = settings.outbound.policy.clone();
    let servers = Servers::follow(&engine, notebook, tokens, policy, Start::Unknown);
    let redirect_uri = consents.redirect_uri().to_owned();
    servers.offer_logins(LoginOptions { redirect_uri, ..LoginOptions::default() });
    let servers = Arc::new(servers);
    let watches = watch(&engine, &settings, screen);
    let keys = Keys::new(Arc::clone(&documents));
    let first = keys.create_first().await?;
    // New calls end with the first of these, all else with the second.
    let (draining, ended) = (CancellationToken::new(), CancellationToken::new());
    let exporting = exporter.map(|it| tokio::spawn(it.run(engine.clone(), ended.clone())));
    let app = Arc::new(App {
        hub: Hub::new(Arc::clone(&documents), settings.server.http.events_linger),
        engine,
        servers,
        desk,
        questions,
        consents,
        outbound,
        runs,
        links: Links::new(&*documents).await?,
        documents,
        keys,
        bearers: Bearers::new(&settings.server.http.oauth, &settings.outbound.policy, &own_address),
        credentials,
        metrics,
        tracer,
        settings: settings.server.http.clone(),
        lang: settings.lang,
        draining: draining.clone(),
        tasks: TaskTracker::new(),
        started: Instant::now(),
    });
    http::prepare(&app).await?;
    let recording = app.hub.start(&app.engine, ended.clone()).await?;
    tokio::spawn(heed_changes(Arc::clone(&app)));
    let open = TaskTracker::new();
    let bound = listener.address()?;
    let serving = tokio::spawn(listener.serve(http::front(&app), draining.clone(), open.clone()));
    announce(screen, bound, tls.is_some(), args.without_tls, first.as_ref());
    interrupts.next().await;
    tracing::info!("draining: no new calls, those that run may end");
    draining.cancel();
    drop(watches);
    let _ = serving.await;
    drain(&app, &open, &mut interrupts).await;
    app.servers.stop().await;
    ended.cancel();
    let told = async {
        let _ = recording.await;
        if let Some(exporting) = exporting {
            let _ = exporting.await;
        }
    };
    if tokio::time::timeout(LAST_WORDS, told).await.is_err() {
        tracing::warn!("some events or spans could not be told");
    }
    Ok(Exit::Success)
}

/// Where people who agreed come back to: the first name of this server, else
/// where it listens.
fn own_address(settings: &Settings, bound: SocketAddr) -> String {
    let scheme = if settings.server.tls.is_some() { "https" } else { "http" };
    match settings.server.http.hosts.first() {
        Some(host) => format!("{scheme}://{host}"),
        None if bound.ip().is_unspecified() => format!("{scheme}://localhost:{}", bound.port()),
        None => format!("{scheme}://{bound}"),
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
    // All addresses are none that a browser could go to.
    let near = match address.ip().is_unspecified() {
        true => format!("{scheme}://localhost:{}", address.port()),
        false => url.clone(),
    };
    let docs = format!("{near}/docs");
    if screen.json {
        let key = first.map(|key| key.text.expose());
        println!("{}", serde_json::json!({"listening": url, "docs": docs, "admin_key": key}));
    } else {
        println!("windlass listens on {url}");
        match first {
            None => println!("API: {docs}"),
            Some(key) => println!(
                "\nThe first admin key. It is shown only now:\n\n  {}\n\nOpen {docs} with it: any \
                 name, and the key as the password.",
                key.text.expose()
            ),
        }
    }
    if !address.ip().is_loopback() && !has_tls && !on_purpose {
        screen.warn(format_args!(
            "{address} can be reached from other machines and has no TLS: keys and results cross \
             the network in the clear. Use --tls-certificate and --tls-key, or say --without-tls \
             if a proxy in front has TLS"
        ));
        tracing::warn!(%address, "reachable from other machines without TLS");
    }
    tracing::info!(address = %address, tls = has_tls, "listening");
}

/// Lets what runs end, but no longer than was set, or until somebody insists.
/// What is cut off then is cancelled, so that it has a result and a record, too.
async fn drain(app: &App, open: &TaskTracker, interrupts: &mut Interrupts) {
    open.close();
    app.tasks.close();
    let ended = async {
        open.wait().await;
        app.tasks.wait().await;
        app.engine.finish().await;
    };
    let mut ended = std::pin::pin!(ended);
    let why = tokio::select! {
        () = &mut ended => None,
        () = tokio::time::sleep(app.settings.drain) => Some("the time to drain is over"),
        () = interrupts.next() => Some("on request"),
    };
    match why {
        None => tracing::info!("all calls have ended"),
        Some(why) => {
            tracing::warn!(calls = app.engine.cancel_all(), why, "calls are cut off");
            let _ = tokio::time::timeout(LAST_WORDS, ended).await;
        }
    }
    let flushed = tokio::time::timeout(LAST_WRITE, app.engine.records().flush()).await;
    if !matches!(flushed, Ok(Ok(()))) {
        tracing::error!("some records could not be written");
    }
}
