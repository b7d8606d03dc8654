//! One expression.

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::error::{Error, ErrorKind};
use crate::evaluate::{Scope, evaluate};
use crate::infer::infer;
use crate::meter::Meter;
use crate::parse::{self, MAX_BYTES};
use crate::reference::{Reference, references};
use crate::syntax::{Id, Kind, Node};
use crate::token::Token;
use crate::types::{Type, Types};
use crate::value::{to_json, to_text};

/// A parsed expression. Cheap to clone.
#[derive(Clone)]
pub struct Expr {
    source: Arc<str>,
    nodes: Arc<[Node]>,
    root: Id,
}

impl Expr {
    /// The longest expression that is accepted, in bytes.
    pub const MAX_BYTES: usize = MAX_BYTES;

    /// The deepest nesting that is accepted.
    pub const MAX_DEPTH: usize = parse::MAX_DEPTH;

    /// Parses an expression, without `${` and `}`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let parsed = parse::parse(text, 0)?;
        let (end, at) = parsed.end;
        if end != Token::End {
            return Err(parse::trailing(&end, at));
        }
        Ok(Self { source: text.into(), nodes: parsed.nodes.into(), root: parsed.root })
    }

    /// Parses the expression of a text that begins at `start` and ends before a `}`. Returns
    /// it, and where the brace is.
    pub(crate) fn parse_part(text: &str, start: usize) -> Result<(Self, usize), Error> {
        let parsed = parse::parse(text, start)?;
        let (end, at) = parsed.end;
        match end {
            Token::Sign("}") => {
                let source = text.get(start..at.start).unwrap_or_default();
                let nodes: Vec<Node> =
                    parsed.nodes.into_iter().map(|node| moved(node, start as u32)).collect();
                Ok((
                    Self { source: source.into(), nodes: nodes.into(), root: parsed.root },
                    at.start,
                ))
            }
            Token::End => Err(Error::new(
                ErrorKind::Parse,
                "`${` is not closed",
                start.saturating_sub(2)..start,
            )
            .hint("close it with `}`, or write `$${` for the characters themselves")),
            _ => Err(parse::trailing(&end, at)),
        }
    }

    /// The text that was parsed.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Every name that is read, in the order of the text.
    pub fn references(&self) -> impl Iterator<Item = Reference<'_>> {
        references(&self.nodes).into_iter()
    }

    /// Whether no name is read, so that the value is always the same.
    pub fn is_constant(&self) -> bool {
        !self.nodes.iter().any(|node| matches!(node.kind, Kind::Name { .. }))
    }

    /// The type of the value, as far as the types of the scope tell. An error if operands
    /// or arguments cannot fit whatever the values are, or a field is unknown.
    pub fn infer(&self, types: &dyn Types) -> Result<Type, Error> {
        infer(&self.nodes, self.root, types).map(|of| of.in_json())
    }

    /// The value, as JSON.
    pub fn evaluate(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<Json, Error> {
        let whole = 0..self.source.len();
        evaluate(&self.nodes, self.root, scope, meter)
            .and_then(|value| to_json(&value, meter))
            .map_err(|fault| fault.into_error(whole))
    }

    /// Appends the value to a text.
    pub(crate) fn write(
        &self,
        scope: &dyn Scope,
        meter: &mut Meter,
        to: &mut String,
    ) -> Result<(), Error> {
        let whole = 0..self.source.len();
        evaluate(&self.nodes, self.root, scope, meter)
            .and_then(|value| to_text(&value, meter, to))
            .map_err(|fault| fault.into_error(whole))
    }
}

/// A node whose places count from `start`.
fn moved(mut node: Node, start: u32) -> Node {
    node.at = node.at.start.saturating_sub(start)..node.at.end.saturating_sub(start);
    node
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expr").field(&self.source).finish()
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl std::str::FromStr for Expr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}
