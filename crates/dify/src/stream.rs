//! In which order the text of answers and ends comes out while it is made.
//!
//! A response node's template is known before it runs. Its text may come out as soon as
//! the run cannot get by it any more: when every edge on some way to it that could have
//! been left (branches, containers, other responses, assigners of what it shows) was taken.
//! From then on a piece is held back until everything before it in the template is out.
//! One response speaks at a time.

use std::collections::{HashMap, VecDeque};

use crate::graph::{Graph, Paths, Place};
use crate::node::{Node, NodeKind, Selector};
use crate::pool::Pool;
use crate::template::{Piece, Template};

/// A piece of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The response whose text it is.
    pub response: Place,
    /// The variable that it is from; none for text of the template.
    pub selector: Option<Selector>,
    /// The text.
    pub text: String,
}

/// The text of the response nodes of a frame.
#[derive(Debug)]
pub struct Stream {
    waiting: Vec<Session>,
    queue: VecDeque<Session>,
    active: Option<Session>,
    buffers: HashMap<Selector, Buffer>,
}

#[derive(Debug)]
struct Session {
    response: Place,
    pieces: Vec<Piece>,
    next: usize,
    /// The nodes to which the run got on ways that it cannot leave any more.
    reached: Vec<bool>,
}

/// Text of a variable that is still made.
#[derive(Debug, Default)]
struct Buffer {
    unread: VecDeque<String>,
    closed: bool,
}

impl Stream {
    /// The responses of a frame that starts at `first`: those in the same container.
    pub fn new(graph: &Graph, first: Place, container: Option<&str>) -> Self {
        let mut waiting = Vec::new();
        for (place, node) in graph.nodes().iter().enumerate() {
            if node.parent.as_deref() != container {
                continue;
            }
            let Some(pieces) = template_of(node) else { continue };
            let reached = vec![false; graph.nodes().len()];
            let mut session = Session { response: place, pieces, next: 0, reached };
            session.reach(graph, first);
            waiting.push(session);
        }
        waiting.sort_by(|a, b| graph.node(a.response).id.cmp(&graph.node(b.response).id));
        Self { waiting, queue: VecDeque::new(), active: None, buffers: HashMap::new() }
    }

    /// Text of a variable that is made just now.
    pub fn text(
        &mut self,
        at: View<'_>,
        selector: &Selector,
        text: &str,
        last: bool,
    ) -> Vec<Chunk> {
        let sessions = self.waiting.iter().chain(&self.queue).chain(&self.active);
        let wanted = |piece: &Piece| matches!(piece, Piece::Variable(s) if s == selector);
        if !sessions.into_iter().any(|session| session.pieces.iter().any(wanted)) {
            return Vec::new();
        }
        let buffer = self.buffers.entry(selector.clone()).or_default();
        if !text.is_empty() || last {
            buffer.unread.push_back(text.to_owned());
        }
        buffer.closed |= last;
        self.flush(at)
    }

    /// Edges were taken after a node had ended.
    pub fn taken(&mut self, at: View<'_>, edges: &[usize]) -> Vec<Chunk> {
        for session in &mut self.waiting {
            for number in edges {
                let edge = &at.graph.edges()[*number];
                if session.reached[edge.source] {
                    session.reach(at.graph, edge.target);
                }
            }
        }
        let ready = |session: &Session| session.reached[session.response];
        let (ready, waiting): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(ready);
        self.waiting = waiting;
        self.queue.extend(ready);
        self.flush(at)
    }

