//! Providers that were imported from API documents.
//!
//! The generated tools are stored, not the document: they stay the same until the
//! next import. Then additions and removals take effect, and a changed tool is held
//! back: each of its calls needs an approval until somebody has reviewed and accepted
//! the change.

mod diff;
mod fetch;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::definition::{Definition, ImportRequest, Parsed, ProviderSpec};
use windlass::{Approval, Error, ErrorKind, TenantId, Tool, ToolSpec};
use windlass_executors::rest::{
    Import, ImportOptions, Names, Origin, Unsupported, import_beside, origins,
};
use windlass_store::{Document, Put};

pub(crate) use diff::ImportDiff;
use fetch::read_beside;
pub(crate) use fetch::{fetch, read_file};

/// Where providers are kept.
pub(crate) const SPACE: &str = "providers";
/// The key of an import in what is kept of a provider.
const KEY: &str = "import";

/// An API document and its origin.
pub(crate) struct ApiDocument {
    pub(crate) text: String,
    pub(crate) url: Option<String>,
    /// The folder that it stands in, where it is a file.
    pub(crate) folder: Option<PathBuf>,
}

impl ApiDocument {
    /// A document that somebody sent as it is.
    pub(crate) fn pasted(text: String) -> Self {
        Self { text, url: None, folder: None }
    }

    /// Reads a document that was not imported before. It may take a while: not
    /// for async threads.
    ///
    /// What was to keep tools away or to have a person asked, and does not, is an
    /// error here. Later it is a warning: an API may lose what somebody left out.
    pub(crate) fn import(
        &self,
        name: &str,
        options: &ImportOptions,
        names: &Names,
    ) -> Result<Import, Error> {
        let import = self.import_again(name, options, names)?;
        if import.strays.is_empty() {
            return Ok(import);
        }
        Err(Error::new(ErrorKind::InvalidArguments, import.strays.join("; ")))
    }

    /// Reads a document that was imported before. It may take a while: not for
    /// async threads.
    pub(crate) fn import_again(
        &self,
        name: &str,
        options: &ImportOptions,
        names: &Names,
    ) -> Result<Import, Error> {
        check_name(name)?;
        let beside = |file: &str| match &self.folder {
            Some(folder) => read_beside(folder, file).map_err(|error| error.to_string()),
            None => Err("there are no files beside it".to_owned()),
        };
        let origin = Origin { url: self.url.as_deref(), read: &beside };
        import_beside(name, &self.text, options, origin, names)
    }
}

/// The names by which tools are found: an import gives none of them again.
pub(crate) fn names_of<'t>(tools: impl IntoIterator<Item = &'t Arc<Tool>>) -> HashSet<String> {
    let all =
        |tool: &Arc<Tool>| [tool.name().to_string(), tool.name().wire(), tool.name().hashed()];
    tools.into_iter().flat_map(all).collect()
}

fn check_name(name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || name.chars().count() > 64 || !name.chars().all(fits) {
        let why = "the name of a provider has 1 to 64 letters, digits and _ - .";
        return Err(Error::new(ErrorKind::InvalidArguments, why));
    }
    Ok(())
}

/// An imported provider as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ImportedProvider {
    /// Where the document was, if it had an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    #[serde(default)]
    pub(crate) options: ImportOptions,
    pub(crate) imported_at: Timestamp,
    pub(crate) provider: ProviderSpec,
    pub(crate) tools: Vec<StoredTool>,
}

/// A tool as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredTool {
    /// What it was made from: `GET /pets`.
    pub(crate) operation: String,
    pub(crate) spec: ToolSpec,
    /// It changed, and the change is not accepted yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) flagged: bool,
}

impl StoredTool {
    fn compact(mut self) -> Self {
        self.spec.compact();
        self
    }
}

impl ImportedProvider {
    pub(crate) fn new(import: Import, source: &ApiDocument, options: ImportOptions) -> Self {
        let tools = import.tools.into_iter();
        let tools = tools
            .map(|tool| StoredTool { operation: tool.operation, spec: tool.spec, flagged: false })
            .map(StoredTool::compact)
            .collect();
        Self {
            url: source.url.clone(),
            options,
            imported_at: Timestamp::now(),
            provider: import.provider,
            tools,
        }
    }

    /// What is kept of a provider, where it was imported.
    pub(crate) fn read(document: &Document) -> Option<Result<Self, Error>> {
        let body = document.body.get(KEY)?;
        Some(Self::deserialize(body).map_err(|error| damaged(&document.id, &error)))
    }

    /// The same without a copy.
    pub(crate) fn take(mut document: Document) -> Option<Result<Self, Error>> {
        let body = document.body.get_mut(KEY)?.take();
        Some(serde_json::from_value(body).map_err(|error| damaged(&document.id, &error)))
    }

    /// The same from the text of a document's body: most of what is kept are schemas,
    /// which are made once.
    pub(crate) fn of_text(name: &str, body: &str) -> Option<Result<Self, Error>> {
        import_of(name, body).transpose()
    }

