//! JSON values whose strings contain expressions.

use serde_json::{Map, Value as Json};

use crate::error::{Error, ErrorKind};
use crate::evaluate::Scope;
use crate::expr::Expr;
use crate::meter::Meter;
use crate::reference::Reference;
use crate::text::Text;
use crate::types::{Type, Types};

/// A value of a file: each string in it is a [`Text`]. Keys are literal.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    root: Branch,
}

#[derive(Debug, Clone, PartialEq)]
enum Branch {
    /// Without an expression.
    Constant(Json),
    Text(Text),
    List(Vec<Branch>),
    Map(Vec<(String, Branch)>),
}

/// The deepest value that is accepted: what a reader of JSON accepts, too.
const MAX_DEPTH: usize = 128;

/// The value that is this text and nothing else.
impl From<Text> for Tree {
    fn from(text: Text) -> Self {
        let root = match text.literal() {
            Some(literal) => Branch::Constant(Json::String(literal)),
            None => Branch::Text(text),
        };
        Self { root }
    }
}

/// The value that is this expression and nothing else: of a condition without `${}`, for
/// example.
impl From<Expr> for Tree {
    fn from(expr: Expr) -> Self {
        Text::from(expr).into()
    }
}

impl Tree {
    /// Parses all strings of a value. Errors name the string by its path.
    pub fn parse(value: &Json) -> Result<Self, Error> {
        let mut path = Vec::new();
        Ok(Self { root: branch(value, &mut path)? })
    }

    /// Whether it reads no name.
    pub fn is_constant(&self) -> bool {
        self.texts().iter().all(|(_, text)| text.is_constant())
    }

    /// Every string with an expression, and its path as a JSON pointer.
    pub fn texts(&self) -> Vec<(String, &Text)> {
        let mut found = Vec::new();
        collect(&self.root, &mut Vec::new(), &mut found);
        found
    }

    /// Every name that is read, with the path of the string that reads it.
    pub fn references(&self) -> impl Iterator<Item = (String, Reference<'_>)> {
        self.texts().into_iter().flat_map(|(path, text)| {
            let references: Vec<_> = text.references().collect();
            references.into_iter().map(move |reference| (path.clone(), reference))
        })
    }

    /// The type of the value.
    pub fn infer(&self, types: &dyn Types) -> Result<Type, Error> {
        infer(&self.root, &mut Vec::new(), &Type::Dyn, types).map(Type::bounded)
    }

    /// The type of the value, which must be able to be of the wanted type: what a tool's
    /// schema says of its arguments, for example.
    pub fn check(&self, types: &dyn Types, wanted: &Type) -> Result<Type, Error> {
        infer(&self.root, &mut Vec::new(), wanted, types).map(Type::bounded)
    }

    /// The value, with each string replaced by the value of its [`Text`].
    pub fn evaluate(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<Json, Error> {
        evaluate(&self.root, &mut Vec::new(), scope, meter)
    }
}

/// What leads from one value to the next.
#[derive(Clone, Copy)]
enum Step<'v> {
    Key(&'v str),
    Index(usize),
}

fn pointer(path: &[Step<'_>]) -> String {
    let mut pointer = String::new();
    for step in path {
        pointer.push('/');
        match step {
            Step::Key(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => pointer.push_str(&index.to_string()),
        }
    }
    pointer
}

fn branch<'v>(value: &'v Json, path: &mut Vec<Step<'v>>) -> Result<Branch, Error> {
    if path.len() > MAX_DEPTH {
        let message = format!("the value is nested more than {MAX_DEPTH} levels deep");
        return Err(Error::new(ErrorKind::Parse, message, 0..0).below(&pointer(path)));
    }
    match value {
        Json::String(text) => {
            let text = Text::parse(text).map_err(|error| error.below(&pointer(path)))?;
            Ok(Tree::from(text).root)
        }
        Json::Array(items) => {
            let mut branches = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                branches.push(branch(item, path)?);
                path.pop();
            }
            Ok(Branch::List(branches))
        }
        Json::Object(object) => {
            let mut branches = Vec::with_capacity(object.len());
            for (key, item) in object {
                path.push(Step::Key(key));
                branches.push((key.clone(), branch(item, path)?));
                path.pop();
            }
            Ok(Branch::Map(branches))
        }
        _ => Ok(Branch::Constant(value.clone())),
    }
}

fn collect<'t>(branch: &'t Branch, path: &mut Vec<Step<'t>>, found: &mut Vec<(String, &'t Text)>) {
    match branch {
        Branch::Constant(_) => {}
        Branch::Text(text) => found.push((pointer(path), text)),
        Branch::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                collect(item, path, found);
                path.pop();
            }
        }
        Branch::Map(entries) => {
            for (key, item) in entries {
                path.push(Step::Key(key));
                collect(item, path, found);
                path.pop();
            }
        }
    }
}

fn infer<'t>(
    branch: &'t Branch,
    path: &mut Vec<Step<'t>>,
    wanted: &Type,
    types: &dyn Types,
) -> Result<Type, Error> {
    let (of, at) = match branch {
        Branch::Constant(value) => (Type::of_value(value), 0..value.as_str().map_or(0, str::len)),
        Branch::Text(text) => {
            let of = text.infer(types).map_err(|error| error.below(&pointer(path)))?;
            (of, text.span())
        }
        Branch::List(items) => {
            let element = wanted.of_elements();
            let mut found = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                found.push(infer(item, path, &element, types)?);
                path.pop();
            }
            (Type::list(Type::union(found)), 0..0)
        }
        Branch::Map(entries) => {
            let mut found = Vec::with_capacity(entries.len());
            for (key, item) in entries {
                path.push(Step::Key(key));
                let wanted = match wanted.of_field(key) {
                    Ok(wanted) => wanted,
                    Err(unfit) => return Err(unfit.at(&(0..0)).below(&pointer(path))),
                };
                found.push((key.clone(), infer(item, path, &wanted, types)?));
                path.pop();
            }
            (Type::object(found), 0..0)
        }
    };
    if of.can_be(wanted) {
        return Ok(of);
    }
    let message = format!("{} is wanted here, not {}", wanted.described(), of.described());
    let error = Error::new(ErrorKind::Type, message, at).below(&pointer(path));
    Err(match (wanted, of) {
        (Type::Text, Type::List(_) | Type::Map(_) | Type::Object(_)) => {
            error.hint("write json(value) or list.join(\", \")")
        }
        (Type::Text, _) => error.hint("write string(value)"),
        (wanted, Type::Text) if wanted.may_be(crate::functions::Takes::Number) => {
            error.hint("write int(text) or double(text)")
        }
        _ => error,
    })
}

fn evaluate<'t>(
    branch: &'t Branch,
    path: &mut Vec<Step<'t>>,
    scope: &dyn Scope,
    meter: &mut Meter,
) -> Result<Json, Error> {
    Ok(match branch {
        // What a file says is bounded by the file.
        Branch::Constant(value) => value.clone(),
        Branch::Text(text) => {
            text.evaluate(scope, meter).map_err(|error| error.below(&pointer(path)))?
        }
        Branch::List(items) => {
            let mut values = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                values.push(evaluate(item, path, scope, meter)?);
                path.pop();
            }
            Json::Array(values)
        }
        Branch::Map(entries) => {
            let mut object = Map::new();
            for (key, item) in entries {
                path.push(Step::Key(key));
                object.insert(key.clone(), evaluate(item, path, scope, meter)?);
                path.pop();
            }
            Json::Object(object)
        }
    })
}
