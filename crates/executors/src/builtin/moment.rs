//! Parses time zones and timestamps as people and models write them.
//!
//! Ambiguous input is refused, with suggestions: a date with two readings (`03/04/2024`),
//! or a wall-clock time that a daylight saving change skips or repeats.

use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::temporal::Pieces;
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, ToSpan, Zoned};
use windlass::Error;

use super::arguments::invalid;

/// Maximum length of a time or a format.
const MAX_LENGTH: usize = 200;

/// Finds a zone: an IANA name, `UTC`, or an offset such as `+08:00` or `UTC+8`.
pub(super) fn zone(name: &str) -> Result<TimeZone, Error> {
    let trimmed = name.trim();
    let unknown = || {
        let message = format!("Unknown timezone: {name}");
        Error::tool(message.clone()).with_feedback(message)
    };
    if trimmed.len() > MAX_LENGTH {
        return Err(Error::tool("Unknown timezone: the name is too long"));
    }
    if trimmed.eq_ignore_ascii_case("utc") || trimmed.eq_ignore_ascii_case("z") {
        return Ok(TimeZone::UTC);
    }
    let known = TimeZone::get(trimmed).ok().filter(|zone| !zone.is_unknown());
    known.or_else(|| offset(trimmed).map(TimeZone::fixed)).ok_or_else(unknown)
}

/// The name of a zone, for people: `Europe/Berlin`, or the offset.
pub(super) fn zone_name(moment: &Zoned) -> String {
    match moment.time_zone().iana_name() {
        Some(name) => name.to_owned(),
        None => moment.strftime("%:z").to_string(),
    }
}

/// Parses a timestamp. One without a zone is interpreted in `zone`.
pub(super) fn read(text: &str, zone: &TimeZone) -> Result<Zoned, Error> {
    let text = text.trim();
    if text.len() > MAX_LENGTH {
        return Err(invalid("the date or time is too long to be one"));
    }
    if let Some(moment) = read_word(text, zone) {
        return moment;
    }
    if let Some(timestamp) = read_unix(text) {
        return Ok(timestamp.to_zoned(zone.clone()));
    }
    let iso_error = match Pieces::parse(text) {
        Ok(pieces) => return from_pieces(&pieces, zone, text),
        Err(error) => error,
    };
    if let Ok(moment) = rfc2822::parse(text) {
        return Ok(moment);
    }
    if let Ok(time) = text.parse::<Time>() {
        return at_wall_clock(today(zone).to_datetime(time), zone);
    }
    match read_common(text)? {
        Some(datetime) => at_wall_clock(datetime, zone),
        None => Err(invalid(format!(
            "cannot read `{text}` as a date or time ({iso_error}); \
             write it like 2024-05-17 or 2024-05-17T09:30:00+02:00"
        ))),
    }
}

/// The error of a date outside the supported range. Both limits are valid in every zone.
pub(super) fn out_of_range(what: impl std::fmt::Display) -> Error {
    invalid(format!("{what} is out of range: dates go from -9999-01-03 to 9999-12-29"))
}

/// Parses a timestamp by a strptime format.
pub(super) fn read_with(format: &str, text: &str, zone: &TimeZone) -> Result<Zoned, Error> {
    if format.len() > MAX_LENGTH || text.len() > MAX_LENGTH {
        return Err(invalid(format!("more than {MAX_LENGTH} bytes are no date, time or format")));
    }
    let wrong = |error: jiff::Error| {
        invalid(format!("cannot read `{text}` by the format `{format}`: {error}"))
    };
    let parsed = strtime::parse(format, text).map_err(wrong)?;
    if let Some(name) = parsed.iana_time_zone() {
        return at_wall_clock(parsed.to_datetime().map_err(wrong)?, &self::zone(name)?);
    }
    if parsed.offset().is_some() || parsed.timestamp().is_some() {
        return parsed.to_zoned().map_err(wrong);
    }
    let date = if parsed.year().is_none() && parsed.hour().is_some() {
        today(zone)
    } else {
        parsed.to_date().map_err(wrong)?
    };
    let time =
        if parsed.hour().is_none() { Time::midnight() } else { parsed.to_time().map_err(wrong)? };
    at_wall_clock(date.to_datetime(time), zone)
}

/// The instant for a wall-clock time in a zone, if there is exactly one.
pub(super) fn at_wall_clock(datetime: DateTime, zone: &TimeZone) -> Result<Zoned, Error> {
    let ambiguous = zone.to_ambiguous_zoned(datetime);
    let name = zone.iana_name().unwrap_or("this zone");
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => {}
        AmbiguousOffset::Gap { .. } => {
            return Err(invalid(format!(
                "{datetime} does not exist in {name}: the clocks are set forward past it"
            )));
        }
        AmbiguousOffset::Fold { before, after } => {
            return Err(invalid(format!(
                "{datetime} happens twice in {name}, because the clocks are set back; \
                 add the offset: {datetime}{before} or {datetime}{after}"
            )));
        }
    }
    ambiguous.unambiguous().map_err(|_| out_of_range(datetime))
}

