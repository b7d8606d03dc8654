//! Runs that wait, and runs that go on after their process has gone.

use serde_json::json;
use std::time::Duration;

use windlass::{ErrorKind, TenantId};
use windlass_workflow::log::RunStatus;
use windlass_workflow::{Answer, PlaceStatus};

use crate::setup::{House, flow, waiting};

fn tenant() -> TenantId {
    TenantId::default()
}

fn answer(action: &str) -> Answer {
    Answer { action: Some(action.to_owned()), who: Some("ada".to_owned()), ..Answer::default() }
}

const ASKS: &str = "steps:
  before: {call: effect, with: {name: before}}
  person: {ask: {text: \"Refund ${before.id}?\", actions: [approve, reject], expires: 2d}}
  after: {when: person.action == 'approve', call: effect, with: {name: \"after ${person.by}\"}}
output: {action: \"${person.action}\", id: \"${after?.id}\"}";

#[tokio::test]
async fn a_run_waits_for_a_person_and_goes_on_in_another_process() {
    let house = House::new();
    let run = waiting(&house.run(&flow(ASKS), json!({})).await);
    let view = house.show(&run).await;
    assert_eq!(view.head.status, RunStatus::Waiting);
    assert_eq!(view.head.waits.len(), 1);
    let wrong = house.runs.answer(&tenant(), &run, answer("maybe")).await.unwrap_err();
    assert_eq!(wrong.message(), "the answer is one of approve, reject");
    // The first process is gone, and the file has changed.
    let other = house.beside();
    other.load(&flow("steps: {other: {set: other}}"));
    let waker = other.wake();
    other.runs.answer(&tenant(), &run, answer("approve")).await.unwrap();
    let view = other.until(&run, |view| view.head.status.has_ended()).await;
    assert_eq!(view.head.status, RunStatus::Succeeded, "{view:#?}");
    let end = serde_json::to_value(&view.head.end).unwrap();
    assert_eq!(end["value"], json!({"action": "approve", "id": "after ada"}));
    assert_eq!(other.done.all(), ["before", "after ada"]);
    let again = other.runs.answer(&tenant(), &run, answer("approve")).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    waker.abort();
}

#[tokio::test]
async fn questions_in_maps_and_branches_are_answered_one_by_one() {
    let house = House::new();
    let waker = house.wake();
    let text = flow(
        "steps:
  people:
    map: [a, b, c]
    do:
      ask: {ask: {text: \"${item}?\", actions: [yes, no]}}
      act: {call: effect, with: {name: \"${item} ${ask.action}\"}}
    at_once: 3
  side: {call: slow_look, with: {x: 1}}
output: \"${people}\"",
    );
    let run = waiting(&house.run(&text, json!({})).await);
    let view = house.show(&run).await;
    let places: Vec<_> = view.head.waits.iter().map(|open| &*open.place).collect();
    assert_eq!(places, ["people[0].ask", "people[1].ask", "people[2].ask"]);
    let unnamed = house.runs.answer(&tenant(), &run, answer("yes")).await.unwrap_err();
    assert!(unnamed.message().contains("several places"), "{unnamed}");
    for (place, left) in [("people[1].ask", 2), ("people[2].ask", 1), ("people[0].ask", 0)] {
        let answer = Answer { place: Some(place.to_owned()), ..answer("yes") };
        house.runs.answer(&tenant(), &run, answer).await.unwrap();
        house
            .until(&run, |view| match left {
                0 => view.head.status == RunStatus::Succeeded,
                left => view.head.status == RunStatus::Waiting && view.head.waits.len() == left,
            })
            .await;
    }
    let effects: Vec<_> =
        house.done.all().into_iter().filter(|what| !what.starts_with("at once")).collect();
    assert_eq!(effects, ["b yes", "c yes", "a yes"]);
    waker.abort();
}

#[tokio::test]
async fn a_nested_run_that_waits_wakes_its_parent() {
    let house = House::new();
    let waker = house.wake();
    house.load(&flow(ASKS).replace("name: flow", "name: inner"));
    let outer = "name: outer\nkind: workflow\ndescription: Outer.\nsteps:
  first: {call: effect, with: {name: first}}
  inner: {call: inner}
  last: {call: effect, with: {name: \"last ${inner.id}\"}}";
    house.engine.load_text("outer.yaml", outer);
    let run = waiting(&house.call("outer", json!({})).await);
    let view = house.show(&run).await;
    let wait = serde_json::to_value(&view.head.waits[0].wait).unwrap();
    let child = wait["run"].as_str().unwrap().to_owned();
    assert_eq!(view.head.waits[0].place.as_ref(), "inner");
    house.runs.answer(&tenant(), &child, answer("approve")).await.unwrap();
    house.until(&run, |view| view.head.status == RunStatus::Succeeded).await;
    let expected = ["first", "before", "after ada", "last after ada"];
    assert_eq!(house.done.all(), expected);
    waker.abort();
}

#[tokio::test]
async fn times_and_signals_wake_a_run() {
    let house = House::new();
    let text = flow(
        "steps:
  soon: {wait: 50ms}
  later: {wait: 1500ms, after: soon}
  paid: {wait: {signal: paid, expires: 1h}}
  done: {call: effect, with: {name: \"${paid.amount}\"}, after: later}",
    );
    let run = waiting(&house.run(&text, json!({})).await);
    let waker = house.wake();
    let value = json!({"amount": "five"});
    for is_new in [true, false] {
        let sent = house.runs.signal(&tenant(), &run, "paid", value.clone(), "1", None).await;
        assert_eq!(sent.unwrap(), is_new);
    }
    let view = house.until(&run, |view| view.head.status == RunStatus::Succeeded).await;
    assert_eq!(house.done.all(), ["five"]);
    let paid = view.places.iter().find(|place| &*place.place == "paid").unwrap();
    assert_eq!(**paid.value.as_ref().unwrap(), value);
    waker.abort();
}

#[tokio::test]
async fn nobody_answers_in_time() {
    let house = House::new();
    let text = flow(
        "steps:
  a: {ask: {text: a, expires: 60ms, otherwise: {action: none}}}
  b: {ask: {text: b, expires: 60ms}}",
    );
    let result = house.run(&text, json!({})).await;
    let error = result.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(error.message(), "the step `b` failed: nobody answered within 60ms");
}

#[tokio::test]
async fn a_run_whose_process_dies_repeats_no_effect() {
    let house = House::new();
    let text = flow(
        "steps:
  a: {call: effect, with: {name: a}}
  all: {map: [x, y, z], do: {one: {call: effect, with: {name: \"${item}\"}}}}
  slow: {call: slow_look}
  b: {call: effect, with: {name: b, of: \"${slow}\"}}",
    );
    house.load(&text);
    // Every moment at which the process may die: the store has the first groups.
    let whole = waiting_or_done(&house).await;
    let (entries, groups) = {
        use windlass_workflow::store::RunStore;
        house.store.entries(&tenant(), &whole).await.unwrap()
    };
    assert!(groups > 4, "{entries:#?}");
    assert_eq!(house.done.all().iter().filter(|what| *what == "a").count(), 1);
}

async fn waiting_or_done(house: &House) -> String {
    let result = house.call("flow", json!({})).await;
    assert!(result.is_success(), "{result:?}");
    result.id.to_string()
}

#[tokio::test]
async fn a_cancelled_run_ends() {
    let house = House::new();
    let waker = house.wake();
    let run = waiting(&house.run(&flow(ASKS), json!({})).await);
    house.runs.cancel(&tenant(), &run, Some("ada".to_owned())).await.unwrap();
    let view = house.until(&run, |view| view.head.status.has_ended()).await;
    assert_eq!(view.head.status, RunStatus::Cancelled);
    assert_eq!(house.done.all(), ["before"]);
    waker.abort();
}

#[tokio::test]
async fn a_call_that_is_dropped_cancels_its_run() {
    let house = House::new();
    let text = flow(
        "behaviour: {read_only: true}
steps: {all: {map: range(100), at_once: 1, do: {one: {call: slow_look}}}}",
    );
    house.load(&text);
    let call = house.call("flow", json!({}));
    tokio::time::timeout(Duration::from_millis(900), call).await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let page = windlass_workflow::store::RunPage { workflow: None, before: None, limit: 10 };
    let listed = house.runs.list(&tenant(), page).await.unwrap();
    assert_eq!(listed[0].status, RunStatus::Cancelled);
}

#[tokio::test]
async fn a_repeated_run_takes_over_what_is_asked_the_same() {
    let house = House::new();
    let text = flow(
        "steps:
  a: {call: effect, with: {name: a}}
  b: {call: effect, with: {name: b}}
  c: {call: flaky}",
    );
    let result = house.run(&text, json!({})).await;
    let run = result.error().unwrap().metadata().get("run").unwrap()["id"].clone();
    let run = run.as_str().unwrap();
    let request = house.runs.retry(&tenant(), run, None, false).await.unwrap();
    let result = house.engine.call(request).await;
    assert_eq!(House::value(&result), json!({"count": 1}));
    assert_eq!(house.done.all(), ["a", "b"]);
    let request = house.runs.retry(&tenant(), run, Some("b"), false).await.unwrap();
    assert!(house.engine.call(request).await.is_success());
    assert_eq!(house.done.all(), ["a", "b", "b"]);
    let wrong = house.runs.retry(&tenant(), run, Some("bb"), false).await.err().unwrap();
    assert!(wrong.message().contains("no step `bb`"), "{wrong}");
    // The present definition, which asks for something else at `b`.
    let changed = text.replace("name: b}", "name: bee}");
    house.load(&changed);
    let request = house.runs.retry(&tenant(), run, None, true).await.unwrap();
    assert!(house.engine.call(request).await.is_success());
    assert_eq!(house.done.all(), ["a", "b", "b", "bee"]);
}

#[tokio::test]
async fn two_processes_do_not_drive_one_run() {
    let house = House::new();
    let run = waiting(&house.run(&flow(ASKS), json!({})).await);
    let other = house.beside();
    let (one, two) = (house.wake(), other.wake());
    house.runs.answer(&tenant(), &run, answer("approve")).await.unwrap();
    let view = house.until(&run, |view| view.head.status.has_ended()).await;
    assert_eq!(view.head.status, RunStatus::Succeeded);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(house.done.all(), ["before", "after ada"]);
    one.abort();
    two.abort();
}

#[tokio::test]
async fn the_state_of_each_place_is_shown() {
    let house = House::new();
    let text = flow(
        "steps:
  a: {call: effect, with: {name: a}}
  b: {call: pay, with: {amount: 1}, on_error: skip}
  c: {ask: go on?}",
    );
    let run = waiting(&house.run(&text, json!({})).await);
    let view = house.show(&run).await;
    let states: Vec<_> = view.places.iter().map(|place| (&*place.place, place.status)).collect();
    let expected =
        [("c", PlaceStatus::Waiting), ("a", PlaceStatus::Succeeded), ("b", PlaceStatus::Skipped)];
    for one in expected {
        assert!(states.contains(&one), "{states:?}");
    }
}
