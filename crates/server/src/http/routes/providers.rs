//! Providers: what offers tools, and which fields their credentials have.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass::definition::{CredentialField, ProviderSpec};
use windlass::{Lang, Secret, TenantId, Text};
use windlass_executors::mcp::{has_secrets, short_secret};
use windlass_store::{Document, Expect, Put};

use super::definitions;
use super::imports::{self, ImportedDoc, ProviderBody, ProviderRequest, ProviderUpload};
use super::own_tools;
use super::page::{PageQuery, TextCursor};
use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape::FieldDoc;
use crate::http::front::extract::{Authenticated, PathName, QueryString};
use crate::http::front::problem::Problem;
use crate::state::identity::Permission;
use crate::state::imports::ImportedProvider;
use crate::state::quota::{NewResource, QuotaHolder};

/// Where definitions are kept.
pub(crate) const SPACE: &str = crate::state::imports::SPACE;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/v1/providers", "list_providers", list)
            .may(Permission::ReadTools, "List the providers of tools")
            .query::<PageQuery<TextCursor>>()
            .answer::<ProvidersDoc>(200, "The providers, by name"),
        RouteSpec::get("/v1/providers/{name}", "get_provider", get)
            .may(Permission::ReadTools, "Get a provider with its tools and its credential form")
            .answer::<ProviderDoc>(200, "The provider"),
        RouteSpec::post("/v1/providers", "create_provider", create)
            .may(Permission::WriteTools, "Add a provider of the tenant's own, with its tools")
            .details(
                "YAML or JSON: `identity`, `credentials_schema`, and its tools after it as \
                 further YAML documents; or an OpenAPI or Swagger document, as `document` or \
                 from a `url`, with a `name`. `credentials_check` names a tool and arguments \
                 that validate a credential.",
            )
            .body::<ProviderBody>()
            .example(example)
            .answer::<ImportedDoc>(200, "With `dry_run`: what would be imported")
            .answer::<ProviderDoc>(201, "The provider"),
        RouteSpec::delete("/v1/providers/{name}", "delete_provider", delete)
            .may(Permission::WriteTools, "Delete a provider of the tenant's own, with its tools")
            .details(
                "Its credentials are kept for a provider of the same name; with \
                 `credentials=remove`, they are deleted, too.",
            )
            .query::<DeleteQuery>()
            .answer_as(204, "Deleted", "", None),
    ]
}

/// What to delete together with a provider.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteQuery {
    /// What happens to its credentials.
    #[serde(default)]
    credentials: DeletedCredentials,
}

/// What happens to the credentials of a deleted provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Afterwards")]
pub(crate) enum DeletedCredentials {
    #[default]
    Keep,
    Remove,
}

fn example() -> Value {
    json!({"definition": "identity: {name: acme, label: Acme}\n\
        credentials_schema:\n\
        - {name: api_key, type: secret-input, required: true}\n\
        ---\n\
        name: acme_status\n\
        description: Says how Acme does.\n\
        provider: acme\n\
        entry: {type: builtin, handler: echo}\n\
        parameters: [{name: message, type: string, required: true}]\n"})
}

/// A page of providers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProviderPage")]
struct ProvidersDoc {
    /// The providers, by name.
    providers: Vec<ProviderDoc>,
    /// The cursor of the next page; none on the last page.
    next: Option<String>,
}

/// A provider.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Provider")]
struct ProviderDoc {
    /// Its name.
    name: String,
    /// A name for people.
    label: Option<String>,
    /// What it offers.
    description: Option<String>,
    /// Its author.
    author: Option<String>,
    /// An address, a file name or base64.
    icon: Option<String>,
    /// Search keywords.
    tags: Vec<String>,
    /// The fields of its credential form.
    credentials_schema: Vec<FieldDoc>,
    /// The tool that validates credentials, if the definition names one.
    credentials_check: Option<String>,
    /// Its tools.
    tools: Vec<String>,
    /// Of a document that was just imported: operations that cannot be tools,
    /// each with the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsupported: Option<Vec<Map<String, Value>>>,
    /// Warnings of an import.
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<String>>,
}

