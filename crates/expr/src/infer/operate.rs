//! The types of operators.

use super::Unfit;
use super::access::each;
use crate::syntax::Operator;
use crate::types::Type;

/// The type of `-x`.
pub(super) fn negated(of: &Type) -> Result<Type, Unfit> {
    each(of, |of| match of {
        Type::Dyn | Type::Int | Type::Double => Ok(of.clone()),
        other => Err(Unfit::new(format!("`-` needs a number, not {}", other.described()))),
    })
}

/// The type of `left operator right`.
pub(super) fn binary(operator: Operator, left: &Type, right: &Type) -> Result<Type, Unfit> {
    let mut types = Vec::new();
    for left in left.alternatives() {
        for right in right.alternatives() {
            types.extend(pair(operator, left, right));
        }
    }
    if !types.is_empty() {
        return Ok(Type::union(types));
    }
    let sign = operator.sign();
    let (shown_left, shown_right) = (left.described(), right.described());
    let optional = |of: &Type| matches!(of, Type::Optional(_));
    if matches!(operator, Operator::Equal | Operator::Unequal) {
        let unfit = Unfit::new(format!(
            "`{sign}` compares {shown_left} and {shown_right}, which are never equal"
        ));
        return Err(if optional(left) || optional(right) {
            unfit.hint("write value.orValue(otherwise) or default(value, otherwise)")
        } else {
            unfit.hint("convert one of them: string(x), int(x), double(x)")
        });
    }
    let unfit = Unfit::new(format!("`{sign}` cannot take {shown_left} and {shown_right}"));
    let text = |of: &Type| *of == Type::Text;
    Err(match operator {
        _ if optional(left) || optional(right) => {
            unfit.hint("write value.orValue(otherwise) or default(value, otherwise)")
        }
        Operator::In if text(right) => unfit.hint("write text.contains(part)"),
        Operator::Add if text(left) || text(right) => {
            unfit.hint("write string(value) to join texts")
        }
        Operator::Remainder => unfit.hint("`%` is for whole numbers; write int(x)"),
        _ if text(left) || text(right) => {
            unfit.hint("write int(text) or double(text) for a number")
        }
        _ => unfit,
    })
}

/// The type for two alternatives, if they fit.
fn pair(operator: Operator, left: &Type, right: &Type) -> Option<Type> {
    use Operator::{
        Add, Equal, Greater, GreaterEqual, In, Less, LessEqual, Remainder, Subtract, Unequal,
    };
    let numbers = left.is_number() && right.is_number();
    match (operator, left, right) {
        // Anything may be compared with null, which asks whether it is there.
        (Equal | Unequal, Type::Null, _) | (Equal | Unequal, _, Type::Null) => Some(Type::Bool),
        (Equal | Unequal, Type::Optional(_), Type::Optional(_)) => Some(Type::Bool),
        (Equal | Unequal, Type::Optional(_), other)
        | (Equal | Unequal, other, Type::Optional(_)) => {
            (*other == Type::Dyn).then_some(Type::Bool)
        }
        (Equal | Unequal, ..) => {
            let maps = |of: &Type| matches!(of, Type::Map(_) | Type::Object(_));
            (left.can_be(right) || right.can_be(left) || (maps(left) && maps(right)))
                .then_some(Type::Bool)
        }
        (In, _, Type::Dyn | Type::List(_) | Type::Map(_) | Type::Object(_)) => Some(Type::Bool),
        (In, ..) => None,
        (Less | LessEqual | Greater | GreaterEqual, ..) => {
            let ordered = |of: &Type| {
                matches!(
                    of,
                    Type::Dyn
                        | Type::Bool
                        | Type::Text
                        | Type::Bytes
                        | Type::Timestamp
                        | Type::Duration
                ) || of.is_number()
            };
            let same = || *left == Type::Dyn || *right == Type::Dyn || left == right || numbers;
            (ordered(left) && ordered(right) && same()).then_some(Type::Bool)
        }
        (Remainder, Type::Double, _) | (Remainder, _, Type::Double) => None,
        (_, Type::Int, Type::Int) => Some(Type::Int),
        (_, Type::Uint, Type::Uint) => Some(Type::Uint),
        (_, Type::Double, _) | (_, _, Type::Double) if numbers => Some(Type::Double),
        _ if numbers => Some(Type::Dyn),
        (Add, Type::Text, Type::Text | Type::Dyn) | (Add, Type::Dyn, Type::Text) => {
            Some(Type::Text)
        }
        (Add, Type::Bytes, Type::Bytes | Type::Dyn) | (Add, Type::Dyn, Type::Bytes) => {
            Some(Type::Bytes)
        }
        (Add, Type::List(_), Type::List(_)) => Some(left.join(right)),
        (Add, Type::List(_), Type::Dyn) | (Add, Type::Dyn, Type::List(_)) => {
            Some(Type::list(Type::Dyn))
        }
        (Add, Type::Timestamp, Type::Duration)
        | (Add, Type::Duration, Type::Timestamp)
        | (Subtract, Type::Timestamp, Type::Duration) => Some(Type::Timestamp),
        (Add | Subtract, Type::Duration, Type::Duration)
        | (Subtract, Type::Timestamp, Type::Timestamp) => Some(Type::Duration),
        (Add | Subtract, Type::Dyn, Type::Dyn | Type::Timestamp | Type::Duration)
        | (Add | Subtract, Type::Timestamp | Type::Duration, Type::Dyn) => Some(Type::Dyn),
        (_, Type::Dyn, Type::Dyn) => Some(Type::Dyn),
        (_, Type::Dyn, number) | (_, number, Type::Dyn) if number.is_number() => Some(Type::Dyn),
        _ => None,
    }
}
