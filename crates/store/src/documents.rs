//! Document store for what a server keeps besides records: API keys, tools, providers,
//! sealed credentials, approvals; and an event log that readers can replay.
//!
//! A document is JSON, identified by space, tenant and id. It has a version for
//! optimistic locking, so that two servers never overwrite each other's changes
//! unnoticed, and every change is broadcast to subscribers.

mod check;
mod event_count;
mod memory;
mod news;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;
use windlass::{BoxFuture, Error, ErrorKind, TenantId};

pub use memory::MemoryDocuments;

#[cfg(feature = "postgres")]
pub(crate) use check::can_be_kept;
pub(crate) use check::check;
pub(crate) use event_count::{EventCount, EventSurplus};
pub(crate) use news::{News, Origin};

/// Page size of reads.
const PAGE: usize = 50;

/// A stored document.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The tenant that it belongs to.
    pub tenant: TenantId,
    /// Its id, unique for the tenant within a space.
    pub id: String,
    /// A second key, unique within a space across all tenants, such as the hash of an API
    /// key.
    pub alias: Option<String>,
    /// The id of the API key that created it, if known.
    pub owner: Option<String>,
    /// Its content.
    pub body: Value,
    /// Starts at 1 and increases with each change. A document that is created again after
    /// it was deleted or has expired starts at 1 again.
    pub version: u64,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Time at which it expires.
    pub expires_at: Option<Timestamp>,
}

/// A document to be stored. Ids and aliases are limited to 1,000 bytes without zero
/// bytes, the body to 127 levels of nesting; more is refused. Times have microsecond
/// precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Put {
    /// The space.
    pub space: &'static str,
    /// The tenant.
    pub tenant: TenantId,
    /// The id.
    pub id: String,
    /// The alias.
    pub alias: Option<String>,
    /// The id of the API key that creates it. An update keeps the first owner.
    pub owner: Option<String>,
    /// The content.
    pub body: Value,
    /// Time at which it expires.
    pub expires_at: Option<Timestamp>,
}

impl Put {
    /// A document with this content.
    pub fn new(space: &'static str, tenant: TenantId, id: impl Into<String>, body: Value) -> Self {
        Self { space, tenant, id: id.into(), alias: None, owner: None, body, expires_at: None }
    }

    /// A document whose content is this value as JSON.
    pub fn of(
        space: &'static str,
        tenant: TenantId,
        id: impl Into<String>,
        what: &impl Serialize,
    ) -> Result<Self, Error> {
        let body = serde_json::to_value(what)
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        Ok(Self::new(space, tenant, id, body))
    }
}

/// Precondition of a change (optimistic locking).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No precondition.
    Anything,
    /// There is no document with this id, nor another one with this alias.
    Absent,
    /// The document has this version.
    Version(u64),
}

impl Expect {
    /// Whether the precondition holds; `None` stands for a missing document.
    pub(crate) fn allows(self, version: Option<u64>) -> bool {
        match self {
            Self::Anything => true,
            Self::Absent => version.is_none(),
            Self::Version(expected) => version == Some(expected),
        }
    }
}

/// What a tenant occupies in a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceSize {
    /// Number of documents.
    pub count: u64,
    /// Total size of their bodies in bytes, as stored.
    pub bytes: u64,
    /// Time at which the first of them expires.
    pub first_end: Option<Timestamp>,
}

/// A change made by this or another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The space; empty if changes may have been missed, so that everything must be read
    /// again.
    pub space: String,
    /// The tenant.
    pub tenant: TenantId,
    /// The id of the document.
    pub id: String,
}

