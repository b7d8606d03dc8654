//! Types of setting values: how each is parsed, described and shown.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};
use windlass::{BreakerSettings, Lang, Strategy, duration};

use super::DatabaseLocation;
use crate::state::quota::Dollars;

/// The strategies by their names.
const STRATEGIES: [(&str, Strategy); 3] =
    [("fifo", Strategy::Fifo), ("priority", Strategy::Priority), ("reject", Strategy::Reject)];

/// The written value of a setting.
pub(super) struct SettingInput<'a> {
    /// The setting as the user wrote it: a key, a variable, a flag.
    pub(super) name: &'a str,
    pub(super) said: WrittenValue<'a>,
    /// What a relative path begins at.
    pub(super) base: &'a Path,
    /// The least number that makes sense.
    pub(super) least: u64,
}

/// One value, or a list.
pub(super) enum WrittenValue<'a> {
    One(&'a str),
    Several(&'a [String]),
}

impl SettingInput<'_> {
    /// The setting's name in a sentence: a flag or a variable is its own mark.
    pub(super) fn label(&self) -> String {
        match self.name.starts_with("--") || self.name.starts_with("WINDLASS_") {
            true => self.name.to_owned(),
            false => format!("`{}`", self.name),
        }
    }

    pub(super) fn text(&self) -> Result<&str, String> {
        match self.said {
            WrittenValue::Several(_) => Err(format!("{} takes one plain value", self.label())),
            WrittenValue::One("") => Err(format!("{} is empty", self.label())),
            WrittenValue::One(text) => Ok(text),
        }
    }

    /// A list, or texts with commas in between.
    pub(super) fn texts(&self) -> Result<Vec<&str>, String> {
        match self.said {
            WrittenValue::Several(all) => Ok(all.iter().map(String::as_str).collect()),
            WrittenValue::One(_) => {
                let parts = self.text()?.split(',').map(str::trim);
                Ok(parts.filter(|part| !part.is_empty()).collect())
            }
        }
    }

    /// That it is something else. What was found is not repeated where it may
    /// be secret.
    pub(super) fn wrong(&self, wanted: &str) -> String {
        match self.said {
            WrittenValue::One(found) => format!("{} is {wanted}, found `{found}`", self.label()),
            WrittenValue::Several(_) => format!("{} is {wanted}", self.label()),
        }
    }
}

/// The type of a setting.
pub(super) trait SettingValue: Sized {
    /// What may be written, for people.
    const FORM: &'static str;

    fn read(given: &SettingInput<'_>) -> Result<Self, String>;

    /// As it is shown; null where nothing is set.
    fn show(&self) -> Json;
}

/// What may be written for a setting of this type.
pub(super) fn form_of<T: SettingValue>(_: &T) -> &'static str {
    T::FORM
}

macro_rules! whole_numbers {
    ($($number:ty)*) => {$(
        impl SettingValue for $number {
            const FORM: &'static str = "a whole number";

            fn read(given: &SettingInput<'_>) -> Result<Self, String> {
                let digits = given.text()?.replace('_', "");
                let number = digits.parse().ok().filter(|number: &u64| *number >= given.least);
                number.and_then(|number| Self::try_from(number).ok()).ok_or_else(|| {
                    given.wrong(&format!("a whole number from {}", given.least))
                })
            }

            fn show(&self) -> Json {
                json!(self)
            }
        }
    )*};
}

whole_numbers!(u32 u64 usize);

impl<T: SettingValue> SettingValue for Option<T> {
    const FORM: &'static str = T::FORM;

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        T::read(given).map(Some)
    }

    fn show(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::show)
    }
}

impl SettingValue for bool {
    const FORM: &'static str = "true or false";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        match given.text()? {
            "true" | "on" => Ok(true),
            "false" | "off" => Ok(false),
            _ => Err(given.wrong("true or false")),
        }
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

/// It is on, with all that belongs to it, or off.
impl SettingValue for Option<BreakerSettings> {
    const FORM: &'static str = bool::FORM;

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        bool::read(given).map(|on| on.then(BreakerSettings::default))
    }

    fn show(&self) -> Json {
        json!(self.is_some())
    }
}

