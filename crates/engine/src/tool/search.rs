//! Search for tools by keywords: BM25 over names, descriptions and parameters,
//! with domain synonyms and tolerance for typos.
//!
//! English words are stemmed, Chinese and Japanese are indexed as character
//! bigrams. No model and no network: an index of 2,000 tools is built within
//! the time of a call. Semantic search is the job of an [`Embedder`], whose
//! ranking the [`Finder`] fuses with this one.

mod embedding;
mod finder;
mod query;
mod spelling;
mod synonyms;
mod words;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

pub use embedding::Embedder;
pub(crate) use finder::Finder;

use crate::tool::{Tool, ToolSpec};
use crate::value::text::Text;
use query::{Query, QueryWord};
use spelling::Lexicon;
use words::{is_stop_word, quotations, tokens};

/// Usual constants of BM25.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// Field weights: name, description, parameters.
const NAME: f32 = 3.0;
const ABOUT: f32 = 1.0;
const PARAMETER: f32 = 0.5;
/// Weight of what a description quotes, against its other words: an example, mostly.
const EXAMPLE: f32 = 0.3;
/// Bonus for two words of a query that follow each other in a tool's name, too.
const PAIR: f32 = 0.5;
/// Maximum depth of nested parameters.
const MAX_DEPTH: usize = 4;

/// A keyword index of tools.
pub struct ToolIndex {
    tools: Vec<Arc<Tool>>,
    lexicon: Lexicon,
    /// Indexed by the term ids of the lexicon.
    terms: Vec<Term>,
    /// The tools in whose names two terms follow each other.
    pairs: HashMap<(u32, u32), Vec<u32>>,
}

/// A stemmed term.
#[derive(Default)]
struct Term {
    /// Inverse document frequency.
    rarity: f32,
    /// Postings: tools with the term, and its weight there.
    tools: Vec<(u32, f32)>,
}

impl ToolIndex {
    /// Builds an index of these tools.
    pub fn new(tools: impl IntoIterator<Item = Arc<Tool>>) -> Self {
        let tools: Vec<Arc<Tool>> = tools.into_iter().collect();
        let mut lexicon = Lexicon::default();
        let counted: Vec<HashMap<u32, f32>> =
            tools.iter().map(|tool| count(tool, &mut lexicon)).collect();
        let lengths: Vec<f32> = counted.iter().map(|words| words.values().sum()).collect();
        let average = (lengths.iter().sum::<f32>() / lengths.len().max(1) as f32).max(1.0);
        let mut terms: Vec<Term> = Vec::new();
        terms.resize_with(lexicon.len(), Term::default);
        for (at, words) in counted.into_iter().enumerate() {
            let length = K1 * (1.0 - B + B * lengths[at] / average);
            for (term, count) in words {
                let weight = count * (K1 + 1.0) / (count + length);
                terms[term as usize].tools.push((at as u32, weight));
            }
        }
        let all = tools.len() as f32;
        for term in &mut terms {
            let with = term.tools.len() as f32;
            term.rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
        }
        let pairs = pairs(&tools, &mut lexicon);
        lexicon.close();
        Self { tools, lexicon, terms, pairs }
    }

    /// The matching tools with their scores, best first.
    pub fn find(&self, query: &str) -> Vec<(&Arc<Tool>, f32)> {
        let mut found: Vec<(u32, f32)> = self
            .scores(query)
            .into_iter()
            .enumerate()
            .filter(|(_, score)| *score > 0.0)
            .map(|(at, score)| (at as u32, score))
            .collect();
        // Ties are broken by name.
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.into_iter().map(|(at, score)| (&self.tools[at as usize], score)).collect()
    }

    /// The score of each tool.
    fn scores(&self, query: &str) -> Vec<f32> {
        let mut scores = vec![0.0; self.tools.len()];
        // Per tool, the best of the terms that stand for a word.
        let mut best = vec![0.0; self.tools.len()];
        let query = Query::new(query, &self.lexicon);
        for QueryWord { own, terms } in query.words {
            let own_rarity = own.map(|term| self.terms[term as usize].rarity);
            for (term, counts) in &terms {
                let Term { rarity, tools } = &self.terms[*term as usize];
                // A synonym is worth no more than the word that was asked for.
                let rarity = own_rarity.map_or(*rarity, |own| own.min(*rarity));
                for (at, weight) in tools {
                    let best = &mut best[*at as usize];
                    *best = f32::max(*best, counts * rarity * weight);
                }
            }
            for (term, _) in &terms {
                for (at, _) in &self.terms[*term as usize].tools {
                    scores[*at as usize] += std::mem::take(&mut best[*at as usize]);
                }
            }
        }
        for pair in query.pairs {
            let rarity = |term: u32| self.terms[term as usize].rarity;
            let bonus = PAIR * (rarity(pair.0) + rarity(pair.1)) / 2.0;
            for at in self.pairs.get(&pair).into_iter().flatten() {
                scores[*at as usize] += bonus;
            }
        }
        scores
    }
}

/// The terms of a tool with their weights.
fn count(tool: &Tool, lexicon: &mut Lexicon) -> HashMap<u32, f32> {
    let mut counted = HashMap::new();
    texts(tool, &mut |text, weight| {
        for (part, quoted) in quotations(text) {
            let weight = if quoted { weight * EXAMPLE } else { weight };
            for word in tokens(part).iter().filter(|word| !is_stop_word(word)) {
                *counted.entry(lexicon.intern(word)).or_default() += weight;
            }
        }
    });
    counted
}

/// The pairs of terms that follow each other in the names of tools.
fn pairs(tools: &[Arc<Tool>], lexicon: &mut Lexicon) -> HashMap<(u32, u32), Vec<u32>> {
    let mut pairs: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
    for (at, tool) in tools.iter().enumerate() {
        let words = tokens(tool.name().as_str());
        let words = words.iter().filter(|word| !is_stop_word(word));
        let terms: Vec<u32> = words.map(|word| lexicon.intern(word)).collect();
        for pair in terms.windows(2) {
            let known = pairs.entry((pair[0], pair[1])).or_default();
            if known.last() != Some(&(at as u32)) {
                known.push(at as u32);
            }
        }
    }
    pairs
}

/// All texts about a tool with their weights.
fn texts(tool: &Tool, add: &mut impl FnMut(&str, f32)) {
    let ToolSpec { name, label, description, tags, .. } = tool.spec();
    add(name.as_str(), NAME);
    label.iter().flat_map(all).for_each(|text| add(text, ABOUT));
    all(description).for_each(|text| add(text, ABOUT));
    tags.iter().for_each(|tag| add(tag, ABOUT));
    for parameter in tool.spec().parameters.values() {
        let texts = parameter.label.iter().chain(&parameter.help);
        texts.flat_map(all).for_each(|text| add(text, PARAMETER));
    }
    parameters(tool.model_schema(), 0, &mut |text| add(text, PARAMETER));
}

/// A text in all its languages.
fn all(text: &Text) -> impl Iterator<Item = &str> {
    let (one, many) = match text {
        Text::One(text) => (Some(text), None),
        Text::Many(texts) => (None, Some(texts.values())),
    };
    one.into_iter().chain(many.into_iter().flatten()).map(String::as_str)
}

/// The names, descriptions and allowed values of parameters.
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
