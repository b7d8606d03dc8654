//! The stages of the pipeline, one function each, in the order in which a call
//! passes them. [`crate::Engine`] calls them one after the other.

mod attempt;
mod convert;
mod execute;
mod inject;
mod parse;
mod repair;
mod resolve;
mod validate;

pub(crate) use attempt::{Attempts, panicked};
pub(crate) use convert::{convert, output_size, preview_output, preview_value};
pub(crate) use execute::{before, execute, tell_stopped};
pub(crate) use inject::{inject, require_secrets};
pub(crate) use parse::parse;
pub(crate) use resolve::resolve;
pub(crate) use validate::validate;
