//! Tokeniser, stop words and a light stemmer.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Stop words, dropped from tools and queries.
const STOP: &[&str] = &[
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "could",
    "did", "do", "does", "each", "for", "from", "give", "had", "has", "have", "how", "i", "if",
    "in", "into", "is", "it", "its", "know", "let", "like", "may", "me", "might", "must", "my",
    "need", "no", "not", "of", "on", "or", "our", "please", "shall", "should", "some", "tell",
    "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those",
    "to", "us", "use", "used", "using", "want", "was", "we", "what", "when", "where", "which",
    "who", "why", "will", "with", "would", "you", "your",
];

/// Filler words of requests. They may be what a tool is about, but have little
/// weight in a query.
const LIGHT: &str = "\
    able actually after again almost already also although am another answer anyone anywhere \
    around assist associated available based because before being best between big bit both \
    bring call called came check checking come concerning consider curious day decide detail \
    details different down during either else end enjoy enough etc evening ever every everyone \
    explore fast featuring feel feeling few find first following forget forgot friend friends \
    get getting given go going good got great having he hello help her here hers hey hi high \
    him his hope hopefully however include included including info information instead interest \
    interested involving just keep kept kind kindly left likely little long look looking lot \
    love low make many maybe mind mine month mood more morning most much myself name named near \
    needed needs neither new next nice night now off okay one only option options other out \
    over own people perhaps person place plan planning possible possibly prefer preferably \
    pretty previously probably provide put question quick quickly quite rather really recently \
    regarding related require required requires right said same say says second see set she \
    short show since small so somebody someone something somewhere soon sort specific start \
    still such suggest sure take thank thanks thing things think though three today tomorrow \
    tonight too try trying turn turned two type under until up very wanted wants way week \
    weekend well were whether while wish within wondering work working works year yes yesterday";

/// Maximum number of words of a text.
pub(super) const MAX_WORDS: usize = 5_000;
/// Maximum length of a quotation, in bytes: what is longer is a text of its own.
const MAX_QUOTED: usize = 200;
/// Quotation marks that open, and those that close them.
const QUOTES: &[(char, char)] =
    &[('\'', '\''), ('"', '"'), ('`', '`'), ('“', '”'), ('‘', '’'), ('「', '」'), ('《', '》')];

/// English suffixes, and the minimum length of the remaining stem. The first
/// match is removed or replaced.
const ENDINGS: &[(&str, &str, usize)] = &[
    ("ations", "", 4),
    ("ation", "", 4),
    ("ators", "", 4),
    ("ator", "", 4),
    ("ating", "", 4),
    ("ated", "", 4),
    ("ates", "", 4),
    ("ate", "", 4),
    ("ies", "y", 3),
    ("ings", "", 3),
    ("ing", "", 3),
    ("edly", "", 4),
    ("ally", "", 4),
    ("ers", "", 4),
    ("er", "", 4),
    ("ors", "", 4),
    ("or", "", 4),
    ("ments", "", 4),
    ("ment", "", 4),
    ("ions", "", 4),
    ("ion", "", 4),
    ("ied", "y", 3),
    ("ed", "", 3),
    ("es", "", 3),
    ("ly", "", 4),
];

