//! The approval queue: calls that wait for a person's verdict, and the approval
//! rules of each tenant. Both are kept in the documents, so that every server on
//! the database shows the same queue.

mod pending;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use windlass::{
    Approval, ApprovalRules, Approvals, BoxFuture, Call, CallId, CallResult, Decision, Engine,
    Error, ErrorKind, OwnerId, SuspendedCall, TenantId, Verdict,
};
use windlass_store::{Change, Document, Documents, Expect, Put};

use pending::{EndingCalls, EndingGuard};
pub(crate) use pending::{PendingApproval, SettledCall};

/// Calls that wait, or that were decided and have not ended.
const SPACE: &str = crate::state::quota::APPROVALS;
/// The rules of tenants.
const RULES: &str = "approval_rules";
/// The name of a tenant's one document of rules.
const OWN: &str = "rules";
/// How often it is looked whether nobody decided in time, and whether another
/// server left calls; sooner where calls wait for less than ten times as long.
const LOOK: Duration = Duration::from_secs(5);

/// The approval rules, and the calls that wait for a verdict.
pub(crate) struct ApprovalQueue {
    documents: Arc<dyn Documents>,
    /// The operator's rules, which come before those of every tenant.
    operators: ApprovalRules,
    rules: ArcSwap<HashMap<TenantId, TenantRules>>,
    ending: EndingCalls,
    /// How long a call waits for a person.
    patience: Duration,
}

/// The rules of a tenant.
struct TenantRules {
    own: Arc<ApprovalRules>,
    /// The operator's, then its own; its own default counts.
    all: ApprovalRules,
}

impl ApprovalQueue {
    pub(crate) fn new(
        documents: Arc<dyn Documents>,
        operators: ApprovalRules,
        patience: Duration,
    ) -> Arc<Self> {
        let (rules, ending) = (ArcSwap::default(), EndingCalls::default());
        Arc::new(Self { documents, operators, rules, ending, patience })
    }

    /// Until when a call waits.
    pub(crate) fn waits_until(&self, call: &SuspendedCall) -> Timestamp {
        call.created_at.checked_add(self.patience).unwrap_or(Timestamp::MAX)
    }

    /// Reads the rules of all tenants.
    pub(crate) async fn read_rules(&self) -> Result<(), Error> {
        let mut all = HashMap::new();
        for document in self.documents.all(RULES).await? {
            let own = serde_json::from_value(document.body).unwrap_or_else(|error| {
                // Fail closed: unreadable rules deny everything.
                tracing::error!(tenant = %document.tenant, %error, "rules cannot be read");
                ApprovalRules { default: Approval::Ask, ..Default::default() }
            });
            let rules = [self.operators.rules.clone(), own.rules.clone()].concat();
            let combined = ApprovalRules { rules, default: own.default };
            all.insert(document.tenant, TenantRules { own: Arc::new(own), all: combined });
        }
        self.rules.store(Arc::new(all));
        Ok(())
    }

    /// Another server may have changed the rules.
    pub(crate) async fn changed(&self, change: &Change) -> Result<(), Error> {
        match change.space.is_empty() || change.space == RULES {
            true => self.read_rules().await,
            false => Ok(()),
        }
    }

    /// The rules that a tenant has set.
    pub(crate) fn rules(&self, tenant: &TenantId) -> Arc<ApprovalRules> {
        self.rules.load().get(tenant).map(|rules| Arc::clone(&rules.own)).unwrap_or_default()
    }

    pub(crate) async fn set_rules(
        &self,
        tenant: &TenantId,
        rules: &ApprovalRules,
    ) -> Result<(), Error> {
        let put = Put::of(RULES, tenant.clone(), OWN, rules)?;
        self.documents.put(put, Expect::Anything).await?;
        self.read_rules().await
    }

    /// The calls of a tenant that wait or have not ended, after this one.
    pub(crate) async fn list(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<PendingApproval>, Option<String>), Error> {
        let mut page = self.documents.list(SPACE, tenant, after, limit + 1).await?;
        let more = page.len() > limit;
        page.truncate(limit);
        let next = page.last().filter(|_| more).map(|last| last.id.clone());
        let waiting = page.iter().map(read).collect::<Result<_, _>>()?;
        Ok((waiting, next))
    }