pub(crate) fn show(app: &App, tenant: &TenantId, provider: &ProviderSpec) -> Value {
    let own = |text: &Option<Text>| text.as_ref().map(|text| text.get(app.lang).to_owned());
    let tools: Vec<String> = (app.tools_of(tenant).iter())
        .filter(|tool| tool.spec().provider.as_deref() == Some(&provider.name))
        .map(|tool| tool.name().to_string())
        .collect();
    let fields: Vec<Value> =
        provider.credentials.iter().map(|field| show_field(field, app.lang)).collect();
    json!({
        "name": provider.name,
        "label": own(&provider.label),
        "description": own(&provider.description),
        "author": provider.author,
        "icon": provider.icon,
        "tags": provider.tags,
        "credentials_schema": fields,
        "credentials_check": provider.check.as_ref().map(|check| &check.tool),
        "tools": tools,
    })
}

fn show_field(field: &CredentialField, lang: Lang) -> Value {
    let own = |text: &Option<Text>| text.as_ref().map(|text| text.get(lang).to_owned());
    json!({
        "name": field.name,
        "label": own(&field.label),
        "type": field.kind,
        "required": field.required,
        "default": field.default,
        "help": own(&field.help),
        "url": field.url,
        "placeholder": own(&field.placeholder),
        "options": field.options,
    })
}

async fn list(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    QueryString(page): QueryString<PageQuery<TextCursor>>,
) -> Result<Response, Problem> {
    let providers = app.engine.providers().list_for(&who.tenant);
    let page = page.cut(providers, |provider| provider.name.clone());
    let shown: Vec<Value> =
        page.items.iter().map(|provider| show(&app, &who.tenant, provider)).collect();
    Ok(view::ok(&json!({"providers": shown, "next": page.next})))
}

async fn get(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(name): PathName,
) -> Result<Response, Problem> {
    let provider = app.provider(&who.tenant, &name)?;
    Ok(view::ok(&show(&app, &who.tenant, &provider)))
}

impl App {
    /// Whether a tenant, and whoever made the source, may have so many tools from
    /// it.
    pub(crate) async fn allow_tools(
        &self,
        (tenant, owner): (&TenantId, Option<&str>),
        source: &str,
        wanted: usize,
    ) -> Result<(), Problem> {
        let all = self.tools_made(tenant, None, Some(source)).await? + wanted;
        self.quotas.allow_tools(QuotaHolder::Tenant(tenant), all)?;
        // A key uses at most what its tenant uses, so the tenant's count often decides.
        let Some(owner) = owner else { return Ok(()) };
        let key = QuotaHolder::Key { tenant, key: owner };
        if self.quotas.allow_tools(key, all).is_err() {
            let own = self.tools_made(tenant, Some(owner), Some(source)).await? + wanted;
            self.quotas.allow_tools(key, own)?;
        }
        Ok(())
    }

    /// How many tools a tenant has, or a key of it has made, but for those of one
    /// source.
    pub(crate) async fn tools_made(
        &self,
        tenant: &TenantId,
        key: Option<&str>,
        but: Option<&str>,
    ) -> Result<usize, Problem> {
        let mut tools = self.engine.registry().owned_by(tenant);
        tools.retain(|tool| but.is_none_or(|but| **tool.source() != *but));
        if let Some(key) = key {
            let own = self.documents.owned_by(own_tools::SPACE, tenant, key).await?;
            let own: HashSet<String> = own.iter().map(|name| own_tools::source(name)).collect();
            let providers = self.documents.owned_by(SPACE, tenant, key).await?;
            let providers: HashSet<String> = providers.into_iter().collect();
            tools.retain(|tool| {
                let provider = tool.spec().provider.as_ref();
                own.contains(&**tool.source())
                    || provider.is_some_and(|provider| providers.contains(&**provider))
            });
        }
        Ok(tools.len())
    }

