//! Database files that are deleted, replaced or moved while they are open. Writes to them
//! would be lost when the process ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use windlass::{Begun, ErrorKind, RecordStore, TenantId};
use windlass_store::{Documents, Expect, NewEvent, Options, Put, SqliteDocuments, SqliteStore};

use crate::contract_intents::intent_of;
use crate::sample::call;

/// Something that happens to the files of a database.
type Mishap = fn(&Path);

const MISHAPS: &[(&str, Mishap)] = &[
    ("the file is deleted", |path| fs::remove_file(path).unwrap()),
    ("the file is replaced by a copy of itself", |path| {
        let copy = path.with_extension("copy");
        fs::copy(path, &copy).unwrap();
        fs::rename(&copy, path).unwrap();
    }),
    ("the file is replaced by an empty one", |path| {
        fs::remove_file(path).unwrap();
        fs::write(path, "").unwrap();
    }),
    ("the log is deleted", |path| fs::remove_file(beside(path, "-wal")).unwrap()),
    ("the index of the log is deleted", |path| fs::remove_file(beside(path, "-shm")).unwrap()),
    ("all files are deleted", |path| {
        for file in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
            fs::remove_file(file).unwrap();
        }
    }),
    ("the folder is renamed", |path| {
        let folder = path.parent().unwrap();
        fs::rename(folder, folder.with_extension("away")).unwrap();
    }),
];

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(ending);
    name.into()
}

/// A store that does not wait long for its last records.
fn open(path: &Path) -> SqliteStore {
    let close_timeout = Duration::from_millis(100);
    SqliteStore::open_with(path, Options { close_timeout, ..Options::default() }).unwrap()
}

fn put(id: &str) -> Put {
    Put::new("notes", TenantId::default(), id, json!({}))
}

fn event() -> NewEvent {
    NewEvent {
        tenant: TenantId::default(),
        conversation: None,
        batch: None,
        name: "tool_added".to_owned(),
        body: json!({}),
    }
}

#[tokio::test]
async fn nothing_is_acknowledged_into_a_file_that_is_gone() {
    for (what, mishap) in MISHAPS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/calls.db");
        let store = open(&path);
        let documents = SqliteDocuments::open(&path).unwrap();
        let (running, next) = (call(0), call(1));
        assert_eq!(store.begin(intent_of(&running)).await.unwrap(), Begun::New);
        documents.put(put("before"), Expect::Anything).await.unwrap();
        store.probe().await.unwrap();

        mishap(&path);
        let refused = store.begin(intent_of(&next)).await.expect_err(what);
        assert_eq!(refused.kind(), ErrorKind::StorageUnavailable, "{what}");
        assert!(refused.message().contains("while it was in use"), "{what}: {refused}");
        assert!(refused.message().contains("restart windlass"), "{what}: {refused}");
        // What ran meanwhile is not said to be kept, however often it is asked.
        store.append(running);
        for _ in 0..3 {
            store.flush().await.expect_err(what);
        }
        assert_eq!(store.unwritten(), 1, "{what}");
        store.probe().await.expect_err(what);
        store.keep_output(&TenantId::default(), next.id, vec![1]).await.expect_err(what);
        documents.put(put("after"), Expect::Anything).await.expect_err(what);
        documents.append_events(vec![event()]).await.expect_err(what);
    }
}

#[tokio::test]
async fn a_folder_that_comes_back_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let (data, away) = (folder.path().join("data"), folder.path().join("away"));
    let path = data.join("calls.db");
    let store = SqliteStore::open(&path).unwrap();
    let documents = SqliteDocuments::open(&path).unwrap();
    let (running, next) = (call(0), call(1));
    store.begin(intent_of(&running)).await.unwrap();
    fs::rename(&data, &away).unwrap();
    store.append(running.clone());
    store.flush().await.unwrap_err();
    store.begin(intent_of(&next)).await.unwrap_err();

    fs::rename(&away, &data).unwrap();
    store.probe().await.unwrap();
    assert_eq!(store.begin(intent_of(&next)).await.unwrap(), Begun::New);
    documents.put(put("after"), Expect::Anything).await.unwrap();
    store.flush().await.unwrap();
    assert!(store.get(&TenantId::default(), running.id).await.unwrap().is_some());
    assert_eq!(store.unwritten(), 0);
}

/// Two files would be read otherwise: the old one on connections that are open,
/// the new one on those that come.
#[tokio::test]
async fn questions_never_go_to_a_file_that_came_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = open(&path);
    for file in [path.clone(), beside(&path, "-wal"), beside(&path, "-shm")] {
        fs::remove_file(file).unwrap();
    }
    let other = SqliteStore::open(&path).unwrap();
    let foreign = call(5);
    other.append(foreign.clone());
    other.flush().await.unwrap();
    let asked = store.get(&TenantId::default(), foreign.id).await;
    assert!(!matches!(asked, Ok(Some(_))), "{asked:?}");
    store.begin(intent_of(&call(6))).await.unwrap_err();
    other.begin(intent_of(&call(6))).await.unwrap();
}
