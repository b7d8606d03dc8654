//! Definitions: YAML and JSON files become [`ToolSpec`]s.
//!
//! ```text
//! text ─ located ─► Node tree with positions ─ one form ─► Definition
//! ```
//!
//! A document is read in the form that its shape shows; no key names the form:
//!
//! | form | shape | module |
//! |---|---|---|
//! | a list of parameters | `name`, and `parameters` is a list or absent | `parameter_list` |
//! | identity | `identity` | `identity` |
//! | JSON Schema: Anthropic, OpenAI, Gemini, MCP | `input_schema`, `inputSchema`, `type: function`, `functionDeclarations`, or `parameters` is a mapping | `json_schema` |
//! | a provider | `identity` without parameters and description, credentials, or `mcp` | [`provider`](ProviderSpec) |
//! | servers of tools | `mcpServers`, or `servers` as a mapping | [`mcp_server`](McpServer) |
//! | prompts and resources | `prompts` or `resources` | [`library`](LibrarySpec) |
//!
//! A file may hold one tool, a list of tools, `{tools: [...]}`, or several YAML
//! documents. All errors of a file are reported at once, each with line and
//! column and a suggestion; unknown keys are errors.
//!
//! Except for `load`, which keeps an engine up to date with a folder,
//! everything here is stateless and does not know the engine. OpenAPI documents
//! are read by the REST kind, not here.

mod agent;
mod check;
mod export;
mod folder;
mod header;
mod identity;
mod json_schema;
mod library;
mod lint;
pub(crate) mod load;
mod mcp_server;
mod node;
mod parameter;
mod parameter_list;
mod preset;
mod provider;
mod reader;
mod reliability;
mod scalar;
mod schema;
mod tree_builder;
mod workflow;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

pub use export::{Format, declarations, declare, export};
pub(crate) use folder::FolderWalk;
pub use folder::{Folder, LoadedFile, list_files, load_folder, load_folder_with, read_file};
pub use library::{LibrarySpec, PromptArgument, PromptSpec, ResourceBody, ResourceSpec};
pub use lint::{Lint, lint};
pub use mcp_server::{Asking, McpProtocol, McpServer, McpTransport};
pub use provider::{CredentialCheck, CredentialField, CredentialKind, ProviderSpec};

use self::node::{Node, NodeValue, Position};
use self::reader::FaultReport;
use crate::error::{Error, Violation};
use crate::tool::executor::Executor;
use crate::tool::{LazySchema, Preset, Schema, ToolBuilder, ToolSpec};

/// A tool as defined in a file, with its position.
#[derive(Clone)]
pub struct Definition {
    /// Description of the tool.
    pub spec: ToolSpec,
    /// Presets: parameters that are not filled by the model.
    pub presets: Vec<(String, Preset)>,
    /// The line where the tool begins, from 1.
    pub line: u32,
    /// The column where it begins, from 1, in characters.
    pub column: u32,
    places: BTreeMap<String, Position>,
    /// Whether its schemas were written elsewhere, in the form of a model API
    /// or protocol.
    of_others: bool,
    settings: SettingPlaces,
    notes: Vec<Lint>,
    /// Whether its schemas were already checked.
    pub(crate) checked: bool,
}

impl Definition {
    /// Builds the tool with this executor. A foreign schema that does not
    /// compile is checked as far as it does; one that is too large is refused.
    pub fn builder(self, executor: Arc<dyn Executor>) -> ToolBuilder {
        let lenient = self.of_others && Schema::is_bounded(&self.spec.input);
        let builder = ToolBuilder::new(self.spec, executor).checked(self.checked);
        let builder = if lenient { builder.schemas_of_others() } else { builder };
        (self.presets.into_iter())
            .fold(builder, |builder, (name, preset)| builder.preset(&name, preset))
    }

    /// A tool whose schemas already passed [`check_schema`] and have no spare
    /// capacity ([`ToolSpec::compact`]): they are not looked at again until a call
    /// needs them.
    pub fn checked(spec: ToolSpec) -> Self {
        Self { checked: true, ..Self::from(spec) }
    }

