//! Localised text for people and models.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A language of Windlass's own texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Chinese.
    Zh,
}

impl std::str::FromStr for Lang {
    type Err = String;
    fn from_str(tag: &str) -> Result<Self, String> {
        match tag.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("en") => Ok(Self::En),
            Some("zh") => Ok(Self::Zh),
            _ => Err(format!("unknown language `{tag}`; use en or zh")),
        }
    }
}

/// One text, or one per language: `Get the weather`, or
/// `{en_US: Get the weather, zh_Hans: 获取天气}`.
///
/// Language tags are kept as written (`en_US`, `zh-CN`), so that a definition
/// survives being read and written again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// The same text in every language.
    One(String),
    /// A text for each language tag.
    Many(BTreeMap<String, String>),
}

impl Text {
    /// A text in both languages of Windlass.
    pub fn both(english: impl Into<String>, chinese: impl Into<String>) -> Self {
        let english = ("en_US".to_owned(), english.into());
        Self::Many(BTreeMap::from([english, ("zh_Hans".to_owned(), chinese.into())]))
    }

    /// The text in a language, falling back to English, then to any.
    pub fn get(&self, lang: Lang) -> &str {
        match self {
            Self::One(text) => text,
            Self::Many(texts) => {
                let by = |lang: Lang| {
                    texts.iter().find(|(tag, _)| tag.parse() == Ok(lang)).map(|(_, text)| text)
                };
                by(lang)
                    .or_else(|| by(Lang::En))
                    .or_else(|| texts.values().next())
                    .map_or("", String::as_str)
            }
        }
    }

    /// The texts of all languages, mutable.
    pub(crate) fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let (one, many) = match self {
            Self::One(text) => (Some(text), None),
            Self::Many(texts) => (None, Some(texts.values_mut())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Whether the text is empty in every language.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::One(text) => text.is_empty(),
            Self::Many(texts) => texts.values().all(String::is_empty),
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::One(String::new())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::One(text.to_owned())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::One(text)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get(Lang::En))
    }
}
