//! Reads steps, with every mistake at its place.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use windlass::definition::nearest;
use windlass::{SettingFlaw, duration};

use super::PromptMaker;
use super::formula::Formula;
use super::{blocks, calls, values, waits};
use crate::graph::{Edge, Graph, Guard, Node, OnError, OnInterrupted, Order, Policy};
use crate::limits::RunLimits;
use crate::step::Step;

/// Maximum number of mistakes that are told.
const MAX_FLAWS: usize = 50;

/// What a step can be, with what to write.
const KINDS: [(&str, &str); 14] = [
    ("call", "a tool, an agent or another workflow: `call: get_ticket`"),
    ("prompt", "a question to a model"),
    ("code", "a program"),
    ("template", "a text with Jinja"),
    ("set", "values"),
    ("switch", "the first of several cases that holds"),
    ("map", "steps for each item of a list"),
    ("loop", "steps again and again"),
    ("parallel", "several branches at once"),
    ("do", "steps as one"),
    ("ask", "a question to a person"),
    ("wait", "a pause, or a signal"),
    ("fail", "the run fails here"),
    ("return", "the run ends here with a value"),
];

/// Names that a step must not have.
const RESERVED: [&str; 4] = ["input", "run", "conversation", "env"];

/// The names that a step can read.
#[derive(Clone, Default)]
pub(super) struct Names {
    known: Vec<Name>,
    /// Steps that come later.
    later: Vec<Arc<str>>,
    /// Whether the reading step can be skipped itself.
    pub(super) reader_can_skip: bool,
}

#[derive(Clone)]
struct Name {
    name: Arc<str>,
    can_skip: bool,
    is_step: bool,
}

impl Names {
    /// What every step can read.
    pub(super) fn of_run() -> Self {
        Self::default().with("input").with("run")
    }

    /// With a name that a block gives its steps.
    pub(super) fn with(mut self, name: &str) -> Self {
        self.known.push(Name { name: name.into(), can_skip: false, is_step: false });
        self
    }

    fn with_step(mut self, name: &Arc<str>, can_skip: bool) -> Self {
        self.known.push(Name { name: Arc::clone(name), can_skip, is_step: true });
        self
    }

    fn get(&self, name: &str) -> Option<&Name> {
        self.known.iter().rev().find(|known| *known.name == *name)
    }
}

/// The state of reading a definition.
pub(super) struct Reading<'a> {
    pub(super) limits: &'a RunLimits,
    pub(super) prompts: Option<&'a PromptMaker>,
    input: &'a Value,
    flaws: Vec<SettingFlaw>,
    steps: usize,
    /// Names that were read since somebody looked.
    read: BTreeSet<Arc<str>>,
}

/// The fields of a mapping, of which each has to be read.
pub(super) struct Fields<'v> {
    map: &'v Map<String, Value>,
    pub(super) key: String,
    read: Vec<&'static str>,
}

impl<'v> Fields<'v> {
    pub(super) fn get(&mut self, name: &'static str) -> Option<&'v Value> {
        self.read.push(name);
        self.map.get(name)
    }

    pub(super) fn key_of(&self, name: &str) -> String {
        format!("{}/{name}", self.key)
    }
}

/// A step that is being read.
pub(super) struct StepRead {
    pub(super) step: Box<dyn Step>,
    /// Whether everything before it has to end first, and everything after it
    /// begins later: it may end the run.
    pub(super) is_barrier: bool,
}

impl StepRead {
    pub(super) fn new(step: impl Step + 'static) -> Self {
        Self { step: Box::new(step), is_barrier: false }
    }
}

impl<'a> Reading<'a> {
    pub(super) fn new(
        limits: &'a RunLimits,
        prompts: Option<&'a PromptMaker>,
        input: &'a Value,
    ) -> Self {
        let (flaws, read) = (Vec::new(), BTreeSet::new());
        Self { limits, prompts, input, flaws, steps: 0, read }
    }

    pub(super) fn into_flaws(self) -> Vec<SettingFlaw> {
        self.flaws
    }

    /// Reports a mistake.
    pub(super) fn flaw(&mut self, key: &str, message: impl Into<String>, hint: impl Into<String>) {
        if self.flaws.len() < MAX_FLAWS {
            let (key, message, hint) = (key.to_owned().into(), message.into(), hint.into());
            self.flaws.push(SettingFlaw { key, message, hint });
        }
    }

