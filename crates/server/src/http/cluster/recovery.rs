//! Recovers the event streams of a server that crashed.
//!
//! Events are written shortly after they happen. A server that is killed loses the
//! last ones, and its running calls never emit an end. Another server, or the same
//! one after a restart, completes the streams: every call whose start was published
//! gets an end, as its record says or as interrupted; and subscribers that were
//! connected before the crash get a `gap` event, because what left neither an event
//! nor a record cannot be known.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass::{
    CallId, CallRecord, Error, ErrorKind, Intent, OwnerId, PageRequest, RecordFilter, Status,
    TenantId,
};
use windlass_store::{EventFilter, NewEvent};

use crate::http::app::App;

/// How often it is looked whether a server has crashed.
const LOOK: Duration = Duration::from_secs(2);
/// Events in one read.
const PAGE: usize = 1024;
/// How much earlier than the last event that was kept a call may have come whose
/// events were not.
const SLACK: Duration = Duration::from_secs(60);
/// The most calls of a tenant without any event that are looked for.
const MOST_CALLS: usize = 20_000;
/// The field of a kept event that says which server it is from. Readers do not
/// see it.
pub(crate) const SERVER: &str = "server";

/// Recovers the events of servers that have crashed, again and again.
async fn look_after(app: &App) {
    loop {
        tokio::time::sleep(LOOK).await;
        look(app).await;
    }
}

/// Recovers what can be recovered now.
pub(crate) async fn look(app: &App) {
    let recovered = async {
        app.membership.stay().await?;
        recover(app).await
    };
    if let Err(error) = recovered.await {
        tracing::warn!(%error, "it cannot be seen yet whether a server has crashed");
    }
}

/// Recovers the events of all servers that have crashed.
async fn recover(app: &App) -> Result<(), Error> {
    let records = app.engine.records();
    let crashed = app.membership.crashed(records).await?;
    if crashed.is_empty() {
        return Ok(());
    }
    let alone = app.membership.others(records).await?.is_empty();
    for member in crashed {
        let Some(member) = app.membership.claim(member).await? else { continue };
        let (_, newest) = app.documents.event_range().await?;
        let mut ends = 0;
        for (tenant, since, since_at) in app.events.listened() {
            let told = PublishedEvents::read(app, &tenant, since, &member.id).await?;
            let from = alone.then(|| told.unsure_from(since_at.max(member.started_at)));
            ends += recover_tenant(app, &tenant, &told, from).await?;
        }
        // The mark is set before the server is taken off the list, and both may
        // be done twice.
        app.events.mark_gap(newest).await?;
        app.membership.bury(&member).await?;
        tracing::warn!(server = member.id.as_str(), ends, "recovered the events of a crash");
    }
    Ok(())
}

/// Recovers what a tenant's readers were to hear; returns how many ends. Records
/// do not say which server made them: only where no other is there, those from
/// `from` on without an event are of the one that crashed.
async fn recover_tenant(
    app: &App,
    tenant: &TenantId,
    told: &PublishedEvents,
    from: Option<Timestamp>,
) -> Result<usize, Error> {
    let mut ends = Vec::new();
    for (id, begun) in &told.open {
        let record = app.engine.records().get(tenant, *id).await?;
        ends.push(end_of(begun, record.as_ref()));
    }
    if let Some(from) = from {
        for record in calls_since(app, tenant, from).await? {
            if !told.ended.contains(&record.id) && !told.open.contains_key(&record.id) {
                ends.push(end_of_record(&record));
            }
        }
    }
    let count = ends.len();
    app.events.append_ends(ends).await?;
    Ok(count)
}

/// The events of a tenant that were published.
#[derive(Default)]
struct PublishedEvents {
    /// Calls of the server whose start was published, but no end.
    open: HashMap<CallId, NewEvent>,
    ended: HashSet<CallId>,
    first_at: Option<Timestamp>,
    last_at: Option<Timestamp>,
}

impl PublishedEvents {
    async fn read(
        app: &App,
        tenant: &TenantId,
        since: u64,
        server: &OwnerId,
    ) -> Result<Self, Error> {
        let mut told = Self::default();
        let filter = EventFilter { tenant: Some(tenant), ..EventFilter::default() };
        let mut after = since;
        loop {
            let page = app.documents.events(after, filter, PAGE).await?;
            let full = page.len() == PAGE;
            for kept in page {
                after = kept.position;
                told.add(kept.event, server);
            }
            if !full {
                return Ok(told);
            }
            tokio::task::yield_now().await;
        }
    }

