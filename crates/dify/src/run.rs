//! Runs a graph in memory, one node after the other.
//!
//! This is the specification of a run: which nodes run, in which order, with which
//! variables, and what comes of it. It is simple on purpose: nothing is durable, nothing
//! runs at once (a queue has the order in which work became ready), and all that reaches
//! out is behind [`Outside`]. A driver that is durable and concurrent is checked against it.

mod containers;
mod frame;

use std::collections::{HashMap, VecDeque};

use self::frame::{Frame, Frames};
use crate::document::Document;
use crate::graph::{Graph, Leaving, Place};
use crate::node::{Node, NodeKind};
use crate::pool::Pool;
use crate::step::{self, Answer, Failure, Outcome, Outputs, Work};
use crate::stream::Chunk;
use crate::value::{Object, Segment, Value};

/// How much a run may do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Nodes that run, each round counted.
    pub steps: usize,
    /// Items of an iteration, and rounds of a loop.
    pub rounds: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 2_000, rounds: 1_000 }
    }
}

/// Who does the work that reaches out.
pub trait Outside {
    /// Does the work of a node. Text that is made on the way goes to `text`, with the name
    /// of the output and whether it is the last of it.
    fn answer(
        &mut self,
        node: &Node,
        work: &Work,
        text: &mut dyn FnMut(&str, &str, bool),
    ) -> Result<Answer, Failure>;

    /// Takes the place of a node altogether, for tests of what is around it.
    fn stand_in(
        &mut self,
        _node: &Node,
        _pool: &Pool,
        _text: &mut dyn FnMut(&str, &str, bool),
    ) -> Option<Result<Outcome, Failure>> {
        None
    }

    /// Waits before a node is tried again.
    fn wait(&mut self, _milliseconds: u64) {}
}

/// What happens in a run.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Event {
    RunStarted,
    NodeStarted {
        node: Place,
    },
    NodeRetried {
        node: Place,
        failure: Failure,
    },
    VariableUpdated {
        node: Place,
        selector: [String; 2],
    },
    Text(Chunk),
    NodeSucceeded {
        node: Place,
        outputs: Outputs,
    },
    /// It failed, and its node says how to go on.
    NodeExcepted {
        node: Place,
        failure: Failure,
    },
    NodeFailed {
        node: Place,
        failure: Failure,
    },
    NodeSkipped {
        node: Place,
    },
    RoundsStarted {
        node: Place,
        rounds: usize,
    },
    RoundNext {
        node: Place,
        round: usize,
    },
    RoundsSucceeded {
        node: Place,
    },
    RoundsFailed {
        node: Place,
    },
    RunEnded {
        status: Status,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All went well.
    Succeeded,
    /// Nodes failed that said how to go on.
    PartialSucceeded,
    /// A node failed.
    Failed,
}

impl Status {
    /// Its name in Dify.
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::PartialSucceeded => "partial-succeeded",
            Self::Failed => "failed",
        }
    }
}

/// What comes of a run.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How it ended.
    pub status: Status,
    /// Its outputs.
    pub outputs: Object,
    /// Why it failed, and at which node.
    pub failure: Option<(Place, Failure)>,
    /// How many failures its nodes handled.
    pub handled: usize,
    /// The variables of the conversation, for the next run in it.
    pub conversation: Vec<(String, Segment)>,
}

/// The variables that a run of a document starts with.
pub fn pool(document: &Document, system: &Object) -> Pool {
    let environment = document.environment.iter();
    let secrets = environment.clone().filter(|variable| variable.value.is_none());
    let mut pool = Pool::new(secrets.map(|variable| variable.name.clone()));
    for (name, value) in system {
        pool.set("sys", name, value.clone());
    }
    let all = [("env", &document.environment), ("conversation", &document.conversation)];
    for (node, variables) in all {
        for variable in variables {
            if let Some(value) = &variable.value {
                pool.set(node, &variable.name, value.clone());
            }
        }
    }
    pool
}

/// Runs a graph with these variables.
pub fn run(
    graph: &Graph,
    pool: Pool,
    limits: Limits,
    outside: &mut dyn Outside,
    events: &mut dyn FnMut(Event),
) -> Ended {
    let mut driver = Driver {
        graph,
        limits,
        outside,
        events,
        frames: Frames::default(),
        queue: VecDeque::new(),
        containers: HashMap::new(),
        steps: 0,
        handled: 0,
        failure: None,
    };
    driver.emit(Event::RunStarted);
    match graph.root() {
        Some(root) => {
            let frame = driver.frames.open(Frame::root(graph, root, pool));
            driver.enqueue(frame, root);
            driver.drain();
            driver.end(frame)
        }
        None => {
            let failure = Failure::new("ValueError", "the graph has no start node");
            driver.emit(Event::RunEnded { status: Status::Failed });
            Ended {
                status: Status::Failed,
                outputs: Object::new(),
                failure: Some((0, failure)),
                handled: 0,
                conversation: Vec::new(),
            }
        }
    }
}

