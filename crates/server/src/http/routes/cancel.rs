//! Cancels calls, batches and sessions on whichever server they run, including calls
//! that wait for an approval.
//!
//! A key may cancel what it began itself; cancelling what others began needs a
//! permission of its own.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{Instant, sleep};
use windlass::{
    BatchId, CallId, Caller, Error, OwnerId, Status, SuspendedCall, TenantId, UnderWay,
};
use windlass_store::{Change, Expect, Put};

use super::calls::LOOK_AGAIN;
use super::view;
use crate::http::app::App;
use crate::http::cluster::background;
use crate::http::document::operation::RouteSpec;
use crate::http::front::extract::{Authenticated, PathName};
use crate::http::front::problem::Problem;
use crate::state::identity::{Identity, Permission};

/// What is to be cancelled on all servers.
const SPACE: &str = "cancels";
/// What other servers have cancelled: under the id of the cancel and their own.
const ANSWERS: &str = "cancel_answers";
/// How long to wait for the other servers' replies to a cancellation.
const ELSEWHERE: Duration = Duration::from_secs(2);
/// How long a cancellation stays stored for other servers.
const LIFE: Duration = Duration::from_secs(60);

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::post("/v1/calls/{call_id}/cancel", "cancel_call", one)
            .may(Permission::CallTools, "Cancel an unfinished call")
            .details(
                "Side effects so far are not undone. A finished call keeps its result; one \
                 that waits for an approval ends. Only operators and admins may cancel calls \
                 of other keys.",
            )
            .answer::<Cancelled>(200, "Whether there was something to cancel"),
        RouteSpec::post("/v1/conversations/{conversation_id}/cancel", "cancel_conversation", all)
            .may(Permission::CallTools, "Cancel all unfinished calls of a conversation")
            .details(WHICH)
            .answer::<Cancelled>(200, "How many were cancelled, on all servers"),
    ]
}

/// Which calls of a batch or a conversation are cancelled.
pub(crate) const WHICH: &str = "Including those that wait for an approval. A caller cancels \
                                those of its own key, operators and admins those of all keys. \
                                Calls on other servers count, too; a server that does not \
                                answer within two seconds cancels its calls, but they are not \
                                counted.";

/// The result of a cancellation.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Cancelled {
    /// How many calls.
    pub(crate) cancelled: usize,
}

/// The calls to cancel.
#[derive(Serialize, Deserialize)]
struct CancelRequest {
    what: CancelTarget,
    /// Only what this key began; none for calls of any key.
    #[serde(default)]
    begun_by: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CancelTarget {
    Call(CallId),
    Batch(BatchId),
    Conversation(String),
}

impl CancelRequest {
    /// The part of it that this identity may cancel.
    fn of(who: &Identity, what: CancelTarget) -> Self {
        let begun_by = (!who.may(Permission::CancelCalls)).then(|| Arc::clone(&who.key_id));
        Self { what, begun_by }
    }

    fn allows(&self, begun_by: Option<&str>) -> bool {
        self.begun_by.is_none() || self.begun_by.as_deref() == begun_by
    }

    fn fits(&self, call: &UnderWay) -> bool {
        self.means(call.id, call.batch, &call.caller) && self.allows(call.begun_by.as_deref())
    }

    fn fits_waiting(&self, call: &SuspendedCall) -> bool {
        self.means(call.id, call.batch_id, &call.caller) && self.allows(call.begun_by.as_deref())
    }

    fn means(&self, call: CallId, batch: Option<BatchId>, caller: &Caller) -> bool {
        match &self.what {
            CancelTarget::Call(id) => call == *id,
            CancelTarget::Batch(id) => batch == Some(*id),
            CancelTarget::Conversation(name) => caller.conversation.as_deref() == Some(name),
        }
    }

    /// Forbids cancelling what another key began.
    fn must_allow(&self, begun_by: Option<&str>) -> Result<(), Problem> {
        if self.allows(begun_by) {
            return Ok(());
        }
        let why = "another key began this call";
        let roles = Permission::CancelCalls.roles();
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", why)
            .hint(format!("use that key, or one with one of these roles: {roles}")))
    }
}

async fn one(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    name: PathName,
) -> Result<Response, Problem> {
    let id: CallId = name.id("call")?;
    let cancelled = app.cancel_call(&who, id).await?;
    Ok(view::ok(&Cancelled { cancelled: usize::from(cancelled) }))
}

async fn all(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(conversation): PathName,
) -> Result<Response, Problem> {
    let cancel = CancelRequest::of(&who, CancelTarget::Conversation(conversation));
    let cancelled = app.cancel_many(&who.tenant, &cancel).await?;
    Ok(view::ok(&Cancelled { cancelled }))
}

/// Cancels what another server was asked to cancel.
pub(crate) async fn changed(app: &App, change: &Change) -> Result<(), Error> {
    if change.space != SPACE {
        return Ok(());
    }
    let Some(asked) = app.documents.get(SPACE, &change.tenant, &change.id).await? else {
        return Ok(());
    };
    // An unreadable entry was written by another version.
    let Ok(cancel) = serde_json::from_value::<CancelRequest>(asked.body) else { return Ok(()) };
    let cancelled = app.engine.cancel_where(&change.tenant, |call| cancel.fits(call));
    let Some(own) = app.membership.own() else { return Ok(()) };
    let id = format!("{}/{}", change.id, own.as_str());
    let mut put = Put::of(ANSWERS, change.tenant.clone(), id, &Cancelled { cancelled })?;
    put.expires_at = Timestamp::now().checked_add(LIFE).ok();
    app.documents.put(put, Expect::Anything).await.map(drop)
}

