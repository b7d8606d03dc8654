//! Credentials of providers: stored encrypted, shown masked, validated on request.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::definition::ProviderSpec;
use windlass::{
    CallRequest, Caller, CallerType, Context, ErrorKind, Secret, TenantId, Tool, Violation,
};
use windlass_executors::rest::needs_credential;

use super::page::{Limit, PageQuery, TextCursor};
use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape;
use crate::http::front::extract::{Authenticated, PathName, QueryString, SecretBody};
use crate::http::front::problem::Problem;
use crate::human::approvals::Unattended;
use crate::state::identity::Permission;
use crate::state::vault::{
    CredentialChange, CredentialFilter, CredentialRequest, FieldValue, MaskedCredential, Validation,
};

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/v1/credentials", "list_credentials", list)
            .may(Permission::ReadCredentials, "List credentials; secrets are masked")
            .query::<CredentialsQuery>()
            .answer::<CredentialsDoc>(200, "The credentials"),
        RouteSpec::post("/v1/providers/{name}/credentials", "store_credential", store)
            .may(Permission::WriteCredentials, "Store a credential for a provider")
            .details("A provider may have several credentials with different names, of the tenant or of one user.")
            .body::<StoreBody>()
            .example(|| json!({"name": "work", "values": {"api_key": "sk-12345678"}}))
            .answer::<CredentialDoc>(201, "The credential, masked"),
        RouteSpec::get("/v1/credentials/{credential_id}", "get_credential", get)
            .may(Permission::ReadCredentials, "Get a credential; secrets are masked")
            .answer::<CredentialDoc>(200, "The credential, masked"),
        RouteSpec::put("/v1/credentials/{credential_id}", "rotate_credential", rotate)
            .may(Permission::WriteCredentials, "Change a credential: its values, its name, or whether it is the default")
            .details("A masked value that is sent back unchanged keeps the stored one.")
            .body::<RotateBody>()
            .example(|| json!({"values": {"api_key": "sk-87654321"}, "default": true}))
            .answer::<CredentialDoc>(200, "The credential, masked"),
        RouteSpec::delete("/v1/credentials/{credential_id}", "delete_credential", delete)
            .may(Permission::WriteCredentials, "Delete a credential")
            .answer_as(204, "Deleted", "", None),
        RouteSpec::post(
            "/v1/credentials/{credential_id}/validate",
            "validate_credential",
            try_kept,
        )
        .may(Permission::WriteCredentials, "Validate a stored credential with its provider")
        .details(TRIED)
        .answer::<ValidationDoc>(200, "The result of the validation")
        .problem(424, UNTESTED),
        RouteSpec::post("/v1/providers/{name}/credentials/validate", "validate_values", try_values)
            .may(Permission::WriteCredentials, "Validate values without storing them")
            .details(TRIED)
            .body::<ValuesBody>()
            .example(|| json!({"values": {"api_key": "sk-12345678"}}))
            .answer::<ValidationDoc>(200, "The result of the validation")
            .problem(424, UNTESTED),
    ]
}

const TRIED: &str = "By the provider's own check (`credentials_check`); else by its first tool that \
                     only looks, needs a credential and no arguments; else by the form of the \
                     values alone. \
                     `method` says which. What the provider refuses is a 400 with the code \
                     `credential_invalid`, and the same facts in `result`. Where it could not be \
                     asked, nothing is known: the code is `credential_untested`, with the status \
                     503 if it may be asked later and 424 if not.";
const UNTESTED: &str = "Whether it does could not be found out: the provider was not asked";

/// Filters of the list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CredentialsQuery {
    /// Of this provider.
    provider: Option<String>,
    /// Of this user.
    user_id: Option<String>,
    /// Maximum number of items; 100 by default.
    limit: Option<Limit>,
    /// The cursor: the `next` of the previous page.
    cursor: Option<TextCursor>,
}

