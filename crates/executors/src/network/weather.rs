//! `get_weather`: current weather from OpenWeather, or a compatible API.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass::{Call, Error, ErrorKind, Output};

use super::NetworkContext;
use super::provider::{credential, endpoint, json as json_of};
use crate::outbound::Request;

const USUAL: &str = "https://api.openweathermap.org";
const TIME: Duration = Duration::from_secs(9);
const MAX_BYTES: u64 = 256 * 1024;

#[derive(Deserialize)]
struct WeatherArguments {
    city: String,
    #[serde(default)]
    units: Option<String>,
    #[serde(default)]
    language: Option<String>,
}

/// Fetches the current weather.
pub(super) async fn run(context: &NetworkContext, call: &Call) -> Result<Output, Error> {
    let asked: WeatherArguments = call.parse()?;
    let key = credential(call, "api_key")?;
    let units = asked.units.as_deref().unwrap_or("metric");
    let language = match asked.language.as_deref().unwrap_or("en") {
        "zh" | "zh_Hans" | "zh-CN" => "zh_cn",
        language => language,
    };
    let mut url = endpoint(call, USUAL, &["data", "2.5", "weather"])?;
    url.query_pairs_mut()
        .append_pair("q", &asked.city)
        .append_pair("appid", key.expose())
        .append_pair("units", units)
        .append_pair("lang", language);
    let request = Request::get(url).made_by(call).total_timeout(TIME).max_bytes(MAX_BYTES);
    let found = json_of(context.outbound.send(request).await?).await?;
    let weather = shape(&found, units, &asked.city).ok_or_else(|| {
        Error::new(ErrorKind::UpstreamFailed, "the service answered without a temperature")
    })?;
    Ok(Output::text(readable(&weather)).with_structured(weather))
}

/// The response with explicit units.
fn shape(found: &Value, units: &str, city: &str) -> Option<Value> {
    let (degrees, speed) = match units {
        "imperial" => ("°F", "mph"),
        "standard" => ("K", "m/s"),
        _ => ("°C", "m/s"),
    };
    let mut weather = json!({
        "city": found["name"].as_str().filter(|name| !name.is_empty()).unwrap_or(city),
        "temperature": found["main"]["temp"].as_f64()?,
        "temperature_unit": degrees,
        "wind_unit": speed,
    });
    for (name, value) in [
        ("country", &found["sys"]["country"]),
        ("description", &found["weather"][0]["description"]),
        ("feels_like", &found["main"]["feels_like"]),
        ("humidity_percent", &found["main"]["humidity"]),
        ("pressure_hpa", &found["main"]["pressure"]),
        ("wind_speed", &found["wind"]["speed"]),
    ] {
        if !value.is_null() {
            weather[name] = value.clone();
        }
    }
    Some(weather)
}

fn readable(weather: &Value) -> String {
    let text = |name: &str| match &weather[name] {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let mut line =
        format!("{}: {} {}", text("city"), text("temperature"), text("temperature_unit"));
    if weather["description"].is_string() {
        line = format!("{line}, {}", text("description"));
    }
    if weather["feels_like"].is_number() {
        line = format!("{line}, feels like {} {}", text("feels_like"), text("temperature_unit"));
    }
    if weather["humidity_percent"].is_number() {
        line = format!("{line}, humidity {} %", text("humidity_percent"));
    }
    if weather["wind_speed"].is_number() {
        line = format!("{line}, wind {} {}", text("wind_speed"), text("wind_unit"));
    }
    line
}
