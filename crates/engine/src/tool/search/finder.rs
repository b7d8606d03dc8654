//! [`Finder`]: caches the indexes of the sets of tools that were searched last, and
//! fuses the rankings by keywords and by meaning.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

use super::ToolIndex;
use super::embedding::{Embedder, Embedding};
use crate::fair_map::FairMap;
use crate::tool::Tool;
use crate::value::secret::Secret;

/// Usual constant of reciprocal rank fusion.
const RANK: f32 = 60.0;
/// Maximum number of tools found by meaning alone: every vector is close to
/// some.
const MAX_CLOSE: usize = 20;

/// Maximum number of cached indexes, and of tools in all of them but the last.
const MAX_INDEXES: usize = 64;
const MAX_INDEXED: usize = 40_000;

/// Tool search of an engine.
pub(crate) struct Finder {
    /// Cached indexes by set of tools. The tenant that has the most loses the one that
    /// it used least recently, so that no tenant makes others build theirs again.
    indexes: Mutex<FairMap<u64, Arc<ToolIndex>>>,
    embedding: Option<Embedding>,
}

impl Finder {
    pub(crate) fn new(embedder: Option<Arc<dyn Embedder>>) -> Self {
        let indexes = Mutex::new(FairMap::new(MAX_INDEXES));
        Self { indexes, embedding: embedder.map(Embedding::new) }
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
        if let Some(index) = self.indexes.lock().touch(&of) {
            return Arc::clone(index);
        }
        let tenant = tools.iter().find_map(|tool| tool.owner()).cloned().unwrap_or_default();
        // Built without the lock: concurrent searches may each build one.
        let index = Arc::new(ToolIndex::new(tools));
        let mut indexes = self.indexes.lock();
        let size = |indexes: &FairMap<u64, Arc<ToolIndex>>| -> usize {
            indexes.values().map(|index| index.tools.len()).sum()
        };
        while size(&indexes) > MAX_INDEXED {
            indexes.evict();
        }
        indexes.insert(&tenant, &of, Arc::clone(&index));
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::engine::Engine;
    use crate::tool::ToolBuilder;
    use crate::value::name::TenantId;

    #[tokio::test]
    async fn a_tenant_that_searches_many_sets_evicts_only_its_own_indexes() {
        let engine = Engine::builder().build().unwrap();
        let tools = |tenant: &str| -> Vec<Arc<Tool>> {
            let tenant = TenantId::new(tenant);
            let tool = ToolBuilder::from_fn("own", |_: Value| async { "" });
            engine.registry().replace_for(&tenant, tool).unwrap();
            engine.registry().owned_by(&tenant)
        };
        let finder = Finder::new(None);
        let quiet = tools("quiet");
        let index = finder.index(quiet.clone());
        for _ in 0..MAX_INDEXES + 10 {
            finder.index(tools("noisy"));
        }
        assert!(Arc::ptr_eq(&index, &finder.index(quiet)), "it is built again");
        assert_eq!(finder.indexes.lock().len(), MAX_INDEXES);
    }
}
