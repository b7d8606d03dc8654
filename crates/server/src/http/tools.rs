//! Tools: list, look at, check.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::definition::{self, Format};
use windlass::{Exposure, Lang, Session, TenantId, Tool};

use super::app::App;
use super::extract::{Body, Name, Query, Who};
use super::operation::Operation;
use super::problem::Problem;
use super::view;
use crate::identity::Action;

const PAGE: usize = 100;
const MAX_PAGE: usize = 1_000;

pub(crate) fn rows() -> Vec<Operation> {
    vec![
        Operation::get("/v1/tools", "list_tools", list)
            .may(Action::ReadTools, "List the tools")
            .details(
                "With `format`, the declarations as a model API wants them: only what a model \
                 sees in this conversation, all on one page, in a stable order.",
            )
            .query::<ListQuery>()
            .answer::<ToolsDoc>(200, "A page of tools"),
        Operation::get("/v1/tools/{name}", "get_tool", get)
            .may(Action::ReadTools, "Get a tool with its schema")
            .query::<GetQuery>()
            .answer::<ToolDoc>(200, "The tool"),
        Operation::post("/v1/tools/validate", "validate_tools", validate)
            .may(Action::ReadTools, "Check a definition without keeping it")
            .details("YAML or JSON, in any of the forms that definition files have.")
            .body::<DefinitionBody>()
            .answer::<CheckedDoc>(200, "What was found, and what is wrong"),
    ]
}

/// Which tools.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// Of this group.
    group: Option<String>,
    /// Of this category.
    category: Option<String>,
    /// Of this provider.
    provider: Option<String>,
    /// With this text in the name, description or tags.
    q: Option<String>,
    /// `anthropic`, `openai`, `gemini` or `mcp`.
    format: Option<String>,
    /// With `format`: the conversation whose groups count.
    conversation_id: Option<String>,
    /// The language of descriptions: `en` or `zh`.
    lang: Option<String>,
    /// How many at the most.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// A page of tools.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ToolPage")]
pub(crate) struct ToolsDoc {
    /// The tools by name; with `format`, their declarations.
    tools: Vec<BTreeMap<String, Value>>,
    /// Where the next page begins; none on the last.
    next: Option<String>,
}

/// A tool.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tool")]
pub(crate) struct ToolDoc {
    /// Its name.
    name: String,
    /// The name in the form that every model API takes.
    wire_name: String,
    /// What it does.
    description: String,
    /// The JSON Schema of what a model may send.
    input_schema: Value,
    /// What else is known of it.
    #[serde(flatten)]
    more: serde_json::Map<String, Value>,
}

fn lang(app: &App, lang: Option<&str>) -> Result<Lang, Problem> {
    let read = |lang: &str| {
        lang.parse().map_err(|why: String| Problem::bad("a language is wrong").at("lang", why))
    };
    lang.map_or(Ok(app.lang), read)
}

impl ListQuery {
    fn matches(&self, tool: &Tool) -> bool {
        let spec = tool.spec();
        let same = |wanted: &Option<String>, own: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == own)
        };
        same(&self.group, spec.group.as_deref())
            && same(&self.category, Some(spec.category.as_str()))
            && same(&self.provider, spec.provider.as_deref())
            && self.q.as_deref().is_none_or(|text| mentions(tool, &text.to_lowercase()))
    }
}

fn mentions(tool: &Tool, text: &str) -> bool {
    let spec = tool.spec();
    let in_text = |own: &str| own.to_lowercase().contains(text);
    in_text(tool.name().as_str())
        || [Lang::En, Lang::Zh].iter().any(|lang| in_text(spec.description.get(*lang)))
        || spec.tags.iter().any(|tag| in_text(tag))
}

