//! Storage quotas: how many resources a tenant and a key may keep.

use std::fmt;

use jiff::Timestamp;
use windlass::{Error, ErrorKind, TenantId};
use windlass_store::SpaceSize;

use super::{NarrowQuotas, QuotaSettings};

/// What is limited in number or size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredResource {
    Tools,
    Providers,
    DocumentBytes,
    Files,
    FileBytes,
    Credentials,
    Approvals,
    Conversations,
    ConversationBytes,
    Consents,
    ApiKeys,
}

/// Whose it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QuotaHolder<'a> {
    Tenant(&'a TenantId),
    Key { tenant: &'a TenantId, key: &'a str },
}

impl fmt::Display for QuotaHolder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(tenant) => write!(f, "the tenant `{tenant}`"),
            Self::Key { key, .. } => write!(f, "the key `{key}`"),
        }
    }
}

impl StoredResource {
    pub(crate) const ALL: [Self; 11] = [
        Self::Tools,
        Self::Providers,
        Self::DocumentBytes,
        Self::Files,
        Self::FileBytes,
        Self::Credentials,
        Self::Approvals,
        Self::Conversations,
        Self::ConversationBytes,
        Self::Consents,
        Self::ApiKeys,
    ];

    /// Its name in settings and in `GET /v1/quotas`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Providers => "providers",
            Self::DocumentBytes => "document_bytes",
            Self::Files => "files",
            Self::FileBytes => "file_bytes",
            Self::Credentials => "credentials",
            Self::Approvals => "approvals",
            Self::Conversations => "conversations",
            Self::ConversationBytes => "conversation_bytes",
            Self::Consents => "consents",
            Self::ApiKeys => "api_keys",
        }
    }

    /// What errors call it.
    fn label(self) -> &'static str {
        match self {
            Self::DocumentBytes => "document bytes",
            Self::FileBytes => "file bytes",
            Self::Approvals => "calls that wait for approval",
            Self::Conversations => "kept conversations",
            Self::ConversationBytes => "bytes of kept conversations",
            Self::Consents => "consents under way",
            Self::ApiKeys => "API keys that work",
            _ => self.name(),
        }
    }

    /// How much a tenant may have.
    pub(crate) fn most(self, settings: &QuotaSettings) -> u64 {
        match self {
            Self::Tools => settings.tools,
            Self::Providers => settings.providers,
            Self::DocumentBytes => settings.document_bytes,
            Self::Files => settings.files,
            Self::FileBytes => settings.file_bytes,
            Self::Credentials => settings.credentials,
            Self::Approvals => settings.approvals,
            Self::Conversations => settings.conversations,
            Self::ConversationBytes => settings.conversation_bytes,
            Self::Consents => settings.consents,
            Self::ApiKeys => settings.api_keys,
        }
    }

    /// Whether keys have a quota of it as well. Of calls that wait, people decide;
    /// and whoever makes keys goes on with the next one.
    pub(crate) fn is_counted_by_key(self) -> bool {
        !matches!(self, Self::Approvals | Self::ApiKeys)
    }

    /// What of a space is counted.
    pub(crate) fn of(self, size: &SpaceSize) -> u64 {
        match self {
            Self::DocumentBytes | Self::ConversationBytes => size.bytes,
            _ => size.count,
        }
    }

    /// How much one key may have made.
    pub(crate) fn most_of_key(self, quotas: &NarrowQuotas) -> Option<u64> {
        match self {
            Self::Tools => quotas.tools,
            Self::Providers => quotas.providers,
            Self::DocumentBytes => quotas.document_bytes,
            Self::Files => quotas.files,
            Self::FileBytes => quotas.file_bytes,
            Self::Credentials => quotas.credentials,
            Self::Conversations => quotas.conversations,
            Self::ConversationBytes => quotas.conversation_bytes,
            Self::Consents => quotas.consents,
            Self::Approvals | Self::ApiKeys => None,
        }
    }

    /// Refuses what is more than `most`. `end` is when the first of what there is
    /// expires.
    pub(super) fn within(
        self,
        whose: QuotaHolder<'_>,
        wanted: u64,
        most: Option<u64>,
        end: Option<Timestamp>,
    ) -> Result<(), Error> {
        match most.filter(|most| wanted > *most) {
            None => Ok(()),
            Some(most) => {
                let end = end.filter(|_| self.ends_by_itself());
                Err(exceeded(self.label(), whose, most, end))
            }
        }
    }

    /// Whether its use falls with time, without anybody deleting something.
    fn ends_by_itself(self) -> bool {
        matches!(self, Self::Conversations | Self::ConversationBytes | Self::Consents)
    }
}

/// A quota that ends at a time, or when something of it is given up.
pub(super) fn exceeded(
    what: &str,
    whose: QuotaHolder<'_>,
    most: u64,
    end: Option<Timestamp>,
) -> Error {
    let all = format!("{what} of {whose}: all of {most} are used, until");
    let Some(end) = end else {
        let why = format!("{all} some are given up");
        return Error::new(ErrorKind::QuotaExceeded, why);
    };
    let left = end.duration_since(Timestamp::now()).max(jiff::SignedDuration::from_secs(1));
    let why = format!("{all} the first ends at {end:.0}");
    Error::new(ErrorKind::QuotaExceeded, why).with_retry_after(left.unsigned_abs())
}
