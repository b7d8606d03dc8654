//! `datetime`: parses, formats and calculates with dates and times.
//!
//! Calculations keep the wall clock: a day later is the same time tomorrow, even across a
//! daylight saving change; a month after 31 January is the last day of February.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Unit, Zoned, ZonedDifference};
use serde_json::{Value, json};
use windlass::{Error, Output};

use super::arguments::{Arguments, Operation, dispatch, invalid};
use super::moment::{self, out_of_range};
use super::value::short;

pub(super) fn run(arguments: &Arguments<'_>) -> Result<Output, Error> {
    dispatch(OPERATIONS, arguments)
}

pub(super) const OPERATIONS: &[(&str, Operation)] = &[
    ("now", |arguments| Ok(describe(&Timestamp::now().to_zoned(zone(arguments)?)))),
    ("parse", |arguments| Ok(describe(&start(arguments)?))),
    ("format", format),
    ("convert", convert),
    ("add", |arguments| Ok(describe(&shift(&start(arguments)?, span(arguments)?)?))),
    ("subtract", |arguments| Ok(describe(&shift(&start(arguments)?, span(arguments)?.negate())?))),
    ("diff", diff),
    ("compare", compare),
    ("start_of", |arguments| {
        Ok(describe(&start_of(&start(arguments)?, Period::read(arguments)?)?))
    }),
    ("end_of", end_of),
    ("to_timestamp", to_timestamp),
    ("from_timestamp", from_timestamp),
];

fn format(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut moment = start(arguments)?;
    if let Some(zone) = arguments.optional_text("to_timezone")? {
        moment = moment.with_time_zone(moment::zone(zone)?);
    }
    Ok(Output::text(moment::format(&moment, arguments.text("format")?)?))
}

fn convert(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let to = moment::zone(arguments.text("to_timezone")?)?;
    Ok(describe(&start(arguments)?.with_time_zone(to)))
}

/// The time from `datetime` to `end`: in all units together, and as a number of the
/// requested unit.
fn diff(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let from = start(arguments)?;
    let to = end(arguments)?.with_time_zone(from.time_zone().clone());
    let unit = match arguments.get("unit") {
        None => Period::Unit(Unit::Day),
        Some(_) => Period::read(arguments)?,
    };
    // Near the limits of the calendar, the calculation leaves its range.
    let too_far = |_| out_of_range("the difference");
    let span = from.until(ZonedDifference::new(&to).largest(Unit::Year)).map_err(too_far)?;
    let total = match unit {
        Period::Unit(unit) => span.total((unit, &from)),
        Period::Quarter => span.total((Unit::Month, &from)).map(|months| months / 3.0),
    };
    let seconds = from.duration_until(&to);
    Ok(Output::json(json!({
        "value": tidy(total.map_err(too_far)?),
        "unit": unit.name(),
        "seconds": tidy(seconds.as_secs_f64()),
        "duration": span.to_string(),
        "text": spell(&span),
    })))
}

fn compare(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let order = start(arguments)?.timestamp().cmp(&end(arguments)?.timestamp());
    Ok(Output::text(match order {
        std::cmp::Ordering::Less => "before",
        std::cmp::Ordering::Equal => "equal",
        std::cmp::Ordering::Greater => "after",
    }))
}

/// The end is the last second, since the last nanosecond would be noise to a reader.
fn end_of(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let period = Period::read(arguments)?;
    let first = start_of(&start(arguments)?, period)?;
    let next = period.span(1).and_then(|span| first.checked_add(span).ok());
    let next = next.ok_or_else(|| out_of_range("the end"))?;
    Ok(describe(&shift(&next, Span::new().seconds(-1))?))
}

fn to_timestamp(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let timestamp = start(arguments)?.timestamp();
    Ok(Output::json(json!({
        "seconds": timestamp.as_second(),
        "milliseconds": timestamp.as_millisecond(),
    })))
}

fn from_timestamp(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let seconds = arguments.number("timestamp")?;
    let timestamp = if seconds.fract() == 0.0 {
        Timestamp::from_second(seconds as i64)
    } else {
        Timestamp::from_millisecond((seconds * 1000.0).round() as i64)
    };
    let timestamp = timestamp.map_err(|_| {
        invalid(format!(
            "{} seconds since 1970 are out of range; milliseconds? divide by 1000",
            short(seconds)
        ))
    })?;
    Ok(describe(&timestamp.to_zoned(zone(arguments)?)))
}

fn zone(arguments: &Arguments<'_>) -> Result<TimeZone, Error> {
    moment::zone(arguments.text_or("timezone", "UTC")?)
}

fn start(arguments: &Arguments<'_>) -> Result<Zoned, Error> {
    read(arguments, "datetime")
}

