//! Templates of Dify: text with `{{#node.name#}}` in it.
//!
//! A variable that is missing renders as its own selector, a value that looks like a
//! template is not rendered again, and anything that is not exactly of the form (blanks,
//! hyphens, more than ten parts) stays text. Secrets render nowhere but in
//! [`render_with_secrets`], whose result names them instead of holding them.

use std::fmt;

use crate::pool::Pool;
use crate::value::{Segment, Value};

/// A template, split at its references.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// The pieces, in order.
    pub pieces: Vec<Piece>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Text as it is.
    Text(String),
    /// A reference to a variable, by its selector.
    Variable(Vec<String>),
}

/// A secret of the environment was asked for where none may appear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretUse {
    /// The name of the environment's variable.
    pub name: String,
}

impl fmt::Display for SecretUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        write!(f, "`env.{name}` is a secret; secrets are for headers of http-request nodes alone")
    }
}

/// A part of a text that may have secrets in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// The secret of this name.
    Secret(String),
}

impl Template {
    /// Splits a text.
    pub fn parse(text: &str) -> Self {
        let (mut pieces, mut plain, mut at) = (Vec::new(), 0, 0);
        while let Some(found) = text[at..].find("{{#") {
            let start = at + found;
            match reference(&text[start + 3..]) {
                Some((selector, length)) => {
                    if plain < start {
                        pieces.push(Piece::Text(text[plain..start].to_owned()));
                    }
                    pieces.push(Piece::Variable(selector));
                    at = start + 3 + length;
                    plain = at;
                }
                None => at = start + 1,
            }
        }
        if plain < text.len() {
            pieces.push(Piece::Text(text[plain..].to_owned()));
        }
        Self { pieces }
    }

    /// The selectors that it refers to.
    pub fn selectors(&self) -> impl Iterator<Item = &[String]> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(selector) => Some(selector.as_slice()),
            Piece::Text(_) => None,
        })
    }

    /// The values of the pieces.
    ///
    /// A piece of plain text that happens to be a selector and nothing else (`a.b`) is
    /// looked up, too: Dify splits first and asks later.
    pub fn resolve(&self, pool: &Pool) -> Result<Vec<Segment>, SecretUse> {
        self.pieces.iter().map(|piece| lookup(piece, pool)).collect()
    }
}

fn lookup(piece: &Piece, pool: &Pool) -> Result<Segment, SecretUse> {
    let (found, own) = match piece {
        Piece::Text(text) if text.contains('.') => {
            let parts: Vec<&str> = text.split('.').collect();
            (pool.get(&parts), text.clone())
        }
        Piece::Text(text) => (None, text.clone()),
        Piece::Variable(selector) if pool.is_secret(selector) => {
            return Err(SecretUse { name: selector[1].clone() });
        }
        Piece::Variable(selector) => (pool.get(selector), selector.join(".")),
    };
    Ok(found.unwrap_or_else(|| Value::from(own).into()))
}

/// A template as text for prompts, URLs, bodies and conditions.
pub fn render(text: &str, pool: &Pool) -> Result<String, SecretUse> {
    let segments = Template::parse(text).resolve(pool)?;
    Ok(segments.iter().map(Segment::text).collect())
}

/// A template as text for answers.
pub fn render_markdown(text: &str, pool: &Pool) -> Result<String, SecretUse> {
    let segments = Template::parse(text).resolve(pool)?;
    Ok(segments.iter().map(Segment::markdown).collect())
}

/// A template whose secrets are named, for headers.
pub fn render_with_secrets(text: &str, pool: &Pool) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for piece in Template::parse(text).pieces {
        match (lookup(&piece, pool), parts.last_mut()) {
            (Err(SecretUse { name }), _) => parts.push(Part::Secret(name)),
            (Ok(segment), Some(Part::Text(text))) => text.push_str(&segment.text()),
            (Ok(segment), _) => parts.push(Part::Text(segment.text())),
        }
    }
    parts
}

/// Reads `node.name…#}}`; the selector, and how many bytes it took.
fn reference(text: &str) -> Option<(Vec<String>, usize)> {
    // The longest: 50 + 10 × 31 + 3 bytes, all of them ASCII.
    let bytes = &text.as_bytes()[..text.len().min(364)];
    let end = bytes.iter().position(|b| *b == b'#')?;
    if !bytes[end..].starts_with(b"#}}") {
        return None;
    }
    let parts: Vec<&str> = std::str::from_utf8(&bytes[..end]).ok()?.split('.').collect();
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let (first, names) = parts.split_first()?;
    let fits = (1..=50).contains(&first.len())
        && first.bytes().all(is_word)
        && (1..=10).contains(&names.len())
        && names.iter().all(|name| {
            (1..=30).contains(&name.len())
                && name.bytes().all(is_word)
                && !name.starts_with(|c: char| c.is_ascii_digit())
        });
    fits.then(|| (parts.iter().map(|part| (*part).to_owned()).collect(), end + 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_form_is_a_reference() {
        let is_reference = |text: &str| Template::parse(text).selectors().count() == 1;
        for text in ["{{#a.b#}}", "{{{#a.b#}}}", "{{#1711.text#}}", "{{#a.b.c.d.e.f.g.h.i.j.k#}}"] {
            assert!(is_reference(text), "{text}");
        }
        for text in [
            "{{#a#}}",
            "{{ #a.b# }}",
            "{{#a-b.c#}}",
            "{{#a.1#}}",
            "{{#中.b#}}",
            "{{#a.b.c.d.e.f.g.h.i.j.k.l#}}",
            "{{#a.b}}",
            "{{#a.b#}",
            "{{#context#}}",
            "{{#a..b#}}",
        ] {
            assert!(!is_reference(text), "{text}");
            let pool = Pool::default();
            assert_eq!(render(text, &pool).unwrap(), text);
        }
    }

    #[test]
    fn a_secret_is_named_in_headers_and_refused_elsewhere() {
        let mut pool = Pool::new(["key".to_owned()]);
        pool.set("n", "v", Value::from("x"));
        let text = "Bearer {{#env.key#}}{{#n.v#}}!";
        assert_eq!(render(text, &pool), Err(SecretUse { name: "key".into() }));
        let expected =
            [Part::Text("Bearer ".into()), Part::Secret("key".into()), Part::Text("x!".into())];
        assert_eq!(render_with_secrets(text, &pool), expected);
    }
}
