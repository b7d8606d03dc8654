//! The functions and methods of expressions: one table, which the parser, the evaluator
//! and the inference of types read.

mod convert;
mod encode;
mod list;
mod number;
mod optional;
mod pattern;
mod print;
mod text;
mod time;

use crate::error::{Fault, Faulty};
use crate::meter::Meter;
use crate::value::{TypeName, Value};

pub(crate) use list::sorted;
pub(crate) use pattern::Pattern;

/// How a function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `f(x)`
    Global,
    /// `x.f()`
    Method,
    /// Both ways.
    Both,
}

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Any,
    /// A whole number of any type.
    Whole,
    Number,
    Uint,
    Text,
    Bytes,
    List,
    Map,
    Timestamp,
    Duration,
    Optional,
    /// Any number of further arguments.
    Rest,
}

/// What a function answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    Type,
    /// A list of strings.
    Texts,
    Ints,
    Dyns,
    /// The type of the first argument.
    Same,
    /// The type of the elements of the first argument, or what is in the optional.
    Element,
    /// An optional of that.
    OptionalElement,
    /// What is in the optional, or the second argument.
    ElementOr,
    /// An optional of the first argument.
    Optional,
    OptionalDyn,
    /// A list of what the optionals of the first argument hold.
    Held,
}

type Run = for<'a> fn(&[Value<'a>], &mut Meter) -> Faulty<Value<'a>>;

/// One overload.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    form: Form,
    pub(crate) takes: &'static [Takes],
    pub(crate) gives: Gives,
    run: Run,
}

/// All overloads of a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    form: Form,
    pub(crate) rows: &'static [Row],
}

const fn row(
    name: &'static str,
    form: Form,
    takes: &'static [Takes],
    gives: Gives,
    run: Run,
) -> Row {
    Row { name, form, takes, gives, run }
}

/// Overloads of a name stand one after another.
static TABLES: [&[Row]; 8] = [
    convert::ROWS,
    encode::ROWS,
    list::ROWS,
    number::ROWS,
    optional::ROWS,
    print::ROWS,
    text::ROWS,
    time::ROWS,
];

/// The function that is called `name(…)`.
pub(crate) fn global(name: &str) -> Option<Function> {
    find(name, Form::Global)
}

/// The method that is called `x.name(…)`.
pub(crate) fn method(name: &str) -> Option<Function> {
    find(name, Form::Method)
}

/// The names of one form.
pub(crate) fn names(form: Form) -> impl Iterator<Item = &'static str> {
    TABLES.iter().flat_map(|table| table.iter()).filter(move |row| row.is(form)).map(|row| row.name)
}

fn find(name: &str, form: Form) -> Option<Function> {
    TABLES.iter().find_map(|table| {
        let fits = |row: &Row| row.name == name && row.is(form);
        let start = table.iter().position(fits)?;
        let rest = table.get(start..)?;
        let end = rest.iter().position(|row| !fits(row)).unwrap_or(rest.len());
        let rows = rest.get(..end)?;
        rows.first().map(|row| Function { name: row.name, form, rows })
    })
}

impl Row {
    fn is(&self, form: Form) -> bool {
        self.form == form || self.form == Form::Both
    }

    /// Whether it can be called with so many arguments.
    pub(crate) fn takes_count(&self, count: usize) -> bool {
        match self.takes.last() {
            Some(Takes::Rest) => count + 1 >= self.takes.len(),
            _ => count == self.takes.len(),
        }
    }

    /// The parameter of an argument.
    pub(crate) fn parameter(&self, index: usize) -> Takes {
        match self.takes.get(index) {
            Some(Takes::Rest) | None => Takes::Any,
            Some(takes) => *takes,
        }
    }
}

impl Function {
    /// Whether an overload has so many arguments, the receiver included.
    pub(crate) fn takes(self, count: usize) -> bool {
        self.rows.iter().any(|row| row.takes_count(count))
    }

    /// The number of arguments that a reader sees.
    pub(crate) fn shown(self, count: usize) -> usize {
        count - usize::from(self.form == Form::Method && count > 0)
    }

