//! Semantic search: an embedding model turns texts into vectors, and close
//! vectors have close meanings.
//!
//! Optional: its ranking is fused with that of keywords, and if it fails or is
//! too slow, keywords decide alone.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::error::{Error, ErrorKind};
use crate::fair_ring::fair_level;
use crate::tool::Tool;
use crate::tool::executor::BoxFuture;
use crate::value::name::TenantId;
use crate::value::secret::Secret;
use crate::value::text::Lang;

/// Maximum number of cached vectors; one of 1,536 numbers has 6 KB.
const MAX_VECTORS: usize = 10_000;
/// Number of texts per request.
const BATCH: usize = 64;
/// Maximum length of a text, in characters.
const MAX_TEXT: usize = 2_000;
/// Timeout for vectors in a search. Those that arrived are kept for the next
/// one.
const PATIENCE: Duration = Duration::from_secs(10);
/// Cool-down after a failure, in which searches use keywords only.
const COOL_DOWN: Duration = Duration::from_secs(30);

/// An embedding model.
pub trait Embedder: Send + Sync + 'static {
    /// The provider whose credential `api_key` is used, if there is one.
    fn provider(&self) -> Option<&str>;

    /// Returns one vector per text, all of the same length. `key` is the
    /// provider's API key, if one is stored.
    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        key: Option<&'a Secret>,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>>;
}

/// An [`Embedder`] with a cache of tool vectors.
pub(super) struct Embedding {
    embedder: Arc<dyn Embedder>,
    vectors: Mutex<ToolVectors>,
    /// Only one search of a tenant at a time requests vectors; others use
    /// keywords meanwhile.
    asking: Mutex<HashSet<VectorOwner>>,
    /// Time of the last failure per API key: a tenant's own key that fails must
    /// not affect others.
    failed: Mutex<HashMap<u64, Instant>>,
}

/// Who owns a tool; none is all tenants.
type VectorOwner = Option<TenantId>;

/// Vectors of tools by their owners, who share the room for them.
#[derive(Default)]
struct ToolVectors(HashMap<VectorOwner, HashMap<u64, Arc<[f32]>>>);

impl ToolVectors {
    fn get(&self, (owner, id): &(VectorOwner, u64)) -> Option<&Arc<[f32]>> {
        self.0.get(owner)?.get(id)
    }

    fn insert(&mut self, (owner, id): (VectorOwner, u64), vector: Arc<[f32]>) {
        self.0.entry(owner).or_default().insert(id, vector);
    }

    /// Leaves room for the vectors of these tools, and of each owner as many as its
    /// share. Returns the tools that there is room for.
    fn make_room(&mut self, wanted: Vec<(VectorOwner, u64)>) -> Vec<(VectorOwner, u64)> {
        let mut counts: HashMap<VectorOwner, u64> = HashMap::new();
        for (owner, own) in &self.0 {
            counts.insert(owner.clone(), own.len() as u64);
        }
        let mut ids: HashMap<VectorOwner, HashSet<u64>> = HashMap::new();
        for (owner, id) in &wanted {
            ids.entry(owner.clone()).or_default().insert(*id);
        }
        for (owner, own) in &ids {
            let known = self.0.get(owner);
            let others =
                known.map_or(0, |known| known.keys().filter(|id| !own.contains(id)).count());
            counts.insert(owner.clone(), (own.len() + others) as u64);
        }
        if counts.values().sum::<u64>() <= MAX_VECTORS as u64 {
            return wanted;
        }
        // What is wanted now goes before what was wanted once.
        for (owner, own) in &ids {
            if let Some(known) = self.0.get_mut(owner) {
                known.retain(|id, _| own.contains(id));
            }
            counts.insert(owner.clone(), own.len() as u64);
        }
        let level = fair_level(counts.into_values(), MAX_VECTORS as u64);
        let level = usize::try_from(level).unwrap_or(usize::MAX);
        for (owner, known) in &mut self.0 {
            if !ids.contains_key(owner) && known.len() > level {
                let kept: HashSet<u64> = known.keys().take(level).copied().collect();
                known.retain(|id, _| kept.contains(id));
            }
        }
        self.0.retain(|_, known| !known.is_empty());
        let mut left: HashMap<VectorOwner, usize> = HashMap::new();
        let mut has_room = |owner: &VectorOwner| {
            let left = left.entry(owner.clone()).or_insert(level);
            *left > 0 && {
                *left -= 1;
                true
            }
        };
        let chosen: Vec<_> = wanted.into_iter().filter(|(owner, _)| has_room(owner)).collect();
        for (owner, known) in &mut self.0 {
            if ids.contains_key(owner) {
                let kept = chosen.iter().filter(|(own, _)| own == owner).map(|(_, id)| *id);
                let kept: HashSet<u64> = kept.collect();
                known.retain(|id, _| kept.contains(id));
            }
        }
        chosen
    }
}

