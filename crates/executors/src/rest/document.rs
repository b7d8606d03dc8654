//! API documents: parses OpenAPI 3.0, 3.1, 3.2 and Swagger 2.0 into one model.
//!
//! ```text
//! text ─ text ─► tree ─ reference ─► Files ─ openapi | swagger ─► Api ─► import
//! ```
//!
//! Differences between the versions end here: an [`Api`] has servers, security schemes
//! and operations; an operation has parameters with their styles, bodies by media type, a
//! response and its security. Schemas stay as they are written, as a location in a file
//! ([`At`]); [`super::schema`] decides which of them a tool needs, and in what form.
//!
//! Files beside the document are read if it refers to them; nothing is ever fetched from
//! the network.

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

/// Limits of the parser, against documents built to exhaust memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentLimits {
    /// Maximum size of a file in bytes.
    pub file_bytes: usize,
    /// Maximum nesting depth.
    pub depth: usize,
    /// Maximum number of values in a file after YAML aliases are expanded.
    pub nodes: usize,
    /// Maximum number of files. Their total size is limited by `file_bytes` as well.
    pub files: usize,
    /// Maximum number of operations.
    pub operations: usize,
}

impl Default for DocumentLimits {
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

/// Reads a file that a document refers to, by its path relative to the document.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// A parsed document with all its files.
pub(crate) struct Document {
    files: Files,
    limits: DocumentLimits,
}

impl Document {
    /// Parses a document and the files that it refers to.
    pub(crate) fn read(
        text: &str,
        limits: &DocumentLimits,
        read: ReadFile<'_>,
    ) -> Result<Self, Error> {
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

    /// The model of the document.
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
