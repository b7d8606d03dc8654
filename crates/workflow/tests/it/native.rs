//! The native form: what it runs, and what it refuses.

use serde_json::json;
use windlass::{CallRequest, ErrorKind, Lang};

use crate::setup::{House, flow};

#[tokio::test]
async fn values_flow_from_step_to_step() {
    let house = House::new();
    let text = flow(
        "parameters:
  - {name: city, type: string, required: true}
steps:
  page: {call: look, with: {city: \"${input.city}\", n: 3}}
  facts: {set: {upper: \"${page.city.upperAscii()}\", twice: \"${page.n * 2}\"}}
  text: {template: \"{{ facts.upper }}: {% for i in range(facts.twice) %}{{ i }}{% endfor %}\"}
output: {text: \"${text}\", page: \"${page}\"}",
    );
    let result = house.run(&text, json!({"city": "Lisbon"})).await;
    let page = json!({"city": "Lisbon", "n": 3});
    assert_eq!(House::value(&result), json!({"text": "LISBON: 012345", "page": page}));
}

#[tokio::test]
async fn reads_overlap_and_effects_keep_the_order_of_the_file() {
    let house = House::new();
    let text = flow(
        "steps:
  a: {call: slow_look}
  b: {call: slow_look}
  c: {call: slow_look}
  one: {call: effect, with: {name: one}}
  two: {call: effect, with: {name: two}}
  three: {call: effect, with: {name: three, of: \"${a}\"}}",
    );
    let result = house.run(&text, json!({})).await;
    assert_eq!(House::value(&result), json!({"id": "three"}));
    let done = house.done.all();
    assert!(done.contains(&"at once 3".to_owned()), "{done:?}");
    let effects: Vec<_> = done.iter().filter(|what| !what.starts_with("at once")).collect();
    assert_eq!(effects, ["one", "two", "three"]);
}

#[tokio::test]
async fn cases_maps_loops_and_branches() {
    let house = House::new();
    let text = flow(
        "parameters:
  - {name: n, type: integer, required: true}
steps:
  size:
    switch:
      - {when: \"${input.n > 10}\", do: {big: {set: big}}}
      - {when: input.n > 5, do: {middle: {set: middle}}}
      - else: {small: {set: small}}
  squares:
    map: \"${range(input.n)}\"
    do:
      square: {call: look, with: {is: \"${item * item}\"}}
    collect: \"${square.is}\"
  counted:
    loop:
      next: {set: \"${round == 0 ? 1 : last + 1}\"}
    until: next >= 4
  both:
    parallel:
      left: {call: look, with: {side: left}}
      right: {do: {a: {set: 1}, b: {set: \"${a + 1}\"}}}
  maybe: {when: input.n > 100, call: look, with: {x: 1}}
output:
  all: [\"${size}\", \"${squares}\", \"${counted}\", \"${both.left.side}\", \"${both.right}\"]
  maybe: \"${maybe?.x}\"",
    );
    let result = house.run(&text, json!({"n": 4})).await;
    let all = json!(["small", [0, 1, 4, 9], 4, "left", 2]);
    assert_eq!(House::value(&result)["all"], all);
    assert_eq!(House::value(&result)["maybe"], json!(null));
    assert_eq!(House::value(&house.call("flow", json!({"n": 7})).await)["all"][0], "middle");
}

#[tokio::test]
async fn the_window_of_a_map_holds() {
    let house = House::new();
    let text = flow(
        "steps:
  all:
    map: range(12)
    at_once: 3
    do: {one: {call: slow_look, with: {i: \"${item}\"}}}
    collect: \"${one.i}\"",
    );
    let result = house.run(&text, json!({})).await;
    assert_eq!(House::value(&result), json!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]));
    let most = house.done.all().into_iter().max().unwrap();
    assert_eq!(most, "at once 3");
}

#[tokio::test]
async fn failures_are_handled_as_the_step_says() {
    let house = House::new();
    let text = flow(
        "steps:
  value: {call: pay, with: {amount: 1}, on_error: {value: {failed: \"${error.kind}\"}}}
  skip: {call: pay, with: {amount: 2}, on_error: skip}
  do:
    call: pay
    with: {amount: 3}
    on_error: {do: {note: {set: \"${error.message}\"}}}
  drops:
    map: [1, 2, 3]
    on_item_error: drop
    do: {one: {switch: [{when: item == 2, do: {bad: {fail: no}}}, {else: {good: {set: \"${item}\"}}}]}}
  nulls:
    map: [1, 2]
    on_item_error: 'null'
    do: {one: {switch: [{when: item == 2, do: {bad: {fail: no}}}, {else: {good: {set: 1}}}]}}
output: [\"${value}\", \"${skip?.id}\", \"${do}\", \"${drops}\", \"${nulls}\"]",
    )
    .replace("\n  do:\n", "\n  done:\n")
    .replace("${do}", "${done}");
    let result = house.run(&text, json!({})).await;
    let expected = json!([{"failed": "tool_error"}, null, "no money", [1, 3], [1, null]]);
    assert_eq!(House::value(&result), expected);
    let fact = result.output().unwrap().metadata.get("run").unwrap();
    assert_eq!(fact["handled_errors"], 5);
}

#[tokio::test]
async fn a_failed_run_says_where_and_undoes_what_it_did() {
    let house = House::new();
    let text = flow(
        "steps:
  a: {call: effect, with: {name: a}, undo: {call: effect, with: {name: \"not ${a.id}\"}}}
  each:
    map: [x, y]
    do:
      b: {call: effect, with: {name: \"${item}\"}, undo: {call: effect, with: {name: \"not ${item}\"}}}
  last: {call: pay, with: {amount: 5}}",
    );
    let result = house.run(&text, json!({})).await;
    let error = result.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::ToolError);
    assert_eq!(error.message(), "the step `last` failed: no money");
    let expected = ["a", "x", "y", "pay 5", "not y", "not x", "not a"];
    assert_eq!(house.done.all(), expected);
}

#[tokio::test]
async fn returning_and_failing_end_the_run() {
    let house = House::new();
    let text = flow(
        "parameters:
  - {name: ok, type: boolean, required: true}
steps:
  a: {call: effect, with: {name: a}}
  early: {when: input.ok, return: {early: \"${a.id}\"}}
  b: {call: effect, with: {name: b}}
  bad: {fail: \"after ${b.id}\"}",
    );
    let result = house.run(&text, json!({"ok": true})).await;
    assert_eq!(House::value(&result), json!({"early": "a"}));
    assert_eq!(house.done.all(), ["a"]);
    let result = house.call("flow", json!({"ok": false})).await;
    assert_eq!(result.error().unwrap().message(), "the step `bad` failed: after b");
}

#[tokio::test]
async fn the_first_branch_wins() {
    let house = House::new();
    let text = flow(
        "steps:
  first:
    first: true
    parallel:
      slow: {call: slow_look, with: {who: slow}}
      bad: {call: pay, with: {amount: 1}}
      quick: {call: look, with: {who: quick}}",
    );
    let result = house.run(&text, json!({})).await;
    assert_eq!(House::value(&result), json!({"who": "quick"}));
}

#[tokio::test]
async fn what_a_tool_says_is_never_evaluated() {
    let house = House::new();
    let text = flow(
        "parameters: [{name: q, type: string, required: true}]
steps:
  page: {call: look, with: {q: \"${input.q}\"}}
  again: {call: look, with: {q: \"${page.q}\", t: \"<${page.q}>\"}}
  text: {template: \"{{ again.q }}\"}
output: [\"${again}\", \"${text}\"]",
    );
    let q = "${run.id} {{ run }} {% set a = 1 %}";
    let result = house.run(&text, json!({"q": q})).await;
    let again = json!({"q": q, "t": format!("<{q}>")});
    assert_eq!(House::value(&result), json!([again, q]));
}

#[tokio::test]
async fn a_workflow_calls_another() {
    let house = House::new();
    house.load(
        "name: inner
kind: workflow
description: Inner.
parameters: [{name: n, type: integer, required: true}]
steps: {twice: {set: {n: \"${input.n * 2}\"}}}",
    );
    house.engine.load_text(
        "outer.yaml",
        &flow("steps: {a: {call: inner, with: {n: 21}}}\noutput: \"${a.n}\""),
    );
    assert_eq!(House::value(&house.call("flow", json!({})).await), json!(42));
}

#[tokio::test]
async fn what_is_returned_fits_the_schema() {
    let house = House::new();
    let text = flow(
        "output_schema: {type: object, required: [answer], properties: {answer: {type: string}}}
steps: {a: {set: {answer: 5}}}",
    );
    let result = house.run(&text, json!({})).await;
    let error = result.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidOutput);
    assert!(error.message().contains("/answer: expected a string"), "{error}");
}

#[tokio::test]
async fn every_mistake_has_its_place_and_what_to_write() {
    let house = House::new();
    let text = flow(
        "parameters: [{name: city, type: string}]
steps:
  a: {call: look, with: {x: \"${input.cty}\"}}
  b: {call: look, with: {x: \"${aa.x}\"}}
  c: {call: look, with: {x: \"${d.x}\"}, tiemout: 3s}
  d: {cal: look}
  e: {when: input.city == 'x', call: look}
  f: {set: \"${e.x}\"}
  g: {set: \"${1 +}\"}
  input: {set: 1}
  h: {code: x}
  i: {return: 1}
  j: {template: \"{{ nowhere }}\"}
  k: {template: \"{% set x = y ~ y %}{% set z = x ~ x %}\"}",
    );
    let report = house.report(&text);
    let told: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
    let expected = [
        "6:26: the workflow has no parameter `cty`; did you mean `city`?",
        "7:26: there is no `aa` here; did you mean `a`?",
        "8:26: the step `d` comes later; move `d` up",
        "8:40: unknown key `tiemout`; did you mean `timeout`?",
        "9:6: the step `d` does not say what it does; did you mean `call`?",
        "11:6: the step `e` can be skipped; write `e?.x`, or give the step a `when`",
        "14:6: code cannot be run yet; call a tool that computes it",
        "16:6: `j` is never reached: the run ends at `i`; move it up, or give `i` a `when`",
        "16:6: there is no `nowhere` here",
        "17:6: `set` joins `x`, which another `set` has made",
    ];
    let told = told.join("\n");
    for expected in expected {
        let (_, message) = expected.split_once(": ").unwrap();
        assert!(told.contains(message), "{expected}\n\n{told}");
    }
    assert!(told.contains("flow.yaml:6:"), "{told}");
    assert!(told.contains("`input` has a meaning of its own"), "{told}");
}

#[tokio::test]
async fn hostile_definitions_and_values_are_bounded() {
    let house = House::new();
    let deep = format!("{}set: 1{}", "do: {a: {".repeat(20), "}}".repeat(20));
    let report = house.report(&flow(&format!("steps: {{a: {{{deep}}}}}")));
    assert!(report.errors[0].message.contains("nested more than"), "{:?}", report.errors);
    let many: String = (0..300).map(|n| format!("  s{n}: {{set: 1}}\n")).collect();
    let report = house.report(&flow(&format!("steps:\n{many}")));
    assert!(report.errors[0].message.contains("more than 200 steps"), "{:?}", report.errors);
    for (steps, why) in [
        ("a: {map: range(5000), do: {b: {set: 1}}}", "at most 1000 items"),
        ("a: {set: \"${range(100000).map(x, range(1000))}\"}", "steps"),
        ("a: {loop: {b: {set: 1}}, until: \"${false}\"}", "after 100 rounds"),
        (
            "a: {template: \"{% for i in range(99999) %}{{ i }}xxxxxxxxxx{% endfor %}\"}",
            "the template fails",
        ),
    ] {
        let result = house.run(&flow(&format!("steps: {{{steps}}}")), json!({})).await;
        let error = result.error().unwrap();
        assert!(error.message().contains(why), "{steps}: {error}");
    }
}

#[tokio::test]
async fn a_read_only_workflow_changes_nothing() {
    let house = House::new();
    let text = flow("behaviour: {read_only: true}\nsteps: {a: {call: effect, with: {name: a}}}");
    let result = house.run(&text, json!({})).await;
    let error = result.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.feedback(Lang::En).contains("read_only"), "{error}");
    assert!(house.done.all().is_empty());
}

#[tokio::test]
async fn budgets_and_bounds_of_a_run_hold() {
    let house = House::new();
    let text = flow(
        "budget: {calls: 3}
steps: {all: {map: range(10), at_once: 1, do: {one: {call: look, with: {i: \"${item}\"}}}}}",
    );
    let result = house.run(&text, json!({})).await;
    assert_eq!(result.error().unwrap().kind(), ErrorKind::QuotaExceeded);
    let text =
        flow("limits: {steps_run: 5}\nsteps: {all: {map: range(10), do: {one: {call: look}}}}");
    let result = house.run(&text, json!({})).await;
    assert!(result.error().unwrap().message().contains("at most 5 steps"));
}

#[tokio::test]
async fn a_workflow_that_runs_too_long_fails() {
    let house = House::new();
    let text = flow(
        "timeout: 400ms\nsteps: {all: {map: range(100), at_once: 1, do: {one: {call: slow_look}}}}",
    );
    house.load(&text);
    let result = house.engine.call(CallRequest::new("flow", json!({}))).await;
    assert_eq!(result.error().unwrap().kind(), ErrorKind::Timeout);
}
