//! Undoes what a failed run did (saga).

use std::sync::Arc;

use serde_json::json;
use windlass::Error;

use super::at::At;
use super::drive::Drive;
use super::frame::Frame;
use crate::graph::Node;
use crate::step::Halt;

/// A step that has ended, and can be undone.
pub(crate) struct Undoable {
    pub(crate) node: Arc<Node>,
    pub(crate) frame: Arc<Frame>,
    /// The number of steps that ended before it.
    pub(crate) order: usize,
}

impl Drive<'_> {
    pub(crate) fn can_undo(&self) -> bool {
        !self.undoable.lock().is_empty()
    }

    /// Runs the `undo` steps of everything that has ended, the last first. One
    /// that fails does not keep the others from running.
    pub(crate) async fn undo_all(&self) -> Result<(), Error> {
        let mut undoable = std::mem::take(&mut *self.undoable.lock());
        undoable.sort_by_key(|one| std::cmp::Reverse(one.order));
        undoable.truncate(self.plan.limits.undo);
        for Undoable { node, frame, .. } in &undoable {
            let Some(undo) = &node.policy.undo else { continue };
            let at = At::new(self, node, frame);
            at.tell("undoing", || json!({}));
            match at.block(undo, "!undo.", Vec::new()).await {
                Err(Halt::Failed(error)) if self.is_taken_over(&error) => return Err(error),
                Err(Halt::Failed(error)) => {
                    at.tell("undo_failed", || json!({"error": {"message": error.message()}}));
                    tracing::warn!(run = &*self.run, step = &*at.place, %error, "undo failed");
                }
                Ok(_) | Err(Halt::Returned(_) | Halt::Skipped) => {}
            }
        }
        Ok(())
    }
}
