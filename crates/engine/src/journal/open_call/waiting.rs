//! Suspended calls: one handle leaves the call without a record, another one
//! closes it later with its one record.

use std::sync::Arc;

use jiff::Timestamp;

use super::OpenCall;
use crate::approval::{SuspendedCall, Verdict};
use crate::journal::event::EventBody;

impl OpenCall {
    /// When the call was received.
    pub(crate) fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Moves the call to another handle; this one neither records nor reports
    /// any more.
    pub(crate) fn take_over(&mut self) -> Self {
        let own = Self {
            shared: Arc::clone(&self.shared),
            id: self.id,
            call_ref: self.call_ref.clone(),
            tool_name: self.tool_name.clone(),
            repeatable: self.repeatable,
            kind: self.kind,
            context: Arc::clone(&self.context),
            masks: self.masks.take(),
            arguments: self.arguments.take(),
            output_size: self.output_size,
            created_at: self.created_at,
            began: self.began,
            queue_wait: self.queue_wait,
            attempts: self.attempts,
            details: self.details.take(),
            batch: self.batch,
            deadline: self.deadline,
            effect: self.effect.clone(),
            intended: self.intended,
            unreported: self.unreported.take(),
            closed: self.closed,
        };
        self.closed = true;
        own
    }

    /// The call is suspended; another handle closes it later.
    pub(crate) fn suspended(&mut self, reason: String) {
        self.closed = true;
        self.shared.journal.bus.emit(|| EventBody::ApprovalRequested { call: self.info(), reason });
    }

    /// The call is a resumed one.
    pub(crate) fn resumed(&mut self, suspended: &SuspendedCall) {
        self.id = suspended.id;
        self.batch = suspended.batch_id;
        self.came_at(suspended.created_at);
    }

    /// Sets when another process received the call.
    pub(crate) fn came_at(&mut self, created_at: Timestamp) {
        self.created_at = created_at;
    }

    /// A person decided about the call.
    pub(crate) fn decided(&mut self, verdict: Verdict) {
        self.details().approval = Some(verdict.clone());
        self.shared.journal.bus.emit(|| EventBody::ApprovalDecided { call: self.info(), verdict });
    }

    /// Another process runs this call and closes it.
    pub(crate) fn left_to_another(&mut self) {
        self.closed = true;
    }

    /// The call runs and is closed here.
    pub(crate) fn taken_back(&mut self) {
        self.closed = false;
    }

    /// Whether another handle or process closes the call, or has.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }
}
