//! Calls of a stream while they are being written.
//!
//! Calls are released in message order: a complete one waits for those before
//! it, because effects must keep the order of the calls.

use serde_json::{Value, json};

use super::ids::Ids;
use super::scan::Scan;
use super::{AnswerForm, ModelCall};

/// Maximum number of calls of a turn.
const MAX_CALLS: usize = 1_000;
/// Maximum size of the arguments of a call.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The calls, in message order.
#[derive(Debug, Default)]
pub(super) struct StreamedCalls {
    slots: Vec<StreamedCall>,
    ids: Ids,
    /// Whether a call is complete as soon as its arguments are: for APIs that
    /// do not mark the end.
    pub(super) eager: bool,
    pub(super) is_full: bool,
}

#[derive(Debug)]
struct StreamedCall {
    /// Index in the message.
    at: u64,
    id: Option<String>,
    name: String,
    written: String,
    /// Further fields, as the conversation is to store them.
    more: Value,
    scan: Scan,
    state: StreamedCallState,
    form: AnswerForm,
    needs_no_id: bool,
    /// The call, once it was released.
    call: Option<ModelCall>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamedCallState {
    Open,
    /// Its end was marked; but some servers also mark it for a call that was
    /// cut at its first argument, so the next event decides.
    Ended,
    Whole,
    Broken,
}

/// A call with its index in the message.
pub(super) struct WrittenCall {
    pub(super) at: u64,
    pub(super) call: ModelCall,
    /// Further fields of the call.
    pub(super) more: Value,
}

impl StreamedCalls {
    pub(super) fn eager() -> Self {
        Self { eager: true, ..Self::default() }
    }

    /// Starts a call at this index, or adds to it; `more` are arguments that
    /// come with it.
    pub(super) fn begin(&mut self, at: u64, id: Option<&str>, name: Option<&str>, more: &str) {
        let id = id.filter(|id| !id.is_empty());
        let name = name.filter(|name| !name.is_empty());
        match self.find(at) {
            // Some servers give every call the same index.
            Some(slot) if slot.is_other(id, name, more) => {
                slot.end();
                self.insert(at, id, name);
            }
            Some(slot) => {
                slot.id = slot.id.take().or_else(|| id.map(str::to_owned));
                if slot.name.is_empty() {
                    slot.name = name.unwrap_or_default().to_owned();
                }
            }
            None => self.insert(at, id, name),
        }
        self.write(at, more);
    }

    /// Starts a call that takes text instead of arguments, whose end cannot be
    /// detected.
    pub(super) fn begin_custom(
        &mut self,
        at: u64,
        id: Option<&str>,
        name: Option<&str>,
        more: &str,
    ) {
        self.begin(at, id, name, "");
        self.form(at, AnswerForm::Custom);
        self.write(at, more);
    }

    fn insert(&mut self, at: u64, id: Option<&str>, name: Option<&str>) {
        if self.slots.len() >= MAX_CALLS {
            self.is_full = true;
            return;
        }
        self.settle();
        let place = self.slots.partition_point(|slot| slot.at <= at);
        let slot = StreamedCall {
            at,
            id: id.map(str::to_owned),
            name: name.unwrap_or_default().to_owned(),
            written: String::new(),
            more: Value::Null,
            scan: Scan::default(),
            state: StreamedCallState::Open,
            form: AnswerForm::Usual,
            needs_no_id: false,
            call: None,
        };
        self.slots.insert(place, slot);
    }

    fn find(&mut self, at: u64) -> Option<&mut StreamedCall> {
        self.slots.iter_mut().rev().find(|slot| slot.at == at)
    }

    pub(super) fn has(&mut self, at: u64) -> bool {
        self.find(at).is_some()
    }

    /// Appends to the arguments.
    pub(super) fn write(&mut self, at: u64, more: &str) {
        let eager = self.eager;
        let Some(slot) = self.find(at).filter(|slot| slot.state == StreamedCallState::Open) else {
            return;
        };
        if slot.written.len() + more.len() > MAX_BYTES {
            slot.state = StreamedCallState::Broken;
            return;
        }
        slot.written.push_str(more);
        if slot.form == AnswerForm::Custom {
            return;
        }
        slot.scan.read(more);
        if eager && slot.scan.is_closed() {
            slot.state = StreamedCallState::Whole;
        }
    }

