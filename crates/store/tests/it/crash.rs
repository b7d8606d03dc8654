//! Crash safety: a killed process loses nothing that was acknowledged to it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use windlass::{CallId, RecordStore, TenantId};
use windlass_store::SqliteStore;

use crate::sample::call;

/// Set in the process that is going to be killed.
const FILE: &str = "WINDLASS_TEST_CRASH_FILE";
const ROUNDS: usize = 5;
const ACKNOWLEDGED: usize = 300;

/// The test runs itself as the process that it kills.
#[tokio::test]
async fn what_was_flushed_survives_kill_9() {
    if let Some(path) = std::env::var_os(FILE) {
        return append_until_killed(Path::new(&path)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let mut acknowledged = Vec::new();
    for _ in 0..ROUNDS {
        acknowledged.extend(run_and_kill(&path));
    }

    let store = SqliteStore::open(&path).unwrap();
    for &id in &acknowledged {
        assert!(store.get(&TenantId::default(), id).await.unwrap().is_some(), "{id} is lost");
    }
    let connection = Connection::open(&path).unwrap();
    let check: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let rows: u32 =
        connection.query_row("SELECT count(*) FROM calls", [], |row| row.get(0)).unwrap();
    assert!(rows as usize >= acknowledged.len());
    assert_eq!(store.statistics(&TenantId::default()).await.unwrap().total.calls, u64::from(rows));
}

async fn append_until_killed(path: &Path) {
    let store = SqliteStore::open(path).unwrap();
    for round in 0.. {
        let records: Vec<_> = (0..10).map(|second| call(round * 10 + second)).collect();
        let ids: Vec<_> = records.iter().map(|record| record.id).collect();
        records.into_iter().for_each(|record| store.append(record));
        store.flush().await.unwrap();
        let mut out = std::io::stdout().lock();
        for id in ids {
            writeln!(out, "kept {id}").unwrap();
        }
    }
}

/// Returns the ids of which the process said that they are kept.
fn run_and_kill(path: &Path) -> Vec<CallId> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::what_was_flushed_survives_kill_9", "--nocapture"])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut kept = lines.filter_map(|line| line.strip_prefix("kept ")?.parse().ok());
    let mut ids: Vec<CallId> = kept.by_ref().take(ACKNOWLEDGED).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    ids.extend(kept);
    assert!(ids.len() >= ACKNOWLEDGED, "the child said only {}", ids.len());
    ids
}
