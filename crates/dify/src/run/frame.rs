//! Frames: the run itself, and each round of an iteration or loop in it.

use crate::graph::{Graph, Paths, Place};
use crate::node::NodeKind;
use crate::pool::Pool;
use crate::step::Failure;
use crate::stream::{Chunk, Stream, View};
use crate::value::Object;

/// One execution of the nodes of a container, or of the whole graph.
pub(super) struct Frame {
    /// The frame and the container that it is a round of, and which round.
    pub(super) parent: Option<(usize, Place, usize)>,
    /// Its own variables; a loop's round has those of its parent.
    pool: Option<Pool>,
    pub(super) paths: Paths,
    stream: Stream,
    /// Nodes that are ready or run.
    pub(super) unfinished: usize,
    pub(super) failures: Vec<Failure>,
    /// Whether a `loop-end` ran.
    pub(super) broke: bool,
    /// The outputs of its responses.
    pub(super) outputs: Object,
}

impl Frame {
    pub(super) fn root(graph: &Graph, first: Place, pool: Pool) -> Self {
        Self::new(graph, first, None, None, Some(pool))
    }

    pub(super) fn round(
        graph: &Graph,
        first: Place,
        parent: (usize, Place, usize),
        pool: Option<Pool>,
    ) -> Self {
        let container = graph.node(parent.1).id.as_str();
        Self::new(graph, first, Some(container), Some(parent), pool)
    }

    fn new(
        graph: &Graph,
        first: Place,
        container: Option<&str>,
        parent: Option<(usize, Place, usize)>,
        pool: Option<Pool>,
    ) -> Self {
        Self {
            parent,
            pool,
            paths: Paths::new(graph, first),
            stream: Stream::new(graph, first, container),
            unfinished: 0,
            failures: Vec::new(),
            broke: false,
            outputs: Object::new(),
        }
    }
}

/// The frames that are open.
#[derive(Default)]
pub(super) struct Frames {
    all: Vec<Option<Frame>>,
}

impl Frames {
    pub(super) fn open(&mut self, frame: Frame) -> usize {
        self.all.push(Some(frame));
        self.all.len() - 1
    }

    pub(super) fn close(&mut self, number: usize) -> Option<Frame> {
        self.all.get_mut(number).and_then(Option::take)
    }

    #[expect(clippy::expect_used, reason = "tasks name frames that are open")]
    pub(super) fn get(&self, number: usize) -> &Frame {
        self.all.get(number).and_then(Option::as_ref).expect("the frame is open")
    }

    #[expect(clippy::expect_used, reason = "tasks name frames that are open")]
    pub(super) fn get_mut(&mut self, number: usize) -> &mut Frame {
        self.all.get_mut(number).and_then(Option::as_mut).expect("the frame is open")
    }

    /// What the paths of nodes in a frame begin with: `pages[3].`
    pub(super) fn path(&self, graph: &Graph, number: usize) -> String {
        let Some((parent, container, round)) = self.get(number).parent else {
            return String::new();
        };
        let (around, node) = (self.path(graph, parent), graph.node(container));
        match node.kind {
            NodeKind::Loop(_) => format!("{around}{}#{round}.", node.id),
            _ => format!("{around}{}[{round}].", node.id),
        }
    }

    /// The frame whose variables a frame has: its own, or that of an ancestor.
    fn owner(&self, mut number: usize) -> usize {
        while let Frame { pool: None, parent: Some((parent, ..)), .. } = self.get(number) {
            number = *parent;
        }
        number
    }

    #[expect(clippy::expect_used, reason = "the frame of the run has variables of its own")]
    pub(super) fn pool(&self, number: usize) -> &Pool {
        self.get(self.owner(number)).pool.as_ref().expect("an owner has variables")
    }

    #[expect(clippy::expect_used, reason = "the frame of the run has variables of its own")]
    pub(super) fn pool_mut(&mut self, number: usize) -> &mut Pool {
        let owner = self.owner(number);
        self.get_mut(owner).pool.as_mut().expect("an owner has variables")
    }

    /// Asks the stream of a frame.
    pub(super) fn stream(
        &mut self,
        graph: &Graph,
        number: usize,
        ask: impl FnOnce(&mut Stream, View<'_>) -> Vec<Chunk>,
    ) -> Vec<Chunk> {
        let pool = self.pool(number).clone();
        let frame = self.get_mut(number);
        let view = View { graph, paths: &frame.paths, pool: &pool };
        ask(&mut frame.stream, view)
    }
}