impl SettingValue for Duration {
    const FORM: &'static str = "a time span: 500ms, 30s, 2m";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        duration::parse(given.text()?).map_err(|why| format!("{}: {why}", given.label()))
    }

    fn show(&self) -> Json {
        json!(duration::format(*self))
    }
}

/// The only number with a fraction is a factor.
impl SettingValue for f64 {
    const FORM: &'static str = "a number from 1 to 1000";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        let number: Option<Self> = given.text()?.parse().ok();
        number.filter(|it| (1.0..=1000.0).contains(it)).ok_or_else(|| given.wrong(Self::FORM))
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

impl SettingValue for Dollars {
    const FORM: &'static str = "US dollars: 5, 0.50";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        let number: Option<f64> = given.text()?.parse().ok();
        number.and_then(Self::new).ok_or_else(|| given.wrong(Self::FORM))
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

impl SettingValue for SocketAddr {
    const FORM: &'static str = "an address with a port, such as 127.0.0.1:7700";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        given.text()?.parse().map_err(|_| given.wrong(Self::FORM))
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

impl SettingValue for String {
    const FORM: &'static str = "a text";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        given.text().map(str::to_owned)
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

impl SettingValue for PathBuf {
    const FORM: &'static str = "a path";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        given.text().map(|path| given.base.join(path))
    }

    fn show(&self) -> Json {
        json!(self.display().to_string())
    }
}

impl SettingValue for Vec<String> {
    const FORM: &'static str = "a list, or texts with commas in between";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        Ok(given.texts()?.into_iter().map(str::to_owned).collect())
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

/// A comma may be part of a path, so one text is one path.
impl SettingValue for Vec<PathBuf> {
    const FORM: &'static str = "a path, or a list of paths";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        match given.said {
            WrittenValue::One(_) => PathBuf::read(given).map(|path| vec![path]),
            WrittenValue::Several(paths) => {
                Ok(paths.iter().map(|path| given.base.join(path)).collect())
            }
        }
    }

    fn show(&self) -> Json {
        self.iter().map(SettingValue::show).collect()
    }
}

impl SettingValue for Strategy {
    const FORM: &'static str = "fifo, priority or reject";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        let text = given.text()?;
        let found = STRATEGIES.iter().find(|(name, _)| *name == text);
        found.map(|(_, strategy)| *strategy).ok_or_else(|| given.wrong(Self::FORM))
    }

    fn show(&self) -> Json {
        json!(strategy_name(*self))
    }
}

/// The name of a strategy.
pub(super) fn strategy_name(wanted: Strategy) -> &'static str {
    STRATEGIES.iter().find(|(_, strategy)| *strategy == wanted).map_or("fifo", |(name, _)| name)
}

impl SettingValue for Lang {
    const FORM: &'static str = "en or zh";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        given.text()?.parse().map_err(|why| format!("{}: {why}", given.label()))
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

/// Shown without a password; errors do not repeat it either.
impl SettingValue for DatabaseLocation {
    const FORM: &'static str = "a path, sqlite:PATH, postgres://USER@HOST/DATABASE or `:memory:`";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        Self::parse(given.text()?, given.base).map_err(|why| format!("{}: {why}", given.label()))
    }

    fn show(&self) -> Json {
        match self {
            Self::Memory => json!(":memory:"),
            other => json!(other.describe()),
        }
    }
}

/// What may run at once, by category.
impl SettingValue for BTreeMap<String, usize> {
    const FORM: &'static str = "a number for each name: {http: 5, ai: 2}";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        let pairs = given.texts()?.into_iter().map(|pair| {
            let wrong = || format!("{} is written http=5,ai=2, found `{pair}`", given.label());
            let (name, most) = pair.rsplit_once('=').ok_or_else(wrong)?;
            let most = SettingInput { said: WrittenValue::One(most.trim()), ..*given };
            Ok((name.trim().to_owned(), usize::read(&most)?))
        });
        pairs.collect()
    }

    fn show(&self) -> Json {
        json!(self)
    }
}