    /// Replaces the arguments.
    pub(super) fn replace(&mut self, at: u64, all: &str) {
        if let Some(slot) = self.find(at).filter(|slot| slot.state == StreamedCallState::Open) {
            slot.written.clear();
            slot.scan = Scan::default();
        }
        self.write(at, all);
    }

    /// Further fields so far, to be extended.
    pub(super) fn more(&mut self, at: u64) -> Option<&mut Value> {
        self.find(at).map(|slot| &mut slot.more)
    }

    /// Sets the form of the answer.
    pub(super) fn form(&mut self, at: u64, form: AnswerForm) {
        if let Some(slot) = self.find(at) {
            slot.form = form;
        }
    }

    /// Sets whether the id is optional.
    pub(super) fn without_id(&mut self, at: u64, needs_none: bool) {
        if let Some(slot) = self.find(at) {
            slot.needs_no_id = needs_none;
        }
    }

    /// Marks the call at this index as complete.
    pub(super) fn end(&mut self, at: u64) {
        if let Some(slot) = self.find(at) {
            slot.end();
        }
    }

    /// Marks the call at this index as incomplete.
    pub(super) fn end_broken(&mut self, at: u64) {
        if let Some(slot) = self.find(at).filter(|slot| slot.call.is_none()) {
            slot.state = StreamedCallState::Broken;
        }
    }

    /// The model continued: calls that had ended are complete.
    pub(super) fn settle(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| slot.state == StreamedCallState::Ended) {
            slot.state = StreamedCallState::Whole;
        }
    }

    /// Marks all calls as complete.
    pub(super) fn end_all(&mut self) {
        self.slots.iter_mut().for_each(StreamedCall::end);
        self.settle();
    }

    /// The message was cut here: its last call is only complete if that is
    /// evident.
    pub(super) fn cut(&mut self) {
        if let Some(last) = self.slots.last_mut() {
            let shows = last.scan.is_closed();
            if matches!(last.state, StreamedCallState::Open | StreamedCallState::Ended) && !shows {
                last.state = StreamedCallState::Broken;
            }
        }
        self.end_all();
    }

    /// Releases complete calls that no open one precedes.
    pub(super) fn leave(&mut self) -> Vec<ModelCall> {
        let mut leaving = Vec::new();
        for slot in &mut self.slots {
            match slot.state {
                StreamedCallState::Open | StreamedCallState::Ended => break,
                _ if slot.call.is_some() => {}
                _ => leaving.push(slot.leave(&mut self.ids)),
            }
        }
        leaving
    }

    /// Releases the remaining calls at the end of the stream; those still open
    /// are incomplete.
    pub(super) fn leave_all(&mut self) -> Vec<ModelCall> {
        for slot in &mut self.slots {
            if matches!(slot.state, StreamedCallState::Open | StreamedCallState::Ended) {
                slot.state = StreamedCallState::Broken;
            }
        }
        self.leave()
    }

    /// All released calls, in message order.
    pub(super) fn written(&self) -> Vec<WrittenCall> {
        let slots = self.slots.iter();
        let written = slots.filter_map(|slot| {
            Some(WrittenCall { at: slot.at, call: slot.call.clone()?, more: slot.more.clone() })
        });
        written.collect()
    }
}

impl StreamedCall {
    /// Whether a new event at this index is about another call.
    fn is_other(&self, id: Option<&str>, name: Option<&str>, more: &str) -> bool {
        let has_other_name = !self.name.is_empty() && name.is_some_and(|name| name != self.name);
        let is_other = match (&self.id, id) {
            (Some(own), Some(id)) => own != id,
            (Some(_), None) => false,
            // Complete arguments cannot be extended.
            (None, _) => {
                name.is_some() && self.state != StreamedCallState::Open && !more.trim().is_empty()
            }
        };
        has_other_name || is_other
    }

