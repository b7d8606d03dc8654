//! Durations as people write them: `30s`, `500ms`, `2m`, or a bare number of
//! seconds.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

/// Maximum duration that can be configured: a year. Prevents overflow in
/// deadline arithmetic.
pub const MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Parses a duration.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim() {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(format!("`{text}` is not a duration; write 30s, 500ms, 2m or 1h")),
    };
    let number: f64 =
        number.parse().map_err(|_| format!("`{text}` is not a duration; write 30s or 500ms"))?;
    from_seconds(number * scale)
}

/// Converts a number of seconds.
pub fn from_seconds(seconds: f64) -> Result<Duration, String> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() && duration <= MAX => Ok(duration),
        _ => Err(format!("{seconds} seconds is out of range; use more than 0 and at most a year")),
    }
}

/// Formats a duration so that [`parse`] can read it.
pub fn format(duration: Duration) -> String {
    match duration.as_micros() {
        micros if micros % 1_000_000 == 0 => format!("{}s", micros / 1_000_000),
        micros if micros % 1_000 == 0 => format!("{}ms", micros / 1_000),
        micros => format!("{}ms", micros as f64 / 1_000.0),
    }
}

/// Formats a duration for people: `0.25 ms`, `12 ms`, `3.4 s`, `2 min 05 s`.
pub fn human(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    // The unit follows from the rounded number: 59.96 s is not `60.0 s`.
    match millis {
        _ if millis < 9.995 => format!("{millis:.2} ms"),
        _ if millis < 999.5 => format!("{millis:.0} ms"),
        _ if millis < 59_950.0 => format!("{:.1} s", millis / 1000.0),
        _ => {
            let seconds = duration.as_secs_f64().round() as u64;
            format!("{} min {:02} s", seconds / 60, seconds % 60)
        }
    }
}

/// For `#[serde(with = "duration::option")]`.
pub mod option {
    use super::{Deserialize, Deserializer, Duration, Serializer, format, from_seconds, parse};

    /// Serialises as text.
    pub fn serialize<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(duration) => to.serialize_str(&format(*duration)),
            None => to.serialize_none(),
        }
    }

    /// Deserialises text or a number of seconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Seconds(f64),
            Text(String),
        }
        Option::<Written>::deserialize(from)?
            .map(|written| match written {
                Written::Seconds(seconds) => from_seconds(seconds),
                Written::Text(text) => parse(&text),
            })
            .transpose()
            .map_err(serde::de::Error::custom)
    }
}

/// For `#[serde(with = "duration::required")]`.
pub mod required {
    use super::{Deserializer, Duration, Serializer, format, option};

    /// Serialises as text.
    pub fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format(*value))
    }

    /// Deserialises text or a number of seconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        option::deserialize(from)?.ok_or_else(|| serde::de::Error::custom("a duration is missing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, millis) in [("30s", 30_000), ("500ms", 500), ("2m", 120_000), ("1.5", 1_500)] {
            let read = parse(text).unwrap();
            assert_eq!(read, Duration::from_millis(millis));
            assert_eq!(parse(&format(read)).unwrap(), read);
        }
        for bad in ["", "fast", "-1s", "0", "1e9h", "3 weeks", "NaN"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn people_read_the_unit_that_fits_the_rounded_number() {
        for (millis, text) in [
            (0.5, "0.50 ms"),
            (9.996, "10 ms"),
            (12.0, "12 ms"),
            (999.6, "1.0 s"),
            (1_500.0, "1.5 s"),
            (59_960.0, "1 min 00 s"),
            (61_000.0, "1 min 01 s"),
            (119_600.0, "2 min 00 s"),
        ] {
            assert_eq!(human(Duration::from_secs_f64(millis / 1000.0)), text);
        }
    }
}
