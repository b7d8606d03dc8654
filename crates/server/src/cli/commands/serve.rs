//! `windlass serve`: runs the HTTP server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use windlass::{Engine, EngineBuilder, Error, ErrorKind, FolderWatch, RecordStore};
use windlass_executors::mcp::{LoginOptions, Start};
use windlass_executors::rest::AskConsent;

use crate::cli::exit::{Exit, Failure};
use crate::cli::interrupt::Interrupts;
use crate::cli::options;
use crate::cli::output::Screen;
use crate::cli::permissions;
use crate::http::{
    self, App, EventBroker, EventIds, FailedKeys, HttpListener, Links, Membership, Metrics,
    Readiness, Refusals, Tls,
};
use crate::human::approvals::{ApprovalQueue, QueueApprover};
use crate::human::consents::Consents;
use crate::human::questions::CallQuestions;
use crate::installation::{Installation, Serving, block_on_all};
use crate::logging;
use crate::mcp::Sessions;
use crate::settings::{Flag, Settings};
use crate::state::audit::{Actor, Audit, Happened};
use crate::state::identity::{ApiKeys, Bearers, NewKey};
use crate::state::quota::{DaySharer, TenantQuotas};
use crate::telemetry;

/// How long what was cut off, and what is still to be told, may take.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long the last records may take, and how often that is tried.
const LAST_WRITE: Duration = Duration::from_secs(10);
const BETWEEN_WRITES: Duration = Duration::from_millis(100);

/// Run the HTTP and MCP server
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
    /// Allow other machines to connect without TLS, because a reverse proxy in front has it
    #[arg(long, conflicts_with = "tls_certificate")]
    without_tls: bool,
}

fn after_help() -> String {
    options::examples(&[
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
        flags.extend(self.without_tls.then(|| ("--without-tls", vec!["true".to_owned()])));
        Ok(flags)
    }
}

/// Runs the command.
pub(crate) fn run(settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    settings.server.refuse_plain_text()?;
    logging::start(&settings.log, screen);
    permissions::warn(&settings);
    block_on_all(async { serve(settings, screen).await })
}

async fn serve(settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    // First of all: the first process of a container gets no signal that it
    // does not listen to.
    let mut interrupts = Interrupts::listen()?;
    let (address, tls) = (settings.server.listen, &settings.server.tls);
    let acceptor = tls.as_ref().map(Tls::acceptor).transpose().map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot speak TLS: {error}"))
            .hint("look at --tls-certificate and --tls-key; `windlass doctor` says what is wrong")
    })?;
    let listener = HttpListener::bind(address, acceptor).await.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot listen on {address}: {error}"))
            .hint("choose another address with --listen; `windlass doctor` says what is wrong")
    })?;
    let has_tls = tls.is_some();
    let started = start(Engine::builder(), settings, screen, listener).await?;
    announce(screen, started.address, has_tls, started.first.as_ref());
    interrupts.next().await;
    started.stop(async || interrupts.next().await).await?;
    Ok(Exit::Success)
}

