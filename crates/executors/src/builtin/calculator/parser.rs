//! Parser: converts tokens to postfix steps by precedence climbing.
//!
//! From weak to strong: `+ -`, `* / // %`, unary `+ -`, `^` (right-associative), `!`. So
//! `-2^2` is `-4` and `2^-1` is `0.5`, as in mathematics.

use super::Fault;
use super::functions::{CONSTANTS, Constant, FUNCTIONS, Function};
use super::lexer::{Kind, Literal, Token};

/// Maximum nesting of parentheses, signs and powers.
const MAX_DEPTH: usize = 200;

/// One instruction for the stack machine.
pub(super) struct Step {
    /// The character where it is written, for errors.
    pub(super) at: usize,
    pub(super) action: Action,
}

pub(super) enum Action {
    Push(Literal),
    Constant(Constant),
    Unary(Unary),
    Binary(Binary),
    /// Applies a function to this many numbers from the stack.
    Call(&'static Function, usize),
}

#[derive(Clone, Copy)]
pub(super) enum Unary {
    Negate,
    Factorial,
}

#[derive(Clone, Copy)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

/// Precedence of operators; the higher one binds first.
const SUM: u8 = 1;
const PRODUCT: u8 = 2;
const SIGN: u8 = 3;
const POWER: u8 = 4;

/// Reads a whole expression.
pub(super) fn parse(tokens: &[Token]) -> Result<Vec<Step>, Fault> {
    let mut parser = Parser { tokens, next: 0, depth: 0, steps: Vec::new() };
    parser.expression(SUM)?;
    match parser.peek() {
        (_, Kind::End) => Ok(parser.steps),
        (at, Kind::Close) => Err(Fault::syntax(at, "this `)` closes nothing")),
        (at, Kind::Comma) => Err(Fault::syntax(
            at,
            "a `,` stands only between the arguments of a function; write 1000 or 1_000",
        )),
        (at, found) => Err(Fault::syntax(
            at,
            format!("expected an operator or the end, found {}", found.describe()),
        )),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    next: usize,
    depth: usize,
    steps: Vec<Step>,
}

impl Parser<'_> {
    /// Reads operands and operators of at least the precedence `weakest`.
    fn expression(&mut self, weakest: u8) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("nested more than {MAX_DEPTH} deep");
            return Err(Fault::syntax(self.peek().0, message));
        }
        self.operand()?;
        loop {
            let (at, found) = self.peek();
            let (binary, strength) = match found {
                Kind::Plus => (Binary::Add, SUM),
                Kind::Minus => (Binary::Subtract, SUM),
                Kind::Times => (Binary::Multiply, PRODUCT),
                Kind::Divide => (Binary::Divide, PRODUCT),
                Kind::FloorDivide => (Binary::FloorDivide, PRODUCT),
                Kind::Remainder => (Binary::Remainder, PRODUCT),
                Kind::Power => (Binary::Power, POWER),
                _ => break,
            };
            if strength < weakest {
                break;
            }
            self.next += 1;
            if matches!(binary, Binary::Remainder) {
                self.refuse_percentage(at)?;
            }
            // A power takes its right operand first, including its sign.
            let right = if strength == POWER { SIGN } else { strength + 1 };
            self.expression(right)?;
            self.push(at, Action::Binary(binary));
        }
        self.depth -= 1;
        Ok(())
    }

    fn operand(&mut self) -> Result<(), Fault> {
        let (at, found) = self.peek();
        let found = found.clone();
        self.next += 1;
        match found {
            Kind::Number(number) => self.push(at, Action::Push(number)),
            Kind::Minus => {
                self.expression(SIGN)?;
                self.push(at, Action::Unary(Unary::Negate));
                return Ok(());
            }
            Kind::Plus => return self.expression(SIGN),
            Kind::Open => {
                self.expression(SUM)?;
                self.close(at)?;
            }
            Kind::Name(name) => self.name(at, &name)?,
            other => {
                let message =
                    format!("expected a number, a function or `(`, found {}", other.describe());
                return Err(Fault::syntax(at, message));
            }
        }
        while let (at, Kind::Factorial) = self.peek() {
            self.next += 1;
            self.push(at, Action::Unary(Unary::Factorial));
        }
        Ok(())
    }

    /// A constant, or a function with its arguments.
    fn name(&mut self, at: usize, name: &str) -> Result<(), Fault> {
        if let Some((_, constant)) = CONSTANTS.iter().find(|(known, _)| *known == name) {
            self.push(at, Action::Constant(*constant));
            return Ok(());
        }
        let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
            return Err(Fault::syntax(at, unknown_name(name)));
        };
        let (open, found) = self.peek();
        if *found != Kind::Open {
            let message = format!("expected `(` after `{name}`, found {}", found.describe());
            return Err(Fault::syntax(open, message));
        }
        self.next += 1;
        let mut count = 0;
        if *self.peek().1 != Kind::Close {
            loop {
                self.expression(SUM)?;
                count += 1;
                if *self.peek().1 != Kind::Comma {
                    break;
                }
                self.next += 1;
            }
        }
        self.close(open)?;
        if !function.arguments.contains(&count) {
            return Err(Fault::syntax(at, function.wrong_count(count)));
        }
        self.push(at, Action::Call(function, count));
        Ok(())
    }

    fn close(&mut self, open: usize) -> Result<(), Fault> {
        let (at, found) = self.peek();
        if *found != Kind::Close {
            let message = format!(
                "expected an operator or `)` for the `(` at character {open}, found {}",
                found.describe()
            );
            return Err(Fault::syntax(at, message));
        }
        self.next += 1;
        Ok(())
    }

    /// Rejects `5%` at the end of an operand: calculators disagree on what `200 + 5%`
    /// means. The error shows the unambiguous form.
    fn refuse_percentage(&self, at: usize) -> Result<(), Fault> {
        match self.peek().1 {
            Kind::Number(_) | Kind::Name(_) | Kind::Open | Kind::Minus | Kind::Plus => Ok(()),
            _ => Err(Fault::syntax(
                at,
                "`%` is the remainder, as in `7 % 3`; write a percentage as a fraction: 5/100",
            )),
        }
    }

    fn peek(&self) -> (usize, &Kind) {
        match self.tokens.get(self.next).or(self.tokens.last()) {
            Some(token) => (token.at, &token.kind),
            None => (1, &Kind::End),
        }
    }

    fn push(&mut self, at: usize, action: Action) {
        self.steps.push(Step { at, action });
    }
}

fn unknown_name(name: &str) -> String {
    let functions: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
    let constants: Vec<&str> = CONSTANTS.iter().map(|(name, _)| *name).collect();
    let name: String = name.chars().take(40).collect();
    format!(
        "`{name}` is not known; functions: {}; constants: {}",
        functions.join(", "),
        constants.join(", ")
    )
}
