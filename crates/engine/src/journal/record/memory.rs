//! [`MemoryStore`]: a record store in memory.

use std::collections::{HashMap, VecDeque};
use std::future;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    Begun, CallRecord, IdempotencyKey, Intent, OutputPart, PageRequest, RecordFilter, RecordPage,
    RecordStore, Statistics, Summary,
};
use crate::error::{Error, ErrorKind};
use crate::fair_ring::{FairRing, fair_level};
use crate::shards::Shards;
use crate::tool::executor::BoxFuture;
use crate::value::name::{CallId, TenantId};
use crate::value::usage::Usage;

/// Maximum total size of stored outputs.
const MAX_OUTPUT_BYTES: usize = 64 * 1024 * 1024;

/// Keeps the most recent records in memory, for tests and for programs that
/// need no database. When it is full, a new record replaces the oldest one of
/// the tenant that has the most (ring buffers).
///
/// Records are sharded per thread to avoid lock contention; queries see the
/// records of all shards.
///
/// Summaries and statistics cover the stored records only. Outputs are kept up
/// to 64 MB in total, and there are as many idempotency keys as records: of
/// both, too, the tenant with the most loses its oldest one.
pub struct MemoryStore {
    capacity: usize,
    /// Each shard holds the last records of its threads, in the order in which
    /// the calls ended.
    shards: Shards<Mutex<Option<FairRing<CallRecord>>>>,
    keys: Mutex<KeyIndex>,
    outputs: Mutex<Outputs>,
}

/// Idempotency keys, and the outcomes of their calls.
#[derive(Default)]
struct KeyIndex {
    calls: HashMap<(TenantId, Arc<str>), KeyedCall>,
    /// The key of each call that has one.
    ids: HashMap<CallId, (TenantId, Arc<str>)>,
    /// Calls per tenant, oldest first.
    order: HashMap<TenantId, VecDeque<CallId>>,
}

struct KeyedCall {
    id: CallId,
    fingerprint: [u8; 32],
    record: Option<CallRecord>,
}

#[derive(Default)]
struct Outputs {
    /// Oldest first.
    kept: VecDeque<KeptOutput>,
    total_bytes: usize,
}

struct KeptOutput {
    tenant: TenantId,
    id: CallId,
    bytes: Vec<u8>,
}

impl MemoryStore {
    /// How many records are kept by default.
    pub const RECORDS: usize = 1_000;

    /// A store for the last 1,000 records.
    pub fn new() -> Self {
        Self::with_capacity(Self::RECORDS)
    }

    /// A store for the last `records` records (at least one).
    pub fn with_capacity(records: usize) -> Self {
        let capacity = records.max(1);
        Self {
            capacity,
            shards: Shards::default(),
            keys: Mutex::default(),
            outputs: Mutex::default(),
        }
    }

    fn find(&self, tenant: &TenantId, id: CallId) -> Option<CallRecord> {
        if let Some(record) = self.keys.lock().record(tenant, id) {
            return Some(record.clone());
        }
        let found = self.choose(tenant, |record| (record.id == id).then(|| record.clone()));
        found.into_iter().next()
    }

    fn page(&self, tenant: &TenantId, filter: &RecordFilter, page: PageRequest) -> RecordPage {
        let limit = page.limit.clamp(1, PageRequest::MAX);
        let mut found = self.choose(tenant, |record| {
            let chosen = page.after.is_none_or(|after| record.id < after) && filter.matches(record);
            chosen.then(|| record.clone())
        });
        // Pages are ordered by the start of the calls.
        found.sort_unstable_by_key(|record| std::cmp::Reverse(record.id));
        let more = found.len() > limit;
        found.truncate(limit);
        let next = if more { found.last().map(|record| record.id) } else { None };
        RecordPage { records: found, next }
    }

    /// Extracts data from the chosen records under the locks, so that computing
    /// on it does not block calls.
    fn choose<T>(&self, tenant: &TenantId, choose: impl Fn(&CallRecord) -> Option<T>) -> Vec<T> {
        let shards: Vec<_> = self.shards.all().map(Mutex::lock).collect();
        let rings = || shards.iter().filter_map(|shard| shard.as_ref());
        let mut records: Vec<&CallRecord> = rings().flat_map(|ring| ring.of(tenant)).collect();
        let visible = self.visible(rings(), records.len());
        if visible < records.len() {
            let hidden = records.len() - visible;
            records.select_nth_unstable_by_key(hidden, |record| record.ended_at());
            records.drain(..hidden);
        }
        records.into_iter().filter_map(choose).collect()
    }

