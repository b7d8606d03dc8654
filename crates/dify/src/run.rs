//! Runs a graph.
//!
//! [`Machine`] is the specification of a run: which nodes run, in which order, with which
//! variables, and what comes of it. It does nothing itself: it hands out jobs, and is told
//! how they ended. [`run`] does them one after the other, with all that reaches out behind
//! [`Outside`]; a driver that is durable and does several at once asks the same machine.

mod containers;
mod frame;
mod machine;

pub use self::machine::{Job, Machine};
use crate::document::Document;
use crate::graph::{Graph, Place};
use crate::node::Node;
use crate::pool::Pool;
use crate::step::{self, Answer, Failure, Outcome, Outputs, Work};
use crate::stream::Chunk;
use crate::value::{Object, Segment};

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

/// What happens in a run; `path` says in which round (see [`Job::path`]).
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Event {
    RunStarted,
    NodeStarted {
        node: Place,
        path: String,
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
        path: String,
        outputs: Outputs,
    },
    /// It failed, and its node says how to go on.
    NodeExcepted {
        node: Place,
        path: String,
        failure: Failure,
    },
    NodeFailed {
        node: Place,
        path: String,
        failure: Failure,
    },
    NodeSkipped {
        node: Place,
        path: String,
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

/// Runs a graph with these variables, one node after the other, in memory.
pub fn run(
    graph: &Graph,
    pool: Pool,
    limits: Limits,
    outside: &mut dyn Outside,
    events: &mut dyn FnMut(Event),
) -> Ended {
    let mut machine = Machine::new(graph, pool, limits);
    while let Some(job) = machine.next_job() {
        machine.events().for_each(&mut *events);
        let end = tried(&mut machine, &job, outside, events);
        machine.end(&job, end);
        machine.events().for_each(&mut *events);
    }
    let ended = machine.ended();
    machine.events().for_each(events);
    ended
}

/// Does a job, as often as its node says.
fn tried(
    machine: &mut Machine<'_>,
    job: &Job,
    outside: &mut dyn Outside,
    events: &mut dyn FnMut(Event),
) -> Result<Outcome, Failure> {
    let retry = machine.graph().node(job.node).retry;
    let mut tries = 0;
    loop {
        match attempt(machine, job, outside, events) {
            Err(failure) if tries < retry.times => {
                tries += 1;
                events(Event::NodeRetried { node: job.node, failure });
                outside.wait(retry.interval);
            }
            end => return end,
        }
    }
}

fn attempt(
    machine: &mut Machine<'_>,
    job: &Job,
    outside: &mut dyn Outside,
    events: &mut dyn FnMut(Event),
) -> Result<Outcome, Failure> {
    let graph = machine.graph();
    let (node, pool) = (graph.node(job.node), machine.pool(job).clone());
    let mut text = |name: &str, part: &str, last: bool| {
        machine.text(job, name, part, last);
        machine.events().for_each(&mut *events);
    };
    if let Some(end) = outside.stand_in(node, &pool, &mut text) {
        return end;
    }
    match step::begin(node, &pool)? {
        Work::Done(outcome) => Ok(outcome),
        work => {
            let answer = outside.answer(node, &work, &mut text)?;
            step::finish(node, &pool, answer)
        }
    }
}
