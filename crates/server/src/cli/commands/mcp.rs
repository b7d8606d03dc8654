//! `windlass mcp`: runs the MCP server, for one client over stdio or for this machine
//! over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::serve::ListenerExt;
use clap::Args;
use rmcp::transport::stdio;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass::Engine;
use windlass_executors::mcp::Start;

use super::serve::watch;
use crate::cli::exit::{Exit, Failure};
use crate::cli::interrupt::Interrupts;
use crate::cli::options;
use crate::cli::output::Screen;
use crate::cli::permissions;
use crate::human::approvals::{ApprovalQueue, QueueApprover};
use crate::installation::{Installation, Serving, block_on_all};
use crate::logging;
use crate::mcp::{ClientAuth, MAX_TOOLS, McpEndpoint, McpHandler, McpState, ServedTools};
use crate::settings::Settings;

/// Serve the tools to an MCP client: Claude Code, Claude Desktop, Cursor, …
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct McpArgs {
    /// Only the tools of this provider, under their own names
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Serve HTTP on this machine, without API keys, instead of stdin and stdout
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Maximum number of tools in a list; beyond it, clients search for tools
    #[arg(long, value_name = "N", default_value_t = MAX_TOOLS)]
    max_tools: usize,
    /// Add what the conformance suite asks for
    #[cfg(feature = "fixtures")]
    #[arg(long, hide = true)]
    fixtures: bool,
    /// Use the server at this address as the conformance suite wants it
    #[cfg(feature = "fixtures")]
    #[arg(long, value_name = "URL", hide = true)]
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
    block_on_all(async { serve(args, settings, screen).await })
}

async fn serve(args: &McpArgs, settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let installation = Installation::new(&settings, screen);
    let (rules, patience) = (settings.approvals.clone(), settings.server.http.approvals_expire);
    let approvals =
        ApprovalQueue::new(Arc::clone(installation.documents().await?), rules, patience);
    let builder = Engine::builder().approvals(QueueApprover(Arc::clone(&approvals)));
    let engine = installation.engine_from(builder, Serving::default()).await?;
    installation.load_imports(&engine).await?;
    approvals.read_rules().await?;
    if let Some(name) = &args.provider
        && !is_provider(&engine, name)
    {
        return Err(Failure::new(Exit::NotFound, format!("there is no provider `{name}`"))
            .hint("`windlass providers list` names those that there are"));
    }
    #[cfg(feature = "fixtures")]
    if args.fixtures {
        crate::mcp::fixtures::register(&engine)?;
    }
    let watches = watch(&engine, &settings, screen);
    let prerequisites = installation.prerequisites().await?;
    let servers = Arc::new(installation.servers(&engine, Start::Unknown).await?);
    let (own, lang) = (Some(Arc::clone(&servers)), settings.lang);
    let (able, max_tools) = (Some(prerequisites), args.max_tools);
    let shared = McpState::new(engine.clone(), own, Arc::default(), lang, max_tools, able, None);
    let view = match &args.provider {
        Some(name) => ServedTools::Provider(name.clone()),
        None => ServedTools::All,
    };
    let done = match args.listen {
        Some(address) => over_http(address, shared, view, screen, &mut interrupts).await,
        None => {
            over_stdio(McpHandler::new(&shared, ClientAuth::Operator, view), &mut interrupts).await
        }
    };
    drop(watches);
    engine.finish().await;
    servers.stop().await;
    if let Err(error) = engine.records().flush().await {
        tracing::error!(%error, "some records could not be written");
    }
    done
}

/// Whether a provider of this name is defined, or has tools.
fn is_provider(engine: &Engine, name: &str) -> bool {
    engine.providers().all().iter().any(|(_, provider)| provider.name == name)
        || engine.registry().list().iter().any(|tool| tool.spec().provider.as_deref() == Some(name))
}

async fn over_stdio(service: McpHandler, interrupts: &mut Interrupts) -> Result<Exit, Failure> {
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
    shared: Arc<McpState>,
    view: ServedTools,
    screen: Screen,
    interrupts: &mut Interrupts,
) -> Result<Exit, Failure> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot listen on {address}: {error}"))
    })?;
    let stop = CancellationToken::new();
    let bound = listener.local_addr()?;
    let router: Router = McpEndpoint::for_this_machine(shared, view, &stop).router();
    // TCP_NODELAY: responses are small and latency matters.
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