    pub(crate) async fn get(
        &self,
        tenant: &TenantId,
        id: CallId,
    ) -> Result<Option<PendingApproval>, Error> {
        let found = self.documents.get(SPACE, tenant, &id.to_string()).await?;
        found.as_ref().map(read).transpose()
    }

    /// Writes a verdict down. Of several people or servers, the first one
    /// decides; none comes back for the others.
    pub(crate) async fn decide(
        &self,
        engine: &Engine,
        tenant: &TenantId,
        id: CallId,
        verdict: Verdict,
    ) -> Result<Option<SettledCall>, Error> {
        self.settle(engine, tenant, id, |waiting| waiting.verdict = Some(verdict)).await
    }

    /// Writes down that nobody wants a call any more, unless somebody was
    /// quicker to decide about it.
    pub(crate) async fn withdraw(
        &self,
        engine: &Engine,
        tenant: &TenantId,
        id: CallId,
    ) -> Result<Option<SettledCall>, Error> {
        self.settle(engine, tenant, id, |waiting| waiting.withdrawn = true).await
    }

    async fn settle(
        &self,
        engine: &Engine,
        tenant: &TenantId,
        id: CallId,
        change: impl FnOnce(&mut PendingApproval) + Send,
    ) -> Result<Option<SettledCall>, Error> {
        let Some(at_work) = self.ending.begin(id) else { return Ok(None) };
        let Some(document) = self.documents.get(SPACE, tenant, &id.to_string()).await? else {
            return Ok(None);
        };
        let mut waiting = read(&document)?;
        if !waiting.is_open() {
            return Ok(None);
        }
        change(&mut waiting);
        self.take(engine, &document, waiting, at_work).await
    }

    /// Claims a call for this server, unless another has changed it.
    async fn take(
        &self,
        engine: &Engine,
        document: &Document,
        mut waiting: PendingApproval,
        at_work: EndingGuard,
    ) -> Result<Option<SettledCall>, Error> {
        waiting.server = engine.records().owner().await?;
        let put = Put::of(SPACE, document.tenant.clone(), &document.id, &waiting)?;
        let mine = self.documents.put(put, Expect::Version(document.version)).await?;
        Ok(mine.map(|_| SettledCall { waiting, _at_work: at_work }))
    }

    /// Ends a call as was decided. What has begun is not begun again, whoever
    /// asks how often.
    pub(crate) async fn finish(&self, engine: &Engine, settled: SettledCall) -> CallResult {
        let SettledCall { waiting: PendingApproval { call, verdict, .. }, _at_work } = settled;
        let (tenant, id) = (call.caller.tenant.clone(), call.id);
        let result = match verdict {
            Some(verdict) => engine.resume(call, verdict).await,
            None => engine.withdraw(call).await,
        };
        if result.attempts == 0 && is_without_store(&result) {
            tracing::warn!(call = %id, "a call that was decided is tried again later");
            return result;
        }
        let gone = self.documents.delete(SPACE, &tenant, &id.to_string(), Expect::Anything).await;
        if let Err(error) = gone {
            tracing::warn!(%error, call = %id, "a call that has ended is still shown as waiting");
        }
        result
    }

    /// Looks after the calls that wait, again and again.
    pub(crate) async fn look_after(self: &Arc<Self>, engine: &Engine) {
        loop {
            tokio::time::sleep(LOOK.min(self.patience / 10).max(Duration::from_millis(100))).await;
            if let Err(error) = self.look(engine).await {
                tracing::warn!(%error, "calls that wait could not be looked at");
            }
        }
    }

    /// Ends the calls that nobody decided about in time, and those that were
    /// decided by a server that ended before they did.
    pub(crate) async fn look(self: &Arc<Self>, engine: &Engine) -> Result<(), Error> {
        for document in self.documents.all(SPACE).await? {
            let waiting = read(&document)?;
            let settled = match waiting.is_open() {
                true => self.refuse_late(engine, &waiting.call).await?,
                false => self.take_left(engine, &document, waiting).await?,
            };
            if let Some(settled) = settled {
                let (queue, engine) = (Arc::clone(self), engine.clone());
                tokio::spawn(async move { queue.finish(&engine, settled).await });
            }
        }
        Ok(())
    }

