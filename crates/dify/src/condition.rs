//! Conditions of if-else nodes and loops: Dify's 21 operators.
//!
//! They follow Python where it shows: `contains` on an empty value is false, `is` on a
//! number is an error, `5 = "5.5"` is an error because the expected text is read as a
//! whole number. The messages are those that Dify's users know.

use std::cmp::Ordering;
use std::fmt;

use crate::pool::Pool;
use crate::template;
use crate::value::number::{compare, parse_float, parse_int, truncate};
use crate::value::{Kind, Value, text};

/// How a value and what is expected are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names in OPERATORS say it")]
pub enum Operator {
    Contains,
    NotContains,
    StartWith,
    EndWith,
    Is,
    IsNot,
    Empty,
    NotEmpty,
    In,
    NotIn,
    AllOf,
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Null,
    NotNull,
    Exists,
    NotExists,
}

/// The operators by the names that files have for them.
pub const OPERATORS: [(&str, Operator); 21] = [
    ("contains", Operator::Contains),
    ("not contains", Operator::NotContains),
    ("start with", Operator::StartWith),
    ("end with", Operator::EndWith),
    ("is", Operator::Is),
    ("is not", Operator::IsNot),
    ("empty", Operator::Empty),
    ("not empty", Operator::NotEmpty),
    ("in", Operator::In),
    ("not in", Operator::NotIn),
    ("all of", Operator::AllOf),
    ("=", Operator::Equal),
    ("≠", Operator::NotEqual),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("≥", Operator::GreaterOrEqual),
    ("≤", Operator::LessOrEqual),
    ("null", Operator::Null),
    ("not null", Operator::NotNull),
    ("exists", Operator::Exists),
    ("not exists", Operator::NotExists),
];

impl Operator {
    /// The operator of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        OPERATORS.iter().find(|(known, _)| *known == name).map(|(_, operator)| *operator)
    }

    /// Whether it asks about the value alone.
    pub fn is_unary(self) -> bool {
        use Operator::{Empty, Exists, NotEmpty, NotExists, NotNull, Null};
        matches!(self, Empty | NotEmpty | Null | NotNull | Exists | NotExists)
    }

    fn is_negative(self) -> bool {
        use Operator::{IsNot, NotContains, NotEmpty, NotExists, NotIn, NotNull};
        matches!(self, NotContains | IsNot | NotEmpty | NotIn | NotNull | NotExists)
    }
}

/// How the conditions of a group are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// All of them hold.
    #[default]
    And,
    /// One of them holds.
    Or,
}

/// A condition on a variable.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The variable.
    pub selector: Vec<String>,
    /// How it is compared.
    pub operator: Operator,
    /// With what; a text is a template.
    pub expected: Value,
    /// Conditions on the attributes of files.
    pub on_files: Option<FileConditions>,
}

/// Conditions on the attributes of the files of a list.
#[derive(Clone, Debug)]
pub struct FileConditions {
    /// How they are joined.
    pub join: Join,
    /// The attribute, how it is compared, and with what.
    pub conditions: Vec<(String, Operator, Value)>,
}

/// Conditions that are joined.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// How they are joined.
    pub join: Join,
    /// The conditions.
    pub all: Vec<Condition>,
}

/// Why a condition could not be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// The class of the error in Python: `ValueError`, `TypeError`, `JSONDecodeError`.
    pub class: &'static str,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

type Answer = Result<bool, ConditionError>;

fn value_error<T>(message: impl Into<String>) -> Result<T, ConditionError> {
    Err(ConditionError { class: "ValueError", message: message.into() })
}

fn type_error<T>(message: impl Into<String>) -> Result<T, ConditionError> {
    Err(ConditionError { class: "TypeError", message: message.into() })
}

impl Conditions {
    /// Whether they hold. Stops at the first that decides.
    pub fn hold(&self, pool: &Pool) -> Answer {
        for condition in &self.all {
            let holds = condition.holds(pool)?;
            if holds == (self.join == Join::Or) {
                return Ok(holds);
            }
        }
        Ok(self.join == Join::And)
    }
}

impl Condition {
    fn holds(&self, pool: &Pool) -> Answer {
        let Some(variable) = pool.get(&self.selector) else {
            if pool.is_secret(&self.selector) {
                let secret = template::SecretUse { name: self.selector[1].clone() };
                return value_error(secret.to_string());
            }
            let selector: Value =
                self.selector.iter().map(|part| Value::from(part.as_str())).collect();
            return value_error(format!("Variable {} not found", text::repr(&selector)));
        };
        let by_attribute =
            matches!(self.operator, Operator::Contains | Operator::NotContains | Operator::AllOf);
        if variable.kind == Kind::FileList && by_attribute {
            return match &self.on_files {
                Some(files) => files.hold(variable.value.as_list().unwrap_or_default()),
                None => value_error("Sub variable is required"),
            };
        }
        if matches!(self.operator, Operator::Exists | Operator::NotExists) {
            return decide(self.operator, &variable.value, &Value::Null);
        }
        let expected = match &self.expected {
            Value::Text(template) => match template::render(template, pool) {
                Ok(text) => Value::from(text),
                Err(secret) => return value_error(secret.to_string()),
            },
            other => other.clone(),
        };
        let expected = prepare(variable.kind, expected)?;
        decide(self.operator, &variable.value, &expected)
    }
}