impl App {
    /// Cancels a batch, wherever its calls run.
    pub(crate) async fn cancel_batch(&self, who: &Identity, id: BatchId) -> Result<usize, Problem> {
        self.cancel_many(&who.tenant, &CancelRequest::of(who, CancelTarget::Batch(id))).await
    }

    async fn cancel_many(
        &self,
        tenant: &TenantId,
        cancel: &CancelRequest,
    ) -> Result<usize, Problem> {
        // Running calls first, so that none of them is suspended for approval afterwards.
        let running = self.engine.cancel_where(tenant, |call| cancel.fits(call));
        let asked = self.tell_others(tenant, cancel).await?;
        let waiting = self.withdraw_where(tenant, |call| cancel.fits_waiting(call)).await?;
        let until = Instant::now() + ELSEWHERE;
        let mut elsewhere = RemoteCancelReplies::default();
        while let Some(asked) = &asked
            && Instant::now() < until
        {
            elsewhere = asked.answers(self, tenant).await?;
            if elsewhere.all {
                break;
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(running + waiting + elsewhere.cancelled)
    }

    /// Cancels a call, wherever it runs or waits; returns whether it had not
    /// ended.
    async fn cancel_call(&self, who: &Identity, id: CallId) -> Result<bool, Problem> {
        let (tenant, cancel) = (&who.tenant, CancelRequest::of(who, CancelTarget::Call(id)));
        if let Some(call) = self.engine.under_way(tenant, id) {
            cancel.must_allow(call.begun_by.as_deref())?;
            if self.engine.cancel_call(tenant, id) {
                return Ok(true);
            }
        }
        if self.end_of(tenant, id).await?.is_some() {
            return Ok(false);
        }
        if let Some(waiting) = self.approvals.get(tenant, id).await? {
            cancel.must_allow(waiting.call.begun_by.as_deref())?;
            if self.withdraw(tenant, id).await? {
                return Ok(true);
            }
        }
        let pending = background::find(self, tenant, &id.to_string()).await?;
        if let Some(call) = &pending {
            cancel.must_allow(call.begun_by.as_deref())?;
        }
        // Another server may run it; its record shows that it did. One in the
        // background may be about to begin here.
        let asked = self.tell_others(tenant, &cancel).await?;
        if pending.is_some() || asked.is_some() {
            let until = Instant::now() + ELSEWHERE;
            while Instant::now() < until {
                sleep(LOOK_AGAIN).await;
                if pending.is_some() && self.engine.cancel_call(tenant, id) {
                    return Ok(true);
                }
                let answers = match &asked {
                    Some(asked) => asked.answers(self, tenant).await?,
                    None => RemoteCancelReplies::default(),
                };
                if answers.cancelled > 0 {
                    return Ok(true);
                }
                if let Some(end) = self.end_of(tenant, id).await? {
                    return Ok(end == Status::Cancelled);
                }
                // Neither running nor about to run.
                if answers.all && pending.is_none() {
                    break;
                }
            }
        }
        match pending {
            // Cancelled, but still winding down.
            Some(_) => Ok(asked.is_some()),
            None if self.end_of(tenant, id).await?.is_some() => Ok(false),
            None => Err(Problem::not_found("call")),
        }
    }

    /// How a call ended, if it has.
    async fn end_of(&self, tenant: &TenantId, id: CallId) -> Result<Option<Status>, Problem> {
        Ok(self.engine.records().get(tenant, id).await?.map(|record| record.status))
    }

    /// Asks the other servers to cancel something; none where there are none.
    async fn tell_others(
        &self,
        tenant: &TenantId,
        cancel: &CancelRequest,
    ) -> Result<Option<RemoteCancel>, Problem> {
        let others = self.membership.others(self.engine.records()).await?;
        if others.is_empty() {
            return Ok(None);
        }
        let id = CallId::at(Timestamp::now()).to_string();
        let mut put = Put::new(SPACE, tenant.clone(), id.clone(), json!(cancel));
        put.expires_at = Timestamp::now().checked_add(LIFE).ok();
        self.documents.put(put, Expect::Absent).await?;
        Ok(Some(RemoteCancel { id, servers: others.into_iter().map(|other| other.id).collect() }))
    }
}

/// A cancellation that other servers were asked for.
struct RemoteCancel {
    id: String,
    servers: Vec<OwnerId>,
}

/// What they have said so far.
#[derive(Default)]
struct RemoteCancelReplies {
    cancelled: usize,
    /// Whether all of them have.
    all: bool,
}

impl RemoteCancel {
    async fn answers(&self, app: &App, tenant: &TenantId) -> Result<RemoteCancelReplies, Problem> {
        let mut answers = RemoteCancelReplies { cancelled: 0, all: true };
        for server in &self.servers {
            let id = format!("{}/{}", self.id, server.as_str());
            match app.documents.get(ANSWERS, tenant, &id).await? {
                Some(answer) => {
                    let said: Result<Cancelled, _> = serde_json::from_value(answer.body);
                    answers.cancelled += said.map_or(0, |said| said.cancelled);
                }
                None => answers.all = false,
            }
        }
        Ok(answers)
    }
}
