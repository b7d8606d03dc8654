//! A run: one drive of a graph, from its beginning or from its log to its end,
//! or until it waits for something.
//!
//! ```text
//! log ─ Memo ─► walk ─ run_node ─ Step ─ At ─► calls, waits, blocks
//!                 │                       │
//!                 └──── Writer ◄──────────┘   entries, before what depends on them
//! ```
//!
//! A whole drive is one task: it polls its steps, and when none of them does
//! anything but wait, it *parks*: everything is written down, and nothing of the
//! run stays in memory. What it waited for drives it again, here or on another
//! server. Steps that have ended are then taken from the log.

mod at;
mod drive;
mod frame;
mod memo;
mod undo;
mod walk;
mod writer;

pub use at::At;
pub(crate) use at::RUN_FACT;
pub(crate) use drive::{Drive, DriveEnd, Driver};
pub(crate) use frame::Acting;
pub use frame::{Frame, StepValue};
pub(crate) use memo::Memo;
pub(crate) use writer::Writer;
