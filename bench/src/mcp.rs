//! Calls of the Model Context Protocol, in both directions: beside a server and
//! a client of `rmcp` that do nothing else, with the same tool, and beside
//! FastMCP's.

mod bare;
mod fastmcp;
mod message;
mod served;
mod through;

use crate::report::Figure;

pub(crate) use bare::{over_http as serve_bare, over_stdio as serve_bare_stdio};

/// The arguments that make this program a bare server of the protocol.
pub(crate) const BARE: &str = "--bare-mcp-server";
pub(crate) const BARE_STDIO: &str = "--bare-mcp-stdio";

/// Measures the engine as a server, and in front of one.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let mut figures = served::run()?;
    figures.extend(through::run()?);
    Ok(figures)
}
