//! Tool search for clients of large catalogues.
//!
//! If there are more tools than a client should list at once, or if tools are
//! deferred, the list ends with two more: one searches for tools, the other calls a
//! tool that was found.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool as Declared};
use serde_json::{Map, Value, json};
use windlass::{Exposure, Lang, Tool};

use super::catalogue::Catalogue;

/// The names of the two.
pub(super) const FIND: &str = "find_tools";
pub(super) const CALL: &str = "call_tool";
/// How many tools a search shows.
const FOUND: usize = 10;

/// What the two say of themselves.
pub(super) fn declarations(lang: Lang) -> [Declared; 2] {
    let find = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": text(lang,
                "Words that say what you want to do.", "描述所需功能的关键词。")},
        },
        "required": ["query"],
    });
    let call = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": text(lang,
                "The tool's name, as find_tools gave it.", "find_tools 返回的工具名称。")},
            "arguments": {"type": "object", "description": text(lang,
                "Its arguments, as its schema wants them.", "符合该工具参数模式的参数。")},
        },
        "required": ["name"],
    });
    let find_about = text(
        lang,
        "Finds more tools by words. Use it when none of the tools that you see does what you \
         need; then call what it finds with call_tool.",
        "按关键词查找更多工具。当现有工具都不满足需求时使用,然后用 call_tool 调用找到的工具。",
    );
    let call_about =
        text(lang, "Calls a tool that find_tools has found.", "调用 find_tools 找到的工具。");
    [declare(FIND, find_about, find), declare(CALL, call_about, call)]
}

fn text(lang: Lang, english: &'static str, chinese: &'static str) -> &'static str {
    match lang {
        Lang::Zh => chinese,
        _ => english,
    }
}

fn declare(name: &'static str, about: &'static str, schema: Value) -> Declared {
    let schema: JsonObject = match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    Declared::new(name, about, Arc::new(schema))
}

/// The tools that a search for these words finds, best first.
pub(super) async fn find(catalogue: &Catalogue<'_>, query: &str) -> Value {
    let (names, tools): (Vec<String>, Vec<Arc<Tool>>) = catalogue.findable().into_iter().unzip();
    let found = catalogue.engine.find_tools(tools.clone(), query).await;
    let shown = found.iter().take(FOUND).filter_map(|tool| {
        // A tool may have another name here than its own.
        let at = tools.iter().position(|own| Arc::ptr_eq(own, tool))?;
        serde_json::to_value(catalogue.declare(&names[at], tool)?).ok()
    });
    json!({"tools": shown.collect::<Vec<_>>(), "found": found.len()})
}

impl Catalogue<'_> {
    /// All tools that may be called: those in the list, and those that are
    /// deferred.
    fn findable(&self) -> Vec<(String, Arc<Tool>)> {
        let mut tools = self.tools();
        tools.extend(self.deferred());
        tools
    }

    /// The tools that are only found.
    pub(super) fn deferred(&self) -> Vec<(String, Arc<Tool>)> {
        let session = windlass::Session::of(&self.client.caller());
        let groups = self.engine.groups();
        let all = self.engine.registry().list_for(self.client.tenant()).into_iter();
        all.filter(|tool| tool.spec().exposure == Exposure::Deferred && self.shows(tool))
            .filter(|tool| {
                let group = tool.spec().group.as_ref();
                group.is_none_or(|group| groups.is_active(group, session.as_ref()))
            })
            .map(|tool| (self.name(&tool), tool))
            .collect()
    }
}
