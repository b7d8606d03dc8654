//! [`Machine`]: a run as a state machine.

use std::collections::{HashMap, VecDeque};

use super::containers::{Container, Resume};
use super::frame::{Frame, Frames};
use super::{Ended, Event, Limits, Status};
use crate::graph::{Graph, Leaving, Place};
use crate::node::NodeKind;
use crate::pool::Pool;
use crate::step::{self, Failure, Outcome};
use crate::stream::Chunk;
use crate::value::{Object, Value};

/// The frame of the run itself.
const ROOT: usize = 0;

/// Something to do.
pub(super) enum Task {
    /// Run a node of a frame.
    Node(usize, Place),
    /// Go on with a container of a frame.
    Resume(usize, Place, Resume),
}

/// A node that is to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The node.
    pub node: Place,
    /// Where it stands: the ids of containers with their rounds, and its own
    /// (`pages[3].lookup`, `poll#2.get`).
    pub path: String,
    frame: usize,
}

/// A run: what is to be done next, and what follows from how it ended.
pub struct Machine<'g> {
    graph: &'g Graph,
    pub(super) limits: Limits,
    events: Vec<Event>,
    pub(super) frames: Frames,
    pub(super) queue: VecDeque<Task>,
    pub(super) containers: HashMap<(usize, Place), Container>,
    steps: usize,
    handled: usize,
    failure: Option<(Place, Failure)>,
}

impl<'g> Machine<'g> {
    /// A run with these variables.
    pub fn new(graph: &'g Graph, pool: Pool, limits: Limits) -> Self {
        let mut machine = Self {
            graph,
            limits,
            events: vec![Event::RunStarted],
            frames: Frames::default(),
            queue: VecDeque::new(),
            containers: HashMap::new(),
            steps: 0,
            handled: 0,
            failure: None,
        };
        let root = graph.root();
        let frame = machine.frames.open(Frame::root(graph, root.unwrap_or(0), pool));
        match root {
            Some(root) => machine.enqueue(frame, root),
            None => {
                let failure = Failure::new("ValueError", "the graph has no start node");
                machine.failure = Some((0, failure));
            }
        }
        machine
    }

    /// The graph.
    pub fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// What has happened since this was asked before.
    pub fn events(&mut self) -> std::vec::IntoIter<Event> {
        std::mem::take(&mut self.events).into_iter()
    }

    /// The variables that a job sees.
    pub fn pool(&self, job: &Job) -> &Pool {
        self.frames.pool(job.frame)
    }

    /// Whether a node failed, and the run with it: jobs that are still done do not count.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The next job, if one is ready. Several may be done at once.
    pub fn next_job(&mut self) -> Option<Job> {
        while self.failure.is_none()
            && let Some(task) = self.queue.pop_front()
        {
            match task {
                Task::Node(frame, place) => {
                    if let Some(job) = self.start(frame, place) {
                        return Some(job);
                    }
                }
                Task::Resume(frame, place, resume) => self.resume(frame, place, resume),
            }
        }
        None
    }

    /// Text of an output that a job makes just now.
    pub fn text(&mut self, job: &Job, name: &str, part: &str, last: bool) {
        let (graph, selector) =
            (self.graph, vec![self.graph.node(job.node).id.clone(), name.to_owned()]);
        let chunks = self
            .frames
            .stream(graph, job.frame, |stream, view| stream.text(view, &selector, part, last));
        self.texts(chunks);
    }

    /// A job has ended.
    pub fn end(&mut self, job: &Job, end: Result<Outcome, Failure>) {
        if self.failure.is_some() {
            return;
        }
        match end {
            Ok(outcome) => self.complete(job.frame, job.node, outcome),
            Err(failure) => self.failed(job.frame, job.node, failure),
        }
    }

    /// What came of the run, when no job is left.
    pub fn ended(&mut self) -> Ended {
        let status = match (&self.failure, self.handled) {
            (Some(_), _) => Status::Failed,
            (None, 0) => Status::Succeeded,
            (None, _) => Status::PartialSucceeded,
        };
        self.emit(Event::RunEnded { status });
        let conversation = self.frames.pool(ROOT).of_node("conversation");
        let conversation =
            conversation.map(|(name, segment)| (name.to_owned(), segment.clone())).collect();
        Ended {
            status,
            outputs: std::mem::take(&mut self.frames.get_mut(ROOT).outputs),
            conversation,
            failure: self.failure.take(),
            handled: self.handled,
        }
    }

    pub(super) fn emit(&mut self, event: Event) {
        self.events.push(event);
    }

    fn texts(&mut self, chunks: Vec<Chunk>) {
        chunks.into_iter().for_each(|chunk| self.emit(Event::Text(chunk)));
    }