    /// How many of a tenant's records are left, as if there were one ring.
    fn visible<'r>(
        &self,
        rings: impl Iterator<Item = &'r FairRing<CallRecord>> + Clone,
        own: usize,
    ) -> usize {
        if rings.clone().map(FairRing::len).sum::<usize>() <= self.capacity {
            return own;
        }
        let mut counts: HashMap<&TenantId, u64> = HashMap::new();
        for (tenant, records) in rings.flat_map(FairRing::all) {
            *counts.entry(tenant).or_default() += records.len() as u64;
        }
        let level = fair_level(counts.into_values(), self.capacity as u64);
        own.min(usize::try_from(level).unwrap_or(usize::MAX))
    }

    fn summarise(&self, tenant: &TenantId, conversation: &str) -> Summary {
        let calls = self.choose(tenant, |record| {
            (record.caller.conversation.as_deref() == Some(conversation))
                .then(|| (Arc::clone(&record.tool_name), record.is_success(), record.usage()))
        });
        let usage: Vec<Usage> = calls.iter().filter_map(|(_, _, usage)| *usage).collect();
        let calls = calls.into_iter();
        let counts = calls.map(|(tool, success, _)| (tool.to_string(), 1, u64::from(success)));
        Summary::new(conversation, counts).with_usage(usage)
    }

    fn count(&self, tenant: &TenantId) -> Statistics {
        let calls = self.choose(tenant, |record| {
            let tool = record.counted_as();
            Some((tool, record.status, record.run_bucket(), record.usage()))
        });
        let usage: Vec<_> = (calls.iter())
            .filter_map(|(tool, _, _, usage)| Some((Arc::clone(tool), (*usage)?)))
            .collect();
        let counts = calls.into_iter().map(|(tool, status, bucket, _)| (tool, status, bucket, 1));
        Statistics::from_counts(counts).with_usage(usage)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordStore for MemoryStore {
    fn append(&self, record: CallRecord) {
        if record.idempotency_key().is_some() {
            self.keys.lock().ended(&record);
        }
        let mut shard = self.shards.current().1.lock();
        let ring = shard.get_or_insert_with(|| FairRing::new(self.capacity));
        let evicted = ring.push_of(record, |record| &record.caller.tenant);
        // Dropped after unlocking: freeing arguments and a result takes longer
        // than all of the above.
        drop(shard);
        drop(evicted);
    }

    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<Begun, Error>> {
        let begun = match intent.key {
            Some(key) => {
                self.keys.lock().begin(&intent.caller.tenant, intent.id, key, self.capacity)
            }
            None if self.find(&intent.caller.tenant, intent.id).is_some() => {
                Begun::Duplicate(intent.id)
            }
            None => Begun::New,
        };
        Box::pin(future::ready(Ok(begun)))
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(future::ready(Ok(())))
    }

    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>, Error>> {
        Box::pin(future::ready(Ok(self.find(tenant, id))))
    }

    fn query<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a RecordFilter,
        page: PageRequest,
    ) -> BoxFuture<'a, Result<RecordPage, Error>> {
        Box::pin(future::ready(Ok(self.page(tenant, filter, page))))
    }

    fn summary<'a>(
        &'a self,
        tenant: &'a TenantId,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Summary, Error>> {
        Box::pin(future::ready(Ok(self.summarise(tenant, conversation))))
    }

    fn statistics<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Statistics, Error>> {
        Box::pin(future::ready(Ok(self.count(tenant))))
    }

    fn keep_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        output: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let output = KeptOutput { tenant: tenant.clone(), id, bytes: output };
        Box::pin(future::ready(self.outputs.lock().keep(output)))
    }

    fn forget_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.outputs.lock().forget_of(tenant, id);
        Box::pin(future::ready(Ok(())))
    }

    fn read_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Option<OutputPart>, Error>> {
        Box::pin(future::ready(Ok(self.outputs.lock().read(tenant, id, offset, limit))))
    }
}

