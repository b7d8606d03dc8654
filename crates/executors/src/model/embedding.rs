//! Embedding models: turn texts into vectors, for the search of tools.
//!
//! Supports OpenAI's `embeddings`, which most others implement, and Gemini's
//! `batchEmbedContents`. Anthropic has no such API.

use serde_json::Value;
use windlass::{BoxFuture, Embedder, Error, ErrorKind, Secret, TenantId};

use super::refusal::{Refused, without};
use super::{Model, Models, Payer};
use crate::outbound::Request;

/// More than the vectors of a batch need.
const MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Timeout of a request; a search waits no longer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Client for one embedding model.
#[derive(Clone)]
pub struct Embeddings {
    models: Models,
    model: Model,
}

impl Embeddings {
    /// The embedding model of this name, written `provider/model`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ExecutorNotFound`] if the model is unknown or its provider has no
    /// embeddings API.
    pub fn new(models: Models, name: &str) -> Result<Self, Error> {
        let model = models.find(name)?;
        let own = model.api().own();
        if own.embedding_request(&model.endpoint.base_url, &model.name, &[], None).is_none() {
            let why = format!("`{name}`: {} has no embedding models", own.label());
            return Err(Error::new(ErrorKind::ExecutorNotFound, why));
        }
        Ok(Self { models, model })
    }

    fn request(&self, texts: &[String], key: Option<&Secret>) -> Result<Request, Error> {
        let Model { name, endpoint, .. } = &self.model;
        let request = endpoint.api.own().embedding_request(&endpoint.base_url, name, texts, key);
        let none = || Error::new(ErrorKind::ExecutorNotFound, "the API has no embedding models");
        let request = request.ok_or_else(none)??;
        Ok(request.without_redirects().total_timeout(PATIENCE).max_bytes(MAX_BYTES))
    }

    async fn ask(&self, texts: &[String], stored: Option<&Secret>) -> Result<Vec<Vec<f32>>, Error> {
        // The operator has chosen this model for the searches of all tenants.
        let tenant = TenantId::default();
        let key = self.models.key(&self.model, Payer { stored, tenant: &tenant })?;
        let request = self.request(texts, key)?;
        let answer = self.models.0.outbound.send(request).await?.checked().await;
        let bytes = answer.map_err(|error| without(error, key))?.bytes().await?;
        let broken = |why: String| Error::new(ErrorKind::UpstreamFailed, why);
        let answer: Value = serde_json::from_slice(&bytes)
            .map_err(|why| broken(format!("the embedding model's answer is not JSON: {why}")))?;
        if let Some(refused) = Refused::of(&answer) {
            return Err(without(refused.error, key));
        }
        vectors(&answer)
            .ok_or_else(|| broken("the embedding model's answer has no vectors".to_owned()))
    }
}

/// The vectors in a response, in the order of the texts.
fn vectors(answer: &Value) -> Option<Vec<Vec<f32>>> {
    let numbers = |list: &Value| -> Option<Vec<f32>> {
        list.as_array()?.iter().map(|number| number.as_f64().map(|number| number as f32)).collect()
    };
    if let Some(all) = answer["embeddings"].as_array() {
        return all.iter().map(|one| numbers(&one["values"])).collect();
    }
    let mut all: Vec<&Value> = answer["data"].as_array()?.iter().collect();
    all.sort_by_key(|one| one["index"].as_u64());
    all.into_iter().map(|one| numbers(&one["embedding"])).collect()
}

impl Embedder for Embeddings {
    fn provider(&self) -> Option<&str> {
        Some(&self.model.provider)
    }

    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        key: Option<&'a Secret>,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>> {
        Box::pin(self.ask(texts, key))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn vectors_come_in_the_order_of_the_texts() {
        let openai = json!({"data": [
            {"index": 1, "embedding": [0.0, 1]},
            {"index": 0, "embedding": [1.0, 0]},
        ]});
        assert_eq!(vectors(&openai), Some(vec![vec![1.0, 0.0], vec![0.0, 1.0]]));
        let gemini = json!({"embeddings": [{"values": [0.5]}, {"values": [0.25]}]});
        assert_eq!(vectors(&gemini), Some(vec![vec![0.5], vec![0.25]]));
        for broken in [json!({}), json!({"data": [{"embedding": ["x"]}]}), json!([])] {
            assert_eq!(vectors(&broken), None, "{broken}");
        }
    }
}
