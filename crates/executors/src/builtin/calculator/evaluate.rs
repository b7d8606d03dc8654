//! Evaluates postfix steps with a stack; a loop, so that a long expression cannot
//! overflow the thread's stack.

use super::Fault;
use super::number::{Budget, Number};
use super::parser::{Action, Binary, Step, Unary};

/// Runs the steps.
pub(super) fn evaluate(steps: &[Step]) -> Result<Number, Fault> {
    let mut budget = Budget::new();
    let mut stack: Vec<Number> = Vec::new();
    for step in steps {
        let number = apply(&step.action, &mut stack, &mut budget)
            .map_err(|message| Fault::value(step.at, message))?;
        stack.push(number);
    }
    stack.pop().ok_or_else(|| Fault::syntax(0, "the expression is empty"))
}

fn apply(action: &Action, stack: &mut Vec<Number>, budget: &mut Budget) -> Result<Number, String> {
    match action {
        Action::Push(literal) => {
            Number::ratio(literal.numerator.clone(), literal.denominator.clone(), budget)
        }
        Action::Constant(constant) => Ok(constant.number()),
        Action::Unary(Unary::Negate) => Ok(pop(stack)?.negate()),
        Action::Unary(Unary::Factorial) => pop(stack)?.factorial(budget),
        Action::Binary(binary) => {
            let right = pop(stack)?;
            let left = pop(stack)?;
            match binary {
                Binary::Add => left.add(&right, budget),
                Binary::Subtract => left.add(&right.negate(), budget),
                Binary::Multiply => left.multiply(&right, budget),
                Binary::Divide => left.divide(&right, budget),
                Binary::FloorDivide => left.divide(&right, budget)?.floor(),
                Binary::Remainder => left.remainder(&right, budget),
                Binary::Power => left.power(&right, budget),
            }
        }
        Action::Call(function, count) => {
            let from = stack.len().checked_sub(*count).ok_or(UNBALANCED)?;
            let arguments = stack.split_off(from);
            (function.apply)(&arguments, budget)
        }
    }
}

/// The parser emits as many operands as operators take, so this is not seen.
const UNBALANCED: &str = "an operand is missing";

fn pop(stack: &mut Vec<Number>) -> Result<Number, String> {
    stack.pop().ok_or_else(|| UNBALANCED.to_owned())
}
