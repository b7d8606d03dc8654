//! The section `telemetry`: where traces go.

use std::fmt;

use axum::http::{HeaderName, HeaderValue, Uri};
use serde_json::{Value as Json, json};
use windlass::Secret;

use super::value::{SettingInput, SettingValue};

/// Where traces go, and which.
#[derive(Clone, Debug)]
pub(crate) struct TelemetrySettings {
    /// None: nowhere.
    pub(crate) endpoint: Option<CollectorUrl>,
    pub(crate) service_name: String,
    pub(crate) sample_ratio: Ratio,
    pub(crate) headers: Headers,
    /// Whether spans hold arguments and results.
    pub(crate) content: bool,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            endpoint: None,
            service_name: "windlass".to_owned(),
            sample_ratio: Ratio(1.0),
            headers: Headers::default(),
            content: false,
        }
    }
}

/// The address that spans are sent to.
#[derive(Clone, Debug)]
pub(crate) struct CollectorUrl(pub(crate) Uri);

/// A part of the whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio(pub(crate) f64);

/// Headers with secret values.
#[derive(Clone, Default)]
pub(crate) struct Headers(pub(crate) Vec<(HeaderName, Secret)>);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl SettingValue for CollectorUrl {
    const FORM: &'static str = "a URL such as http://127.0.0.1:4318";

    /// A collector's address alone means the path that all of them have.
    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        let text = given.text()?;
        let wrong = || format!("{} is {}", given.label(), Self::FORM);
        let whole: Uri = text.parse().map_err(|_| wrong())?;
        let is_web = matches!(whole.scheme_str(), Some("http" | "https"));
        let authority = whole.authority().filter(|_| is_web).ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err(format!("{} holds no password; use telemetry.headers", given.label()));
        }
        // Not echoed: the value is often an API key.
        if text.contains(['?', '#']) {
            return Err(format!("{} has no query; use telemetry.headers", given.label()));
        }
        if whole.path() != "/" {
            return Ok(Self(whole));
        }
        let whole = format!("{}/v1/traces", text.trim_end_matches('/'));
        whole.parse().map(Self).map_err(|_| wrong())
    }

    fn show(&self) -> Json {
        json!(self.0.to_string())
    }
}

impl SettingValue for Ratio {
    const FORM: &'static str = "a number from 0 to 1";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        let ratio = given.text()?.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        ratio.map(Self).ok_or_else(|| given.wrong(Self::FORM))
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

impl SettingValue for Headers {
    const FORM: &'static str = "a list of NAME=VALUE, or such pairs with commas in between";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        let wrong = || format!("{} is {}", given.label(), Self::FORM);
        let pairs = given.texts()?.into_iter().map(|pair| {
            let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
            let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
            HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
            Ok((name, Secret::new(value.trim())))
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    fn show(&self) -> Json {
        self.0.iter().map(|(name, _)| format!("{name}=[hidden]")).collect()
    }
}
