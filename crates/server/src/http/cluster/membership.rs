//! Cluster membership: the servers that share this database. Each has a document,
//! which it deletes when it shuts down. A server that is gone while its document is
//! still there has crashed: see [`recovery`](super::recovery).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass::{Error, OwnerId, RecordStore, TenantId};
use windlass_store::{Document, Documents, Expect, Put};

/// Document space of the servers on this database, by their owner id.
const SPACE: &str = "members";

/// A server on this database.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) id: OwnerId,
    /// Since when.
    pub(crate) started_at: Timestamp,
    /// Who recovers its events, if it has crashed.
    recovered_by: Option<OwnerId>,
    version: u64,
}

#[derive(Serialize, Deserialize)]
struct MemberDocument {
    started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovered_by: Option<OwnerId>,
}

impl Member {
    fn read(document: &Document) -> Self {
        // An unreadable entry was written by another version.
        let kept = serde_json::from_value::<MemberDocument>(document.body.clone()).ok();
        let started_at = kept.as_ref().map_or(document.updated_at, |kept| kept.started_at);
        Self {
            id: OwnerId::new(document.id.clone()),
            started_at,
            recovered_by: kept.and_then(|kept| kept.recovered_by),
            version: document.version,
        }
    }
}

/// The membership of the cluster.
pub(crate) struct Membership {
    documents: Arc<dyn Documents>,
    /// Who we are; none where nobody can share the records.
    own: Option<OwnerId>,
    started_at: Timestamp,
    /// Whether we are written down.
    is_known: AtomicBool,
}

impl Membership {
    /// Joins them.
    pub(crate) async fn join(
        documents: Arc<dyn Documents>,
        records: &dyn RecordStore,
    ) -> Result<Self, Error> {
        let own = records.owner().await?;
        let (started_at, is_known) = (Timestamp::now(), AtomicBool::new(false));
        let members = Self { documents, own, started_at, is_known };
        // A server whose disk is full can still serve reads.
        if let Err(error) = members.stay().await {
            tracing::warn!(%error, "that this server is there could not be written down yet");
        }
        Ok(members)
    }

    /// Writes down that we are there, where that has not worked yet.
    pub(crate) async fn stay(&self) -> Result<(), Error> {
        let Some(own) = &self.own else { return Ok(()) };
        if !self.is_known.load(Ordering::Relaxed) {
            let kept = MemberDocument { started_at: self.started_at, recovered_by: None };
            let put = Put::of(SPACE, TenantId::default(), own.as_str(), &kept)?;
            self.documents.put(put, Expect::Anything).await?;
            self.is_known.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Who we are.
    pub(crate) fn own(&self) -> Option<&OwnerId> {
        self.own.as_ref()
    }

    /// The other servers that live.
    pub(crate) async fn others(&self, records: &dyn RecordStore) -> Result<Vec<Member>, Error> {
        Ok(self.look(records).await?.0)
    }

    /// The servers that crashed and whose events are not being recovered.
    pub(crate) async fn crashed(&self, records: &dyn RecordStore) -> Result<Vec<Member>, Error> {
        let mut crashed = Vec::new();
        for member in self.look(records).await?.1 {
            let is_free = match &member.recovered_by {
                Some(other) if Some(other) != self.own.as_ref() => records.is_gone(other).await?,
                _ => true,
            };
            if is_free {
                crashed.push(member);
            }
        }
        Ok(crashed)
    }

    /// Takes it on to recover a server's events; none where another one was
    /// quicker.
    pub(crate) async fn claim(&self, member: Member) -> Result<Option<Member>, Error> {
        let kept = MemberDocument { started_at: member.started_at, recovered_by: self.own.clone() };
        let put = Put::of(SPACE, TenantId::default(), member.id.as_str(), &kept)?;
        let claimed = self.documents.put(put, Expect::Version(member.version)).await?;
        Ok(claimed.map(|version| Member { version, ..member }))
    }

    /// Those that live and those that do not.
    async fn look(&self, records: &dyn RecordStore) -> Result<(Vec<Member>, Vec<Member>), Error> {
        let (mut living, mut gone) = (Vec::new(), Vec::new());
        if self.own.is_none() {
            return Ok((living, gone));
        }
        for document in self.documents.all(SPACE).await? {
            let member = Member::read(&document);
            if self.own.as_ref() == Some(&member.id) {
                continue;
            }
            match records.is_gone(&member.id).await? {
                true => gone.push(member),
                false => living.push(member),
            }
        }
        Ok((living, gone))
    }

    /// Takes a server off the list whose events have been recovered.
    pub(crate) async fn bury(&self, member: &Member) -> Result<(), Error> {
        let (tenant, expect) = (TenantId::default(), Expect::Version(member.version));
        self.documents.delete(SPACE, &tenant, member.id.as_str(), expect).await.map(drop)
    }

    /// Ends well: nothing has to be recovered.
    pub(crate) async fn leave(&self) -> Result<(), Error> {
        let Some(own) = &self.own else { return Ok(()) };
        let tenant = TenantId::default();
        self.documents.delete(SPACE, &tenant, own.as_str(), Expect::Anything).await.map(drop)
    }
}