/// Puts a server together and lets requests in.
pub(crate) async fn start(
    builder: EngineBuilder,
    settings: Settings,
    screen: Screen,
    listener: HttpListener,
) -> Result<Started, Failure> {
    let quotas = TenantQuotas::new(settings.quotas, settings.tenant_quotas.clone());
    let installation = Installation::new(&settings, screen).bounded(&quotas);
    let documents = Arc::clone(installation.documents().await?);
    let metrics = Arc::<Metrics>::default();
    let (tracer, exporter) = telemetry::start(&settings.telemetry, &metrics.traces).unzip();
    let (outbound, grants) = (installation.outbound().clone(), installation.grants().await?);
    let own_address = own_address(&settings, listener.address()?);
    let consents =
        Consents::new(Arc::clone(&documents), outbound.clone(), Arc::clone(grants), &own_address);
    let consents = Arc::new(consents);
    let ask: AskConsent = Arc::new({
        let consents = Arc::clone(&consents);
        move |call, consent| {
            let consents = Arc::clone(&consents);
            Box::pin(async move { consents.ask(call, consent).await })
        }
    });
    let (rules, patience) = (settings.approvals.clone(), settings.server.http.approvals_expire);
    let approvals = ApprovalQueue::new(Arc::clone(&documents), rules, patience);
    let questions = Arc::<CallQuestions>::default();
    let (counting, tracing) = (Arc::clone(&metrics), tracer.clone());
    let builder = builder
        .approvals(QueueApprover(Arc::clone(&approvals)))
        .object(questions.askers())
        .on_record(move |record| {
            counting.count(record);
            tracing.iter().for_each(|tracer| tracer.call(record));
        });
    let serving = Serving { ask: Some(ask), tracer: tracer.clone() };
    let (engine, workflow_runs) = installation.engine_and_runs(builder, serving).await?;
    let servers = installation.servers(&engine, Start::Unknown).await?;
    let redirect_uri = consents.redirect_uri().to_owned();
    servers.offer_logins(LoginOptions { redirect_uri, ..LoginOptions::default() });
    let servers = Arc::new(servers);
    let watches = watch(&engine, &settings, screen);
    let keys = ApiKeys::new(Arc::clone(&documents));
    let audit = Audit::new(Arc::clone(&documents));
    let first = keys.create_first().await?;
    if let Some(first) = &first {
        // The key is shown even if this fails.
        if let Err(error) = audit.add(&first.key.tenant, first_key(first)).await {
            tracing::error!(%error, "the audit log could not be written");
        }
    }
    // New calls end with the first of these, all else with the second.
    let (draining, ended) = (CancellationToken::new(), CancellationToken::new());
    let exporting = exporter.map(|it| tokio::spawn(it.run(engine.clone(), ended.clone())));
    let membership = Membership::join(Arc::clone(&documents), engine.records()).await?;
    let links = Links::new(&*documents).await?;
    let (ids, listener_ttl) = (EventIds::new(&links), settings.server.http.event_listener_ttl);
    let app = Arc::new(App {
        membership,
        events: EventBroker::new(Arc::clone(&documents), ids, listener_ttl),
        engine,
        servers,
        approvals,
        questions,
        consents,
        outbound,
        runs: Arc::new(installation.runs().await?),
        workflow_runs,
        links,
        documents,
        quotas,
        sessions: Sessions::new(settings.server.http.max_mcp_sessions),
        keys,
        audit,
        failed_keys: FailedKeys::new(settings.server.http.max_failed_keys),
        bearers: Bearers::new(&settings.server.http.oauth, &settings.outbound.policy, &own_address),
        prerequisites: installation.prerequisites().await?,
        credentials: Arc::clone(installation.credentials().await?),
        metrics,
        readiness: Readiness::default(),
        refusals: Refusals::default(),
        tracer,
        settings: settings.server.http.clone(),
        lang: settings.lang,
        draining: draining.clone(),
        tasks: TaskTracker::new(),
        started: Instant::now(),
    });
    http::prepare(&app).await?;
    let recording = http::follow(&app, ended.clone()).await?;
    let sharing = DaySharer::start(&app.engine, &app.documents).await;
    let sharing = tokio::spawn(sharing.run(ended.clone()));
    tokio::spawn(heed_changes(Arc::clone(&app), ended.clone()));
    let (waking, drained) = (app.workflow_runs.clone(), draining.clone());
    tokio::spawn(async move { drained.run_until_cancelled(waking.keep_going()).await });
    let open = TaskTracker::new();
    let address = listener.address()?;
    let serving = tokio::spawn(listener.serve(http::front(&app), draining.clone(), open.clone()));
    let guards = [draining.drop_guard(), ended.clone().drop_guard()];
    Ok(Started {
        app,
        address,
        first,
        open,
        serving,
        recording,
        sharing,
        exporting,
        watches,
        ended,
        guards,
    })
}

/// A server that takes requests.
pub(crate) struct Started {
    pub(crate) app: Arc<App>,
    pub(crate) address: SocketAddr,
    /// The first key of all, where it was made just now.
    pub(crate) first: Option<NewKey>,
    /// Connections.
    open: TaskTracker,
    serving: JoinHandle<()>,
    recording: JoinHandle<()>,
    sharing: JoinHandle<()>,
    exporting: Option<JoinHandle<()>>,
    watches: Vec<FolderWatch>,
    ended: CancellationToken,
    /// What is dropped without having been stopped stops at once.
    guards: [DropGuard; 2],
}

