//! The YAML of a settings file: keys with plain values, and sections of such
//! keys. Every key has its line; what a value means is decided by its key, not
//! by how it looks.

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::Fault;

/// Sections in sections; no setting is deeper.
const DEPTH: usize = 8;

/// A key, the line that it is in, and what is behind it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: Node,
}

/// What is behind a key.
#[derive(Debug)]
pub(super) enum Node {
    /// Nothing: the key is not set.
    Null,
    Value(String),
    Section(Vec<Entry>),
    /// Plain values; none where something else is in the list.
    List(Option<Vec<String>>),
}

/// Reads the one mapping that the file is.
pub(super) fn read(text: &str) -> Result<Vec<Entry>, Fault> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: DEPTH,
        block_nesting_limit: DEPTH,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut events = Events(Parser::new_from_str_with_options(text, options));
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
struct Events<P>(P);

impl<'a, P> Events<P>
where
    P: Iterator<Item = Result<(Event<'a>, Span), ScanError>>,
{
    fn next(&mut self) -> Result<Option<(Event<'a>, usize)>, Fault> {
        match self.0.next() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, span.start.line()))),
            Some(Err(error)) => Err(Fault {
                line: error.marker().line(),
                why: format!("not valid YAML: {}", error.info()),
            }),
        }
    }

    /// The rest of a mapping that has begun.
    fn mapping(&mut self) -> Result<Vec<Entry>, Fault> {
        let mut entries = Vec::new();
        while let Some((event, line)) = self.next()? {
            match event {
                Event::MappingEnd => break,
                Event::Scalar(key, ..) => {
                    entries.push(Entry { key: key.into_owned(), line, node: self.node()? });
                }
                _ => return Err(no_key(line)),
            }
        }
        Ok(entries)
    }

    /// What is behind a key.
    fn node(&mut self) -> Result<Node, Fault> {
        let Some((event, line)) = self.next()? else { return Ok(Node::Null) };
        Ok(match event {
            Event::Scalar(text, style, ..) if is_null(&text, style) => Node::Null,
            Event::Scalar(text, ..) => Node::Value(text.into_owned()),
            Event::MappingStart(..) => Node::Section(self.mapping()?),
            Event::SequenceStart(..) => Node::List(self.list()?),
            _ => {
                return Err(Fault { line, why: "write the value itself, not an alias".to_owned() });
            }
        })
    }

    /// The rest of a list. What is no list of plain values is passed over.
    fn list(&mut self) -> Result<Option<Vec<String>>, Fault> {
        let (mut open, mut plain, mut values) = (1, true, Vec::new());
        while open > 0
            && let Some((event, _)) = self.next()?
        {
            match event {
                Event::Scalar(text, ..) => values.push(text.into_owned()),
                Event::SequenceStart(..) | Event::MappingStart(..) => open += 1,
                Event::SequenceEnd | Event::MappingEnd => open -= 1,
                _ => plain = false,
            }
            plain &= open < 2;
        }
        Ok(plain.then_some(values))
    }
}

fn no_key(line: usize) -> Fault {
    Fault { line, why: "expected `key: value`".to_owned() }
}

fn is_null(text: &str, style: ScalarStyle) -> bool {
    style == ScalarStyle::Plain && matches!(text, "" | "~" | "null")
}
