//! The supported model APIs, and their default endpoints.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};
use url::Url;
use windlass::{Error, Secret, TurnFormat};

use super::anthropic::Anthropic;
use super::body::Prompt;
use super::gemini::Gemini;
use super::openai::OpenAi;
use super::tally::Tally;
use super::{Endpoint, Model};
use crate::outbound::Request;

/// A model API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API, which vLLM, Ollama, DeepSeek, Qwen and many others
    /// implement.
    OpenAi,
    /// Google's Gemini API.
    Gemini,
}

/// What is particular to one API; each has a file.
pub(super) trait ModelApi: Sync {
    /// The name of the provider that the API is named after. Its key is in the variable
    /// `NAME_API_KEY`.
    fn provider(&self) -> &'static str;

    /// The provider's name for people.
    fn label(&self) -> &'static str;

    /// What its models are called.
    fn models(&self) -> &'static str;

    /// Where people get keys.
    fn keys_url(&self) -> &'static str;

    /// The default base URL.
    fn base_url(&self) -> &'static str;

    /// The default fallback for its models.
    fn fallback(&self) -> Option<&'static str> {
        None
    }

    /// The format of its messages.
    fn turn_format(&self) -> TurnFormat;

    /// A user message.
    fn user(&self, text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    /// An assistant message.
    fn assistant(&self, text: &str) -> Value {
        json!({"role": "assistant", "content": text})
    }

    /// Whether an assistant message is empty. APIs produce such messages, but reject them
    /// as input.
    fn says_nothing(&self, message: &Value) -> bool;

    /// Puts a text into an empty assistant message.
    fn fill(&self, message: &mut Value, text: &str) {
        *message = self.assistant(text);
    }

    /// The HTTP request.
    fn request(
        &self,
        model: &Model,
        prompt: &Prompt<'_>,
        key: Option<&Secret>,
    ) -> Result<Request, Error>;

    /// The HTTP request for embeddings; `None` if the API has none.
    fn embedding_request(
        &self,
        _base_url: &Url,
        _model: &str,
        _texts: &[String],
        _key: Option<&Secret>,
    ) -> Option<Result<Request, Error>> {
        None
    }

    /// Processes an event of the stream, or a whole answer. Returns the texts in it.
    fn hear<'e>(&self, tally: &mut Tally, event: &'e Value) -> Vec<&'e str>;

    /// The text of a message, with its blocks joined by newlines.
    fn text_of(&self, message: &Value) -> String;
}

impl Api {
    /// All supported APIs.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAi, Self::Gemini];

    /// What is particular to it.
    pub(super) fn own(self) -> &'static dyn ModelApi {
        match self {
            Self::Anthropic => &Anthropic,
            Self::OpenAi => &OpenAi,
            Self::Gemini => &Gemini,
        }
    }

    /// The provider that the API is named after.
    pub fn provider(self) -> &'static str {
        self.own().provider()
    }

    /// The API that is named after a provider.
    pub fn of_provider(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.provider() == name)
    }

    /// The format of its messages.
    pub fn turn_format(self) -> TurnFormat {
        self.own().turn_format()
    }

    /// The API of a model, recognised by its name.
    pub fn of_model(name: &str) -> Option<Self> {
        let format = TurnFormat::of_model(name)?;
        Self::ALL.into_iter().find(|api| api.turn_format() == format)
    }

    /// A user message.
    pub fn user(self, text: &str) -> Value {
        self.own().user(text)
    }

    /// An assistant message.
    pub fn assistant(self, text: &str) -> Value {
        self.own().assistant(text)
    }

    /// Fills an empty assistant message with a placeholder text: APIs produce such
    /// messages, but reject them as input.
    pub fn fill(self, message: &mut Value, text: &str) {
        if self.own().says_nothing(message) {
            self.own().fill(message, text);
        }
    }

    /// The default endpoint.
    pub(super) fn usual(self) -> Option<Endpoint> {
        Some(Endpoint { api: self, base_url: Url::parse(self.own().base_url()).ok()? })
    }
}

/// Whether blocks have no text, and nothing else either.
pub(super) fn texts_are_empty(blocks: &Value) -> bool {
    blocks.as_array().is_none_or(|blocks| blocks.iter().all(|block| block["text"] == ""))
}

/// The texts of blocks, without thoughts, joined by newlines.
pub(super) fn texts_of(blocks: &Value) -> String {
    let blocks = blocks.as_array().into_iter().flatten().filter(|block| block["thought"] != true);
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n")
}

/// Parses `openai http://127.0.0.1:11434/v1`.
impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, url) = text.trim().split_once(char::is_whitespace).ok_or_else(|| {
            format!("`{text}` is not an API and an address, such as openai https://host/v1")
        })?;
        let api = Api::of_provider(name).ok_or_else(|| {
            format!("unknown API `{name}`; use {}", Api::ALL.map(Api::provider).join(", "))
        })?;
        let base_url = Url::parse(url.trim()).map_err(|why| format!("{url}: {why}"))?;
        if !matches!(base_url.scheme(), "http" | "https") {
            return Err(format!("{url}: the address of an API begins with http"));
        }
        Ok(Self { api, base_url })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api.provider(), self.base_url)
    }
}
