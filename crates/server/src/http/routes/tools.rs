//! Tools: list them, and look at one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::definition::{self, Format};
use windlass::{Lang, Session, TenantId, Tool};

use super::page::{Limit, PageQuery, TextCursor};
use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape::ToolDoc;
use crate::http::front::extract::{Authenticated, PathName, QueryString};
use crate::http::front::problem::Problem;
use crate::state::identity::Permission;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/v1/tools", "list_tools", list)
            .may(Permission::ReadTools, "List the tools")
            .details(
                "With `format`, the declarations in the format of a model API: only what a \
                 model sees in this conversation, all on one page, in a stable order.",
            )
            .query::<ToolsQuery>()
            .answer::<ToolsDoc>(200, "A page of tools"),
        RouteSpec::get("/v1/tools/{name}", "get_tool", get)
            .may(Permission::ReadTools, "Get a tool with its schema")
            .query::<ToolQuery>()
            .answer::<ToolDoc>(200, "The tool"),
    ]
}

/// Filters of the list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolsQuery {
    /// Of this group.
    group: Option<String>,
    /// Of this category.
    category: Option<String>,
    /// Of this provider.
    provider: Option<String>,
    /// With this text in the name, description or tags.
    q: Option<String>,
    /// The declarations that this API takes, in place of all that is known.
    format: Option<FormatName>,
    /// With `format`: the conversation whose groups count.
    conversation_id: Option<String>,
    /// The language of descriptions.
    lang: Option<LangName>,
    /// Maximum number of items.
    limit: Option<Limit>,
    /// The cursor: the `next` of the previous page.
    cursor: Option<TextCursor>,
}

/// A page of tools.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ToolPage")]
pub(crate) struct ToolsDoc {
    /// The tools by name; with `format`, their declarations.
    tools: Vec<ListedTool>,
    /// The cursor of the next page; none on the last page.
    next: Option<String>,
}

/// A tool in a list.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes what others write")]
enum ListedTool {
    /// Without `format`.
    Tool(Box<ToolDoc>),
    /// With `format`: as that API wants it.
    Declaration(BTreeMap<String, Value>),
}

/// A format of declarations: a model API, or MCP.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct FormatName(Format);

impl TryFrom<String> for FormatName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse().map(Self)
    }
}

impl JsonSchema for FormatName {
    fn schema_name() -> Cow<'static, str> {
        "FormatName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Format::all().map(Format::name).collect();
        schemars::json_schema!({"type": "string", "enum": names})
    }
}

/// A language.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LangName {
    En,
    Zh,
}

fn lang(app: &App, lang: Option<LangName>) -> Lang {
    match lang {
        None => app.lang,
        Some(LangName::En) => Lang::En,
        Some(LangName::Zh) => Lang::Zh,
    }
}

impl ToolsQuery {
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
    Authenticated(who): Authenticated,
    QueryString(query): QueryString<ToolsQuery>,
) -> Result<Response, Problem> {
    let lang = lang(&app, query.lang);
    if let Some(format) = query.format {
        // The model's view, including tools that search has found in the conversation.
        let session =
            query.conversation_id.as_deref().map(|own| Session::new(who.tenant.clone(), own));
        let mut tools = match &session {
            Some(session) => app.engine.active_tools(Some(session)),
            None => app.engine.active_tools_for(&who.tenant),
        };
        tools.retain(|tool| query.matches(tool));
        let declared = definition::export(tools.iter().map(|tool| &**tool), format.0, lang);
        return Ok(view::ok(&json!({"tools": declared, "next": null})));
    }
    let mut tools = app.tools_of(&who.tenant);
    tools.retain(|tool| query.matches(tool));
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let page = page.cut(tools, |tool| tool.name().to_string());
    let tools: Vec<Value> = page.items.iter().map(|tool| show(tool, lang)).collect();
    Ok(view::ok(&json!({"tools": tools, "next": page.next})))
}

/// The language of descriptions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolQuery {
    /// Which.
    lang: Option<LangName>,
}

async fn get(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(name): PathName,
    QueryString(query): QueryString<ToolQuery>,
) -> Result<Response, Problem> {
    let lang = lang(&app, query.lang);
    let tool = app.tool_of(&who.tenant, &name).ok_or_else(|| Problem::not_found("tool"))?;
    Ok(view::ok(&show(&tool, lang)))
}

/// A tool, as the API shows it: what a model may see, and what an operator wants
/// to know. Values of presets are nobody's business.
pub(crate) fn show(tool: &Tool, lang: Lang) -> Value {
    let spec = tool.spec();
    let mut view = json!({
        "name": spec.name,
        "wire_name": tool.wire_name(),
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
        "unchecked": tool.unchecked(),
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

impl App {
    /// The tools that a tenant may use, by name.
    pub(crate) fn tools_of(&self, tenant: &TenantId) -> Vec<Arc<Tool>> {
        self.engine.registry().list_for(tenant)
    }

    /// A tool that a tenant may use.
    pub(crate) fn tool_of(&self, tenant: &TenantId, name: &str) -> Option<Arc<Tool>> {
        self.engine.registry().get_for(tenant, name)
    }
}
