//! A time, as people say it: a while ago, a day, or a moment.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// Reads `30m`, `2d` (ago), `2026-11-16`, `2026-11-16 08:00` (local time) or
/// `2026-11-16T08:00:00Z`.
pub(super) fn parse(text: &str) -> Result<Timestamp, String> {
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Ok(at) = text.parse::<DateTime>() {
        let at = at.to_zoned(TimeZone::system()).map_err(|error| error.to_string())?;
        return Ok(at.timestamp());
    }
    if let Ok(span) = text.parse::<Span>() {
        let ago = Zoned::now().checked_sub(span.abs()).map_err(|error| error.to_string())?;
        return Ok(ago.timestamp());
    }
    Err("write how long ago (30m, 2h, 7d) or when (2026-11-16, 2026-11-16T08:00:00Z)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let moment: Timestamp = "2026-11-16T08:00:00Z".parse().unwrap();
        assert_eq!(parse("2026-11-16T08:00:00Z").unwrap(), moment);
        assert_eq!(parse("2026-11-16T10:00:00+02:00").unwrap(), moment);
        assert!(parse("2026-11-16").is_ok() && parse("2026-11-16 08:00").is_ok());
        let now = Timestamp::now();
        for (text, seconds) in [("90s", 90), ("1h", 3600), ("2h 30m", 9000), ("1 week", 604_800)] {
            let ago = now.duration_since(parse(text).unwrap()).as_secs();
            assert!((ago - seconds).abs() <= 3601, "{text}: {ago}");
        }
        for bad in ["", "soon", "2026-13-01", "5 parsecs"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