    pub(super) fn enqueue(&mut self, frame: usize, place: Place) {
        self.frames.get_mut(frame).unfinished += 1;
        self.queue.push_back(Task::Node(frame, place));
    }

    /// Where a node of a frame stands.
    fn path(&self, frame: usize, place: Place) -> String {
        self.frames.path(self.graph, frame) + &self.graph.node(place).id
    }

    fn is_hidden(&self, place: Place) -> bool {
        matches!(self.graph.node(place).kind, NodeKind::ContainerStart)
    }

    /// Starts a node; a job, unless it is a container.
    fn start(&mut self, frame: usize, place: Place) -> Option<Job> {
        let node = self.graph.node(place);
        self.steps += 1;
        if self.steps > self.limits.steps {
            let most = self.limits.steps;
            let message = format!("Maximum execution steps {most} reached");
            self.failure = Some((place, Failure::new("StepLimit", message)));
            return None;
        }
        if !self.is_hidden(place) {
            let path = self.path(frame, place);
            self.emit(Event::NodeStarted { node: place, path });
        }
        if node.kind.is_container() {
            match self.start_container(frame, place) {
                Ok(Some(outcome)) => self.complete(frame, place, outcome),
                // It waits for its rounds.
                Ok(None) => {}
                Err(failure) => self.failed(frame, place, failure),
            }
            return None;
        }
        Some(Job { node: place, path: self.path(frame, place), frame })
    }

    pub(super) fn failed(&mut self, frame: usize, place: Place, failure: Failure) {
        match step::recover(self.graph.node(place), failure) {
            Ok(outcome) => self.complete(frame, place, outcome),
            Err(failure) => {
                let path = self.path(frame, place);
                self.emit(Event::NodeFailed { node: place, path, failure: failure.clone() });
                match self.frames.get(frame).parent {
                    None => self.failure = Some((place, failure)),
                    Some(_) => {
                        let inner = self.frames.get_mut(frame);
                        inner.failures.push(failure);
                        inner.unfinished -= 1;
                        self.check_frame(frame);
                    }
                }
            }
        }
    }

    /// A node has ended: its outputs are variables, and the run goes on at its edges.
    pub(super) fn complete(&mut self, frame: usize, place: Place, mut outcome: Outcome) {
        let (graph, node) = (self.graph, self.graph.node(place));
        for (target, name, segment) in std::mem::take(&mut outcome.assigned) {
            self.frames.pool_mut(frame).set(&target, &name, segment);
            self.emit(Event::VariableUpdated { node: place, selector: [target, name] });
        }
        for (name, segment) in &outcome.outputs {
            self.frames.pool_mut(frame).set(&node.id, name, segment.clone());
        }
        let leaving = Leaving::of(node, &outcome);
        let followed = self.frames.get_mut(frame).paths.follow(graph, place, leaving);
        for skipped in followed.skipped {
            let path = self.path(frame, skipped);
            self.emit(Event::NodeSkipped { node: skipped, path });
        }
        let chunks =
            self.frames.stream(graph, frame, |stream, view| stream.taken(view, &followed.taken));
        self.texts(chunks);
        for ready in followed.ready {
            self.enqueue(frame, ready);
        }
        if node.kind.is_response() {
            let outputs = outcome.outputs.iter();
            let outputs = outputs.map(|(name, segment)| (name.clone(), segment.value.clone()));
            merge(&mut self.frames.get_mut(frame).outputs, outputs.collect());
            let chunks = self.frames.stream(graph, frame, |stream, view| stream.ended(view, place));
            self.texts(chunks);
        }
        let within =
            self.frames.get(frame).parent.map(|(_, container, _)| &graph.node(container).id);
        if matches!(node.kind, NodeKind::LoopEnd) && node.loop_id.as_ref() == within {
            self.frames.get_mut(frame).broke = true;
        }
        let path = self.path(frame, place);
        match outcome.failure {
            Some(failure) => {
                self.handled += 1;
                self.emit(Event::NodeExcepted { node: place, path, failure });
            }
            None if !self.is_hidden(place) => {
                self.emit(Event::NodeSucceeded { node: place, path, outputs: outcome.outputs });
            }
            None => {}
        }
        self.frames.get_mut(frame).unfinished -= 1;
        self.check_frame(frame);
    }
}

/// Adds the outputs of a response: answers follow each other, the rest is replaced.
pub(super) fn merge(outputs: &mut Object, more: Object) {
    for (name, value) in more {
        let joined = match (name.as_str(), outputs.get("answer"), &value) {
            ("answer", Some(Value::Text(before)), Value::Text(after)) => {
                Some(Value::from(format!("{before}{after}")))
            }
            _ => None,
        };
        outputs.insert(name, joined.unwrap_or(value));
    }
}
