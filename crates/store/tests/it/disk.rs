//! SQLite files: new, old, shared, foreign and corrupt ones.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use windlass::{CallId, ErrorKind, PageRequest, RecordFilter, RecordStore, Status, TenantId};
use windlass_store::{Options, SqliteStore, Synchronous};

use crate::sample::{any, by, call, detailed, shown, start};

fn tenant() -> TenantId {
    TenantId::default()
}

fn refusal(path: &Path) -> String {
    match SqliteStore::open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::StorageUnavailable);
            error.message().replace(path.to_str().unwrap(), "FILE")
        }
    }
}

#[tokio::test]
async fn a_record_is_in_the_file_within_50_ms() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = SqliteStore::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    let mut fastest = Duration::MAX;
    for number in 1..=10 {
        let begin = Instant::now();
        store.append(call(0));
        while count(&other) < number {
            assert!(begin.elapsed() < Duration::from_secs(2), "the record never came");
            std::thread::sleep(Duration::from_millis(1));
        }
        fastest = fastest.min(begin.elapsed());
    }
    // The best of ten: how long a loaded machine takes says nothing of us.
    assert!(fastest <= Duration::from_millis(50), "{fastest:?}");
}

fn count(connection: &Connection) -> u32 {
    connection.query_row("SELECT count(*) FROM calls", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_closed_store_has_kept_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folders/calls.db");
    let record = by(detailed(), call(7));
    for synchronous in [Synchronous::Normal, Synchronous::Full] {
        let options = Options { synchronous, ..Options::default() };
        let store = SqliteStore::open_with(&path, options).unwrap();
        (0..100).for_each(|second| store.append(call(second)));
        if synchronous == Synchronous::Full {
            store.append(record.clone());
            store.keep_output(&tenant(), record.id, b"whole".to_vec()).await.unwrap();
        }
    }
    let store = SqliteStore::open(&path).unwrap();
    let found = store.get(&tenant(), record.id).await.unwrap().unwrap();
    assert_eq!(shown(&found), shown(&record));
    assert_eq!(store.statistics(&tenant()).await.unwrap().total.calls, 201);
    let part = store.read_output(&tenant(), record.id, 1, 3).await.unwrap().unwrap();
    assert_eq!(part.bytes, b"hol");
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("calls.db")).unwrap();
    store.append(call(0));
    store.flush().await.unwrap();
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.len(), 3, "database, log and index of the log: {files:?}");
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
}

#[tokio::test]
async fn many_may_open_a_new_file_at_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.db");
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    let store = SqliteStore::open(&path).unwrap();
                    (0..50).for_each(|second| store.append(call(second)));
                });
            }
        });
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.statistics(&tenant()).await.unwrap().total.calls, 400);
        let page = store.query(&tenant(), &any(), PageRequest::first(1000)).await.unwrap();
        assert_eq!(page.records.len(), 400);
    }
}

#[test]
fn a_newer_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert_eq!(
        refusal(&path),
        "cannot open the record store: FILE has version 99, this windlass knows versions up to 9; use a newer windlass, or name another file"
    );
}

#[tokio::test]
async fn a_database_of_the_first_version_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../../migrations/0001_calls.sql")).unwrap();
    old.pragma_update(None, "application_id", 0x574e_444c).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    let id = CallId::at(start());
    old.execute(
        "INSERT INTO calls (tenant, id, tool, caller_type, status, error_kind, error_message,
             attempts, queue_us, run_us, created_us, arguments)
         VALUES ('default', ?, 'add', 'direct', 1, 'timeout', 'too slow', 1, 2, 3, 4, '{}')",
        [id.uuid().as_bytes()],
    )
    .unwrap();
    drop(old);

    let store = SqliteStore::open(&path).unwrap();
    let record = store.get(&tenant(), id).await.unwrap().unwrap();
    assert_eq!(record.error.unwrap().feedback, None);
    assert_eq!(record.details, None);
    for filter in [
        RecordFilter { tool: Some("add".into()), ..RecordFilter::default() },
        RecordFilter { status: Some(Status::Failed), ..RecordFilter::default() },
    ] {
        let page = store.query(&tenant(), &filter, PageRequest::first(9)).await.unwrap();
        assert_eq!(page.records.len(), 1, "{filter:?}");
    }
    let records: u32 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT records FROM record_total", [], |row| row.get(0))
        .unwrap();
    assert_eq!(records, 1);
}

