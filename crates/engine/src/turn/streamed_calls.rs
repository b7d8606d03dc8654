//! The calls of a stream while they are being written.
//!
//! Calls leave in the order in which the model wrote them: one that is complete
//! waits for those before it, because the order of effects is the order of
//! calls.

use serde_json::{Value, json};

use super::ids::Ids;
use super::scan::Scan;
use super::{AnswerForm, ModelCall};

/// More calls than anybody's turn has.
const MAX_CALLS: usize = 1_000;
/// More text than the arguments of a call have.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Calls, in the order of the message.
#[derive(Debug, Default)]
pub(super) struct StreamedCalls {
    slots: Vec<StreamedCall>,
    ids: Ids,
    /// Whether a call is complete as soon as its arguments are: for an API
    /// that does not say where one ends.
    pub(super) eager: bool,
    pub(super) is_full: bool,
}

#[derive(Debug)]
struct StreamedCall {
    /// The place in the message.
    at: u64,
    id: Option<String>,
    name: String,
    written: String,
    /// What the API says besides, as the conversation is to keep it.
    more: Value,
    scan: Scan,
    state: StreamedCallState,
    form: AnswerForm,
    needs_no_id: bool,
    /// Once it has left.
    call: Option<ModelCall>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamedCallState {
    Open,
    /// Its end was told, but where a message is cut at its first argument, it is
    /// told as well: what comes next tells which it is.
    Ended,
    Whole,
    Broken,
}

/// A call and its place in the message.
pub(super) struct WrittenCall {
    pub(super) at: u64,
    pub(super) call: ModelCall,
    /// What the API said besides.
    pub(super) more: Value,
}

impl StreamedCalls {
    pub(super) fn eager() -> Self {
        Self { eager: true, ..Self::default() }
    }

    /// A call begins at this place, or tells more about itself; `more` are
    /// arguments that come with it.
    pub(super) fn begin(&mut self, at: u64, id: Option<&str>, name: Option<&str>, more: &str) {
        let id = id.filter(|id| !id.is_empty());
        let name = name.filter(|name| !name.is_empty());
        match self.find(at) {
            // Some servers give every call the same place.
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

    /// The same for a call that takes a text in place of arguments: nothing in
    /// the text tells where it ends.
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

    /// More of the arguments.
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

    /// All of the arguments, in place of what was written so far.
    pub(super) fn replace(&mut self, at: u64, all: &str) {
        if let Some(slot) = self.find(at).filter(|slot| slot.state == StreamedCallState::Open) {
            slot.written.clear();
            slot.scan = Scan::default();
        }
        self.write(at, all);
    }

    /// What the API says besides, as far as it has come; to be added to.
    pub(super) fn more(&mut self, at: u64) -> Option<&mut Value> {
        self.find(at).map(|slot| &mut slot.more)
    }

    /// How the call is answered.
    pub(super) fn form(&mut self, at: u64, form: AnswerForm) {
        if let Some(slot) = self.find(at) {
            slot.form = form;
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

    /// The API says that the call at this place is not complete.
    pub(super) fn end_broken(&mut self, at: u64) {
        if let Some(slot) = self.find(at).filter(|slot| slot.call.is_none()) {
            slot.state = StreamedCallState::Broken;
        }
    }

    /// The model went on: what had ended before was complete.
    pub(super) fn settle(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| slot.state == StreamedCallState::Ended) {
            slot.state = StreamedCallState::Whole;
        }
    }

    /// All calls are written.
    pub(super) fn end_all(&mut self) {
        self.slots.iter_mut().for_each(StreamedCall::end);
        self.settle();
    }

    /// The message ends here because it was cut: its last call is only
    /// complete if that shows.
    pub(super) fn cut(&mut self) {
        if let Some(last) = self.slots.last_mut() {
            let shows = last.scan.is_closed();
            if matches!(last.state, StreamedCallState::Open | StreamedCallState::Ended) && !shows {
                last.state = StreamedCallState::Broken;
            }
        }
        self.end_all();
    }

    /// The calls that are complete, as far as no open one comes before them.
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

    /// The stream has ended: what is left. A call that was still being written
    /// is broken.
    pub(super) fn leave_all(&mut self) -> Vec<ModelCall> {
        for slot in &mut self.slots {
            if matches!(slot.state, StreamedCallState::Open | StreamedCallState::Ended) {
                slot.state = StreamedCallState::Broken;
            }
        }
        self.leave()
    }

    /// All calls that have left, in the order of the message.
    pub(super) fn written(&self) -> Vec<WrittenCall> {
        let slots = self.slots.iter();
        let written = slots.filter_map(|slot| {
            Some(WrittenCall { at: slot.at, call: slot.call.clone()?, more: slot.more.clone() })
        });
        written.collect()
    }
}

impl StreamedCall {
    /// Whether what comes for this place is about another call.
    fn is_other(&self, id: Option<&str>, name: Option<&str>, more: &str) -> bool {
        let has_other_name = !self.name.is_empty() && name.is_some_and(|name| name != self.name);
        let is_other = match (&self.id, id) {
            (Some(own), Some(id)) => own != id,
            (Some(_), None) => false,
            // Nothing can be added to arguments that are complete.
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
