//! A job of the machine as a step with a place of its own.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use windlass::{BoxFuture, Error, ErrorKind, Tools};
use windlass_dify::node::OnError as DifyOnError;
use windlass_dify::run::Job;
use windlass_dify::step::{Answer, Failure, Outcome, Work};

use super::answer::KeptAnswer;
use super::{Dify, failure_of};
use crate::graph::{Node, OnError, Policy, Recover};
use crate::run::{Acting, At};
use crate::step::{Done, Halt, Step};

/// What is to be done.
pub(super) enum Todo {
    Work(Work),
    /// Another tool does it.
    Replaced {
        tool: Arc<str>,
        given: Value,
    },
}

/// How a job ended.
pub(super) enum Reached {
    Answer(Answer),
    Outcome(Outcome),
    /// It failed, and its node says how to go on.
    Failure(Failure),
}

impl Dify {
    /// Does a job, or takes its end from the log.
    pub(super) async fn reach(
        self: &Arc<Self>,
        at: &At<'_>,
        job: &Job,
        todo: Todo,
        acting: Acting,
    ) -> Result<Reached, Halt> {
        let own = self.document.graph.node(job.node);
        let prefix = job.path.strip_suffix(own.id.as_str()).unwrap_or_default();
        let frame = at.frame.within(prefix, Vec::new(), &acting);
        let on_error = match &own.on_error {
            DifyOnError::Fail => OnError::Fail,
            DifyOnError::Default(_) | DifyOnError::Branch => OnError::Handle(Box::new(Keep)),
        };
        let node = Arc::new(Node {
            id: own.id.as_str().into(),
            step: Box::new(JobStep { dify: Arc::clone(self), node: job.node, todo }),
            needs: Vec::new(),
            policy: Policy { on_error, ..Policy::default() },
            key: format!("dify/source:{}", own.at.line).into(),
        });
        let done = at.drive.run_node(&node, &frame, acting).await?;
        let kept: KeptAnswer =
            serde_json::from_value(Value::clone(&done.value)).map_err(|error| {
                let why = format!("what is kept of a node is no answer: {error}");
                Error::new(ErrorKind::Internal, why)
            })?;
        Ok(kept.reached(own))
    }
}

/// Keeps a failure as an answer, for the node's own way to go on.
struct Keep;

impl Recover for Keep {
    fn recover(&self, _: &At<'_>, error: &Error) -> Result<Done, Error> {
        let Failure { class, message } = failure_of(error);
        kept(&KeptAnswer::Failed { class, message })
    }
}

pub(super) fn kept(answer: &KeptAnswer) -> Result<Done, Error> {
    let value = serde_json::to_value(answer);
    value.map(Done::new).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
}

/// What reaches out for one node.
pub(super) struct JobStep {
    pub(super) dify: Arc<Dify>,
    node: usize,
    pub(super) todo: Todo,
}

impl JobStep {
    pub(super) fn own(&self) -> &windlass_dify::node::Node {
        self.dify.document.graph.node(self.node)
    }

    /// Whether Dify would take the answer for a failure.
    fn is_refusal(&self, answer: &KeptAnswer) -> bool {
        matches!(answer, KeptAnswer::Http { status, .. } if !(200..300).contains(status))
    }
}

impl Step for JobStep {
    fn kind(&self) -> &'static str {
        self.own().kind.name()
    }

    fn tool(&self) -> Option<&str> {
        match &self.todo {
            Todo::Replaced { tool, .. } => Some(tool),
            Todo::Work(_) => None,
        }
    }

    fn may_change(&self, tools: &Tools) -> bool {
        super::shape::may_change(&self.dify, self.own(), tools)
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        Box::pin(async move {
            let retry = self.own().retry;
            // What may have had an effect is not tried again, whatever the file says.
            let most = if self.may_change(&at.drive.tools) { 0 } else { retry.times };
            let mut tries = 0;
            loop {
                let ended = self.once(at).await;
                let failed = match &ended {
                    Ok(answer) => self.is_refusal(answer),
                    Err(Halt::Failed(error)) => !at.drive.is_taken_over(error),
                    Err(_) => false,
                };
                if !failed || tries >= most {
                    return Ok(kept(&ended?)?);
                }
                tries += 1;
                tokio::time::sleep(Duration::from_millis(retry.interval)).await;
            }
        })
    }
}
