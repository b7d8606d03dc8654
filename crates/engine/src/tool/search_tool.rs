//! The tool `tool_search`, with which a model finds deferred tools.
//!
//! With many tools, most are deferred: the model sees this tool in their place,
//! and what it finds is active in its conversation from then on.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::Call;
use crate::call::content::Output;
use crate::engine::Engine;
use crate::error::Error;
use crate::tool::executor::{BoxFuture, Executor};
use crate::tool::groups::Session;
use crate::tool::native::schema_of;
use crate::tool::{Behaviour, Exposure, Tool, ToolBuilder, ToolSpec};
use crate::value::text::{Lang, Text};

/// The tool's name.
pub(crate) const NAME: &str = "tool_search";
const MAX_FOUND: usize = 20;

/// Restricts what a search may find: a context object for callers that may not
/// see everything.
#[derive(Clone)]
pub struct SearchScope(Arc<dyn Fn(&ToolSpec) -> bool + Send + Sync>);

impl SearchScope {
    /// Allows only tools that pass the predicate.
    pub fn new(shows: impl Fn(&ToolSpec) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(shows))
    }
}

#[derive(Deserialize, JsonSchema)]
struct ToolSearchArguments {
    /// Words that say what you want to do, in English or Chinese.
    query: String,
    /// How many tools to show, at most 20.
    #[serde(default = "few")]
    #[schemars(range(min = 1, max = 20))]
    limit: usize,
}

fn few() -> usize {
    5
}

struct ToolSearch;

pub(crate) fn tool_search() -> ToolBuilder {
    let about = [
        (
            "en_US",
            "Finds more tools by words. Use it when none of the tools that you see does what you \
             need. What it finds can be called from then on.",
        ),
        ("zh_Hans", "按关键词查找更多工具。当现有工具都不满足需求时使用;找到的工具随后即可调用。"),
    ];
    let about = about.map(|(lang, text)| (lang.to_owned(), text.to_owned()));
    ToolBuilder::native(NAME, schema_of::<ToolSearchArguments>(), Arc::new(ToolSearch))
        .description(Text::Many(about.into()))
        .behaviour(Behaviour::READ_ONLY)
        // Listed only if there are deferred tools.
        .with(|spec| spec.exposure = Exposure::Hidden)
}

impl ToolSearch {
    async fn find(&self, engine: &Engine, call: &Call, query: &ToolSearchArguments) -> Output {
        let session = Session::of(call.caller());
        let tools = engine.findable_tools(&call.caller().tenant, session.as_ref());
        let scope = call.object::<SearchScope>();
        let shows = |tool: &Tool| scope.as_ref().is_none_or(|scope| (scope.0)(tool.spec()));
        let found = engine.find_tools(tools, &query.query).await;
        let found: Vec<Arc<Tool>> = (found.into_iter())
            .filter(|tool| shows(tool))
            .take(query.limit.clamp(1, MAX_FOUND))
            .collect();
        if let Some(session) = &session {
            engine.activate(session, found.iter().map(|tool| tool.name()));
        }
        let shown: Vec<Value> = found
            .iter()
            .map(|tool| {
                let description = tool.spec().description.get(Lang::En);
                let schema = tool.model_schema();
                json!({"name": tool.wire_name(), "description": description, "input_schema": schema})
            })
            .collect();
        Output::json(json!({"tools": shown}))
    }
}

impl Executor for ToolSearch {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let query: ToolSearchArguments = call.parse()?;
            Ok(self.find(&call.tools().engine()?, call, &query).await)
        })
    }
}
