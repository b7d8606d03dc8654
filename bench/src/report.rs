//! Measures in alternating rounds, and prints the figures.

use std::time::{Duration, Instant};

use serde::Serialize;

/// One measured figure.
#[derive(Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The baseline, in the same unit.
    pub(crate) base: f64,
    pub(crate) ratio: f64,
    /// The limit of the ratio; `None` for a figure that is only informative.
    pub(crate) limit: Option<f64>,
    pub(crate) sense: Sense,
    pub(crate) holds: bool,
}

/// On which side of the limit the ratio should be.
#[derive(Serialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sense {
    AtMost,
    AtLeast,
}

impl Figure {
    pub(crate) fn new(name: &'static str, unit: &'static str, value: f64, base: f64) -> Self {
        let ratio = value / base;
        Self { name, value, unit, base, ratio, limit: None, sense: Sense::AtMost, holds: true }
    }

    pub(crate) fn at_most(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self.holds = self.ratio <= limit;
        self
    }

    pub(crate) fn at_least(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self.sense = Sense::AtLeast;
        self.holds = self.ratio >= limit;
        self
    }
}

/// Prints figures as they are measured.
pub(crate) struct Table {
    json: bool,
}

impl Table {
    pub(crate) fn new(json: bool) -> Self {
        if !json {
            println!(
                "{:<34} {:>14} {:>14} {:<7} {:>7}   limit",
                "figure", "value", "base", "unit", "ratio"
            );
        }
        Self { json }
    }

    pub(crate) fn add(&mut self, figure: &Figure) {
        if self.json {
            println!("{}", serde_json::json!(figure));
            return;
        }
        let sense = match figure.sense {
            Sense::AtMost => "≤",
            Sense::AtLeast => "≥",
        };
        let limit = match figure.limit {
            Some(limit) if figure.holds => format!("{sense} {limit} holds"),
            Some(limit) => format!("{sense} {limit} MISSED"),
            None => "shown only".to_owned(),
        };
        println!(
            "{:<34} {:>14.1} {:>14.1} {:<7} {:>7.2}   {limit}",
            figure.name, figure.value, figure.base, figure.unit, figure.ratio
        );
    }
}

/// Runs every contender once in each round and returns their median seconds: a slow phase
/// of the machine affects all alike.
pub(crate) fn medians<const N: usize>(
    rounds: usize,
    contenders: [&mut dyn FnMut() -> Duration; N],
) -> [f64; N] {
    sorted(rounds, contenders).map(|times| times[times.len() / 2])
}

/// The seconds of the fastest round. For contenders that use more than one CPU: other
/// processes slow them down more than the others, and nothing makes them faster than they
/// are.
pub(crate) fn quickest<const N: usize>(
    rounds: usize,
    contenders: [&mut dyn FnMut() -> Duration; N],
) -> [f64; N] {
    sorted(rounds, contenders).map(|times| times[0])
}

/// The seconds of every round, sorted.
fn sorted<const N: usize>(
    rounds: usize,
    mut contenders: [&mut dyn FnMut() -> Duration; N],
) -> [Vec<f64>; N] {
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(rounds));
    for round in 0..=rounds {
        for (contender, times) in contenders.iter_mut().zip(&mut times) {
            let time = contender().as_secs_f64();
            // The first round is a warm-up.
            if round > 0 {
                times.push(time);
            }
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times
    })
}

/// Times a closure.
pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
