//! Tool search: how often it finds the right tool, and what it costs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use windlass::definition::{Definition, Parsed};
use windlass::{Engine, ToolBuilder, ToolIndex};
use windlass_executors::rest::{ImportOptions, Origin, import};

use crate::report::{Figure, medians, timed};

/// Functions, questions, and which functions answer them.
const FUNCTIONS: &str = "../shared/corpora/functions/bfcl";
const SETS: [&str; 4] = ["simple_python", "multiple", "parallel", "parallel_multiple"];
/// The document with distracting tools: GitHub's, some 1,200.
const DOCUMENT: &str = "../shared/corpora/openapi/real/github-3.0.json";
/// Within how many results the right tool has to be, and how often, in per cent: for the
/// question as written, and with a typo in its longest word.
const FIRST: usize = 5;
const WANTED: f64 = 92.0;
const WITH_SLIP: f64 = 85.0;
const MILLIS: f64 = 5.0;

/// A question and the names of the tools that answer it.
struct Question {
    text: String,
    right: BTreeSet<String>,
}

/// Measures the search.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    anyhow::ensure!(
        Path::new(FUNCTIONS).is_dir() && Path::new(DOCUMENT).exists(),
        "{FUNCTIONS} is missing: the corpora stand beside the clone"
    );
    let (functions, questions) = functions()?;
    let engine = Engine::builder().build()?;
    let read = import(
        "github",
        &std::fs::read_to_string(DOCUMENT)?,
        &ImportOptions::default(),
        Origin::default(),
    )?;
    let tools = read.tools.into_iter().map(|tool| Definition::from(tool.spec)).collect();
    engine.load_parsed(None, "github", Parsed { tools, ..Parsed::default() });
    for tool in functions.into_values() {
        engine.registry().register(tool)?;
    }
    let start = Instant::now();
    let index = ToolIndex::new(engine.registry().list());
    let built = start.elapsed().as_secs_f64() * 1e3;
    let rate = |ask: &dyn Fn(&str) -> String| {
        let found = questions.iter().filter(|question| {
            let found = index.find(&ask(&question.text));
            found.iter().take(FIRST).any(|(tool, _)| question.right.contains(tool.name().as_str()))
        });
        found.count() as f64 * 100.0 / questions.len() as f64
    };
    let (plain, slipped) = (rate(&str::to_owned), rate(&with_slip));
    let look = || {
        timed(|| {
            for question in &questions {
                std::hint::black_box(index.find(&question.text));
            }
        })
    };
    let [all] = medians(5, [&mut || look()]);
    let one = all * 1e3 / questions.len() as f64;
    println!(
        "{} questions, {} tools; the index is made in {built:.0} ms",
        questions.len(),
        engine.registry().len()
    );
    Ok(vec![
        Figure::new("right tool in the first 5 / 92 %", "%", plain, WANTED).at_least(1.0),
        Figure::new("the same with a slip / 85 %", "%", slipped, WITH_SLIP).at_least(1.0),
        Figure::new("a search over all tools / 5 ms", "ms", one, MILLIS).at_most(1.0),
    ])
}

/// The question with two letters swapped in the middle of its longest word.
fn with_slip(question: &str) -> String {
    let words = question.split_whitespace();
    let longest = words.filter(|word| word.bytes().all(|b| b.is_ascii_alphabetic()));
    let Some(word) = longest.max_by_key(|word| word.len()).filter(|word| word.len() > 3) else {
        return question.to_owned();
    };
    let mut letters: Vec<char> = word.chars().collect();
    let middle = letters.len() / 2;
    letters.swap(middle - 1, middle);
    question.replacen(word, &letters.into_iter().collect::<String>(), 1)
}

fn functions() -> anyhow::Result<(BTreeMap<String, ToolBuilder>, Vec<Question>)> {
    let mut tools = BTreeMap::new();
    let mut questions = Vec::new();
    for set in SETS {
        let read = |folder: &str| {
            std::fs::read_to_string(format!("{FUNCTIONS}/{folder}BFCL_v4_{set}.json"))
        };
        let (asked, answers) = (read("")?, read("possible_answer/")?);
        for (asked, answer) in asked.lines().zip(answers.lines()) {
            let (mut asked, answer): (Value, Value) =
                (serde_json::from_str(asked)?, serde_json::from_str(answer)?);
            let functions = asked["function"].take();
            for function in functions.as_array().into_iter().flatten() {
                let name = function["name"].as_str().unwrap_or_default();
                let about = function["description"].as_str().unwrap_or_default();
                let schema = schema(&function["parameters"]);
                let tool = ToolBuilder::from_fn(name, |_: Value| async { "" })
                    .description(about)
                    .with(|spec| spec.input = schema);
                if tool.check().is_ok() {
                    tools.entry(name.to_owned()).or_insert(tool);
                }
            }
            let right = answer["ground_truth"].as_array().into_iter().flatten();
            let right = right.filter_map(Value::as_object).flat_map(|call| call.keys().cloned());
            let said = asked["question"][0].as_array().and_then(|messages| messages.last());
            let said = said.and_then(|message| message["content"].as_str());
            questions.push(Question {
                text: said.unwrap_or_default().to_owned(),
                right: right.collect(),
            });
        }
    }
    Ok((tools, questions))
}

/// The part of a schema that a search looks at. The corpus has its own names for types,
/// so they are left out.
fn schema(written: &Value) -> Value {
    let parameters = written["properties"].as_object().into_iter().flatten();
    let parameters = parameters.map(|(name, parameter)| {
        let mut own = schema(parameter);
        own["description"] = parameter["description"].as_str().unwrap_or_default().into();
        if parameter["enum"].is_array() {
            own["enum"] = parameter["enum"].clone();
        }
        (name.clone(), own)
    });
    match parameters.collect::<serde_json::Map<_, _>>() {
        none if none.is_empty() => json!({}),
        all => json!({"type": "object", "properties": all}),
    }
}
