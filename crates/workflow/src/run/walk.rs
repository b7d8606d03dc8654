//! Walks a graph: starts what is ready, and settles what has ended.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use windlass::{BoxFuture, Error, ErrorKind};

use super::at::At;
use super::drive::Drive;
use super::frame::{Acting, Frame, StepValue};
use crate::graph::{EdgeKind, Graph, Node, OnError};
use crate::log::{Failure, StepEnd};
use crate::step::{Done, Halt};

/// The end of a block.
pub struct BlockEnd {
    /// The value of the last step, in the order of the file, that was not
    /// skipped.
    pub value: Arc<Value>,
    /// The names of its steps in the order of the file, with what became of
    /// them.
    pub frame: Arc<Frame>,
}

/// What is known of a node.
#[derive(Clone, PartialEq)]
enum State {
    Unknown,
    Started,
    Ended(Option<Arc<str>>),
    Skipped,
}

/// Whether a node can start.
enum Readiness {
    Ready,
    NotYet,
    /// None of its edges was taken.
    Dead,
}

impl Drive<'_> {
    /// Runs all nodes of a graph that are reached. If one fails or returns, those
    /// that only read are given up; of those that may be changing something the
    /// end is awaited.
    pub(crate) fn walk<'a>(
        &'a self,
        graph: &'a Graph,
        frame: Arc<Frame>,
    ) -> BoxFuture<'a, Result<BlockEnd, Halt>> {
        Box::pin(async move {
            let nodes = graph.nodes();
            let mut states = vec![State::Unknown; nodes.len()];
            let before = graph.effects(&self.tools);
            let mut values: Vec<Option<Arc<Value>>> = vec![None; nodes.len()];
            let mut running = FuturesUnordered::new();
            let mut started: Vec<(Acting, AbortHandle)> = Vec::new();
            let mut halted: Option<Halt> = None;
            let mut open: Vec<usize> = (0..nodes.len()).rev().collect();
            loop {
                while let Some(index) = open.pop() {
                    if states[index] != State::Unknown || halted.is_some() {
                        continue;
                    }
                    match readiness(&nodes[index], before[index], &states) {
                        Readiness::NotYet => {}
                        Readiness::Dead => {
                            states[index] = State::Skipped;
                            frame.end(&nodes[index].id, StepValue::Skipped);
                            self.tell("step_skipped", &frame.place(&nodes[index].id), || json!({}));
                            let next = before.iter().position(|before| *before == Some(index));
                            open.extend(graph.dependents(index).iter().rev().copied().chain(next));
                        }
                        Readiness::Ready => {
                            states[index] = State::Started;
                            let acting = Acting::within(frame.acting());
                            let (handle, registration) = AbortHandle::new_pair();
                            started.push((acting.clone(), handle));
                            let (node, frame) = (&nodes[index], Arc::clone(&frame));
                            let run =
                                async move { (index, self.run_node(node, &frame, acting).await) };
                            running.push(Abortable::new(run, registration));
                        }
                    }
                }
                let Some(next) = running.next().await else { break };
                // Given up.
                let Ok((index, ended)) = next else { continue };
                let done = match ended {
                    Ok(done) => Some(done),
                    Err(Halt::Skipped) => None,
                    Err(halt) => {
                        if halted.is_none() {
                            halted = Some(halt);
                            let idle = started.iter().filter(|(acting, _)| !acting.is_acting());
                            idle.for_each(|(_, handle)| handle.abort());
                        }
                        continue;
                    }
                };
                let id = &nodes[index].id;
                match done {
                    Some(done) => {
                        frame.end(id, StepValue::Value(Arc::clone(&done.value)));
                        values[index] = Some(done.value);
                        states[index] = State::Ended(done.handle);
                    }
                    None => {
                        frame.end(id, StepValue::Skipped);
                        states[index] = State::Skipped;
                    }
                }
                let next = before.iter().position(|before| *before == Some(index));
                open.extend(graph.dependents(index).iter().rev().copied().chain(next));
            }
            if let Some(halt) = halted {
                self.forget_waits(frame.prefix());
                return Err(halt);
            }
            let value = values.into_iter().rev().flatten().next().unwrap_or_default();
            Ok(BlockEnd { value, frame })
        })
    }

    /// Runs a node, or takes its end from the log.
    pub(crate) async fn run_node(
        &self,
        node: &Arc<Node>,
        frame: &Arc<Frame>,
        acting: Acting,
    ) -> Result<Done, Halt> {
        let at = At { acting, ..At::new(self, node, frame) };
        let has_inner_undo = node.step.blocks().into_iter().any(Graph::has_undo);
        if let Some((end, order)) = self.ended(&at.place) {
            // The frames of blocks are needed to undo what they did.
            if !has_inner_undo || !matches!(end, StepEnd::Succeeded { .. }) {
                self.may_undo(node, frame, order, &end);
                if matches!(end, StepEnd::Failed { .. }) {
                    self.failed_at(&at.place);
                }
                return of_log(end);
            }
        }
        let is_leaf = node.step.blocks().is_empty();
        if self.only_replays() && is_leaf && node.step.is_logged() {
            return std::future::pending().await;
        }
        if self.writer.is_far_behind() {
            self.writer.flush().await?;
        }
        self.count_step(&at.place)?;
        if let Some(when) = &node.policy.when
            && !when.holds(&at).map_err(|error| at_place(&at.place, error))?
        {
            at.tell("step_skipped", || json!({}));
            return Err(Halt::Skipped);
        }
        at.tell("step_started", || json!({"kind": node.step.kind(), "tool": node.step.tool()}));
        let ran = {
            let _busy = is_leaf.then(|| self.busy());
            node.step.run(&at).await
        };
        let ran = match ran {
            Ok(done) => self.count_bytes(&at.place, &done.value).map(|()| done),
            halt => halt,
        };
        match ran {
            Ok(done) => Ok(self.succeed(&at, done, None)),
            Err(Halt::Failed(error)) => self.recover(&at, error).await,
            Err(Halt::Returned(value)) => {
                self.end(&at, StepEnd::Returned { value: Arc::clone(&value) });
                Err(Halt::Returned(value))
            }
            Err(Halt::Skipped) => {
                self.end(&at, StepEnd::Skipped { handled: None });
                at.tell("step_skipped", || json!({}));
                Err(Halt::Skipped)
            }
        }
    }

    fn succeed(&self, at: &At<'_>, done: Done, handled: Option<Failure>) -> Done {
        let (value, handle) = (Arc::clone(&done.value), done.handle.clone());
        let end = StepEnd::Succeeded { value, handle, handled };
        if at.node.step.is_logged() || matches!(end, StepEnd::Succeeded { handled: Some(_), .. }) {
            let order = self.end(at, end.clone());
            self.may_undo(at.node, at.frame, order, &end);
        }
        at.tell("step_completed", || json!({"kind": at.node.step.kind()}));
        done
    }

    /// What the failure of a step means.
    async fn recover(&self, at: &At<'_>, error: Error) -> Result<Done, Halt> {
        let failure = Failure::of(&error);
        let handled = !matches!(at.node.policy.on_error, OnError::Fail);
        at.tell("step_failed", || {
            json!({"error": {"kind": failure.kind, "message": failure.message}, "handled": handled})
        });
        // A run that is given up is not handled by its steps.
        let recovered = match &at.node.policy.on_error {
            OnError::Fail => Err(Halt::Failed(error)),
            _ if error.kind() == ErrorKind::Conflict && self.is_taken_over(&error) => {
                return Err(Halt::Failed(error));
            }
            OnError::Skip => {
                self.handled();
                self.end(at, StepEnd::Skipped { handled: Some(failure) });
                return Err(Halt::Skipped);
            }
            OnError::Handle(recover) => recover.recover(at, &error).map_err(Halt::Failed),
            OnError::Do(handler) => {
                let given = vec![("error".into(), At::error_value(&error))];
                let ran = at.block(handler, "!error.", given).await;
                ran.map(|end| Done { value: end.value, handle: None })
            }
        };
        match recovered {
            Ok(done) => {
                self.handled();
                Ok(self.succeed(at, done, Some(failure)))
            }
            Err(Halt::Failed(error)) => {
                let error = at_place(&at.place, error);
                self.end(at, StepEnd::Failed { error: Failure::of(&error) });
                self.failed_at(&at.place);
                Err(Halt::Failed(error))
            }
            Err(halt) => Err(halt),
        }
    }
}