impl Embedding {
    pub(super) fn new(embedder: Arc<dyn Embedder>) -> Self {
        let (vectors, asking, failed) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { embedder, vectors, asking, failed }
    }

    pub(super) fn provider(&self) -> Option<&str> {
        self.embedder.provider()
    }

    /// Ranks tools by similarity to a query, closest first, as indices into the
    /// list; empty if that is not possible now.
    pub(super) async fn order(
        &self,
        tools: &[Arc<Tool>],
        question: &str,
        key: Option<&Secret>,
    ) -> Option<Vec<usize>> {
        let payer = hash_of(key);
        if self.failed.lock().get(&payer).is_some_and(|at| at.elapsed() < COOL_DOWN) {
            return None;
        }
        let owner = tools.iter().find_map(|tool| tool.owner()).cloned();
        let _turn = AskingTurn::take(&self.asking, owner)?;
        let found = timeout(PATIENCE, self.closest(tools, question, key)).await;
        let found = found.unwrap_or_else(|_| {
            let why = "the embedding model took too long; its vectors are asked for again";
            Err(Error::new(ErrorKind::Timeout, why))
        });
        match found {
            Ok(order) => Some(order),
            Err(error) => {
                // After a timeout the next search may continue at once: vectors
                // that arrived are cached.
                if error.kind() != ErrorKind::Timeout {
                    let mut failed = self.failed.lock();
                    failed.retain(|_, at| at.elapsed() < COOL_DOWN);
                    failed.insert(payer, Instant::now());
                }
                tracing::warn!(%error, "tools are searched by words alone");
                None
            }
        }
    }

    async fn closest(
        &self,
        tools: &[Arc<Tool>],
        question: &str,
        key: Option<&Secret>,
    ) -> Result<Vec<usize>, Error> {
        let texts: Vec<String> = tools.iter().map(|tool| text(tool)).collect();
        let ids: Vec<(VectorOwner, u64)> = tools
            .iter()
            .zip(&texts)
            .map(|(tool, text)| (tool.owner().cloned(), id(text)))
            .collect();
        let missing: Vec<usize> = {
            let mut known = self.vectors.lock();
            let wanted: HashSet<_> = known.make_room(ids.clone()).into_iter().collect();
            let is_missing =
                |at: &usize| wanted.contains(&ids[*at]) && known.get(&ids[*at]).is_none();
            (0..ids.len()).filter(is_missing).collect()
        };
        for batch in missing.chunks(BATCH) {
            let query_words: Vec<String> = batch.iter().map(|at| texts[*at].clone()).collect();
            let vectors = self.embed(&query_words, key).await?;
            let mut known = self.vectors.lock();
            for (at, vector) in batch.iter().zip(vectors) {
                known.insert(ids[*at].clone(), vector);
            }
        }
        let query_words = [question.chars().take(MAX_TEXT).collect::<String>()];
        let question = self.embed(&query_words, key).await?.pop().unwrap_or_default();
        let known = self.vectors.lock();
        let mut close: Vec<(usize, f32)> = (ids.iter().enumerate())
            .filter_map(|(at, id)| Some((at, known.get(id)?)))
            // A replaced model has vectors of another length.
            .filter(|(_, vector)| vector.len() == question.len())
            .map(|(at, vector)| (at, vector.iter().zip(&*question).map(|(a, b)| a * b).sum()))
            .collect();
        close.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        Ok(close.into_iter().map(|(at, _)| at).collect())
    }

