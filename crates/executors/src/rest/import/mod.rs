//! A document becomes a provider with tools.
//!
//! Every operation is its own matter: what is wrong with one is said of that
//! one, and the others become tools. Nothing here talks to the network or keeps
//! anything; whoever asked decides what to do with an [`Import`].

mod arguments;
mod credential;
mod names;
mod select;
mod tool;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;
use windlass::definition::ProviderSpec;
use windlass::{Approval, Error, ErrorKind, ToolSpec};

pub use self::select::Selector;
use super::document::{Api, Document, Limits, Operation, ReadFile};
use super::media::{self, Form};
use super::schema::{Bounds, Direction, Shaper};

/// What to make of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImportOptions {
    /// Where the API is, in place of what the document says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Only these operations: `tag:NAME`, `GET`, `/path/*`, `GET /path/*`, or an
    /// operationId. None means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<Selector>,
    /// Not these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Selector>,
    /// Other names, by operationId or `GET /path`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rename: BTreeMap<String, String>,
    /// What every name begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// These change nothing, whatever their method.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_only: Vec<Selector>,
    /// These may be repeated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idempotent: Vec<Selector>,
    /// These may destroy something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub destructive: Vec<Selector>,
    /// A person is asked before these run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<Selector>,
    /// Characters of a description; 400 where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_description: Option<usize>,
    /// Bytes of a tool's schema; 24,000 where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_schema_bytes: Option<usize>,
}

/// Where a document comes from.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    /// Its address, which relative servers are relative to.
    pub url: Option<&'a str>,
    /// Reads files that stand beside it.
    pub read: ReadFile<'a>,
}

impl Default for Origin<'_> {
    fn default() -> Self {
        Self { url: None, read: &|_| Err("there are no files beside it".to_owned()) }
    }
}

/// What came of a document.
#[derive(Clone, Debug)]
pub struct Import {
    /// Who offers the tools, and what credentials they want.
    pub provider: ProviderSpec,
    /// The tools, in the order of the document.
    pub tools: Vec<ImportedTool>,
    /// Operations that cannot be tools, each with the reason.
    pub unsupported: Vec<Unsupported>,
    /// How many operations were not wanted.
    pub left_out: usize,
    /// What is odd about the document as a whole.
    pub notes: Vec<String>,
}

/// A tool of an [`Import`].
#[derive(Clone, Debug)]
pub struct ImportedTool {
    /// The tool.
    pub spec: ToolSpec,
    /// What it was made from: `GET /pets/{id}`.
    pub operation: String,
    /// What is odd about it.
    pub notes: Vec<String>,
}

/// An operation that cannot be a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsupported {
    /// Which one: `GET /pets/{id}`.
    pub operation: String,
    /// Why.
    pub reason: String,
}

/// Reads a document: OpenAPI 3.0 or 3.1 or Swagger 2.0, as JSON or YAML.
pub fn import(
    provider: &str,
    text: &str,
    options: &ImportOptions,
    origin: Origin<'_>,
) -> Result<Import, Error> {
    let document = Document::read(text, &Limits::default(), origin.read)?;
    let api = document.api();
    Importer::new(provider, &document, &api, options, origin)?.run()
}

struct Importer<'i, 'd> {
    provider: &'i str,
    api: &'i Api<'d>,
    options: &'i ImportOptions,
    requests: Shaper<'d>,
    uploads: Shaper<'d>,
    responses: Shaper<'d>,
    /// Schemas of answers: many operations share one.
    outputs: HashMap<*const Value, Option<Value>>,
    /// Where the document is.
    url: Option<Url>,
    /// The fields of the credential form, by scheme.
    forms: credential::Forms,
    notes: Vec<String>,
}

impl<'i, 'd> Importer<'i, 'd> {
    fn new(
        provider: &'i str,
        document: &'d Document,
        api: &'i Api<'d>,
        options: &'i ImportOptions,
        origin: Origin<'_>,
    ) -> Result<Self, Error> {
        if let Some(base) = &options.base_url {
            tool::absolute(base).map_err(|why| {
                Error::new(ErrorKind::InvalidDefinition, format!("the base URL `{base}`: {why}"))
            })?;
        }
        Ok(Self {
            provider,
            api,
            options,
            requests: Shaper::new(document.files(), Direction::Request),
            uploads: Shaper::new(document.files(), Direction::Form),
            responses: Shaper::new(document.files(), Direction::Response),
            outputs: HashMap::new(),
            url: origin.url.and_then(|url| Url::parse(url).ok()),
            forms: credential::Forms::of(api),
            notes: api.notes.clone(),
        })
    }

    fn run(mut self) -> Result<Import, Error> {
        let (mut tools, mut unsupported, mut left_out) = (Vec::new(), Vec::new(), 0);
        let mut wanted: Vec<&Operation<'d>> = Vec::new();
        for operation in &self.api.operations {
            match operation {
                Ok(operation) if self.is_wanted(operation) => wanted.push(operation),
                Ok(_) => left_out += 1,
                Err(fault) => unsupported.push(Unsupported {
                    operation: format!("{} {}", fault.method, fault.path),
                    reason: fault.why.clone(),
                }),
            }
        }
        let names = names::choose(&wanted, self.options);
        for (operation, name) in wanted.into_iter().zip(names) {
            let label = format!("{} {}", operation.method, operation.path);
            match name.and_then(|name| self.tool(operation, name)) {
                Ok((spec, notes)) => tools.push(ImportedTool { spec, operation: label, notes }),
                Err(reason) => unsupported.push(Unsupported { operation: label, reason }),
            }
        }
        let provider = self.describe();
        Ok(Import { provider, tools, unsupported, left_out, notes: self.notes })
    }

    /// What shapes the arguments of an operation: only forms take files.
    fn shaper(&mut self, operation: &Operation<'d>) -> &mut Shaper<'d> {
        let form = operation
            .body
            .as_ref()
            .is_some_and(|body| media::form(&body.media.media_type) == Form::Multipart);
        if form { &mut self.uploads } else { &mut self.requests }
    }

    fn is_wanted(&self, operation: &Operation<'_>) -> bool {
        let ImportOptions { include, exclude, .. } = self.options;
        (include.is_empty() || select::any(include, operation)) && !select::any(exclude, operation)
    }

    fn describe(&self) -> ProviderSpec {
        let text = |text: &str, most| {
            let text = super::schema::brief(text, most);
            (!text.is_empty()).then(|| text.into())
        };
        ProviderSpec {
            name: self.provider.to_owned(),
            label: text(self.api.title, 80),
            description: text(self.api.description, 400),
            credentials: self.forms.fields(),
            ..ProviderSpec::default()
        }
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            description: self.options.max_description.unwrap_or(400),
            bytes: self.options.max_schema_bytes.unwrap_or(24_000),
        }
    }

    /// What a person is asked before this runs, where the options say so.
    fn approval(&self, operation: &Operation<'_>) -> Option<Approval> {
        select::any(&self.options.ask, operation).then_some(Approval::Ask)
    }
}
