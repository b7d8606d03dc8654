//! Small checked types that the rest of the crate is written in: names, texts,
//! durations, secrets, ids of traces. Each can be read without knowing what a
//! call is.

/// Implements `JsonSchema` for types that are text in JSON.
macro_rules! text_schema {
    ($($type:ident $({$key:literal: $value:literal})?),+ $(,)?) => {$(
        impl ::schemars::JsonSchema for $type {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({"type": "string" $(, $key: $value)?})
            }
        }
    )+};
}
pub(crate) use text_schema;

pub(crate) mod clock;
pub mod duration;
pub(crate) mod fingerprint;
pub(crate) mod name;
pub(crate) mod pointer;
pub(crate) mod secret;
pub(crate) mod text;
pub(crate) mod trace;
pub(crate) mod usage;