/// A page of credentials.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CredentialPage")]
struct CredentialsDoc {
    credentials: Vec<CredentialDoc>,
    /// The cursor of the next page; none on the last page.
    next: Option<String>,
}

/// A credential; secrets are masked.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Credential")]
struct CredentialDoc {
    id: String,
    /// The tenant.
    tenant: String,
    provider: String,
    name: String,
    /// The user that it belongs to; the tenant's if missing.
    user: Option<String>,
    /// The values; secrets are masked.
    fields: BTreeMap<String, Value>,
    #[schemars(schema_with = "shape::time")]
    created_at: String,
    #[schemars(schema_with = "shape::time")]
    updated_at: String,
    /// When a call last used it, accurate to a minute.
    #[schemars(schema_with = "shape::maybe_time")]
    last_used_at: Option<String>,
    /// When it was made the default; the latest one is in effect.
    #[schemars(schema_with = "shape::maybe_time")]
    default_since: Option<String>,
    validation: TriedDoc,
}

/// The result of the last validation.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
#[schemars(rename = "CredentialState")]
#[expect(dead_code, reason = "it only describes what the vault writes")]
enum TriedDoc {
    /// These values were not validated yet.
    Unknown,
    /// It was accepted.
    Valid {
        #[schemars(schema_with = "shape::time")]
        at: String,
        /// How it was validated.
        by: String,
    },
    /// It was rejected.
    Invalid {
        #[schemars(schema_with = "shape::time")]
        at: String,
        by: String,
        /// Why.
        why: String,
    },
}

async fn list(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    QueryString(query): QueryString<CredentialsQuery>,
) -> Result<Response, Problem> {
    let filter =
        CredentialFilter { provider: query.provider.as_deref(), user: query.user_id.as_deref() };
    let credentials = app.credentials.list(&who.tenant, filter).await?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let page = page.cut(credentials, |credential| credential.id.clone());
    Ok(view::ok(&json!({"credentials": page.items, "next": page.next})))
}

/// A credential to store.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StoreBody {
    /// A display name.
    #[serde(default = "default_name")]
    name: String,
    /// The user that it belongs to; the tenant's if missing.
    #[serde(default)]
    user_id: Option<String>,
    /// The values by field: strings or booleans.
    values: BTreeMap<String, Value>,
}

fn default_name() -> String {
    "default".to_owned()
}

/// The values of a form. What they were read from is wiped with them.
fn given(values: BTreeMap<String, Value>) -> Result<Vec<(String, FieldValue)>, Problem> {
    let read = |(name, value): (String, Value)| {
        let given = match value {
            Value::String(text) => FieldValue::Text(Secret::new(text)),
            Value::Number(number) => FieldValue::Text(Secret::new(number.to_string())),
            Value::Bool(flag) => FieldValue::Flag(flag),
            Value::Null => FieldValue::Nothing,
            _ => {
                let why = "a text, a number, true or false";
                return Err(Problem::bad("a value is wrong").at(format!("/values/{name}"), why));
            }
        };
        Ok((name, given))
    };
    values.into_iter().map(read).collect()
}

async fn store(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(provider): PathName,
    SecretBody(body): SecretBody<StoreBody>,
) -> Result<Response, Problem> {
    let provider = app.provider(&who.tenant, &provider)?;
    let request =
        CredentialRequest { name: body.name, user: body.user_id, values: given(body.values)? };
    let owner = Some(&*who.key_id);
    let stored =
        app.credentials.store_as(owner, &who.tenant, &provider, request).await.map_err(named)?;
    Ok(view::with_status(StatusCode::CREATED, &stored))
}

/// What is wrong with values is the request's fault, not a credential's.
fn named(error: windlass::Error) -> Problem {
    match error.kind() {
        ErrorKind::AlreadyRegistered => Problem::conflict(error.message()),
        ErrorKind::CredentialInvalid => Problem::bad(error.message().to_owned()),
        ErrorKind::InvalidArguments => unfit(&error),
        _ => error.into(),
    }
}