    async fn refuse_late(
        &self,
        engine: &Engine,
        call: &SuspendedCall,
    ) -> Result<Option<SettledCall>, Error> {
        if self.waits_until(call) > Timestamp::now() {
            return Ok(None);
        }
        let verdict = Verdict::refuse("windlass").comment("nobody decided in time");
        self.decide(engine, &call.caller.tenant, call.id, verdict).await
    }

    /// Takes over a call that another server left. If it has a record, it has
    /// ended; if it had begun, it is closed as interrupted; otherwise it runs
    /// now.
    async fn take_left(
        &self,
        engine: &Engine,
        document: &Document,
        waiting: PendingApproval,
    ) -> Result<Option<SettledCall>, Error> {
        let Some(at_work) = self.ending.begin(waiting.call.id) else { return Ok(None) };
        match is_left(engine, waiting.server.as_ref()).await? {
            true => self.take(engine, document, waiting, at_work).await,
            false => Ok(None),
        }
    }
}

/// Whether a call is left that nobody in this process ends: it is this server's
/// own, or of one that has gone.
async fn is_left(engine: &Engine, server: Option<&OwnerId>) -> Result<bool, Error> {
    let Some(server) = server else { return Ok(true) };
    let records = engine.records();
    Ok(records.owner().await?.as_ref() == Some(server) || records.is_gone(server).await?)
}

fn is_without_store(result: &CallResult) -> bool {
    result.error().is_some_and(|error| error.kind() == ErrorKind::StorageUnavailable)
}

fn read(document: &Document) -> Result<PendingApproval, Error> {
    serde_json::from_value(document.body.clone()).map_err(|error| {
        let why = format!("the waiting call {} cannot be read", document.id);
        Error::new(ErrorKind::Internal, why).with_source(error)
    })
}

/// Carried by a call that nobody would come back for: where a person would have
/// to be asked, it is refused.
pub(crate) struct Unattended;

/// [`ApprovalQueue`] as the engine asks it.
pub(crate) struct QueueApprover(pub(crate) Arc<ApprovalQueue>);

impl Approvals for QueueApprover {
    fn decide(&self, call: &Call) -> Decision {
        let rules = self.0.rules.load();
        let own = rules.get(&call.caller().tenant);
        match decide(own.map_or(&self.0.operators, |rules| &rules.all), call) {
            Decision::Ask(why) if call.object::<Unattended>().is_some() => {
                Decision::Deny(format!("a person would have to approve it: {why}"))
            }
            decision => decision,
        }
    }

    fn suspend(&self, call: SuspendedCall) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let (tenant, id) = (call.caller.tenant.clone(), call.id.to_string());
            let put = Put::of(SPACE, tenant, id, &PendingApproval::new(call))?;
            self.0.documents.put(put, Expect::Anything).await.map(drop)
        })
    }
}

/// What rules say about a call. Most say nothing, and most calls are allowed.
fn decide(rules: &ApprovalRules, call: &Call) -> Decision {
    let is_free = rules.rules.is_empty() && rules.default == Approval::Allow;
    match call.tool().spec().approval {
        None | Some(Approval::Allow) if is_free => Decision::Allow,
        _ => rules.decide(call),
    }
}

/// The operator's rules without an approval queue: for commands, which end with
/// their call.
pub(crate) struct RulesOnly(pub(crate) ApprovalRules);

impl Approvals for RulesOnly {
    fn decide(&self, call: &Call) -> Decision {
        match decide(&self.0, call) {
            Decision::Ask(reason) => Decision::Deny(format!(
                "`{}` needs a person's approval ({reason}), and nobody can be asked here; \
                 `windlass serve` can",
                call.tool().name()
            )),
            decided => decided,
        }
    }

    fn suspend(&self, _: SuspendedCall) -> BoxFuture<'_, Result<(), Error>> {
        let why = "nobody can be asked here";
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Denied, why))))
    }
}
