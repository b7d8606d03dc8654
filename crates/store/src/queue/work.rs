//! The work itself, and who waits for it.

use tokio::sync::oneshot;
use windlass::{Begun, CallId, CallRecord, Error, Intent, TenantId};

/// What is written together.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) begins: Vec<Begin>,
    pub(crate) records: Vec<CallRecord>,
    pub(crate) outputs: Vec<KeepOutput>,
    /// Those who want to know whether anything can be written.
    pub(crate) probes: Vec<Probe>,
}

/// Somebody who wants to know whether anything can be written.
pub(crate) type Probe = oneshot::Sender<Result<(), Error>>;

/// An intent to keep, and who waits for it.
pub(crate) struct Begin {
    pub(crate) intent: Intent,
    pub(crate) done: oneshot::Sender<Result<Begun, Error>>,
}

/// An output to keep or to forget, and who waits for that.
pub(crate) struct KeepOutput {
    pub(crate) tenant: TenantId,
    pub(crate) id: CallId,
    /// None: whatever is kept is forgotten.
    pub(crate) bytes: Option<Vec<u8>>,
    pub(crate) done: oneshot::Sender<Result<(), Error>>,
}

impl Work {
    /// The most records that there is room for from the start.
    const ROOM: usize = 16_384;

    /// Nothing, with room for what gathers before the writer comes, so that no
    /// append pays for growing the list.
    pub(crate) fn with_room(records: usize) -> Self {
        Self { records: Vec::with_capacity(records.min(Self::ROOM)), ..Self::default() }
    }

    /// Intents alone.
    pub(crate) fn of(begins: Vec<Begin>) -> Self {
        Self { begins, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.begins.is_empty()
            && self.records.is_empty()
            && self.outputs.is_empty()
            && self.probes.is_empty()
    }

    /// Tells those who wait that it will not be.
    pub(crate) fn refuse(self, error: &Error) {
        for begin in self.begins {
            // Who asked may have gone away, here and below.
            let _ = begin.done.send(Err(error.clone()));
        }
        for probe in self.probes {
            let _ = probe.send(Err(error.clone()));
        }
        answer(self.outputs, &Err(error.clone()));
    }
}

/// Tells those who wait for outputs what came of it.
pub(crate) fn answer(outputs: impl IntoIterator<Item = KeepOutput>, end: &Result<(), Error>) {
    for output in outputs {
        let _ = output.done.send(end.clone());
    }
}
