//! Search by meaning: an embedding model turns texts into vectors, and close
//! vectors are close meanings.
//!
//! Optional, and never alone: its order is fused with that of the words, and
//! where it fails or takes too long the words decide.

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

/// Vectors that are kept; one of 1,536 numbers has 6 KB.
const MAX_VECTORS: usize = 10_000;
/// Texts that are sent at once.
const BATCH: usize = 64;
/// The longest text that is sent, in characters.
const MAX_TEXT: usize = 2_000;
/// How long a search waits for vectors. What came by then is kept for the next.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long after a failure searches go by words alone.
const COOL_DOWN: Duration = Duration::from_secs(30);

/// Turns texts into vectors whose closeness is that of their meanings.
pub trait Embedder: Send + Sync + 'static {
    /// The provider whose credential `api_key` is asked for, if there is one.
    fn provider(&self) -> Option<&str>;

    /// One vector for each text, all of the same length. `key` is the provider's,
    /// where somebody has stored one.
    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        key: Option<&'a Secret>,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>>;
}

/// An [`Embedder`], and the vectors of tools that it has made.
pub(super) struct Embedding {
    embedder: Arc<dyn Embedder>,
    vectors: Mutex<HashMap<u64, Arc<[f32]>>>,
    /// One search at a time asks for vectors; others go by words meanwhile.
    asking: Semaphore,
    /// When it failed, by the key that it was asked with: one that somebody
    /// stored fails for nobody else.
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

    /// The tools by closeness to a question, closest first, as their places in
    /// the list; nothing where that cannot be told now.
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
                // A slow first search has made progress and may go on at once.
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
            // A model that was exchanged makes vectors of another length.
            .filter(|(_, vector)| vector.len() == question.len())
            .map(|(at, vector)| (at, vector.iter().zip(&*question).map(|(a, b)| a * b).sum()))
            .collect();
        close.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        Ok(close.into_iter().map(|(at, _)| at).collect())
    }

    /// The vectors of these texts, of length one.
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

    /// Makes room where too many vectors are kept: those of other tools go.
    fn forget_others(&self, ids: &[u64]) {
        let mut known = self.vectors.lock();
        if known.len() + ids.len() > MAX_VECTORS {
            known.retain(|id, _| ids.contains(id));
        }
    }
}

/// What an embedding model is told of a tool.
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

/// Tells keys apart, without keeping them.
fn hash_of(key: Option<&Secret>) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.map(Secret::expose).hash(&mut hasher);
    hasher.finish()
}
