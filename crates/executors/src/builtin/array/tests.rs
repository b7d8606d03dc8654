use serde_json::json;

use super::*;

#[track_caller]
fn check(operation: &str, mut arguments: Value, expected: impl Into<Value>) {
    arguments["operation"] = json!(operation);
    let shown = match run(&Arguments::new(&arguments)) {
        Ok(output) => output.value().cloned().unwrap_or_else(|| output.to_text().into()),
        Err(error) => format!("error: {}", error.message()).into(),
    };
    assert_eq!(shown, expected.into(), "{arguments}");
}

fn people() -> Value {
    json!([
        {"name": "Ada", "age": 36, "city": {"name": "London"}},
        {"name": "Linus", "age": 54, "city": {"name": "Portland"}},
        {"name": "Grace", "city": {"name": "London"}},
    ])
}

#[test]
fn items_are_found() {
    let items = json!([10, 20, 30, 20]);
    check("length", json!({"items": items}), 4);
    check("get", json!({"items": items, "index": 1}), 20);
    check("get", json!({"items": items, "index": -1}), 20);
    check(
        "get",
        json!({"items": items, "index": 9}),
        "error: there is no item 9: the array has 4 items",
    );
    check("first", json!({"items": items}), 10);
    check("last", json!({"items": items, "count": 2}), json!([30, 20]));
    check("first", json!({"items": []}), "error: there is no item 0: the array has 0 items");
    check("slice", json!({"items": items, "start": 1, "end": -1}), json!([20, 30]));
    check("slice", json!({"items": items, "start": 3, "end": 1}), json!([]));
    check("contains", json!({"items": items, "value": 30.0}), true);
    check("contains", json!({"items": [null], "value": null}), true);
    check("index_of", json!({"items": items, "value": 20}), 1);
    check("index_of", json!({"items": items, "value": "20"}), -1);
    check("index_of", json!({"items": people(), "key": "name", "value": "Linus"}), 1);
    check("count", json!({"items": items, "value": 20}), 2);
    check(
        "count",
        json!({"items": ["a", "b", "b"]}),
        json!([{"value": "b", "count": 2}, {"value": "a", "count": 1}]),
    );
}

#[test]
fn lists_are_rearranged() {
    check("sort", json!({"items": [10, 9, 1.5]}), json!([1.5, 9, 10]));
    check("sort", json!({"items": ["b", "a"], "order": "desc"}), json!(["b", "a"]));
    check(
        "pluck",
        json!({"items": people(), "key": "city.name"}),
        json!(["London", "Portland", "London"]),
    );
    let arguments = json!({"operation": "sort", "items": people(), "key": "age", "order": "desc"});
    let sorted = run(&Arguments::new(&arguments)).unwrap();
    check(
        "pluck",
        json!({"items": sorted.value(), "key": "name"}),
        json!(["Linus", "Ada", "Grace"]),
    );
    check("reverse", json!({"items": [1, 2]}), json!([2, 1]));
    check("flatten", json!({"items": [1, [2, [3]]]}), json!([1, 2, [3]]));
    check("flatten", json!({"items": [1, [2, [3]]], "depth": 9}), json!([1, 2, 3]));
    check("chunk", json!({"items": [1, 2, 3], "size": 2}), json!([[1, 2], [3]]));
    check(
        "chunk",
        json!({"items": [1], "size": 0}),
        "error: the parameter `size` must be at least 1",
    );
    check("concat", json!({"items": [1], "other": [2]}), json!([1, 2]));
    check("zip", json!({"items": [1, 2, 3], "other": ["a", "b"]}), json!([[1, "a"], [2, "b"]]));
    check("join", json!({"items": [1, "b"], "separator": "/"}), "1/b");
    check("join", json!({"items": people(), "key": "name"}), "Ada, Linus, Grace");
    check(
        "group_by",
        json!({"items": [{"a": 1, "n": 1}, {"a": 2, "n": 2}, {"a": 1, "n": 3}], "key": "a"}),
        json!({"1": [{"a": 1, "n": 1}, {"a": 1, "n": 3}], "2": [{"a": 2, "n": 2}]}),
    );
}

