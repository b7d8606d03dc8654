//! Semantic search: an embedding model turns texts into vectors, and close
//! vectors have close meanings.
//!
//! Optional: its ranking is fused with that of keywords, and if it fails or is
//! too slow, keywords decide alone.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::error::{Error, ErrorKind};
use crate::tool::Tool;
use crate::tool::executor::BoxFuture;
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
    vectors: Mutex<HashMap<u64, Arc<[f32]>>>,
    /// Only one search at a time requests vectors; others use keywords
    /// meanwhile.
    asking: Semaphore,
    /// Time of the last failure per API key: a tenant's own key that fails must
    /// not affect others.
    failed: Mutex<HashMap<u64, Instant>>,
}

impl Embedding {
    pub(super) fn new(embedder: Arc<dyn Embedder>) -> Self {
        let (vectors, failed) = (Mutex::default(), Mutex::default());
        Self { embedder, vectors, asking: Semaphore::new(1), failed }
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
        let _turn = self.asking.try_acquire().ok()?;
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
        let texts: Vec<String> = tools.iter().take(MAX_VECTORS).map(|tool| text(tool)).collect();
        let ids: Vec<u64> = texts.iter().map(|text| id(text)).collect();
        self.forget_others(&ids);
        let missing: Vec<usize> = {
            let known = self.vectors.lock();
            (0..ids.len()).filter(|at| !known.contains_key(&ids[*at])).collect()
        };
        for batch in missing.chunks(BATCH) {
            let query_words: Vec<String> = batch.iter().map(|at| texts[*at].clone()).collect();
            let vectors = self.embed(&query_words, key).await?;
            let mut known = self.vectors.lock();
            known.extend(batch.iter().map(|at| ids[*at]).zip(vectors));
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

    /// Evicts vectors of other tools if there are too many.
    fn forget_others(&self, ids: &[u64]) {
        let mut known = self.vectors.lock();
        if known.len() + ids.len() > MAX_VECTORS {
            known.retain(|id, _| ids.contains(id));
        }
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