    /// The fields of a mapping.
    pub(super) fn fields<'v>(
        &mut self,
        value: &'v Value,
        key: &str,
        what: &str,
    ) -> Option<Fields<'v>> {
        match value {
            Value::Object(map) => Some(Fields { map, key: key.to_owned(), read: Vec::new() }),
            other => {
                self.flaw(key, format!("{what} is a mapping, found {}", kind_of(other)), "");
                None
            }
        }
    }

    /// Reports the fields that nobody has read.
    pub(super) fn finish(&mut self, fields: &Fields<'_>) {
        for name in fields.map.keys().filter(|name| !fields.read.contains(&name.as_str())) {
            let hint = match nearest(name, &fields.read) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("use one of {}", fields.read.join(", ")),
            };
            let key = format!("{}/{name}", fields.key);
            self.flaw(&key, format!("unknown key `{name}`"), hint);
        }
    }

    /// Reads the steps of a block. Also returns the names that whoever comes
    /// after it in the same block can read.
    pub(super) fn block(
        &mut self,
        value: &Value,
        key: &str,
        around: &Names,
        depth: usize,
    ) -> Option<(Graph, Names)> {
        if depth > self.limits.depth {
            let most = self.limits.depth;
            let hint = "put the inner steps into a workflow of their own, and call it";
            self.flaw(key, format!("blocks are nested more than {most} deep"), hint);
            return None;
        }
        let Value::Object(map) = value else {
            let hint = "write a mapping of names: `page: {call: webscraper, with: {…}}`";
            let message = format!("steps are a mapping, found {}", kind_of(value));
            self.flaw(key, message, hint);
            return None;
        };
        if map.is_empty() {
            self.flaw(key, "there are no steps", "write at least one");
            return None;
        }
        let ids: Vec<Arc<str>> = map.keys().map(|id| Arc::from(id.as_str())).collect();
        let mut names = around.clone();
        let mut nodes: Vec<Node> = Vec::with_capacity(map.len());
        let mut barrier: Option<usize> = None;
        let mut ends_here: Option<&str> = None;
        for (index, (id, step)) in map.iter().enumerate() {
            let key = format!("{key}/{id}");
            self.steps += 1;
            if self.steps == self.limits.steps + 1 {
                let most = self.limits.steps;
                self.flaw(&key, format!("more than {most} steps"), "split the workflow");
                return None;
            }
            self.name(id, &key, &names);
            if let Some(end) = ends_here.take() {
                let hint = format!("move it up, or give `{end}` a `when`");
                self.flaw(&key, format!("`{id}` is never reached: the run ends at `{end}`"), hint);
            }
            names.later = ids[index + 1..].iter().chain(&around.later).cloned().collect();
            let outer_reads = std::mem::take(&mut self.read);
            let read = self.step(id, step, &key, &names, depth);
            let reads = std::mem::replace(&mut self.read, outer_reads);
            let can_skip = read.as_ref().is_some_and(|(_, can_skip, _)| *can_skip);
            if let Some((mut node, _, is_barrier)) = read {
                for name in &reads {
                    if let Some(from) = ids[..index].iter().position(|id| id == name) {
                        node.needs.push(Edge::after(from));
                    }
                }
                if is_barrier {
                    node.needs.extend((0..nodes.len()).map(Edge::after));
                    if node.policy.when.is_none() {
                        ends_here = Some(id);
                    }
                } else if let Some(barrier) = barrier {
                    node.needs.push(Edge::after(barrier));
                }
                node.needs.sort_by_key(|edge| edge.from);
                node.needs.dedup();
                if is_barrier {
                    barrier = Some(nodes.len());
                }
                nodes.push(node);
            }
            self.read.extend(reads);
            names = names.with_step(&ids[index], can_skip);
        }
        // What is missing was reported.
        (nodes.len() == map.len()).then(|| {
            names.later.clone_from(&around.later);
            (Graph::new(nodes, Order::Effects), names)
        })
    }

    fn name(&mut self, id: &str, key: &str, names: &Names) {
        let mut letters = id.chars();
        let starts = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if !starts || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_') || id.len() > 64 {
            let shown: String = id.chars().take(64).collect();
            let hint = "write letters, digits and `_`, such as `find_ticket`";
            self.flaw(key, format!("`{shown}` cannot be the name of a step"), hint);
        } else if RESERVED.contains(&id) || windlass_expr::is_reserved(id) {
            self.flaw(key, format!("`{id}` has a meaning of its own"), "choose another name");
        } else if names.get(id).is_some() {
            let hint = "give each step a name of its own";
            self.flaw(key, format!("the name `{id}` is taken"), hint);
        }
    }

    /// Reads a step. Also returns whether it can be skipped, and whether it may
    /// end the run.
    fn step(
        &mut self,
        id: &str,
        value: &Value,
        key: &str,
        names: &Names,
        depth: usize,
    ) -> Option<(Node, bool, bool)> {
        let mut fields = self.fields(value, key, &format!("the step `{id}`"))?;
        let named: Vec<&str> = (KINDS.iter().map(|(kind, _)| *kind))
            .filter(|kind| fields.map.contains_key(*kind))
            // `do` is also where blocks have their steps.
            .collect();
        let own: Vec<&str> = match named.as_slice() {
            ["do"] => vec!["do"],
            all => all.iter().copied().filter(|kind| *kind != "do").collect(),
        };
        let kind = match own.as_slice() {
            [kind] => *kind,
            [] => {
                let kinds = KINDS.map(|(kind, _)| kind);
                let meant = fields.map.keys().find_map(|word| nearest(word, &kinds));
                let hint = match meant {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("write one of {}", kinds.join(", ")),
                };
                self.flaw(key, format!("the step `{id}` does not say what it does"), hint);
                return None;
            }
            several => {
                let message =
                    format!("the step `{id}` does several things: {}", several.join(", "));
                self.flaw(key, message, "write a step for each");
                return None;
            }
        };
        let has_when = fields.map.contains_key("when");
        let names = Names { reader_can_skip: has_when || names.reader_can_skip, ..names.clone() };
        let when = match fields.get("when") {
            None => None,
            Some(when) => {
                let key = fields.key_of("when");
                let formula = self.condition(when, &key, &names)?;
                Some(Box::new(formula) as Box<dyn Guard>)
            }
        };
        let after = self.after(&mut fields, &names);
        let read = match kind {
            "call" => calls::call(self, &mut fields, &names),
            "prompt" => calls::prompt(self, &mut fields, id, &names),
            "code" => {
                let hint = "call a tool that computes it";
                self.flaw(&fields.key_of("code"), "code cannot be run yet", hint);
                return None;
            }
            "template" => values::template(self, &mut fields, &names),
            "set" => values::set(self, &mut fields, &names),
            "fail" => values::fail(self, &mut fields, &names),
            "return" => values::returning(self, &mut fields, &names),
            "switch" => blocks::switch(self, &mut fields, &names, depth),
            "map" => blocks::map(self, &mut fields, &names, depth),
            "loop" => blocks::repeat(self, &mut fields, &names, depth),
            "parallel" => blocks::parallel(self, &mut fields, &names, depth),
            "do" => blocks::sequence(self, &mut fields, &names, depth),
            "ask" => waits::ask(self, &mut fields, &names),
            _ => waits::wait(self, &mut fields, &names),
        };
        let may_fail = !matches!(kind, "fail" | "return");
        let mut policy = self.policy(&mut fields, id, &names, depth, may_fail);
        self.finish(&fields);
        let StepRead { step, is_barrier } = read?;
        policy.when = when;
        let skips = matches!(policy.on_error, OnError::Skip);
        let needs = Vec::new();
        self.read.extend(after);
        let node = Node { id: id.into(), step, needs, policy, key: key.into() };
        Some((node, has_when || skips, is_barrier))
    }

    /// Reads `after`: steps that have to end first.
    fn after(&mut self, fields: &mut Fields<'_>, names: &Names) -> Vec<Arc<str>> {
        let named: Vec<String> = match fields.get("after") {
            None => return Vec::new(),
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(all)) => {
                all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
            }
            Some(_) => {
                let key = fields.key_of("after");
                self.flaw(
                    &key,
                    "`after` is the name of a step, or a list",
                    "write `after: [a, b]`",
                );
                return Vec::new();
            }
        };
        let key = fields.key_of("after");
        named.iter().filter_map(|name| self.step_named(name, &key, names)).collect()
    }

    /// A step that comes before this one.
    fn step_named(&mut self, name: &str, key: &str, names: &Names) -> Option<Arc<str>> {
        if let Some(known) = names.get(name).filter(|known| known.is_step) {
            return Some(Arc::clone(&known.name));
        }
        self.unknown_name(name, key, names);
        None
    }

    fn unknown_name(&mut self, name: &str, key: &str, names: &Names) {
        if names.later.iter().any(|later| **later == *name) {
            let hint = format!("move `{name}` up");
            self.flaw(key, format!("the step `{name}` comes later"), hint);
            return;
        }
        let mut known: Vec<&str> = names.known.iter().map(|known| &*known.name).collect();
        known.sort_unstable();
        known.dedup();
        let hint = match nearest(name, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", known.join(", ")),
        };
        let shown: String = name.chars().take(64).collect();
        self.flaw(key, format!("there is no `{shown}` here"), hint);
    }

    fn policy(
        &mut self,
        fields: &mut Fields<'_>,
        id: &str,
        names: &Names,
        depth: usize,
        may_fail: bool,
    ) -> Policy {
        let mut policy = Policy::default();
        if !may_fail {
            return policy;
        }
        if let Some(timeout) = fields.get("timeout") {
            policy.timeout = self.span(timeout, &fields.key_of("timeout"));
        }
        if let Some(attempts) = fields.get("attempts") {
            match attempts.as_u64().and_then(|attempts| u32::try_from(attempts).ok()) {
                Some(attempts @ 1..=20) => policy.attempts = Some(attempts),
                _ => {
                    let key = fields.key_of("attempts");
                    self.flaw(&key, "`attempts` is a number from 1 to 20", "write `attempts: 3`");
                }
            }
        }
        if let Some(on_error) = fields.get("on_error") {
            let key = fields.key_of("on_error");
            policy.on_error = self.on_error(on_error, &key, names, depth);
        }
        if let Some(on_interrupted) = fields.get("on_interrupted") {
            policy.on_interrupted = match on_interrupted.as_str() {
                Some("fail") => OnInterrupted::Fail,
                Some("repeat") => OnInterrupted::Repeat,
                Some("ask") => OnInterrupted::Ask,
                _ => {
                    let key = fields.key_of("on_interrupted");
                    let hint = "write `fail`, `repeat` or `ask`";
                    self.flaw(&key, "`on_interrupted` has no such value", hint);
                    OnInterrupted::Fail
                }
            };
        }
        if let Some(undo) = fields.get("undo") {
            let key = fields.key_of("undo");
            // A single step, which can read the value of what it undoes.
            let steps = Value::Object(Map::from_iter([("undo".to_owned(), undo.clone())]));
            let own: Arc<str> = id.into();
            let names = names.clone().with_step(&own, false);
            let read = std::mem::take(&mut self.read);
            let graph = self.block(&steps, &key, &names, depth + 1);
            self.read = read;
            policy.undo = graph.map(|(graph, _)| Box::new(graph));
        }
        policy
    }

    fn on_error(&mut self, value: &Value, key: &str, names: &Names, depth: usize) -> OnError {
        const HINT: &str = "write `fail`, `skip`, `{value: …}` or `{do: {…}}`";
        match value {
            Value::String(word) if word == "fail" => OnError::Fail,
            Value::String(word) if word == "skip" => OnError::Skip,
            Value::Object(map) if map.len() == 1 && map.contains_key("value") => {
                let names = names.clone().with("error");
                match self.formula(&map["value"], &format!("{key}/value"), &names) {
                    Some(formula) => OnError::Handle(Box::new(formula)),
                    None => OnError::Fail,
                }
            }
            Value::Object(map) if map.len() == 1 && map.contains_key("do") => {
                let names = names.clone().with("error");
                match self.block(&map["do"], &format!("{key}/do"), &names, depth + 1) {
                    Some((graph, _)) => OnError::Do(Box::new(graph)),
                    None => OnError::Fail,
                }
            }
            _ => {
                self.flaw(key, "`on_error` has no such value", HINT);
                OnError::Fail
            }
        }
    }

    /// Reads a value with `${…}` in its texts.
    pub(super) fn formula(&mut self, value: &Value, key: &str, names: &Names) -> Option<Formula> {
        match Formula::read(value, key) {
            Ok(formula) => {
                self.references(&formula, key, names);
                Some(formula)
            }
            Err(error) => {
                let at = format!("{key}{}", error.path);
                self.flaw(&at, error.message, error.hint.unwrap_or_default());
                None
            }
        }
    }

    /// Reads a condition: an expression, with or without `${}`.
    pub(super) fn condition(&mut self, value: &Value, key: &str, names: &Names) -> Option<Formula> {
        let formula = match value {
            Value::String(text) if !text.contains("${") => Formula::expression(text, key),
            value => Formula::read(value, key),
        };
        match formula {
            Ok(formula) => {
                self.references(&formula, key, names);
                Some(formula)
            }
            Err(error) => {
                self.flaw(key, error.message, error.hint.unwrap_or_default());
                None
            }
        }
    }

    /// Checks the names that a formula reads.
    fn references(&mut self, formula: &Formula, key: &str, names: &Names) {
        for reference in formula.references() {
            let key = format!("{key}{}", reference.pointer);
            match names.get(&reference.root) {
                None => self.unknown_name(&reference.root, &key, names),
                Some(known) => {
                    if known.can_skip && !reference.is_optional && !names.reader_can_skip {
                        let root = &reference.root;
                        let hint = match reference.first.as_deref() {
                            Some(first) => {
                                format!("write `{root}?.{first}`, or give the step a `when`")
                            }
                            None => {
                                format!("write `default({root}, null)`, or give the step a `when`")
                            }
                        };
                        let message = format!("the step `{root}` can be skipped");
                        self.flaw(&key, message, hint);
                    }
                    self.read.insert(Arc::clone(&known.name));
                }
            }
            if &*reference.root == "input"
                && let Some(first) = &reference.first
            {
                self.parameter(first, &key, reference.is_field_optional);
            }
        }
    }

    /// Checks a name that a template reads; a step that was skipped is
    /// undefined there.
    pub(super) fn template_name(&mut self, root: &Arc<str>, key: &str, names: &Names) {
        match names.get(root) {
            None => self.unknown_name(root, key, names),
            Some(known) => {
                self.read.insert(Arc::clone(&known.name));
            }
        }
    }

    /// Checks the name of a parameter.
    fn parameter(&mut self, name: &str, key: &str, is_optional: bool) {
        let Some(properties) = self.input.get("properties").and_then(Value::as_object) else {
            return;
        };
        if properties.contains_key(name) || is_optional {
            return;
        }
        let known: Vec<&str> = properties.keys().map(String::as_str).collect();
        let hint = match nearest(name, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "add it to `parameters`".to_owned(),
            None => format!("`parameters` has {}", known.join(", ")),
        };
        self.flaw(key, format!("the workflow has no parameter `{name}`"), hint);
    }

    /// Reads a span of time.
    pub(super) fn span(&mut self, value: &Value, key: &str) -> Option<Duration> {
        let span = match value {
            Value::Number(seconds) => duration::from_seconds(seconds.as_f64().unwrap_or_default()),
            Value::String(text) => duration::parse(text),
            _ => Err("a span of time is expected".to_owned()),
        };
        span.map_err(|error| self.flaw(key, error, "write 30s, 5m or 2d")).ok()
    }

    /// Reads a whole number of at least one, and at most so many.
    pub(super) fn count(&mut self, value: &Value, key: &str, most: usize) -> Option<usize> {
        match value.as_u64().and_then(|count| usize::try_from(count).ok()) {
            Some(count) if (1..=most).contains(&count) => Some(count),
            _ => {
                self.flaw(key, format!("a number from 1 to {most} is expected"), "");
                None
            }
        }
    }

    /// Reads a text.
    pub(super) fn text<'v>(&mut self, value: &'v Value, key: &str) -> Option<&'v str> {
        let text = value.as_str();
        if text.is_none() {
            self.flaw(key, format!("a text is expected, found {}", kind_of(value)), "");
        }
        text
    }

    /// Reads a list of texts.
    pub(super) fn texts(&mut self, value: &Value, key: &str) -> Option<Vec<String>> {
        let list: Option<Vec<String>> = match value {
            Value::String(one) => Some(vec![one.clone()]),
            Value::Array(all) => all.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        if list.is_none() {
            self.flaw(key, "a list of texts is expected", "write `[a, b]`");
        }
        list
    }
}

pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