    fn at(&self) -> Position {
        Position { line: self.line, column: self.column }
    }

    /// Line and column of a setting of the entry (`tools/0` for an item of a
    /// list), or of the tool if that is not known.
    pub fn setting_at(&self, key: &str) -> (u32, u32) {
        self.settings.get(key).unwrap_or((self.line, self.column))
    }

    /// Position of a parameter, or of the tool if that is not known.
    fn place_of(&self, parameter: &str) -> Position {
        self.places.get(parameter).copied().unwrap_or_else(|| self.at())
    }
}

impl fmt::Debug for Definition {
    /// Omits the values of presets: they may be secrets.
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
    /// A tool without a file, such as an imported one.
    fn from(spec: ToolSpec) -> Self {
        let Position { line, column } = Position::START;
        let (places, settings) = (BTreeMap::new(), SettingPlaces::default());
        let (presets, notes) = (Vec::new(), Vec::new());
        let (of_others, checked) = (false, false);
        Self { spec, presets, line, column, places, settings, of_others, notes, checked }
    }
}

/// Positions of the settings of an entry, and of the values within them:
/// `tools/0`, `steps/a/with/query`.
#[derive(Clone, Default)]
pub(crate) struct SettingPlaces(BTreeMap<String, Position>);

impl SettingPlaces {
    /// Line and column of a setting. Of a value whose own place is not known,
    /// that of the innermost setting around it.
    pub(crate) fn get(&self, key: &str) -> Option<(u32, u32)> {
        let mut key = key;
        loop {
            if let Some(Position { line, column }) = self.0.get(key) {
                return Some((*line, *column));
            }
            key = key.rsplit_once('/')?.0;
        }
    }

    /// Notes the place of a setting, and of the items of a list.
    fn note(&mut self, key: &str, node: &Node) {
        self.0.insert(key.to_owned(), node.at);
        if let NodeValue::List(items) = &node.data {
            let items = items.iter().enumerate();
            self.0.extend(items.map(|(index, item)| (format!("{key}/{index}"), item.at)));
        }
    }

    /// Notes the places of a setting and of every value in it.
    fn note_all(&mut self, key: &str, node: &Node) {
        self.0.insert(key.to_owned(), node.at);
        match &node.data {
            NodeValue::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.note_all(&format!("{key}/{index}"), item);
                }
            }
            NodeValue::Map(entries) => {
                for entry in entries {
                    let key = format!("{key}/{}", entry.key);
                    self.note_all(&key, &entry.value);
                    self.0.insert(key, entry.at);
                }
            }
            _ => {}
        }
    }
}

/// The most similar known word, for a suggestion.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    reader::nearest(word, known)
}

/// Checks whether the engine accepts a schema for the arguments of a tool.
pub fn check_schema(schema: &Value) -> Result<(), Error> {
    LazySchema::check(schema).map(drop)
}

/// A compiled schema, for values other than arguments.
pub struct ValueSchema(Schema);

impl ValueSchema {
    /// Compiles a schema. It is bounded like those of tools.
    pub fn compile(schema: &Value) -> Result<Self, Error> {
        Schema::compile(schema).map(Self)
    }

    /// All violations of a value.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        self.0.violations(value)
    }
}

/// Whether a value is valid for a schema; `false` if the schema is invalid.
pub fn accepts(schema: &Value, value: &Value) -> bool {
    Schema::compile(schema).is_ok_and(|schema| schema.accepts(value))
}

/// Everything defined in one file.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The tools, in the order of the file.
    pub tools: Vec<Definition>,
    /// The providers.
    pub providers: Vec<ProviderSpec>,
    /// Prompts and resources.
    pub library: LibrarySpec,
    /// Providers whose tools are described by an API document.
    pub imports: Vec<ImportRequest>,
    /// Warnings: what could not be taken over as it was written.
    pub notes: Vec<LoadError>,
}