/// A document store. Reads are consistent: once a change was reported to its caller,
/// everybody who reads later sees it.
pub trait Documents: Send + Sync + 'static {
    /// One document, unless it has expired.
    fn get<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>, Error>>;

    /// The body of one document as JSON text, unless it has expired: for readers that
    /// build something else than values from megabytes of it.
    fn body_text<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, Error>> {
        Box::pin(async move {
            Ok(self.get(space, tenant, id).await?.map(|document| document.body.to_string()))
        })
    }

    /// The document with an alias, of any tenant.
    fn find<'a>(
        &'a self,
        space: &'static str,
        alias: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>, Error>>;

    /// Documents of a tenant after this id, in byte order of their ids.
    fn list<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document>, Error>>;

    /// All documents of a tenant whose ids have this prefix, in byte order of their ids.
    fn of_tenant<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        beginning: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Document>, Error>> {
        Box::pin(async move {
            let mut all: Vec<Document> = Vec::new();
            loop {
                let before = all.len();
                let start = Some(beginning).filter(|beginning| !beginning.is_empty());
                let after = all.last().map(|last| &*last.id).or(start);
                let page = self.list(space, tenant, after, PAGE).await?;
                all.extend(page.into_iter().take_while(|one| one.id.starts_with(beginning)));
                if all.len() - before < PAGE {
                    return Ok(all);
                }
            }
        })
    }

    /// Number and size of the documents of a tenant in a space, optionally of one owner
    /// only.
    fn size_of<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        owner: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SpaceSize, Error>>;

    /// Ids of the documents that an owner created.
    fn owned_by<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        owner: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>>;

    /// All documents of a space, of all tenants. For what a server reads when it starts.
    fn all<'a>(&'a self, space: &'static str) -> BoxFuture<'a, Result<Vec<Document>, Error>>;

    /// Tenants and ids of all documents in a space. For reading them one by one, since
    /// together they may not fit into memory.
    fn names<'a>(
        &'a self,
        space: &'static str,
    ) -> BoxFuture<'a, Result<Vec<(TenantId, String)>, Error>>;

    /// Stores a document durably if the precondition holds. Returns the new version;
    /// `None` if the precondition failed, or if another document has the alias. After an
    /// error, the document may have been stored or not.
    fn put(&self, put: Put, expect: Expect) -> BoxFuture<'_, Result<Option<u64>, Error>>;

    /// Deletes a document if the precondition holds; returns whether it did.
    fn delete<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
        expect: Expect,
    ) -> BoxFuture<'a, Result<bool, Error>>;

    /// Subscribes to changes. Expiry is not reported as a change: whoever caches a
    /// document checks `expires_at`. A receiver that lags must read everything again, as
    /// for a change with an empty space.
    fn changes(&self) -> broadcast::Receiver<Change>;

    /// Appends events to the log, in this order.
    fn append_events(&self, events: Vec<NewEvent>) -> BoxFuture<'_, Result<(), Error>>;

    /// Events after this position, oldest first.
    fn events<'a>(
        &'a self,
        after: u64,
        filter: EventFilter<'a>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<KeptEvent>, Error>>;

    /// Positions of the oldest and the newest event; zeroes if there is none.
    fn event_range(&self) -> BoxFuture<'_, Result<(u64, u64), Error>>;

    /// Position of the last event of a tenant that was deleted, because there were too
    /// many; zero if none was.
    fn forgotten_events<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<u64, Error>>;

    /// Notified of new events, by this or another server.
    fn new_events(&self) -> tokio::sync::watch::Receiver<u64>;
}

/// An event to be appended.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// The tenant.
    pub tenant: TenantId,
    /// The conversation.
    pub conversation: Option<String>,
    /// The batch.
    pub batch: Option<String>,
    /// Its name, such as `execution_started`.
    pub name: String,
    /// Its content.
    pub body: Value,
}

/// An event in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptEvent {
    /// Its position: greater than that of every earlier event, on all servers.
    pub position: u64,
    /// The event.
    pub event: NewEvent,
}

/// Filter for events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFilter<'a> {
    /// Of this tenant; `None` means all, for internal use by the server.
    pub tenant: Option<&'a TenantId>,
    /// Of this conversation.
    pub conversation: Option<&'a str>,
    /// Of this batch.
    pub batch: Option<&'a str>,
}

impl EventFilter<'_> {
    /// Whether an event passes the filter.
    pub fn matches(&self, event: &NewEvent) -> bool {
        self.tenant.is_none_or(|tenant| *tenant == event.tenant)
            && self.conversation.is_none_or(|own| Some(own) == event.conversation.as_deref())
            && self.batch.is_none_or(|own| Some(own) == event.batch.as_deref())
    }
}
