//! Imports of API documents (OpenAPI, Swagger) as providers: sent, uploaded, or
//! fetched through the guarded client (SSRF).

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass::TenantId;
use windlass::definition::LoadError;
use windlass_executors::mcp::Server;
use windlass_executors::outbound::on_behalf;
use windlass_executors::rest::{Auth, DocumentLimits, Import, ImportOptions, Names};
use windlass_store::{Expect, Put};

use super::definitions::refused;
use super::{providers, view};
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::front::extract::{self, Authenticated, DocumentBody, JsonBody, Largest, PathName};
use crate::http::front::problem::Problem;
use crate::state::identity::{Identity, Permission};
use crate::state::imports::{self, ApiDocument, ImportDiff, ImportedProvider, SPACE};
use crate::state::quota::NewResource;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::put("/v1/providers/{name}/document", "update_provider", update)
            .may(Permission::WriteTools, "Import a provider again, and get the changes")
            .details(
                "Without `document` and `url`, the document is fetched from its original URL. \
                 Additions and removals take effect; each call of a changed tool needs an \
                 approval until the change is accepted, and so does a new tool that would send \
                 the credential to another service. With `dry_run`, nothing changes.",
            )
            .body::<UpdateBody>()
            .example(|| json!({"document": "openapi: 3.0.3\ninfo: {title: Pets}\npaths: {}", "dry_run": true}))
            .answer::<UpdatedDoc>(200, "What was added, removed and changed"),
        RouteSpec::get("/v1/providers/{name}/changes", "list_changes", changes)
            .may(Permission::ReadTools, "List changed tools that wait for acceptance")
            .details(
                "For an MCP server with `quarantine`: the changed parts of each tool, as they \
                 were accepted and as the server declares them now. For an imported document: \
                 the tools that need approvals until they are accepted.",
            )
            .answer::<ChangesDoc>(200, "The tools, and what changed"),
        RouteSpec::post("/v1/providers/{name}/accept", "accept_changes", accept)
            .may(Permission::WriteTools, "Accept changed tools, so that they run without approval")
            .body::<AcceptBody>()
            .example(|| json!({"tools": ["list_pets"]}))
            .answer::<AcceptedDoc>(200, "The tools that were accepted"),
    ]
}

/// A provider: a definition, or an API document with a name.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderBody {
    /// YAML or JSON, in the form that definition files have; or the same as an
    /// object.
    definition: Option<Value>,
    /// The name of the provider of a document.
    name: Option<String>,
    /// The OpenAPI or Swagger document, as text or as an object.
    document: Option<Value>,
    /// The URL of the document.
    url: Option<String>,
    /// What to make of it: `base_url`, `include`, `exclude`, `rename`, `prefix`,
    /// `read_only`, `idempotent`, `destructive`, `ask`, `defer`, `auth` (`none`,
    /// `bearer`, `basic`, `header:NAME`, `query:NAME`, `cookie:NAME` or
    /// `scheme:NAME`), `headers`, `max_description`, `max_schema_bytes`,
    /// `max_tools`, `max_files`.
    #[serde(default)]
    options: Map<String, Value>,
    /// Dry run: only show what would be imported.
    #[serde(default)]
    dry_run: bool,
}

/// The parsed body.
#[expect(clippy::large_enum_variant, reason = "a request has one of it")]
pub(crate) enum ProviderRequest {
    Definition(String),
    Document(DocumentImport),
}

/// An API document to import.
pub(crate) struct DocumentImport {
    name: String,
    from: DocumentSource,
    options: ImportOptions,
    dry_run: bool,
}

enum DocumentSource {
    Text(String),
    Url(String),
}

impl ProviderBody {
    pub(crate) fn text(self) -> Result<ProviderRequest, Problem> {
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let from = match (self.definition, self.document, self.url) {
            (Some(definition), None, None) => {
                return Ok(ProviderRequest::Definition(text(definition)));
            }
            (None, Some(document), None) => DocumentSource::Text(text(document)),
            (None, None, Some(url)) => DocumentSource::Url(url),
            _ => {
                let why = "one of `definition`, `document` and `url`";
                return Err(Problem::bad("what is the provider?").at("/definition", why));
            }
        };
        let name = self.name.ok_or_else(|| {
            Problem::bad("a document needs a name").at("/name", "what to call the provider")
        })?;
        let options = options(self.options)?;
        Ok(ProviderRequest::Document(DocumentImport { name, from, options, dry_run: self.dry_run }))
    }
}

