//! `cargo xtask cel-spec`: the conformance tests of the Common Expression Language, against
//! the expressions of workflows.
//!
//! The tests come from npm (`@bufbuild/cel-spec`, which has those of `google/cel-spec` as
//! data). Those that need protocol buffers are excluded; where we differ on purpose is in
//! [`DIFFERENCES`].

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use windlass_expr::{Expr, Meter};

use crate::mcp::npm;
use crate::run::{must, once, root};

const PACKAGE: &str = "@bufbuild/cel-spec@0.6.1";

/// Prints the tests as JSON, each with the names of the suites around it.
const DUMP: &str = r#"
import { tests } from "./node_modules/@bufbuild/cel-spec/dist/esm/testdata/conformance.js";
const all = [];
const visit = (suite, path) => {
  for (const test of suite.tests ?? []) all.push({ ...test.original, path });
  for (const inner of suite.suites ?? []) visit(inner, [...path, inner.name]);
};
visit(tests, []);
console.log(JSON.stringify(all));
"#;

/// How a value of a message begins.
const OBJECT: &str = r#"{"objectValue":{"@type":"type.googleapis.com/"#;

/// What must pass of what applies, deliberate differences counted as failures.
const REQUIRED: f64 = 0.99;

/// Suites that do not apply.
const EXCLUDED: [(&str, &str); 11] = [
    ("proto2", "protocol buffers"),
    ("proto2_ext", "protocol buffers"),
    ("proto3", "protocol buffers"),
    ("enums", "protocol buffers"),
    ("dynamic", "protocol buffers"),
    ("wrappers", "protocol buffers"),
    ("block_ext", "a form that optimisers produce, not authors"),
    ("namespace", "containers of names"),
    (
        "parse/receiver_function_names",
        "calls of functions that do not exist, refused when a file is loaded",
    ),
    ("plumbing/check_inputs", "the protocol of the test harness"),
    ("fields/qualified_identifier_resolution", "containers of names: one name has one value"),
];

/// Expressions to which our answer differs on purpose.
const DIFFERENCES: [(&str, &str); 10] = [
    ("f_unknown(17) || true", UNKNOWN),
    ("dyn(9223372036854775807) < 9223372036854775808.0", EXACT),
    ("dyn(9223372036854775808.0) > 9223372036854775807", EXACT),
    ("dyn(9223372036854775808.0) <= 9223372036854775807", EXACT),
    ("dyn(9223372036854775807) >= 9223372036854775808.0", EXACT),
    ("math.ceil(dyn(1))", NUMBERS),
    ("math.floor(dyn(1))", NUMBERS),
    ("math.round(dyn(1))", NUMBERS),
    ("math.trunc(dyn(1))", NUMBERS),
    ("{'null_key': dyn(null)}.?null_key.invalid.hasValue()", NULL),
];

const UNKNOWN: &str =
    "unknown functions are errors when a file is loaded, whatever stands beside them";
const EXACT: &str = "ints and doubles are compared exactly; 2^63 - 1 is less than 2^63";
const NUMBERS: &str = "numbers are JSON's: where a double is wanted, an int will do";
const NULL: &str = "nothing is selected from null by `.?`, as APIs write null for what is absent";