impl KeyIndex {
    fn begin(
        &mut self,
        tenant: &TenantId,
        id: CallId,
        key: IdempotencyKey,
        capacity: usize,
    ) -> Begun {
        let name = (tenant.clone(), key.key);
        if let Some(call) = self.calls.get(&name) {
            return if call.fingerprint == key.fingerprint {
                Begun::Duplicate(call.id)
            } else {
                Begun::OtherArguments(call.id)
            };
        }
        while self.ids.len() >= capacity && self.forget_oldest() {}
        self.order.entry(tenant.clone()).or_default().push_back(id);
        self.ids.insert(id, name.clone());
        self.calls.insert(name, KeyedCall { id, fingerprint: key.fingerprint, record: None });
        Begun::New
    }

    /// Evicts the oldest key of the tenant that has the most, so that nobody
    /// pushes out the keys of others; but no key of a running call.
    fn forget_oldest(&mut self) -> bool {
        let Some((tenant, order)) = self.order.iter().max_by_key(|(_, order)| order.len()) else {
            return false;
        };
        let tenant = tenant.clone();
        let Some(oldest) = order.iter().copied().find(|id| self.has_ended(*id)) else {
            return false;
        };
        self.forget(&tenant, oldest);
        true
    }

    fn forget(&mut self, tenant: &TenantId, id: CallId) {
        if let Some(name) = self.ids.remove(&id) {
            self.calls.remove(&name);
        }
        if let Some(order) = self.order.get_mut(tenant) {
            order.retain(|kept| *kept != id);
            if order.is_empty() {
                self.order.remove(tenant);
            }
        }
    }

    fn ended(&mut self, record: &CallRecord) {
        if record.attempts == 0 {
            if self.ids.contains_key(&record.id) {
                self.forget(&record.caller.tenant, record.id);
            }
            return;
        }
        let call = self.ids.get(&record.id).and_then(|name| self.calls.get_mut(name));
        if let Some(call) = call {
            call.record = Some(record.clone());
        }
    }

    fn has_ended(&self, id: CallId) -> bool {
        let call = self.ids.get(&id).and_then(|name| self.calls.get(name));
        call.is_none_or(|call| call.record.is_some())
    }

    fn record(&self, tenant: &TenantId, id: CallId) -> Option<&CallRecord> {
        let name = self.ids.get(&id).filter(|(owner, _)| owner == tenant)?;
        self.calls.get(name)?.record.as_ref()
    }
}

impl Outputs {
    fn keep(&mut self, output: KeptOutput) -> Result<(), Error> {
        let size = output.bytes.len();
        if size > MAX_OUTPUT_BYTES {
            return Err(Error::new(
                ErrorKind::StorageUnavailable,
                format!(
                    "the output of call {} has {size} bytes, more than the {MAX_OUTPUT_BYTES} that are kept",
                    output.id
                ),
            ));
        }
        self.forget_of(&output.tenant, output.id);
        self.total_bytes += size;
        self.kept.push_back(output);
        while self.total_bytes > MAX_OUTPUT_BYTES
            && let Some(oldest) = self.oldest_of_the_greatest()
        {
            self.forget(oldest);
        }
        Ok(())
    }

    /// The oldest output of the tenant whose outputs are the largest together.
    fn oldest_of_the_greatest(&self) -> Option<usize> {
        let mut sizes: HashMap<&TenantId, usize> = HashMap::new();
        for output in &self.kept {
            *sizes.entry(&output.tenant).or_default() += output.bytes.len();
        }
        let (greatest, _) = sizes.into_iter().max_by_key(|(_, size)| *size)?;
        self.kept.iter().position(|output| output.tenant == *greatest)
    }

    fn forget_of(&mut self, tenant: &TenantId, id: CallId) {
        if let Some(position) = self.position(tenant, id) {
            self.forget(position);
        }
    }

    fn forget(&mut self, position: usize) {
        if let Some(gone) = self.kept.remove(position) {
            self.total_bytes -= gone.bytes.len();
        }
    }

    fn position(&self, tenant: &TenantId, id: CallId) -> Option<usize> {
        self.kept.iter().position(|output| output.id == id && output.tenant == *tenant)
    }

    fn read(&self, tenant: &TenantId, id: CallId, offset: u64, limit: u64) -> Option<OutputPart> {
        let bytes = &self.kept[self.position(tenant, id)?].bytes;
        let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let length = usize::try_from(limit).unwrap_or(usize::MAX).min(bytes.len() - begin);
        Some(OutputPart {
            bytes: bytes[begin..begin + length].to_vec(),
            total_bytes: bytes.len() as u64,
        })
    }
}