/// Formats a timestamp by a named format or a strftime pattern.
pub(super) fn format(moment: &Zoned, format: &str) -> Result<String, Error> {
    if format.len() > MAX_LENGTH {
        return Err(invalid(format!("a format has at most {MAX_LENGTH} bytes")));
    }
    let pattern = match format {
        "iso8601" | "rfc3339" => "%Y-%m-%dT%H:%M:%S%.f%:z",
        "rfc2822" => "%a, %d %b %Y %H:%M:%S %z",
        "date" => "%Y-%m-%d",
        "time" => "%H:%M:%S",
        "datetime" => "%Y-%m-%d %H:%M:%S",
        "unix" => "%s",
        pattern => pattern,
    };
    strtime::format(pattern, moment)
        .map_err(|error| invalid(format!("the format `{format}` is not valid: {error}")))
}

fn today(zone: &TimeZone) -> Date {
    Timestamp::now().to_zoned(zone.clone()).date()
}

fn read_word(text: &str, zone: &TimeZone) -> Option<Result<Zoned, Error>> {
    let days = match text.to_ascii_lowercase().as_str() {
        "now" => return Some(Ok(Timestamp::now().to_zoned(zone.clone()))),
        "today" => 0,
        "tomorrow" => 1,
        "yesterday" => -1,
        _ => return None,
    };
    let day = today(zone).saturating_add(days.days());
    Some(day.to_zoned(zone.clone()).map_err(|error| invalid(error.to_string())))
}

/// Seconds since 1970, or milliseconds where there are 12 digits or more.
/// Eight digits are a date (20240517).
fn read_unix(text: &str) -> Option<Timestamp> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i64 = text.parse().ok()?;
    match digits.len() {
        9..=11 => Timestamp::from_second(number).ok(),
        12..=15 => Timestamp::from_millisecond(number).ok(),
        _ => None,
    }
}

fn from_pieces(pieces: &Pieces<'_>, zone: &TimeZone, text: &str) -> Result<Zoned, Error> {
    let datetime = pieces.date().to_datetime(pieces.time().unwrap_or(Time::midnight()));
    if pieces.time_zone_annotation().is_some() {
        return text
            .parse::<Zoned>()
            .or_else(|_| {
                let zone = pieces.to_time_zone()?.unwrap_or(TimeZone::UTC);
                zone.to_ambiguous_zoned(datetime).unambiguous()
            })
            .map_err(|error| match error.is_range() {
                true => out_of_range(datetime),
                false => invalid(format!("cannot read `{text}`: {error}")),
            });
    }
    match pieces.to_numeric_offset() {
        Some(offset) if offset.is_zero() => at_wall_clock(datetime, &TimeZone::UTC),
        Some(offset) => at_wall_clock(datetime, &TimeZone::fixed(offset)),
        None => at_wall_clock(datetime, zone),
    }
}

const COMMON_DATES: &[&str] = &[
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d.%m.%Y",
    "%B %d, %Y",
    "%b %d, %Y",
    "%B %d %Y",
    "%b %d %Y",
    "%d %B %Y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%A, %B %d, %Y",
    "%a, %b %d, %Y",
    "%A, %d %B %Y",
    "%Y年%m月%d日",
];