/// Runs the tests and prints a table.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut suites: BTreeMap<String, Tally> = BTreeMap::new();
    let mut excluded: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    for test in tests()? {
        let test = Test::new(&test)?;
        if let Some(reason) = test.excluded() {
            *excluded.entry(reason).or_default() += 1;
            continue;
        }
        let tally = suites.entry(test.suite().to_owned()).or_default();
        tally.applied += 1;
        match (test.outcome(), test.difference()) {
            (Ok(()), None) => tally.passed += 1,
            (Ok(()), Some(_)) => failures.push(format!("{}: no longer differs", test.name)),
            (Err(_), Some(_)) => tally.differ += 1,
            (Err(why), None) => failures.push(format!("{}: {}\n    {why}", test.name, test.text)),
        }
    }
    println!("{:<16} {:>7} {:>7} {:>7}", "suite", "applied", "passed", "differ");
    let mut total = Tally::default();
    for (name, tally) in &suites {
        println!("{name:<16} {:>7} {:>7} {:>7}", tally.applied, tally.passed, tally.differ);
        total.add(tally);
    }
    let share = total.passed as f64 / total.applied.max(1) as f64;
    println!("{:<16} {:>7} {:>7} {:>7}", "all", total.applied, total.passed, total.differ);
    println!("{:.2} % passed, {:.0} % required\n", share * 100.0, REQUIRED * 100.0);
    for (reason, count) in excluded {
        println!("excluded {count:>4}: {reason}");
    }
    for (text, reason) in DIFFERENCES {
        println!("differs: {text}\n    {reason}");
    }
    for failure in &failures {
        println!("failed: {failure}");
    }
    if !failures.is_empty() || share < REQUIRED {
        bail!("{} tests failed", failures.len());
    }
    Ok(())
}

#[derive(Default)]
struct Tally {
    applied: usize,
    passed: usize,
    differ: usize,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.applied += other.applied;
        self.passed += other.passed;
        self.differ += other.differ;
    }
}

/// Installs the package, and reads the tests from it.
fn tests() -> anyhow::Result<Vec<Value>> {
    let place = root().join("target/cel-spec");
    once(&place, &[PACKAGE], || must(npm(&place).arg(PACKAGE))).context("needs npm")?;
    fs::write(place.join("dump.mjs"), DUMP)?;
    let output =
        Command::new("node").arg("dump.mjs").current_dir(&place).output().context("needs node")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

struct Test<'t> {
    name: String,
    path: String,
    text: &'t str,
    source: &'t Value,
}

impl<'t> Test<'t> {
    fn new(source: &'t Value) -> anyhow::Result<Self> {
        let path: Vec<&str> =
            source["path"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let path = path.join("/");
        let name = format!("{path}/{}", source["name"].as_str().unwrap_or_default());
        let text = source["expr"].as_str().with_context(|| format!("{name} has no expression"))?;
        Ok(Self { name, path, text, source })
    }

    fn suite(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }

    fn excluded(&self) -> Option<&'static str> {
        let of = |(suite, _): &&(&str, &str)| {
            self.path == *suite
                || self.path.strip_prefix(suite).is_some_and(|rest| rest.starts_with('/'))
        };
        if let Some((_, reason)) = EXCLUDED.iter().find(of) {
            return Some(reason);
        }
        let whole =
            self.source.to_string().replace(&format!("{OBJECT}google.protobuf.Duration"), "");
        let messages = [
            "TestAllTypes",
            "objectValue",
            "enumValue",
            "cel.expr.",
            "cel.@",
            "proto.",
            "optional_type(",
        ];
        if messages.iter().any(|message| whole.contains(message)) {
            return Some("protocol buffers");
        }
        // The types of CEL's own that JSON does not have.
        let wrappers = ["Value", "Any", "Struct", "Empty"];
        let wrapped = |name: &&str| self.text.contains(&format!("{name}{{"));
        if self.text.contains("google.protobuf.") && wrappers.iter().any(wrapped) {
            return Some("protocol buffers");
        }
        if self.source["checkOnly"] == true {
            return Some("inferred types of CEL's checker, whose values other suites have");
        }
        None
    }

