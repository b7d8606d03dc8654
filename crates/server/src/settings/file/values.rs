//! What a value may be, and what to say where it is something else.

use std::net::SocketAddr;
use std::time::Duration;

use windlass::{Strategy, duration};

/// The strategies by their names.
const STRATEGIES: [(&str, Strategy); 3] =
    [("fifo", Strategy::Fifo), ("priority", Strategy::Priority), ("reject", Strategy::Reject)];

pub(super) fn text(key: &str, value: &str) -> Result<String, String> {
    if value.is_empty() { Err(format!("`{key}` is empty")) } else { Ok(value.to_owned()) }
}

pub(super) fn flag(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err(format!("`{key}` is true or false, found `{value}`")),
    }
}

/// A whole number from `least`, of whichever type the setting has.
pub(super) fn count<T: TryFrom<u64>>(key: &str, value: &str, least: u64) -> Result<T, String> {
    let digits = value.replace('_', "");
    let number = digits.parse().ok().filter(|number| *number >= least);
    number
        .and_then(|number: u64| T::try_from(number).ok())
        .ok_or_else(|| format!("`{key}` is a whole number from {least}, found `{value}`"))
}

pub(super) fn span(key: &str, value: &str) -> Result<Duration, String> {
    duration::parse(value).map_err(|why| format!("`{key}`: {why}"))
}

pub(super) fn factor(key: &str, value: &str) -> Result<f64, String> {
    let number: Option<f64> = value.parse().ok().filter(|number| (1.0..=1000.0).contains(number));
    number.ok_or_else(|| format!("`{key}` is a number from 1 to 1000, found `{value}`"))
}

pub(super) fn address(key: &str, value: &str) -> Result<SocketAddr, String> {
    let example = "an address with a port, such as 127.0.0.1:7700";
    value.parse().map_err(|_| format!("`{key}` is {example}, found `{value}`"))
}

/// Names with commas in between.
pub(super) fn names(key: &str, value: &str) -> Result<Vec<String>, String> {
    let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
    text(key, value).map(|_| names.map(str::to_owned).collect())
}

pub(super) fn strategy(key: &str, value: &str) -> Result<Strategy, String> {
    STRATEGIES
        .iter()
        .find(|(name, _)| *name == value)
        .map(|(_, strategy)| *strategy)
        .ok_or_else(|| format!("`{key}` is fifo, priority or reject, found `{value}`"))
}

/// The name of a strategy.
pub(in crate::settings) fn strategy_name(wanted: Strategy) -> &'static str {
    STRATEGIES.iter().find(|(_, strategy)| *strategy == wanted).map_or("fifo", |(name, _)| name)
}
