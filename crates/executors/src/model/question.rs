//! A single question, for tools that need a model's help (S3.9's
//! `invoke_model`).

use serde_json::Value;
use windlass::{Call, Error, ErrorKind, Turn};

use super::{Finish, Models, Payer, Prompt, Tally, Watch, says_nothing, text_of};

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
        let mut watch = Watch::begin(self, call, &model, &prompt);
        let mut reply = watch.checked(self.ask(&model, &prompt, Payer::of(call), None).await)?;
        watch.answered_by(&reply.model);
        let mut tally = Tally::default();
        let mut text = String::new();
        loop {
            let next = reply.events.next().await.map_err(|refused| refused.error);
            let Some(event) = watch.checked(next)? else { break };
            text.extend(tally.hear(api, &event));
            if !reply.is_stream {
                text = text_of(api, &watch.checked(whole(api.turn_format(), event))?);
            }
        }
        call.charge(self.price(&reply.model).of(tally.usage));
        let answer = match &tally.finish {
            Finish::Refused(word) if text.trim().is_empty() => {
                let why = format!("the model refused to answer ({word})");
                Err(Error::new(ErrorKind::UpstreamRejected, why))
            }
            _ if text.trim().is_empty() => Err(says_nothing()),
            _ => Ok(text),
        };
        watch.end(&tally, true, answer.as_ref().err().map(Error::kind));
        answer
    }
}

/// The message in an answer that came at once.
fn whole(format: windlass::TurnFormat, answer: Value) -> Result<Value, Error> {
    let turn = Turn::read_as(format, answer)
        .map_err(|why| Error::new(ErrorKind::UpstreamFailed, why.message()))?;
    Ok(turn.message().clone())
}