async fn list(
    State(app): State<Arc<App>>,
    Who(who): Who,
    Query(query): Query<ListQuery>,
) -> Result<Response, Problem> {
    let lang = lang(&app, query.lang.as_deref())?;
    let mut tools = app.tools_of(&who.tenant);
    tools.retain(|tool| query.matches(tool));
    if let Some(format) = &query.format {
        let format: Format = format
            .parse()
            .map_err(|why: String| Problem::bad("a format is wrong").at("format", why))?;
        let session = query.conversation_id.map(|own| Session::new(who.tenant.clone(), own));
        tools.retain(|tool| app.is_seen(tool, session.as_ref()));
        let declared = definition::export(tools.iter().map(|tool| &**tool), format, lang);
        return Ok(view::ok(&json!({"tools": declared, "next": null})));
    }
    let limit = query.limit.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Problem::bad("a limit is wrong").at("limit", "1 to 1000"));
    }
    if let Some(after) = &query.cursor {
        tools.retain(|tool| tool.name().as_str() > after.as_str());
    }
    let more = tools.len() > limit;
    tools.truncate(limit);
    let next = tools.last().filter(|_| more).map(|tool| tool.name().to_string());
    let tools: Vec<Value> = tools.iter().map(|tool| show(tool, lang)).collect();
    Ok(view::ok(&json!({"tools": tools, "next": next})))
}

/// The language of descriptions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetQuery {
    /// `en` or `zh`.
    lang: Option<String>,
}

async fn get(
    State(app): State<Arc<App>>,
    Who(who): Who,
    Name(name): Name,
    Query(query): Query<GetQuery>,
) -> Result<Response, Problem> {
    let lang = lang(&app, query.lang.as_deref())?;
    let tool = app.tool_of(&who.tenant, &name).ok_or_else(|| Problem::not_found("tool"))?;
    Ok(view::ok(&show(&tool, lang)))
}

/// A tool, as the API shows it: what a model may see, and what an operator wants
/// to know. Values of presets are nobody's business.
pub(crate) fn show(tool: &Tool, lang: Lang) -> Value {
    let spec = tool.spec();
    let mut view = json!({
        "name": spec.name,
        "wire_name": spec.name.wire().as_str(),
        "label": spec.label.as_ref().map(|label| label.get(lang)),
        "description": spec.description.get(lang),
        "kind": spec.kind.name(),
        "category": spec.category.as_str(),
        "provider": spec.provider,
        "group": spec.group,
        "tags": spec.tags,
        "version": spec.version,
        "source": &**tool.source(),
        "input_schema": tool.model_schema(),
        "output_schema": spec.output,
        "behaviour": spec.behaviour,
        "exposure": spec.exposure,
        "timeout": spec.timeout.map(|timeout| timeout.as_secs_f64()),
        "max_concurrent": spec.max_concurrent,
    });
    if let Value::Object(view) = &mut view {
        view.retain(|_, value| !value.is_null());
    }
    view
}

/// A definition.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefinitionBody {
    /// YAML or JSON, in any of the forms that definition files have; or the same
    /// as an object.
    pub(crate) definition: Value,
}

impl DefinitionBody {
    pub(crate) fn text(&self) -> String {
        match &self.definition {
            Value::String(text) => text.clone(),
            other => other.to_string(),
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
    /// What is wrong.
    errors: Vec<Flaw>,
}

/// Something that is wrong with a definition.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Flaw {
    line: u32,
    column: u32,
    message: String,
}

async fn validate(Body(body): Body<DefinitionBody>) -> Result<Response, Problem> {
    let text = body.text();
    let parsed = windlass::native::run_blocking(move || Ok(definition::parse("request", &text)));
    let checked = match parsed.await? {
        Ok(found) => CheckedDoc {
            valid: true,
            tools: found.iter().map(|found| found.spec.name.to_string()).collect(),
            errors: Vec::new(),
        },
        Err(errors) => CheckedDoc {
            valid: false,
            tools: Vec::new(),
            errors: errors
                .iter()
                .map(|error| Flaw {
                    line: error.line,
                    column: error.column,
                    message: error.message.clone(),
                })
                .collect(),
        },
    };
    Ok(view::ok(&checked))
}

impl App {
    /// The tools that a tenant may use, by name.
    pub(crate) fn tools_of(&self, tenant: &TenantId) -> Vec<Arc<Tool>> {
        self.engine.registry().list_for(tenant)
    }

    /// A tool that a tenant may use.
    pub(crate) fn tool_of(&self, tenant: &TenantId, name: &str) -> Option<Arc<Tool>> {
        self.engine.registry().get_for(tenant, name)
    }

    /// Whether a model sees a tool.
    fn is_seen(&self, tool: &Tool, session: Option<&Session>) -> bool {
        let spec = tool.spec();
        let groups = self.engine.groups();
        spec.exposure == Exposure::Direct
            && spec.group.as_ref().is_none_or(|group| groups.is_active(group, session))
    }
}