    pub(crate) fn to_put(&self, tenant: &TenantId, name: &str) -> Result<Put, Error> {
        Put::of(SPACE, tenant.clone(), name, &HashMap::from([(KEY, self)]))
    }

    /// What an engine loads. A tool that changed asks a person first.
    pub(crate) fn parsed(self) -> Parsed {
        let tools = self.tools.into_iter().map(|tool| {
            let mut spec = tool.spec;
            if tool.flagged && spec.approval != Some(Approval::Deny) {
                spec.approval = Some(Approval::Ask);
            }
            // The importer checked it before it was kept, without spare capacity.
            Definition::checked(spec)
        });
        Parsed { tools: tools.collect(), providers: vec![self.provider], ..Parsed::default() }
    }

    /// The names that operations keep when their document is imported again.
    pub(crate) fn names(&self) -> HashMap<String, String> {
        let tools = self.tools.iter();
        tools.map(|tool| (tool.operation.clone(), tool.spec.name.to_string())).collect()
    }

    /// The same after another import, and what that changes. Changed tools are
    /// flagged; what was flagged before stays so. So are new ones that would send
    /// the stored credential to a service that it never went to, and all new ones
    /// where some option does not find any more what it kept from running unasked.
    pub(crate) fn updated(&self, mut new: Self, strays: &[String]) -> (Self, ImportDiff) {
        let known = diff::EarlierTools::of(self);
        let diff = ImportDiff::between(self, &new);
        let seen: BTreeSet<String> =
            self.tools.iter().flat_map(|tool| origins(&tool.spec)).collect();
        for tool in &mut new.tools {
            tool.flagged = match known.before(tool) {
                Some(old) => old.flagged || diff::differ(&old.spec, &tool.spec),
                None if self.tools.is_empty() => false,
                None => !strays.is_empty() || !origins(&tool.spec).is_subset(&seen),
            };
        }
        (new, diff)
    }

    /// Accepts changes: of these tools, or of all where none is named. Returns
    /// the names of those that were flagged.
    pub(crate) fn accept(&mut self, names: &[String]) -> Vec<String> {
        let wanted = |tool: &StoredTool| {
            tool.flagged
                && (names.is_empty() || names.iter().any(|name| tool.spec.name.as_str() == name))
        };
        let mut accepted = Vec::new();
        for tool in self.tools.iter_mut() {
            if wanted(tool) {
                tool.flagged = false;
                accepted.push(tool.spec.name.to_string());
            }
        }
        accepted
    }

    pub(crate) fn flagged(&self) -> Vec<String> {
        let flagged = self.tools.iter().filter(|tool| tool.flagged);
        flagged.map(|tool| tool.spec.name.to_string()).collect()
    }
}

/// What lists show of an imported provider. Its tools are counted and named: their
/// schemas, megabytes for a large API, are skipped.
#[derive(Deserialize)]
pub(crate) struct ImportSummary {
    #[serde(default)]
    pub(crate) url: Option<String>,
    pub(crate) imported_at: Timestamp,
    provider: Named,
    tools: Vec<ToolSummary>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct ToolSummary {
    spec: Named,
    #[serde(default)]
    flagged: bool,
}

impl ImportSummary {
    /// From the text of a document's body, where it is that of an import.
    pub(crate) fn of_text(name: &str, body: &str) -> Option<Result<Self, Error>> {
        import_of(name, body).transpose()
    }

    pub(crate) fn name(&self) -> &str {
        &self.provider.name
    }

    /// The names of its tools.
    pub(crate) fn tools(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tools.iter().map(|tool| tool.spec.name.as_str())
    }

