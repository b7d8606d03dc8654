//! A full disk: the operating system refuses to let files grow.
//!
//! The test runs itself with a limit on file size, because a disk cannot be filled up
//! without being root. SQLite is told "file too large" rather than "no space left", and
//! takes the same code path.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use windlass::{Begun, CallRecord, ErrorKind, RecordStore, TenantId};
use windlass_store::SqliteStore;

use crate::contract_intents::{intent_of, keyed};
use crate::intents::count;
use crate::sample::call;

/// Set in the process that has a limit.
const FILE: &str = "WINDLASS_TEST_FULL_DISK_FILE";

#[tokio::test]
async fn a_call_cannot_begin_on_a_full_disk_and_can_when_there_is_room() {
    if let Some(path) = std::env::var_os(FILE) {
        return fill_and_make_room(Path::new(&path)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    // Blocks of 512 or 1024 bytes. Without the trap, the system would end the
    // process instead of refusing the write.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -S -f 4000; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("full_disk::a_call_cannot_begin_on_a_full_disk_and_can_when_there_is_room")
        .env(FILE, &path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("made room"), "{output:?}");

    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.take_interrupted().len(), 0);
    assert_eq!(count(&path, "intents"), 0);
}

async fn fill_and_make_room(path: &Path) {
    let tenant = TenantId::default();
    let store = SqliteStore::open(path).unwrap();
    let large = |second| CallRecord {
        arguments: Arc::new(json!({ "text": "x".repeat(100_000) })),
        ..call(second)
    };
    let mut running = Vec::new();
    let error = loop {
        let record = large(running.len() as i64);
        let key = format!("k-{}", running.len());
        match store.begin(keyed(&key, 1, intent_of(&record))).await {
            Ok(begun) => assert_eq!(begun, Begun::New),
            Err(error) => break error,
        }
        running.push(record);
        assert!(running.len() < 1000, "there is no limit");
    };
    assert_eq!(error.kind(), ErrorKind::StorageUnavailable);
    assert!(error.message().contains("cannot write call records"), "{error}");
    assert_eq!(count(path, "intents"), running.len() as u32);
    let refused = running.len();
    for _ in 0..3 {
        store.begin(intent_of(&large(99))).await.unwrap_err();
    }
    assert!(store.get(&tenant, running[0].id).await.unwrap().is_none(), "reads are answered");
    assert_eq!(store.statistics(&tenant).await.unwrap().total.calls, 0);
    // Calls that ran can end, if only in memory.
    store.append(running[0].clone());
    store.flush().await.unwrap_err();

    let made_room = Command::new("prlimit")
        .args(["--fsize=unlimited", "--pid", &std::process::id().to_string()])
        .status()
        .unwrap();
    assert!(made_room.success());
    let record = large(100);
    let key = format!("k-{refused}");
    assert_eq!(store.begin(keyed(&key, 1, intent_of(&record))).await.unwrap(), Begun::New);
    assert!(store.get(&tenant, running[0].id).await.unwrap().is_some());
    for record in running[1..].iter().chain([&record]) {
        store.append(record.clone());
    }
    store.flush().await.unwrap();
    println!("made room");
}