    /// From when on calls may have come of which nothing was kept. Events are kept
    /// in the order in which they happen, so it is not long before the last one;
    /// and what is older than the first one may have been told and forgotten.
    fn unsure_from(&self, earliest: Timestamp) -> Timestamp {
        let Some(last) = self.last_at else { return earliest };
        let from = last.checked_sub(SLACK).unwrap_or(last);
        from.max(earliest).max(self.first_at.unwrap_or(from))
    }

    fn add(&mut self, event: NewEvent, server: &OwnerId) {
        if let Some(at) = event.body["at"].as_str().and_then(|at| at.parse().ok()) {
            self.first_at.get_or_insert(at);
            self.last_at = Some(at);
        }
        let Some(id) = call_of(&event) else { return };
        if is_end(&event) {
            self.open.remove(&id);
            self.ended.insert(id);
        } else if event.body[SERVER].as_str() == Some(server.as_str()) {
            self.open.insert(id, event);
        }
    }
}

/// The tenant's calls from a time on.
async fn calls_since(
    app: &App,
    tenant: &TenantId,
    from: Timestamp,
) -> Result<Vec<CallRecord>, Error> {
    let mut found = Vec::new();
    let (filter, mut page) = (RecordFilter::default(), PageRequest::first(PageRequest::MAX));
    loop {
        let read = app.engine.records().query(tenant, &filter, page).await?;
        let before = found.len();
        let all = read.records.len();
        found.extend(read.records.into_iter().filter(|record| record.created_at >= from));
        match read.next {
            Some(next) if found.len() - before == all && found.len() < MOST_CALLS => {
                page = PageRequest { after: Some(next), ..page };
            }
            _ => break,
        }
    }
    // In the order of their calls.
    found.reverse();
    Ok(found)
}

/// The call that a kept event is about.
pub(crate) fn call_of(event: &NewEvent) -> Option<CallId> {
    event.body["call_id"].as_str()?.parse().ok()
}

/// Whether a kept event is the end of a call.
pub(crate) fn is_end(event: &NewEvent) -> bool {
    matches!(&*event.name, "execution_completed" | "execution_failed")
}

/// The end of a call whose start was published.
fn end_of(begun: &NewEvent, record: Option<&CallRecord>) -> NewEvent {
    let mut body = begun.body.clone();
    if let Value::Object(body) = &mut body {
        body.remove(SERVER);
    }
    let name = match record {
        Some(record) => add_end(&mut body, record.status, record),
        None => {
            body["status"] = json!(Status::Interrupted);
            body["error_kind"] = json!(ErrorKind::Interrupted);
            body["error"] = json!(Intent::INTERRUPTED);
            body["execution_time"] = json!(0.0);
            "execution_failed"
        }
    };
    finished(begun.clone(), name, body)
}

/// The end of a call without published events.
fn end_of_record(record: &CallRecord) -> NewEvent {
    let mut body = json!(&*record.caller);
    body["call_id"] = json!(record.id);
    if let Some(call_ref) = &record.call_ref {
        body["call_ref"] = json!(call_ref);
    }
    body["tool_name"] = json!(record.tool_name);
    let name = add_end(&mut body, record.status, record);
    let event = NewEvent {
        tenant: record.caller.tenant.clone(),
        conversation: record.caller.conversation.as_ref().map(ToString::to_string),
        batch: None,
        name: String::new(),
        body: Value::Null,
    };
    finished(event, name, body)
}

fn finished(event: NewEvent, name: &str, mut body: Value) -> NewEvent {
    body["event_type"] = json!(name);
    body["at"] = json!(Timestamp::now());
    NewEvent { name: name.to_owned(), body, ..event }
}

/// Adds how a call ended; returns the event's name.
fn add_end(body: &mut Value, status: Status, record: &CallRecord) -> &'static str {
    body["execution_time"] = json!(record.run_time.as_secs_f64());
    let Some(error) = &record.error else { return "execution_completed" };
    body["status"] = json!(status);
    body["error_kind"] = json!(error.kind);
    body["error"] = json!(error.message);
    "execution_failed"
}

/// Looks after servers that crash, from now on.
pub(crate) fn start(app: &Arc<App>) {
    let app = Arc::clone(app);
    tokio::spawn(async move { look_after(&app).await });
}
