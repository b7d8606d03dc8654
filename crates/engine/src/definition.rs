//! Tools as people write them: YAML and JSON text becomes [`ToolSpec`]s.
//!
//! ```text
//! text ─ located ─► Node tree with positions ─ one form ─► Definition
//! ```
//!
//! A document is read in the form that its shape shows; nothing names the form:
//!
//! | form | shape | module |
//! |---|---|---|
//! | a list of parameters (S0.3) | `name`, and `parameters` is a list or absent | `listed` |
//! | identity (S3.2) | `identity` | `identity` |
//! | JSON Schema: Anthropic, OpenAI, Gemini, MCP, S1.9 | `input_schema`, `inputSchema`, `type: function`, `functionDeclarations`, or `parameters` is a mapping | `json_schema` |
//! | a provider (S3.7) | `identity` without parameters and description, credentials, or `mcp` | [`provider`](ProviderSpec) |
//! | servers of tools | `mcpServers` | [`mcp_server`](McpServer) |
//! | prompts and resources | `prompts` or `resources` | [`library`](LibrarySpec) |
//!
//! A file may hold one tool, a list of tools, `{tools: [...]}`, or several YAML
//! documents. Every fault of a file is reported at once, each with its line and
//! column and what to write instead; an unknown key is a fault.
//!
//! Nothing but `load` keeps state or knows the engine: whoever watches a folder calls
//! [`parse`] again. OpenAPI documents are read by the REST kind, not here.

mod agent;
mod check;
mod export;
mod folder;
mod gemini;
mod header;
mod identity;
mod json_schema;
mod library;
mod lint;
mod listed;
pub(crate) mod load;
mod located;
mod mcp_server;
mod parameter;
mod preset;
mod provider;
mod reader;
mod reliability;
mod scalar;
mod schema;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

pub use export::{Format, declare, export};
pub(crate) use folder::Walk;
pub use folder::{Folder, LoadedFile, list_files, load_folder, load_folder_with, read_file};
pub use library::{LibrarySpec, PromptArgument, PromptSpec, ResourceBody, ResourceSpec};
pub use lint::{Lint, lint};
pub use mcp_server::{Asking, McpProtocol, McpServer, McpTransport};
pub use provider::{CredentialCheck, CredentialField, CredentialKind, ProviderSpec};

use self::located::{At, Data, Node};
use self::reader::Report;
use crate::error::Error;
use crate::tool::executor::Executor;
use crate::tool::{LazySchema, Preset, Schema, ToolBuilder, ToolSpec};

/// A tool as a file defines it, and where.
#[derive(Clone)]
pub struct Definition {
    /// The tool, described.
    pub spec: ToolSpec,
    /// What fills parameters in place of the model.
    pub presets: Vec<(String, Preset)>,
    /// The line where the tool begins, from 1.
    pub line: u32,
    /// The column where it begins, from 1, in characters.
    pub column: u32,
    places: BTreeMap<String, At>,
    /// Its schemas come from elsewhere, in the form of a model API or protocol.
    of_others: bool,
    settings: BTreeMap<String, At>,
    notes: Vec<Lint>,
    /// Its schemas were checked before.
    pub(crate) checked: bool,
}

impl Definition {
    /// The tool, run by this executor. A schema from elsewhere that does not
    /// compile is checked as far as it does; one that is too large is refused.
    pub fn builder(self, executor: Arc<dyn Executor>) -> ToolBuilder {
        let lenient = self.of_others && Schema::is_bounded(&self.spec.input);
        let builder = ToolBuilder::new(self.spec, executor).checked(self.checked);
        let builder = if lenient { builder.schemas_of_others() } else { builder };
        (self.presets.into_iter())
            .fold(builder, |builder, (name, preset)| builder.preset(&name, preset))
    }

    /// A tool whose schemas [`check_schema`] has passed, now or before it was
    /// kept: they are not looked at again until a call needs them.
    pub fn checked(spec: ToolSpec) -> Self {
        Self { checked: true, ..Self::from(spec) }
    }

    fn at(&self) -> At {
        At { line: self.line, column: self.column }
    }

    /// The line and the column where a setting of the entry is written, an item
    /// of a list by its index (`tools/0`); of the tool where that is not known.
    pub fn setting_at(&self, key: &str) -> (u32, u32) {
        let At { line, column } = self.settings.get(key).copied().unwrap_or_else(|| self.at());
        (line, column)
    }

    /// Where a parameter is written; the tool itself where that is not known.
    fn place_of(&self, parameter: &str) -> At {
        self.places.get(parameter).copied().unwrap_or_else(|| self.at())
    }
}

impl fmt::Debug for Definition {
    /// Leaves the values of presets out: one may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let presets: Vec<&str> = self.presets.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Definition")
            .field("spec", &self.spec)
            .field("presets", &presets)
            .field("line", &self.line)
            .field("column", &self.column)
            .finish_non_exhaustive()
    }
}

impl From<ToolSpec> for Definition {
    /// A tool that no file defines, such as an imported one.
    fn from(spec: ToolSpec) -> Self {
        let At { line, column } = At::START;
        let (places, settings) = (BTreeMap::new(), BTreeMap::new());
        let (presets, notes) = (Vec::new(), Vec::new());
        let (of_others, checked) = (false, false);
        Self { spec, presets, line, column, places, settings, of_others, notes, checked }
    }
}

/// Says why the engine would not take a schema for the arguments of a tool.
pub fn check_schema(schema: &Value) -> Result<(), Error> {
    LazySchema::check(schema).map(drop)
}

/// Whether a value fits a schema; it does not fit one that is not valid.
pub fn accepts(schema: &Value, value: &Value) -> bool {
    Schema::compile(schema).is_ok_and(|schema| schema.accepts(value))
}

