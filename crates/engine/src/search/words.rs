//! Texts as words that can be compared.

/// Words that say nothing about a tool.
const EMPTY: &[&str] = &[
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "could",
    "did", "do", "does", "each", "find", "for", "from", "get", "give", "had", "has", "have", "how",
    "i", "if", "in", "into", "is", "it", "its", "know", "let", "like", "may", "me", "might",
    "must", "my", "need", "no", "not", "of", "on", "or", "our", "please", "shall", "should",
    "show", "some", "tell", "than", "that", "the", "their", "them", "then", "there", "these",
    "they", "this", "those", "to", "us", "use", "used", "using", "want", "was", "we", "what",
    "when", "where", "which", "who", "why", "will", "with", "would", "you", "your",
];

/// More is no name and no question.
const MAX_WORDS: usize = 5_000;

/// The words of a text: without endings, and pairs of characters where a
/// language has no spaces.
pub(super) fn words(text: &str) -> Vec<String> {
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
        if is_wide || begins || !c.is_alphanumeric() {
            end(&mut word, &mut words);
        }
        if is_wide {
            match before.filter(|before| self::is_wide(*before)) {
                Some(before) => words.push([before, c].iter().collect()),
                // A character that stands alone is found, too.
                None => words.push(c.to_string()),
            }
        } else if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    end(&mut word, &mut words);
    words
}

fn end(word: &mut String, words: &mut Vec<String>) {
    let word = std::mem::take(word);
    if !word.is_empty() && EMPTY.binary_search(&word.as_str()).is_err() {
        words.push(stem(word));
    }
}

/// The word without the endings of English, roughly: what matters is that a
/// question and a description come to the same.
fn stem(mut word: String) -> String {
    let length = word.len();
    if !word.is_ascii() {
        return word;
    }
    if length > 5 && word.ends_with("ies") {
        word.truncate(length - 3);
        word.push('y');
        return word;
    }
    let ending = match () {
        () if length > 5 && word.ends_with("ing") => 3,
        () if length > 4 && (word.ends_with("ed") || word.ends_with("es")) => 2,
        () if length > 3 && word.ends_with('s') && !word.ends_with("ss") => 1,
        () => 0,
    };
    word.truncate(length - ending);
    if word.len() > 4 && word.ends_with('e') {
        word.pop();
    }
    // `cancelled` is what `cancel` is.
    if let [.., before, last] = word.as_bytes()
        && word.len() > 3
        && before == last
    {
        word.pop();
    }
    word
}

/// Whether a character belongs to a language without spaces.
fn is_wide(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sentences_come_to_the_same_words() {
        assert_eq!(words("createIssueComments"), ["creat", "issu", "comment"]);
        assert_eq!(words("Creating a comment on the issues"), ["creat", "comment", "issu"]);
        assert_eq!(words("triangle_properties.get"), ["triangl", "property"]);
        assert_eq!(words("查询天气 API"), ["查", "查询", "询天", "天气", "api"]);
        assert_eq!(words("cancelled cancels cancel"), ["cancel"; 3]);
        assert_eq!(words(""), [""; 0]);
        assert!(EMPTY.is_sorted());
    }
}