/// The end of a step as the log has it.
fn of_log(end: StepEnd) -> Result<Done, Halt> {
    match end {
        StepEnd::Succeeded { value, handle, .. } => Ok(Done { value, handle }),
        StepEnd::Skipped { .. } => Err(Halt::Skipped),
        StepEnd::Failed { error } => Err(Halt::Failed(error.to_error())),
        StepEnd::Returned { value } => Err(Halt::Returned(value)),
    }
}

/// Says where an error comes from, once.
fn at_place(place: &str, error: Error) -> Error {
    if error.metadata().get("step").is_some() {
        return error;
    }
    error.with_metadata("step", place)
}

fn readiness(node: &Node, before: Option<usize>, states: &[State]) -> Readiness {
    let is_open = |state: &State| matches!(state, State::Unknown | State::Started);
    if before.is_some_and(|before| is_open(&states[before])) {
        return Readiness::NotYet;
    }
    let (mut has_flow, mut is_taken) = (false, false);
    for edge in &node.needs {
        let state = &states[edge.from];
        if is_open(state) {
            return Readiness::NotYet;
        }
        if let EdgeKind::Flow(handle) = &edge.kind {
            has_flow = true;
            is_taken |= matches!(state, State::Ended(Some(taken)) if taken == handle);
        }
    }
    if has_flow && !is_taken { Readiness::Dead } else { Readiness::Ready }
}
