//! The index of records in SQLite: lists of calls that have a value in common.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;
use windlass::{
    CallId, CallRecord, Caller, PageRequest, RecordFilter, RecordStore, Status, TenantId,
};
use windlass_store::{Options, SqliteStore};

use crate::sample::{by, call, failed, of};

fn caller(conversation: usize) -> Caller {
    Caller {
        conversation: Some(format!("c-{conversation}").into()),
        caller_id: Some("agent-7".into()),
        ..Caller::default()
    }
}

/// Number of rows and of ids in the lists.
fn listed(path: &Path) -> (u32, u32) {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT count(*), coalesce(sum(length(ids)), 0) / 16 FROM call_lists";
    connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

/// The ids of all pages.
async fn all(store: &SqliteStore, filter: &RecordFilter, limit: usize) -> Vec<CallId> {
    let mut ids = Vec::new();
    let mut page = PageRequest::first(limit);
    loop {
        let found = store.query(&TenantId::default(), filter, page).await.unwrap();
        ids.extend(found.records.iter().map(|record| record.id));
        match found.next {
            Some(next) => page.after = Some(next),
            None => return ids,
        }
    }
}

#[tokio::test]
async fn calls_that_are_written_together_are_listed_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = SqliteStore::open(&path).unwrap();
    for _ in 0..2_000 {
        store.append(by(caller(1), call(1)));
    }
    store.flush().await.unwrap();
    let (rows, ids) = listed(&path);
    assert_eq!(ids, 3 * 2_000, "by tool, caller and conversation");
    assert!(rows <= 300, "{rows} rows for 2,000 calls");
    let filter = RecordFilter { caller_id: Some("agent-7".into()), ..RecordFilter::default() };
    assert_eq!(all(&store, &filter, 700).await.len(), 2_000);
}

/// Calls end in another order than they begin in, some of them hours later.
#[tokio::test]
async fn pages_over_batches_that_overlap_are_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("calls.db")).unwrap();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut records: Vec<CallRecord> = (0..1_500)
        .map(|_| {
            let record = of(["add", "sub"][rng.usize(..2)], call(rng.i64(0..7_200)));
            let record = by(caller(rng.usize(..3)), record);
            if rng.bool() { record } else { failed(windlass::ErrorKind::Timeout, record) }
        })
        .collect();
    for part in records.chunks(100) {
        part.iter().for_each(|record| store.append(record.clone()));
        store.flush().await.unwrap();
    }
    records.sort_by_key(|record| std::cmp::Reverse(record.id));
    let middle = records[700].created_at;
    for bits in 0_u32..64 {
        let wanted = |bit: u32| bits & (1 << bit) != 0;
        let filter = RecordFilter {
            conversation: wanted(0).then(|| "c-1".to_owned()),
            caller_id: wanted(1).then(|| "agent-7".to_owned()),
            status: wanted(2).then_some(Status::TimedOut),
            tool: wanted(3).then(|| "sub".to_owned()),
            since: wanted(4).then_some(middle),
            until: wanted(5).then_some(middle),
        };
        let expected: Vec<CallId> =
            records.iter().filter(|record| filter.matches(record)).map(|it| it.id).collect();
        assert_eq!(all(&store, &filter, 37).await, expected, "{filter:?}");
    }
}

#[tokio::test]
async fn what_is_deleted_is_taken_off_the_lists() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let options = Options { keep_records: 100, ..Options::default() };
    let store = SqliteStore::open_with(&path, options).unwrap();
    for second in 0..3_000 {
        store.append(by(caller(usize::try_from(second).unwrap() % 7), call(second)));
        if second % 50 == 0 {
            store.flush().await.unwrap();
        }
    }
    store.flush().await.unwrap();
    let connection = Connection::open(&path).unwrap();
    let mut statement = connection.prepare("SELECT ids FROM call_lists").unwrap();
    let rows = statement.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    let ids: BTreeSet<Vec<u8>> = rows
        .flat_map(|ids| ids.unwrap().chunks(16).map(<[u8]>::to_vec).collect::<Vec<_>>())
        .collect();
    // The rows at the edge list some that are gone.
    assert!((100..300).contains(&ids.len()), "{} ids are listed", ids.len());
    let filter = RecordFilter { tool: Some("add".into()), ..RecordFilter::default() };
    assert_eq!(all(&store, &filter, 30).await.len(), 100);
}