fn options(options: Map<String, Value>) -> Result<ImportOptions, Problem> {
    ImportOptions::deserialize(Value::Object(options))
        .map_err(|error| Problem::bad("an option is wrong").at("/options", error.to_string()))
}

/// A body of up to the size of an API document: JSON, or the document itself
/// with `?name=` in the address.
pub(crate) struct ProviderUpload(pub(crate) ProviderBody);

/// The query of an upload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UploadQuery {
    name: Option<String>,
    base_url: Option<String>,
    auth: Option<Auth>,
    #[serde(default)]
    dry_run: bool,
}

impl FromRequest<Arc<App>> for ProviderUpload {
    type Rejection = Problem;

    async fn from_request(mut request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let most = app.settings.max_body_bytes.max(DocumentLimits::default().file_bytes);
        request.extensions_mut().insert(Largest(most));
        let media = request.headers().get(header::CONTENT_TYPE);
        let media = media.and_then(|media| media.to_str().ok()).unwrap_or_default();
        let upload = ["yaml", "octet-stream", "text/plain", "vnd.oai.openapi"];
        if !upload.iter().any(|kind| media.contains(kind)) {
            let DocumentBody(body) = DocumentBody::from_request(request, app).await?;
            return Ok(Self(body));
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let query: UploadQuery = serde_urlencoded::from_str(&query)
            .map_err(|error| Problem::bad("a parameter is wrong").at("query", error.to_string()))?;
        let bytes = extract::whole(request, app).await?;
        let text = String::from_utf8(bytes.into())
            .map_err(|_| Problem::bad("the document is not UTF-8 text"))?;
        let base_url = query.base_url.map(|url| ("base_url".to_owned(), json!(url)));
        let auth = query.auth.map(|auth| ("auth".to_owned(), json!(auth)));
        Ok(Self(ProviderBody {
            definition: None,
            name: query.name,
            document: Some(Value::String(text)),
            url: None,
            options: base_url.into_iter().chain(auth).collect(),
            dry_run: query.dry_run,
        }))
    }
}

/// The result of an import.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ImportedProvider")]
pub(crate) struct ImportedDoc {
    provider: String,
    /// The tools, each with the operation it is made from and its warnings.
    tools: Vec<Map<String, Value>>,
    /// Operations that were skipped, each with the reason.
    unsupported: Vec<Map<String, Value>>,
    /// How many operations were excluded.
    left_out: usize,
    /// Warnings about the document as a whole.
    warnings: Vec<String>,
    /// The fields of the credential form.
    credentials_schema: Vec<Map<String, Value>>,
}

/// Another import of a provider.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct UpdateBody {
    /// The document, as text or as an object.
    document: Option<Value>,
    /// The URL of the document.
    url: Option<String>,
    /// What to make of it; unset: the same as before.
    options: Option<Map<String, Value>>,
    /// Dry run: only show the changes.
    dry_run: bool,
    /// Accept changed tools, so that they run without approval.
    accept: bool,
}

/// The changes of an import.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UpdatedProvider")]
struct UpdatedDoc {
    /// Names of tools.
    added: Vec<String>,
    /// Names of tools.
    removed: Vec<String>,
    /// Tools with the parts that changed.
    changed: Vec<Map<String, Value>>,
    /// How many tools did not change.
    unchanged: usize,
    /// Tools that ask before they run.
    flagged: Vec<String>,
    /// Operations that were skipped, each with the reason.
    unsupported: Vec<Map<String, Value>>,
    /// Warnings about the document as a whole.
    warnings: Vec<String>,
}

/// The changes to accept.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct AcceptBody {
    /// Names of tools; all changed ones if empty.
    tools: Vec<String>,
}

/// The accepted tools.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AcceptedChanges")]
struct AcceptedDoc {
    accepted: Vec<String>,
    /// Tools that still ask before they run.
    flagged: Vec<String>,
}

/// Changed tools that wait for acceptance.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WaitingChanges")]
struct ChangesDoc {
    changes: Vec<ChangeDoc>,
}

/// A changed tool.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ToolChange")]
struct ChangeDoc {
    /// The name that its server gives it, or that it has here if it was imported.
    tool: String,
    parts: Vec<PartDoc>,
}

/// A changed part of a tool.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChangedPart")]
struct PartDoc {
    /// Such as `description` or `inputSchema`.
    part: String,
    /// The accepted value; null if there was none.
    before: Option<Value>,
    /// The current value; null if it was removed.
    now: Option<Value>,
}

