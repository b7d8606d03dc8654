//! The description of the API: the table of routes, and the OpenAPI document and
//! the HTML reference that are generated from it.

pub(crate) mod openapi;
pub(crate) mod operation;
pub(crate) mod reference;
#[expect(dead_code, reason = "it only describes what others write")]
pub(crate) mod shape;
