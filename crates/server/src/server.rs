//! [`Server`]: the HTTP and MCP server embedded in another program.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use windlass::{Engine, EngineBuilder, Lang, Secret};

use crate::cli::commands::serve::{Started, start};
use crate::cli::exit::Failure;
use crate::cli::output::Screen;
use crate::http::{HttpListener, Tls};
use crate::mcp::{ClientAuth, MAX_TOOLS, McpHandler, McpState, ServedTools};
use crate::settings::{Embedded, Flag, Settings};

/// What a program that says nothing keeps its records in.
const MEMORY: &str = ":memory:";

/// A server that takes requests: the HTTP API, its documentation, and MCP at
/// `/mcp`.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use windlass::{Engine, tool};
/// use windlass_server::Server;
///
/// /// Adds two numbers.
/// #[tool(read_only, inline)]
/// fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:7700").await?;
/// let server = Server::builder(Engine::builder().tool(add::tool())).start(listener).await?;
/// println!("http://{}", server.address());
/// tokio::signal::ctrl_c().await?;
/// server.shutdown().await?;
/// # Ok(())
/// # }
/// ```
///
/// A server that is dropped stops at once; [`Server::shutdown`] lets calls end.
pub struct Server(Started);

impl Server {
    /// Begins a server for the engine that this builder makes. Its tools, hooks,
    /// objects and settings stay; records, credentials and approvals are the
    /// server's, which keeps them in its database.
    pub fn builder(engine: EngineBuilder) -> ServerBuilder {
        ServerBuilder {
            engine,
            project: None,
            database: None,
            tools: Vec::new(),
            lang: None,
            tls: None,
            without_tls: false,
            builtin_tools: false,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// The first admin key, where the database had none: it is shown only now. A
    /// database in memory never has one.
    pub fn admin_key(&self) -> Option<&Secret> {
        self.0.first.as_ref().map(|key| &key.text)
    }

    /// The engine that runs the calls.
    pub fn engine(&self) -> &Engine {
        &self.0.app.engine
    }

    /// Takes no more calls, lets those that run end as long as `server.drain`
    /// says (30 seconds), cancels the rest, and writes the last records. Fails
    /// where results could not be written.
    pub async fn shutdown(self) -> Result<(), ServerError> {
        Ok(self.0.stop(std::future::pending).await?)
    }
}

/// Puts a [`Server`] together.
pub struct ServerBuilder {
    engine: EngineBuilder,
    project: Option<PathBuf>,
    database: Option<String>,
    tools: Vec<PathBuf>,
    lang: Option<Lang>,
    tls: Option<(PathBuf, PathBuf)>,
    without_tls: bool,
    builtin_tools: bool,
}

impl ServerBuilder {
    /// Reads all settings as `windlass serve --project` does: from the
    /// `windlass.yaml` of this folder and from the environment. They count for
    /// the engine, too, and the built-in tools are there. What else is said here
    /// wins over them.
    #[must_use]
    pub fn project(mut self, folder: impl Into<PathBuf>) -> Self {
        self.project = Some(folder.into());
        self
    }

    /// Keeps records and everything else here: a file, `postgres://…`, or
    /// `:memory:`, which is the default without a project.
    #[must_use]
    pub fn database(mut self, url: impl Into<String>) -> Self {
        self.database = Some(url.into());
        self
    }

    /// Loads the definitions in this folder, and again when they change. May be
    /// called several times.
    #[must_use]
    pub fn tools(mut self, folder: impl Into<PathBuf>) -> Self {
        self.tools.push(folder.into());
        self
    }

    /// Adds the built-in tools, such as `http_request` and `calculator`.
    #[must_use]
    pub fn builtin_tools(mut self) -> Self {
        self.builtin_tools = true;
        self
    }

    /// The language of descriptions and of errors for models.
    #[must_use]
    pub fn lang(mut self, lang: Lang) -> Self {
        self.lang = Some(lang);
        self
    }

    /// Speaks TLS, with a certificate chain and its key in PEM form.
    #[must_use]
    pub fn tls(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls = Some((certificate.into(), key.into()));
        self
    }

    /// Takes requests from other machines without TLS, because something in front
    /// has it. Without this, such a listener is refused.
    #[must_use]
    pub fn without_tls(mut self) -> Self {
        self.without_tls = true;
        self
    }

    /// Puts everything together and lets requests in.
    ///
    /// # Errors
    ///
    /// Settings that make no sense, a database that cannot be opened, tools that
    /// cannot be registered.
    pub async fn start(self, listener: TcpListener) -> Result<Server, ServerError> {
        let failed = |message: String, hint| ServerError { message, hint };
        let mut settings = self.settings()?;
        let address = listener.local_addr();
        settings.server.listen = address.map_err(|error| failed(error.to_string(), None))?;
        settings.server.http.without_tls |= self.without_tls;
        settings.server.refuse_plain_text().map_err(|failure| {
            let hint = "use .tls(…), or .without_tls() if something in front has TLS";
            failed(failure.message, Some(hint.to_owned()))
        })?;
        let acceptor = settings.server.tls.as_ref().map(Tls::acceptor).transpose();
        let acceptor =
            acceptor.map_err(|error| failed(format!("cannot speak TLS: {error}"), None))?;
        // What is wrong with a single definition is told in the log.
        let screen = Screen { json: false, quiet: true, verbose: false };
        let listener = HttpListener::of(listener, acceptor);
        Ok(Server(start(self.engine, settings, screen, listener).await?))
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let mut flags: Vec<Flag> = Vec::new();
        if !self.tools.is_empty() {
            let paths = self.tools.iter().map(|path| text(path)).collect::<Result<_, _>>()?;
            flags.push(("--tools", paths));
        }
        if let Some((certificate, key)) = &self.tls {
            flags.push(("--tls-certificate", vec![text(certificate)?]));
            flags.push(("--tls-key", vec![text(key)?]));
        }
        let lang = self.lang.map(|lang| match lang {
            Lang::Zh => "zh",
            _ => "en",
        });
        flags.extend(lang.map(|lang| ("--lang", vec![lang.to_owned()])));
        let database = self.database.clone();
        match &self.project {
            Some(folder) => {
                flags.extend(database.map(|url| ("--database", vec![url])));
                Settings::of_project(folder, &flags)
            }
            None => {
                flags.push(("--database", vec![database.unwrap_or_else(|| MEMORY.to_owned())]));
                let embedded = Embedded { builtin_tools: self.builtin_tools };
                Settings::of_program(&flags, embedded)
            }
        }
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    let wrong = || Failure::usage(format!("{}: not UTF-8", path.display()));
    path.to_str().map(str::to_owned).ok_or_else(wrong)
}

/// Why a server could not start.
#[derive(Debug)]
pub struct ServerError {
    message: String,
    hint: Option<String>,
}

impl From<Failure> for ServerError {
    fn from(failure: Failure) -> Self {
        Self { message: failure.message, hint: failure.hint }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

impl std::error::Error for ServerError {}

/// Serves the tools of an engine to one MCP client over a pair of streams, until
/// the client goes: over standard input and output, `serve_mcp(&engine,
/// tokio::io::stdin(), tokio::io::stdout())`. The client is the operator, who
/// sees all tools.
pub async fn serve_mcp<R, W>(engine: &Engine, input: R, output: W)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let shared =
        McpState::new(engine.clone(), None, Arc::default(), Lang::default(), MAX_TOOLS, None, None);
    let service = McpHandler::new(&shared, ClientAuth::Operator, ServedTools::All);
    match rmcp::serve_server(service, (input, output)).await {
        Ok(running) => drop(running.waiting().await),
        Err(error) => tracing::debug!(%error, "the client did not introduce itself"),
    }
    engine.finish().await;
}
