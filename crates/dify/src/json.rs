//! JSON as people and models write it: quotes forgotten, commas too many or too few, line
//! breaks in texts, the end missing.
//!
//! Bodies of http-request nodes are templates, and answers of models are prose around an
//! object; both are repaired the way their authors are used to.

use serde_json::{Map, Number, Value};

/// How deep a value may nest.
const MAX_DEPTH: usize = 60;

/// Reads JSON, repaired where it is not; `None` if nothing in it is a value.
pub(crate) fn parse(text: &str) -> Option<Value> {
    let text = text.trim();
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let start = text.find(['{', '['])?;
    let mut reader = Reader { rest: &text[start..] };
    reader.value(0)
}

/// The first object in a text that is read strictly, as Dify looks for it in answers.
pub(crate) fn first_object(text: &str) -> Option<Map<String, Value>> {
    let mut from = 0;
    // Each try costs what is left of the text.
    for _ in 0..200 {
        let start = from + text[from..].find(['{', '['])?;
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        if let Some(Ok(Value::Object(object))) = values.next() {
            return Some(object);
        }
        from = start + 1;
    }
    None
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
        while let Some(comment) = self.rest.strip_prefix("//") {
            self.rest = comment.find('\n').map_or("", |end| comment[end..].trim_start());
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self) {
        let mut chars = self.rest.chars();
        chars.next();
        self.rest = chars.as_str();
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.blanks();
        match self.peek()? {
            _ if depth > MAX_DEPTH => None,
            '{' => self.object(depth),
            '[' => self.list(depth),
            quote @ ('"' | '\'' | '“') => Some(Value::String(self.text(quote, true))),
            _ => Some(word(self.bare())),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.skip();
        let mut object = Map::new();
        loop {
            self.blanks();
            match self.peek() {
                None => break,
                Some('}') => {
                    self.skip();
                    break;
                }
                Some(',' | ';') => self.skip(),
                Some(']') => break,
                Some(quote @ ('"' | '\'' | '“')) => {
                    let key = self.text(quote, false);
                    self.entry(key, &mut object, depth)?;
                }
                Some(_) => {
                    let end = self.rest.find([':', ',', '}', '\n']).unwrap_or(self.rest.len());
                    let key = self.rest[..end].trim().to_owned();
                    self.rest = &self.rest[end..];
                    if key.is_empty() {
                        self.skip();
                        continue;
                    }
                    self.entry(key, &mut object, depth)?;
                }
            }
        }
        Some(Value::Object(object))
    }

    fn entry(&mut self, key: String, object: &mut Map<String, Value>, depth: usize) -> Option<()> {
        self.blanks();
        if self.peek() == Some(':') {
            self.skip();
        }
        self.blanks();
        let value = match self.peek() {
            None | Some(',' | '}') => Value::String(String::new()),
            Some(_) => self.value(depth + 1)?,
        };
        object.insert(key, value);
        Some(())
    }

    fn list(&mut self, depth: usize) -> Option<Value> {
        self.skip();
        let mut items = Vec::new();
        loop {
            self.blanks();
            match self.peek() {
                None => break,
                Some(']') => {
                    self.skip();
                    break;
                }
                Some(',' | ';' | ':') => self.skip(),
                Some('}') => break,
                Some(_) => items.push(self.value(depth + 1)?),
            }
        }
        Some(Value::Array(items))
    }

    /// A text in quotes. A quote ends it only where something can follow it, so that
    /// quotes in a text that was put in by a template do no harm.
    fn text(&mut self, quote: char, is_value: bool) -> String {
        let close = if quote == '“' { '”' } else { quote };
        self.skip();
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.skip();
            match c {
                '\\' => match self.peek() {
                    Some('n') => self.take(&mut text, '\n'),
                    Some('t') => self.take(&mut text, '\t'),
                    Some('r') => self.take(&mut text, '\r'),
                    Some('b') => self.take(&mut text, '\u{8}'),
                    Some('f') => self.take(&mut text, '\u{c}'),
                    Some('u') => {
                        let code = self.rest.get(1..5);
                        let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
                        match code.and_then(char::from_u32) {
                            Some(c) => {
                                text.push(c);
                                self.rest = &self.rest[5..];
                            }
                            None => text.push('\\'),
                        }
                    }
                    Some(c) => self.take(&mut text, c),
                    None => {}
                },
                c if c == close && self.ends_here(is_value) => break,
                c => text.push(c),
            }
        }
        text
    }

    fn take(&mut self, text: &mut String, c: char) {
        text.push(c);
        self.skip();
    }

    fn ends_here(&self, is_value: bool) -> bool {
        let after = self.rest.trim_start();
        match after.chars().next() {
            None | Some('}' | ']') => true,
            Some(':') => !is_value,
            Some(',') => true,
            // The comma was forgotten.
            Some('"') => is_value && self.rest.starts_with(['\n', '\r']),
            _ => false,
        }
    }

    /// A word without quotes.
    fn bare(&mut self) -> &str {
        let end = self.rest.find([',', '}', ']', '\n']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.trim()
    }
}

fn word(word: &str) -> Value {
    match word {
        "true" | "True" => Value::Bool(true),
        "false" | "False" => Value::Bool(false),
        "null" | "None" => Value::Null,
        _ => match (word.parse::<i64>(), word.parse::<f64>()) {
            (Ok(int), _) => int.into(),
            (_, Ok(float)) if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                Number::from_f64(float).map_or(Value::Null, Value::Number)
            }
            _ => Value::String(word.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_people_and_models_write_is_read() {
        for (text, expected) in [
            (r#"{"a": 1}"#, json!({"a": 1})),
            ("5", json!(5)),
            ("{'a': 'b', c: d,}", json!({"a": "b", "c": "d"})),
            ("{\"a\": \"line\nbreak\"}", json!({"a": "line\nbreak"})),
            (
                r#"{"a": "she said "hi" to me", "b": [1, 2,]}"#,
                json!({"a": "she said \"hi\" to me", "b": [1, 2]}),
            ),
            (r#"{"a": True, "b": None, "c": 1.5"#, json!({"a": true, "b": null, "c": 1.5})),
            ("Here it is:\n```json\n{\"a\": [\"x\"]}\n```", json!({"a": ["x"]})),
            ("{\"a\": }", json!({"a": ""})),
            ("{\"a\": 1\n\"b\": 2}", json!({"a": 1, "b": 2})),
            (r#"{"a": "\u4e2d\n"}"#, json!({"a": "中\n"})),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        assert_eq!(parse("no value"), None);
        assert_eq!(parse(&"[".repeat(10_000)), None);
        assert_eq!(
            first_object("[1] {x} {\"k\": 2} {\"k\": 3}"),
            json!({"k": 2}).as_object().cloned()
        );
    }

    #[test]
    fn long_texts_of_brackets_take_no_time() {
        let started = std::time::Instant::now();
        for text in ["{[", "{\"", "[\"", "{a:", "\"'", "//\n{"] {
            let text = text.repeat(100_000);
            let _ = (parse(&text), first_object(&text));
        }
        assert!(started.elapsed().as_secs() < 20);
    }
}
