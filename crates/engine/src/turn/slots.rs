//! The calls of a stream while they are being written.
//!
//! Calls leave in the order in which the model wrote them: one that is complete
//! waits for those before it, because the order of effects is the order of
//! calls.

use serde_json::{Value, json};

use super::ids::Ids;
use super::{Form, ModelCall};

/// More calls than anybody's turn has.
const MAX_CALLS: usize = 1_000;
/// More text than the arguments of a call have.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Calls, in the order of the message.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    ids: Ids,
    /// Whether a call is complete as soon as its arguments are: for an API
    /// that does not say where one ends.
    pub(super) eager: bool,
    pub(super) is_full: bool,
}

#[derive(Debug)]
struct Slot {
    /// The place in the message.
    at: u64,
    id: Option<String>,
    name: String,
    written: String,
    scan: Scan,
    state: State,
    form: Form,
    needs_no_id: bool,
    /// Once it has left.
    call: Option<ModelCall>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Whole,
    Broken,
}

/// A call and its place in the message.
pub(super) struct Written {
    pub(super) at: u64,
    pub(super) call: ModelCall,
}

/// A call that leaves.
#[derive(Debug, PartialEq)]
pub(super) enum Leaving {
    /// It can run.
    Whole(ModelCall),
    /// It broke off, and must not.
    Broken(ModelCall),
}

impl Leaving {
    pub(super) fn call(&self) -> &ModelCall {
        match self {
            Self::Whole(call) | Self::Broken(call) => call,
        }
    }
}

impl Slots {
    pub(super) fn eager() -> Self {
        Self { eager: true, ..Self::default() }
    }

    /// A call begins at this place, or tells more about itself.
    pub(super) fn begin(&mut self, at: u64, id: Option<&str>, name: Option<&str>) {
        let id = id.filter(|id| !id.is_empty());
        let is_other = |slot: &Slot| id.is_some() && slot.id.is_some() && slot.id.as_deref() != id;
        match self.find(at) {
            // Some servers give every call the same place.
            Some(slot) if !is_other(slot) => {
                slot.id = slot.id.take().or_else(|| id.map(str::to_owned));
                if slot.name.is_empty() {
                    slot.name = name.unwrap_or_default().to_owned();
                }
            }
            Some(slot) => {
                slot.end();
                self.insert(at, id, name);
            }
            None => self.insert(at, id, name),
        }
    }

    fn insert(&mut self, at: u64, id: Option<&str>, name: Option<&str>) {
        if self.slots.len() >= MAX_CALLS {
            self.is_full = true;
            return;
        }
        let place = self.slots.partition_point(|slot| slot.at <= at);
        let slot = Slot {
            at,
            id: id.map(str::to_owned),
            name: name.unwrap_or_default().to_owned(),
            written: String::new(),
            scan: Scan::default(),
            state: State::Open,
            form: Form::Usual,
            needs_no_id: false,
            call: None,
        };
        self.slots.insert(place, slot);
    }

    fn find(&mut self, at: u64) -> Option<&mut Slot> {
        self.slots.iter_mut().rev().find(|slot| slot.at == at)
    }

    pub(super) fn has(&mut self, at: u64) -> bool {
        self.find(at).is_some()
    }

    /// More of the arguments.
    pub(super) fn write(&mut self, at: u64, more: &str) {
        let eager = self.eager;
        let Some(slot) = self.find(at).filter(|slot| slot.state == State::Open) else { return };
        if slot.written.len() + more.len() > MAX_BYTES {
            slot.state = State::Broken;
            return;
        }
        slot.written.push_str(more);
        slot.scan.read(more);
        if eager && slot.scan.is_closed() {
            slot.state = State::Whole;
        }
    }

    /// All of the arguments, in place of what was written so far.
    pub(super) fn replace(&mut self, at: u64, all: &str) {
        if let Some(slot) = self.find(at).filter(|slot| slot.state == State::Open) {
            slot.written.clear();
            slot.scan = Scan::default();
        }
        self.write(at, all);
    }

    /// The call is answered in the special form.
    pub(super) fn special(&mut self, at: u64) {
        if let Some(slot) = self.find(at) {
            slot.form = Form::Special;
        }
    }

    /// Whether the call may do without an id.
    pub(super) fn without_id(&mut self, at: u64, needs_none: bool) {
        if let Some(slot) = self.find(at) {
            slot.needs_no_id = needs_none;
        }
    }

    /// The call at this place is written.
    pub(super) fn end(&mut self, at: u64) {
        if let Some(slot) = self.find(at) {
            slot.end();
        }
    }

    /// All calls are written.
    pub(super) fn end_all(&mut self) {
        self.slots.iter_mut().for_each(Slot::end);
    }

    /// The calls that are complete, as far as no open one comes before them.
    pub(super) fn leave(&mut self) -> Vec<Leaving> {
        let mut leaving = Vec::new();
        for slot in &mut self.slots {
            match slot.state {
                State::Open => break,
                _ if slot.call.is_some() => {}
                state => leaving.push(slot.leave(state, &mut self.ids)),
            }
        }
        leaving
    }

