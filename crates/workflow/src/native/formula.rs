//! [`Formula`]: a value of a definition with `${…}` in its texts.

use std::sync::Arc;

use serde_json::Value;
use windlass::{Error, ErrorKind};
use windlass_expr::{Access, Expr, Meter, Scope, Tree};

use crate::graph::{Guard, Recover};
use crate::limits::RunLimits;
use crate::run::{At, Frame, StepValue};
use crate::step::Done;

/// A value of a definition, with `${…}` in its texts.
pub struct Formula {
    tree: Tree,
    references: Vec<Read>,
    /// The names that it reads, each once.
    roots: Vec<Arc<str>>,
    /// Where it stands in the definition.
    key: Arc<str>,
}

/// A name that a formula reads.
pub(super) struct Read {
    pub(super) root: Arc<str>,
    /// The field of it that is read first, if that is constant.
    pub(super) first: Option<String>,
    /// Whether the name may be absent.
    pub(super) is_optional: bool,
    /// Whether that field may be absent.
    pub(super) is_field_optional: bool,
    /// The text in which it stands, as a JSON pointer.
    pub(super) pointer: String,
}

impl Formula {
    /// Reads a value. Errors name the text by its path.
    pub(super) fn read(value: &Value, key: &str) -> Result<Self, windlass_expr::Error> {
        Ok(Self::of(Tree::parse(value)?, key))
    }

    fn of(tree: Tree, key: &str) -> Self {
        let references: Vec<Read> = tree
            .references()
            .map(|(pointer, reference)| {
                let first = reference.path.first();
                Read {
                    root: reference.root.into(),
                    first: first.and_then(|segment| match segment.access {
                        Access::Key(key) => Some(key.to_owned()),
                        Access::Index(_) => None,
                    }),
                    is_optional: reference.optional,
                    is_field_optional: first.is_some_and(|segment| segment.optional),
                    pointer,
                }
            })
            .collect();
        let mut roots: Vec<Arc<str>> = Vec::new();
        for read in &references {
            if !roots.contains(&read.root) {
                roots.push(Arc::clone(&read.root));
            }
        }
        Self { tree, references, roots, key: key.into() }
    }

    /// Reads an expression that stands without `${}`.
    pub(super) fn expression(text: &str, key: &str) -> Result<Self, windlass_expr::Error> {
        Ok(Self::of(Tree::from(Expr::parse(text)?), key))
    }

    pub(super) fn references(&self) -> &[Read] {
        &self.references
    }

    /// The value at a step.
    pub(super) fn at(&self, at: &At<'_>) -> Result<Value, Error> {
        self.value(at.frame, at.limits())
    }

    /// The value in a frame.
    pub(crate) fn value(&self, frame: &Frame, limits: &RunLimits) -> Result<Value, Error> {
        let mut known = Vec::with_capacity(self.roots.len());
        for root in &self.roots {
            if let Some(StepValue::Value(value)) = frame.get(root) {
                known.push((&**root, value));
            }
        }
        let mut meter = Meter::new(limits.expression_steps, limits.expression_bytes);
        self.tree.evaluate(&Known(known), &mut meter).map_err(|error| {
            let key = &self.key;
            let why = format!("{key}{}: {error}", error.path);
            Error::new(ErrorKind::ToolError, why).nothing_done()
        })
    }
}

struct Known<'a>(Vec<(&'a str, Arc<Value>)>);

impl Scope for Known<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }
}

impl Guard for Formula {
    fn holds(&self, at: &At<'_>) -> Result<bool, Error> {
        match self.at(at)? {
            Value::Bool(holds) => Ok(holds),
            other => {
                let kind = super::reader::kind_of(&other);
                let why = format!("{}: a condition is true or false, found {kind}", self.key);
                Err(Error::new(ErrorKind::ToolError, why).nothing_done())
            }
        }
    }
}

impl Recover for Formula {
    fn recover(&self, at: &At<'_>, error: &Error) -> Result<Done, Error> {
        let frame = at.frame.within("", vec![("error".into(), At::error_value(error))], &at.acting);
        self.value(&frame, at.limits()).map(Done::new)
    }
}