fn end(arguments: &Arguments<'_>) -> Result<Zoned, Error> {
    read(arguments, "end")
}

fn read(arguments: &Arguments<'_>, name: &str) -> Result<Zoned, Error> {
    let (text, zone) = (arguments.text(name)?, zone(arguments)?);
    match arguments.optional_text("input_format")? {
        Some(format) => moment::read_with(format, text, &zone),
        None => moment::read(text, &zone),
    }
}

fn describe(moment: &Zoned) -> Output {
    let shown = |pattern: &str| moment.strftime(pattern).to_string();
    Output::json(json!({
        "datetime": shown("%Y-%m-%dT%H:%M:%S%.f%:z"),
        "timezone": moment::zone_name(moment),
        "date": shown("%Y-%m-%d"),
        "time": shown("%H:%M:%S"),
        "weekday": shown("%A"),
        "iso_week": moment.date().iso_week_date().week(),
        "day_of_year": moment.day_of_year(),
        "unix": moment.timestamp().as_second(),
    }))
}

/// A unit of the calendar or the clock.
#[derive(Clone, Copy)]
enum Period {
    Unit(Unit),
    Quarter,
}

const PERIODS: &[(&str, Period)] = &[
    ("year", Period::Unit(Unit::Year)),
    ("quarter", Period::Quarter),
    ("month", Period::Unit(Unit::Month)),
    ("week", Period::Unit(Unit::Week)),
    ("day", Period::Unit(Unit::Day)),
    ("hour", Period::Unit(Unit::Hour)),
    ("minute", Period::Unit(Unit::Minute)),
    ("second", Period::Unit(Unit::Second)),
];

impl Period {
    /// Reads `unit`, in the singular or the plural.
    fn read(arguments: &Arguments<'_>) -> Result<Self, Error> {
        let name = arguments.text("unit")?;
        let singular = name.strip_suffix('s').unwrap_or(name);
        match PERIODS.iter().find(|(known, _)| *known == singular) {
            Some((_, period)) => Ok(*period),
            None => {
                let known: Vec<&str> = PERIODS.iter().map(|(name, _)| *name).collect();
                Err(invalid(format!("unknown unit `{name}`; known: {}", known.join(", "))))
            }
        }
    }

    fn name(self) -> &'static str {
        let same = |(_, period): &&(&str, Self)| match (self, *period) {
            (Self::Unit(left), Self::Unit(right)) => left == right,
            (Self::Quarter, Self::Quarter) => true,
            _ => false,
        };
        PERIODS.iter().find(same).map_or("unit", |(name, _)| *name)
    }

    /// A span of this many units, if it is within the range of the calendar.
    fn span(self, count: i64) -> Option<Span> {
        let span = Span::new();
        let span = match self {
            Self::Quarter => span.try_months(count.saturating_mul(3)),
            Self::Unit(Unit::Year) => span.try_years(count),
            Self::Unit(Unit::Month) => span.try_months(count),
            Self::Unit(Unit::Week) => span.try_weeks(count),
            Self::Unit(Unit::Day) => span.try_days(count),
            Self::Unit(Unit::Hour) => span.try_hours(count),
            Self::Unit(Unit::Minute) => span.try_minutes(count),
            Self::Unit(_) => span.try_seconds(count),
        };
        span.ok()
    }

    /// Its length in milliseconds, if that is fixed.
    fn milliseconds(self) -> Option<f64> {
        match self {
            Self::Unit(Unit::Hour) => Some(3_600_000.0),
            Self::Unit(Unit::Minute) => Some(60_000.0),
            Self::Unit(Unit::Second) => Some(1_000.0),
            _ => None,
        }
    }
}

/// What to add: `duration`, or `amount` and `unit`.
fn span(arguments: &Arguments<'_>) -> Result<Span, Error> {
    if let Some(duration) = arguments.optional_text("duration")? {
        let short: String = duration.chars().take(60).collect();
        return short.parse().map_err(|error| {
            invalid(format!("cannot read the duration `{short}`: {error}; write it like P1DT2H30M"))
        });
    }
    let amount = arguments.number("amount")?;
    let period = Period::read(arguments)?;
    let counted = format!("{} {}s", short(amount), period.name());
    // The cast saturates, and the maximum is out of range for every unit.
    let span = match period.milliseconds() {
        _ if amount.fract() == 0.0 => period.span(amount as i64),
        Some(milliseconds) => {
            Span::new().try_milliseconds((amount * milliseconds).round() as i64).ok()
        }
        None => return Err(invalid(format!("{counted}: only whole ones can be counted"))),
    };
    span.ok_or_else(|| invalid(format!("{counted} are more than there are between any two dates")))
}

