//! What several test modules use.

use windlass::{
    CallRecord, CallResult, Engine, Error, ErrorKind, PageRequest, RecordFilter, TenantId,
};

pub(crate) async fn records(engine: &Engine) -> Vec<CallRecord> {
    let all = RecordFilter::default();
    let page = PageRequest::first(1000);
    engine.records().query(&TenantId::default(), &all, page).await.unwrap().records
}

pub(crate) async fn only_record(engine: &Engine) -> CallRecord {
    let mut records = records(engine).await;
    assert_eq!(records.len(), 1, "exactly one record");
    records.remove(0)
}

pub(crate) fn kind(result: &CallResult) -> ErrorKind {
    result.error().map(Error::kind).expect("an error")
}
