//! A single question to a model, for tools that need one.

use serde_json::Value;
use windlass::{Call, Error, ErrorKind, Turn};

use super::{Finish, Models, Payer, Prompt, Tally, Watch, says_nothing, text_of};

/// Maximum number of output tokens.
const MAX_TOKENS: u64 = 4096;

impl Models {
    /// Asks a model a question, without tools. The usage is charged to the call; the key
    /// is the call's secret `api_key`, or else the program's own.
    ///
    /// A tool gets the client from the engine: register it with
    /// `Engine::builder().object(models)` and look it up with `call.object::<Models>()`.
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

/// The message in an answer that was not streamed.
fn whole(format: windlass::TurnFormat, answer: Value) -> Result<Value, Error> {
    let turn = Turn::read_as(format, answer)
        .map_err(|why| Error::new(ErrorKind::UpstreamFailed, why.message()))?;
    Ok(turn.message().clone())
}
