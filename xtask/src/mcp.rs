//! Programs of others that speak the Model Context Protocol, for tests: installed
//! once, below `target`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::run::{must, root};

/// Packages of npm. Node itself is one of them: the suite wants a newer one than
/// many machines have.
const NPM: [&str; 6] = [
    "node@22",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2",
    "@modelcontextprotocol/server-everything",
    "@modelcontextprotocol/server-filesystem",
    "@modelcontextprotocol/server-memory",
];
/// Packages of PyPI.
const PYPI: [&str; 3] = ["mcp-server-time", "mcp-server-git", "fastmcp"];
/// Where tests find them.
const VARIABLE: &str = "WINDLASS_TEST_MCP";

/// Where the programs are.
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
        Ok(programs)
    }

    /// Tells a command where they are.
    pub(crate) fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(VARIABLE, &self.folder)
    }

    /// A program of Node.
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
            // The first brings Node, the others want it.
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
}

fn npm(place: &Path) -> Command {
    let mut command = Command::new("npm");
    command.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"]).arg(place);
    command
}

/// Does something unless it has been done for the same packages.
fn once(
    place: &Path,
    packages: &[&str],
    install: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let stamp = place.join("installed");
    let wanted = packages.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|known| known == wanted) {
        return Ok(());
    }
    println!("installing {} below {}", packages.join(", "), place.display());
    fs::create_dir_all(place)?;
    install()?;
    fs::write(stamp, wanted)?;
    Ok(())
}