const COMMON_TIMES: &[&str] =
    &["", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M%p", " %I:%M:%S %p", ", %H:%M", ", %I:%M %p"];

/// Parses common formats besides ISO 8601 and RFC 2822.
fn read_common(text: &str) -> Result<Option<DateTime>, Error> {
    let by = |date: &str| {
        COMMON_TIMES.iter().find_map(|time| {
            let parsed = strtime::parse(format!("{date}{time}"), text).ok()?;
            let time = if time.is_empty() { Time::midnight() } else { parsed.to_time().ok()? };
            Some(parsed.to_date().ok()?.to_datetime(time))
        })
    };
    match (by("%m/%d/%Y"), by("%d/%m/%Y")) {
        (Some(american), Some(european)) if american != european => Err(invalid(format!(
            "`{text}` can be {} or {}; write the one that is meant",
            american.date(),
            european.date()
        ))),
        (Some(datetime), _) | (None, Some(datetime)) => Ok(Some(datetime)),
        (None, None) => Ok(COMMON_DATES.iter().find_map(|date| by(date))),
    }
}

/// `+08:00`, `-0330`, `+8`, optionally after `UTC` or `GMT`.
fn offset(text: &str) -> Option<Offset> {
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("UTC").or(upper.strip_prefix("GMT")).unwrap_or(&upper);
    let (sign, digits) = match bare.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) if minutes.len() == 2 => (hours, minutes),
        None if digits.len() == 4 => digits.split_at_checked(2)?,
        None => (digits, "0"),
        _ => return None,
    };
    let number = |text: &str| text.parse::<u8>().ok().map(i32::from);
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    if hours > 14 || minutes > 59 {
        return None;
    }
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_names_and_offsets() {
        for (name, expected) in [
            ("Asia/Shanghai", "Asia/Shanghai"),
            ("asia/shanghai", "Asia/Shanghai"),
            ("UTC", "UTC"),
            ("z", "UTC"),
            ("+08:00", "+08:00"),
            ("UTC+8", "+08:00"),
            ("GMT-0330", "-03:30"),
        ] {
            let moment = Timestamp::UNIX_EPOCH.to_zoned(zone(name).unwrap());
            assert_eq!(zone_name(&moment), expected, "{name}");
        }
        for name in ["Mars/Olympus", "", "+25:00", "+", "UTC+x", "../etc/passwd", "+é"] {
            let error = zone(name).unwrap_err();
            assert_eq!(error.message(), format!("Unknown timezone: {name}"));
        }
    }

    #[test]
    fn points_in_time_are_read() {
        let berlin = zone("Europe/Berlin").unwrap();
        for (text, expected) in [
            ("2024-05-17", "2024-05-17T00:00:00+02:00"),
            ("20240517", "2024-05-17T00:00:00+02:00"),
            ("2024-05-17T09:30", "2024-05-17T09:30:00+02:00"),
            ("2024-05-17 09:30:15.5", "2024-05-17T09:30:15.5+02:00"),
            ("2024-05-17T09:30:00Z", "2024-05-17T09:30:00+00:00"),
            ("2024-05-17T09:30:00-05:00", "2024-05-17T09:30:00-05:00"),
            ("2024-05-17T09:30:00[Asia/Tokyo]", "2024-05-17T09:30:00+09:00"),
            ("Fri, 17 May 2024 09:30:00 +0100", "2024-05-17T09:30:00+01:00"),
            ("1715938200", "2024-05-17T11:30:00+02:00"),
            ("1715938200000", "2024-05-17T11:30:00+02:00"),
            ("2024/5/7", "2024-05-07T00:00:00+02:00"),
            ("17.05.2024 09:30", "2024-05-17T09:30:00+02:00"),
            ("May 17, 2024", "2024-05-17T00:00:00+02:00"),
            ("17 May 2024 9:30 PM", "2024-05-17T21:30:00+02:00"),
            ("12/25/2024", "2024-12-25T00:00:00+01:00"),
            ("25/12/2024 08:00", "2024-12-25T08:00:00+01:00"),
            ("2024年5月17日", "2024-05-17T00:00:00+02:00"),
        ] {
            let moment = read(text, &berlin).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(format(&moment, "iso8601").unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_certain_is_refused() {
        let new_york = zone("America/New_York").unwrap();
        for (text, expected) in [
            (
                "03/04/2024",
                "`03/04/2024` can be 2024-03-04 or 2024-04-03; write the one that is meant",
            ),
            ("2024-03-10T02:30", "2024-03-10T02:30:00 does not exist in America/New_York"),
            (
                "2024-11-03T01:30",
                "add the offset: 2024-11-03T01:30:00-04 or 2024-11-03T01:30:00-05",
            ),
            ("2023-02-29", "cannot read `2023-02-29` as a date or time"),
            ("2024-13-01", "cannot read `2024-13-01` as a date or time"),
            ("soon", "cannot read `soon` as a date or time"),
        ] {
            let error = read(text, &new_york).unwrap_err();
            assert!(error.message().contains(expected), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_gets_an_answer(text in "\\PC{0,30}", likely in "[-0-9:/.TZ+ %a-zA-Z\\[\\]]{0,30}") {
            for text in [text, likely] {
                let _ = zone(&text);
                let _ = read(&text, &TimeZone::UTC);
                let _ = read_with(&text, "2024-05-17", &TimeZone::UTC);
                let _ = format(&Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC), &text);
            }
        }
    }

    #[test]
    fn formats_read_too() {
        let utc = TimeZone::UTC;
        let moment = read_with("%d|%m|%Y %H.%M", "17|05|2024 09.30", &utc).unwrap();
        assert_eq!(format(&moment, "rfc2822").unwrap(), "Fri, 17 May 2024 09:30:00 +0000");
        assert!(read_with("%d|%m|%Y", "17/05/2024", &utc).is_err());
        assert!(format(&moment, "%!").is_err());
    }
}
