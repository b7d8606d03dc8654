//! The YAML of a settings file: keys with scalars, and sections of such keys. Every
//! key has its line; the type of a value is decided by its key, not by its YAML tag.

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use serde_json::{Map, Value as Json};

use super::FileFault;

/// Sections in sections; no setting is deeper.
const DEPTH: usize = 8;

/// A key, the line that it is in, and what is behind it.
#[derive(Debug)]
pub(super) struct YamlEntry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: YamlNode,
}

/// What is behind a key.
#[derive(Debug)]
pub(super) enum YamlNode {
    /// Nothing: the key is not set.
    Null,
    Value(String),
    Section(Vec<YamlEntry>),
    List(Vec<YamlItem>),
}

/// What is in a list, and the line that it is in.
#[derive(Debug)]
pub(super) struct YamlItem {
    pub(super) line: usize,
    /// As it is written, where it is a plain value.
    text: Option<String>,
    pub(super) json: Json,
}

/// The plain values of a list; none where something else is in it.
pub(super) fn plain(items: Vec<YamlItem>) -> Option<Vec<String>> {
    items.into_iter().map(|item| item.text).collect()
}

/// Reads the one mapping that the file is.
pub(super) fn read(text: &str) -> Result<Vec<YamlEntry>, FileFault> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: DEPTH,
        block_nesting_limit: DEPTH,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut events = ParserEvents(Parser::new_from_str_with_options(text, options));
    while let Some((event, line)) = events.next()? {
        match event {
            Event::MappingStart(..) => return events.mapping(),
            Event::Scalar(text, style, ..) if !is_null(&text, style) => return Err(no_key(line)),
            Event::SequenceStart(..) | Event::Alias(_) => return Err(no_key(line)),
            _ => {}
        }
    }
    Ok(Vec::new())
}

/// What the parser finds, one after the other. How deep it goes is bounded.
struct ParserEvents<P>(P);

impl<'a, P> ParserEvents<P>
where
    P: Iterator<Item = Result<(Event<'a>, Span), ScanError>>,
{
    fn next(&mut self) -> Result<Option<(Event<'a>, usize)>, FileFault> {
        match self.0.next() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, span.start.line()))),
            Some(Err(error)) => Err(FileFault {
                line: error.marker().line(),
                why: format!("not valid YAML: {}", error.info()),
            }),
        }
    }

    /// The rest of a mapping that has begun.
    fn mapping(&mut self) -> Result<Vec<YamlEntry>, FileFault> {
        let mut entries = Vec::new();
        while let Some((event, line)) = self.next()? {
            match event {
                Event::MappingEnd => break,
                Event::Scalar(key, ..) => {
                    entries.push(YamlEntry { key: key.into_owned(), line, node: self.node()? });
                }
                _ => return Err(no_key(line)),
            }
        }
        Ok(entries)
    }

    /// What is behind a key.
    fn node(&mut self) -> Result<YamlNode, FileFault> {
        let Some((event, line)) = self.next()? else { return Ok(YamlNode::Null) };
        Ok(match event {
            Event::Scalar(text, style, ..) if is_null(&text, style) => YamlNode::Null,
            Event::Scalar(text, ..) => YamlNode::Value(text.into_owned()),
            Event::MappingStart(..) => YamlNode::Section(self.mapping()?),
            Event::SequenceStart(..) => YamlNode::List(self.list()?),
            _ => return Err(alias(line)),
        })
    }

    /// The rest of a list.
    fn list(&mut self) -> Result<Vec<YamlItem>, FileFault> {
        let mut items = Vec::new();
        while let Some((event, line)) = self.next()? {
            let text = match &event {
                Event::SequenceEnd => break,
                Event::Scalar(text, ..) => Some(text.clone().into_owned()),
                _ => None,
            };
            items.push(YamlItem { line, text, json: self.json(event, line)? });
        }
        Ok(items)
    }

    /// What begins with an event, as JSON.
    fn json(&mut self, event: Event<'a>, line: usize) -> Result<Json, FileFault> {
        Ok(match event {
            Event::Scalar(text, style, ..) => scalar(&text, style),
            Event::SequenceStart(..) => self.list()?.into_iter().map(|item| item.json).collect(),
            Event::MappingStart(..) => {
                let mut pairs = Map::new();
                while let Some((event, line)) = self.next()? {
                    let key = match event {
                        Event::MappingEnd => break,
                        Event::Scalar(key, ..) => key.into_owned(),
                        _ => return Err(no_key(line)),
                    };
                    let Some((event, at)) = self.next()? else { break };
                    let value = self.json(event, at)?;
                    if pairs.contains_key(&key) {
                        return Err(FileFault { line, why: format!("`{key}` is there twice") });
                    }
                    pairs.insert(key, value);
                }
                Json::Object(pairs)
            }
            _ => return Err(alias(line)),
        })
    }
}

/// A plain value as YAML means it.
fn scalar(text: &str, style: ScalarStyle) -> Json {
    match text {
        _ if style != ScalarStyle::Plain => text.into(),
        _ if is_null(text, style) => Json::Null,
        "true" => true.into(),
        "false" => false.into(),
        _ => match serde_json::from_str::<serde_json::Number>(text) {
            Ok(number) => number.into(),
            Err(_) => text.into(),
        },
    }
}

fn alias(line: usize) -> FileFault {
    FileFault { line, why: "write the value itself, not an alias".to_owned() }
}

fn no_key(line: usize) -> FileFault {
    FileFault { line, why: "expected `key: value`".to_owned() }
}

fn is_null(text: &str, style: ScalarStyle) -> bool {
    style == ScalarStyle::Plain && matches!(text, "" | "~" | "null")
}