fn shift(moment: &Zoned, span: Span) -> Result<Zoned, Error> {
    moment.checked_add(span).map_err(|_| out_of_range("the result"))
}

fn start_of(moment: &Zoned, period: Period) -> Result<Zoned, Error> {
    let date = moment.date();
    let date = match period {
        Period::Unit(Unit::Year) => date.first_of_year(),
        Period::Quarter => {
            let months = (date.month() - 1) % 3;
            date.first_of_month().saturating_sub(Span::new().months(months))
        }
        Period::Unit(Unit::Month) => date.first_of_month(),
        Period::Unit(Unit::Week) => {
            let days = date.weekday().to_monday_zero_offset();
            date.saturating_sub(Span::new().days(days))
        }
        _ => date,
    };
    let (hour, minute, second) = (moment.hour(), moment.minute(), moment.second());
    let time = match period {
        Period::Unit(Unit::Hour) => Time::new(hour, 0, 0, 0),
        Period::Unit(Unit::Minute) => Time::new(hour, minute, 0, 0),
        Period::Unit(Unit::Second) => Time::new(hour, minute, second, 0),
        _ => Time::new(0, 0, 0, 0),
    };
    // Keeps the offset if possible, so that in a repeated hour the start is in the same
    // one; if midnight is skipped, the day starts at its first instant.
    time.and_then(|time| moment.with().date(date).time(time).build())
        .map_err(|_| out_of_range("the start"))
}

