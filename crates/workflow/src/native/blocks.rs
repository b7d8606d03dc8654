//! Steps with steps in them: `do`, `switch`, `map`, `loop`, `parallel`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, FuturesUnordered};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass::{BoxFuture, Error, ErrorKind};

use super::formula::Formula;
use super::reader::{Fields, Names, Reading, StepRead, kind_of};
use crate::graph::{Graph, Guard, Node, Order};
use crate::log::{Failure, Wait};
use crate::run::At;
use crate::step::{Done, Halt, Step};

fn steps(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
    depth: usize,
) -> Option<(Graph, Names)> {
    let key = fields.key_of("do");
    match fields.get("do") {
        Some(steps) => reading.block(steps, &key, names, depth + 1),
        None => {
            let owner = fields.key.clone();
            let hint = "write `do: {page: {call: webscraper, with: {…}}}`";
            reading.flaw(&owner, "`do` is missing", hint);
            None
        }
    }
}

/// `do`: steps as one.
struct Sequence(Graph);

pub(super) fn sequence(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
    depth: usize,
) -> Option<StepRead> {
    let (graph, _) = steps(reading, fields, names, depth)?;
    Some(StepRead::new(Sequence(graph)))
}

impl Step for Sequence {
    fn kind(&self) -> &'static str {
        "do"
    }

    fn blocks(&self) -> Vec<&Graph> {
        vec![&self.0]
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        Box::pin(async move {
            let end = at.block(&self.0, ".", Vec::new()).await?;
            Ok(Done { value: end.value, handle: None })
        })
    }
}

/// `switch`: the first case that holds.
struct Switch(Vec<Case>);

struct Case {
    /// `None` for `else`.
    when: Option<Formula>,
    steps: Graph,
}

pub(super) fn switch(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
    depth: usize,
) -> Option<StepRead> {
    const HINT: &str = "write `switch: [{when: \"${a.b > 1}\", do: {…}}, {else: {…}}]`";
    let key = fields.key_of("switch");
    let Some(Value::Array(list)) = fields.get("switch") else {
        reading.flaw(&key, "`switch` is a list of cases", HINT);
        return None;
    };
    let mut cases = Vec::new();
    for (index, case) in list.iter().enumerate() {
        let key = format!("{key}/{index}");
        let mut own = reading.fields(case, &key, "a case")?;
        let (when, steps) = match own.get("else") {
            Some(steps) => {
                if index + 1 < list.len() {
                    reading.flaw(&key, "cases after `else` are never reached", "move it down");
                }
                (None, reading.block(steps, &own.key_of("else"), names, depth + 1))
            }
            None => {
                let Some(when) = own.get("when") else {
                    reading.flaw(&key, "a case needs `when` or `else`", HINT);
                    return None;
                };
                let when = reading.condition(when, &own.key_of("when"), names)?;
                (Some(when), self::steps(reading, &mut own, names, depth))
            }
        };
        reading.finish(&own);
        cases.push(Case { when, steps: steps?.0 });
    }
    if cases.is_empty() {
        reading.flaw(&key, "there are no cases", HINT);
        return None;
    }
    Some(StepRead::new(Switch(cases)))
}

impl Step for Switch {
    fn kind(&self) -> &'static str {
        "switch"
    }

    fn blocks(&self) -> Vec<&Graph> {
        self.0.iter().map(|case| &case.steps).collect()
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        Box::pin(async move {
            for (index, case) in self.0.iter().enumerate() {
                let holds = match &case.when {
                    None => true,
                    Some(when) => when.holds(at)?,
                };
                if holds {
                    let end = at.block(&case.steps, &format!("[{index}]."), Vec::new()).await?;
                    return Ok(Done { value: end.value, handle: None });
                }
            }
            Ok(Done::new(Value::Null))
        })
    }
}

/// `map`: steps for each item of a list.
struct Each {
    items: Formula,
    steps: Graph,
    at_once: Option<usize>,
    on_item_error: OnItemError,
    collect: Option<Formula>,
}

/// What the failure of an item means.
#[derive(Clone, Copy, PartialEq)]
enum OnItemError {
    Fail,
    Null,
    Drop,
}

