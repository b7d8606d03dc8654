//! [`Step`]: what one node of a graph does.

use std::sync::Arc;

use serde_json::Value;
use windlass::{BoxFuture, Error, Tools};

use crate::graph::Graph;
use crate::run::At;

/// What a node does. A front end brings one implementation for each kind.
pub trait Step: Send + Sync {
    /// The name of its kind, for pictures and events.
    fn kind(&self) -> &'static str;

    /// The tool that it calls, for pictures and checks.
    fn tool(&self) -> Option<&str> {
        None
    }

    /// The graphs within it.
    fn blocks(&self) -> Vec<&Graph> {
        Vec::new()
    }

    /// Whether it may change something outside of the run, with the tools that
    /// there are now.
    fn may_change(&self, tools: &Tools) -> bool {
        self.blocks().into_iter().flat_map(Graph::nodes).any(|node| node.step.may_change(tools))
    }

    /// Whether its end is kept, so that a resumed run does not do it again.
    /// What is quickly computed from other values need not be.
    fn is_logged(&self) -> bool {
        true
    }

    /// Runs it.
    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>>;
}

/// The end of a step.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its value.
    pub value: Arc<Value>,
    /// The handle that it ended through, for graphs whose edges name handles.
    pub handle: Option<Arc<str>>,
}

impl Done {
    /// The end of a step with this value.
    pub fn new(value: impl Into<Value>) -> Self {
        Self { value: Arc::new(value.into()), handle: None }
    }

    /// The end through a handle.
    #[must_use]
    pub fn through(mut self, handle: impl Into<Arc<str>>) -> Self {
        self.handle = Some(handle.into());
        self
    }
}

/// Why a step does not end with a value.
#[derive(Clone, Debug)]
pub enum Halt {
    /// It failed.
    Failed(Error),
    /// The run ends here with this value.
    Returned(Arc<Value>),
    /// It was skipped.
    Skipped,
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