/// A provider whose tools are described by an API document: `openapi` beside
/// `identity`. The importer given to the engine's builder reads it.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The provider, as far as the definition describes it.
    pub provider: ProviderSpec,
    /// Path of the document as written, relative to the file.
    pub document: String,
    /// Options of the import: the rest of the definition.
    pub options: Map<String, Value>,
    /// Line of the reference, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

/// An error in a definition, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The file, as named by the caller.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// The error.
    pub message: String,
    /// A suggestion.
    pub hint: Option<String>,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl std::error::Error for LoadError {}

/// Resource limits for reading definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionLimits {
    /// Maximum size of a file, in bytes. A larger one is not read.
    pub file_bytes: usize,
    /// Maximum nesting of values.
    pub depth: usize,
    /// Maximum number of values in a file, with aliases expanded.
    pub nodes: usize,
    /// Maximum number of files in a folder.
    pub files: usize,
    /// Maximum nesting of folders.
    pub folder_depth: usize,
}

impl Default for DefinitionLimits {
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
    parse_all(file, text, &DefinitionLimits::default()).map(|parsed| parsed.tools)
}

/// Reads the tools and providers of a text.
pub fn parse_all(
    file: &str,
    text: &str,
    limits: &DefinitionLimits,
) -> Result<Parsed, Vec<LoadError>> {
    let mut report = FaultReport::new(file);
    let mut parsed = Parsed::default();
    let documents = node::documents(text, limits, &mut report);
    if documents.is_empty() && report.is_empty() {
        report.hinted(
            Position::START,
            "the file defines nothing",
            "write a tool: name, description …",
        );
    }
    for document in &documents {
        read_document(document, &mut parsed, &mut report);
    }
    // A provider in the same file owns its tools.
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

/// Detects the form of a document and reads it.
fn read_document(node: &Node, parsed: &mut Parsed, report: &mut FaultReport<'_>) {
    match &node.data {
        NodeValue::List(items) => items.iter().for_each(|item| read_document(item, parsed, report)),
        NodeValue::Map(_) if node.has("openapi") && node.has("identity") => {
            parsed.imports.extend(provider::read_import(node, report));
        }
        NodeValue::Map(_) if node.has("openapi") || node.has("swagger") => report.hinted(
            node.at,
            "this is an OpenAPI document, not a tool definition",
            "import it with `windlass providers add NAME FILE`, or call it openapi.yaml and name \
             it in a provider: {identity: {name: NAME}, openapi: ./openapi.yaml}",
        ),
        NodeValue::Map(_) if mcp_server::is_list(node) => {
            parsed.providers.extend(mcp_server::read_list(node, report));
            parsed.notes.extend(report.take_file_notes());
        }
        NodeValue::Map(_) if library::is_library(node) => {
            parsed.library.extend(library::read(node, report));
        }
        NodeValue::Map(_) if provider::is_provider(node) => {
            parsed.providers.extend(provider::read(node, report));
        }
        NodeValue::Map(_) => match json_schema::wrapped(node) {
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
fn read_list(node: &Node, key: &'static str, parsed: &mut Parsed, report: &mut FaultReport<'_>) {
    let Some(mut fields) = reader::MapFields::of(node, "a list of tools", report) else { return };
    fields.ignore(&["nextCursor", "_meta"]);
    let list = fields.get(key);
    fields.finish(report);
    match list.map(|list| (list, &list.data)) {
        Some((_, NodeValue::List(items))) => {
            items.iter().for_each(|item| read_document(item, parsed, report));
        }
        Some((list, _)) => {
            report.add(list.at, format!("`{key}` is a list, found {}", list.kind_name()));
        }
        None => {}
    }
}

fn read_tool(node: &Node, report: &mut FaultReport<'_>) -> Option<Definition> {
    if node.has("identity") {
        identity::read(node, report)
    } else if json_schema::is_json_schema(node) {
        json_schema::read(node, report)
    } else {
        parameter_list::read(node, report)
    }
}
