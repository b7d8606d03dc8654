//! Credentials of providers: stored sealed, shown masked, tried out.

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
use windlass::{CallRequest, Caller, CallerType, Context, ErrorKind, Secret, TenantId, Tool};

use super::app::App;
use super::extract::{Body, Name, Query, Who};
use super::operation::Operation;
use super::problem::Problem;
use super::view;
use crate::identity::Action;
use crate::vault::{Credential, CredentialRequest, Filter, Given, Validation};

pub(crate) fn rows() -> Vec<Operation> {
    vec![
        Operation::get("/v1/credentials", "list_credentials", list)
            .may(Action::ReadCredentials, "List credentials; secrets are masked")
            .query::<ListQuery>()
            .answer::<CredentialsDoc>(200, "The credentials"),
        Operation::post("/v1/providers/{name}/credentials", "store_credential", store)
            .may(Action::WriteCredentials, "Store a credential for a provider")
            .details("Several may have names of their own, for the tenant or for one user.")
            .body::<StoreBody>()
            .answer::<CredentialDoc>(201, "The credential, masked"),
        Operation::get("/v1/credentials/{credential_id}", "get_credential", get)
            .may(Action::ReadCredentials, "Get a credential; secrets are masked")
            .answer::<CredentialDoc>(200, "The credential, masked"),
        Operation::put("/v1/credentials/{credential_id}", "rotate_credential", rotate)
            .may(Action::WriteCredentials, "Change a credential: its values, name or rank")
            .details("A masked value that comes back from a form leaves the real one as it is.")
            .body::<RotateBody>()
            .answer::<CredentialDoc>(200, "The credential, masked"),
        Operation::delete("/v1/credentials/{credential_id}", "delete_credential", delete)
            .may(Action::WriteCredentials, "Delete a credential")
            .answer_as(204, "It is gone", "", None),
        Operation::post(
            "/v1/credentials/{credential_id}/validate",
            "validate_credential",
            try_kept,
        )
        .may(Action::WriteCredentials, "Find out whether the provider takes a credential")
        .answer::<ValidationDoc>(200, "Whether it does, and how that was found out"),
        Operation::post("/v1/providers/{name}/credentials/validate", "validate_values", try_values)
            .may(Action::WriteCredentials, "Try values without storing them")
            .body::<ValuesBody>()
            .answer::<ValidationDoc>(200, "Whether they are taken, and how that was found out"),
    ]
}

/// Which credentials.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Of this provider.
    provider: Option<String>,
    /// Of this user.
    user_id: Option<String>,
}

/// Credentials.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Credentials")]
struct CredentialsDoc {
    credentials: Vec<CredentialDoc>,
}

/// A credential; secrets are masked.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Credential")]
struct CredentialDoc {
    id: String,
    provider: String,
    name: String,
    /// Whose it is; the tenant's where it is nobody's.
    user: Option<String>,
    /// The values; secrets are masked.
    fields: BTreeMap<String, Value>,
    /// What else is known of it.
    #[serde(flatten)]
    more: serde_json::Map<String, Value>,
}

async fn list(
    State(app): State<Arc<App>>,
    Who(who): Who,
    Query(query): Query<ListQuery>,
) -> Result<Response, Problem> {
    let filter = Filter { provider: query.provider.as_deref(), user: query.user_id.as_deref() };
    let credentials = app.credentials.list(&who.tenant, filter).await?;
    Ok(view::ok(&json!({"credentials": credentials})))
}

/// A credential to be stored.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StoreBody {
    /// What people call it.
    #[serde(default = "default_name")]
    name: String,
    /// Whose it is; the tenant's where nobody is named.
    #[serde(default)]
    user_id: Option<String>,
    /// The values by field: texts, or true and false.
    values: BTreeMap<String, Value>,
}

fn default_name() -> String {
    "default".to_owned()
}

