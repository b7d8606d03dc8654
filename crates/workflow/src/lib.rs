//! Workflows as tools: durable graphs of steps for windlass.
//!
//! A workflow is a definition of the kind `workflow`; calling it begins a
//! *run*. Runs are logged step by step, and go on after the process was killed
//! without repeating an effect; a run that waits for a person, a signal or a
//! time holds neither a task nor memory.
//!
//! In reading order:
//!
//! 1. [`graph`]: what runs. A [`Graph`](graph::Graph) has nodes and edges; a
//!    [`Step`](step::Step) says what a node does. Front ends compile to it:
//!    `native` reads the keys of a definition.
//! 2. [`log`] and [`store`]: what is kept. A run has a head and a log of
//!    entries, keyed by place; a [`RunStore`](store::RunStore) keeps both.
//! 3. `run`: one drive of a run, from its beginning or from its log.
//! 4. [`Workflows`]: the executor, and [`Runs`]: what a server does with runs.
//!
//! Expressions are those of `windlass-expr`; templates are Jinja.

pub mod dify;
pub mod graph;
mod jinja;
mod limits;
pub mod log;
mod native;
pub mod picture;
mod plan;
mod run;
mod runs;
pub mod step;
pub mod store;
mod workflows;

pub use jinja::Template;
pub use limits::RunLimits;
pub use native::{Formula, Prompt, PromptMaker};
pub use plan::{Plan, Returns, RunBudget};
pub use run::{At, Frame, StepValue};
pub use runs::{Answer, PlaceStatus, PlaceView, RunView, Runs};
pub use workflows::Workflows;