/// Something to do.
enum Task {
    /// Run a node of a frame.
    Node(usize, Place),
    /// Go on with a container of a frame.
    Resume(usize, Place, containers::Resume),
}

struct Driver<'r> {
    graph: &'r Graph,
    limits: Limits,
    outside: &'r mut dyn Outside,
    events: &'r mut dyn FnMut(Event),
    frames: Frames,
    queue: VecDeque<Task>,
    containers: HashMap<(usize, Place), containers::Container>,
    steps: usize,
    handled: usize,
    failure: Option<(Place, Failure)>,
}

impl Driver<'_> {
    fn emit(&mut self, event: Event) {
        (self.events)(event);
    }

    fn texts(&mut self, chunks: Vec<Chunk>) {
        chunks.into_iter().for_each(|chunk| self.emit(Event::Text(chunk)));
    }

    fn enqueue(&mut self, frame: usize, place: Place) {
        self.frames.get_mut(frame).unfinished += 1;
        self.queue.push_back(Task::Node(frame, place));
    }

    fn drain(&mut self) {
        while self.failure.is_none()
            && let Some(task) = self.queue.pop_front()
        {
            match task {
                Task::Node(frame, place) => self.node(frame, place),
                Task::Resume(frame, place, resume) => self.resume(frame, place, resume),
            }
        }
    }

    fn end(&mut self, frame: usize) -> Ended {
        let status = match (&self.failure, self.handled) {
            (Some(_), _) => Status::Failed,
            (None, 0) => Status::Succeeded,
            (None, _) => Status::PartialSucceeded,
        };
        self.emit(Event::RunEnded { status });
        let outputs = std::mem::take(&mut self.frames.get_mut(frame).outputs);
        let conversation = self.frames.pool(frame).of_node("conversation");
        let conversation = conversation.map(|(name, segment)| (name.to_owned(), segment.clone()));
        Ended {
            status,
            outputs,
            conversation: conversation.collect(),
            failure: self.failure.take(),
            handled: self.handled,
        }
    }

    fn is_hidden(&self, place: Place) -> bool {
        matches!(self.graph.node(place).kind, NodeKind::ContainerStart)
    }

    /// Runs a node, all its tries included.
    fn node(&mut self, frame: usize, place: Place) {
        let node = self.graph.node(place);
        self.steps += 1;
        if self.steps > self.limits.steps {
            let most = self.limits.steps;
            let message = format!("Maximum execution steps {most} reached");
            self.failure = Some((place, Failure::new("StepLimit", message)));
            return;
        }
        if !self.is_hidden(place) {
            self.emit(Event::NodeStarted { node: place });
        }
        let mut tries = 0;
        loop {
            match self.attempt(frame, place) {
                Ok(Some(outcome)) => return self.complete(frame, place, outcome),
                // A container waits for its rounds.
                Ok(None) => return,
                Err(failure) if tries < node.retry.times => {
                    tries += 1;
                    self.emit(Event::NodeRetried { node: place, failure });
                    self.outside.wait(node.retry.interval);
                }
                Err(failure) => return self.failed(frame, place, failure),
            }
        }
    }

    fn attempt(&mut self, frame: usize, place: Place) -> Result<Option<Outcome>, Failure> {
        let node = self.graph.node(place);
        if node.kind.is_container() {
            return self.start_container(frame, place);
        }
        let pool = self.frames.pool(frame).clone();
        let (graph, frames, events) = (self.graph, &mut self.frames, &mut *self.events);
        let mut text = |name: &str, part: &str, last: bool| {
            let selector = vec![node.id.clone(), name.to_owned()];
            let chunks = frames
                .stream(graph, frame, |stream, view| stream.text(view, &selector, part, last));
            chunks.into_iter().for_each(|chunk| events(Event::Text(chunk)));
        };
        if let Some(outcome) = self.outside.stand_in(node, &pool, &mut text) {
            return outcome.map(Some);
        }
        match step::begin(node, &pool)? {
            Work::Done(outcome) => Ok(Some(outcome)),
            work => {
                let answer = self.outside.answer(node, &work, &mut text)?;
                step::finish(node, &pool, answer).map(Some)
            }
        }
    }

    fn failed(&mut self, frame: usize, place: Place, failure: Failure) {
        match step::recover(self.graph.node(place), failure) {
            Ok(outcome) => self.complete(frame, place, outcome),
            Err(failure) => {
                self.emit(Event::NodeFailed { node: place, failure: failure.clone() });
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
    fn complete(&mut self, frame: usize, place: Place, mut outcome: Outcome) {
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
            self.emit(Event::NodeSkipped { node: skipped });
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
        match outcome.failure {
            Some(failure) => {
                self.handled += 1;
                self.emit(Event::NodeExcepted { node: place, failure });
            }
            None if !self.is_hidden(place) => {
                self.emit(Event::NodeSucceeded { node: place, outputs: outcome.outputs });
            }
            None => {}
        }
        self.frames.get_mut(frame).unfinished -= 1;
        self.check_frame(frame);
    }
}

/// Adds the outputs of a response: answers follow each other, the rest is replaced.
fn merge(outputs: &mut Object, more: Object) {
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