    /// How it is called.
    pub(crate) fn usage(self) -> String {
        let mut usages: Vec<String> = self.rows.iter().map(|row| self.usage_of(row)).collect();
        usages.dedup();
        usages.join(" or ")
    }

    fn usage_of(self, row: &Row) -> String {
        let names: Vec<&str> = row.takes.iter().map(|takes| takes.name()).collect();
        match (self.form, names.split_first()) {
            (Form::Method, Some((receiver, rest))) => {
                format!("{receiver}.{}({})", self.name, rest.join(", "))
            }
            _ => format!("{}({})", self.name, names.join(", ")),
        }
    }

    /// Calls the overload that fits.
    pub(crate) fn call<'a>(self, arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
        let fits = |row: &&Row| {
            row.takes_count(arguments.len())
                && arguments
                    .iter()
                    .enumerate()
                    .all(|(index, value)| row.parameter(index).fits(value))
        };
        match self.rows.iter().find(fits) {
            Some(row) => (row.run)(arguments, meter),
            None => Err(self.unfit(arguments)),
        }
    }

    /// What is wrong with arguments of these types.
    pub(crate) fn refuses<S: AsRef<str>>(self, types: &[S]) -> String {
        let listed = |types: &[S]| types.iter().map(S::as_ref).collect::<Vec<_>>().join(", ");
        let shown = match (self.form, types.split_first()) {
            (Form::Method, Some((receiver, []))) => format!("of {}", receiver.as_ref()),
            (Form::Method, Some((receiver, rest))) => {
                format!("of {} with {}", receiver.as_ref(), listed(rest))
            }
            _ => format!("with {}", listed(types)),
        };
        format!("`{}` cannot be called {shown}", self.name)
    }

    fn unfit(self, arguments: &[Value<'_>]) -> Box<Fault> {
        let types: Vec<&str> = arguments.iter().map(Value::described).collect();
        let fault = Fault::new(self.refuses(&types));
        match arguments.first() {
            Some(Value::Optional(_)) => {
                fault.hint("write value.orValue(otherwise) or default(value, otherwise)")
            }
            Some(Value::Null) => fault.hint("write default(value, otherwise) if it may be null"),
            _ => fault.hint(format!("write {}", self.usage())),
        }
    }
}

impl Takes {
    fn fits(self, value: &Value<'_>) -> bool {
        match self {
            Self::Any | Self::Rest => true,
            Self::Whole => value.as_whole().is_some(),
            Self::Number => matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_)),
            _ => self.type_name() == Some(value.type_name()),
        }
    }

    /// The one type that it takes.
    pub(crate) fn type_name(self) -> Option<TypeName> {
        Some(match self {
            Self::Any | Self::Rest | Self::Whole | Self::Number => return None,
            Self::Uint => TypeName::Uint,
            Self::Text => TypeName::Text,
            Self::Bytes => TypeName::Bytes,
            Self::List => TypeName::List,
            Self::Map => TypeName::Map,
            Self::Timestamp => TypeName::Timestamp,
            Self::Duration => TypeName::Duration,
            Self::Optional => TypeName::Optional,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Any => "value",
            Self::Rest => "…",
            Self::Whole => "int",
            Self::Number => "number",
            Self::Text => "string",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::Optional => "optional",
            _ => self.type_name().map_or("value", TypeName::name),
        }
    }
}

/// What a function says of arguments that its row excludes.
fn unexpected() -> Box<Fault> {
    Fault::new("the arguments do not fit")
}

#[cfg(test)]
mod tests {
    use super::TABLES;

    #[test]
    fn the_page_has_every_function() {
        let page = include_str!("../../../docs/concepts/expressions.md");
        for row in TABLES.iter().flat_map(|table| table.iter()) {
            let name = row.name;
            let shown =
                [format!("{name}("), format!("`{name}`")].iter().any(|form| page.contains(form));
            assert!(shown, "docs/concepts/expressions.md lacks `{name}`");
        }
    }

    #[test]
    fn overloads_of_a_name_stand_together() {
        let mut seen = Vec::new();
        for row in TABLES.iter().flat_map(|table| table.iter()) {
            let called = (row.name, row.form);
            assert!(seen.last() == Some(&called) || !seen.contains(&called), "{}", row.name);
            seen.push(called);
        }
    }
}