    fn end(&mut self) {
        if self.state == StreamedCallState::Open {
            self.state = match () {
                () if self.scan.is_cut() => StreamedCallState::Broken,
                () if self.form == AnswerForm::Custom || self.written.trim().is_empty() => {
                    StreamedCallState::Ended
                }
                () => StreamedCallState::Whole,
            };
        }
    }

    fn leave(&mut self, ids: &mut Ids) -> ModelCall {
        let id = match self.needs_no_id {
            true => None,
            false => Some(ids.claim(self.id.as_deref())),
        };
        let written = std::mem::take(&mut self.written);
        let arguments = match self.form {
            AnswerForm::Custom => json!({"input": written}),
            _ => Value::String(written),
        };
        let mut call = ModelCall::new(id, Some(&self.name), arguments).form(self.form);
        call.is_broken = self.state == StreamedCallState::Broken;
        let call = call.repeating(&self.more);
        self.call = Some(call.clone());
        call
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(leaving: &[ModelCall]) -> Vec<String> {
        let name = |call: &ModelCall| match call.is_broken {
            false => format!("{} {}", call.name, call.object()),
            true => format!("{} broken", call.name),
        };
        leaving.iter().map(name).collect()
    }

    #[test]
    fn interleaved_calls_leave_in_order() {
        let mut slots = StreamedCalls::eager();
        slots.begin(0, Some("a"), Some("first"), "");
        slots.begin(1, Some("b"), Some("second"), "");
        slots.write(1, "{\"x\": \"}\\\"{\"}");
        assert_eq!(names(&slots.leave()), [""; 0]);
        slots.write(0, "{\"y\":");
        slots.write(0, "[1]}");
        assert_eq!(names(&slots.leave()), ["first {\"y\":[1]}", "second {\"x\":\"}\\\"{\"}"]);
        assert!(slots.leave_all().is_empty());
    }

    #[test]
    fn what_breaks_off_is_told_apart() {
        let mut slots = StreamedCalls::default();
        slots.begin(0, Some("a"), Some("empty"), "");
        slots.end(0);
        assert!(slots.leave().is_empty(), "the message may have been cut");
        slots.begin(1, None, Some("cut"), "{\"y\":");
        slots.begin(2, Some("a"), Some("twin"), "{}");
        slots.end(2);
        assert_eq!(names(&slots.leave()), ["empty {}"]);
        assert_eq!(names(&slots.leave_all()), ["cut broken", "twin {}"]);
        let ids: Vec<_> = slots.written().into_iter().map(|written| written.call.id).collect();
        assert_eq!(ids[0].as_deref(), Some("a"));
        assert!(ids[1].is_some() && ids[2].is_some() && ids[2] != ids[0], "{ids:?}");
    }

    #[test]
    fn where_a_message_is_cut_only_its_last_call_is_in_doubt() {
        let mut slots = StreamedCalls::default();
        for (at, written) in ["", "{\"x\": 1}", ""].into_iter().enumerate() {
            slots.begin(at as u64, None, Some("tool"), written);
            slots.end(at as u64);
        }
        slots.cut();
        assert_eq!(names(&slots.leave()), ["tool {}", "tool {\"x\":1}", "tool broken"]);
    }

    #[test]
    fn calls_of_one_place_with_other_ids_are_other_calls() {
        let mut slots = StreamedCalls::eager();
        for id in ["a", "b", "c"] {
            slots.begin(0, Some(id), Some(id), "{}");
        }
        assert_eq!(names(&slots.leave()), ["a {}", "b {}", "c {}"]);
    }

    #[test]
    fn calls_of_one_place_without_ids_are_told_apart_by_what_they_say() {
        let mut slots = StreamedCalls::eager();
        slots.begin(0, None, Some("a"), "{\"x\"");
        slots.begin(0, None, Some("a"), ": 1}");
        slots.begin(0, None, Some("a"), "");
        slots.begin(0, Some(""), Some("a"), "{\"x\": 2}");
        slots.begin(0, None, Some("b"), "{}");
        assert_eq!(names(&slots.leave()), ["a {\"x\":1}", "a {\"x\":2}", "b {}"]);
    }
}
