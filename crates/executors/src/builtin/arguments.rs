//! [`Arguments`]: typed access to a call's arguments, and dispatch by operation.
//!
//! The engine has validated the arguments against the schema, but a schema does not say
//! which parameters an operation needs. That is checked here, with errors that name the
//! operation and the parameter. `null` counts as absent, because models write it for what
//! they omit.

use serde_json::{Map, Value};
use windlass::{Error, ErrorKind, Output};

/// The arguments of one call.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a> {
    values: Option<&'a Map<String, Value>>,
}

/// One operation of a tool that has several.
pub(super) type Operation = fn(&Arguments<'_>) -> Result<Output, Error>;

/// Runs the operation that the argument `operation` names.
pub(super) fn dispatch(
    operations: &[(&str, Operation)],
    arguments: &Arguments<'_>,
) -> Result<Output, Error> {
    let wanted = arguments.text("operation")?;
    match operations.iter().find(|(name, _)| *name == wanted) {
        Some((_, operation)) => operation(arguments),
        None => {
            let known: Vec<&str> = operations.iter().map(|(name, _)| *name).collect();
            Err(invalid(format!("unknown operation `{wanted}`; known: {}", known.join(", "))))
        }
    }
}

/// The error of an invalid combination of arguments.
pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArguments, message)
}

impl<'a> Arguments<'a> {
    pub(super) fn new(arguments: &'a Value) -> Self {
        Self { values: arguments.as_object() }
    }

    /// An argument of any type.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.values.and_then(|values| values.get(name)).filter(|value| !value.is_null())
    }

    /// An argument of any type that may also be `null`, but must be there.
    pub(super) fn any(&self, name: &str) -> Result<&'a Value, Error> {
        self.values.and_then(|values| values.get(name)).ok_or_else(|| self.missing(name))
    }

    pub(super) fn text(&self, name: &str) -> Result<&'a str, Error> {
        self.optional_text(name)?.ok_or_else(|| self.missing(name))
    }

    pub(super) fn text_or<'b>(&self, name: &str, default: &'b str) -> Result<&'b str, Error>
    where
        'a: 'b,
    {
        Ok(self.optional_text(name)?.unwrap_or(default))
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, Error> {
        self.typed(name, "a string", Value::as_str)
    }

    pub(super) fn integer(&self, name: &str) -> Result<i64, Error> {
        self.optional_integer(name)?.ok_or_else(|| self.missing(name))
    }

    pub(super) fn optional_integer(&self, name: &str) -> Result<Option<i64>, Error> {
        self.typed(name, "a whole number", whole)
    }

    /// A count or size: not negative.
    pub(super) fn size(&self, name: &str) -> Result<usize, Error> {
        self.optional_size(name)?.ok_or_else(|| self.missing(name))
    }

    pub(super) fn optional_size(&self, name: &str) -> Result<Option<usize>, Error> {
        self.typed(name, "a whole number of at least 0", |value| {
            usize::try_from(whole(value)?).ok()
        })
    }

    pub(super) fn number(&self, name: &str) -> Result<f64, Error> {
        self.typed(name, "a number", Value::as_f64)?.ok_or_else(|| self.missing(name))
    }

    /// A boolean; `false` if absent.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Error> {
        Ok(self.typed(name, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    pub(super) fn list(&self, name: &str) -> Result<&'a [Value], Error> {
        let list = self.typed(name, "an array", Value::as_array)?;
        list.map(Vec::as_slice).ok_or_else(|| self.missing(name))
    }

    pub(super) fn object(&self, name: &str) -> Result<&'a Map<String, Value>, Error> {
        self.typed(name, "an object", Value::as_object)?.ok_or_else(|| self.missing(name))
    }

    /// The error of a missing required parameter.
    pub(super) fn missing(&self, name: &str) -> Error {
        match self.get("operation").and_then(Value::as_str) {
            Some(operation) => {
                invalid(format!("operation `{operation}` needs the parameter `{name}`"))
            }
            None => invalid(format!("the parameter `{name}` is missing")),
        }
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(invalid(format!("the parameter `{name}` must be {expected}"))),
            },
        }
    }
}

/// An integer, even if it is written as `3.0`.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let float = value.as_f64()?;
        (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_parameter_is_named_with_its_operation() {
        let arguments = json!({"operation": "repeat", "text": null});
        let error = Arguments::new(&arguments).text("text").unwrap_err();
        assert_eq!(error.message(), "operation `repeat` needs the parameter `text`");
        assert_eq!(error.kind(), ErrorKind::InvalidArguments);
    }

    #[test]
    fn whole_numbers_may_have_a_point() {
        let arguments = json!({"a": 3.0, "b": 3.5, "c": -1, "d": "3"});
        let arguments = Arguments::new(&arguments);
        assert_eq!(arguments.integer("a").unwrap(), 3);
        assert!(arguments.integer("b").is_err());
        assert_eq!(arguments.integer("c").unwrap(), -1);
        assert!(arguments.size("c").is_err());
        let error = arguments.integer("d").unwrap_err();
        assert_eq!(error.message(), "the parameter `d` must be a whole number");
    }
}
