//! A single question, for tools that need a model's help (S3.9's
//! `invoke_model`).

use serde_json::Value;
use windlass::{Call, Error, ErrorKind, Turn};

use super::{Models, Prompt, Tally, text_of};

/// How much an answer may have.
const MAX_TOKENS: u64 = 4096;

impl Models {
    /// Asks a model a question, without tools. What it takes is charged to the
    /// call; the key is the call's secret `api_key`, else the program's.
    ///
    /// A tool finds the models where the program gave them to the engine, by
    /// `Engine::builder().object(models)` and `call.object::<Models>()`.
    pub async fn invoke(
        &self,
        call: &Call,
        model: &str,
        system: &str,
        question: &str,
    ) -> Result<String, Error> {
        let model = self.find(model)?;
        let api = model.api();
        let prompt = Prompt {
            system,
            messages: &[api.user(question)],
            tools: &Value::Array(Vec::new()),
            max_tokens: MAX_TOKENS,
            temperature: None,
            stream: false,
        };
        let mut reply = self.ask(&model, &prompt, call.secret("api_key"), None).await?;
        let mut tally = Tally::default();
        let mut text = String::new();
        while let Some(event) = reply.events.next().await.map_err(|refused| refused.error)? {
            text.extend(tally.hear(api, &event));
            if !reply.is_stream {
                text = text_of(api, &whole(api.turn_format(), event)?);
            }
        }
        call.charge(self.price(&reply.model).of(tally.usage));
        Ok(text)
    }
}

/// The message in an answer that came at once.
fn whole(format: windlass::TurnFormat, answer: Value) -> Result<Value, Error> {
    let turn = Turn::read_as(format, answer)
        .map_err(|why| Error::new(ErrorKind::UpstreamFailed, why.message()))?;
    Ok(turn.message().clone())
}
