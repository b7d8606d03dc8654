//! The supported model APIs, and their default endpoints.

use std::fmt;
use std::str::FromStr;

use url::Url;
use windlass::TurnFormat;
use windlass::definition::Format;

use super::Endpoint;

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

impl Api {
    /// All supported APIs.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAi, Self::Gemini];

    /// The provider that the API is named after.
    pub fn provider(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
        }
    }

    /// The usual environment variable for its key.
    pub fn key_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAi => "OPENAI_API_KEY",
            Self::Gemini => "GEMINI_API_KEY",
        }
    }

    /// The format of its messages.
    pub fn turn_format(self) -> TurnFormat {
        match self {
            Self::Anthropic => TurnFormat::Anthropic,
            Self::OpenAi => TurnFormat::OpenAi,
            Self::Gemini => TurnFormat::Gemini,
        }
    }

    /// The format of its tool declarations.
    pub fn tool_format(self) -> Format {
        match self {
            Self::Anthropic => Format::Anthropic,
            Self::OpenAi => Format::OpenAi,
            Self::Gemini => Format::Gemini,
        }
    }

    /// The API of a model, recognised by its name.
    pub fn of_model(name: &str) -> Option<Self> {
        let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
        match () {
            () if begins(&["claude"]) => Some(Self::Anthropic),
            () if begins(&["gemini"]) => Some(Self::Gemini),
            () if begins(&["gpt-", "chatgpt", "o1", "o3", "o4"]) => Some(Self::OpenAi),
            () => None,
        }
    }

    /// The default endpoint.
    pub(super) fn usual(self) -> Option<Endpoint> {
        let base_url = match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com",
        };
        Some(Endpoint { api: self, base_url: Url::parse(base_url).ok()? })
    }
}

/// Parses `openai http://127.0.0.1:11434/v1`.
impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, url) = text.trim().split_once(char::is_whitespace).ok_or_else(|| {
            format!("`{text}` is not an API and an address, such as openai https://host/v1")
        })?;
        let api = Api::ALL
            .into_iter()
            .find(|api| api.provider() == name)
            .ok_or_else(|| format!("unknown API `{name}`; use anthropic, openai or gemini"))?;
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
