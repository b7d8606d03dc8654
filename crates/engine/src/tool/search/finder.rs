//! [`Finder`]: caches the index of the last searched tools, and fuses the
//! rankings by keywords and by meaning.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

use super::ToolIndex;
use super::embedding::{Embedder, Embedding};
use crate::tool::Tool;
use crate::value::secret::Secret;

/// Usual constant of reciprocal rank fusion.
const RANK: f32 = 60.0;
/// Maximum number of tools found by meaning alone: every vector is close to
/// some.
const MAX_CLOSE: usize = 20;

/// Tool search of an engine.
#[derive(Default)]
pub(crate) struct Finder {
    /// The cached index, keyed by the set of tools.
    index: Mutex<Option<(u64, Arc<ToolIndex>)>>,
    embedding: Option<Embedding>,
}

impl Finder {
    pub(crate) fn new(embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self { embedding: embedder.map(Embedding::new), ..Self::default() }
    }

    /// The provider of the embedding model, if there is one.
    pub(crate) fn provider(&self) -> Option<&str> {
        self.embedding.as_ref()?.provider()
    }

    /// Ranks the tools by relevance to a query, best first.
    pub(crate) async fn find(
        &self,
        tools: Vec<Arc<Tool>>,
        question: &str,
        key: Option<&Secret>,
    ) -> Vec<Arc<Tool>> {
        let index = self.index(tools);
        let words = index.find(question).into_iter().map(|(tool, _)| Arc::clone(tool));
        let words: Vec<Arc<Tool>> = words.collect();
        let Some(embedding) = self.embedding.as_ref().filter(|_| !question.trim().is_empty())
        else {
            return words;
        };
        let Some(close) = embedding.order(&index.tools, question, key).await else { return words };
        let close = close.into_iter().take(MAX_CLOSE).map(|at| Arc::clone(&index.tools[at]));
        fuse(words, close)
    }

    /// The index of these tools, rebuilt if they changed.
    fn index(&self, tools: Vec<Arc<Tool>>) -> Arc<ToolIndex> {
        let mut hasher = DefaultHasher::new();
        tools.iter().for_each(|tool| tool.generation().hash(&mut hasher));
        let of = hasher.finish();
        if let Some((known, index)) = &*self.index.lock()
            && *known == of
        {
            return Arc::clone(index);
        }
        // Built without the lock: concurrent searches may each build one.
        let index = Arc::new(ToolIndex::new(tools));
        *self.index.lock() = Some((of, Arc::clone(&index)));
        index
    }
}

/// Reciprocal rank fusion of two rankings.
fn fuse(words: Vec<Arc<Tool>>, close: impl Iterator<Item = Arc<Tool>>) -> Vec<Arc<Tool>> {
    let worth = |at: usize| 1.0 / (RANK + at as f32 + 1.0);
    let mut found: Vec<(Arc<Tool>, f32)> =
        words.into_iter().enumerate().map(|(at, tool)| (tool, worth(at))).collect();
    let places: HashMap<u64, usize> =
        found.iter().enumerate().map(|(at, (tool, _))| (tool.generation(), at)).collect();
    for (at, tool) in close.enumerate() {
        match places.get(&tool.generation()) {
            Some(place) => found[*place].1 += worth(at),
            None => found.push((tool, worth(at))),
        }
    }
    // Stable sort: for ties the keyword ranking decides.
    found.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal));
    found.into_iter().map(|(tool, _)| tool).collect()
}
