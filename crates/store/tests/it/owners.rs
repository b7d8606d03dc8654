//! Owners: whose calls are left behind, and who closes them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::time::{sleep, timeout};
use windlass::{
    Begun, CallId, CallRecord, Caller, ErrorKind, PageRequest, RecordStore, Status, TenantId,
};
use windlass_store::SqliteStore;

use crate::contract_intents::{intent_of, keyed, together};
use crate::intents::count;
use crate::outage;
use crate::sample::{any, by, call, detailed, shown};

/// Set in a process that a test starts.
const FILE: &str = "WINDLASS_TEST_OWNER_FILE";
const ORPHANS: i64 = 10_000;

fn tenant() -> TenantId {
    TenantId::default()
}

/// The lock files beside a database.
fn lock_files(path: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(path.parent().unwrap()).unwrap();
    let files = files.map(|file| file.unwrap().path());
    files.filter(|file| file.to_str().unwrap().contains("calls.db-owner-")).collect()
}

/// Leaves the open intents of a store to an owner that does not exist.
fn orphan(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute("UPDATE intents SET owner = ?", [[7_u8; 16]]).unwrap();
}

/// A process that does not outlive the test, also where the test fails.
struct Process(Child);

impl Process {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a test of this file as another process.
fn start(test: &str, path: &Path) -> Process {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("owners::{test}"), "--nocapture"])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    Process(child)
}

fn file_to_work_on() -> Option<PathBuf> {
    std::env::var_os(FILE).map(PathBuf::from)
}

