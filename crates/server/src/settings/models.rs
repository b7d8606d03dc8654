//! The section `models`: model APIs, their endpoints and prices.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use windlass_executors::model::{Endpoint, Price};

use super::value::{SettingInput, SettingValue};

macro_rules! parsed_maps {
    ($($type:ty, $form:literal;)*) => {$(
        impl SettingValue for BTreeMap<String, $type> {
            const FORM: &'static str = $form;

            fn read(given: &SettingInput<'_>) -> Result<Self, String> {
                let pairs = given.texts()?.into_iter().map(|pair| {
                    let wrong = || format!("{} is written NAME=VALUE", given.label());
                    let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
                    let value = value.trim().parse::<$type>();
                    let value = value.map_err(|why| format!("{}: {why}", given.label()))?;
                    Ok((name.trim().to_owned(), value))
                });
                pairs.collect()
            }

            fn show(&self) -> Json {
                let pairs = self.iter().map(|(name, value)| (name.clone(), json!(value.to_string())));
                Json::Object(pairs.collect::<Map<_, _>>())
            }
        }
    )*};
}

parsed_maps! {
    Endpoint, "an API and an address for each name: {local: openai http://127.0.0.1:11434/v1}";
    Price, "dollars for 1,000 tokens in and out for each model: {gpt-5: 0.00125/0.01}";
    String, "a text for each name";
}