impl FileConditions {
    fn hold(&self, files: &[Value]) -> Answer {
        let mut answers = Vec::new();
        for (key, operator, expected) in &self.conditions {
            let mut expected = expected.clone();
            let mut values = Vec::new();
            for file in files {
                let Value::File(file) = file else { continue };
                let Some(attribute) = file.attribute(key) else {
                    return value_error(format!("'{key}' is not a valid FileAttribute"));
                };
                values.push(Value::from_json(attribute));
            }
            if key == "extension" {
                let Value::Text(_) = &expected else {
                    return type_error(
                        "Expected value must be a string when key is FileAttribute.EXTENSION",
                    );
                };
                with_dot(&mut expected);
                values.iter_mut().for_each(with_dot);
            }
            let each: Vec<bool> = values
                .iter()
                .map(|value| decide(*operator, value, &expected))
                .collect::<Result<_, _>>()?;
            answers.push(match operator.is_negative() {
                true => each.iter().all(|holds| *holds),
                false => each.iter().any(|holds| *holds),
            });
        }
        Ok(match self.join {
            Join::And => answers.iter().all(|holds| *holds),
            Join::Or => answers.iter().any(|holds| *holds),
        })
    }
}

fn with_dot(value: &mut Value) {
    if let Value::Text(text) = value
        && !text.is_empty()
        && !text.starts_with('.')
    {
        *value = Value::from(format!(".{text}"));
    }
}

/// What is expected, in the form that the type of the variable asks for.
fn prepare(kind: Kind, expected: Value) -> Result<Value, ConditionError> {
    if matches!(expected, Value::Null) {
        return Ok(expected);
    }
    if matches!(kind, Kind::Boolean | Kind::BooleanList) {
        return match expected {
            Value::List(items) => {
                items.iter().map(|item| to_bool(item).map(Value::Bool)).collect::<Result<_, _>>()
            }
            single => to_bool(&single).map(Value::Bool),
        };
    }
    let fits = match &expected {
        Value::Text(_) | Value::Bool(_) => true,
        Value::List(items) => {
            items.iter().all(|item| matches!(item, Value::Text(_)))
                || items.iter().all(|item| matches!(item, Value::Bool(_)))
        }
        _ => false,
    };
    match fits {
        true => Ok(expected),
        false => type_error(format!("unexpected expected value: {}", text::repr(&expected))),
    }
}

fn to_bool(value: &Value) -> Result<bool, ConditionError> {
    let unexpected = || {
        let (class, text) = (value.python_type(), text::python(value));
        type_error(format!("unexpected value: type=<class '{class}'>, value={text}"))
    };
    match value {
        Value::Bool(_) | Value::Int(_) => Ok(value.is_truthy()),
        Value::Text(text) => match serde_json::from_str::<serde_json::Value>(text.trim()) {
            Ok(serde_json::Value::Bool(flag)) => Ok(flag),
            Ok(serde_json::Value::Number(number)) if !number.is_f64() => {
                Ok(number.as_i64() != Some(0))
            }
            Ok(_) => unexpected(),
            Err(_) if matches!(text.trim(), "NaN" | "Infinity" | "-Infinity") => unexpected(),
            Err(error) => {
                // serde counts what it has read, Python what it looks at.
                let at = error.column().saturating_sub(1);
                let at = if text.trim().starts_with(['{', '[', '"', '-']) { at } else { 0 };
                let (column, message) = (at + 1, "Expecting value: line 1 column");
                let message = format!("{message} {column} (char {at})");
                Err(ConditionError { class: "JSONDecodeError", message })
            }
        },
        _ => unexpected(),
    }
}

/// Whether `value operator expected` holds.
pub fn decide(operator: Operator, value: &Value, expected: &Value) -> Answer {
    match operator {
        Operator::Contains => contains(value, expected),
        Operator::NotContains => contains(value, expected).map(|holds| !holds),
        Operator::StartWith => edge(value, expected, "startswith", |a, b| a.starts_with(b)),
        Operator::EndWith => edge(value, expected, "endswith", |a, b| a.ends_with(b)),
        Operator::Is => is(value, expected, true),
        Operator::IsNot => is(value, expected, false),
        Operator::Empty => Ok(!value.is_truthy()),
        Operator::NotEmpty => Ok(value.is_truthy()),
        Operator::In => is_in(value, expected),
        Operator::NotIn => is_in(value, expected).map(|holds| !holds),
        Operator::AllOf => all_of(value, expected),
        Operator::Equal => equal(value, expected, true),
        Operator::NotEqual => equal(value, expected, false),
        Operator::Greater => order(value, expected, |order| order == Ordering::Greater),
        Operator::Less => order(value, expected, |order| order == Ordering::Less),
        Operator::GreaterOrEqual => order(value, expected, |order| order != Ordering::Less),
        Operator::LessOrEqual => order(value, expected, |order| order != Ordering::Greater),
        Operator::Null | Operator::NotExists => Ok(matches!(value, Value::Null)),
        Operator::NotNull | Operator::Exists => Ok(!matches!(value, Value::Null)),
    }
}