    /// The stream has ended: what is left. A call that was still being written
    /// is broken.
    pub(super) fn leave_all(&mut self) -> Vec<Leaving> {
        for slot in self.slots.iter_mut().filter(|slot| slot.state == State::Open) {
            slot.state = State::Broken;
        }
        self.leave()
    }

    /// All calls that have left, in the order of the message.
    pub(super) fn written(&self) -> Vec<Written> {
        let slots = self.slots.iter();
        slots.filter_map(|slot| Some(Written { at: slot.at, call: slot.call.clone()? })).collect()
    }
}

impl Slot {
    fn end(&mut self) {
        if self.state == State::Open {
            self.state = if self.scan.is_cut() { State::Broken } else { State::Whole };
        }
    }

    fn leave(&mut self, state: State, ids: &mut Ids) -> Leaving {
        let id = match self.needs_no_id {
            true => None,
            false => Some(ids.claim(self.id.as_deref())),
        };
        let call = ModelCall {
            id,
            name: self.name.as_str().into(),
            arguments: Value::String(std::mem::take(&mut self.written)),
            form: self.form,
        };
        self.call = Some(call.clone());
        match state {
            State::Broken => Leaving::Broken(call),
            _ => Leaving::Whole(call),
        }
    }
}

impl ModelCall {
    /// The arguments as an object; an empty one where they are none.
    pub(super) fn object(&self) -> Value {
        let read = match &self.arguments {
            Value::String(text) => serde_json::from_str(text).ok(),
            value => Some(value.clone()),
        };
        read.filter(Value::is_object).unwrap_or_else(|| json!({}))
    }

    /// The arguments as JSON text: as the model wrote them, where that is JSON.
    pub(super) fn text(&self) -> String {
        match &self.arguments {
            Value::String(text) if serde_json::from_str::<Value>(text).is_ok() => text.clone(),
            Value::String(_) => "{}".to_owned(),
            value => value.to_string(),
        }
    }
}

/// Follows a JSON object as it is written, to know where it ends.
#[derive(Debug, Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// Whether there was anything; if it was no object, nothing is known.
    began: Option<bool>,
    closed: bool,
}

impl Scan {
    fn read(&mut self, more: &str) {
        for c in more.bytes() {
            match c {
                _ if self.closed || self.began == Some(false) => return,
                b'{' if self.began.is_none() => {
                    self.began = Some(true);
                    self.depth = 1;
                }
                c if self.began.is_none() && c.is_ascii_whitespace() => {}
                _ if self.began.is_none() => self.began = Some(false),
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    self.closed = self.depth == 0;
                }
                _ => {}
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether an object was begun and not ended.
    fn is_cut(&self) -> bool {
        self.began == Some(true) && !self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(leaving: &[Leaving]) -> Vec<String> {
        let name = |leaving: &Leaving| match leaving {
            Leaving::Whole(call) => format!("{} {}", call.name, call.object()),
            Leaving::Broken(call) => format!("{} broken", call.name),
        };
        leaving.iter().map(name).collect()
    }

    #[test]
    fn interleaved_calls_leave_in_order() {
        let mut slots = Slots::eager();
        slots.begin(0, Some("a"), Some("first"));
        slots.begin(1, Some("b"), Some("second"));
        slots.write(1, "{\"x\": \"}\\\"{\"}");
        assert_eq!(names(&slots.leave()), [""; 0]);
        slots.write(0, "{\"y\":");
        slots.write(0, "[1]}");
        assert_eq!(names(&slots.leave()), ["first {\"y\":[1]}", "second {\"x\":\"}\\\"{\"}"]);
        assert!(slots.leave_all().is_empty());
    }

    #[test]
    fn what_breaks_off_is_told_apart() {
        let mut slots = Slots::default();
        slots.begin(0, Some("a"), Some("empty"));
        slots.end(0);
        slots.begin(1, None, Some("cut"));
        slots.write(1, "{\"y\":");
        slots.begin(2, Some("a"), Some("twin"));
        slots.write(2, "{}");
        slots.end(2);
        assert_eq!(names(&slots.leave()), ["empty {}"]);
        assert_eq!(names(&slots.leave_all()), ["cut broken", "twin {}"]);
        let ids: Vec<_> = slots.written().into_iter().map(|written| written.call.id).collect();
        assert_eq!(ids[0].as_deref(), Some("a"));
        assert!(ids[1].is_some() && ids[2].is_some() && ids[2] != ids[0], "{ids:?}");
    }

    #[test]
    fn calls_of_one_place_with_other_ids_are_other_calls() {
        let mut slots = Slots::eager();
        for id in ["a", "b", "c"] {
            slots.begin(0, Some(id), Some(id));
            slots.write(0, "{}");
        }
        assert_eq!(names(&slots.leave()), ["a {}", "b {}", "c {}"]);
    }
}
