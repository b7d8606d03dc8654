//! Reads an expression: precedence climbing over [`Tokens`].

mod hint;
mod macros;

use std::ops::Range;

use crate::error::{Error, ErrorKind, meant};
use crate::functions::{self, Form, Function, Pattern};
use crate::syntax::{Entry, Id, Item, Kind, Literal, Node, Operator};
use crate::token::{Token, Tokens};
use crate::value::TypeName;

/// The longest expression, in bytes.
pub(crate) const MAX_BYTES: usize = 16 << 10;

/// The deepest nesting. Evaluation needs a stack in proportion to it.
pub(crate) const MAX_DEPTH: usize = 64;

/// Words that CEL keeps for itself; fields may have these names.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a name cannot be read from a scope: literals, operators, reserved words, and
/// the names of types.
pub fn is_reserved(name: &str) -> bool {
    matches!(name, "true" | "false" | "null" | "in")
        || RESERVED.contains(&name)
        || TypeName::named(name).is_some()
}

/// A parsed expression: its nodes, the root, and where it ended.
pub(crate) struct Parsed {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: Id,
    /// The token after the expression.
    pub(crate) end: (Token, Range<usize>),
}

/// Parses the expression that begins at `start`, up to the first token that does not belong
/// to it.
pub(crate) fn parse(text: &str, start: usize) -> Result<Parsed, Error> {
    let mut tokens = Tokens::new(text, start);
    let (next, at) = tokens.next()?;
    let mut parser = Parser {
        tokens,
        next,
        at,
        start,
        last: start,
        nodes: Vec::new(),
        depths: Vec::new(),
        locals: Vec::new(),
        depth: 0,
    };
    if matches!(parser.next, Token::End | Token::Sign("}")) {
        let error = Error::new(ErrorKind::Parse, "the expression is empty", parser.at);
        return Err(error.hint("write a value, for example `input.name`"));
    }
    let root = parser.expression()?;
    Ok(Parsed { nodes: parser.nodes, root, end: (parser.next, parser.at) })
}

/// The error of a token that follows a complete expression.
pub(crate) fn trailing(token: &Token, at: Range<usize>) -> Error {
    error("the expression is complete before this", at)
        .hint(hint::spelling(token).unwrap_or("an operator may be missing"))
}

struct Parser<'t> {
    tokens: Tokens<'t>,
    next: Token,
    at: Range<usize>,
    /// Where the expression begins.
    start: usize,
    /// Where the last token ended.
    last: usize,
    nodes: Vec<Node>,
    /// The depth of the tree below each node.
    depths: Vec<u16>,
    /// The variables of the macros around, outermost first.
    locals: Vec<String>,
    depth: usize,
}

type Made = Result<Id, Error>;