    /// A provider that a tenant sees.
    pub(crate) fn provider(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Arc<ProviderSpec>, Problem> {
        let found = self.engine.providers().get_for(tenant, name);
        found.ok_or_else(|| Problem::not_found("provider"))
    }
}

async fn create(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    ProviderUpload(body): ProviderUpload,
) -> Result<Response, Problem> {
    let text = match body.text()? {
        ProviderRequest::Definition(text) => text,
        ProviderRequest::Document(wanted) => return imports::create(&app, &who, wanted).await,
    };
    let parsed = definitions::check(&app, &who.tenant, text.clone()).await?.usable()?;
    let [provider] = parsed.providers.as_slice() else {
        let why = format!("there are {} providers in it", parsed.providers.len());
        return Err(Problem::bad("one provider at a time").at("/definition", why));
    };
    let name = provider.name.clone();
    let _turn = app.quotas.making(&who.tenant, NewResource::Tools).await;
    let whose = (&who.tenant, Some(&*who.key_id));
    app.allow_tools(whose, &source(&name), parsed.tools.len()).await?;
    let transport = provider.mcp.as_ref().map(|server| &server.transport);
    if let Some(short) = transport.and_then(short_secret) {
        let why = format!(
            "the value of `{short}` is a secret and has fewer than {} characters",
            Secret::MIN_CHARS
        );
        return Err(Problem::bad("a secret is too short to be hidden").at("/definition", why));
    }
    let is_secret = transport.is_some_and(has_secrets);
    let kept = app.credentials.keep_definition(&who.tenant, &name, &text, is_secret).await?;
    let owner = Some(who.key_id.to_string());
    let put = Put { owner, ..Put::new(SPACE, who.tenant.clone(), name.clone(), kept) };
    if app.documents.put(put, Expect::Absent).await?.is_none() {
        return Err(Problem::conflict(format!("the provider `{name}` is there already"))
            .hint("delete it first"));
    }
    if let Err(problem) = load(&app, &who.tenant, &name, &text) {
        app.documents.delete(SPACE, &who.tenant, &name, Expect::Anything).await?;
        unload(&app, &who.tenant, &name);
        return Err(problem);
    }
    let provider = app.provider(&who.tenant, &name)?;
    Ok(view::with_status(StatusCode::CREATED, &show(&app, &who.tenant, &provider)))
}

async fn delete(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(name): PathName,
    QueryString(query): QueryString<DeleteQuery>,
) -> Result<Response, Problem> {
    if app.documents.delete(SPACE, &who.tenant, &name, Expect::Anything).await? {
        unload(&app, &who.tenant, &name);
        if query.credentials == DeletedCredentials::Remove {
            app.credentials.delete_all(&who.tenant, &name).await?;
        }
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    app.provider(&who.tenant, &name)?;
    Err(Problem::conflict(format!("`{name}` comes from a file or from this program"))
        .hint("only the tenant's own providers can be deleted here"))
}

pub(crate) fn source(name: &str) -> String {
    format!("api/providers/{name}")
}

fn load(app: &App, tenant: &TenantId, name: &str, text: &str) -> Result<(), Problem> {
    definitions::load(app, tenant, &source(name), text)
}

fn unload(app: &App, tenant: &TenantId, name: &str) {
    app.engine.unload_for(tenant, &source(name));
}

/// Makes a provider what is kept of it.
pub(crate) fn restore(app: &App, tenant: &TenantId, name: &str, kept: Option<Document>) {
    let text = kept.as_ref().and_then(|kept| kept.body["definition"].as_str()).map(str::to_owned);
    if let Some(imported) = kept.and_then(ImportedProvider::take) {
        match imported.map(|kept| imports::load(app, tenant, name, kept)) {
            Ok(errors) => errors.iter().for_each(|error| {
                let why = &error.message;
                tracing::error!(%tenant, provider = name, %why, "a kept tool cannot be loaded");
            }),
            Err(why) => {
                tracing::error!(%tenant, provider = name, %why, "a kept import cannot be loaded");
            }
        }
        return;
    }
    match text {
        Some(text) => {
            if let Err(problem) = load(app, tenant, name, &text) {
                let why = problem.detail();
                tracing::error!(%tenant, provider = name, why, "a kept definition cannot be loaded");
            }
        }
        None => unload(app, tenant, name),
    }
}
