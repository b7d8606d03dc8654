//! `cargo xtask schemathesis`: fuzzes the server with requests generated from our OpenAPI
//! document. No response may be a server error, or one that the document does not
//! describe.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::run::{cargo, must, root, watched};

/// The version that is known to read our document.
const VERSION: &str = "4.32.5";
/// Number of cases in `cargo xtask test`: less than a minute.
pub(crate) const SHORT: u32 = 1_500;
const LONG: u32 = 10_000;
/// Operations that would revoke the test's own key.
const OF_ITS_KEY: [&str; 2] = ["revoke_key", "rotate_key"];

/// `cargo xtask schemathesis [--cases N]`.
pub(crate) fn with(arguments: &[String]) -> anyhow::Result<()> {
    let cases = match arguments {
        [] => LONG,
        [flag, cases] if flag == "--cases" => cases.parse().context("--cases takes a number")?,
        _ => anyhow::bail!("cargo xtask schemathesis [--cases N]"),
    };
    must(&mut cargo(&["build", "--quiet", "--profile", "test", "--package", "windlass-server"]))?;
    run(cases)
}

/// Sends at least this many requests to the program that was built last; fails if a
/// response is wrong.
pub(crate) fn run(cases: u32) -> anyhow::Result<()> {
    let program = installed()?;
    let folder = tempfile::tempdir()?;
    let server = Server::start(folder.path())?;
    // The document's own examples take some 2,000 requests; the rest is generated.
    let made_up = if cases <= SHORT { 1 } else { 40 };
    let (mut sent, mut round) = (0, 1);
    while sent < cases {
        let count = server.ask(&program, made_up, round, &Asked::AllBut(&OF_ITS_KEY))?;
        ensure!(count > 0, "no request was sent");
        ensure!(server.is_welcome()?, "the key stopped working: what came after it shows nothing");
        sent += count;
        round += 1;
    }
    sent += server.ask(&program, made_up, round, &Asked::Only(&OF_ITS_KEY))?;
    println!("{sent} requests: no server error, no answer that the document does not have");
    Ok(())
}

/// The program, in a virtual environment under `target`.
fn installed() -> anyhow::Result<PathBuf> {
    let folder = root().join("target/schemathesis");
    let program = folder.join("bin/schemathesis");
    let found = Command::new(&program).arg("--version").output();
    if found.is_ok_and(|found| String::from_utf8_lossy(&found.stdout).contains(VERSION)) {
        return Ok(program);
    }
    println!("installing schemathesis {VERSION} into target/schemathesis");
    must(Command::new("python3").args(["-m", "venv"]).arg(&folder))
        .context("install Python 3 with its venv module")?;
    let package = format!("schemathesis=={VERSION}");
    must(Command::new(folder.join("bin/pip")).args(["install", "--quiet", &package]))
        .context("schemathesis cannot be installed")?;
    Ok(program)
}

/// Which operations are tested.
enum Asked<'a> {
    AllBut(&'a [&'a str]),
    Only(&'a [&'a str]),
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    pub(crate) key: String,
}

impl Server {
    pub(crate) fn start(folder: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(root().join("target/debug/windlass"))
            .args(["serve", "--json", "--listen", "127.0.0.1:0"])
            .current_dir(folder)
            .env("HOME", folder)
            .env("WINDLASS_LOG", "error")
            // Invalid keys are part of the generated requests.
            .env("WINDLASS_SERVER_MAX_FAILED_KEYS", "1000000")
            .stdout(Stdio::piped())
            .spawn()
            .context("the server does not start")?;
        let mut line = String::new();
        let out = child.stdout.take().context("no stdout")?;
        BufReader::new(out).read_line(&mut line)?;
        let told: Value = serde_json::from_str(&line).context("the server did not start")?;
        let text = |key: &str| told[key].as_str().map(str::to_owned).context("an odd first line");
        Ok(Self { url: text("listening")?, key: text("admin_key")?, child })
    }

    /// Sends requests, this many generated ones for each route, and returns the total
    /// number.
    fn ask(
        &self,
        program: &Path,
        examples: u32,
        seed: u32,
        asked: &Asked<'_>,
    ) -> anyhow::Result<u32> {
        let mut command = Command::new(program);
        command.arg("--config-file").arg(root().join("xtask/src/schemathesis.toml"));
        command.args(["run", &format!("{}/openapi.json", self.url), "--no-color"]);
        command.args(["--header", &format!("Authorization: Bearer {}", self.key)]);
        command.args(["--max-examples", &examples.to_string(), "--seed", &seed.to_string()]);
        // An endless stream; the tests of events cover it.
        command.args(["--exclude-path", "/v1/events", "--continue-on-failure"]);
        let (flag, operations) = match asked {
            Asked::AllBut(operations) => ("--exclude-operation-id", operations),
            Asked::Only(operations) => ("--include-operation-id", operations),
        };
        for operation in *operations {
            command.args([flag, operation]);
        }
        command.current_dir(std::env::temp_dir());
        let mut sent = 0;
        let fine = watched(&mut command, |line| {
            let count = line.trim().split_once(" generated").map(|(count, _)| count);
            sent = count.and_then(|count| count.parse().ok()).unwrap_or(sent);
        })?;
        ensure!(fine, "schemathesis found something");
        Ok(sent)
    }

    /// Whether the API key still works.
    fn is_welcome(&self) -> anyhow::Result<bool> {
        Ok(self.ask_for("/v1/stats")?.starts_with("HTTP/1.1 200"))
    }

    /// The response to a `GET`.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<String> {
        let answer = self.ask_for(path)?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").context("an answer without an end")?;
        Ok(body.to_owned())
    }

    /// A raw response.
    fn ask_for(&self, path: &str) -> anyhow::Result<String> {
        let address = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
             Connection: close\r\n\r\n",
            self.key
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