/// `1 year, 2 months and 3 days`.
fn spell(span: &Span) -> String {
    let parts = [
        (i64::from(span.get_years()), "year"),
        (i64::from(span.get_months()), "month"),
        (i64::from(span.get_weeks()), "week"),
        (i64::from(span.get_days()), "day"),
        (i64::from(span.get_hours()), "hour"),
        (span.get_minutes(), "minute"),
        (span.get_seconds(), "second"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count != 0)
        .map(|(count, unit)| {
            let plural = if count.abs() == 1 { "" } else { "s" };
            format!("{} {unit}{plural}", count.abs())
        })
        .collect();
    let text = match parts.split_last() {
        None => "0 seconds".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    };
    if span.is_negative() { format!("{text} earlier") } else { text }
}

/// An integer without a decimal point; another number without floating-point noise.
fn tidy(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        return json!(number as i64);
    }
    json!((number * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mut arguments: Value, field: &str, expected: &str) {
        if arguments.get("timezone").is_none() {
            arguments["timezone"] = json!("Europe/Berlin");
        }
        let shown = match run(&Arguments::new(&arguments)) {
            Ok(output) => match output.value().and_then(|value| value.get(field)) {
                Some(value) => super::super::value::plain(value).into_owned(),
                None => output.to_text(),
            },
            Err(error) => format!("error: {}", error.message()),
        };
        assert_eq!(shown, expected, "{arguments}");
    }

    #[test]
    fn adding_keeps_the_calendar() {
        for (datetime, amount, unit, expected) in [
            ("2024-01-31", 1.0, "month", "2024-02-29T00:00:00+01:00"),
            ("2024-03-30T12:00", 1.0, "days", "2024-03-31T12:00:00+02:00"),
            ("2024-03-30T12:00", 24.0, "hours", "2024-03-31T13:00:00+02:00"),
            ("2024-05-17", -2.0, "weeks", "2024-05-03T00:00:00+02:00"),
            ("2024-05-17", 1.5, "hours", "2024-05-17T01:30:00+02:00"),
            ("2024-02-29", 1.0, "year", "2025-02-28T00:00:00+01:00"),
            ("2024-05-17", 2.0, "quarters", "2024-11-17T00:00:00+01:00"),
            ("2024-05-17", 1.5, "months", "error: 1.5 months: only whole ones can be counted"),
        ] {
            let arguments =
                json!({"operation": "add", "datetime": datetime, "amount": amount, "unit": unit});
            check(arguments, "datetime", expected);
        }
        let by = json!({"operation": "subtract", "datetime": "2024-05-17", "duration": "P1DT2H"});
        check(by, "datetime", "2024-05-15T22:00:00+02:00");
        let far =
            json!({"operation": "add", "datetime": "2024-05-17", "amount": 1e15, "unit": "s"});
        check(
            far,
            "",
            "error: unknown unit `s`; known: year, quarter, month, week, day, hour, minute, second",
        );
        let missing = json!({"operation": "add", "datetime": "2024-05-17"});
        check(missing, "", "error: operation `add` needs the parameter `amount`");
    }

    #[test]
    fn what_is_too_far_away_is_told_shortly() {
        let range = "out of range: dates go from -9999-01-03 to 9999-12-29";
        let add = |datetime: &str, amount: f64, unit: &str| json!({"operation": "add", "datetime": datetime, "amount": amount, "unit": unit});
        for (amount, unit) in [(5.0, "days"), (1.0, "year"), (1e9, "seconds"), (1.5e6, "hours")] {
            check(add("9999-12-28", amount, unit), "", &format!("error: the result is {range}"));
        }
        for (amount, counted) in [(1e300, "1e300"), (-1e300, "-1e300"), (1e10, "10000000000")] {
            for unit in ["years", "quarters", "months", "weeks", "days", "hours"] {
                let too_many = format!(
                    "error: {counted} {unit} are more than there are between any two dates"
                );
                check(add("2024-05-17", amount, unit), "", &too_many);
            }
        }
        let since =
            "error: 1e300 seconds since 1970 are out of range; milliseconds? divide by 1000";
        check(json!({"operation": "from_timestamp", "timestamp": 1e300}), "", since);
        for datetime in ["9999-12-31T23:00Z", "9999-12-31T23:00[UTC]"] {
            let arguments = json!({"operation": "parse", "datetime": datetime});
            let shown = datetime.trim_end_matches("[UTC]").trim_end_matches('Z');
            check(arguments, "", &format!("error: {shown}:00 is {range}"));
        }
        let of = |operation: &str, datetime: &str| json!({"operation": operation, "datetime": datetime, "unit": "year", "timezone": "UTC"});
        check(of("start_of", "-009999-01-05"), "", &format!("error: the start is {range}"));
        check(of("end_of", "9999-12-01"), "", &format!("error: the end is {range}"));
    }

    #[test]
    fn differences_are_told_in_two_ways() {
        let diff = |end: &str, unit: &str| json!({"operation": "diff", "datetime": "2024-01-15", "end": end, "unit": unit});
        check(diff("2024-03-01", "days"), "value", "46");
        check(diff("2025-03-18T06:00", "day"), "text", "1 year, 2 months, 3 days and 6 hours");
        check(diff("2024-01-16T12:00", "day"), "value", "1.5");
        check(diff("2024-01-14", "hour"), "value", "-24");
        check(diff("2024-01-14", "hour"), "text", "1 day earlier");
        check(diff("2024-01-15", "year"), "text", "0 seconds");
        check(diff("2024-07-15", "quarter"), "value", "2");
    }

    #[test]
    fn periods_start_and_end() {
        for (unit, first, last) in [
            ("year", "2024-01-01T00:00:00+01:00", "2024-12-31T23:59:59+01:00"),
            ("quarter", "2024-04-01T00:00:00+02:00", "2024-06-30T23:59:59+02:00"),
            ("month", "2024-05-01T00:00:00+02:00", "2024-05-31T23:59:59+02:00"),
            ("week", "2024-05-13T00:00:00+02:00", "2024-05-19T23:59:59+02:00"),
            ("day", "2024-05-17T00:00:00+02:00", "2024-05-17T23:59:59+02:00"),
            ("hour", "2024-05-17T09:00:00+02:00", "2024-05-17T09:59:59+02:00"),
            ("minute", "2024-05-17T09:30:00+02:00", "2024-05-17T09:30:59+02:00"),
        ] {
            let datetime = "2024-05-17T09:30:15";
            let of = |operation: &str| json!({"operation": operation, "datetime": datetime, "unit": unit});
            check(of("start_of"), "datetime", first);
            check(of("end_of"), "datetime", last);
        }
    }

    #[test]
    fn the_other_operations_answer() {
        let moment = "2024-05-17T09:30:00Z";
        let with = |operation: &str, more: Value| {
            let mut arguments = json!({"operation": operation, "datetime": moment});
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            arguments
        };
        check(with("parse", json!({})), "weekday", "Friday");
        check(with("format", json!({"format": "%d %B %Y"})), "", "17 May 2024");
        check(
            with("format", json!({"format": "time", "to_timezone": "Asia/Tokyo"})),
            "",
            "18:30:00",
        );
        check(
            with("convert", json!({"to_timezone": "Asia/Tokyo"})),
            "datetime",
            "2024-05-17T18:30:00+09:00",
        );
        check(with("compare", json!({"end": "2024-05-17T11:30"})), "", "equal");
        check(with("to_timestamp", json!({})), "seconds", "1715938200");
        check(
            json!({"operation": "from_timestamp", "timestamp": 1715938200}),
            "datetime",
            "2024-05-17T11:30:00+02:00",
        );
        check(
            with("convert", json!({"to_timezone": "Nowhere"})),
            "",
            "error: Unknown timezone: Nowhere",
        );
        check(json!({"operation": "now"}), "timezone", "Europe/Berlin");
    }
}
