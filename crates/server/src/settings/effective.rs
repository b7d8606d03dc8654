//! The effective value and the origin of every setting, for `windlass config`.

use serde::Serialize;
use serde_json::Value as Json;

use super::layers::{self, Layers, SettingOrigin};
use super::raw::Raw;
use super::table::{ROWS, SettingRow};
use crate::cli::exit::Failure;

/// One setting.
#[derive(Debug, Serialize)]
pub(crate) struct Effective {
    /// Its name, with its section before a dot.
    pub(crate) name: &'static str,
    /// Its value; secrets are masked, and null is not set.
    pub(crate) value: Json,
    /// Where the value came from.
    #[serde(serialize_with = "in_words")]
    pub(crate) origin: SettingOrigin,
    default: Json,
    about: &'static str,
    takes: &'static str,
    /// Variables that set it; the first wins.
    variables: Vec<String>,
    flag: Option<&'static str>,
}

impl Effective {
    /// Whether it is the setting of this name; else what was meant.
    pub(crate) fn find<'a>(all: &'a [Self], name: &str) -> Result<&'a Self, Failure> {
        let row = layers::row_named(name)?;
        let found = all.iter().find(|setting| setting.name == row.name);
        found.ok_or_else(|| Failure::usage(format!("there is no setting `{name}`")))
    }

    /// The value in one line.
    pub(crate) fn text(&self) -> String {
        match &self.value {
            Json::Null => String::new(),
            Json::String(text) => text.clone(),
            Json::Array(items) => {
                let plain = |item: &Json| item.as_str().map_or(item.to_string(), str::to_owned);
                items.iter().map(plain).collect::<Vec<_>>().join(", ")
            }
            Json::Object(pairs) => {
                let pairs = pairs.iter().map(|(name, value)| format!("{name}: {value}"));
                pairs.collect::<Vec<_>>().join(", ")
            }
            other => other.to_string(),
        }
    }
}

pub(super) fn all(layers: &Layers) -> Vec<Effective> {
    let defaults = Raw::default();
    ROWS.iter().map(|row| one(row, layers, &defaults)).collect()
}

fn one(row: &'static SettingRow, layers: &Layers, defaults: &Raw) -> Effective {
    Effective {
        name: row.name,
        value: (row.show)(&layers.raw),
        origin: layers.origin(row.name),
        default: (row.show)(defaults),
        about: row.about,
        takes: (row.form)(defaults),
        variables: std::iter::once(row.variable())
            .chain(row.short_variable.map(str::to_owned))
            .collect(),
        flag: row.flag,
    }
}

fn in_words<S: serde::Serializer>(origin: &SettingOrigin, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(origin)
}