    /// The normalised vectors of these texts.
    async fn embed(
        &self,
        texts: &[String],
        key: Option<&Secret>,
    ) -> Result<Vec<Arc<[f32]>>, Error> {
        let vectors = self.embedder.embed(texts, key).await?;
        let wrong = |why: &str| Error::new(ErrorKind::UpstreamFailed, why.to_owned());
        if vectors.len() != texts.len() {
            return Err(wrong("the embedding model gave another number of vectors than texts"));
        }
        let unit = |vector: Vec<f32>| {
            let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
            let is_sound = length.is_finite() && length > 0.0;
            is_sound.then(|| vector.into_iter().map(|x| x / length).collect())
        };
        let vectors: Option<Vec<Arc<[f32]>>> = vectors.into_iter().map(unit).collect();
        vectors.ok_or_else(|| wrong("the embedding model gave a vector without a direction"))
    }
}

/// The turn of a tenant to request vectors.
struct AskingTurn<'a> {
    asking: &'a Mutex<HashSet<VectorOwner>>,
    owner: VectorOwner,
}

impl<'a> AskingTurn<'a> {
    /// `None` while another search of the tenant has it.
    fn take(asking: &'a Mutex<HashSet<VectorOwner>>, owner: VectorOwner) -> Option<Self> {
        let is_free = asking.lock().insert(owner.clone());
        is_free.then_some(Self { asking, owner })
    }
}

impl Drop for AskingTurn<'_> {
    fn drop(&mut self) {
        self.asking.lock().remove(&self.owner);
    }
}

/// The text of a tool for the embedding model.
fn text(tool: &Tool) -> String {
    let spec = tool.spec();
    let name = spec.name.as_str().replace(['_', '-', '.', '/'], " ");
    let parameters = tool.model_schema()["properties"].as_object();
    let parameters: Vec<&str> =
        parameters.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let text = format!("{name}: {} ({})", spec.description.get(Lang::En), parameters.join(", "));
    text.chars().take(MAX_TEXT).collect()
}

fn id(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Distinguishes API keys without storing them.
fn hash_of(key: Option<&Secret>) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.map(Secret::expose).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_with_many_tools_leaves_room_for_the_vectors_of_others() {
        let mut vectors = ToolVectors::default();
        let of = |tenant: &str, count: u64| -> Vec<(VectorOwner, u64)> {
            (0..count).map(|id| (Some(TenantId::new(tenant)), id)).collect()
        };
        let mut search = |wanted: Vec<(VectorOwner, u64)>| {
            let mut asked = 0;
            for id in vectors.make_room(wanted) {
                if vectors.get(&id).is_none() {
                    asked += 1;
                    vectors.insert(id, Arc::from([1.0]));
                }
            }
            let kept: usize = vectors.0.values().map(HashMap::len).sum();
            assert!(kept <= MAX_VECTORS, "{kept}");
            asked
        };
        let (quiet, noisy) = (of("quiet", 2_000), of("noisy", 20_000));
        assert_eq!(search(quiet.clone()), 2_000);
        assert_eq!(search(noisy.clone()), MAX_VECTORS - 2_000);
        assert_eq!(search(quiet.clone()), 0, "its vectors are still there");
        assert_eq!(search(noisy), 0, "it does not pay again and again");
        // A third one makes the noisy one shrink.
        assert_eq!(search(of("third", 3_000)), 3_000);
        assert_eq!((search(quiet), search(of("third", 3_000))), (0, 0));
    }
}