/// Imports a document as a provider of a tenant.
pub(crate) async fn create(
    app: &App,
    who: &Identity,
    wanted: DocumentImport,
) -> Result<Response, Problem> {
    let (tenant, owner) = (&who.tenant, Some(&*who.key_id));
    let DocumentImport { name, from, options, dry_run } = wanted;
    let names = Names { taken: taken(app, tenant, &name), ..Names::default() };
    let source = source(app, tenant, from).await?;
    let (source, import) =
        read(tenant, source, &name, &options, names, ApiDocument::import).await?;
    if dry_run {
        return Ok(view::ok(&imports::report(&import)));
    }
    let (unsupported, mut warnings) = (import.unsupported.clone(), imports::warnings(&import));
    let kept = ImportedProvider::new(import, &source, options);
    let _turn = app.quotas.making(tenant, NewResource::Tools).await;
    app.allow_tools((tenant, owner), &providers::source(&name), kept.tools.len()).await?;
    let put = Put { owner: owner.map(str::to_owned), ..kept.to_put(tenant, &name)? };
    if app.documents.put(put, Expect::Absent).await?.is_none() {
        return Err(Problem::conflict(format!("the provider `{name}` is there already"))
            .hint("import it again with PUT /v1/providers/{name}/document"));
    }
    let wanted = kept.tools.len();
    let errors = load(app, tenant, &name, kept);
    if wanted > 0 && errors.len() >= wanted {
        app.documents.delete(SPACE, tenant, &name, Expect::Anything).await?;
        app.engine.unload_for(tenant, &providers::source(&name));
        return Err(refused(&errors));
    }
    warnings.extend(errors.into_iter().map(|error| error.message));
    let provider = app.provider(tenant, &name)?;
    let mut shown = providers::show(app, tenant, &provider);
    (shown["unsupported"], shown["warnings"]) = (json!(unsupported), json!(warnings));
    Ok(view::with_status(StatusCode::CREATED, &shown))
}

/// Makes the tools of an import those of a tenant. What cannot be loaded comes
/// back, and loses nothing else.
pub(crate) fn load(
    app: &App,
    tenant: &TenantId,
    name: &str,
    kept: ImportedProvider,
) -> Vec<LoadError> {
    app.engine.load_parsed(Some(tenant), &providers::source(name), kept.parsed()).errors
}

/// The names that a provider's tools cannot have: everybody's, which they would
/// hide, and those that the tenant has from elsewhere.
fn taken(app: &App, tenant: &TenantId, provider: &str) -> HashSet<String> {
    let (registry, own) = (app.engine.registry(), providers::source(provider));
    let mut others = registry.owned_by(tenant);
    others.retain(|tool| **tool.source() != *own);
    imports::names_of(registry.list().iter().chain(&others))
}

async fn update(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(name): PathName,
    DocumentBody(body): DocumentBody<UpdateBody>,
) -> Result<Response, Problem> {
    let (version, old) = kept(&app, &who.tenant, &name).await?;
    let from = match (body.document, body.url.or_else(|| old.url.clone())) {
        (Some(Value::String(text)), _) => DocumentSource::Text(text),
        (Some(document), _) => DocumentSource::Text(document.to_string()),
        (None, Some(url)) => DocumentSource::Url(url),
        (None, None) => {
            let why = "it did not come from an address: send the document";
            return Err(Problem::bad("there is no document").at("/document", why));
        }
    };
    let options = body.options.map_or_else(|| Ok(old.options.clone()), options)?;
    let names = Names { taken: taken(&app, &who.tenant, &name), kept: old.names() };
    let source = source(&app, &who.tenant, from).await?;
    let how = ApiDocument::import_again;
    let (source, import) = read(&who.tenant, source, &name, &options, names, how).await?;
    let (unsupported, mut warnings) = (import.unsupported.clone(), imports::warnings(&import));
    let strays = import.strays.clone();
    let (mut new, diff) = old.updated(ImportedProvider::new(import, &source, options), &strays);
    if body.accept {
        new.accept(&[]);
    }
    let flagged = new.flagged();
    if !body.dry_run {
        let errors = replace(&app, &who.tenant, &name, version, new).await?;
        warnings.extend(errors.into_iter().map(|error| error.message));
    }
    let ImportDiff { added, removed, changed, unchanged } = diff;
    Ok(view::ok(&json!({
        "added": added, "removed": removed, "changed": changed, "unchanged": unchanged,
        "flagged": flagged, "unsupported": unsupported, "warnings": warnings,
    })))
}

