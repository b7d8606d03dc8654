//! Finds tools by words: BM25 over their names, descriptions and parameters.
//!
//! Words of European languages are compared without their endings, Chinese and
//! Japanese by pairs of characters. No model and no network: the index of 2,000
//! tools is made in the time of a call.

mod words;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::text::Text;
use crate::tool::{Tool, ToolSpec};
use words::words;

/// The usual constants of BM25.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// What a word counts in the name, in what is said about the tool, and in its
/// parameters.
const NAME: f32 = 3.0;
const ABOUT: f32 = 1.0;
const PARAMETER: f32 = 0.5;
/// How deep parameters of parameters are looked at.
const MAX_DEPTH: usize = 4;

/// Tools, to be found by words.
pub struct ToolIndex {
    tools: Vec<Arc<Tool>>,
    /// For each word, the tools that have it and what it counts there.
    postings: HashMap<String, Vec<(u32, f32)>>,
}

impl ToolIndex {
    /// An index of these tools.
    pub fn new(tools: impl IntoIterator<Item = Arc<Tool>>) -> Self {
        let tools: Vec<Arc<Tool>> = tools.into_iter().collect();
        let counted: Vec<HashMap<String, f32>> = tools.iter().map(|tool| count(tool)).collect();
        let lengths: Vec<f32> = counted.iter().map(|words| words.values().sum()).collect();
        let average = (lengths.iter().sum::<f32>() / lengths.len().max(1) as f32).max(1.0);
        let mut postings: HashMap<String, Vec<(u32, f32)>> = HashMap::new();
        for (at, words) in counted.into_iter().enumerate() {
            let length = K1 * (1.0 - B + B * lengths[at] / average);
            for (word, count) in words {
                let weight = count * (K1 + 1.0) / (count + length);
                postings.entry(word).or_default().push((at as u32, weight));
            }
        }
        let all = tools.len() as f32;
        for found in postings.values_mut() {
            let with = found.len() as f32;
            let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            found.iter_mut().for_each(|(_, weight)| *weight *= rarity);
        }
        Self { tools, postings }
    }

    /// The tools that fit these words, best first, and how well they do.
    pub fn find(&self, query: &str) -> Vec<(&Arc<Tool>, f32)> {
        let mut asked = words(query);
        asked.sort_unstable();
        asked.dedup();
        let mut scores: HashMap<u32, f32> = HashMap::new();
        for (at, weight) in asked.iter().filter_map(|word| self.postings.get(word)).flatten() {
            *scores.entry(*at).or_default() += weight;
        }
        let mut found: Vec<(u32, f32)> = scores.into_iter().collect();
        // Where two fit equally well, the order is that of their names.
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.into_iter().map(|(at, score)| (&self.tools[at as usize], score)).collect()
    }
}

/// The words of a tool, and what each counts.
fn count(tool: &Tool) -> HashMap<String, f32> {
    let ToolSpec { name, label, description, tags, .. } = tool.spec();
    let mut counted = HashMap::new();
    let mut add = |text: &str, weight: f32| {
        for word in words(text) {
            *counted.entry(word).or_default() += weight;
        }
    };
    add(name.as_str(), NAME);
    label.iter().flat_map(all).for_each(|text| add(text, ABOUT));
    all(description).for_each(|text| add(text, ABOUT));
    tags.iter().for_each(|tag| add(tag, ABOUT));
    for parameter in tool.spec().parameters.values() {
        let texts = parameter.label.iter().chain(&parameter.help);
        texts.flat_map(all).for_each(|text| add(text, PARAMETER));
    }
    parameters(tool.model_schema(), 0, &mut |text| add(text, PARAMETER));
    counted
}

/// A text in all its languages.
fn all(text: &Text) -> impl Iterator<Item = &str> {
    let (one, many) = match text {
        Text::One(text) => (Some(text), None),
        Text::Many(texts) => (None, Some(texts.values())),
    };
    one.into_iter().chain(many.into_iter().flatten()).map(String::as_str)
}

/// The names and descriptions of parameters, and the values that they may have.
fn parameters(schema: &Value, depth: usize, add: &mut impl FnMut(&str)) {
    if depth == MAX_DEPTH {
        return;
    }
    for (name, parameter) in schema["properties"].as_object().into_iter().flatten() {
        add(name);
        add(parameter["description"].as_str().unwrap_or_default());
        let values = parameter["enum"].as_array().into_iter().flatten();
        values.filter_map(Value::as_str).for_each(&mut *add);
        parameters(parameter, depth + 1, add);
        parameters(&parameter["items"], depth + 1, add);
    }
}
