//! Parses a time argument: a date, a timestamp, or a duration relative to now.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// Reads `30m`, `2d` (ago), `2026-11-16`, `2026-11-16 08:00` (local time) or
/// `2026-11-16T08:00:00Z`.
pub(super) fn parse_past(text: &str) -> Result<Timestamp, String> {
    parse(text, |span| Zoned::now().checked_sub(span.abs()).ok()).ok_or_else(|| {
        "write how long ago (30m, 2h, 7d) or when (2026-11-16, 2026-11-16T08:00:00Z)".to_owned()
    })
}

/// Reads the same, but `30m` and `2d` from now.
pub(super) fn parse_end(text: &str) -> Result<Timestamp, String> {
    let later = |span: Span| span.is_positive().then(|| Zoned::now().checked_add(span).ok())?;
    parse(text, later)
        .ok_or_else(|| "write how long (12h, 90d, 1y) or until when (2027-01-31)".to_owned())
}

/// A moment, a day, or what comes of a span.
fn parse(text: &str, from_now: impl Fn(Span) -> Option<Zoned>) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    let at = match text.parse::<DateTime>() {
        Ok(at) => at.to_zoned(TimeZone::system()).ok()?,
        Err(_) => from_now(text.parse().ok()?)?,
    };
    Some(at.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let moment: Timestamp = "2026-11-16T08:00:00Z".parse().unwrap();
        assert_eq!(parse_past("2026-11-16T08:00:00Z").unwrap(), moment);
        assert_eq!(parse_past("2026-11-16T10:00:00+02:00").unwrap(), moment);
        assert!(parse_past("2026-11-16").is_ok() && parse_past("2026-11-16 08:00").is_ok());
        let now = Timestamp::now();
        for (text, seconds) in [("90s", 90), ("1h", 3600), ("2h 30m", 9000), ("1 week", 604_800)] {
            let ago = now.duration_since(parse_past(text).unwrap()).as_secs();
            assert!((ago - seconds).abs() <= 3601, "{text}: {ago}");
        }
        for bad in ["", "soon", "2026-13-01", "5 parsecs"] {
            assert!(parse_past(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ends_are_read() {
        let now = Timestamp::now();
        for (text, days) in [("24h", 1), ("90d", 90), ("1 week", 7)] {
            let left = parse_end(text).unwrap().duration_since(now).as_hours();
            assert!((left - 24 * days).abs() <= 1, "{text}: {left}");
        }
        assert_eq!(parse_end("2027-01-31T08:00:00Z").unwrap().to_string(), "2027-01-31T08:00:00Z");
        assert!(parse_end("2027-01-31").is_ok());
        for wrong in ["", "soon", "-3d", "0s", "2027-13-01"] {
            assert!(parse_end(wrong).is_err(), "{wrong}");
        }
    }
}
