//! Background calls: which there are, and which server runs them, kept where every
//! server can read it.
//!
//! A read-only call has no intent in the record store, and a call that waits for a
//! slot has none yet. The document that is kept here describes the request, so that
//! any server can close the call if the one that accepted it crashes.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::{CallId, CallRequest, Error, ErrorKind, Grace, OwnerId, TenantId};
use windlass_store::{Document, Expect, Put};

use crate::http::app::App;
use crate::http::front::problem::Problem;
use crate::http::routes::context::CallBody;
use crate::http::routes::view;
use crate::state::identity::Identity;

const SPACE: &str = "pending_calls";
/// How long a call may be known after the longest time that it may take.
const GRACE: Duration = Duration::from_secs(300);
/// Limit of the arguments that are kept to record an interrupted call.
const MAX_ARGUMENTS: usize = 64 * 1024;
/// How often it is looked whether another server left calls.
const LOOK: Duration = Duration::from_secs(5);

/// A call that runs in the background.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Accepted {
    /// The call's id.
    pub(crate) call_id: String,
    /// `running`.
    pub(crate) status: &'static str,
}

/// What is kept of a call in the background until it has a record.
#[derive(Clone, Serialize, Deserialize)]
struct UnfinishedCall {
    /// The server that runs it; none where there can be no other.
    #[serde(default)]
    server: Option<OwnerId>,
    /// The key that began it.
    #[serde(default)]
    begun_by: Option<String>,
    #[serde(default)]
    created_at: Timestamp,
    /// What was asked for, as text: documents are not as deep as arguments may be.
    #[serde(default)]
    call: String,
}

/// What another server runs, or ran.
pub(crate) struct Elsewhere {
    /// The key that began it.
    pub(crate) begun_by: Option<String>,
    /// The person on whose behalf it is made.
    pub(crate) user: Option<String>,
}

/// What is kept of a call. Variables may hold what nobody should read, and its
/// key is kept with its intent.
pub(crate) fn kept(body: &CallBody) -> String {
    let mut body = CallBody { idempotency_key: None, ..body.clone() };
    body.variables.clear();
    let text = serde_json::to_string(&body).unwrap_or_default();
    if text.len() <= MAX_ARGUMENTS {
        return text;
    }
    body.arguments = json!({});
    serde_json::to_string(&body).unwrap_or_default()
}

/// Runs a call in the background. That it runs is known to all servers before
/// its id is given out. `call` is what is [kept] of it; with `grace` it has the
/// time that a person needs, if its tool asks something.
pub(crate) async fn begin(
    app: &Arc<App>,
    who: Identity,
    mut request: CallRequest,
    call: String,
    grace: Option<Grace>,
) -> Result<Response, Problem> {
    let Identity { tenant, key_id, .. } = who;
    let created_at = Timestamp::now();
    let id = CallId::at(created_at);
    let server = app.engine.records().owner().await?;
    let pending = UnfinishedCall { server, begun_by: Some(key_id.to_string()), created_at, call };
    let mut put = Put::new(SPACE, tenant.clone(), id.to_string(), json!(pending));
    put.expires_at = created_at.checked_add(windlass::duration::MAX + GRACE).ok();
    app.documents.put(put, Expect::Anything).await?;
    let own = Arc::clone(app);
    if let Some(grace) = &grace {
        request = request.grace(grace.clone());
    }
    let askable = app.questions.expect(tenant.clone(), id, grace);
    app.tasks.spawn(async move {
        let _askable = askable;
        own.engine.call(request.id(id)).await;
        // From here on, the record is the source of truth.
        let flushed = own.engine.records().flush().await;
        let name = id.to_string();
        let gone = own.documents.delete(SPACE, &tenant, &name, Expect::Anything).await;
        if let Err(error) = flushed.and(gone.map(drop)) {
            tracing::warn!(%error, call = %id, "a background call may be shown as running");
        }
    });
    let accepted = Accepted { call_id: id.to_string(), status: "running" };
    let mut response = view::with_status(StatusCode::ACCEPTED, &accepted);
    let headers = response.headers_mut();
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/calls/{id}")) {
        headers.insert(header::LOCATION, place);
    }
    headers.insert("preference-applied", HeaderValue::from_static("respond-async"));
    Ok(response)
}

/// A call that runs in the background, wherever it does. One whose server is
/// gone is closed, and is none.
pub(crate) async fn find(
    app: &App,
    tenant: &TenantId,
    id: &str,
) -> Result<Option<Elsewhere>, Error> {
    let Some(document) = app.documents.get(SPACE, tenant, id).await? else { return Ok(None) };
    let pending = read(&document)?;
    match close_left(app, &document, &pending).await? {
        true => Ok(None),
        false => {
            let call: Option<CallBody> = serde_json::from_str(&pending.call).ok();
            let user = call.and_then(|call| call.user_id);
            Ok(Some(Elsewhere { begun_by: pending.begun_by, user }))
        }
    }
}

/// Periodically closes the calls of servers that crashed.
pub(crate) async fn look_after(app: &App) {
    loop {
        match app.documents.all(SPACE).await {
            Ok(calls) => look(app, &calls).await,
            Err(error) => tracing::warn!(%error, "calls in the background cannot be looked at"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn look(app: &App, calls: &[Document]) {
    for document in calls {
        let closed = async { close_left(app, document, &read(document)?).await };
        if let Err(error) = closed.await {
            tracing::warn!(%error, call = document.id, "a call in the background stays open");
        }
    }
}

/// Closes a call as interrupted if its server is gone; returns whether it is.
/// One that waits for a person goes on waiting.
async fn close_left(
    app: &App,
    document: &Document,
    pending: &UnfinishedCall,
) -> Result<bool, Error> {
    let Some(server) = &pending.server else { return Ok(false) };
    if !app.engine.records().is_gone(server).await? {
        return Ok(false);
    }
    // Only one of several servers closes it.
    let own = UnfinishedCall { server: app.engine.records().owner().await?, ..pending.clone() };
    let Some(version) = keep(app, document, &own, document.version).await? else {
        return Ok(true);
    };
    let tenant = &document.tenant;
    if let Err(error) = close(app, document, pending).await {
        // The next poll tries again.
        let _ = keep(app, document, pending, version).await;
        return Err(error);
    }
    app.documents.delete(SPACE, tenant, &document.id, Expect::Anything).await?;
    Ok(true)
}

async fn close(app: &App, document: &Document, pending: &UnfinishedCall) -> Result<(), Error> {
    let id: CallId = document.id.parse().map_err(|_| unreadable(document))?;
    let tenant = &document.tenant;
    if app.approvals.get(tenant, id).await?.is_some() {
        return Ok(());
    }
    let body: CallBody = serde_json::from_str(&pending.call)
        .map_err(|error| unreadable(document).with_source(error))?;
    let request = body.request(tenant.clone(), "").map_err(|_| unreadable(document))?;
    app.engine.give_up(request.id(id), pending.created_at).await
}

async fn keep(
    app: &App,
    document: &Document,
    pending: &UnfinishedCall,
    version: u64,
) -> Result<Option<u64>, Error> {
    let mut put = Put::new(SPACE, document.tenant.clone(), &document.id, json!(pending));
    put.expires_at = document.expires_at;
    app.documents.put(put, Expect::Version(version)).await
}

fn read(document: &Document) -> Result<UnfinishedCall, Error> {
    serde_json::from_value(document.body.clone())
        .map_err(|error| unreadable(document).with_source(error))
}

fn unreadable(document: &Document) -> Error {
    let why = format!("the call {} in the background cannot be read", document.id);
    Error::new(ErrorKind::Internal, why)
}