    /// What can come out now.
    pub fn flush(&mut self, at: View<'_>) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        loop {
            let Some(mut session) = self.active.take().or_else(|| self.queue.pop_front()) else {
                return chunks;
            };
            if !self.speak(at, &mut session, &mut chunks) {
                self.active = Some(session);
                return chunks;
            }
        }
    }

    /// A response has ended: what it still had to say is out of order now, and comes out.
    pub fn ended(&mut self, at: View<'_>, response: Place) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        if self.active.as_ref().is_some_and(|session| session.response == response)
            && let Some(mut session) = self.active.take()
        {
            while !self.speak(at, &mut session, &mut chunks) {
                if let Some(Piece::Variable(selector)) = session.pieces.get(session.next) {
                    let value = at.pool.get(selector).map(|segment| segment.markdown());
                    chunks.push(Chunk {
                        response,
                        selector: Some(selector.clone()),
                        text: value.unwrap_or_else(|| selector.join(".")),
                    });
                }
                session.next += 1;
            }
        }
        chunks.extend(self.flush(at));
        chunks
    }

    /// Puts out the pieces of a session; whether it is through.
    fn speak(&mut self, at: View<'_>, session: &mut Session, chunks: &mut Vec<Chunk>) -> bool {
        let response = session.response;
        while let Some(piece) = session.pieces.get(session.next) {
            match piece {
                Piece::Text(text) => {
                    chunks.push(Chunk { response, selector: None, text: text.clone() });
                }
                Piece::Variable(selector) => {
                    let source = selector.first().and_then(|id| at.graph.place(id));
                    let dead = source.is_some_and(|place| at.paths.is_skipped(place));
                    if !dead && !self.variable(at, response, selector, chunks) {
                        return false;
                    }
                }
            }
            session.next += 1;
        }
        true
    }

    /// Puts out a variable; whether that was all of it.
    fn variable(
        &mut self,
        at: View<'_>,
        response: Place,
        selector: &Selector,
        chunks: &mut Vec<Chunk>,
    ) -> bool {
        if let Some(buffer) = self.buffers.get_mut(selector) {
            let unread = buffer.unread.drain(..);
            let chunk = |text| Chunk { response, selector: Some(selector.clone()), text };
            chunks.extend(unread.map(chunk));
            return buffer.closed;
        }
        match at.pool.get(selector) {
            Some(segment) => {
                let text = segment.markdown();
                chunks.push(Chunk { response, selector: Some(selector.clone()), text });
                true
            }
            None => false,
        }
    }
}

/// What a stream looks at.
#[derive(Clone, Copy)]
pub struct View<'v> {
    /// The graph.
    pub graph: &'v Graph,
    /// The edges of the frame.
    pub paths: &'v Paths,
    /// Its variables.
    pub pool: &'v Pool,
}

impl Session {
    /// The run has got to a node, and on to all that follow it in any case.
    fn reach(&mut self, graph: &Graph, place: Place) {
        let mut open = vec![place];
        while let Some(place) = open.pop() {
            if std::mem::replace(&mut self.reached[place], true) {
                continue;
            }
            if !self.blocks(graph, place) {
                open.extend(graph.out_of(place).map(|(_, edge)| edge.target));
            }
        }
    }

    fn blocks(&self, graph: &Graph, place: Place) -> bool {
        let node = graph.node(place);
        let shows = |target: &Selector| {
            self.pieces.iter().any(|piece| match piece {
                Piece::Variable(selector) => selector.iter().take(2).eq(target.iter()),
                Piece::Text(_) => false,
            })
        };
        match &node.kind {
            NodeKind::Assigner(changes) => changes.iter().any(|change| shows(&change.target)),
            kind => kind.is_container() || kind.is_response() || graph.chooses(place),
        }
    }
}

/// The template of a response; the outputs of an end are lines.
fn template_of(node: &Node) -> Option<Vec<Piece>> {
    match &node.kind {
        NodeKind::Answer(text) => Some(Template::parse(text).pieces),
        NodeKind::End(outputs) => {
            let mut pieces = Vec::new();
            for output in outputs.iter().filter(|output| !output.selector.is_empty()) {
                if !pieces.is_empty() {
                    pieces.push(Piece::Text("\n".to_owned()));
                }
                pieces.push(Piece::Variable(output.selector.clone()));
            }
            Some(pieces)
        }
        _ => None,
    }
}
