//! `current_time`, `timezone_conversion` and `weekday`: one small tool for each common
//! question about time.

use jiff::civil::Date;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};
use windlass::{Error, Output};

use super::arguments::{Arguments, invalid};
use super::moment;

const SHOWN: &str = "%Y-%m-%d %H:%M:%S %Z";

pub(super) fn current_time(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let zone = moment::zone(arguments.text_or("timezone", "UTC")?)?;
    let now = Timestamp::now().to_zoned(zone);
    let text = format!("Current time: {}", now.strftime(SHOWN));
    Ok(Output::text(text).with_structured(describe(&now)))
}

pub(super) fn timezone_conversion(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let from = moment::zone(arguments.text("from_timezone")?)?;
    let to = moment::zone(arguments.text("to_timezone")?)?;
    let before = moment::read(arguments.text("time")?, &from)?;
    let after = before.with_time_zone(to);
    let shown =
        |moment: &Zoned| format!("{} ({})", moment.strftime(SHOWN), moment::zone_name(moment));
    let text = format!("{} is {}", shown(&before), shown(&after));
    let structured = json!({"from": describe(&before), "to": describe(&after)});
    Ok(Output::text(text).with_structured(structured))
}

pub(super) fn weekday(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let date = weekday_date(arguments)?;
    let name = date.strftime("%A").to_string();
    let number = date.weekday().to_monday_one_offset();
    let structured = json!({
        "date": date.to_string(),
        "weekday": name,
        "number": number,
        "is_weekend": number >= 6,
        "iso_week": date.iso_week_date().week(),
    });
    Ok(Output::text(format!("{date} is a {name}")).with_structured(structured))
}

/// The date in question: `date`, or `year`, `month` and `day`, or today.
fn weekday_date(arguments: &Arguments<'_>) -> Result<Date, Error> {
    let zone = moment::zone(arguments.text_or("timezone", "UTC")?)?;
    if let Some(text) = arguments.optional_text("date")? {
        return Ok(moment::read(text, &zone)?.date());
    }
    let today = Timestamp::now().to_zoned(zone).date();
    let year = arguments.optional_integer("year")?;
    match (arguments.optional_integer("month")?, arguments.optional_integer("day")?) {
        (Some(month), Some(day)) => {
            let year = year.unwrap_or_else(|| today.year().into());
            let date = || {
                Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()
            };
            date().ok_or_else(|| {
                invalid(format!("there is no date with year {year}, month {month}, day {day}"))
            })
        }
        (None, None) if year.is_none() => Ok(today),
        _ => Err(invalid("give `date`, or `month` and `day` (and `year`), or nothing for today")),
    }
}

fn describe(moment: &Zoned) -> Value {
    json!({
        "datetime": moment.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        "timezone": moment::zone_name(moment),
        "unix": moment.timestamp().as_second(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tool: fn(&Arguments<'_>) -> Result<Output, Error>, arguments: &Value) -> String {
        match tool(&Arguments::new(arguments)) {
            Ok(output) => output.to_text(),
            Err(error) => format!("error: {}", error.message()),
        }
    }

    #[test]
    fn the_current_time_has_a_zone() {
        let shown = text(current_time, &json!({}));
        assert!(shown.starts_with("Current time: 20") && shown.ends_with(" UTC"), "{shown}");
        let shown = text(current_time, &json!({"timezone": "Asia/Shanghai"}));
        assert!(shown.ends_with(" CST"), "{shown}");

        let arguments = json!({"timezone": "Mars/Olympus"});
        let error = current_time(&Arguments::new(&arguments)).unwrap_err();
        assert_eq!(error.feedback(windlass::Lang::En), "Unknown timezone: Mars/Olympus");
    }

    #[test]
    fn times_are_converted() {
        let convert = |time: &str| {
            let arguments = json!({
                "time": time, "from_timezone": "Asia/Shanghai", "to_timezone": "America/New_York",
            });
            text(timezone_conversion, &arguments)
        };
        assert_eq!(
            convert("2024-05-01 09:00"),
            "2024-05-01 09:00:00 CST (Asia/Shanghai) is 2024-04-30 21:00:00 EDT (America/New_York)"
        );
        assert!(convert("09:00").contains("09:00:00 CST"), "a bare time is today's");
        assert!(convert("never").starts_with("error: cannot read `never`"));
    }

    #[test]
    fn weekdays_are_found() {
        for (arguments, expected) in [
            (json!({"date": "2024-05-17"}), "2024-05-17 is a Friday"),
            (json!({"year": 2024, "month": 2, "day": 29}), "2024-02-29 is a Thursday"),
            (
                json!({"year": 2023, "month": 2, "day": 29}),
                "error: there is no date with year 2023, month 2, day 29",
            ),
            (
                json!({"year": 2024}),
                "error: give `date`, or `month` and `day` (and `year`), or nothing for today",
            ),
        ] {
            assert_eq!(text(weekday, &arguments), expected);
        }
    }
}
