//! `windlass mcp`: the engine as a server of the Model Context Protocol, for one
//! client on standard input and output, or for this machine over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::serve::ListenerExt;
use clap::Args;
use rmcp::transport::stdio;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass::Engine;
use windlass_executors::mcp::{Servers, Start};

use super::serve::watch;
use crate::cli::exit::{Exit, Failure};
use crate::cli::interrupt::Interrupts;
use crate::cli::options;
use crate::cli::output::Screen;
use crate::cli::permissions;
use crate::http::Metrics;
use crate::human::approvals::{Desk, SharedDesk};
use crate::logging;
use crate::mcp::{Endpoint, KeptNotebook, KeptTokens, MAX_TOOLS, Service, Shared, View, Who};
use crate::prerequisites::Prerequisites;
use crate::settings::Settings;
use crate::state::credential_source::VaultSource;
use crate::state::runs::KeptRuns;
use crate::state::vault::Grants;
use crate::wiring;

/// Serve the tools to an MCP client: Claude Code, Claude Desktop, Cursor, …
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct McpArgs {
    /// Only the tools of this provider, under their own names
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Serve HTTP on this machine, without keys, in place of standard input and output
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// How many tools a client is told of; more are behind a search
    #[arg(long, value_name = "N", default_value_t = MAX_TOOLS)]
    max_tools: usize,
    /// Add what the conformance suite asks for
    #[cfg(feature = "fixtures")]
    #[arg(long)]
    fixtures: bool,
    /// Use the server at this address as the conformance suite wants it
    #[cfg(feature = "fixtures")]
    #[arg(long, value_name = "URL")]
    client: Option<String>,
}

fn after_help() -> String {
    options::examples(&[
        ("Add it to Claude Code", "claude mcp add windlass -- windlass mcp"),
        ("Try it", "npx @modelcontextprotocol/inspector --cli windlass mcp --method tools/list"),
        ("One server behind it, as if it were there directly", "windlass mcp --provider github"),
        ("Over HTTP, on this machine", "windlass mcp --listen 127.0.0.1:8000"),
    ])
}

/// Runs the command. Standard output carries the protocol and nothing else.
pub(crate) fn run(args: &McpArgs, settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    if let Some(address) = args.listen
        && !address.ip().to_canonical().is_loopback()
    {
        let why = format!("{address} can be reached from other machines, and this asks for no key");
        return Err(Failure::usage(why).hint("`windlass serve` has /mcp, with keys"));
    }
    logging::start(&settings.log, screen);
    permissions::warn(&settings);
    #[cfg(feature = "fixtures")]
    if let Some(url) = &args.client {
        return crate::mcp::fixture_client::run(url);
    }
    wiring::block_on_all(async { serve(args, settings, screen).await })
}

async fn serve(args: &McpArgs, settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let documents = wiring::documents_with(&settings.database, &settings.records).await?;
    let credentials = Arc::new(wiring::credentials(&settings, &documents)?);
    let grants = Arc::new(Grants::new(Arc::clone(&documents), Arc::clone(&credentials)));
    let outbound = wiring::outbound(&settings);
    let (source, asked) = VaultSource::new(Arc::clone(&credentials), grants, outbound);
    let (rules, patience) = (settings.approvals.clone(), settings.server.http.approvals_expire);
    let desk = Desk::new(Arc::clone(&documents), rules, patience);
    let builder = Engine::builder().credentials(source).approvals(SharedDesk(Arc::clone(&desk)));
    let metrics = Arc::<Metrics>::default();
    let runs = Arc::new(KeptRuns(Arc::clone(&documents)));
    let engine = wiring::serving(builder, &settings, screen, &metrics, None, None, runs).await?;
    let _ = asked.set(engine.clone());
    wiring::load_imports(&engine, wiring::own_imports(&documents).await?, &screen);
    desk.read_rules().await?;
    #[cfg(feature = "fixtures")]
    if args.fixtures {
        crate::mcp::fixtures::register(&engine)?;
    }
    let watches = watch(&engine, &settings, screen);
    let notebook = Arc::new(KeptNotebook(documents));
    let prerequisites = Prerequisites::new(Arc::clone(&credentials), &settings);
    let tokens = Arc::new(KeptTokens(credentials));
    let policy = settings.outbound.policy.clone();
    let servers = Servers::follow(&engine, notebook, tokens, policy, Start::Unknown);
    let servers = Arc::new(servers);
    let (own, lang) = (Some(Arc::clone(&servers)), settings.lang);
    let (able, max_tools) = (Some(prerequisites), args.max_tools);
    let shared = Shared::new(engine.clone(), own, Arc::default(), lang, max_tools, able, None);
    let view = match &args.provider {
        Some(name) => View::Provider(name.clone()),
        None => View::All,
    };
    let done = match args.listen {
        Some(address) => over_http(address, shared, view, screen, &mut interrupts).await,
        None => over_stdio(Service::new(&shared, Who::Operator, view), &mut interrupts).await,
    };
    drop(watches);
    engine.finish().await;
    servers.stop().await;
    if let Err(error) = engine.records().flush().await {
        tracing::error!(%error, "some records could not be written");
    }
    done
}

async fn over_stdio(service: Service, interrupts: &mut Interrupts) -> Result<Exit, Failure> {
    let serving = async {
        match rmcp::serve_server(service, stdio()).await {
            Ok(running) => drop(running.waiting().await),
            Err(error) => tracing::debug!(%error, "the client did not introduce itself"),
        }
    };
    tokio::select! {
        () = serving => {}
        () = interrupts.next() => {}
    }
    Ok(Exit::Success)
}

async fn over_http(
    address: SocketAddr,
    shared: Arc<Shared>,
    view: View,
    screen: Screen,
    interrupts: &mut Interrupts,
) -> Result<Exit, Failure> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot listen on {address}: {error}"))
    })?;
    let stop = CancellationToken::new();
    let bound = listener.local_addr()?;
    let router: Router = Endpoint::for_this_machine(shared, view, &stop).router();
    // Answers are small and wanted at once.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let ended = stop.clone().cancelled_owned();
    let serving = axum::serve(listener, router).with_graceful_shutdown(ended);
    let serving = tokio::spawn(serving.into_future());
    let url = format!("http://{bound}/mcp");
    if screen.json {
        println!("{}", serde_json::json!({"listening": url}));
    } else {
        println!("windlass serves MCP on {url}");
    }
    interrupts.next().await;
    stop.cancel();
    let _ = serving.await;
    Ok(Exit::Success)
}
