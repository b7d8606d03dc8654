//! A PostgreSQL server for tests: installed if missing, started in a temporary folder,
//! and removed at the end.

mod cluster;

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::run::must;
use cluster::Cluster;

/// Environment variable with the server's URL, for tests.
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";

/// A server for tests: the one in the environment, or our own until this is dropped.
pub(crate) struct Postgres(Option<Cluster>);

impl Postgres {
    pub(crate) fn start() -> anyhow::Result<Self> {
        if std::env::var_os(VARIABLE).is_some() {
            return Ok(Self(None));
        }
        let programs = installed()?;
        let cluster = Cluster::start(&programs).context("PostgreSQL does not start")?;
        println!("PostgreSQL (without fsync) at {}", cluster.url());
        Ok(Self(Some(cluster)))
    }

    /// Sets the environment variable of a command.
    pub(crate) fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        match &self.0 {
            Some(cluster) => command.env(VARIABLE, cluster.url()),
            None => command,
        }
    }
}

/// `cargo xtask with-postgres COMMAND…`.
pub(crate) fn with(arguments: &[String]) -> anyhow::Result<()> {
    let (program, rest) = arguments.split_first().context("which command?")?;
    let postgres = Postgres::start()?;
    must(postgres.tell(Command::new(program).args(rest)))
}

/// The folder of PostgreSQL's programs; installs Debian's package if there is none. A
/// cluster that the package starts is left alone.
fn installed() -> anyhow::Result<PathBuf> {
    if let Some(programs) = cluster::programs() {
        return Ok(programs);
    }
    println!("PostgreSQL is not installed; installing Debian's package");
    let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.starts_with(b"0\n"));
    let install = || {
        let mut words = vec!["apt-get", "install", "--yes", "--no-install-recommends"];
        if !root {
            words.insert(0, "sudo");
        }
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("postgresql").env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    must(&mut install()).context(
        "install PostgreSQL's server programs (`initdb`, `postgres`), or set WINDLASS_TEST_POSTGRES=postgres://…",
    )?;
    cluster::programs().context("PostgreSQL was installed, but `initdb` is not found")
}
