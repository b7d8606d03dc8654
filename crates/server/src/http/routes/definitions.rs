//! Validates definitions that clients send, in the same way for a dry run and for
//! registration.
//!
//! A valid definition may still ask for too much. Local programs and files of the
//! server's machine are reserved to whoever runs the installation, which a tenant's
//! operator need not be: a program that the server starts could read the master key.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass::definition::{
    self, Definition, DefinitionLimits, LoadError, McpTransport, Parsed, ProviderSpec, ResourceBody,
};
use windlass::{Engine, Error, TenantId};
use windlass_executors::sql;

use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::front::extract::{Authenticated, JsonBody};
use crate::http::front::problem::Problem;
use crate::state::identity::Permission;

const COMMANDS: &str = "only the operator of the installation may add commands; add it as a file, \
                        or give a `url`";
const FILES: &str = "only the operator of the installation may name files; send what is in them";
const DATABASES: &str = "a tenant's own tool cannot use the operator's databases; leave \
                         `entry.database` out, and store a credential of the provider `database`";

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::post("/v1/definitions/validate", "validate_definition", validate)
            .may(Permission::ReadTools, "Validate a tool definition without storing it")
            .details(
                "YAML or JSON, in any of the forms that definition files have. The errors are \
                 those that registering it would return.",
            )
            .body::<DefinitionBody>()
            .example(example)
            .answer::<CheckedDoc>(200, "The parsed tools, and the errors"),
    ]
}

/// A definition.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefinitionBody {
    pub(crate) definition: DefinitionText,
}

/// YAML or JSON, in any of the forms that definition files have; or the same as
/// an object.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Definition")]
pub(crate) enum DefinitionText {
    /// YAML or JSON.
    Text(String),
    /// The same as an object.
    Object(Map<String, Value>),
}

/// A tool that can be registered anywhere.
pub(crate) fn example() -> Value {
    json!({"definition": {
        "name": "greet",
        "description": "Repeats a greeting.",
        "parameters": [{"name": "message", "type": "string", "required": true}],
        "entry": {"type": "builtin", "handler": "echo"},
    }})
}

impl DefinitionBody {
    pub(crate) fn text(&self) -> String {
        match &self.definition {
            DefinitionText::Text(text) => text.clone(),
            DefinitionText::Object(object) => json!(object).to_string(),
        }
    }
}

/// What was found in a definition.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CheckedDefinition")]
pub(crate) struct CheckedDoc {
    /// Whether it could be used as it is.
    valid: bool,
    /// The tools in it.
    tools: Vec<String>,
    /// The providers in it.
    providers: Vec<String>,
    /// What is wrong.
    errors: Vec<Flaw>,
}

/// An error of a definition.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Flaw {
    line: u32,
    column: u32,
    message: String,
}

impl Flaw {
    fn of(error: &LoadError) -> Self {
        Self { line: error.line, column: error.column, message: error.message.clone() }
    }

    fn in_tool(found: &Definition, message: &str) -> Self {
        Self { line: found.line, column: found.column, message: message.to_owned() }
    }
}

async fn validate(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    JsonBody(body): JsonBody<DefinitionBody>,
) -> Result<Response, Problem> {
    let CheckedDefinition { parsed, overreach, mut flaws } =
        check(&app, &who.tenant, body.text()).await?;
    let whole = |why: &str| Flaw { line: 1, column: 1, message: why.to_owned() };
    flaws.extend(overreach.map(whole));
    Ok(view::ok(&CheckedDoc {
        valid: flaws.is_empty(),
        tools: parsed.tools.iter().map(|found| found.spec.name.to_string()).collect(),
        providers: parsed.providers.into_iter().map(|provider| provider.name).collect(),
        errors: flaws,
    }))
}

/// A definition that was read.
pub(crate) struct CheckedDefinition {
    parsed: Parsed,
    /// Why this tenant may not use it, however well it is written.
    overreach: Option<&'static str>,
    flaws: Vec<Flaw>,
}

/// Reads a definition as far as it would be read to be kept: also what runs it
/// has to be here, and its schemas have to compile.
pub(crate) async fn check(
    app: &Arc<App>,
    tenant: &TenantId,
    text: String,
) -> Result<CheckedDefinition, Error> {
    let (app, own) = (Arc::clone(app), tenant.clone());
    windlass::native::run_blocking(tenant, move || {
        match definition::parse_all("definition", &text, &DefinitionLimits::default()) {
            Ok(parsed) => Ok(CheckedDefinition {
                overreach: overreach(&app, &own, &parsed),
                flaws: flaws(&parsed.tools, &app.engine)?,
                parsed,
            }),
            Err(errors) => Ok(CheckedDefinition {
                parsed: Parsed::default(),
                overreach: None,
                flaws: errors.iter().map(Flaw::of).collect(),
            }),
        }
    })
    .await
}

impl CheckedDefinition {
    /// What is in it, if it can be used.
    pub(crate) fn usable(self) -> Result<Parsed, Problem> {
        if let Some(why) = self.overreach {
            return Err(forbidden(why));
        }
        if self.flaws.is_empty() {
            return Ok(self.parsed);
        }
        let refused = Problem::bad("the definition cannot be used");
        Err(self.flaws.iter().fold(refused, |problem, Flaw { line, column, message }| {
            problem.at("/definition", format!("{line}:{column}: {message}"))
        }))
    }
}

fn flaws(tools: &[Definition], server: &Engine) -> Result<Vec<Flaw>, Error> {
    let scratch = Engine::builder().build()?;
    let mut flaws = Vec::new();
    for found in tools {
        let built = server
            .executor_for(&found.spec)
            .and_then(|executor| scratch.registry().register(found.clone().builder(executor)));
        flaws.extend(built.err().map(|error| Flaw::in_tool(found, error.message())));
        if sql::names_database(&found.spec) {
            flaws.push(Flaw::in_tool(found, DATABASES));
        }
    }
    Ok(flaws)
}

/// Makes a definition what a tenant has from this source.
pub(crate) fn load(app: &App, tenant: &TenantId, source: &str, text: &str) -> Result<(), Problem> {
    let parsed = definition::parse_all(source, text, &DefinitionLimits::default());
    let parsed = parsed.map_err(|errors| refused(&errors))?;
    if let Some(why) = overreach(app, tenant, &parsed) {
        return Err(forbidden(why));
    }
    let report = app.engine.load_parsed(Some(tenant), source, parsed);
    if report.errors.is_empty() { Ok(()) } else { Err(refused(&report.errors)) }
}

pub(crate) fn refused(errors: &[LoadError]) -> Problem {
    errors.iter().fold(Problem::bad("the definition cannot be used"), |problem, error| {
        problem.at("/definition", format!("{}:{}: {}", error.line, error.column, error.message))
    })
}

/// What a definition of this tenant uses although it is not the tenant's.
fn overreach(app: &App, tenant: &TenantId, parsed: &Parsed) -> Option<&'static str> {
    if *tenant == TenantId::default() {
        return None;
    }
    let is_command = |provider: &ProviderSpec| {
        let transport = provider.mcp.as_ref().map(|server| &server.transport);
        matches!(transport, Some(McpTransport::Command { .. }))
    };
    if !app.settings.tenant_commands && parsed.providers.iter().any(is_command) {
        return Some(COMMANDS);
    }
    let mut resources = parsed.library.resources.iter();
    let names_file = resources.any(|resource| matches!(resource.body, ResourceBody::File(_)));
    (names_file || !parsed.imports.is_empty()).then_some(FILES)
}

fn forbidden(why: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", why)
}
