//! Tool search: how often it finds the right tool, and what it costs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
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
/// Questions of users, in the data of a package that `cargo xtask bench` installs; this
/// variable names the folder.
const LIVE_FOLDER: &str = "WINDLASS_BENCH_BFCL";
const LIVE_SETS: [&str; 4] =
    ["live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"];
/// Sets whose functions are distracting tools, too.
const LIVE_DISTRACTING: [&str; 2] = ["live_relevance", "live_irrelevance"];
/// Within how many results the right tool has to be, and how often, in per cent: for the
/// question as written, and with a typo in its longest word.
const FIRST: usize = 5;
const WANTED: f64 = 92.0;
const WITH_SLIP: f64 = 85.0;
const LIVE_WANTED: f64 = 90.0;
const LIVE_WITH_SLIP: f64 = 88.0;
const MILLIS: f64 = 5.0;

/// A question and the names of the tools that answer it.
struct Question {
    text: String,
    right: BTreeSet<String>,
}

impl Question {
    /// Whether it is of the half on which the weights and synonyms of the search were
    /// chosen. Questions of one tool are of one half (FNV-1a of its name).
    fn is_tuning(&self) -> bool {
        let name = self.right.first().map_or("", String::as_str);
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash ^ hash >> 32) & 1 == 0
    }
}

/// Measures the search, among many tools.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    anyhow::ensure!(
        Path::new(FUNCTIONS).is_dir() && Path::new(DOCUMENT).exists(),
        "{FUNCTIONS} is missing: the corpora stand beside the clone"
    );
    let (functions, questions) = read(Path::new(FUNCTIONS), &SETS, &[])?;
    let engine = Engine::builder().build()?;
    let read = import(
        "github",
        &std::fs::read_to_string(DOCUMENT)?,
        &ImportOptions::default(),
        Origin::default(),
    )?;
    let tools = read.tools.into_iter().map(|tool| Definition::from(tool.spec)).collect();
    engine.load_parsed(None, "github", Parsed { tools, ..Parsed::default() });
    let index = index_with(&engine, functions)?;
    let (plain, slipped) =
        (rate(&index, &questions, str::to_owned), rate(&index, &questions, with_slip));
    let look = || {
        timed(|| {
            for question in &questions {
                std::hint::black_box(index.find(&question.text));
            }
        })
    };
    let [all] = medians(5, [&mut || look()]);
    let one = all * 1e3 / questions.len() as f64;
    Ok(vec![
        Figure::new("right tool in the first 5 / 92 %", "%", plain, WANTED).at_least(1.0),
        Figure::new("the same with a slip / 85 %", "%", slipped, WITH_SLIP).at_least(1.0),
        Figure::new("a search over all tools / 5 ms", "ms", one, MILLIS).at_most(1.0),
    ])
}

/// Measures how often the search finds what users asked for.
pub(crate) fn live() -> anyhow::Result<Vec<Figure>> {
    let folder = std::env::var_os(LIVE_FOLDER).with_context(|| {
        format!("{LIVE_FOLDER} is not set: use `cargo xtask bench search-live`")
    })?;
    let (functions, questions) = read(Path::new(&folder), &LIVE_SETS, &LIVE_DISTRACTING)?;
    let index = index_with(&Engine::builder().build()?, functions)?;
    let all = rate(&index, &questions, str::to_owned);
    let slipped = rate(&index, &questions, with_slip);
    let (tuning, held_out): (Vec<Question>, Vec<Question>) =
        questions.into_iter().partition(Question::is_tuning);
    let half = |name, of: &[Question]| {
        Figure::new(name, "%", rate(&index, of, str::to_owned), LIVE_WANTED)
    };
    Ok(vec![
        Figure::new("users' questions, first 5 / 90 %", "%", all, LIVE_WANTED).at_least(1.0),
        half("- the half it was tuned on", &tuning),
        half("- the half held out", &held_out),
        Figure::new("- all, with a slip / 88 %", "%", slipped, LIVE_WITH_SLIP).at_least(1.0),
    ])
}

/// An index of these functions and what the engine has already.
fn index_with(
    engine: &Engine,
    functions: BTreeMap<String, ToolBuilder>,
) -> anyhow::Result<ToolIndex> {
    for tool in functions.into_values() {
        engine.registry().register(tool)?;
    }
    let start = Instant::now();
    let index = ToolIndex::new(engine.registry().list());
    let took = start.elapsed().as_secs_f64() * 1e3;
    println!("{} tools; the index is made in {took:.0} ms", engine.registry().len());
    Ok(index)
}

/// The share of questions whose right tool is among the first, in per cent.
fn rate(index: &ToolIndex, questions: &[Question], ask: impl Fn(&str) -> String) -> f64 {
    let found = questions.iter().filter(|question| {
        let found = index.find(&ask(&question.text));
        found.iter().take(FIRST).any(|(tool, _)| question.right.contains(tool.name().as_str()))
    });
    found.count() as f64 * 100.0 / questions.len() as f64
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

/// The functions and questions of these sets, and the functions of those that distract.
fn read(
    folder: &Path,
    sets: &[&str],
    distracting: &[&str],
) -> anyhow::Result<(BTreeMap<String, ToolBuilder>, Vec<Question>)> {
    let (mut tools, mut questions) = (BTreeMap::new(), Vec::new());
    for set in sets {
        let asked = lines(&folder.join(format!("BFCL_v4_{set}.json")))?;
        let answers = lines(&folder.join(format!("possible_answer/BFCL_v4_{set}.json")))?;
        for (asked, answer) in asked.iter().zip(&answers) {
            add_functions(&mut tools, asked);
            questions.push(question(asked, answer));
        }
    }
    for set in distracting {
        let asked = lines(&folder.join(format!("BFCL_v4_{set}.json")))?;
        asked.iter().for_each(|asked| add_functions(&mut tools, asked));
    }
    println!("{} questions", questions.len());
    Ok((tools, questions))
}

fn lines(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

fn add_functions(tools: &mut BTreeMap<String, ToolBuilder>, asked: &Value) {
    for function in asked["function"].as_array().into_iter().flatten() {
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
}

fn question(asked: &Value, answer: &Value) -> Question {
    let right = answer["ground_truth"].as_array().into_iter().flatten();
    let right = right.filter_map(Value::as_object).flat_map(|call| call.keys().cloned());
    let said = asked["question"][0].as_array().and_then(|messages| messages.last());
    let said = said.and_then(|message| message["content"].as_str());
    Question { text: said.unwrap_or_default().to_owned(), right: right.collect() }
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