impl Started {
    /// Lets what runs end, but no longer than was set, or until somebody insists.
    /// Fails where results could not be written.
    pub(crate) async fn stop(self, mut insist: impl AsyncFnMut()) -> Result<(), Failure> {
        let Self {
            app, open, serving, recording, sharing, exporting, watches, ended, guards, ..
        } = self;
        tracing::info!("draining: no new calls, those that run may end");
        app.draining.cancel();
        drop(watches);
        let _ = serving.await;
        let written = drain(&app, &open, &mut insist).await;
        app.servers.stop().await;
        ended.cancel();
        let told = async {
            let _ = recording.await;
            let _ = sharing.await;
            if let Some(exporting) = exporting {
                let _ = exporting.await;
            }
        };
        match tokio::time::timeout(LAST_WORDS, told).await {
            Ok(()) => leave(&app).await,
            Err(_) => tracing::warn!("some events or spans could not be told"),
        }
        drop(guards);
        written
    }
}

/// The first entry of an audit log.
fn first_key(first: &NewKey) -> Happened {
    Happened {
        actor: Actor::server(),
        action: "create_first_key".to_owned(),
        target: Some(first.key.id.to_string()),
        status: None,
        details: None,
    }
}

/// Says that this server ended well. Where it cannot, others look for what it
/// might have left.
async fn leave(app: &App) {
    if !matches!(tokio::time::timeout(LAST_WORDS, app.membership.leave()).await, Ok(Ok(()))) {
        tracing::warn!("that the server ended could not be written down");
    }
}

/// Where people who agreed come back to: the first name of this server, else
/// where it listens.
fn own_address(settings: &Settings, bound: SocketAddr) -> String {
    let http = &settings.server.http;
    let host = match http.hosts.first() {
        Some(host) => host.clone(),
        None if bound.ip().is_unspecified() => format!("localhost:{}", bound.port()),
        None => bound.to_string(),
    };
    format!("{}://{host}", http.scheme(&host))
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
async fn heed_changes(app: Arc<App>, ended: CancellationToken) {
    let mut changes = app.documents.changes();
    loop {
        use tokio::sync::broadcast::error::RecvError;
        let Some(change) = ended.run_until_cancelled(changes.recv()).await else { return };
        let change = match change {
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

fn announce(screen: Screen, address: SocketAddr, has_tls: bool, first: Option<&NewKey>) {
    let scheme = if has_tls { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    // 0.0.0.0 is no address that a browser can open.
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
    tracing::info!(address = %address, tls = has_tls, "listening");
}

/// Lets what runs end, but no longer than was set, or until somebody insists.
/// What is cut off then is cancelled, so that it has a result and a record, too.
/// Fails where results could not be written.
async fn drain(
    app: &App,
    open: &TaskTracker,
    insist: &mut impl AsyncFnMut(),
) -> Result<(), Failure> {
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
        () = insist() => Some("on request"),
    };
    match why {
        None => tracing::info!("all calls have ended"),
        Some(why) => {
            tracing::warn!(calls = app.engine.cancel_all(), why, "calls are cut off");
            let _ = tokio::time::timeout(LAST_WORDS, ended).await;
        }
    }
    last_write(app.engine.records(), insist).await
}

/// Waits until all results are written, also where that fails at first, unless
/// somebody insists.
async fn last_write(
    records: &dyn RecordStore,
    insist: &mut impl AsyncFnMut(),
) -> Result<(), Failure> {
    let mut why = Error::new(ErrorKind::StorageUnavailable, "the database does not answer");
    let flushed = async {
        while let Err(error) = records.flush().await {
            why = error;
            tokio::time::sleep(BETWEEN_WRITES).await;
        }
    };
    let written = tokio::select! {
        () = flushed => true,
        () = tokio::time::sleep(LAST_WRITE) => false,
        () = insist() => false,
    };
    if written {
        return Ok(());
    }
    let unwritten = records.unwritten();
    tracing::error!(unwritten, error = %why, "the server ends without having written its last results");
    let message =
        format!("{unwritten} results could not be written and are lost: {}", why.message());
    Err(Failure::new(Exit::Storage, message)
        .hint("what these calls did is done; those with effects are shown as interrupted later"))
}
