//! Iterations and loops: their rules, for whoever runs the nodes in them.
//!
//! An iteration gives each round a copy of the variables with `item` and `index`; what a
//! round sets is its own, but for variables of the conversation. A loop's rounds share the
//! variables of the run; before each, those of the nodes inside are forgotten.

use super::{Failure, Outcome, lookup, written};
use crate::graph::Graph;
use crate::node::flow::{Iteration, Loop, Operand, RoundError};
use crate::pool::Pool;
use crate::value::{Kind, Segment, Value, text};

/// How a round of an iteration ended.
pub type RoundEnd = Result<Segment, Failure>;

/// The items of an iteration, or its outcome if there are none.
pub fn items(iteration: &Iteration, pool: &Pool) -> Result<Result<Vec<Value>, Outcome>, Failure> {
    let Some(segment) = lookup(pool, &iteration.over)? else {
        let selector = written(&iteration.over);
        return Err(Failure::value(format!("iterator variable {selector} not found")));
    };
    match &segment.value {
        Value::Null => Ok(Err(Outcome::of([("output", empty(Kind::AnyList))]))),
        Value::List(items) if items.is_empty() => {
            Ok(Err(Outcome::of([("output", empty(segment.kind))])))
        }
        Value::List(items) => Ok(Ok(items.to_vec())),
        other => {
            let value = text::python(other);
            let message = format!("invalid iterator value: {value}, please provide a list.");
            Err(Failure::new("TypeError", message))
        }
    }
}

fn empty(kind: Kind) -> Segment {
    Segment { kind, value: Value::List(Vec::new().into()) }
}

/// The variables of a round.
pub fn round_pool(pool: &Pool, container: &str, index: usize, item: &Value) -> Pool {
    let mut pool = pool.clone();
    pool.set(container, "index", Value::from(index));
    pool.set(container, "item", item.clone());
    pool
}

/// The output of a round that ended well.
pub fn round_output(iteration: &Iteration, pool: &Pool) -> Segment {
    pool.get(&iteration.output).unwrap_or_else(|| Value::Null.into())
}

/// Whether a round that failed ends the iteration.
pub fn ends_iteration(iteration: &Iteration, end: &RoundEnd) -> bool {
    end.is_err() && iteration.on_error == RoundError::Fail
}

/// The outcome of an iteration, from the ends of its rounds in the order of the items.
pub fn iteration_outcome(iteration: &Iteration, ends: Vec<RoundEnd>) -> Result<Outcome, Failure> {
    let mut outputs = Vec::new();
    for end in ends {
        match (end, iteration.on_error) {
            (Ok(segment), _) => outputs.push(segment.value),
            (Err(failure), RoundError::Fail) => return Err(failure),
            (Err(_), RoundError::Null) => outputs.push(Value::Null),
            (Err(_), RoundError::Drop) => {}
        }
    }
    let all_lists = outputs.iter().all(|output| matches!(output, Value::List(_) | Value::Null));
    let some_list = outputs.iter().any(|output| matches!(output, Value::List(_)));
    if iteration.flatten && all_lists && some_list {
        let flat = outputs.iter().filter_map(Value::as_list).flatten().cloned();
        outputs = flat.collect();
    }
    let output: Value = outputs.into_iter().collect();
    Ok(Outcome::of([("output", output.into())]))
}

/// Sets the variables of a loop to where they start.
pub fn start_loop(repeat: &Loop, container: &str, pool: &mut Pool) -> Result<(), Failure> {
    for variable in &repeat.variables {
        let invalid =
            || Failure::value(format!("Invalid value for loop variable {}", variable.name));
        let segment = match &variable.from {
            Operand::Variable(selector) => lookup(pool, selector)?.ok_or_else(invalid)?,
            Operand::Constant(value) => constant(variable.kind, value)?,
        };
        pool.set(container, &variable.name, Segment::of(segment.value));
    }
    Ok(())
}

/// A constant in the type of its variable; lists are written as JSON.
fn constant(kind: Kind, value: &Value) -> Result<Segment, Failure> {
    let mismatch = |message: String| Failure::new("TypeMismatchError", message);
    let parsed = || match value {
        Value::Text(text) => serde_json::from_str(text).ok().map(Value::from_json),
        _ => None,
    };
    let list = matches!(kind, Kind::StringList | Kind::NumberList | Kind::ObjectList);
    let written = match value {
        Value::Text(text) if list && !text.is_empty() => parsed()
            .ok_or_else(|| Failure::new("JSONDecodeError", format!("`{text}` is no JSON")))?,
        // A list that is no text is not looked at.
        _ if list => Value::List(Vec::new().into()),
        value => value.clone(),
    };
    let typed = Segment::typed(kind, written);
    typed.or_else(|message| match parsed() {
        Some(value) => Segment::typed(kind, value).map_err(mismatch),
        None => Err(mismatch(message)),
    })
}

/// Prepares the variables for the next round of a loop.
pub fn clear_round(graph: &Graph, container: &str, pool: &mut Pool) {
    let inside = graph.nodes().iter().filter(|node| node.loop_id.as_deref() == Some(container));
    inside.for_each(|node| pool.forget(&node.id));
}

/// Whether a loop ends before a round; conditions that cannot be decided do not end it.
pub fn ends_before(repeat: &Loop, pool: &Pool) -> bool {
    !repeat.until.all.is_empty() && repeat.until.hold(pool).unwrap_or(false)
}

/// Whether a loop ends after a round.
pub fn ends_after(repeat: &Loop, pool: &Pool) -> Result<bool, Failure> {
    if repeat.until.all.is_empty() {
        return Ok(false);
    }
    repeat.until.hold(pool).map_err(|error| Failure::new(error.class, error.message))
}

/// The outcome of a loop after some rounds.
pub fn loop_outcome(
    repeat: &Loop,
    container: &str,
    rounds: usize,
    pool: &Pool,
) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    if rounds == 0 {
        return Ok(outcome);
    }
    for variable in &repeat.variables {
        let Some(segment) = pool.variable(container, &variable.name) else {
            return Err(Failure::value(format!("loop variable {} is missing", variable.name)));
        };
        outcome.outputs.insert(variable.name.clone(), segment.clone());
    }
    outcome.outputs.insert("loop_round".to_owned(), Value::from(rounds).into());
    Ok(outcome)
}