pub(super) fn map(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
    depth: usize,
) -> Option<StepRead> {
    let key = fields.key_of("map");
    let items = fields.get("map").and_then(|items| reading.condition(items, &key, names));
    let given = names.clone().with("item").with("index");
    let steps = self::steps(reading, fields, &given, depth);
    let at_once = match fields.get("at_once") {
        None => None,
        Some(count) => {
            let key = fields.key_of("at_once");
            Some(reading.count(count, &key, reading.limits.map_items)?)
        }
    };
    let on_item_error = match fields.get("on_item_error").map(|word| word.as_str()) {
        None | Some(Some("fail")) => OnItemError::Fail,
        Some(Some("null")) => OnItemError::Null,
        Some(Some("drop")) => OnItemError::Drop,
        Some(_) => {
            let key = fields.key_of("on_item_error");
            let hint = "write `fail`, `null` (in quotes) or `drop`";
            reading.flaw(&key, "`on_item_error` has no such value", hint);
            OnItemError::Fail
        }
    };
    let (steps, inner) = steps?;
    let collect = match fields.get("collect") {
        None => None,
        Some(collect) => Some(reading.formula(collect, &fields.key_of("collect"), &inner)?),
    };
    Some(StepRead::new(Each { items: items?, steps, at_once, on_item_error, collect }))
}

impl Step for Each {
    fn kind(&self) -> &'static str {
        "map"
    }

    fn blocks(&self) -> Vec<&Graph> {
        vec![&self.steps]
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        Box::pin(async move {
            let items = match self.items.at(at)? {
                Value::Array(items) => items,
                other => {
                    let why = format!("`map` wants a list, found {}", kind_of(&other));
                    return Err(Error::new(ErrorKind::ToolError, why).nothing_done().into());
                }
            };
            let (of, most) = (items.len(), at.limits().map_items);
            if of > most {
                let why = format!("`map` takes at most {most} items, found {of}");
                return Err(Error::new(ErrorKind::ToolError, why).nothing_done().into());
            }
            // Effects happen in the order of the list, unless the file says
            // otherwise.
            let usual = match self.may_change(&at.drive.tools) {
                true => 1,
                false => at.limits().map_at_once,
            };
            let at_once = self.at_once.unwrap_or(usual).max(1);
            let runs =
                items.into_iter().enumerate().map(|(index, item)| self.item(at, index, item));
            let mut running = stream::iter(runs).buffered(at_once);
            let (mut values, mut errors, mut done) = (Vec::with_capacity(of), Vec::new(), 0);
            while let Some((index, ended)) = running.next().await {
                done += 1;
                match ended {
                    Ok(value) => values.push(value),
                    Err(Halt::Failed(error)) if self.on_item_error != OnItemError::Fail => {
                        let Failure { kind, message, .. } = Failure::of(&error);
                        errors.push(json!({"index": index, "kind": kind, "message": message}));
                        at.drive.handled();
                        if self.on_item_error == OnItemError::Null {
                            values.push(Value::Null);
                        }
                    }
                    Err(Halt::Failed(error)) if errors.is_empty() => {
                        return Err(Halt::Failed(error.with_metadata("index", index)));
                    }
                    Err(halt) => return Err(halt),
                }
                at.tell("map_progress", || json!({"done": done, "of": of, "errors": errors.len()}));
            }
            Ok(Done::new(values))
        })
    }
}

impl Each {
    async fn item(&self, at: &At<'_>, index: usize, item: Value) -> (usize, Result<Value, Halt>) {
        let given =
            vec![("item".into(), Arc::new(item)), ("index".into(), Arc::new(Value::from(index)))];
        let ended = at.block(&self.steps, &format!("[{index}]."), given).await;
        let value = ended.and_then(|end| match &self.collect {
            None => Ok(Value::clone(&end.value)),
            Some(collect) => Ok(collect.value(&end.frame, at.limits())?),
        });
        (index, value)
    }
}

/// `loop`: steps until a condition holds.
struct Repeat {
    steps: Graph,
    until: Formula,
    rounds: usize,
    pause: Option<Duration>,
}

pub(super) fn repeat(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
    depth: usize,
) -> Option<StepRead> {
    let key = fields.key_of("loop");
    let given = names.clone().with("round").with("last");
    let steps = fields.get("loop").and_then(|steps| reading.block(steps, &key, &given, depth + 1));
    let most = reading.limits.rounds;
    let rounds = match fields.get("max") {
        None => most,
        Some(count) => reading.count(count, &fields.key_of("max"), most)?,
    };
    let pause = match fields.get("pause") {
        None => None,
        Some(pause) => Some(reading.span(pause, &fields.key_of("pause"))?),
    };
    let Some(until) = fields.get("until") else {
        let hint = "write `until: \"${get.status == 'done'}\"`";
        reading.flaw(&key, "a loop needs `until`", hint);
        return None;
    };
    let (steps, inner) = steps?;
    let until = reading.condition(until, &fields.key_of("until"), &inner)?;
    Some(StepRead::new(Repeat { steps, until, rounds, pause }))
}

