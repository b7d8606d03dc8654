//! Spelling correction: typos, words that were joined or split, and other words of
//! the same family.

use std::collections::HashMap;

use super::synonyms;
use super::words::stem;

/// Maximum number of corrected words per query.
pub(super) const MAX_SLIPS: usize = 12;
/// Minimum length: shorter words have too many neighbours.
const SHORTEST: usize = 4;
/// Maximum length: people do not type longer words, and they are expensive to
/// compare.
const LONGEST: usize = 64;
/// Length from which two edits are tolerated.
const LONG: usize = 8;
/// Maximum number of candidates per word.
const MAX_NEAR: usize = 4;
/// Minimum length of a part when splitting a joined word.
const SHORTEST_PART: usize = 3;
/// What two words of a family begin with: so many letters, and such a share of the
/// longer one.
const FAMILY: usize = 5;
const FAMILY_SHARE: f32 = 0.6;

/// A word of the index, as spelled.
struct Spelling {
    text: Box<str>,
    stem: Box<str>,
    length: usize,
    /// Bit set of its letters, as a filter before the full comparison.
    letters: u32,
}

/// All words of an index. Terms are numbered in order of appearance.
#[derive(Default)]
pub(super) struct Lexicon {
    /// By spelling, so that no word is stemmed twice.
    spelled: HashMap<String, u32>,
    terms: HashMap<String, u32>,
    spellings: Vec<Spelling>,
}

impl Lexicon {
    /// The term id of a word; assigned if it is new.
    pub(super) fn intern(&mut self, word: &str) -> u32 {
        if let Some(term) = self.spelled.get(word) {
            return *term;
        }
        let stem = stem(word);
        self.add_spelling(word, &stem);
        let next = self.terms.len() as u32;
        let term = *self.terms.entry(stem).or_insert(next);
        self.spelled.insert(word.to_owned(), term);
        term
    }

    /// Number of terms.
    pub(super) fn len(&self) -> usize {
        self.terms.len()
    }

    /// The term of a stem.
    pub(super) fn term(&self, stem: &str) -> Option<u32> {
        self.terms.get(stem).copied()
    }

    /// Whether a word occurs with this spelling.
    pub(super) fn has(&self, word: &str) -> bool {
        self.spelled.contains_key(word)
    }

    /// Adds words with synonyms, so that their typos are corrected even if no
    /// tool has them.
    pub(super) fn close(&mut self) {
        for word in synonyms::all() {
            if !self.has(word) {
                self.add_spelling(word, &stem(word));
            }
        }
    }

    fn add_spelling(&mut self, word: &str, stem: &str) {
        if can_slip(word) {
            self.spellings.push(Spelling {
                text: word.into(),
                stem: stem.into(),
                length: word.chars().count(),
                letters: letters(word),
            });
        }
    }

    /// The stems of the likely intended words: the nearest ones, the two that were
    /// joined, or the family.
    pub(super) fn meant(&self, word: &str) -> Vec<&str> {
        if !can_slip(word) {
            return Vec::new();
        }
        let (length, own) = (word.chars().count(), letters(word));
        let far = if length >= LONG { 2 } else { 1 };
        let mut near: Vec<(usize, bool, &Spelling)> = (self.spellings.iter())
            .filter(|other| {
                other.length.abs_diff(length) <= far
                    && (other.letters ^ own).count_ones() as usize <= 2 * far
            })
            .filter_map(|other| {
                let distance = strsim::osa_distance(word, &other.text);
                let begins = word.chars().next() != other.text.chars().next();
                (distance <= far).then_some((distance, begins, other))
            })
            .collect();
        near.sort_unstable_by(|a, b| (a.0, a.1, &a.2.text).cmp(&(b.0, b.1, &b.2.text)));
        let Some((nearest, ..)) = near.first() else {
            let torn = self.torn(word);
            return if torn.is_empty() { self.family(word, length) } else { torn };
        };
        let nearest = *nearest;
        few(near
            .iter()
            .filter(|(distance, ..)| *distance == nearest)
            .map(|(.., other)| &*other.stem))
    }

    /// The words that begin like this one for longest.
    fn family(&self, word: &str, length: usize) -> Vec<&str> {
        let mut akin: Vec<(usize, &Spelling)> = (self.spellings.iter())
            .map(|other| (shared(word, &other.text), other))
            .filter(|(shared, other)| {
                *shared >= FAMILY
                    && *shared as f32 >= FAMILY_SHARE * length.max(other.length) as f32
            })
            .collect();
        akin.sort_unstable_by(|a, b| {
            (b.0, a.1.length, &a.1.text).cmp(&(a.0, b.1.length, &b.1.text))
        });
        let most = akin.first().map_or(0, |(shared, _)| *shared);
        few(akin.iter().filter(|(shared, _)| *shared == most).map(|(_, other)| &*other.stem))
    }

    /// Splits a joined word into two known words.
    fn torn(&self, word: &str) -> Vec<&str> {
        let stem_of = |part: &str| {
            let term = self.terms.get_key_value(&stem(part));
            self.has(part).then_some(term).flatten().map(|(stem, _)| stem.as_str())
        };
        let long_enough = |part: &str| part.chars().count() >= SHORTEST_PART;
        (word.char_indices().map(|(at, _)| word.split_at(at)))
            .filter(|(first, second)| long_enough(first) && long_enough(second))
            .find_map(|(first, second)| Some(vec![stem_of(first)?, stem_of(second)?]))
            .unwrap_or_default()
    }
}

/// The first few of these stems, without repetitions.
fn few<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut stems = Vec::new();
    for stem in all {
        if stems.len() < MAX_NEAR && !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    stems
}

/// The number of letters that two words begin with.
fn shared(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

/// Whether a word is a candidate for correction: long enough, and only letters.
fn can_slip(word: &str) -> bool {
    (SHORTEST..=LONGEST).contains(&word.len())
        && word.chars().all(|c| c.is_alphabetic() && !super::words::is_wide(c))
}

/// The letters of a word as bits.
fn letters(word: &str) -> u32 {
    word.chars().fold(0, |letters, c| letters | 1 << (c as u32 % 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_the_word_that_was_meant_and_strange_words_nothing() {
        let mut lexicon = Lexicon::default();
        for word in ["weather", "forecast", "calendar", "temperature", "file", "repository"] {
            lexicon.intern(word);
        }
        lexicon.close();
        for (slip, meant) in [
            ("weahter", "weather"),
            ("wether", "weather"),
            ("eather", "weather"),
            ("calender", "calendar"),
            ("tempreatrue", "temperature"),
            ("fiel", "file"),
            ("repositroy", "repository"),
        ] {
            assert!(lexicon.meant(slip).contains(&stem(meant).as_str()), "{slip}");
        }
        assert_eq!(lexicon.meant("weatherforecast"), [stem("weather"), stem("forecast")]);
        assert_eq!(lexicon.meant("repositorium"), [stem("repository")]);
        for strange in ["xyzzy", "qqqqqqqq", "abc", "12345", "天气", "", &"a".repeat(1_000_000)] {
            assert_eq!(lexicon.meant(strange), [""; 0], "{strange}");
        }
    }
}
