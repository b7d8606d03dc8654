//! A query as weighted terms of an index.

use std::collections::HashSet;

use super::spelling::{Lexicon, MAX_SLIPS};
use super::synonyms;
use super::words::{MAX_WORDS, is_light, is_path, is_stop_word, quotations, stem, tokens};

/// Weights of filler words, numbers, synonyms, and corrected spellings.
const LIGHT: f32 = 0.3;
const NUMBER: f32 = 0.5;
const SYNONYM: f32 = 0.3;
const SLIP: f32 = 0.7;
/// Weights of words in quotation marks and of parts of paths and addresses: they are
/// rather arguments than what a tool is about.
const QUOTED: f32 = 0.5;
const PATH: f32 = 0.3;
/// Weights of two words that are one in the index, and of such stop words.
const JOINED: f32 = 0.7;
const JOINED_STOP: f32 = 0.2;

/// A query, by the terms of an index.
pub(super) struct Query {
    pub(super) words: Vec<QueryWord>,
    /// Terms that follow each other.
    pub(super) pairs: HashSet<(u32, u32)>,
}

/// A word of a query: the terms that stand for it. A tool is scored by the best
/// of them.
pub(super) struct QueryWord {
    /// The term of the word itself, if it is in the index.
    pub(super) own: Option<u32>,
    /// Terms with their weights.
    pub(super) terms: Vec<(u32, f32)>,
}

impl Query {
    pub(super) fn new(question: &str, lexicon: &Lexicon) -> Self {
        let tokens = weighted_tokens(question);
        let said = tokens.iter().filter(|(word, _)| !is_stop_word(word));
        let known: Vec<u32> =
            said.clone().filter_map(|(word, _)| lexicon.term(&stem(word))).collect();
        let pairs = known.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let mut words: Vec<(String, f32)> = said.cloned().chain(joined(&tokens, lexicon)).collect();
        // A word that is said twice counts as where it counts most.
        words.sort_by(|a, b| b.1.total_cmp(&a.1));
        Self { words: query_words(words, lexicon), pairs }
    }
}

/// The tokens of a query, weighted by where they stand.
fn weighted_tokens(question: &str) -> Vec<(String, f32)> {
    let mut weighted = Vec::new();
    for (part, quoted) in quotations(question) {
        for word in part.split_whitespace() {
            let weight = match () {
                () if quoted => QUOTED,
                () if is_path(word) => PATH,
                () => 1.0,
            };
            weighted.extend(tokens(word).into_iter().map(|token| (token, weight)));
            if weighted.len() >= MAX_WORDS {
                return weighted;
            }
        }
    }
    weighted
}

/// Pairs of tokens that are one word in the index: `to do` finds `todo`.
fn joined(tokens: &[(String, f32)], lexicon: &Lexicon) -> impl Iterator<Item = (String, f32)> {
    tokens.windows(2).filter_map(|pair| {
        let [(first, _), (second, _)] = pair else { return None };
        let joined = [first.as_str(), second].concat();
        let stop = is_stop_word(first) && is_stop_word(second);
        lexicon.has(&joined).then_some((joined, if stop { JOINED_STOP } else { JOINED }))
    })
}

/// The terms of each word.
fn query_words(words: Vec<(String, f32)>, lexicon: &Lexicon) -> Vec<QueryWord> {
    let (mut seen, mut slips) = (HashSet::new(), 0);
    let mut query_words = Vec::new();
    for (word, weight) in words {
        let stem = stem(&word);
        if !seen.insert(stem.clone()) {
            continue;
        }
        let counts = match () {
            () if is_light(&word) => LIGHT * weight,
            () if word.contains(|c: char| c.is_ascii_digit()) => NUMBER * weight,
            () => weight,
        };
        let mut terms = Vec::new();
        let own = lexicon.term(&stem);
        terms.extend(own.map(|term| (term, counts)));
        add_synonyms(&stem, counts, lexicon, &mut terms);
        if own.is_none() && synonyms::of(&stem).is_empty() && slips < MAX_SLIPS {
            slips += 1;
            for meant in lexicon.meant(&word) {
                terms.extend(lexicon.term(meant).map(|term| (term, counts * SLIP)));
                add_synonyms(meant, counts * SLIP, lexicon, &mut terms);
            }
        }
        if !terms.is_empty() {
            query_words.push(QueryWord { own, terms });
        }
    }
    query_words
}

fn add_synonyms(stem: &str, counts: f32, lexicon: &Lexicon, terms: &mut Vec<(u32, f32)>) {
    let known = synonyms::of(stem).iter().filter_map(|mate| lexicon.term(mate));
    terms.extend(known.map(|term| (term, counts * SYNONYM)));
}