async fn changes(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(name): PathName,
) -> Result<Response, Problem> {
    app.provider(&who.tenant, &name)?;
    if let Some(server) = app.servers.get_for(&who.tenant, &name) {
        return Ok(view::ok(&json!({"changes": server.changes()})));
    }
    let flagged = match kept(&app, &who.tenant, &name).await {
        Ok((_, kept)) => kept.flagged(),
        // A provider of definitions has no changes to accept.
        Err(_) => Vec::new(),
    };
    let changes: Vec<Value> =
        flagged.into_iter().map(|tool| json!({"tool": tool, "parts": []})).collect();
    Ok(view::ok(&json!({"changes": changes})))
}

async fn accept(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(name): PathName,
    JsonBody(body): JsonBody<AcceptBody>,
) -> Result<Response, Problem> {
    if let Some(server) = app.servers.get_for(&who.tenant, &name) {
        return accept_of_server(&server, &who.tenant, &body.tools);
    }
    let (version, mut kept) = kept(&app, &who.tenant, &name).await?;
    let accepted = kept.accept(&body.tools);
    let flagged = kept.flagged();
    if !accepted.is_empty() {
        replace(&app, &who.tenant, &name, version, kept).await?;
    }
    Ok(view::ok(&json!({"accepted": accepted, "flagged": flagged})))
}

/// Accepts what a server of tools says of them now. One that all tenants see is
/// the operator's.
fn accept_of_server(
    server: &Server,
    tenant: &TenantId,
    tools: &[String],
) -> Result<Response, Problem> {
    if server.owner().map_or(*tenant != TenantId::default(), |owner| owner != tenant) {
        let why = format!("`{}` is a server of all tenants", server.name());
        return Err(Problem::conflict(why).hint("the operator accepts changes of its tools"));
    }
    let accepted = server.accept(tools);
    let flagged = server.held().into_keys().filter(|name| !accepted.contains(name));
    let flagged: Vec<String> = flagged.collect();
    Ok(view::ok(&json!({"accepted": accepted, "flagged": flagged})))
}

async fn replace(
    app: &App,
    tenant: &TenantId,
    name: &str,
    version: u64,
    kept: ImportedProvider,
) -> Result<Vec<LoadError>, Problem> {
    let _turn = app.quotas.making(tenant, NewResource::Tools).await;
    let before = app.documents.get(SPACE, tenant, name).await?;
    let owner = before.as_ref().and_then(|before| before.owner.as_deref());
    app.allow_tools((tenant, owner), &providers::source(name), kept.tools.len()).await?;
    let put = kept.to_put(tenant, name)?;
    if app.documents.put(put, Expect::Version(version)).await?.is_none() {
        return Err(Problem::conflict(format!("the provider `{name}` was changed meanwhile"))
            .hint("look at it, and try again"));
    }
    Ok(load(app, tenant, name, kept))
}

async fn kept(
    app: &App,
    tenant: &TenantId,
    name: &str,
) -> Result<(u64, ImportedProvider), Problem> {
    let document = app.documents.get(SPACE, tenant, name).await?;
    let document = document.ok_or_else(|| Problem::not_found("provider"))?;
    match ImportedProvider::read(&document) {
        Some(kept) => Ok((document.version, kept?)),
        None => Err(Problem::conflict(format!("`{name}` is a definition, not an import"))),
    }
}

async fn source(
    app: &App,
    tenant: &TenantId,
    from: DocumentSource,
) -> Result<ApiDocument, Problem> {
    match from {
        DocumentSource::Text(text) => Ok(ApiDocument::pasted(text)),
        DocumentSource::Url(url) => {
            Ok(on_behalf(Some(tenant), imports::fetch(&app.outbound, &url)).await?)
        }
    }
}

/// How a document is imported: the first time, or as an update.
type ImportFn = fn(&ApiDocument, &str, &ImportOptions, &Names) -> Result<Import, windlass::Error>;

/// Reads a document, away from the threads that answer requests.
async fn read(
    tenant: &TenantId,
    source: ApiDocument,
    name: &str,
    options: &ImportOptions,
    names: Names,
    how: ImportFn,
) -> Result<(ApiDocument, Import), Problem> {
    let (name, options) = (name.to_owned(), options.clone());
    let read = windlass::native::run_blocking(tenant, move || {
        let import = how(&source, &name, &options, &names)?;
        Ok((source, import))
    });
    Ok(read.await?)
}
