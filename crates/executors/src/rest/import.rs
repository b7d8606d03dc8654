//! Imports an API document as a provider with tools.
//!
//! A problem with one operation is reported for that operation, and the others become
//! tools. Nothing here uses the network or stores anything; the caller decides what to do
//! with an [`Import`].

mod answer;
mod arguments;
mod auth;
mod credential;
mod names;
mod reach;
mod select;
mod tool;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;

use http::HeaderValue;
use serde::{Deserialize, Serialize};
use url::Url;
use windlass::definition::ProviderSpec;
use windlass::{Error, ErrorKind, ToolSpec};

pub use self::auth::Auth;
use self::auth::Way;
pub use self::names::Names;
pub use self::reach::{needs_credential, origins};
pub(crate) use self::select::METHODS;
use self::select::Marks;
pub use self::select::Selector;
use super::document::{Api, Document, DocumentLimits, Files, Operation, ReadFile};
use super::media::{self, Form};
use super::request::{is_header_name, is_reserved_header, is_secret_header};
use super::schema::{Bounds, Direction, Shaper};

/// Default maximum number of tools of a document.
const MAX_TOOLS: usize = 5_000;
/// With this many operations a second thread pays off.
const WORTH_A_THREAD: usize = 50;

/// Options of an import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImportOptions {
    /// The base URL, in place of the document's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Only these operations: `tag:NAME`, `GET`, `/path/*`, `GET /path/*`, or an
    /// operationId. Empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<Selector>,
    /// All operations except these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Selector>,
    /// Names of tools, by operationId or `GET /path`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rename: BTreeMap<String, String>,
    /// Prefix of every tool name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Operations that are read-only, whatever their method.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_only: Vec<Selector>,
    /// Operations that are idempotent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idempotent: Vec<Selector>,
    /// Operations that are destructive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub destructive: Vec<Selector>,
    /// Operations that need approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<Selector>,
    /// Operations that are found by search only, and not listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub defer: Vec<Selector>,
    /// Authentication, in place of the document's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Headers of every request. They must not be secret: secrets belong into a
    /// credential.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Maximum length of a description in characters; 400 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_description: Option<usize>,
    /// Maximum size of a tool's schema in bytes; 24,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_schema_bytes: Option<usize>,
    /// Maximum number of tools; 5,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tools: Option<usize>,
    /// Maximum number of files of the document; 2,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_files: Option<usize>,
}

/// Where a document comes from.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    /// Its URL, against which relative servers are resolved.
    pub url: Option<&'a str>,
    /// Reads files beside it.
    pub read: ReadFile<'a>,
}

impl Default for Origin<'_> {
    fn default() -> Self {
        Self { url: None, read: &|_| Err("there are no files beside it".to_owned()) }
    }
}

/// The result of an import.
#[derive(Clone, Debug)]
pub struct Import {
    /// The provider of the tools, with the credentials it needs.
    pub provider: ProviderSpec,
    /// The tools, in the order of the document.
    pub tools: Vec<ImportedTool>,
    /// Operations that cannot become tools, each with the reason.
    pub unsupported: Vec<Unsupported>,
    /// Number of operations that the options excluded.
    pub left_out: usize,
    /// Warnings about the document as a whole.
    pub notes: Vec<String>,
    /// Selectors in `ask` and `exclude` that match nothing. A typo there would let
    /// operations run without approval, or at all.
    pub strays: Vec<String>,
}

/// A tool of an [`Import`].
#[derive(Clone, Debug)]
pub struct ImportedTool {
    /// The tool.
    pub spec: ToolSpec,
    /// The operation that it was made from: `GET /pets/{id}`.
    pub operation: String,
    /// Warnings about it.
    pub notes: Vec<String>,
}

/// An operation that cannot become a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsupported {
    /// The operation: `GET /pets/{id}`.
    pub operation: String,
    /// The reason.
    pub reason: String,
}

/// Imports a document: OpenAPI 3.0 or 3.1 or Swagger 2.0, as JSON or YAML.
pub fn import(
    provider: &str,
    text: &str,
    options: &ImportOptions,
    origin: Origin<'_>,
) -> Result<Import, Error> {
    import_beside(provider, text, options, origin, &Names::default())
}

/// Imports a document beside other tools, or again in place of an earlier import.
pub fn import_beside(
    provider: &str,
    text: &str,
    options: &ImportOptions,
    origin: Origin<'_>,
    names: &Names,
) -> Result<Import, Error> {
    let mut limits = DocumentLimits::default();
    limits.files = options.max_files.unwrap_or(limits.files).max(1);
    let document = Document::read(text, &limits, origin.read)?;
    let api = document.api();
    Ok(Importer::new(provider, &document, &api, options, origin)?.run(names))
}

