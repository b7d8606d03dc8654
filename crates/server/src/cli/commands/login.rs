//! `windlass login`: logs in to a remote MCP server with a browser (OAuth).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use clap::Args;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use windlass::{Secret, TenantId};
use windlass_executors::mcp::LoginOptions;

use crate::cli::exit::{Exit, Failure};
use crate::cli::interrupt::Interrupts;
use crate::cli::options;
use crate::cli::output::Screen;
use crate::installation::{Installation, block_on};
use crate::mcp::CommandServers;
use crate::settings::Settings;
use crate::state::audit::Audit;

/// What the browser shows at the end.
const DONE: &str = "You are logged in. You can close this page.";
/// Holds what proves who we are, where a server wants that.
const CLIENT_SECRET: &str = "WINDLASS_CLIENT_SECRET";

/// Log in to a remote MCP server
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct LoginArgs {
    /// The provider that the server is
    provider: String,
    /// The OAuth client id, if one is registered already; its secret is in WINDLASS_CLIENT_SECRET
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// URL of the OAuth client id metadata document
    #[arg(long, value_name = "URL")]
    client_metadata: Option<String>,
    /// The port of the OAuth redirect on this machine [default: any free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

fn after_help() -> String {
    options::examples(&[
        ("Log in to the server `github` of your definitions", "windlass login github"),
        ("With an id that you registered", "windlass login github --client-id abc --port 8765"),
    ])
}

/// Runs the command.
pub(crate) fn run(args: &LoginArgs, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    block_on(async {
        let mut installation = Installation::to_look_at(settings, screen);
        let engine = installation.catalogue_of_servers().await?;
        let upstream = CommandServers::none_started(&installation, &engine).await?;
        let server = upstream.server(&args.provider).ok_or_else(|| {
            let why = format!("there is no MCP server `{}`", args.provider);
            Failure::new(Exit::NotFound, why)
                .hint("`windlass providers list` names those that there are")
        })?;
        // What it asks for is in the challenge that it answers with.
        let _ = server.listed().await;
        let mut interrupts = Interrupts::listen()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
        let socket = TcpListener::bind(address).await?;
        let port = socket.local_addr()?.port();
        let options = LoginOptions {
            redirect_uri: format!("http://127.0.0.1:{port}/callback"),
            client_id: args.client_id.clone(),
            client_secret: std::env::var(CLIENT_SECRET).ok().map(Secret::new),
            client_metadata_url: args.client_metadata.clone(),
        };
        let login = server.login(options).await?;
        screen.note("open this address in a browser, and agree:");
        println!("{}", login.url());
        let back = tokio::select! {
            back = came_back(&socket, port) => back?,
            () = interrupts.next() => return Ok(Exit::Cancelled),
        };
        login.finish(&back).await?;
        let audit = Audit::new(Arc::clone(installation.documents().await?));
        audit.by_command(&TenantId::default(), "log_in", &args.provider).await?;
        screen.note(format_args!("logged in to `{}`", args.provider));
        upstream.stop().await;
        Ok(Exit::Success)
    })
}

/// Waits for the browser; the address that it came back to.
async fn came_back(socket: &TcpListener, port: u16) -> Result<String, Failure> {
    loop {
        let (stream, _) = socket.accept().await?;
        if let Some(path) = read_path(stream).await {
            return Ok(format!("http://127.0.0.1:{port}{path}"));
        }
    }
}

/// Reads one request and answers it; nothing where it is about something else,
/// such as the icon of the page.
async fn read_path(stream: TcpStream) -> Option<String> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let path = line.strip_prefix("GET ")?.split(' ').next()?.to_owned();
    let is_back = path.starts_with("/callback?");
    let (status, text) = if is_back { ("200 OK", DONE) } else { ("404 Not Found", "") };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    );
    stream.get_mut().write_all(answer.as_bytes()).await.ok()?;
    is_back.then_some(path)
}
