//! Third-party MCP programs for tests, installed once under `target`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::run::{must, once, root};

/// npm packages. Node itself is one of them: the suite needs a newer one than many
/// machines have.
const NPM: [&str; 12] = [
    "node@22.23.3",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
    "mcp-hello-world@1.1.2",
    "mcp-server-commands@0.5.0",
    "@ai-sdk/mcp@1.0.101",
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/sdk@1.32.2",
];
/// PyPI packages. The last one installs the ones below.
const PYPI: [&str; 4] =
    ["mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19", "fastmcp==4.1.2", "uv==0.13.8"];
/// PyPI packages in virtual environments of their own, as `uvx` makes them: servers, and
/// client libraries. Some need the first major version of the SDK without declaring it.
const APART: [(&str, &[&str]); 16] = [
    ("arxiv", &["arxiv-mcp-server==0.8.2"]),
    ("calculator", &["mcp-server-calculator==0.2.1"]),
    ("cli", &["cli-mcp-server==0.2.5", "mcp==1.30.0"]),
    ("duck", &["mcp-server-motherduck==1.1.0"]),
    ("editor", &["mcp-text-editor==1.0.2", "mcp==1.30.0"]),
    ("excel", &["excel-mcp-server==2.2.2"]),
    ("interpreter", &["mcp-python-interpreter==1.2.3", "mcp==1.30.0"]),
    ("shell", &["mcp-shell-server==1.1.14"]),
    ("sqlite", &["mcp-server-sqlite==2025.4.25", "mcp==1.30.0"]),
    ("timeserver", &["mcp-simple-timeserver==3.3.2"]),
    ("word", &["office-word-mcp-server==1.1.11"]),
    ("client-fastmcp", &["fastmcp==4.1.2"]),
    ("client-langchain", &["langchain-mcp-adapters==0.3.2"]),
    ("client-mcp", &["mcp==2.3.0"]),
    ("client-openai-agents", &["openai-agents==0.24.0"]),
    ("client-pydantic-ai", &["pydantic-ai-slim[mcp]==2.66.0"]),
];
/// Environment variable with their location, for tests.
const VARIABLE: &str = "WINDLASS_TEST_MCP";

/// The location of the programs.
pub(crate) struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Installs what is missing.
    pub(crate) fn installed() -> anyhow::Result<Self> {
        let folder = root().join("target/mcp");
        let programs = Self { folder };
        programs.npm().context("npm's packages for MCP (needs npm)")?;
        programs.python().context("PyPI's packages for MCP (needs python3 with venv)")?;
        programs.apart().context("PyPI's packages for MCP, each for itself")?;
        Ok(programs)
    }

    /// Sets the environment variable of a command.
    pub(crate) fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(VARIABLE, &self.folder)
    }

    /// A Node script.
    pub(crate) fn node(&self, script: &str) -> Command {
        let modules = self.folder.join("npm/node_modules");
        let mut command = Command::new(modules.join("node/bin/node"));
        command.arg(modules.join(script));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", modules.join("node/bin").display()));
        command
    }

    fn npm(&self) -> anyhow::Result<()> {
        let place = self.folder.join("npm");
        once(&place, &NPM, || {
            // The first package is Node, which the others need.
            let (node, others) = NPM.split_at(1);
            must(npm(&place).args(node))?;
            let path = std::env::var("PATH").unwrap_or_default();
            let path = format!("{}:{path}", place.join("node_modules/node/bin").display());
            must(npm(&place).args(others).env("PATH", path))
        })
    }

    fn python(&self) -> anyhow::Result<()> {
        let place = self.folder.join("py");
        once(&place, &PYPI, || {
            must(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
            must(Command::new(place.join("bin/pip")).args(["install", "--quiet"]).args(PYPI))
        })
    }

    fn apart(&self) -> anyhow::Result<()> {
        let place = self.folder.join("apart");
        let wanted: Vec<&str> = APART.iter().flat_map(|(_, packages)| *packages).copied().collect();
        once(&place, &wanted, || {
            let uv = self.folder.join("py/bin/uv");
            for (name, packages) in APART {
                let own = place.join(name);
                must(Command::new(&uv).args(["venv", "--quiet", "--clear"]).arg(&own))?;
                let mut install = Command::new(&uv);
                install.args(["pip", "install", "--quiet", "--python"]).arg(&own);
                must(install.args(packages))?;
            }
            Ok(())
        })
    }
}

/// The command that installs npm packages below a folder.
pub(crate) fn npm(place: &Path) -> Command {
    let mut command = Command::new("npm");
    command.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"]).arg(place);
    command
}
