//! Records in PostgreSQL.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_postgres::NoTls;

use crate::project::Project;

/// A database of its own, which goes at the end of its test.
pub(crate) struct Database {
    server: String,
    name: String,
}

impl Database {
    pub(crate) fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let server = std::env::var("WINDLASS_TEST_POSTGRES").unwrap_or_else(|_| {
            panic!("run `cargo xtask test`, or set WINDLASS_TEST_POSTGRES=postgres://…")
        });
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("windlass_cli_{}_{made}", std::process::id());
        let database = Self { server, name };
        database.sql(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", database.name));
        database.sql(&format!("CREATE DATABASE {} TEMPLATE template0", database.name));
        database
    }

    /// With a password, which the server does not ask for.
    pub(crate) fn url(&self) -> String {
        let (server, _) = self.server.rsplit_once('/').unwrap();
        let (scheme, place) = server.split_once("//").unwrap();
        let (user, host) = place.split_once('@').unwrap_or(("postgres", place));
        let user = user.split_once(':').map_or(user, |(user, _)| user);
        format!("{scheme}//{user}:hunter2@{host}/{}", self.name)
    }

    fn sql(&self, sql: &str) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.server, NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(sql).await.unwrap();
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.sql(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

#[test]
fn calls_are_kept_in_postgres() {
    let database = Database::new();
    let url = database.url();
    let project = Project::new();
    let with = |args: &[&str]| project.ok(&[args, &["--database", &url]].concat());
    let json = |args: &[&str]| project.json(&[args, &["--database", &url]].concat());

    assert_eq!(with(&["call", "echo", "message=kept", "--conversation", "c1"]), "kept\n");
    let page = json(&["calls"]);
    assert_eq!(page["records"][0]["params"]["message"], "kept");
    let id = page["records"][0]["record_id"].as_str().unwrap();
    assert!(with(&["calls", id]).contains("echo succeeded"));
    assert_eq!(json(&["calls", "--summary", "c1"])["total_calls"], 1);

    // Also by the environment and by the file, and by several at once.
    project.write("windlass.yaml", &format!("database: {url}\n"));
    let children: Vec<_> = (0..4)
        .map(|_| project.command(&["call", "hello"]).stdout(Stdio::null()).spawn().unwrap())
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let mut stats = project.command(&["stats", "--json"]);
    let stats = stats.env("WINDLASS_DATABASE", &url).output().unwrap();
    let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
    assert_eq!(stats["total"]["calls"], 5);
    assert!(!project.path(".windlass").exists(), "no file besides");

    let verbose = project.run(&["stats", "-v"]);
    assert!(verbose.err.contains(&format!("/{}\n", database.name)), "{verbose:?}");
    assert!(!verbose.err.contains("hunter2"), "{verbose:?}");
}

#[test]
fn a_database_that_cannot_be_used_is_explained() {
    let project = Project::new();
    let gone = "postgres://ada:hunter2@127.0.0.1:1/records";
    for command in [&["call", "hello"][..], &["calls"], &["stats"]] {
        let ran = project.run(&[command, &["--database", gone]].concat());
        ran.fails(7, &["the database 127.0.0.1:1/records cannot be reached", "--database URL"]);
        assert!(!ran.err.contains("hunter2"), "{ran:?}");
    }
    let unknown = project.run(&["calls", "--database", "mysql://ada:hunter2@h/d"]);
    unknown.fails(2, &["--database: unknown kind of database `mysql`; write postgres://"]);
    assert!(!unknown.err.contains("hunter2"), "{unknown:?}");
    let odd = project.run(&["calls", "--database", "postgres://ada:p@hunter2@h/d"]);
    odd.fails(2, &["percent-encoded"]);
    assert!(!odd.err.contains("hunter2"), "{odd:?}");
}

#[test]
fn doctor_looks_at_postgres_and_leaves_it_as_it_is() {
    let database = Database::new();
    let project = Project::new();
    let examine = |url: &str| {
        let mut command = project.command(&["doctor", "--json", "--database", url]);
        command.env("WINDLASS_LISTEN", "127.0.0.1:0");
        let ran = crate::project::Ran::from(command.output().unwrap());
        assert!(!ran.out.contains("hunter2") && !ran.err.contains("hunter2"), "{ran:?}");
        (ran.code, ran.out)
    };
    for _ in 0..2 {
        let (_, found) = examine(&database.url());
        assert!(found.contains("the first start makes the tables"), "{found}");
    }
    project.ok(&["call", "hello", "--database", &database.url()]);
    let (code, found) = examine(&database.url());
    assert!(found.contains("is whole and writable"), "{found}");
    assert!(found.contains("there is no master key") && code == Some(0), "{found}");
    let (code, found) = examine("postgres://ada:hunter2@127.0.0.1:1/records");
    assert!(code == Some(1) && found.contains("cannot be reached"), "{found}");
}