fn contains(value: &Value, expected: &Value) -> Answer {
    match value {
        value if !value.is_truthy() => Ok(false),
        Value::Text(text) => Ok(text.contains(text::python(expected).as_str())),
        Value::List(items) => Ok(items.contains(expected)),
        _ => value_error("Invalid actual value type: string or array"),
    }
}

fn edge(value: &Value, expected: &Value, name: &str, test: fn(&str, &str) -> bool) -> Answer {
    match (value, expected) {
        (value, _) if !value.is_truthy() => Ok(false),
        (Value::Text(text), Value::Text(expected)) => Ok(test(text, expected)),
        (Value::Text(_), _) => type_error(format!("Expected value must be a string for {name}")),
        _ => type_error("Invalid actual value type: string"),
    }
}

fn is(value: &Value, expected: &Value, wanted: bool) -> Answer {
    match value {
        Value::Null => Ok(false),
        Value::Text(_) | Value::Bool(_) => Ok((value == expected) == wanted),
        _ => value_error("Invalid actual value type: string or boolean"),
    }
}

fn is_in(value: &Value, expected: &Value) -> Answer {
    match expected {
        _ if !value.is_truthy() => Ok(false),
        Value::List(items) => Ok(items.contains(value)),
        _ => value_error("Invalid expected value type: array"),
    }
}

fn all_of(value: &Value, expected: &Value) -> Answer {
    let all = |test: fn(&Value) -> bool| matches!(expected, Value::List(i) if i.iter().all(test));
    let texts = all(|item| matches!(item, Value::Text(_)));
    let Value::List(items) = expected else {
        return value_error("all of operator expects homogeneous list of strings or booleans");
    };
    if !texts && !all(|item| matches!(item, Value::Bool(_))) {
        return value_error("all of operator expects homogeneous list of strings or booleans");
    }
    Ok(match value {
        value if !value.is_truthy() => false,
        Value::List(has) => items.iter().all(|item| has.contains(item)),
        Value::Text(text) if texts => {
            items.iter().all(|item| item.as_text().is_some_and(|item| text.contains(item)))
        }
        _ => false,
    })
}

fn equal(value: &Value, expected: &Value, wanted: bool) -> Answer {
    let cannot = |name: &str| {
        let class = expected.python_type();
        value_error(format!("Cannot convert <class '{class}'> to {name}"))
    };
    let quoted = || text::repr(expected);
    let expected = match (value, expected) {
        (Value::Null, _) => return Ok(false),
        (Value::Bool(_), Value::Bool(_) | Value::Int(_) | Value::Text(_)) => {
            Value::Bool(expected.is_truthy())
        }
        (Value::Bool(_), _) => return cannot("bool"),
        (Value::Int(_), Value::Bool(flag)) => Value::Int(i128::from(*flag)),
        (Value::Int(_), Value::Int(int)) => Value::Int(*int),
        (Value::Int(_), Value::Float(float)) => truncate(*float).map_or(Value::Null, Value::Int),
        (Value::Int(_), Value::Text(text)) => match parse_int(text) {
            Some(int) => Value::Int(int),
            None => {
                let quoted = quoted();
                return value_error(format!("invalid literal for int() with base 10: {quoted}"));
            }
        },
        (Value::Int(_), _) => return cannot("int"),
        (Value::Float(_), Value::Text(text)) => match parse_float(text) {
            Some(float) => Value::Float(float),
            None => return value_error(format!("could not convert string to float: {}", quoted())),
        },
        (Value::Float(_), Value::Bool(_) | Value::Int(_) | Value::Float(_)) => expected.clone(),
        (Value::Float(_), _) => return cannot("float"),
        _ => return value_error("Invalid actual value type: number or boolean"),
    };
    Ok((*value == expected) == wanted)
}

fn order(value: &Value, expected: &Value, test: fn(Ordering) -> bool) -> Answer {
    if matches!(value, Value::Null) {
        return Ok(false);
    }
    if value.as_number().is_none() {
        return value_error("Invalid actual value type: number");
    }
    let expected = match expected {
        Value::Text(text) => match parse_float(text) {
            Some(float) if float.fract() == 0.0 && !matches!(value, Value::Float(_)) => {
                truncate(float).map_or(Value::Float(float), Value::Int)
            }
            Some(float) => Value::Float(float),
            None => return value_error(format!("Cannot convert '{text}' to number")),
        },
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => expected.clone(),
        _ => {
            let class = expected.python_type();
            return value_error(format!("Cannot convert <class '{class}'> to number"));
        }
    };
    Ok(compare(value, &expected).is_some_and(test))
}
