//! `cargo xtask conformance`: the official conformance suite of the Model Context
//! Protocol, against Windlass as server, as client and as proxy.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::mcp::Programs;
use crate::run::{cargo, must, root};

const SUITE: &str = "@modelcontextprotocol/conformance/dist/index.js";
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// How often servers are started, cancelled and killed.
const ROUNDS: &str = "200";

/// How many of the required scenarios must pass, by mode and revision.
const REQUIRED: [(Mode, [usize; 2]); 3] =
    [(Mode::Server, [30, 37]), (Mode::Client, [18, 32]), (Mode::Through, [29, 36])];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Server,
    Client,
    Through,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::Through => "through",
        }
    }
}

/// Runs the suite; arguments are the modes to run, none for all. `rounds` is the number
/// of server starts and stops that must leave no process behind.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let is_known = |argument: &&String| {
        *argument == "rounds" || REQUIRED.iter().any(|(mode, _)| *argument == mode.name())
    };
    if let Some(unknown) = arguments.iter().find(|argument| !is_known(argument)) {
        anyhow::bail!("no mode `{unknown}`: there are server, client, through and rounds");
    }
    let wanted = |mode: Mode| {
        arguments.is_empty() || arguments.iter().any(|argument| argument == mode.name())
    };
    let programs = Programs::installed()?;
    must(&mut cargo(&[
        "build",
        "--profile",
        "test",
        "--package",
        "windlass-server",
        "--features",
        "fixtures",
    ]))?;
    let mut table = Vec::new();
    for (mode, least) in REQUIRED.into_iter().filter(|(mode, _)| wanted(*mode)) {
        for (revision, least) in REVISIONS.into_iter().zip(least) {
            let score = score(&programs, mode, revision)?;
            println!("{} {revision}: {}", mode.name(), score.shown());
            table.push((mode, revision, least, score));
        }
    }
    println!("\n{:<9} {:<11} {:>8} {:>9}  failed", "mode", "revision", "passed", "required");
    for (mode, revision, least, score) in &table {
        let passed = format!("{}/{}", score.passed(), score.scenarios.len());
        println!(
            "{:<9} {revision:<11} {passed:>8} {least:>9}  {}",
            mode.name(),
            score.failed().join(", ")
        );
    }
    if arguments.is_empty() || arguments.iter().any(|argument| argument == "rounds") {
        let mut tests = cargo(&["test", "--package", "windlass-executors"]);
        must(tests.args(["--test", "it", "mcp::processes"]).env("WINDLASS_TEST_ROUNDS", ROUNDS))?;
    }
    let below = table.iter().find(|(_, _, least, score)| score.passed() < *least);
    if let Some((mode, revision, least, score)) = below {
        bail!("{} {revision}: {} of {least}", mode.name(), score.passed());
    }
    Ok(())
}

/// The required scenarios of a run, and whether each passed.
struct Score {
    scenarios: BTreeMap<String, bool>,
}

impl Score {
    fn passed(&self) -> usize {
        self.scenarios.values().filter(|passed| **passed).count()
    }

    fn failed(&self) -> Vec<&str> {
        let failed = self.scenarios.iter().filter(|(_, passed)| !**passed);
        failed.map(|(name, _)| name.as_str()).collect()
    }

    fn shown(&self) -> String {
        format!("{} of {}", self.passed(), self.scenarios.len())
    }
}

fn score(programs: &Programs, mode: Mode, revision: &str) -> anyhow::Result<Score> {
    let place = root().join("target/mcp/run").join(format!("{}-{revision}", mode.name()));
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(place.join("tools"))?;
    let required = required(revision, mode)?;
    let mut suite = programs.node(SUITE);
    let served;
    match mode {
        Mode::Client => {
            let command = format!("{} mcp --client", windlass().display());
            suite.args(["client", "--command", &command]);
        }
        Mode::Server | Mode::Through => {
            served = Served::start(&place, mode)?;
            suite.args(["server", "--url", &served.url]);
        }
    }
    suite.args(["--requirements", revision]).current_dir(&place);
    let output = suite.output().context("the suite does not start")?;
    let said = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    fs::write(place.join("suite.log"), &said)?;
    let scenarios = required
        .into_iter()
        .map(|name| {
            let passed = said.lines().any(|line| line.starts_with(&format!("✓ {name}:")));
            (name, passed)
        })
        .collect();
    Ok(Score { scenarios })
}

/// The scenarios that a revision requires.
fn required(revision: &str, mode: Mode) -> anyhow::Result<Vec<String>> {
    let file = format!(
        "target/mcp/npm/node_modules/@modelcontextprotocol/conformance/requirements/{revision}.yaml"
    );
    let text = fs::read_to_string(root().join(file))?;
    let section = if mode == Mode::Client { "client:" } else { "server:" };
    let lines = text.lines().skip_while(|line| *line != section).skip(1);
    let names: Vec<String> = lines
        .take_while(|line| line.starts_with("  - ") || line.is_empty())
        .filter_map(|line| line.strip_prefix("  - "))
        .map(str::to_owned)
        .collect();
    ensure!(!names.is_empty(), "{revision} requires nothing of a {section}");
    Ok(names)
}

fn windlass() -> PathBuf {
    root().join("target/debug/windlass")
}

/// Windlass as a server, until this is dropped.
struct Served {
    process: Child,
    url: String,
}

impl Served {
    fn start(place: &Path, mode: Mode) -> anyhow::Result<Self> {
        let mut command = Command::new(windlass());
        command.args(["mcp", "--json", "--listen", "127.0.0.1:0", "--database", ":memory:"]);
        command.current_dir(place).stdout(Stdio::piped());
        command.stderr(fs::File::create(place.join("windlass.log"))?);
        if mode == Mode::Server {
            command.arg("--fixtures");
        } else {
            let own = ["mcp", "--fixtures", "--database", ":memory:", "--tools", "empty"];
            let server = json!({"command": windlass(), "args": own, "cwd": place});
            let list = json!({"mcpServers": {"fixture": server}}).to_string();
            fs::create_dir_all(place.join("empty"))?;
            fs::write(place.join("tools/servers.json"), list)?;
        }
        let mut process = command.spawn().context("windlass does not start")?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let told: Value = serde_json::from_str(&line)
            .with_context(|| format!("windlass does not say where it listens: {line}"))?;
        let mut url = told["listening"].as_str().unwrap_or_default().to_owned();
        if mode == Mode::Through {
            url.push_str("/fixture");
        }
        Ok(Self { process, url })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