/// The ids of the intents that a process says it holds, once it holds them.
fn held(process: &mut Process) -> Vec<CallId> {
    let lines = BufReader::new(process.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let lines = lines.skip_while(|line| !line.starts_with("holds "));
    lines.map_while(|line| line.strip_prefix("holds ")?.parse().ok()).collect()
}

/// The same caller in every process.
fn somebody() -> Caller {
    Caller { parent: Some(uuid::Uuid::from_bytes([3; 16]).into()), ..detailed() }
}

async fn hold_until_killed(path: &Path, calls: i64) {
    let store = SqliteStore::open(path).unwrap();
    let records: Vec<_> = (0..calls).map(|second| by(somebody(), call(second))).collect();
    let begins = records
        .iter()
        .map(|record| store.begin(keyed(&record.id.to_string(), 1, intent_of(record))))
        .collect();
    for begun in together(begins).await {
        assert_eq!(begun.unwrap(), Begun::New);
    }
    let mut out = std::io::stdout().lock();
    for record in &records {
        writeln!(out, "holds {}", record.id).unwrap();
    }
    writeln!(out, "holds them all").unwrap();
    out.flush().unwrap();
    sleep(Duration::from_secs(600)).await;
}

#[tokio::test]
async fn what_a_killed_process_left_is_closed_once_by_many() {
    if let Some(path) = file_to_work_on() {
        return hold_until_killed(&path, ORPHANS).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let mut child = start("what_a_killed_process_left_is_closed_once_by_many", &path);
    let orphans = held(&mut child);
    assert_eq!(orphans.len(), ORPHANS as usize);

    // As long as it lives, its calls are its own.
    let store = SqliteStore::open(&path).unwrap();
    assert!(store.take_interrupted().is_empty());
    drop(store);
    assert_eq!(count(&path, "intents"), ORPHANS as u32);
    assert_eq!(lock_files(&path).len(), 1);

    child.kill();
    let openers: Vec<_> =
        (0..3).map(|_| start("opens_and_says_what_was_interrupted", &path)).collect();
    let mut closed = Vec::new();
    for mut opener in openers {
        let mut text = String::new();
        opener.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(opener.0.wait().unwrap().success(), "{text}");
        closed.extend(
            text.lines()
                .filter_map(|line| Some(line.strip_prefix("closed ")?.parse::<CallId>().unwrap())),
        );
    }
    assert_eq!(closed.len(), orphans.len(), "each is closed and told of once");
    assert_eq!(BTreeSet::from_iter(closed), BTreeSet::from_iter(orphans.iter().copied()));
    assert_eq!((count(&path, "intents"), count(&path, "calls")), (0, ORPHANS as u32));
    assert_eq!(lock_files(&path), [] as [PathBuf; 0]);

    let store = SqliteStore::open(&path).unwrap();
    let found = store.get(&tenant(), orphans[17]).await.unwrap().unwrap();
    let wanted = CallRecord { id: orphans[17], ..by(somebody(), call(17)) };
    let wanted = keyed(&orphans[17].to_string(), 1, intent_of(&wanted)).interrupted();
    assert_eq!(shown(&found), shown(&wanted));
    let statistics = store.statistics(&tenant()).await.unwrap();
    assert_eq!(statistics.total.by_status, [(Status::Interrupted, ORPHANS as u64)].into());
}

/// Does nothing unless the test above starts it.
#[tokio::test]
async fn opens_and_says_what_was_interrupted() {
    let Some(path) = file_to_work_on() else { return };
    let began = Instant::now();
    let store = SqliteStore::open(path).unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let mut out = std::io::stdout().lock();
    writeln!(out).unwrap();
    for record in store.take_interrupted() {
        assert_eq!(record.error.unwrap().kind, ErrorKind::Interrupted);
        writeln!(out, "closed {}", record.id).unwrap();
    }
    assert!(store.take_interrupted().is_empty(), "each is handed out once");
}

#[tokio::test]
async fn a_twin_does_not_wait_for_a_dead_process() {
    if let Some(path) = file_to_work_on() {
        return hold_until_killed(&path, 3).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let mut child = start("a_twin_does_not_wait_for_a_dead_process", &path);
    let orphans = held(&mut child);
    let store = SqliteStore::open(&path).unwrap();
    let again = || store.begin(keyed(&orphans[1].to_string(), 1, intent_of(&call(9))));
    assert_eq!(again().await.unwrap(), Begun::Duplicate(orphans[1]));
    assert!(store.get(&tenant(), orphans[1]).await.unwrap().is_none(), "it still runs");

    child.kill();
    assert_eq!(again().await.unwrap(), Begun::Duplicate(orphans[1]));
    let record = store.get(&tenant(), orphans[1]).await.unwrap().unwrap();
    assert_eq!(record.status, Status::Interrupted);
    let told: BTreeSet<_> = store.take_interrupted().iter().map(|record| record.id).collect();
    assert_eq!(told, BTreeSet::from_iter(orphans));
    assert_eq!(count(&path, "intents"), 0);
}

#[tokio::test]
async fn a_lock_file_comes_with_the_first_intent_and_goes_with_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let (first, second) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    first.append(call(0));
    first.flush().await.unwrap();
    assert_eq!(lock_files(&path).len(), 0);
    let records = [call(1), call(2)];
    first.begin(intent_of(&records[0])).await.unwrap();
    second.begin(intent_of(&records[1])).await.unwrap();
    let files = lock_files(&path);
    assert_eq!(files.len(), 2);
    #[cfg(unix)]
    for file in &files {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    first.append(records[0].clone());
    drop(first);
    assert_eq!(lock_files(&path).len(), 1);
    let third = SqliteStore::open(&path).unwrap();
    assert_eq!((third.take_interrupted().len(), count(&path, "intents")), (0, 1));
    drop(second);
    assert_eq!(lock_files(&path).len(), 0);
    // The second store was closed while its call ran.
    let fourth = SqliteStore::open(&path).unwrap();
    let told: Vec<_> = fourth.take_interrupted().iter().map(|record| record.id).collect();
    assert_eq!(told, [records[1].id]);
}

#[test]
fn a_lock_file_that_nobody_holds_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let beside = |name: &str| folder.path().join(name);
    let id = uuid::Uuid::from_bytes([9; 16]);
    let (left, held) = (beside(&format!("calls.db-owner-{id}")), uuid::Uuid::from_bytes([8; 16]));
    let (held, other) = (beside(&format!("calls.db-owner-{held}")), beside("calls.db-owner-notes"));
    for file in [&left, &held, &other] {
        fs::write(file, "").unwrap();
    }
    let lock = fs::File::open(&held).unwrap();
    lock.try_lock().unwrap();
    drop(SqliteStore::open(&path).unwrap());
    assert_eq!((left.exists(), held.exists(), other.exists()), (false, true, true));
}

#[tokio::test]
async fn orphans_that_cannot_be_closed_yet_are_closed_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = SqliteStore::open(&path).unwrap();
    let (ended, left) = (call(1), call(2));
    store.append(ended.clone());
    store.begin(keyed("k", 1, intent_of(&left))).await.unwrap();
    store.flush().await.unwrap();
    orphan(&path);
    drop(store);

    let locked = outage::lock(&path);
    let store = outage::open(&path);
    assert!(store.take_interrupted().is_empty());
    assert!(store.get(&tenant(), ended.id).await.unwrap().is_some(), "it can be read");
    store.begin(intent_of(&call(3))).await.unwrap_err();
    locked.execute_batch("COMMIT").unwrap();

    assert_eq!(store.begin(intent_of(&call(4))).await.unwrap(), Begun::New);
    let told = timeout(Duration::from_secs(5), async {
        loop {
            let told = store.take_interrupted();
            if !told.is_empty() {
                return told;
            }
            sleep(Duration::from_millis(5)).await;
        }
    });
    assert_eq!(told.await.unwrap()[0].id, left.id);
    let page = store.query(&tenant(), &any(), PageRequest::first(10)).await.unwrap();
    assert_eq!(page.records.len(), 2);
}

#[tokio::test]
async fn an_orphan_whose_record_came_all_the_same_is_not_closed_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let record = call(1);
    let store = SqliteStore::open(&path).unwrap();
    store.begin(intent_of(&record)).await.unwrap();
    let other = SqliteStore::open(&path).unwrap();
    other.append(record.clone());
    drop(other);
    drop(store);
    assert_eq!(count(&path, "intents"), 1);

    let store = SqliteStore::open(&path).unwrap();
    assert!(store.take_interrupted().is_empty());
    assert_eq!(count(&path, "intents"), 0);
    let found = store.get(&tenant(), record.id).await.unwrap().unwrap();
    assert_eq!(found.status, Status::Succeeded);
    assert_eq!(store.statistics(&tenant()).await.unwrap().total.calls, 1);
}

#[tokio::test]
async fn others_see_who_lives_and_leave_its_calls_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let (first, second) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    let name = first.owner().await.unwrap().unwrap();
    assert_eq!(lock_files(&path).len(), 1, "whoever has heard the name can look");
    assert!(!first.is_gone(&name).await.unwrap() && !second.is_gone(&name).await.unwrap());
    let record = call(1);
    assert_eq!(first.begin(intent_of(&record)).await.unwrap(), Begun::New);
    assert_eq!(second.begin(intent_of(&record)).await.unwrap(), Begun::Duplicate(record.id));
    assert!(second.get(&tenant(), record.id).await.unwrap().is_none(), "it still runs");

    // Closed in the middle of the call: whoever wants to run it hears what it came to.
    drop(first);
    assert!(second.is_gone(&name).await.unwrap());
    assert_eq!(second.begin(intent_of(&record)).await.unwrap(), Begun::Duplicate(record.id));
    let closed = second.get(&tenant(), record.id).await.unwrap().unwrap();
    assert_eq!(closed.status, Status::Interrupted);
    assert!(second.is_gone(&windlass::OwnerId::new("no name of ours")).await.unwrap());
}