    /// The names of the tools that changed.
    pub(crate) fn flagged(&self) -> Vec<&str> {
        let flagged = self.tools.iter().filter(|tool| tool.flagged);
        flagged.map(|tool| tool.spec.name.as_str()).collect()
    }
}

/// What a document's body says of an import, as much as `T` takes of it.
fn import_of<T: DeserializeOwned>(name: &str, body: &str) -> Result<Option<T>, Error> {
    #[derive(Deserialize)]
    struct Body<T> {
        #[serde(default = "Option::default")]
        import: Option<T>,
    }
    let body: Body<T> = serde_json::from_str(body).map_err(|error| damaged(name, &error))?;
    Ok(body.import)
}

fn damaged(name: &str, error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the provider `{name}` is damaged: {error}"))
}

/// Reads the document that a provider's definition names.
pub(crate) fn of_definition(request: &ImportRequest, folder: &Path) -> Result<Parsed, Error> {
    let (parsed, unsupported) = named_by(request, folder)?;
    let name = &request.provider.name;
    for one in unsupported {
        let (operation, reason) = (&one.operation, &one.reason);
        tracing::warn!(provider = name, operation, reason, "skipped an operation of an API");
    }
    Ok(parsed)
}

/// The same, with the operations that cannot be tools.
pub(crate) fn named_by(
    request: &ImportRequest,
    folder: &Path,
) -> Result<(Parsed, Vec<Unsupported>), Error> {
    let refused = |why: String| Error::new(ErrorKind::InvalidDefinition, why);
    let options = ImportOptions::deserialize(Value::Object(request.options.clone()))
        .map_err(|error| refused(format!("`options`: {error}")))?;
    if request.document.contains("://") {
        return Err(refused(
            "a definition names a file; `windlass providers add` takes addresses".to_owned(),
        ));
    }
    let path = folder.join(&request.document);
    let source = ApiDocument {
        text: read_file(&path)?,
        url: None,
        folder: path.parent().map(Path::to_owned),
    };
    let name = &request.provider.name;
    // Names that others have are the registry's to settle, file by file.
    let import = source.import(name, &options, &Names::default())?;
    let written = request.provider.clone();
    let provider = ProviderSpec {
        credentials: import.provider.credentials,
        label: written.label.or(import.provider.label),
        description: written.description.or(import.provider.description),
        ..written
    };
    let tools = import.tools.into_iter().map(|tool| Definition::checked(tool.spec)).collect();
    let parsed = Parsed { tools, providers: vec![provider], ..Parsed::default() };
    Ok((parsed, import.unsupported))
}

/// What is odd about a document as a whole.
pub(crate) fn warnings(import: &Import) -> Vec<String> {
    import.strays.iter().chain(&import.notes).cloned().collect()
}

/// What came of a document, for people and programs.
pub(crate) fn report(import: &Import) -> Value {
    let tools: Vec<Value> = import
        .tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.spec.name,
                "operation": tool.operation,
                "description": tool.spec.description.get(windlass::Lang::En),
                "read_only": tool.spec.behaviour.read_only,
                "warnings": tool.notes,
            })
        })
        .collect();
    json!({
        "provider": import.provider.name,
        "tools": tools,
        "unsupported": import.unsupported,
        "left_out": import.left_out,
        "warnings": import.notes,
        "credentials_schema": import.provider.credentials,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_what_is_read() {
        let spec = |more: Value| {
            let mut spec = json!({"name": "pets", "kind": "rest", "entry": {"plan": {"a": [1]}}});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"operation": "GET /pets", "spec": spec})
        };
        let input = json!({"type": "object", "properties": {"b": {}, "a": {"type": "string"}}});
        let body = json!({KEY: {
            "imported_at": "2026-01-01T00:00:00Z",
            "provider": {"name": "pets"},
            "tools": [
                spec(json!({"input": input, "output": {"type": "array"}})),
                spec(json!({"input": input, "output": null})),
                spec(json!({})),
            ],
        }});
        let document = Document {
            owner: None,
            tenant: TenantId::default(),
            id: "pets".to_owned(),
            alias: None,
            body,
            version: 1,
            updated_at: Timestamp::UNIX_EPOCH,
            expires_at: None,
        };
        let read = ImportedProvider::read(&document).unwrap().unwrap();
        let taken = ImportedProvider::take(document.clone()).unwrap().unwrap();
        let text = |kept: &ImportedProvider| serde_json::to_string(kept).unwrap();
        assert_eq!(text(&taken), text(&read));
        let body = document.body.to_string();
        let of_text = ImportedProvider::of_text("pets", &body).unwrap().unwrap();
        assert_eq!(text(&of_text), text(&read));
        assert!(ImportedProvider::of_text("pets", r#"{"definition": "name: pets"}"#).is_none());
        assert_eq!(taken.tools[0].spec.output, Some(json!({"type": "array"})));

        let mut damaged = document;
        damaged.body[KEY]["tools"][1]["spec"]["name"] = json!(7);
        let why = ImportedProvider::take(damaged).unwrap().unwrap_err();
        assert!(why.message().contains("the provider `pets` is damaged"), "{why}");
    }

    #[test]
    fn a_list_skips_the_schemas_of_tools() {
        // Nothing of a tool but its name and its state could be read here.
        let body = json!({KEY: {
            "imported_at": "2026-01-01T00:00:00Z",
            "url": "https://pets.example/openapi.json",
            "provider": {"name": "pets", "credentials": 7},
            "tools": [
                {"operation": 7, "spec": {"name": "add", "input": [[[7]]], "entry": false}},
                {"operation": 7, "spec": {"name": "list", "kind": {}}, "flagged": true},
            ],
        }});
        let body = body.to_string();
        assert!(ImportedProvider::of_text("pets", &body).unwrap().is_err());
        let summary = ImportSummary::of_text("pets", &body).unwrap().unwrap();
        assert_eq!(summary.name(), "pets");
        assert_eq!(summary.tools().collect::<Vec<_>>(), ["add", "list"]);
        assert_eq!(summary.flagged(), ["list"]);
        assert!(ImportSummary::of_text("pets", "{}").is_none());
    }
}