    fn difference(&self) -> Option<&'static str> {
        DIFFERENCES.iter().find(|(text, _)| *text == self.text).map(|(_, reason)| *reason)
    }

    /// What we answer that is not expected.
    fn outcome(&self) -> Result<(), String> {
        let found = self.evaluate("");
        if self.source.get("evalError").is_some() {
            return match found {
                Ok(value) => Err(format!("is {value}; an error was expected")),
                Err(_) => Ok(()),
            };
        }
        let typed = json!({"boolValue": true});
        let expected = self
            .source
            .get("value")
            .or_else(|| self.source["typedResult"].get("result"))
            .unwrap_or(&typed);
        let expected = Expected::of(expected)?;
        // JSON has no such numbers.
        let found = match &expected.value {
            Value::String(_) if expected.of == "double" => self.evaluate("string"),
            _ => found,
        };
        let found =
            found.map_err(|error| format!("failed: {error}; expected {}", expected.value))?;
        if !same(&found, &expected.value) {
            return Err(format!("is {found}; expected {}", expected.value));
        }
        let of = self.evaluate("type").map_err(|error| format!("has no type: {error}"))?;
        if expected.of != of.as_str().unwrap_or_default() {
            return Err(format!("is of type {of}; expected {}", expected.of));
        }
        Ok(())
    }

    /// The value of the expression, or of a function of it.
    fn evaluate(&self, function: &str) -> Result<Value, String> {
        let mut text = format!("{function}({}\n)", self.text);
        let mut scope = Map::new();
        let bindings = self.source["bindings"].as_object();
        for (name, bound) in bindings.into_iter().flatten() {
            let bound = bound.get("value").unwrap_or(bound);
            match literal(bound) {
                Some(literal) => text = format!("cel.bind({name}, {literal}, {text})"),
                None => nest(&mut scope, name, Expected::of(bound)?.value),
            }
        }
        let expr = Expr::parse(&text).map_err(|error| error.to_string())?;
        expr.evaluate(&scope, &mut Meter::default()).map_err(|error| error.to_string())
    }
}

/// Sets `a.b` in the map that is `a`.
fn nest(scope: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        Some((first, rest)) => {
            let inner = scope.entry(first).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                nest(inner, rest, value);
            }
        }
        None => {
            scope.insert(name.to_owned(), value);
        }
    }
}

/// Whether two values are equal; ints and doubles are not.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a.is_f64() == b.is_f64() && a.as_f64() == b.as_f64() && a.as_i64() == b.as_i64()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// A value of a test, as our JSON writes it.
struct Expected {
    of: &'static str,
    value: Value,
}

impl Expected {
    fn of(source: &Value) -> Result<Self, String> {
        let (kind, value) = source
            .as_object()
            .and_then(|object| object.iter().next())
            .ok_or("no value is expected")?;
        let made = |of, value| Ok(Self { of, value });
        match kind.as_str() {
            "nullValue" => made("null_type", Value::Null),
            "boolValue" => made("bool", value.clone()),
            "stringValue" => made("string", value.clone()),
            "bytesValue" => made("bytes", value.clone()),
            "int64Value" => {
                made("int", text(value).parse::<i64>().map_err(|error| error.to_string())?.into())
            }
            "uint64Value" => {
                made("uint", text(value).parse::<u64>().map_err(|error| error.to_string())?.into())
            }
            "doubleValue" => {
                made("double", value.as_f64().map_or_else(|| value.clone(), Value::from))
            }
            "typeValue" => made("type", value.clone()),
            "listValue" => {
                let values = value["values"].as_array().into_iter().flatten();
                let values: Result<Vec<Value>, String> =
                    values.map(|value| Ok(Self::of(value)?.value)).collect();
                made("list", values?.into())
            }
            "mapValue" => {
                let mut object = Map::new();
                for entry in value["entries"].as_array().into_iter().flatten() {
                    let key = Self::of(&entry["key"])?.value;
                    let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                    object.insert(key, Self::of(&entry["value"])?.value);
                }
                made("map", object.into())
            }
            other => Err(format!("unknown kind of value: {other}")),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A value as an expression writes it, for types that JSON does not have.
fn literal(source: &Value) -> Option<String> {
    let (kind, value) = source.as_object()?.iter().next()?;
    Some(match kind.as_str() {
        "uint64Value" => format!("{}u", text(value)),
        "doubleValue" => format!("double('{}')", text(value)),
        "bytesValue" => format!("base64.decode('{}')", text(value)),
        "objectValue" => format!("duration('{}')", text(&value["value"])),
        _ => return None,
    })
}
