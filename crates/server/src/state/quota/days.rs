//! Daily counters, which survive a restart and are shared by the servers on a
//! database.
//!
//! Each server writes its own counters into its own documents every few seconds, and
//! reads those of the others. A server that is killed loses the counts since its last
//! write.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use windlass::{CallId, Engine, Error, QuotaUse, TenantId};
use windlass_store::{Documents, Expect, Put};

const SPACE: &str = "quota_days";
/// How often it is written and read.
const EVERY: Duration = Duration::from_secs(5);
/// How long it is kept: past the end of its day, whatever the clocks of others say.
const LIFE: Duration = Duration::from_secs(48 * 60 * 60);

type DayUses = Vec<(TenantId, Option<Arc<str>>, QuotaUse)>;

/// What a server has counted for a tenant on a day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct DayCount {
    day: String,
    server: String,
    calls: u64,
    cost: f64,
    keys: HashMap<String, (u64, f64)>,
}

/// Shares the counts of an engine.
pub(crate) struct DaySharer {
    engine: Engine,
    documents: Arc<dyn Documents>,
    server: String,
    written: HashMap<TenantId, DayCount>,
}

impl DaySharer {
    /// Counts what was counted before, today.
    pub(crate) async fn start(engine: &Engine, documents: &Arc<dyn Documents>) -> Self {
        let mut sharer = Self {
            engine: engine.clone(),
            documents: Arc::clone(documents),
            server: CallId::at(Timestamp::now()).to_string(),
            written: HashMap::new(),
        };
        sharer.try_share().await;
        sharer
    }

    /// Runs until it is stopped, and writes a last time.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = stop.cancelled() => {}
            }
            self.try_share().await;
        }
    }

    async fn try_share(&mut self) {
        if let Err(error) = self.share().await {
            tracing::warn!(%error, "counts of quotas could not be shared");
        }
    }

    async fn share(&mut self) -> Result<(), Error> {
        let today = today();
        for (tenant, counted) in own(&self.engine.quota_uses(), &today, &self.server) {
            if self.written.get(&tenant) == Some(&counted) {
                continue;
            }
            let id = format!("{today}:{}", self.server);
            let mut put = Put::of(SPACE, tenant.clone(), id, &counted)?;
            put.expires_at = Timestamp::now().checked_add(LIFE).ok();
            self.documents.put(put, Expect::Anything).await?;
            self.written.insert(tenant, counted);
        }
        self.written.retain(|_, counted| counted.day == today);
        let mut elsewhere = DayUses::new();
        for document in self.documents.all(SPACE).await? {
            let Ok(counted) = DayCount::deserialize(&document.body) else { continue };
            if counted.day == today && counted.server != self.server {
                elsewhere.extend(uses(&document.tenant, &counted));
            }
        }
        self.engine.set_quota_uses(&elsewhere);
        Ok(())
    }
}

fn today() -> String {
    Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// What is written for each tenant.
fn own(uses: &DayUses, day: &str, server: &str) -> HashMap<TenantId, DayCount> {
    let mut tenants: HashMap<TenantId, DayCount> = HashMap::new();
    for (tenant, key, used) in uses {
        let counted = tenants.entry(tenant.clone()).or_insert_with(|| DayCount {
            day: day.to_owned(),
            server: server.to_owned(),
            ..DayCount::default()
        });
        match key {
            None => (counted.calls, counted.cost) = (used.in_day, used.cost),
            Some(key) => {
                counted.keys.insert(key.to_string(), (used.in_day, used.cost));
            }
        }
    }
    tenants
}

fn uses(tenant: &TenantId, counted: &DayCount) -> DayUses {
    let used = |(in_day, cost)| QuotaUse { in_minute: 0, in_day, cost };
    let keys = counted.keys.iter().map(|(key, counts)| (Some(key.as_str().into()), *counts));
    let all = keys.chain([(None, (counted.calls, counted.cost))]);
    all.map(|(key, counts)| (tenant.clone(), key, used(counts))).collect()
}