#[test]
fn the_database_of_another_program_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    let before = fs::read(&path).unwrap();
    assert_eq!(
        refusal(&path),
        "cannot open the record store: FILE is the database of another program; name another file"
    );
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let text = "remember the milk\n".repeat(100);
    fs::write(&path, &text).unwrap();
    assert_eq!(
        refusal(&path),
        "cannot open the record store: FILE is not a SQLite database (or is encrypted); name another file, or move it away to begin with an empty one"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_corrupt_file_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = SqliteStore::open(&path).unwrap();
    (0..1000).for_each(|second| store.append(call(second)));
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    // The first page says where the tables are; everything else is noise.
    bytes[8192..].fill(0xa5);
    fs::write(&path, bytes).unwrap();

    let store = SqliteStore::open(&path).unwrap();
    let error = store.query(&tenant(), &any(), PageRequest::first(10)).await.unwrap_err();
    assert!(error.message().contains("is corrupt; stop all windlass processes"), "{error}");
    drop(store);

    let mut bytes = fs::read(&path).unwrap();
    bytes[100..8192].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    assert!(refusal(&path).contains("FILE is corrupt; stop"), "{}", refusal(&path));
}

#[test]
fn a_folder_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refusal(folder.path()).contains("cannot be opened"), "{}", refusal(folder.path()));
}

#[tokio::test]
async fn the_oldest_outputs_go_first() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { keep_outputs_bytes: 1000, ..Options::default() };
    let store = SqliteStore::open_with(folder.path().join("calls.db"), options).unwrap();
    let ids: Vec<_> = (0..5).map(|_| CallId::at(start())).collect();
    for &id in &ids {
        store.keep_output(&tenant(), id, vec![7; 300]).await.unwrap();
    }
    // The same again frees what it takes the place of.
    store.keep_output(&tenant(), ids[2], vec![8; 300]).await.unwrap();
    let mut kept = Vec::new();
    for &id in &ids {
        kept.push(store.read_output(&tenant(), id, 0, 1).await.unwrap().is_some());
    }
    assert_eq!(kept, [false, false, true, true, true]);
    assert!(store.keep_output(&tenant(), ids[0], vec![0; 1001]).await.is_err());
}

#[tokio::test]
async fn a_tenant_that_keeps_much_pushes_out_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { keep_outputs_bytes: 1000, ..Options::default() };
    let store = SqliteStore::open_with(folder.path().join("calls.db"), options).unwrap();
    let (quiet, quiet_id) = (TenantId::new("quiet"), CallId::at(start()));
    store.keep_output(&quiet, quiet_id, vec![1; 200]).await.unwrap();
    for _ in 0..20 {
        store.keep_output(&tenant(), CallId::at(start()), vec![7; 300]).await.unwrap();
    }
    assert!(store.read_output(&quiet, quiet_id, 0, 1).await.unwrap().is_some());
}

#[tokio::test]
async fn a_record_that_comes_twice_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("calls.db")).unwrap();
    let record = call(1);
    store.append(record.clone());
    store.flush().await.unwrap();
    store.append(call(2));
    store.append(record);
    store.append(call(3));
    let page = store.query(&tenant(), &any(), PageRequest::first(10)).await.unwrap();
    assert_eq!(page.records.len(), 3);
    assert_eq!(store.statistics(&tenant()).await.unwrap().total.calls, 3);
}