/// Values that are not what the provider asks for, each with its place.
fn unfit(error: &windlass::Error) -> Problem {
    if error.violations().is_empty() {
        return Problem::bad(error.message());
    }
    let problem = Problem::bad("the values are not what the provider asks for")
        .hint("its `credentials_schema` has all fields: GET /v1/providers/{name}");
    error.violations().iter().fold(problem, |problem, Violation { path, expected, got }| {
        problem.at(format!("/values{path}"), format!("expected {expected}, got {got}"))
    })
}

/// A credential that does not exist, or is another tenant's.
fn missing(error: windlass::Error) -> Problem {
    match error.kind() {
        ErrorKind::StorageUnavailable | ErrorKind::Internal => error.into(),
        _ => Problem::not_found("credential"),
    }
}

async fn find(app: &App, tenant: &TenantId, id: &str) -> Result<MaskedCredential, Problem> {
    app.credentials.get(tenant, id).await.map_err(missing)
}

async fn get(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(id): PathName,
) -> Result<Response, Problem> {
    Ok(view::ok(&find(&app, &who.tenant, &id).await?))
}

/// The changes of a credential.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RotateBody {
    /// Values by field, which replace the stored ones.
    #[serde(default)]
    values: Option<BTreeMap<String, Value>>,
    /// A display name.
    #[serde(default)]
    name: Option<String>,
    /// Makes it the default for calls that name none.
    #[serde(default)]
    default: bool,
}

async fn rotate(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(id): PathName,
    SecretBody(body): SecretBody<RotateBody>,
) -> Result<Response, Problem> {
    let credential = find(&app, &who.tenant, &id).await?;
    let provider = app.provider(&who.tenant, &credential.provider)?;
    let values = body.values.map(given).transpose()?;
    let change = CredentialChange { values, name: body.name, is_default: body.default };
    let changed = app.credentials.update(&who.tenant, &provider, &id, change).await;
    Ok(view::ok(&changed.map_err(named)?))
}

async fn delete(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(id): PathName,
) -> Result<Response, Problem> {
    find(&app, &who.tenant, &id).await?;
    app.credentials.delete(&who.tenant, &id).await.map_err(missing)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The result of validating a credential.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Validation")]
struct ValidationDoc {
    /// Whether the provider accepts it, as far as can be known.
    valid: bool,
    method: Method,
    /// The tool that was called.
    tool: Option<String>,
    /// Why not, in words that hold no secret.
    reason: Option<String>,
}

/// How it was validated.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ValidationMethod")]
enum Method {
    /// By the check that the provider's definition names.
    Provider,
    /// By a call of its first read-only tool.
    Tool,
    /// By the format of the values alone.
    Format,
}

impl ValidationDoc {
    fn refused(method: Method, reason: String) -> Self {
        Self { valid: false, method, tool: None, reason: Some(reason) }
    }

    fn answer(self) -> Result<Response, Problem> {
        match &self.reason {
            None => Ok(view::ok(&self)),
            Some(reason) => {
                let status = StatusCode::BAD_REQUEST;
                let problem = Problem::new(status, "credential_invalid", reason.as_str());
                Err(problem.hint("correct the values and try again").result(json!(self)))
            }
        }
    }
}

async fn try_kept(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(id): PathName,
) -> Result<Response, Problem> {
    let credential = find(&app, &who.tenant, &id).await?;
    let provider = app.provider(&who.tenant, &credential.provider)?;
    let tried = Trial { app: &app, tenant: &who.tenant, provider: &provider };
    let caller = Caller { user: credential.user.as_deref().map(Into::into), ..tried.caller() };
    let context = Context::new(caller);
    let complete =
        |request: CallRequest| request.context(context.clone()).credential(credential.name.clone());
    let outcome = tried.run(complete).await?;
    let at = Timestamp::now();
    let by = outcome.tool.clone().unwrap_or_else(|| "format".to_owned());
    let validation = match &outcome.reason {
        None => Validation::Valid { at, by },
        Some(why) => Validation::Invalid { at, by, why: why.clone() },
    };
    app.credentials.note_validation(&who.tenant, &id, validation).await?;
    outcome.answer()
}

/// Values to validate.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ValuesBody {
    /// The values by field.
    values: BTreeMap<String, Value>,
}

