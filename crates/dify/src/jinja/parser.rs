//! Reads tokens into statements and expressions.

use std::rc::Rc;

use super::JinjaError;
use super::lexer::{Token, TokenKind, tokens};
use super::syntax::{Arguments, Comparison, Expr, FilterCall, Macro, Node, Operator, Target, What};
use crate::value::Value;

/// How high an expression may grow, and how deep statements may nest: the stack bounds it.
const MAX_HEIGHT: usize = 60;

/// Statements that load other templates, or that Dify's engine has not switched on.
const UNAVAILABLE: [&str; 10] =
    ["include", "import", "from", "extends", "block", "call", "do", "break", "continue", "trans"];

/// An expression and how high it is.
struct Tall {
    expr: Expr,
    height: usize,
}

type Parsed = Result<Tall, JinjaError>;

/// Reads a template.
pub(super) fn parse(source: &str) -> Result<Vec<Node>, JinjaError> {
    let mut parser = Parser { tokens: tokens(source)?, at: 0, depth: 0 };
    let (nodes, _) = parser.nodes(None)?;
    Ok(nodes)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn line(&self) -> u32 {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |token| token.line)
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, JinjaError> {
        Err(JinjaError::new(message).at(self.line()))
    }

    fn peek(&self) -> Option<&TokenKind> {
        self.tokens.get(self.at).map(|token| &token.what)
    }

    fn next(&mut self) -> Option<TokenKind> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token.what.clone())
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(TokenKind::Sign(found)) if *found == sign)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    fn want_sign(&mut self, sign: &str) -> Result<(), JinjaError> {
        match self.take_sign(sign) {
            true => Ok(()),
            false => self.error(format!("expected '{sign}', found {}", self.found())),
        }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(TokenKind::Name(found)) if found == word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn name(&mut self) -> Result<String, JinjaError> {
        match self.next() {
            Some(TokenKind::Name(name)) => Ok(name),
            _ => {
                self.at -= 1;
                self.error(format!("expected a name, found {}", self.found()))
            }
        }
    }

    fn found(&self) -> String {
        match self.peek() {
            None => "the end of the template".to_owned(),
            Some(TokenKind::End) => "the end of the block".to_owned(),
            Some(TokenKind::Name(name)) => format!("'{name}'"),
            Some(TokenKind::Sign(sign)) => format!("'{sign}'"),
            Some(TokenKind::Constant(_)) => "a constant".to_owned(),
            Some(_) => "text".to_owned(),
        }
    }

    fn end(&mut self) -> Result<(), JinjaError> {
        match self.peek() {
            Some(TokenKind::End) => {
                self.at += 1;
                Ok(())
            }
            _ => self.error(format!("expected the end of the block, found {}", self.found())),
        }
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, JinjaError>,
    ) -> Result<T, JinjaError> {
        if self.depth >= MAX_HEIGHT {
            return self.error("nested too deeply");
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Statements up to one of the words that end them; the word is consumed, not the
    /// end of its block.
    fn nodes(&mut self, ends: Option<(&str, &[&str])>) -> Result<(Vec<Node>, String), JinjaError> {
        let opened = self.line();
        let mut nodes = Vec::new();
        loop {
            let line = self.line();
            match self.next() {
                None => {
                    return match ends {
                        None => Ok((nodes, String::new())),
                        Some((name, words)) => {
                            let end = words.last().copied().unwrap_or_default();
                            let message = format!("'{name}' is not closed; write {{% {end} %}}");
                            Err(JinjaError::new(message).at(opened))
                        }
                    };
                }
                Some(TokenKind::Text(text)) => nodes.push(Node { line, what: What::Text(text) }),
                Some(TokenKind::PrintStart) => {
                    let expr = self.tuple()?;
                    self.end()?;
                    nodes.push(Node { line, what: What::Print(expr) });
                }
                _ => {
                    let word = self.name()?;
                    if let Some((_, words)) = ends
                        && words.contains(&word.as_str())
                    {
                        return Ok((nodes, word));
                    }
                    let what = self.deeper(|parser| parser.statement(&word))?;
                    nodes.push(Node { line, what });
                }
            }
        }
    }

    fn body(&mut self, name: &str, end: &str) -> Result<Vec<Node>, JinjaError> {
        self.end()?;
        let (body, _) = self.nodes(Some((name, &[end])))?;
        // `{% endmacro name %}`
        if matches!(self.peek(), Some(TokenKind::Name(_))) {
            self.at += 1;
        }
        self.end()?;
        Ok(body)
    }

    fn statement(&mut self, word: &str) -> Result<What, JinjaError> {
        match word {
            "for" => self.for_loop(),
            "if" => self.condition(),
            "set" => self.set(),
            "with" => {
                let mut names = Vec::new();
                while !matches!(self.peek(), Some(TokenKind::End)) {
                    if !names.is_empty() {
                        self.want_sign(",")?;
                    }
                    let name = self.name()?;
                    self.want_sign("=")?;
                    names.push((name, self.expr()?));
                }
                Ok(What::With { names, body: self.body("with", "endwith")? })
            }
            "filter" => {
                let first = self.filter_call()?;
                let mut filters = vec![first];
                while self.take_sign("|") {
                    filters.push(self.filter_call()?);
                }
                Ok(What::Filter { filters, body: self.body("filter", "endfilter")? })
            }
            "autoescape" => {
                self.expr()?;
                let body = self.body("autoescape", "endautoescape")?;
                Ok(What::With { names: Vec::new(), body })
            }
            "macro" => self.macro_definition(),
            _ if UNAVAILABLE.contains(&word) => {
                self.at -= 1;
                self.error(format!("'{word}' is not available in Dify's templates"))
            }
            _ => {
                self.at -= 1;
                self.error(format!("no statement named '{word}'"))
            }
        }
    }

    fn for_loop(&mut self) -> Result<What, JinjaError> {
        let bracket = self.take_sign("(");
        let mut targets = vec![self.name()?];
        while self.take_sign(",") {
            targets.push(self.name()?);
        }
        if bracket {
            self.want_sign(")")?;
        }
        if !self.take_word("in") {
            return self.error(format!("expected 'in', found {}", self.found()));
        }
        let over = self.tuple_of(Self::or)?;
        let only = if self.take_word("if") { Some(self.expr()?) } else { None };
        self.take_word("recursive");
        self.end()?;
        let (body, ended) = self.nodes(Some(("for", &["else", "endfor"])))?;
        self.end()?;
        let mut otherwise = Vec::new();
        if ended == "else" {
            (otherwise, _) = self.nodes(Some(("for", &["endfor"])))?;
            self.end()?;
        }
        Ok(What::For { targets, over, only, body, otherwise })
    }

    fn condition(&mut self) -> Result<What, JinjaError> {
        let (mut cases, mut otherwise) = (Vec::new(), Vec::new());
        let mut test = self.tuple()?;
        loop {
            self.end()?;
            let (body, ended) = self.nodes(Some(("if", &["elif", "else", "endif"])))?;
            cases.push((test, body));
            match ended.as_str() {
                "elif" => test = self.tuple()?,
                "else" => {
                    self.end()?;
                    (otherwise, _) = self.nodes(Some(("if", &["endif"])))?;
                    break;
                }
                _ => break,
            }
        }
        self.end()?;
        Ok(What::If { cases, otherwise })
    }

    fn set(&mut self) -> Result<What, JinjaError> {
        let mut targets = vec![self.target()?];
        while self.take_sign(",") {
            targets.push(self.target()?);
        }
        if self.take_sign("=") {
            let value = self.tuple()?;
            self.end()?;
            return Ok(What::Set { targets, value });
        }
        let mut filters = Vec::new();
        while self.take_sign("|") {
            filters.push(self.filter_call()?);
        }
        let target = targets.swap_remove(0);
        Ok(What::SetBlock { target, filters, body: self.body("set", "endset")? })
    }

    fn target(&mut self) -> Result<Target, JinjaError> {
        let name = self.name()?;
        match self.take_sign(".") {
            true => Ok(Target::Attribute(name, self.name()?)),
            false => Ok(Target::Name(name)),
        }
    }

    fn macro_definition(&mut self) -> Result<What, JinjaError> {
        let name = self.name()?;
        let mut parameters = Vec::new();
        self.want_sign("(")?;
        while !self.take_sign(")") {
            if !parameters.is_empty() {
                self.want_sign(",")?;
            }
            let parameter = self.name()?;
            let default = if self.take_sign("=") { Some(self.expr()?) } else { None };
            parameters.push((parameter, default));
        }
        let body = self.body("macro", "endmacro")?;
        Ok(What::Macro(Rc::new(Macro { name, parameters, body })))
    }

    /// An expression, or several with commas between them.
    fn tuple(&mut self) -> Result<Expr, JinjaError> {
        self.tuple_of(Self::choice)
    }

    fn tuple_of(&mut self, read: fn(&mut Self) -> Parsed) -> Result<Expr, JinjaError> {
        let first = self.deeper(read)?.expr;
        if !self.is_sign(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.take_sign(",") {
            if matches!(self.peek(), Some(TokenKind::End)) {
                break;
            }
            items.push(self.deeper(read)?.expr);
        }
        Ok(Expr::List(items))
    }

    fn expr(&mut self) -> Result<Expr, JinjaError> {
        Ok(self.deeper(Self::choice)?.expr)
    }

    fn tall(&self, expr: Expr, height: usize) -> Parsed {
        match height >= MAX_HEIGHT {
            true => self.error("nested too deeply"),
            false => Ok(Tall { expr, height: height + 1 }),
        }
    }

    fn choice(&mut self) -> Parsed {
        let mut value = self.or()?;
        while self.take_word("if") {
            let test = self.or()?;
            let otherwise =
                if self.take_word("else") { Some(self.deeper(Self::choice)?) } else { None };
            let height =
                value.height.max(test.height).max(otherwise.as_ref().map_or(0, |o| o.height));
            let otherwise = otherwise.map(|otherwise| Box::new(otherwise.expr));
            let expr = Expr::Choice(Box::new(test.expr), Box::new(value.expr), otherwise);
            value = self.tall(expr, height)?;
        }
        Ok(value)
    }

    /// Operands of a flat chain.
    fn chain(
        &mut self,
        read: fn(&mut Self) -> Parsed,
        more: impl Fn(&mut Self) -> bool,
        join: fn(Vec<Expr>) -> Expr,
    ) -> Parsed {
        let first = read(self)?;
        let (mut height, mut all) = (first.height, vec![first.expr]);
        while more(self) {
            let next = read(self)?;
            height = height.max(next.height);
            all.push(next.expr);
        }
        if all.len() == 1 {
            return Ok(Tall { expr: all.swap_remove(0), height });
        }
        self.tall(join(all), height)
    }

    fn or(&mut self) -> Parsed {
        self.chain(Self::and, |parser| parser.take_word("or"), Expr::Or)
    }

    fn and(&mut self) -> Parsed {
        self.chain(Self::not, |parser| parser.take_word("and"), Expr::And)
    }

    fn not(&mut self) -> Parsed {
        if self.take_word("not") {
            let value = self.deeper(Self::not)?;
            return self.tall(Expr::Not(Box::new(value.expr)), value.height);
        }
        self.compare()
    }

    fn compare(&mut self) -> Parsed {
        let first = self.sum()?;
        let (mut height, mut rest) = (first.height, Vec::new());
        while let Some(comparison) = self.comparison() {
            let next = self.sum()?;
            height = height.max(next.height);
            rest.push((comparison, next.expr));
        }
        match rest.is_empty() {
            true => Ok(first),
            false => self.tall(Expr::Compare(Box::new(first.expr), rest), height),
        }
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let (comparison, tokens) = match self.peek()? {
            TokenKind::Sign("==") => (Comparison::Equal, 1),
            TokenKind::Sign("!=") => (Comparison::NotEqual, 1),
            TokenKind::Sign("<") => (Comparison::Less, 1),
            TokenKind::Sign("<=") => (Comparison::LessOrEqual, 1),
            TokenKind::Sign(">") => (Comparison::Greater, 1),
            TokenKind::Sign(">=") => (Comparison::GreaterOrEqual, 1),
            TokenKind::Name(word) if word == "in" => (Comparison::In, 1),
            TokenKind::Name(word) if word == "not" => {
                let after = self.tokens.get(self.at + 1).map(|token| &token.what);
                match after {
                    Some(TokenKind::Name(word)) if word == "in" => (Comparison::NotIn, 2),
                    _ => return None,
                }
            }
            _ => return None,
        };
        self.at += tokens;
        Some(comparison)
    }

    /// A chain of operators that join from the left.
    fn binary(&mut self, read: fn(&mut Self) -> Parsed, signs: &[(&str, Operator)]) -> Parsed {
        let mut left = read(self)?;
        while let Some((_, operator)) = signs.iter().find(|(sign, _)| self.is_sign(sign)) {
            self.at += 1;
            let right = read(self)?;
            let height = left.height.max(right.height);
            let expr = Expr::Binary(*operator, Box::new(left.expr), Box::new(right.expr));
            left = self.tall(expr, height)?;
        }
        Ok(left)
    }

    fn sum(&mut self) -> Parsed {
        self.binary(Self::concat, &[("+", Operator::Add), ("-", Operator::Subtract)])
    }

    fn concat(&mut self) -> Parsed {
        self.chain(Self::product, |parser| parser.take_sign("~"), Expr::Concat)
    }

    fn product(&mut self) -> Parsed {
        let signs = [
            ("*", Operator::Multiply),
            ("//", Operator::FloorDivide),
            ("/", Operator::Divide),
            ("%", Operator::Remainder),
        ];
        self.binary(Self::power, &signs)
    }

    /// Powers join from the left, and a sign binds closer: so Jinja has it.
    fn power(&mut self) -> Parsed {
        self.binary(Self::unary, &[("**", Operator::Power)])
    }

    fn unary(&mut self) -> Parsed {
        let value = if self.take_sign("-") {
            let value = self.deeper(Self::unary_plain)?;
            self.tall(Expr::Negative(Box::new(value.expr)), value.height)?
        } else if self.take_sign("+") {
            self.deeper(Self::unary_plain)?
        } else {
            self.primary()?
        };
        let value = self.postfix(value)?;
        self.filters(value)
    }

    /// A signed operand without filters, which apply to the whole.
    fn unary_plain(&mut self) -> Parsed {
        if self.take_sign("-") {
            let value = self.deeper(Self::unary_plain)?;
            return self.tall(Expr::Negative(Box::new(value.expr)), value.height);
        }
        if self.take_sign("+") {
            return self.deeper(Self::unary_plain);
        }
        let value = self.primary()?;
        self.postfix(value)
    }

    fn primary(&mut self) -> Parsed {
        let constant = |value: Value| Ok(Tall { expr: Expr::Constant(value), height: 0 });
        let expr = match self.next() {
            Some(TokenKind::Constant(mut value)) => {
                // Texts side by side are one.
                while let (Value::Text(text), Some(TokenKind::Constant(Value::Text(more)))) =
                    (&value, self.peek())
                {
                    value = Value::from(format!("{text}{more}"));
                    self.at += 1;
                }
                return constant(value);
            }
            Some(TokenKind::Name(name)) => match name.as_str() {
                "true" | "True" => return constant(Value::Bool(true)),
                "false" | "False" => return constant(Value::Bool(false)),
                "none" | "None" => return constant(Value::Null),
                _ => Expr::Name(name),
            },
            Some(TokenKind::Sign("(")) => return self.bracket(),
            Some(TokenKind::Sign("[")) => return self.list("]"),
            Some(TokenKind::Sign("{")) => return self.dict(),
            _ => {
                self.at -= 1;
                return self.error(format!("expected a value, found {}", self.found()));
            }
        };
        Ok(Tall { expr, height: 0 })
    }

    fn bracket(&mut self) -> Parsed {
        if self.take_sign(")") {
            return Ok(Tall { expr: Expr::List(Vec::new()), height: 0 });
        }
        let first = self.deeper(Self::choice)?;
        if self.take_sign(")") {
            return Ok(first);
        }
        self.want_sign(",")?;
        let rest = self.list(")")?;
        let (Expr::List(mut items), height) = (rest.expr, rest.height.max(first.height)) else {
            return self.error("expected ')'");
        };
        items.insert(0, first.expr);
        self.tall(Expr::List(items), height)
    }

    fn list(&mut self, end: &str) -> Parsed {
        let (mut items, mut height) = (Vec::new(), 0);
        while !self.take_sign(end) {
            let item = self.deeper(Self::choice)?;
            height = height.max(item.height);
            items.push(item.expr);
            if !self.is_sign(end) {
                self.want_sign(",")?;
            }
        }
        self.tall(Expr::List(items), height)
    }

    fn dict(&mut self) -> Parsed {
        let (mut entries, mut height) = (Vec::new(), 0);
        while !self.take_sign("}") {
            let key = self.deeper(Self::choice)?;
            self.want_sign(":")?;
            let value = self.deeper(Self::choice)?;
            height = height.max(key.height).max(value.height);
            entries.push((key.expr, value.expr));
            if !self.is_sign("}") {
                self.want_sign(",")?;
            }
        }
        self.tall(Expr::Dict(entries), height)
    }

    /// Attributes, items and calls.
    fn postfix(&mut self, mut value: Tall) -> Parsed {
        loop {
            let height = value.height;
            if self.take_sign(".") {
                let expr = match self.next() {
                    Some(TokenKind::Name(name)) => Expr::Attribute(Box::new(value.expr), name),
                    Some(TokenKind::Constant(index @ Value::Int(_))) => {
                        Expr::Item(Box::new(value.expr), Box::new(Expr::Constant(index)))
                    }
                    _ => {
                        self.at -= 1;
                        return self.error(format!("expected a name, found {}", self.found()));
                    }
                };
                value = self.tall(expr, height)?;
            } else if self.take_sign("[") {
                value = self.subscript(value)?;
            } else if self.take_sign("(") {
                let (arguments, inner) = self.arguments()?;
                let expr = Expr::Call(Box::new(value.expr), arguments);
                value = self.tall(expr, height.max(inner))?;
            } else {
                return Ok(value);
            }
        }
    }

    fn subscript(&mut self, value: Tall) -> Parsed {
        let mut parts: [Option<Box<Expr>>; 3] = [None, None, None];
        let (mut at, mut height) = (0, value.height);
        loop {
            if self.take_sign("]") {
                break;
            }
            if self.take_sign(":") {
                at += 1;
                if at > 2 {
                    return self.error("a slice has at most three parts");
                }
                continue;
            }
            let part = self.deeper(Self::choice)?;
            height = height.max(part.height);
            parts[at] = Some(Box::new(part.expr));
            if !self.is_sign(":") && !self.is_sign("]") {
                self.want_sign("]")?;
            }
        }
        let base = Box::new(value.expr);
        let expr = match (at, parts) {
            (0, [Some(index), ..]) => Expr::Item(base, index),
            (0, _) => return self.error("expected a value, found ']'"),
            (_, parts) => Expr::Slice(base, parts),
        };
        self.tall(expr, height)
    }

    /// The arguments of a call, after its bracket.
    fn arguments(&mut self) -> Result<(Arguments, usize), JinjaError> {
        let (mut arguments, mut height) = (Arguments::default(), 0);
        while !self.take_sign(")") {
            let named = match (self.peek(), self.tokens.get(self.at + 1).map(|t| &t.what)) {
                (Some(TokenKind::Name(name)), Some(TokenKind::Sign("="))) => Some(name.clone()),
                _ => None,
            };
            self.at += if named.is_some() { 2 } else { 0 };
            let value = self.deeper(Self::choice)?;
            height = height.max(value.height);
            match named {
                Some(name) => arguments.named.push((name, value.expr)),
                None => arguments.list.push(value.expr),
            }
            if !self.is_sign(")") {
                self.want_sign(",")?;
            }
        }
        Ok((arguments, height))
    }

    fn filter_call(&mut self) -> Result<FilterCall, JinjaError> {
        let name = self.name()?;
        let arguments =
            if self.take_sign("(") { self.arguments()?.0 } else { Arguments::default() };
        Ok(FilterCall { name, arguments })
    }

    /// Filters and tests.
    fn filters(&mut self, mut value: Tall) -> Parsed {
        loop {
            let height = value.height;
            if self.take_sign("|") {
                let call = self.deeper(Self::filter_call)?;
                value = self.tall(Expr::Filter(Box::new(value.expr), call), height.max(1))?;
                value = self.postfix(value)?;
            } else if self.take_word("is") {
                let negated = self.take_word("not");
                let name = self.name()?;
                let mut arguments = Arguments::default();
                if self.take_sign("(") {
                    arguments = self.arguments()?.0;
                } else if self.starts_operand() {
                    let operand = self.deeper(|parser| {
                        let value = parser.primary()?;
                        parser.postfix(value)
                    })?;
                    arguments.list.push(operand.expr);
                }
                let call = FilterCall { name, arguments };
                value = self.tall(Expr::Test(Box::new(value.expr), call, negated), height)?;
            } else {
                return Ok(value);
            }
        }
    }

    /// Whether an operand of a test without brackets follows (`is divisibleby 3`).
    fn starts_operand(&self) -> bool {
        match self.peek() {
            Some(TokenKind::Constant(_) | TokenKind::Sign("[" | "{")) => true,
            Some(TokenKind::Name(word)) => {
                !matches!(word.as_str(), "and" | "or" | "not" | "if" | "else" | "is" | "in")
            }
            _ => false,
        }
    }
}
