//! MCP in both directions: against a minimal server and client of `rmcp` with the same
//! tool, and against FastMCP.

mod bare;
mod fastmcp;
mod many;
mod message;
mod served;
mod through;

use crate::report::Figure;

pub(crate) use bare::{over_http as serve_bare, over_stdio as serve_bare_stdio};

/// The arguments that turn this program into the minimal server.
pub(crate) const BARE: &str = "--bare-mcp-server";
pub(crate) const BARE_STDIO: &str = "--bare-mcp-stdio";

/// Measures the engine as a server, and as a proxy.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let mut figures = served::run()?;
    figures.extend(through::run()?);
    Ok(figures)
}

/// Measures many servers of others together.
pub(crate) fn servers() -> anyhow::Result<Vec<Figure>> {
    many::run()
}