#[test]
fn filters_compare() {
    let names = |comparison: &str, key: &str, value: Value| {
        let arguments = json!({
            "operation": "filter", "items": people(), "key": key,
            "comparison": comparison, "value": value,
        });
        let kept = run(&Arguments::new(&arguments)).unwrap();
        kept.value().unwrap().as_array().unwrap().iter().map(|item| item["name"].clone()).collect()
    };
    let check = |comparison: &str, key: &str, value: Value, expected: Value| {
        let names: Value = names(comparison, key, value);
        assert_eq!(names, expected, "{comparison} {key}");
    };
    check("eq", "city.name", json!("London"), json!(["Ada", "Grace"]));
    check("ne", "city.name", json!("London"), json!(["Linus"]));
    check("gt", "age", json!(36), json!(["Linus"]));
    check("gte", "age", json!(36), json!(["Ada", "Linus"]));
    check("lt", "age", json!(54.5), json!(["Ada", "Linus"]));
    check("lte", "age", json!("99"), json!([]));
    check("in", "name", json!(["Ada", "Bob"]), json!(["Ada"]));
    check("not_in", "name", json!(["Ada", "Bob"]), json!(["Linus", "Grace"]));
    check("contains", "name", json!("a"), json!(["Ada", "Grace"]));
    check("starts_with", "name", json!("L"), json!(["Linus"]));
    check("ends_with", "name", json!("e"), json!(["Grace"]));
    check("exists", "age", json!(null), json!(["Ada", "Linus"]));
    check("missing", "age", json!(null), json!(["Grace"]));
}

#[test]
fn sets_keep_the_order() {
    check("unique", json!({"items": [3, 1, 3.0, "1", 1]}), json!([3, 1, "1"]));
    check("union", json!({"items": [1, 2], "other": [2, 3]}), json!([1, 2, 3]));
    check(
        "intersection",
        json!({"items": [{"a": 1, "b": 2}, 2], "other": [{"b": 2, "a": 1}]}),
        json!([{"a": 1, "b": 2}]),
    );
    check("difference", json!({"items": [1, 2, 2, 3], "other": [3]}), json!([1, 2]));
}

#[test]
fn numbers_are_summed_as_written() {
    check("sum", json!({"items": [0.1, 0.2]}), 0.3);
    check("sum", json!({"items": [1, 2, 3]}), 6);
    check("sum", json!({"items": [1.5, 2.5]}), 4);
    check("sum", json!({"items": []}), 0);
    check("sum", json!({"items": [1e300, 1e300]}), 2e300);
    check("sum", json!({"items": [i64::MAX, 1]}), 9.223_372_036_854_776e18);
    check("sum", json!({"items": [1, "2"]}), "error: item 1 is a string, not a number");
    check("sum", json!({"items": people(), "key": "age"}), "error: item 2 does not have the key");
    check("average", json!({"items": [0.1, 0.2, 0.3]}), 0.2);
    check("average", json!({"items": []}), "error: an empty array has no average");
    check("min", json!({"items": [3, 1.5, 2]}), 1.5);
    check("max", json!({"items": ["a", "c", "b"]}), "c");
    check("max", json!({"items": [{"n": 1}, {"n": 5}, {}], "key": "n"}), json!({"n": 5}));
    check(
        "min",
        json!({"items": []}),
        "error: there is nothing to choose from: no item has a value",
    );
    check("range", json!({"end": 3}), json!([0, 1, 2]));
    check("range", json!({"start": 3, "end": 0}), json!([3, 2, 1]));
    check("range", json!({"start": 0, "end": 0.3, "step": 0.1}), json!([0, 0.1, 0.2]));
    check("range", json!({"end": 5, "step": -1}), json!([]));
    check("range", json!({"end": 1e9}), "error: 1000000000 items are too many; the most is 100000");
    check("range", json!({"end": 1, "step": 0}), "error: the parameter `step` must not be 0");
}

#[test]
fn long_lists_are_not_searched_for_every_item() {
    let numbers: Vec<u32> = (0..50_000).collect();
    let start = std::time::Instant::now();
    for (operation, list) in [("filter", "value"), ("intersection", "other")] {
        let arguments =
            json!({"operation": operation, "items": numbers, "comparison": "in", list: numbers});
        let output = run(&Arguments::new(&arguments)).unwrap();
        assert_eq!(output.value().and_then(Value::as_array).map(Vec::len), Some(50_000));
    }
    assert!(start.elapsed().as_secs() < 20, "took {:?}", start.elapsed());
}
