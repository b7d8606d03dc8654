//! Timestamps and durations. There is no clock: a time comes from the scope.

use std::sync::OnceLock;

use Form::Method;
use Takes::{Duration, Text, Timestamp};
use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

use super::{Form, Gives, Row, Takes, row, unexpected};
use crate::error::{Fault, Faulty, shortened};
use crate::meter::Meter;
use crate::value::Value;

const PLAIN: &[Takes] = &[Timestamp];
const ZONED: &[Takes] = &[Timestamp, Text];

const fn part(name: &'static str, takes: &'static [Takes], run: super::Run) -> Row {
    row(name, Method, takes, Gives::Int, run)
}

pub(super) const ROWS: &[Row] = &[
    part("getFullYear", PLAIN, year),
    part("getFullYear", ZONED, year),
    part("getMonth", PLAIN, month),
    part("getMonth", ZONED, month),
    part("getDate", PLAIN, date),
    part("getDate", ZONED, date),
    part("getDayOfMonth", PLAIN, day_of_month),
    part("getDayOfMonth", ZONED, day_of_month),
    part("getDayOfWeek", PLAIN, day_of_week),
    part("getDayOfWeek", ZONED, day_of_week),
    part("getDayOfYear", PLAIN, day_of_year),
    part("getDayOfYear", ZONED, day_of_year),
    part("getHours", PLAIN, hours),
    part("getHours", ZONED, hours),
    part("getHours", &[Duration], hours),
    part("getMinutes", PLAIN, minutes),
    part("getMinutes", ZONED, minutes),
    part("getMinutes", &[Duration], minutes),
    part("getSeconds", PLAIN, seconds),
    part("getSeconds", ZONED, seconds),
    part("getSeconds", &[Duration], seconds),
    part("getMilliseconds", PLAIN, milliseconds),
    part("getMilliseconds", ZONED, milliseconds),
    part("getMilliseconds", &[Duration], milliseconds),
];

fn year<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    of(arguments, |time| i64::from(time.year()))
}

/// Months count from 0, as in CEL.
fn month<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    of(arguments, |time| i64::from(time.month()) - 1)
}

fn date<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    of(arguments, |time| i64::from(time.day()))
}

fn day_of_month<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    of(arguments, |time| i64::from(time.day()) - 1)
}

/// 0 is a Sunday.
fn day_of_week<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    of(arguments, |time| i64::from(time.weekday().to_sunday_zero_offset()))
}

fn day_of_year<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    of(arguments, |time| i64::from(time.day_of_year()) - 1)
}

fn hours<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Duration(duration)] => Ok(Value::Int(duration.as_hours())),
        _ => of(arguments, |time| i64::from(time.hour())),
    }
}

fn minutes<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Duration(duration)] => Ok(Value::Int(duration.as_mins())),
        _ => of(arguments, |time| i64::from(time.minute())),
    }
}

fn seconds<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Duration(duration)] => Ok(Value::Int(duration.as_secs())),
        _ => of(arguments, |time| i64::from(time.second())),
    }
}

/// Of the second that has begun.
fn milliseconds<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Duration(duration)] => Ok(Value::Int(i64::from(duration.subsec_millis()))),
        _ => of(arguments, |time| i64::from(time.millisecond())),
    }
}

fn of<'a>(arguments: &[Value<'a>], part: fn(DateTime) -> i64) -> Faulty<Value<'a>> {
    let time = match arguments {
        [Value::Timestamp(time)] => *time,
        [Value::Timestamp(time), Value::Text(name)] => {
            let name = name.as_str();
            let Some(zone) = zone(name) else {
                return Err(Fault::new(format!("there is no time zone `{}`", shortened(name)))
                    .hint("write a name like Europe/Berlin, or an offset like +02:00"));
            };
            local(*time, &zone)
                .ok_or_else(|| Fault::new("the timestamp is outside of the time zone"))?
        }
        _ => return Err(unexpected()),
    };
    Ok(Value::Int(part(time)))
}

/// What clocks of a zone show.
fn local(time: DateTime, zone: &TimeZone) -> Option<DateTime> {
    let timestamp = Offset::UTC.to_timestamp(time).ok()?;
    time.checked_add(SignedDuration::from_secs(zone.to_offset(timestamp).seconds().into())).ok()
}

/// What Unix counts from.
pub(super) const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The second that has begun, as Unix counts.
pub(super) fn unix(time: DateTime) -> i64 {
    let since = time.duration_since(EPOCH);
    since.as_secs() - i64::from(since.subsec_nanos() < 0)
}

pub(super) fn of_unix(seconds: i64) -> Option<DateTime> {
    EPOCH.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// A zone of the compiled-in database, or an offset like `+02:00`, `-09:30`, `02:00`.
fn zone(name: &str) -> Option<TimeZone> {
    static ZONES: OnceLock<TimeZoneDatabase> = OnceLock::new();
    let (sign, digits) = match name.as_bytes().first()? {
        b'+' => (1, name.get(1..)?),
        b'-' => (-1, name.get(1..)?),
        b'0'..=b'9' => (1, name),
        _ => return ZONES.get_or_init(TimeZoneDatabase::bundled).get(name).ok(),
    };
    let (hours, minutes) = digits.split_once(':')?;
    if hours.len() > 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
        return None;
    }
    Some(TimeZone::fixed(Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()?))
}

/// A time as RFC 3339 writes it.
pub(super) fn parse_timestamp(text: &str) -> Option<DateTime> {
    // Other notations that the parser knows are none of CEL's.
    let shape = text.as_bytes();
    let plain = (20..=40).contains(&shape.len())
        && shape.get(10).is_some_and(|c| matches!(c, b'T' | b't'))
        && shape.first().is_some_and(u8::is_ascii_digit)
        && !text.contains('[');
    if !plain {
        return None;
    }
    let pieces = Pieces::parse(text).ok()?;
    let offset = pieces.to_numeric_offset()?;
    let time = DateTime::from_parts(pieces.date(), pieces.time()?);
    time.checked_sub(SignedDuration::from_secs(offset.seconds().into())).ok()
}

/// A duration with units, as Go writes it: `1h30m`, `-0.5s`, `250ms`.
pub(super) fn parse_duration(text: &str) -> Option<SignedDuration> {
    const UNITS: [(&str, i128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() || rest.len() > 128 {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.into() };
        total = total.checked_add(whole.checked_mul(*scale)?)?;
        let mut place = *scale;
        for digit in fraction.bytes() {
            place /= 10;
            total += i128::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?) * place;
        }
        rest = tail;
    }
    let total = if negative { -total } else { total };
    let seconds = i64::try_from(total / 1_000_000_000).ok()?;
    Some(SignedDuration::new(seconds, (total % 1_000_000_000) as i32))
}
