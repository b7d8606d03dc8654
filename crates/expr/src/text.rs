//! Strings with `${…}` in them.

use serde_json::Value as Json;

use crate::error::{Error, ErrorKind, Fault};
use crate::evaluate::Scope;
use crate::expr::Expr;
use crate::meter::Meter;
use crate::reference::Reference;
use crate::types::{Type, Types};

/// A string of a file, which may contain expressions: `Hello ${user.name}`.
///
/// `$${` stands for the characters `${`.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    parts: Vec<Part>,
}

/// A part of a [`Text`].
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Characters.
    Literal(String),
    /// An expression, and the byte of the text at which it begins, behind `${`.
    Expr {
        /// The expression.
        expr: Expr,
        /// Where it begins.
        offset: usize,
    },
}

/// The most expressions in a string.
const EXPRESSIONS: usize = 1_000;

/// The text that is this expression and nothing else.
impl From<Expr> for Text {
    fn from(expr: Expr) -> Self {
        Self { parts: vec![Part::Expr { expr, offset: 0 }] }
    }
}

impl Text {
    /// Parses a string.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        let mut count = 0;
        while let Some(dollar) = rest.find("${") {
            let before = &rest[..dollar];
            if let Some(before) = before.strip_suffix('$') {
                literal.push_str(before);
                literal.push_str("${");
                rest = &rest[dollar + 2..];
                continue;
            }
            literal.push_str(before);
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            let offset = text.len() - rest.len() + dollar + 2;
            count += 1;
            if count > EXPRESSIONS {
                let message = format!("a string has at most {EXPRESSIONS} expressions");
                return Err(Error::new(ErrorKind::Parse, message, offset - 2..offset));
            }
            let (expr, end) = Expr::parse_part(text, offset)?;
            parts.push(Part::Expr { expr, offset });
            rest = text.get(end + 1..).unwrap_or_default();
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self { parts })
    }

    /// Its parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The expression that the whole text is, so that its value keeps its type.
    pub fn as_expr(&self) -> Option<&Expr> {
        match &self.parts[..] {
            [Part::Expr { expr, .. }] => Some(expr),
            _ => None,
        }
    }

    /// The characters, if there is no expression.
    pub(crate) fn literal(&self) -> Option<String> {
        match &self.parts[..] {
            [] => Some(String::new()),
            [Part::Literal(literal)] => Some(literal.clone()),
            _ => None,
        }
    }

    /// Whether it reads no name, so that the value is always the same.
    pub fn is_constant(&self) -> bool {
        self.exprs().all(|(expr, _)| expr.is_constant())
    }

    /// Every name that is read; places are those of the text.
    pub fn references(&self) -> impl Iterator<Item = Reference<'_>> {
        self.exprs().flat_map(|(expr, offset)| {
            expr.references().map(move |mut reference| {
                reference.at = reference.at.start + offset..reference.at.end + offset;
                reference
            })
        })
    }

    /// The type of the value: that of the expression if the text is nothing else, and a
    /// string otherwise.
    pub fn infer(&self, types: &dyn Types) -> Result<Type, Error> {
        let mut found = Type::Text;
        for (expr, offset) in self.exprs() {
            let of = expr.infer(types).map_err(|error| error.shifted(offset))?;
            if self.as_expr().is_some() {
                found = of;
            }
        }
        Ok(found)
    }

    /// The value: that of the expression if the text is nothing else; otherwise a string
    /// with strings as they are, nothing for what is absent, and the rest as JSON.
    pub fn evaluate(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<Json, Error> {
        if let [Part::Expr { expr, offset }] = &self.parts[..] {
            return expr.evaluate(scope, meter).map_err(|error| error.shifted(*offset));
        }
        self.render(scope, meter).map(Json::String)
    }

    /// The value as a string, also if the text is a single expression.
    pub fn render(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<String, Error> {
        let mut made = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => {
                    meter
                        .allocate(literal.len())
                        .map_err(|fault: Box<Fault>| fault.into_error(0..0))?;
                    made.push_str(literal);
                }
                Part::Expr { expr, offset } => {
                    expr.write(scope, meter, &mut made).map_err(|error| error.shifted(*offset))?;
                }
            }
        }
        Ok(made)
    }

    /// Where the expression is, if there is one only; else nowhere in particular.
    pub(crate) fn span(&self) -> std::ops::Range<usize> {
        match &self.parts[..] {
            [Part::Expr { expr, offset }] => *offset..offset + expr.source().len(),
            _ => 0..0,
        }
    }

    pub(crate) fn exprs(&self) -> impl Iterator<Item = (&Expr, usize)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Expr { expr, offset } => Some((expr, *offset)),
            Part::Literal(_) => None,
        })
    }
}