impl Step for Repeat {
    fn kind(&self) -> &'static str {
        "loop"
    }

    fn blocks(&self) -> Vec<&Graph> {
        vec![&self.steps]
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        Box::pin(async move {
            let mut last = Arc::default();
            for round in 0..self.rounds {
                if let Some(pause) = self.pause.filter(|_| round > 0) {
                    let place = format!("{}#{round}~", at.place());
                    let until = Timestamp::now() + pause;
                    let _busy = at.drive.busy();
                    at.drive.wait(place.into(), Wait::Time { until }).await?;
                }
                let given = vec![
                    ("round".into(), Arc::new(Value::from(round))),
                    ("last".into(), Arc::clone(&last)),
                ];
                let end = at.block(&self.steps, &format!("#{round}."), given).await?;
                match self.until.value(&end.frame, at.limits())? {
                    Value::Bool(true) => return Ok(Done { value: end.value, handle: None }),
                    Value::Bool(false) => last = end.value,
                    other => {
                        let why = format!("`until` is true or false, found {}", kind_of(&other));
                        return Err(Error::new(ErrorKind::ToolError, why).into());
                    }
                }
            }
            let rounds = self.rounds;
            let why = format!("after {rounds} rounds `until` does not hold");
            Err(Error::new(ErrorKind::ToolError, why).into())
        })
    }
}

/// `parallel`: several branches at once.
struct Branches {
    branches: Graph,
    is_race: bool,
}

pub(super) fn parallel(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
    depth: usize,
) -> Option<StepRead> {
    let key = fields.key_of("parallel");
    let Some(Value::Object(branches)) = fields.get("parallel") else {
        let hint = "write `parallel: {eu: {call: …}, us: {call: …}}`";
        reading.flaw(&key, "`parallel` is a mapping of steps", hint);
        return None;
    };
    let is_race = match fields.get("first") {
        None => false,
        Some(Value::Bool(first)) => *first,
        Some(_) => {
            reading.flaw(&fields.key_of("first"), "`first` is true or false", "");
            false
        }
    };
    // Branches do not read each other: each is read as a block by itself.
    let mut nodes = Vec::new();
    for (id, branch) in branches {
        let alone = Value::Object(Map::from_iter([(id.clone(), branch.clone())]));
        let (graph, _) = reading.block(&alone, &key, names, depth + 1)?;
        nodes.extend(graph.into_nodes());
    }
    if nodes.is_empty() {
        reading.flaw(&key, "there are no branches", "write at least one");
        return None;
    }
    let branches = Graph::new(nodes, Order::Edges);
    Some(StepRead::new(Branches { branches, is_race }))
}

impl Step for Branches {
    fn kind(&self) -> &'static str {
        "parallel"
    }

    fn blocks(&self) -> Vec<&Graph> {
        vec![&self.branches]
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        Box::pin(async move { if self.is_race { self.race(at).await } else { self.all(at).await } })
    }
}

impl Branches {
    async fn all(&self, at: &At<'_>) -> Result<Done, Halt> {
        let end = at.block(&self.branches, ".", Vec::new()).await?;
        let value = |node: &Arc<Node>| {
            let value = match end.frame.get(&node.id) {
                Some(crate::run::StepValue::Value(value)) => Value::clone(&value),
                Some(crate::run::StepValue::Skipped) | None => Value::Null,
            };
            (node.id.to_string(), value)
        };
        Ok(Done::new(self.branches.nodes().iter().map(value).collect::<Map<_, _>>()))
    }

    /// The value of the first branch that ends; the others are given up. If all
    /// fail, the last failure counts.
    async fn race(&self, at: &At<'_>) -> Result<Done, Halt> {
        let mut running: FuturesUnordered<_> =
            self.branches.nodes().iter().map(|node| at.alone(node)).collect();
        let mut failed = None;
        while let Some(ended) = running.next().await {
            match ended {
                Ok(value) => return Ok(Done { value, handle: None }),
                Err(Halt::Returned(value)) => return Err(Halt::Returned(value)),
                Err(Halt::Skipped) => {}
                Err(Halt::Failed(error)) => failed = Some(error),
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Err(Halt::Skipped),
        }
    }
}