impl Parser<'_> {
    fn advance(&mut self) -> Result<Token, Error> {
        let (next, at) = self.tokens.next()?;
        if at.end - self.start > MAX_BYTES {
            let message = format!("the expression has more than {MAX_BYTES} bytes");
            return Err(error(message, self.start..at.end).hint("divide it among several steps"));
        }
        self.last = self.at.end;
        self.at = at;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn is(&self, sign: &str) -> bool {
        matches!(&self.next, Token::Sign(next) if *next == sign)
    }

    fn take(&mut self, sign: &str) -> Result<bool, Error> {
        let found = self.is(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, sign: &str, opened: &Range<usize>) -> Result<(), Error> {
        if self.take(sign)? {
            return Ok(());
        }
        if self.next == Token::End {
            return Err(error(format!("`{sign}` is missing"), opened.clone())
                .hint(format!("close this with `{sign}`")));
        }
        Err(self.unexpected(&format!("expected `{sign}`")))
    }

    fn unexpected(&self, wanted: &str) -> Error {
        let found = match &self.next {
            Token::Name(name) | Token::Quoted(name) => {
                format!("`{}`", crate::error::shortened(name))
            }
            Token::Sign(sign) => format!("`{sign}`"),
            Token::Text(_) | Token::Bytes(_) => "a string".to_owned(),
            Token::Int(_) | Token::Uint(_) | Token::Double(_) => "a number".to_owned(),
            Token::End => "the end".to_owned(),
        };
        let error = error(format!("{wanted}, found {found}"), self.at.clone());
        match hint::spelling(&self.next) {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    fn add(&mut self, kind: Kind, at: Range<usize>, below: &[Id]) -> Made {
        let depth = below.iter().filter_map(|id| self.depths.get(*id as usize)).max();
        let depth = depth.map_or(0, |depth| depth + 1);
        if usize::from(depth) > MAX_DEPTH {
            return Err(too_deep(at));
        }
        let id = self.nodes.len() as Id;
        self.nodes.push(Node { kind, at: at.start as u32..at.end as u32 });
        self.depths.push(depth);
        Ok(id)
    }

    fn start_of(&self, id: Id) -> usize {
        self.nodes.get(id as usize).map_or(0, |node| node.at.start as usize)
    }

    fn kind(&self, id: Id) -> Option<&Kind> {
        self.nodes.get(id as usize).map(|node| &node.kind)
    }

    /// A whole expression: `a || b ? c : d`.
    fn expression(&mut self) -> Made {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep(self.at.clone()));
        }
        let made = self.conditional();
        self.depth -= 1;
        made
    }

    fn conditional(&mut self) -> Made {
        let start = self.at.start;
        let condition = self.binary(Operator::WEAKEST)?;
        if !self.is("?") {
            return Ok(condition);
        }
        self.conditional_of(condition, start)
    }

    #[inline(never)]
    fn conditional_of(&mut self, condition: Id, start: usize) -> Made {
        let question = self.at.clone();
        self.advance()?;
        if self.is("?") {
            return Err(error("there is no operator `??`", question.start..self.at.end)
                .hint("write default(value, otherwise)"));
        }
        let yes = self.expression()?;
        if !self.is(":") {
            return Err(self.unexpected("expected `:` of the `?` before"));
        }
        self.advance()?;
        let no = self.expression()?;
        self.add(Kind::Conditional(condition, yes, no), start..self.last, &[condition, yes, no])
    }

    /// Operators that bind at least so strongly. Those of one strength become one node, so
    /// long chains are flat.
    fn binary(&mut self, least: u8) -> Made {
        let mut left = self.unary()?;
        while let Some((_, strength)) = self.operator().filter(|(_, strength)| *strength >= least) {
            left = self.chain(left, strength)?;
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(Operator, u8)> {
        match &self.next {
            Token::Sign(sign) => Operator::of(sign),
            Token::Name(name) if name == "in" => Operator::of("in"),
            _ => None,
        }
    }

    fn chain(&mut self, first: Id, strength: u8) -> Made {
        let start = self.start_of(first);
        let mut rest = Vec::new();
        while let Some((operator, _)) = self.operator().filter(|(_, other)| *other == strength) {
            self.advance()?;
            rest.push((operator, self.binary(strength + 1)?));
        }
        let operands: Vec<Id> =
            std::iter::once(first).chain(rest.iter().map(|(_, id)| *id)).collect();
        let below = operands.clone();
        let kind = match rest.first() {
            Some((Operator::Or, _)) => Kind::Any(operands),
            Some((Operator::And, _)) => Kind::All(operands),
            _ => Kind::Chain(first, rest),
        };
        self.add(kind, start..self.last, &below)
    }

    fn unary(&mut self) -> Made {
        let start = self.at.start;
        let mut signs = Vec::new();
        loop {
            if self.is("!") || self.is("-") {
                signs.push((self.is("-"), self.at.start));
                if signs.len() > MAX_DEPTH {
                    return Err(too_deep(start..self.at.end));
                }
                self.advance()?;
            } else {
                break;
            }
        }
        // The sign belongs to the number: -9223372036854775808 has no positive counterpart.
        let negative = match (&self.next, signs.last()) {
            (Token::Int(number), Some((true, at))) => match 0_i64.checked_sub_unsigned(*number) {
                Some(number) => Some((Literal::Int(number), *at)),
                None => return Err(out_of_range(*at..self.at.end)),
            },
            (Token::Double(number), Some((true, at))) => Some((Literal::Double(-number), *at)),
            _ => None,
        };
        let operand = match negative {
            Some((literal, at)) => {
                signs.pop();
                self.advance()?;
                self.add(Kind::Literal(literal), at..self.last, &[])?
            }
            None => self.primary()?,
        };
        let mut value = self.postfix(operand)?;
        while let Some((minus, at)) = signs.pop() {
            let kind = if minus { Kind::Negate(value) } else { Kind::Not(value) };
            value = self.add(kind, at..self.last, &[value])?;
        }
        Ok(value)
    }

    fn primary(&mut self) -> Made {
        let at = self.at.clone();
        if self.is("(") {
            self.advance()?;
            let id = self.expression()?;
            self.expect(")", &at)?;
            return Ok(id);
        }
        if self.is("[") {
            return self.list();
        }
        if self.is("{") {
            return self.map();
        }
        // A leading point is CEL's name of the root scope, past any macro's variable.
        let rooted = self.take(".")?;
        let literal = match &self.next {
            Token::Name(_) | Token::Quoted(_) => return self.name(at.start, rooted),
            _ if rooted => return Err(self.unexpected("expected a name")),
            Token::Sign(_) | Token::End => return Err(self.unexpected("expected a value")),
            _ => match self.advance()? {
                Token::Int(number) => match i64::try_from(number) {
                    Ok(number) => Literal::Int(number),
                    Err(_) => return Err(out_of_range(at)),
                },
                Token::Uint(number) => Literal::Uint(number),
                Token::Double(number) => Literal::Double(number),
                Token::Text(text) => Literal::Text(text.into()),
                Token::Bytes(bytes) => Literal::Bytes(bytes.into()),
                _ => Literal::Null,
            },
        };
        self.add(Kind::Literal(literal), at, &[])
    }

    fn name(&mut self, start: usize, rooted: bool) -> Made {
        let at = self.at.clone();
        let quoted = matches!(self.next, Token::Quoted(_));
        let (Token::Name(name) | Token::Quoted(name)) = self.advance()? else {
            return Err(self.unexpected("expected a name"));
        };
        if !quoted && !rooted {
            let literal = match name.as_str() {
                "true" => Some(Literal::Bool(true)),
                "false" => Some(Literal::Bool(false)),
                "null" => Some(Literal::Null),
                _ => None,
            };
            if let Some(literal) = literal {
                return self.add(Kind::Literal(literal), at, &[]);
            }
        }
        if !quoted && (RESERVED.contains(&name.as_str()) || name == "in") {
            return Err(error(format!("`{name}` is a reserved word"), at).hint(if name == "if" {
                "write condition ? this : that".to_owned()
            } else {
                format!("write `` `{name}` `` for a value of this name")
            }));
        }
        if self.is("(") && !quoted {
            return self.global(&name, start);
        }
        if !rooted
            && !quoted
            && let Some(local) = self.locals.iter().rposition(|local| *local == name)
        {
            return self.add(Kind::Local(local as u32), at, &[]);
        }
        if !quoted && let Some(name) = TypeName::named(&name) {
            return self.add(Kind::TypeName(name), at, &[]);
        }
        self.add(Kind::Name { name: name.into(), optional: false }, start..at.end, &[])
    }

    fn list(&mut self) -> Made {
        let at = self.at.clone();
        self.advance()?;
        let mut items = Vec::new();
        while !self.is("]") {
            let optional = self.take("?")?;
            items.push(Item { value: self.expression()?, optional });
            if !self.take(",")? {
                break;
            }
        }
        self.expect("]", &at)?;
        let below: Vec<Id> = items.iter().map(|item| item.value).collect();
        self.add(Kind::List(items), at.start..self.last, &below)
    }

    fn map(&mut self) -> Made {
        let at = self.at.clone();
        self.advance()?;
        let mut entries = Vec::new();
        while !self.is("}") {
            let optional = self.take("?")?;
            let key = self.expression()?;
            if !self.is(":") {
                return Err(self.unexpected("expected `:` after the key"));
            }
            self.advance()?;
            entries.push(Entry { key, value: self.expression()?, optional });
            if !self.take(",")? {
                break;
            }
        }
        self.expect("}", &at)?;
        let below: Vec<Id> = entries.iter().flat_map(|entry| [entry.key, entry.value]).collect();
        self.add(Kind::Map(entries), at.start..self.last, &below)
    }

    fn postfix(&mut self, mut of: Id) -> Made {
        let start = self.start_of(of);
        loop {
            if self.is("?") && self.is_optional_access() {
                of = self.question(of)?;
            } else if self.is(".") {
                self.advance()?;
                of = self.member(of, start)?;
            } else if self.is("[") {
                let at = self.at.clone();
                self.advance()?;
                let optional = self.take("?")?;
                let key = self.expression()?;
                self.expect("]", &at)?;
                of = self.add(Kind::Index { of, key, optional }, start..self.last, &[of, key])?;
            } else {
                return Ok(of);
            }
        }
    }

    /// Whether `?` belongs to the value before it: `a?.b`, `first(a?, b?)`. The point of
    /// `a?.b` stands right behind the question mark.
    fn is_optional_access(&self) -> bool {
        let mut ahead = self.tokens;
        match ahead.next() {
            Ok((Token::Sign("."), at)) => {
                at.start == self.at.end
                    && matches!(ahead.next(), Ok((Token::Name(_) | Token::Quoted(_), _)))
            }
            Ok((Token::Sign(sign), _)) => matches!(sign, "," | ")" | "]" | "}"),
            Ok((Token::End, _)) => true,
            _ => false,
        }
    }

    fn question(&mut self, of: Id) -> Made {
        let at = self.at.clone();
        self.advance()?;
        match self.nodes.get_mut(of as usize).map(|node| &mut node.kind) {
            Some(
                Kind::Name { optional, .. }
                | Kind::Select { optional, .. }
                | Kind::Index { optional, .. },
            ) => {
                *optional = true;
                Ok(of)
            }
            _ => {
                let at = self.start_of(of)..at.end;
                self.call(functions::global("optional.ofNonNull"), vec![of], at)
            }
        }
    }

    /// What follows a point: a field, a method, a macro, or the rest of a function's name.
    fn member(&mut self, of: Id, start: usize) -> Made {
        let optional = self.take("?")?;
        let quoted = matches!(self.next, Token::Quoted(_));
        let at = self.at.clone();
        let (Token::Name(name) | Token::Quoted(name)) = self.next.clone() else {
            return Err(self.unexpected("expected a field or a method after `.`"));
        };
        if !quoted && name == "in" {
            return Err(self.unexpected("expected a field or a method after `.`"));
        }
        self.advance()?;
        if !quoted && !optional {
            if let Some(qualified) = self.qualified(of, &name) {
                if let Some(name) = TypeName::named(&qualified) {
                    self.forget(of);
                    return self.add(Kind::TypeName(name), start..at.end, &[]);
                }
                if self.is("(")
                    && (functions::global(&qualified).is_some() || qualified == "cel.bind")
                {
                    self.forget(of);
                    return self.global(&qualified, start);
                }
            }
            if self.is("(") {
                return self.method(of, &name, start, at);
            }
        }
        self.add(Kind::Select { of, key: name.into(), optional }, start..at.end, &[of])
    }

    /// `math.max` if `of` is a name of the scope and `name` follows it.
    fn qualified(&self, of: Id, name: &str) -> Option<String> {
        match self.kind(of)? {
            Kind::Name { name: root, optional: false } => Some(format!("{root}.{name}")),
            // The only longer names are those of types: google.protobuf.Timestamp.
            Kind::Select { of, key, optional: false } => match self.kind(*of)? {
                Kind::Name { name: root, optional: false } => Some(format!("{root}.{key}.{name}")),
                _ => None,
            },
            _ => None,
        }
    }

    /// Removes the last nodes, which turned out to be the beginning of a name.
    fn forget(&mut self, of: Id) {
        let root = match self.kind(of) {
            Some(Kind::Select { of, .. }) => *of,
            _ => of,
        };
        self.nodes.truncate(root as usize);
        self.depths.truncate(root as usize);
    }

    /// The arguments of a call; its opening parenthesis is next.
    fn arguments(&mut self) -> Result<Vec<Id>, Error> {
        let at = self.at.clone();
        self.advance()?;
        let mut arguments = Vec::new();
        while !self.is(")") {
            arguments.push(self.expression()?);
            if !self.take(",")? {
                break;
            }
        }
        self.expect(")", &at)?;
        Ok(arguments)
    }

    fn global(&mut self, name: &str, start: usize) -> Made {
        let at = start..self.at.start;
        match name {
            "has" => return self.has(start),
            "cel.bind" => return self.bind(start),
            "default" | "first" => return self.first(name, start),
            _ => {}
        }
        let Some(function) = functions::global(name) else {
            let error = error(format!("there is no function `{name}`"), at);
            return Err(if functions::method(name).is_some() || macros::named(name).is_some() {
                error.hint(format!("`{name}` is a method; write value.{name}(…)"))
            } else if let Some(hint) = hint::foreign(name)
                .map(str::to_owned)
                .or_else(|| meant(name, functions::names(Form::Global)))
            {
                error.hint(hint)
            } else {
                error
            });
        };
        let arguments = self.arguments()?;
        self.call(Some(function), arguments, start..self.last)
    }

    fn method(&mut self, of: Id, name: &str, start: usize, at: Range<usize>) -> Made {
        if let Some((kind, least, most)) = macros::named(name) {
            return self.fold(kind, of, name, start, least..=most);
        }
        if name == "optMap" || name == "optFlatMap" {
            return self.opt_map(of, name == "optFlatMap", start);
        }
        let Some(function) = functions::method(name) else {
            let error = error(format!("there is no method `{name}`"), at);
            return Err(if functions::global(name).is_some() || name == "has" {
                error.hint(format!("`{name}` is a function; write {name}(value)"))
            } else if let Some(hint) = hint::foreign(name)
                .map(str::to_owned)
                .or_else(|| meant(name, functions::names(Form::Method).chain(macros::MACROS)))
            {
                error.hint(hint)
            } else {
                error
            });
        };
        let mut arguments = self.arguments()?;
        arguments.insert(0, of);
        self.call(Some(function), arguments, start..self.last)
    }

    fn call(&mut self, function: Option<Function>, arguments: Vec<Id>, at: Range<usize>) -> Made {
        let Some(function) = function else { return Err(error("there is no such function", at)) };
        if !function.takes(arguments.len()) {
            return Err(error(
                format!(
                    "`{}` has {} arguments here",
                    function.name,
                    function.shown(arguments.len())
                ),
                at,
            )
            .hint(format!("write {}", function.usage())));
        }
        let mut pattern = None;
        if function.name == "matches"
            && let Some(id) = arguments.get(1)
            && let Some(Node { kind: Kind::Literal(Literal::Text(text)), at }) =
                self.nodes.get(*id as usize)
        {
            let at = at.start as usize..at.end as usize;
            let compiled = Pattern::new(text)
                .map_err(|fault| Error { kind: ErrorKind::Parse, ..fault.into_error(at) })?;
            pattern = Some(Box::new(compiled));
        }
        let below = arguments.clone();
        self.add(Kind::Call { function, arguments, pattern }, at, &below)
    }
}

fn too_deep(at: Range<usize>) -> Error {
    error(format!("the expression is nested more than {MAX_DEPTH} levels deep"), at)
        .hint("divide it among several steps")
}

fn out_of_range(at: Range<usize>) -> Error {
    error("the number does not fit into 64 bits", at)
        .hint("write it with a point for a double: 1e19")
}

fn error(message: impl Into<String>, at: Range<usize>) -> Error {
    Error::new(ErrorKind::Parse, message, at)
}