/// The tokens of a text in lower case: parts of `camelCase` and `snake_case`,
/// bigrams for languages without spaces. Includes stop words.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before: Option<char> = None;
    for c in text.chars() {
        if words.len() >= MAX_WORDS {
            break;
        }
        let is_wide = is_wide(c);
        // `camelCase` is two words.
        let begins = c.is_uppercase() && before.is_some_and(|before| before.is_lowercase());
        if (is_wide || begins || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if is_wide {
            match before.filter(|before| self::is_wide(*before)) {
                Some(before) => words.push([before, c].iter().collect()),
                // A single character is a token, too.
                None => words.push(c.to_string()),
            }
        } else if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Splits a text at its quotation marks: each part, and whether it is quoted. An
/// apostrophe within a word is none.
pub(super) fn quotations(text: &str) -> Vec<(&str, bool)> {
    let (mut parts, mut plain, mut from) = (Vec::new(), 0, 0);
    while let Some((at, open, close)) = opening(text, from) {
        let begin = at + open.len_utf8();
        match closing(text, begin, close) {
            Some(end) => {
                parts.push((&text[plain..at], false));
                parts.push((&text[begin..end], true));
                plain = end + close.len_utf8();
                from = plain;
            }
            None => from = begin,
        }
    }
    parts.push((&text[plain..], false));
    parts
}

/// The next mark that may open a quotation, and the one that would close it.
fn opening(text: &str, from: usize) -> Option<(usize, char, char)> {
    let mut before = text[..from].chars().next_back();
    text[from..].char_indices().find_map(|(at, c)| {
        let begins = !before.replace(c).is_some_and(char::is_alphanumeric);
        let mark = QUOTES.iter().find(|(open, _)| *open == c).filter(|_| begins || !c.is_ascii());
        mark.map(|(open, close)| (from + at, *open, *close))
    })
}

/// Where the quotation ends that begins here.
fn closing(text: &str, begin: usize, close: char) -> Option<usize> {
    let near = text[begin..].char_indices().take_while(|(at, _)| *at <= MAX_QUOTED);
    let ends = |end: usize| {
        let after = text[end + close.len_utf8()..].chars().next();
        !close.is_ascii() || !after.is_some_and(char::is_alphanumeric)
    };
    near.filter(|(_, c)| *c == close).map(|(at, _)| begin + at).find(|end| ends(*end))
}

/// Whether a word of a query is a path, an address or the like: an argument.
pub(super) fn is_path(word: &str) -> bool {
    word.contains("://") || word.contains(['\\', '@']) || word.matches('/').nth(1).is_some()
}

/// Whether a word is a stop word.
pub(super) fn is_stop_word(word: &str) -> bool {
    STOP.binary_search(&word).is_ok()
}

/// Whether a word of a query is likely a filler; single letters are.
pub(super) fn is_light(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| LIGHT.split(' ').collect());
    word.len() == 1 || WORDS.contains(word)
}

/// Light stemmer for English: what matters is that queries and descriptions get
/// the same stem.
pub(super) fn stem(word: &str) -> String {
    if !word.bytes().all(|b| b.is_ascii_alphabetic()) {
        return word.to_owned();
    }
    let fits = |(ending, _, least): &&(&str, &str, usize)| {
        word.ends_with(ending) && word.len() - ending.len() >= *least
    };
    let mut stem = match ENDINGS.iter().find(fits) {
        Some((ending, instead, _)) => format!("{}{instead}", &word[..word.len() - ending.len()]),
        None => {
            let is_plural = word.len() > 3 && word.ends_with('s');
            let is_part = word.ends_with("ss") || word.ends_with("us");
            word[..word.len() - usize::from(is_plural && !is_part)].to_owned()
        }
    };
    if stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    // `cancelled` has the stem of `cancel`.
    if let [.., before, last] = stem.as_bytes()
        && stem.len() > 3
        && before == last
    {
        stem.pop();
    }
    if stem.len() > 3 && stem.ends_with('y') {
        stem.pop();
        stem.push('i');
    }
    stem
}

/// Whether a character belongs to a script without spaces.
pub(super) fn is_wide(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let tokens = tokens(text).into_iter();
        tokens.filter(|word| !is_stop_word(word)).map(|word| stem(&word)).collect()
    }

    #[test]
    fn names_and_sentences_come_to_the_same_words() {
        assert_eq!(words("createIssueComments"), ["creat", "issu", "comment"]);
        assert_eq!(words("Creating a comment on the issues"), ["creat", "comment", "issu"]);
        assert_eq!(words("triangle_properties.get"), ["triangl", "properti", "get"]);
        assert_eq!(words("translation translates translator"), ["transl"; 3]);
        assert_eq!(words("查询天气 API"), ["查", "查询", "询天", "天气", "api"]);
        assert_eq!(words("cancelled cancels cancel"), ["cancel"; 3]);
        assert_eq!(words(""), [""; 0]);
        assert!(STOP.is_sorted() && is_light("looking") && is_light("yesterday") && is_light("c"));
        assert!(LIGHT.split(' ').all(|word| tokens(word) == [word] && !is_stop_word(word)));
    }

    #[test]
    fn quotations_are_told_from_apostrophes() {
        let quoted = |text: &'static str| -> Vec<&str> {
            quotations(text).iter().filter(|(_, quoted)| *quoted).map(|(part, _)| *part).collect()
        };
        assert_eq!(quoted("mark 'Send it' and \"Pay\" as done"), ["Send it", "Pay"]);
        assert_eq!(quoted("the user's and Ada's 'own list'"), ["own list"]);
        assert_eq!(quoted("把“买牛奶”加入「购物」"), ["买牛奶", "购物"]);
        assert_eq!(quoted("isn't it 'open"), [""; 0]);
        assert_eq!(quoted("''"), [""]);
        for text in ["", "'", "a 'b' c", "“天 气", "\"x\"\"y\""] {
            let parts: String = quotations(text).iter().map(|(part, _)| *part).collect();
            let marks = |c: &char| !QUOTES.iter().any(|(open, close)| open == c || close == c);
            let [parts, text]: [String; 2] =
                [&parts, text].map(|text| text.chars().filter(marks).collect());
            assert_eq!(parts, text);
        }
        // Linear in the length of the text.
        assert_eq!(quotations(&" 'a".repeat(300_000)).len(), 1);
    }
}
