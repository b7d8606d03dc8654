//! API documents: OpenAPI 3.0, 3.1, 3.2 and Swagger 2.0 become one plain model.
//!
//! ```text
//! text ─ text ─► tree ─ reference ─► Files ─ openapi | swagger ─► Api ─► import
//! ```
//!
//! What the versions say differently is the same once it is read: an [`Api`]
//! has servers, security schemes and operations; an operation has parameters
//! with their styles, bodies by media type, an answer and its security. Schemas
//! stay as they are written, as a place in a file ([`At`]): which of them a tool
//! needs, and how, is for [`super::schema`] to find out.
//!
//! Files beside the document are read where it refers to them; nothing is ever
//! fetched from the network.

mod api;
mod json;
mod openapi;
mod parameter;
mod reference;
mod security;
mod server;
mod swagger;
mod text;

pub(crate) use api::{Api, Body, Encoding, Operation, Param, Scheme, SchemeKind};
pub(crate) use parameter::{names_in, pairs_in};
pub(crate) use reference::{At, Files};
use serde_json::Value;
use windlass::{Error, ErrorKind};

/// How much a document may ask of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of a file, in bytes.
    pub file_bytes: usize,
    /// How deep values are nested.
    pub depth: usize,
    /// How many values a file has once its aliases are expanded.
    pub nodes: usize,
    /// How many files a document may consist of. Together they are no larger
    /// than one may be.
    pub files: usize,
    /// How many operations it may have.
    pub operations: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 64 << 20,
            depth: 100,
            nodes: 4_000_000,
            files: 2_000,
            operations: 50_000,
        }
    }
}

/// Gives the text of a file that a document refers to, by its path relative to
/// the document.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// A document of one or more files, read but not yet understood.
pub(crate) struct Document {
    files: Files,
    limits: Limits,
}

impl Document {
    /// Reads a document and the files that it refers to.
    pub(crate) fn read(text: &str, limits: &Limits, read: ReadFile<'_>) -> Result<Self, Error> {
        let files = Files::load(text, limits, read).map_err(|why| refused(&why))?;
        let version = version(files.root().value).ok_or_else(|| {
            refused("it has neither `openapi` nor `swagger`, so it is no API document")
        })?;
        if !matches!(version, "2" | "3") {
            return Err(refused(&format!(
                "version {version} of OpenAPI is not known; 2.0, 3.0 and 3.1 are"
            )));
        }
        Ok(Self { files, limits: *limits })
    }

    /// What the document says.
    pub(crate) fn api(&self) -> Api<'_> {
        let root = self.files.root();
        let mut api = match version(root.value) {
            Some("2") => swagger::read(&self.files, &self.limits),
            _ => openapi::read(&self.files, &self.limits),
        };
        api.notes.extend_from_slice(self.files.notes());
        api
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }
}

/// The major version.
fn version(root: &Value) -> Option<&str> {
    let said = root.get("openapi").or_else(|| root.get("swagger"))?;
    match said {
        Value::String(text) => text.split('.').next(),
        // `swagger: 2.0` without quotes.
        Value::Number(number) if number.as_f64() == Some(2.0) => Some("2"),
        Value::Number(number) if number.as_f64().is_some_and(|v| (3.0..4.0).contains(&v)) => {
            Some("3")
        }
        _ => None,
    }
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::InvalidDefinition, format!("the API document cannot be read: {why}"))
}