/// The values of a form. What they were read from is wiped with them.
fn given(values: BTreeMap<String, Value>) -> Result<Vec<(String, Given)>, Problem> {
    let read = |(name, value): (String, Value)| {
        let given = match value {
            Value::String(text) => Given::Text(Secret::new(text)),
            Value::Number(number) => Given::Text(Secret::new(number.to_string())),
            Value::Bool(flag) => Given::Flag(flag),
            Value::Null => Given::Nothing,
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
    Who(who): Who,
    Name(provider): Name,
    Body(body): Body<StoreBody>,
) -> Result<Response, Problem> {
    let provider = app.provider(&who.tenant, &provider)?;
    let request =
        CredentialRequest { name: body.name, user: body.user_id, values: given(body.values)? };
    let stored = app.credentials.store(&who.tenant, &provider, request).await.map_err(named)?;
    Ok(view::with_status(StatusCode::CREATED, &stored))
}

/// What is wrong with values is the request's fault, not a credential's.
fn named(error: windlass::Error) -> Problem {
    match error.kind() {
        ErrorKind::AlreadyRegistered => Problem::conflict(error.message()),
        ErrorKind::InvalidArguments | ErrorKind::CredentialInvalid => {
            Problem::bad(error.message().to_owned())
        }
        _ => error.into(),
    }
}

/// A credential that does not exist, or is another tenant's.
fn missing(error: windlass::Error) -> Problem {
    match error.kind() {
        ErrorKind::StorageUnavailable | ErrorKind::Internal => error.into(),
        _ => Problem::not_found("credential"),
    }
}

async fn find(app: &App, tenant: &TenantId, id: &str) -> Result<Credential, Problem> {
    app.credentials.get(tenant, id).await.map_err(missing)
}

async fn get(
    State(app): State<Arc<App>>,
    Who(who): Who,
    Name(id): Name,
) -> Result<Response, Problem> {
    Ok(view::ok(&find(&app, &who.tenant, &id).await?))
}

/// What is to be changed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RotateBody {
    /// Values by field, in place of those that there are.
    #[serde(default)]
    values: Option<BTreeMap<String, Value>>,
    /// What people call it.
    #[serde(default)]
    name: Option<String>,
    /// Makes it the one that calls use if they name none.
    #[serde(default)]
    default: bool,
}

async fn rotate(
    State(app): State<Arc<App>>,
    Who(who): Who,
    Name(id): Name,
    Body(body): Body<RotateBody>,
) -> Result<Response, Problem> {
    let mut credential = find(&app, &who.tenant, &id).await?;
    let provider = app.provider(&who.tenant, &credential.provider)?;
    if let Some(values) = body.values {
        let values = given(values)?;
        let rotated = app.credentials.rotate(&who.tenant, &provider, &id, values).await;
        credential = rotated.map_err(named)?;
    }
    if let Some(name) = body.name {
        credential = app.credentials.rename(&who.tenant, &id, &name).await.map_err(named)?;
    }
    if body.default {
        credential = app.credentials.make_default(&who.tenant, &id).await?;
    }
    Ok(view::ok(&credential))
}

async fn delete(
    State(app): State<Arc<App>>,
    Who(who): Who,
    Name(id): Name,
) -> Result<Response, Problem> {
    find(&app, &who.tenant, &id).await?;
    app.credentials.delete(&who.tenant, &id).await.map_err(missing)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Whether a provider takes a credential.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Validation")]
struct ValidationDoc {
    /// Whether it does, as far as could be found out.
    valid: bool,
    /// How that was found out: `tool` (one was called) or `format` (only the
    /// form of the values was looked at).
    method: &'static str,
    /// The tool that was called.
    tool: Option<String>,
    /// Why not, in words that hold no secret.
    reason: Option<String>,
}

async fn try_kept(
    State(app): State<Arc<App>>,
    Who(who): Who,
    Name(id): Name,
) -> Result<Response, Problem> {
    let credential = find(&app, &who.tenant, &id).await?;
    let provider = app.provider(&who.tenant, &credential.provider)?;
    let tried = Trial { app: &app, tenant: &who.tenant, provider: &provider };
    let caller = Caller { user: credential.user.as_deref().map(Into::into), ..tried.caller() };
    let request = |tool: &Tool| {
        CallRequest::new(tool.name().as_str(), json!({}))
            .context(Context::new(caller.clone()))
            .credential(credential.name.clone())
    };
    let outcome = tried.run(request).await;
    let at = Timestamp::now();
    let by = outcome.tool.clone().unwrap_or_else(|| outcome.method.to_owned());
    let validation = match &outcome.reason {
        None => Validation::Valid { at, by },
        Some(why) => Validation::Invalid { at, by, why: why.clone() },
    };
    app.credentials.note_validation(&who.tenant, &id, validation).await?;
    Ok(view::ok(&outcome))
}

/// Values to be tried.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ValuesBody {
    /// The values by field.
    values: BTreeMap<String, Value>,
}

async fn try_values(
    State(app): State<Arc<App>>,
    Who(who): Who,
    Name(provider): Name,
    Body(body): Body<ValuesBody>,
) -> Result<Response, Problem> {
    let provider = app.provider(&who.tenant, &provider)?;
    let tried = Trial { app: &app, tenant: &who.tenant, provider: &provider };
    if let Some(reason) = tried.flaw(&body.values) {
        let outcome =
            ValidationDoc { valid: false, method: "format", tool: None, reason: Some(reason) };
        return Ok(view::ok(&outcome));
    }
    let values = given(body.values)?;
    let request = |tool: &Tool| {
        let context =
            values.iter().fold(
                Context::new(tried.caller()),
                |context, (name, value)| match value {
                    Given::Text(secret) => context.secret(name, secret.clone()),
                    Given::Flag(flag) => context.secret(name, flag.to_string()),
                    Given::Nothing | Given::Other(_) => context,
                },
            );
        CallRequest::new(tool.name().as_str(), json!({})).context(context)
    };
    Ok(view::ok(&tried.run(request).await))
}

/// Finds out whether a provider takes a credential.
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

    /// What is wrong with the form of values.
    fn flaw(&self, values: &BTreeMap<String, Value>) -> Option<String> {
        let known =
            |name: &String| self.provider.credentials.iter().any(|field| field.name == *name);
        if let Some(unknown) = values.keys().find(|name| !known(name)) {
            return Some(format!("the provider has no field `{unknown}`"));
        }
        let is_there = |name: &str| {
            values.get(name).is_some_and(|value| !value.is_null() && *value != json!(""))
        };
        let missing = self
            .provider
            .credentials
            .iter()
            .find(|field| field.required && field.default.is_none() && !is_there(&field.name));
        missing.map(|field| format!("the field `{}` is missing", field.name))
    }

    /// The provider's first tool that only looks and needs no arguments.
    fn tool(&self) -> Option<Arc<Tool>> {
        let fits = |tool: &Arc<Tool>| {
            let spec = tool.spec();
            let required = tool.model_schema()["required"].as_array();
            spec.provider.as_deref() == Some(&self.provider.name)
                && spec.behaviour.read_only
                && required.is_none_or(Vec::is_empty)
        };
        self.app.tools_of(self.tenant).into_iter().find(fits)
    }

    async fn run(&self, request: impl Fn(&Tool) -> CallRequest) -> ValidationDoc {
        let Some(tool) = self.tool() else {
            return ValidationDoc { valid: true, method: "format", tool: None, reason: None };
        };
        let result = self.app.engine.call(request(&tool)).await;
        let reason = result.error().map(|error| error.message().to_owned());
        ValidationDoc {
            valid: reason.is_none(),
            method: "tool",
            tool: Some(tool.name().to_string()),
            reason,
        }
    }
}
