//! Small things that a server keeps besides records: keys, tools, providers,
//! sealed credentials, approvals, and the events that readers may ask for again.
//!
//! A document is JSON under a space, a tenant and an id. Each has a version, so
//! that two servers never overwrite each other unseen, and whoever wants to know
//! hears of every change.

mod check;
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
pub(crate) use news::{News, Origin};

/// How many documents are read at once.
const PAGE: usize = 50;

/// Something that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its name in its space, unique for the tenant.
    pub id: String,
    /// Another name, unique in its space over all tenants: the hash of a key.
    pub alias: Option<String>,
    /// The id of the key that made it, where one is known.
    pub owner: Option<String>,
    /// What it says.
    pub body: Value,
    /// From 1, one more with each change. One that was deleted or has expired,
    /// and is kept again, begins at 1 again.
    pub version: u64,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// When it is forgotten.
    pub expires_at: Option<Timestamp>,
}

/// Something to be kept. Its names have at most 1,000 bytes and no zero byte,
/// and its body at most 127 levels; more is refused. Times are kept to the
/// microsecond.
#[derive(Clone, Debug, PartialEq)]
pub struct Put {
    /// The space.
    pub space: &'static str,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its name.
    pub id: String,
    /// Its other name.
    pub alias: Option<String>,
    /// The id of the key that makes it. A change keeps the first owner.
    pub owner: Option<String>,
    /// What it says.
    pub body: Value,
    /// When it is forgotten.
    pub expires_at: Option<Timestamp>,
}

impl Put {
    /// Says this under a name.
    pub fn new(space: &'static str, tenant: TenantId, id: impl Into<String>, body: Value) -> Self {
        Self { space, tenant, id: id.into(), alias: None, owner: None, body, expires_at: None }
    }

    /// Says what this is as JSON.
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

/// What must be there for a change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Whatever is there.
    Anything,
    /// Nothing of this name, and nothing of this alias.
    Absent,
    /// This version.
    Version(u64),
}

impl Expect {
    /// Whether this is expected: a version, or none where nothing is there.
    pub(crate) fn allows(self, version: Option<u64>) -> bool {
        match self {
            Self::Anything => true,
            Self::Absent => version.is_none(),
            Self::Version(expected) => version == Some(expected),
        }
    }
}

/// How much of a space is a tenant's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceSize {
    /// How many documents.
    pub count: u64,
    /// The bytes of their bodies as they are kept.
    pub bytes: u64,
    /// When the first of them expires.
    pub first_end: Option<Timestamp>,
}

/// A change that was made by this or another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The space; empty where changes may have been missed, and everything has
    /// to be looked at again.
    pub space: String,
    /// Whose.
    pub tenant: TenantId,
    /// The document's name.
    pub id: String,
}

/// Keeps documents. Whatever is read is as of now: a change that a caller has
/// heard of is seen by everybody who asks later.
pub trait Documents: Send + Sync + 'static {
    /// One document; none that has expired.
    fn get<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>, Error>>;

    /// The document of an alias, of whatever tenant.
    fn find<'a>(
        &'a self,
        space: &'static str,
        alias: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>, Error>>;

    /// Documents of a tenant in the order of their ids' bytes, after this one.
    fn list<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document>, Error>>;

    /// All documents of a tenant whose ids go on after this beginning, in the
    /// order of their ids' bytes.
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

    /// How many documents a tenant has in a space, or an owner among them, and
    /// how large they are.
    fn size_of<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        owner: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SpaceSize, Error>>;

    /// The ids of the documents that an owner made.
    fn owned_by<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        owner: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>>;

    /// All documents of a space, of all tenants. For what a server reads when
    /// it starts.
    fn all<'a>(&'a self, space: &'static str) -> BoxFuture<'a, Result<Vec<Document>, Error>>;

    /// Whose documents there are in a space, and their ids. For who reads them
    /// one by one: all at once they may not fit into memory.
    fn names<'a>(
        &'a self,
        space: &'static str,
    ) -> BoxFuture<'a, Result<Vec<(TenantId, String)>, Error>>;

    /// Keeps a document for good, if what is there is what was expected. Returns
    /// the new version; none where it was not, or where another document has the
    /// alias, whatever was expected. After an error it may be kept or not.
    fn put(&self, put: Put, expect: Expect) -> BoxFuture<'_, Result<Option<u64>, Error>>;

    /// Forgets a document; returns whether it was there as expected.
    fn delete<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
        expect: Expect,
    ) -> BoxFuture<'a, Result<bool, Error>>;

    /// Changes from now on. A document that expires is no change: whoever holds
    /// one looks at `expires_at`. A receiver that lags behind looks at everything
    /// again, as for a change with an empty space.
    fn changes(&self) -> broadcast::Receiver<Change>;

    /// Keeps events in this order, after all that are kept already.
    fn append_events(&self, events: Vec<NewEvent>) -> BoxFuture<'_, Result<(), Error>>;

    /// Kept events after this position, oldest first.
    fn events<'a>(
        &'a self,
        after: u64,
        filter: EventFilter<'a>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<KeptEvent>, Error>>;

    /// The positions of the oldest and the newest kept event; zeroes where there
    /// is none.
    fn event_range(&self) -> BoxFuture<'_, Result<(u64, u64), Error>>;

    /// Wakes up when there are new events, of this or another server.
    fn new_events(&self) -> tokio::sync::watch::Receiver<u64>;
}

/// An event to be kept.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// Whose.
    pub tenant: TenantId,
    /// Of this conversation.
    pub conversation: Option<String>,
    /// Of this batch.
    pub batch: Option<String>,
    /// Its name, such as `execution_started`.
    pub name: String,
    /// What it says.
    pub body: Value,
}

/// An event that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptEvent {
    /// Its position: greater than that of every event before it, on all servers.
    pub position: u64,
    /// The event.
    pub event: NewEvent,
}

/// Which events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFilter<'a> {
    /// Of this tenant; of all where it is none, for the server's own use.
    pub tenant: Option<&'a TenantId>,
    /// Of this conversation.
    pub conversation: Option<&'a str>,
    /// Of this batch.
    pub batch: Option<&'a str>,
}

impl EventFilter<'_> {
    /// Whether an event is one of these.
    pub fn matches(&self, event: &NewEvent) -> bool {
        self.tenant.is_none_or(|tenant| *tenant == event.tenant)
            && self.conversation.is_none_or(|own| Some(own) == event.conversation.as_deref())
            && self.batch.is_none_or(|own| Some(own) == event.batch.as_deref())
    }
}
