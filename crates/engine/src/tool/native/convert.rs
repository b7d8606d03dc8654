//! Conversion of return values into outputs: text stays text, blocks stay
//! blocks, anything else becomes JSON, and an `Err` becomes an error result.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;

use serde::Serialize;
use serde_json::Value;

use super::to_json;
use crate::call::content::{Content, Output};
use crate::error::Error;

/// Types that a tool function may return.
pub trait IntoOutput {
    /// Converts into the output, or the error that the tool reported.
    fn into_output(self) -> Result<Output, Error>;
}

/// Wrapper for any value that is to become JSON: `Json(forecast)`.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoOutput for Json<T> {
    fn into_output(self) -> Result<Output, Error> {
        to_json(&self.0).map(Output::json)
    }
}

macro_rules! as_is {
    ($($type:ty => $convert:expr),* $(,)?) => {$(
        impl IntoOutput for $type {
            fn into_output(self) -> Result<Output, Error> {
                Ok(($convert)(self))
            }
        }
    )*};
}

as_is! {
    Output => |output| output,
    Content => Output::from,
    Value => Output::json,
    String => |text: String| Output::text(text),
    &'static str => |text: &str| Output::text(text),
    () => |()| Output::default(),
    bool => |value: bool| Output::json(value),
    i8 => |value: i8| Output::json(value), i16 => |value: i16| Output::json(value),
    i32 => |value: i32| Output::json(value), i64 => |value: i64| Output::json(value),
    u8 => |value: u8| Output::json(value), u16 => |value: u16| Output::json(value),
    u32 => |value: u32| Output::json(value), u64 => |value: u64| Output::json(value),
    isize => |value: isize| Output::json(value), usize => |value: usize| Output::json(value),
    f32 => |value: f32| Output::json(value), f64 => |value: f64| Output::json(value),
}

impl<T: Serialize + 'static> IntoOutput for Vec<T> {
    fn into_output(self) -> Result<Output, Error> {
        match take::<Self, Vec<Content>>(self) {
            Ok(blocks) => Ok(blocks.into()),
            Err(values) => Json(values).into_output(),
        }
    }
}

impl<T: Serialize> IntoOutput for Option<T> {
    fn into_output(self) -> Result<Output, Error> {
        Json(self).into_output()
    }
}

impl<K: Serialize, V: Serialize> IntoOutput for BTreeMap<K, V> {
    fn into_output(self) -> Result<Output, Error> {
        Json(self).into_output()
    }
}

impl<K: Serialize, V: Serialize, S> IntoOutput for HashMap<K, V, S> {
    fn into_output(self) -> Result<Output, Error> {
        Json(self).into_output()
    }
}

impl<T: IntoOutput, E: IntoToolError> IntoOutput for Result<T, E> {
    fn into_output(self) -> Result<Output, Error> {
        self.map_err(IntoToolError::into_tool_error)?.into_output()
    }
}

/// Error types that a tool function may return: an [`Error`] is passed through,
/// anything else that implements `Display` becomes the tool's own error.
pub trait IntoToolError {
    /// Converts into the error of the call.
    fn into_tool_error(self) -> Error;
}

impl<E: Display + 'static> IntoToolError for E {
    fn into_tool_error(self) -> Error {
        match take::<E, Error>(self) {
            Ok(error) => error,
            Err(other) => Error::tool(format!("{other:#}")),
        }
    }
}

/// Casts a value to another type, if it is that type. Decided at compile time.
fn take<T: 'static, U: 'static>(value: T) -> Result<U, T> {
    let mut slot = Some(value);
    match (&mut slot as &mut dyn Any).downcast_mut::<Option<U>>().and_then(Option::take) {
        Some(taken) => Ok(taken),
        None => match slot {
            Some(value) => Err(value),
            None => unreachable!("the slot is emptied only by a successful downcast"),
        },
    }
}

/// For `#[tool]`: converts a return value of any type, in two steps of method
/// resolution (autoref specialisation). [`into_result`](Self::into_result)
/// unwraps a `Result` by an inherent method, which takes precedence over that
/// of [`PlainReturn`]; its bound is on the method, so that an error without
/// `Display` is rejected rather than taken for a plain value. `into_output`
/// prefers [`IntoOutput`] and falls back to serialisation.
#[doc(hidden)]
pub struct ReturnValue<T>(pub T);

impl<T, E> ReturnValue<Result<T, E>> {
    /// The value, or the error that the tool reported.
    pub fn into_result(self) -> Result<T, Error>
    where
        E: IntoToolError,
    {
        self.0.map_err(IntoToolError::into_tool_error)
    }
}

impl<T: IntoOutput> ReturnValue<T> {
    /// Converts a value that implements [`IntoOutput`].
    pub fn into_output(self) -> Result<Output, Error> {
        self.0.into_output()
    }
}

/// See [`ReturnValue`].
#[doc(hidden)]
pub trait PlainReturn {
    /// The type of the returned value.
    type Value;
    /// The value, which is not a `Result`.
    fn into_result(self) -> Result<Self::Value, Error>;
}

impl<T> PlainReturn for ReturnValue<T> {
    type Value = T;
    fn into_result(self) -> Result<T, Error> {
        Ok(self.0)
    }
}

/// See [`ReturnValue`].
#[doc(hidden)]
pub trait SerializeReturn {
    /// Serialises a value that does not implement [`IntoOutput`].
    fn into_output(self) -> Result<Output, Error>;
}

// Needs one more reference, so it is found after the inherent method.
impl<T: Serialize> SerializeReturn for &ReturnValue<T> {
    fn into_output(self) -> Result<Output, Error> {
        to_json(&self.0).map(Output::json)
    }
}
