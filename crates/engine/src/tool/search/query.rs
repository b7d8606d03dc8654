//! A query as weighted terms of an index.

use std::collections::HashSet;

use super::spelling::{Lexicon, MAX_SLIPS};
use super::synonyms;
use super::words::{is_light, is_stop_word, stem, tokens};

/// Weights of filler words, numbers, synonyms, and corrected spellings.
const LIGHT: f32 = 0.3;
const NUMBER: f32 = 0.5;
const SYNONYM: f32 = 0.3;
const SLIP: f32 = 0.7;

/// A word of a query: the terms that stand for it. A tool is scored by the best
/// of them.
pub(super) struct QueryWord {
    /// The term of the word itself, if it is in the index.
    pub(super) own: Option<u32>,
    /// Terms with their weights.
    pub(super) terms: Vec<(u32, f32)>,
}

/// The words of a query.
pub(super) fn query_words(question: &str, lexicon: &Lexicon) -> Vec<QueryWord> {
    let tokens = tokens(question);
    let joined = tokens.windows(2).filter_map(|pair| {
        let joined = pair.concat();
        // `to do` finds `todo`.
        lexicon.has(&joined).then_some(joined)
    });
    let words = tokens.iter().filter(|word| !is_stop_word(word)).cloned().chain(joined);
    let (mut seen, mut slips) = (HashSet::new(), 0);
    let mut query_words = Vec::new();
    for word in words {
        let stem = stem(&word);
        if !seen.insert(stem.clone()) {
            continue;
        }
        let counts = match () {
            () if is_light(&word) => LIGHT,
            () if word.contains(|c: char| c.is_ascii_digit()) => NUMBER,
            () => 1.0,
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