async fn try_values(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(provider): PathName,
    SecretBody(body): SecretBody<ValuesBody>,
) -> Result<Response, Problem> {
    let provider = app.provider(&who.tenant, &provider)?;
    let tried = Trial { app: &app, tenant: &who.tenant, provider: &provider };
    let values = match app.credentials.try_values(&provider, &given(body.values)?) {
        Ok(values) => values,
        Err(error) => {
            let refused = ValidationDoc::refused(Method::Format, error.message().to_owned());
            let faults = unfit(&error);
            return refused.answer().map_err(|problem| problem.with_faults(faults));
        }
    };
    let context = values
        .into_iter()
        .fold(Context::new(tried.caller()), |context, (name, value)| context.secret(&name, value));
    tried.run(|request| request.context(context.clone())).await?.answer()
}

/// Validates a credential with its provider.
struct Trial<'a> {
    app: &'a App,
    tenant: &'a TenantId,
    provider: &'a ProviderSpec,
}

impl Trial<'_> {
    fn caller(&self) -> Caller {
        Caller {
            tenant: self.tenant.clone(),
            caller_id: Some("credential validation".into()),
            caller_type: CallerType::Direct,
            ..Caller::default()
        }
    }

    /// The call that shows it: the provider's own check, or its first tool that
    /// only looks, needs no arguments and does not let everybody in.
    fn call(&self) -> Option<(Method, CallRequest)> {
        if let Some(check) = &self.provider.check {
            let arguments = Value::Object(check.arguments.clone());
            return Some((Method::Provider, CallRequest::new(check.tool.as_str(), arguments)));
        }
        let fits = |tool: &Arc<Tool>| {
            let spec = tool.spec();
            let required = tool.model_schema()["required"].as_array();
            spec.provider.as_deref() == Some(&self.provider.name)
                && spec.behaviour.read_only
                && required.is_none_or(Vec::is_empty)
                && needs_credential(spec)
        };
        let tool = self.app.tools_of(self.tenant).into_iter().find(fits)?;
        Some((Method::Tool, CallRequest::new(tool.name().as_str(), json!({}))))
    }

    /// What the provider says. Only a refusal of its own is about the
    /// credential: whatever else goes wrong tells nothing.
    async fn run(
        &self,
        complete: impl Fn(CallRequest) -> CallRequest,
    ) -> Result<ValidationDoc, Problem> {
        let Some((method, request)) = self.call() else {
            let method = Method::Format;
            return Ok(ValidationDoc { valid: true, method, tool: None, reason: None });
        };
        let result = self.app.engine.call(complete(request).object(Unattended)).await;
        let tool = Some(result.tool_name.to_string());
        let reason = match result.error() {
            None => None,
            Some(error) if is_refusal(error.kind()) => Some(error.message().to_owned()),
            Some(error) => return Err(untested(&result.tool_name, error)),
        };
        Ok(ValidationDoc { valid: reason.is_none(), method, tool, reason })
    }
}

fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::CredentialInvalid | ErrorKind::AuthorizationRequired)
}

fn untested(tool: &str, error: &windlass::Error) -> Problem {
    let (status, hint) = match error.kind().info().retryable {
        true => (StatusCode::SERVICE_UNAVAILABLE, "try again later"),
        false => (StatusCode::FAILED_DEPENDENCY, "look at the tool that tries it, and its rules"),
    };
    let why = format!("the credential could not be tried with `{tool}`: {}", error.message());
    Problem::new(status, "credential_untested", why).hint(hint).retry_after(error.retry_after())
}