/// Everything that one file defines.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The tools, in the order of the file.
    pub tools: Vec<Definition>,
    /// The providers.
    pub providers: Vec<ProviderSpec>,
    /// Prompts and resources.
    pub library: LibrarySpec,
    /// Providers whose tools are described elsewhere.
    pub imports: Vec<ImportRequest>,
    /// What could not be taken as it was written, without being wrong.
    pub notes: Vec<LoadError>,
}

/// A provider whose tools are described by a document of its own: `openapi`
/// beside `identity`. Whoever built the engine knows how to read it.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The provider as far as the definition describes it.
    pub provider: ProviderSpec,
    /// Where the document is, as it was written: a path relative to the file.
    pub document: String,
    /// What to make of it: the rest of the definition.
    pub options: Map<String, Value>,
    /// The line where it is named, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

/// What is wrong with a definition, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The file, as it was named by the caller.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl std::error::Error for LoadError {}

/// How much a file or folder of definitions may ask of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of a file, in bytes. A larger one is not even read.
    pub file_bytes: usize,
    /// How deep values are nested.
    pub depth: usize,
    /// How many values a file has once its aliases are expanded.
    pub nodes: usize,
    /// How many files a folder has.
    pub files: usize,
    /// How deep folders are nested.
    pub folder_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { file_bytes: 1 << 20, depth: 64, nodes: 50_000, files: 50_000, folder_depth: 8 }
    }
}

/// Reads the tools of a text, YAML or JSON. `file` is only for messages.
///
/// ```
/// let tools = windlass::definition::parse("echo.yaml", "
/// name: echo
/// description: Returns the message.
/// parameters:
///   - {name: message, type: string, required: true}
/// ").unwrap();
/// assert_eq!(tools[0].spec.input["required"][0], "message");
///
/// let errors = windlass::definition::parse("echo.yaml", "
/// name: echo
/// parameters:
///   - {name: message, type: strng}
/// ").unwrap_err();
/// assert_eq!(
///     errors[0].to_string(),
///     "echo.yaml:4:27: unknown type `strng`; did you mean `string`?",
/// );
/// ```
pub fn parse(file: &str, text: &str) -> Result<Vec<Definition>, Vec<LoadError>> {
    parse_all(file, text, &Limits::default()).map(|parsed| parsed.tools)
}

/// Reads the tools and providers of a text.
pub fn parse_all(file: &str, text: &str, limits: &Limits) -> Result<Parsed, Vec<LoadError>> {
    let mut report = Report::new(file);
    let mut parsed = Parsed::default();
    let documents = located::documents(text, limits, &mut report);
    if documents.is_empty() && report.is_empty() {
        report.hinted(At::START, "the file defines nothing", "write a tool: name, description …");
    }
    for document in &documents {
        read_document(document, &mut parsed, &mut report);
    }
    // A provider written beside its tools is theirs.
    if let [provider] = parsed.providers.as_slice() {
        for tool in &mut parsed.tools {
            tool.spec.provider.get_or_insert_with(|| provider.name.clone());
        }
    }
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for tool in &parsed.tools {
        let name = tool.spec.name.as_str();
        if let Some(first) = seen.insert(name, tool.line) {
            report.add(tool.at(), format!("the tool `{name}` is already defined in line {first}"));
        }
    }
    report.into_result(parsed)
}

/// Finds out what a document is and reads it.
fn read_document(node: &Node, parsed: &mut Parsed, report: &mut Report<'_>) {
    match &node.data {
        Data::List(items) => items.iter().for_each(|item| read_document(item, parsed, report)),
        Data::Map(_) if node.has("openapi") && node.has("identity") => {
            parsed.imports.extend(provider::read_import(node, report));
        }
        Data::Map(_) if node.has("openapi") || node.has("swagger") => report.hinted(
            node.at,
            "this is an OpenAPI document, not a tool definition",
            "import it with `windlass providers add NAME FILE`, or call it openapi.yaml and name \
             it in a provider: {identity: {name: NAME}, openapi: ./openapi.yaml}",
        ),
        Data::Map(_) if mcp_server::is_list(node) => {
            parsed.providers.extend(mcp_server::read_list(node, report));
            parsed.notes.extend(report.take_file_notes());
        }
        Data::Map(_) if library::is_library(node) => {
            parsed.library.extend(library::read(node, report));
        }
        Data::Map(_) if provider::is_provider(node) => {
            parsed.providers.extend(provider::read(node, report));
        }
        Data::Map(_) => match json_schema::wrapped(node) {
            Some(list) => read_list(node, list, parsed, report),
            None => parsed.tools.extend(read_tool(node, report)),
        },
        _ => report.hinted(
            node.at,
            format!("expected a tool, found {}", node.kind_name()),
            "write a mapping with `name` and `description`",
        ),
    }
}

/// Reads the tools under a key such as `tools` or `functionDeclarations`.
fn read_list(node: &Node, key: &'static str, parsed: &mut Parsed, report: &mut Report<'_>) {
    let Some(mut fields) = reader::Fields::of(node, "a list of tools", report) else { return };
    fields.ignore(&["nextCursor", "_meta"]);
    let list = fields.get(key);
    fields.finish(report);
    match list.map(|list| (list, &list.data)) {
        Some((_, Data::List(items))) => {
            items.iter().for_each(|item| read_document(item, parsed, report));
        }
        Some((list, _)) => {
            report.add(list.at, format!("`{key}` is a list, found {}", list.kind_name()));
        }
        None => {}
    }
}

fn read_tool(node: &Node, report: &mut Report<'_>) -> Option<Definition> {
    if node.has("identity") {
        identity::read(node, report)
    } else if json_schema::is_json_schema(node) {
        json_schema::read(node, report)
    } else {
        listed::read(node, report)
    }
}
