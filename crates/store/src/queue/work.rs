//! Pending work, and the senders that report its result.

use tokio::sync::oneshot;
use windlass::{Begun, CallId, CallRecord, Error, Intent, TenantId};

/// Work that is written together.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) begins: Vec<Begin>,
    pub(crate) records: Vec<CallRecord>,
    pub(crate) outputs: Vec<KeepOutput>,
    /// Pending health checks.
    pub(crate) probes: Vec<Probe>,
}

/// A health check of writing.
pub(crate) type Probe = oneshot::Sender<Result<(), Error>>;

/// An intent to store, and its reply channel.
pub(crate) struct Begin {
    pub(crate) intent: Intent,
    pub(crate) done: oneshot::Sender<Result<Begun, Error>>,
}

/// An output to store or delete, and its reply channel.
pub(crate) struct KeepOutput {
    pub(crate) tenant: TenantId,
    pub(crate) id: CallId,
    /// `None`: the stored output is deleted.
    pub(crate) bytes: Option<Vec<u8>>,
    pub(crate) done: oneshot::Sender<Result<(), Error>>,
}

impl Work {
    /// Maximum number of records for which space is allocated in advance.
    const ROOM: usize = 16_384;

    /// Empty, with space for the records that gather before the writer comes, so that no
    /// append pays for growing the list.
    pub(crate) fn with_room(records: usize) -> Self {
        Self { records: Vec::with_capacity(records.min(Self::ROOM)), ..Self::default() }
    }

    /// Only intents.
    pub(crate) fn of(begins: Vec<Begin>) -> Self {
        Self { begins, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.begins.is_empty()
            && self.records.is_empty()
            && self.outputs.is_empty()
            && self.probes.is_empty()
    }

    /// Reports an error to all who wait.
    pub(crate) fn refuse(self, error: &Error) {
        for begin in self.begins {
            // The caller may have gone away, here and below.
            let _ = begin.done.send(Err(error.clone()));
        }
        for probe in self.probes {
            let _ = probe.send(Err(error.clone()));
        }
        answer(self.outputs, &Err(error.clone()));
    }
}

/// Reports the result of outputs.
pub(crate) fn answer(outputs: impl IntoIterator<Item = KeepOutput>, end: &Result<(), Error>) {
    for output in outputs {
        let _ = output.done.send(end.clone());
    }
}
