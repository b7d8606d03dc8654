//! Calls that wait for a person: who decides, by which rules, and where they
//! are kept meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass::{
    Approval, ApprovalRules, Approvals, BoxFuture, Call, CallId, CallResult, Decision, Engine,
    Error, ErrorKind, SuspendedCall, TenantId, Verdict,
};
use windlass_store::{Change, Document, Documents, Expect, Put};

/// Calls that wait, or that were decided and have not ended.
const SPACE: &str = "approvals";
/// The rules of tenants.
const RULES: &str = "approval_rules";
/// The name of a tenant's one document of rules.
const OWN: &str = "rules";
/// How often it is looked whether nobody decided in time; sooner where calls
/// wait for less than ten times as long.
const LOOK: Duration = Duration::from_secs(60);

/// A call that waits for a person.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Waiting {
    /// The call, whole.
    pub(crate) call: SuspendedCall,
    /// What was decided, by whom; none while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Verdict>,
}

/// The rules, and the calls that wait.
pub(crate) struct Desk {
    documents: Arc<dyn Documents>,
    rules: ArcSwap<HashMap<TenantId, Arc<ApprovalRules>>>,
    /// How long a call waits for a person.
    patience: Duration,
}

impl Desk {
    pub(crate) fn new(documents: Arc<dyn Documents>, patience: Duration) -> Arc<Self> {
        Arc::new(Self { documents, rules: ArcSwap::default(), patience })
    }

    /// Until when a call waits.
    pub(crate) fn waits_until(&self, call: &SuspendedCall) -> Timestamp {
        call.created_at.checked_add(self.patience).unwrap_or(Timestamp::MAX)
    }

    /// Reads the rules of all tenants.
    pub(crate) async fn read_rules(&self) -> Result<(), Error> {
        let mut all = HashMap::new();
        for document in self.documents.all(RULES).await? {
            match serde_json::from_value::<ApprovalRules>(document.body) {
                Ok(rules) => drop(all.insert(document.tenant, Arc::new(rules))),
                // What cannot be read must not let anything through.
                Err(error) => {
                    tracing::error!(tenant = %document.tenant, %error, "rules cannot be read");
                    let rules = ApprovalRules { default: Approval::Ask, ..Default::default() };
                    all.insert(document.tenant, Arc::new(rules));
                }
            }
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

    /// The rules of a tenant.
    pub(crate) fn rules(&self, tenant: &TenantId) -> Arc<ApprovalRules> {
        self.rules.load().get(tenant).cloned().unwrap_or_default()
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
    ) -> Result<(Vec<Waiting>, Option<String>), Error> {
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
    ) -> Result<Option<Waiting>, Error> {
        let found = self.documents.get(SPACE, tenant, &id.to_string()).await?;
        found.as_ref().map(read).transpose()
    }

    /// Writes a verdict down. Of several people or servers, the first one
    /// decides; none comes back for the others.
    pub(crate) async fn decide(
        &self,
        tenant: &TenantId,
        id: CallId,
        verdict: Verdict,
    ) -> Result<Option<Waiting>, Error> {
        let Some(document) = self.documents.get(SPACE, tenant, &id.to_string()).await? else {
            return Ok(None);
        };
        let mut waiting = read(&document)?;
        if waiting.verdict.is_some() {
            return Ok(None);
        }
        waiting.verdict = Some(verdict);
        let put = Put::of(SPACE, tenant.clone(), document.id, &waiting)?;
        let decided = self.documents.put(put, Expect::Version(document.version)).await?;
        Ok(decided.map(|_| waiting))
    }

    /// Ends a call as was decided. What has begun is not begun again, whoever
    /// asks how often.
    pub(crate) async fn finish(&self, engine: &Engine, waiting: Waiting) -> Option<CallResult> {
        let verdict = waiting.verdict?;
        let (tenant, id) = (waiting.call.caller.tenant.clone(), waiting.call.id);
        let result = engine.resume(waiting.call, verdict).await;
        let gone = self.documents.delete(SPACE, &tenant, &id.to_string(), Expect::Anything).await;
        if let Err(error) = gone {
            tracing::warn!(%error, call = %id, "a call that has ended is still shown as waiting");
        }
        Some(result)
    }

    /// Refuses the calls that nobody decided about in time, again and again.
    pub(crate) async fn refuse_late(&self, engine: &Engine) {
        loop {
            tokio::time::sleep(LOOK.min(self.patience / 10).max(Duration::from_millis(100))).await;
            if let Err(error) = self.refuse_all_late(engine).await {
                tracing::warn!(%error, "calls that wait could not be looked at");
            }
        }
    }

    async fn refuse_all_late(&self, engine: &Engine) -> Result<(), Error> {
        for document in self.documents.all(SPACE).await? {
            let waiting = read(&document)?;
            let late = self.waits_until(&waiting.call) <= Timestamp::now();
            if late && waiting.verdict.is_none() {
                let verdict = Verdict::refuse("windlass").comment("nobody decided in time");
                let decided = self.decide(&document.tenant, waiting.call.id, verdict).await?;
                if let Some(decided) = decided {
                    self.finish(engine, decided).await;
                }
            }
        }
        Ok(())
    }

    /// Calls that were decided by a server that ended before they did. Those
    /// that have a record have ended; the others never began.
    pub(crate) async fn finish_left(self: &Arc<Self>, engine: &Engine) -> Result<(), Error> {
        for document in self.documents.all(SPACE).await? {
            let waiting = read(&document)?;
            if waiting.verdict.is_none() {
                continue;
            }
            // The server that decided may still be at it; whoever changes the
            // document first takes it over.
            let put = Put::new(SPACE, document.tenant.clone(), document.id, document.body);
            let mine = self.documents.put(put, Expect::Version(document.version)).await?;
            if mine.is_some() {
                let (desk, engine) = (Arc::clone(self), engine.clone());
                tokio::spawn(async move { desk.finish(&engine, waiting).await });
            }
        }
        Ok(())
    }
}

fn read(document: &Document) -> Result<Waiting, Error> {
    serde_json::from_value(document.body.clone()).map_err(|error| {
        let why = format!("the waiting call {} cannot be read", document.id);
        Error::new(ErrorKind::Internal, why).with_source(error)
    })
}

/// The desk, as the engine asks it.
pub(crate) struct SharedDesk(pub(crate) Arc<Desk>);

impl Approvals for SharedDesk {
    fn decide(&self, call: &Call) -> Decision {
        let rules = self.0.rules.load();
        let own = rules.get(&call.caller().tenant);
        match (own, call.tool().spec().approval) {
            (None, None | Some(Approval::Allow)) => Decision::Allow,
            (None, Some(_)) => ApprovalRules::default().decide(call),
            (Some(own), _) => own.decide(call),
        }
    }

    fn suspend(&self, call: SuspendedCall) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let (tenant, id) = (call.caller.tenant.clone(), call.id.to_string());
            let put = Put::of(SPACE, tenant, id, &Waiting { call, verdict: None })?;
            self.0.documents.put(put, Expect::Anything).await.map(drop)
        })
    }
}
