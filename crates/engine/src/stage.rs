//! The stages of the pipeline: one function each, called by [`crate::Engine`]
//! in this order.

mod admit;
mod attempt;
mod check_request;
mod convert;
mod credentials;
mod execute;
mod inject;
mod parse;
mod repair;
mod resolve;
mod validate;

pub(crate) use admit::admit;
pub(crate) use attempt::{Attempts, panicked};
pub(crate) use check_request::check_request;
pub(crate) use convert::{convert, output_size, preview_output, preview_value};
pub(crate) use credentials::{add_credentials, choose_credentials};
pub(crate) use execute::{Outcome, before, execute, stopped};
pub(crate) use inject::{InjectedSecrets, inject};
pub(crate) use parse::{parse, read_arguments};
pub(crate) use resolve::resolve;
pub(crate) use validate::{Checked, validate};