struct Importer<'i, 'd> {
    provider: &'i str,
    api: &'i Api<'d>,
    options: &'i ImportOptions,
    files: &'d Files,
    requests: Shaper<'d>,
    uploads: Shaper<'d>,
    /// The URL of the document.
    url: Option<Url>,
    /// The fields of the credential form, by scheme.
    forms: credential::Forms,
    marks: Marks<'i>,
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
        let wrong = |why: String| Error::new(ErrorKind::InvalidDefinition, why);
        check_headers(&options.headers).map_err(wrong)?;
        if let Some(Auth(Way::Scheme(name))) = &options.auth
            && !api.schemes.contains_key(name)
        {
            let known: Vec<String> = api.schemes.keys().map(|own| format!("`{own}`")).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let why = format!("the document has no security scheme `{name}`; it has {known}");
            return Err(wrong(why));
        }
        let operations: Vec<_> = api.operations.iter().flatten().collect();
        let marks = Marks::of(options, &operations);
        Ok(Self {
            provider,
            api,
            options,
            files: document.files(),
            requests: Shaper::new(document.files(), Direction::Request),
            uploads: Shaper::new(document.files(), Direction::Form),
            url: origin.url.and_then(|url| Url::parse(url).ok()),
            forms: credential::Forms::of(api, options.auth.as_ref()),
            marks,
            notes: api.notes.clone(),
        })
    }

    fn run(mut self, names: &Names) -> Import {
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
        left_out += self.keep_most(&mut wanted);
        let named = names::choose(self.provider, &wanted, self.options, names);
        let mut renamed = Vec::new();
        let files = self.files;
        let outputs = || answer::outputs(files, &wanted);
        let is_large = wanted.len() >= WORTH_A_THREAD;
        let (made, outputs) = beside(is_large, &outputs, || {
            let named = wanted.iter().zip(named);
            let made = named.map(|(operation, name)| {
                let (name, note) = name?;
                let (spec, notes) = self.tool(operation, name)?;
                renamed.extend(note.clone());
                Ok((spec, note.into_iter().chain(notes).collect()))
            });
            made.collect::<Vec<Result<_, String>>>()
        });
        for ((operation, made), output) in wanted.into_iter().zip(made).zip(outputs) {
            let label = format!("{} {}", operation.method, operation.path);
            match made {
                Ok((mut spec, notes)) => {
                    spec.output_advisory = output.is_some();
                    spec.output = output;
                    tools.push(ImportedTool { spec, operation: label, notes });
                }
                Err(reason) => unsupported.push(Unsupported { operation: label, reason }),
            }
        }
        let operations: Vec<_> = self.api.operations.iter().flatten().collect();
        self.notes.extend(names::summary(&renamed));
        self.notes.extend(self.marks.notes(&operations));
        self.notes.extend(names::unused(&self.options.rename, &operations));
        self.notes.extend(reach::notes(&tools));
        if !tools.is_empty() {
            self.notes.extend(self.forms.unused());
        }
        let strays = self.marks.strays(&operations);
        let provider = self.describe();
        Import { provider, tools, unsupported, left_out, notes: self.notes, strays }
    }

    /// Drops operations beyond the limit; returns how many.
    fn keep_most(&mut self, wanted: &mut Vec<&Operation<'d>>) -> usize {
        let (all, most) = (wanted.len(), self.options.max_tools.unwrap_or(MAX_TOOLS));
        wanted.truncate(most);
        let more = all - wanted.len();
        if more > 0 {
            self.notes.push(format!(
                "there are more than {most} operations ({all}); {more} are left out: set \
                 `max_tools`, or choose by `include` and `exclude`"
            ));
        }
        more
    }

    /// The schema shaper for an operation's arguments: only forms accept files.
    fn shaper(&mut self, operation: &Operation<'d>) -> &mut Shaper<'d> {
        let form = operation
            .body
            .as_ref()
            .is_some_and(|body| media::form(&body.media.media_type) == Form::Multipart);
        if form { &mut self.uploads } else { &mut self.requests }
    }

    fn is_wanted(&self, operation: &Operation<'_>) -> bool {
        let Marks { include, exclude, .. } = &self.marks;
        (include.is_empty() || include.selects(operation)) && !exclude.selects(operation)
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
}

/// Checks that headers may be sent with every request.
fn check_headers(headers: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in headers {
        let shown = name.escape_debug();
        if !is_header_name(name) || HeaderValue::from_str(value).is_err() {
            return Err(format!("the header `{shown}` has characters that no header may have"));
        }
        if is_secret_header(name) {
            return Err(format!(
                "the header `{shown}` is a secret: set `auth`, and store a credential"
            ));
        }
        // `Accept` may be set, since the importer may know better.
        if is_reserved_header(name) && !name.eq_ignore_ascii_case("accept") {
            return Err(format!("the header `{shown}` belongs to the connection or the body"));
        }
    }
    Ok(())
}

/// Runs two independent pieces of work, the second on this thread.
fn beside<A: Send, B>(
    is_large: bool,
    other: &(impl Fn() -> A + Sync),
    own: impl FnOnce() -> B,
) -> (B, A) {
    thread::scope(|scope| {
        let named = || thread::Builder::new().name("windlass-import".to_owned());
        let spawned = is_large.then(|| named().spawn_scoped(scope, other).ok()).flatten();
        let own = own();
        let other = match spawned {
            Some(spawned) => spawned.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // Too little work, or the system has no thread left.
            None => other(),
        };
        (own, other)
    })
}
