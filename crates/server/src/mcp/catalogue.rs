//! The tools that a client sees, and their names.
//!
//! MCP allows more names than the model APIs behind its clients do, so a tool is
//! listed by its wire name: `server/tool` is `server__tool`. Clients may also call it
//! by its own name.

use std::sync::Arc;

use rmcp::model::Tool as Declared;
use serde_json::Value;
use windlass::definition::{self, Format};
use windlass::{Engine, Exposure, Kind, Lang, Session, Tool};
use windlass_executors::mcp::declared;

use super::client::{McpClient, ServedTools};

const READ_OUTPUT: &str = "read_output";

/// What a client sees of an engine.
pub(super) struct Catalogue<'c> {
    pub(super) engine: &'c Engine,
    pub(super) view: &'c ServedTools,
    pub(super) client: &'c McpClient,
    pub(super) lang: Lang,
}

impl Catalogue<'_> {
    /// The tools, by the names that they are shown under.
    pub(super) fn tools(&self) -> Vec<(String, Arc<Tool>)> {
        let session = Session::of(&self.client.caller());
        let tools = match &session {
            Some(session) => without_search(self.engine.active_tools(Some(session))),
            None => without_search(self.engine.active_tools_for(self.client.tenant())),
        };
        let shown = tools.into_iter().filter(|tool| self.shows(tool));
        shown.map(|tool| (self.name(&tool), tool)).collect()
    }

    /// Whether a tool is in the view, and in that of the client's key.
    pub(super) fn shows(&self, tool: &Tool) -> bool {
        self.view.shows(tool) && self.client.sees(tool.name().as_str())
    }

    /// The tool that a client means.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Tool>> {
        let registry = self.engine.registry();
        let get = |name: &str| {
            registry.get_for(self.client.tenant(), name).filter(|tool| self.shows(tool))
        };
        if let ServedTools::Provider(provider) = self.view {
            let own = get(&format!("{provider}/{name}")).or_else(|| get(name));
            return own
                .filter(|tool| self.name(tool) == name || tool.name().as_str() == name)
                .or_else(|| self.reader_of_outputs(name));
        }
        let split = name.split_once("__");
        get(name)
            .or_else(|| get(&split.map(|(server, tool)| format!("{server}/{tool}"))?))
            .or_else(|| self.tools().into_iter().find(|(own, _)| own == name).map(|(_, tool)| tool))
            .or_else(|| self.reader_of_outputs(name))
    }

    /// The tool that reads on in a result that was cut. It is in every view, for
    /// every result may name it, and it shows no more than the tenant's own.
    fn reader_of_outputs(&self, name: &str) -> Option<Arc<Tool>> {
        if name != READ_OUTPUT {
            return None;
        }
        let tool = self.engine.registry().get_for(self.client.tenant(), name)?;
        // Whatever else has the name is a tool like any other.
        (tool.spec().kind == Kind::Native).then_some(tool)
    }

    /// The name that a tool is shown under.
    pub(super) fn name(&self, tool: &Tool) -> String {
        let name = tool.name().as_str();
        if let ServedTools::Provider(provider) = self.view {
            let own = name.strip_prefix(provider.as_str()).and_then(|rest| rest.strip_prefix('/'));
            return own.unwrap_or(name).to_owned();
        }
        let shown = tool.wire_name();
        // A tenant's own tool may be called as one of everybody's is shown.
        let of_shown = self.engine.registry().get_for(self.client.tenant(), shown);
        match of_shown.is_some_and(|other| other.name() != tool.name()) {
            true => tool.name().hashed(),
            false => shown.to_owned(),
        }
    }

    /// A tool as the protocol declares it. One of a server behind us is declared
    /// as that server does.
    pub(super) fn declare(&self, name: &str, tool: &Tool) -> Option<Declared> {
        let spec = tool.spec();
        let value = match declared(spec) {
            Some(own) => {
                let mut own = own.clone();
                // What is hidden from models is hidden here, too.
                if *tool.model_schema() != spec.input || own.get("inputSchema").is_none() {
                    own["inputSchema"] = tool.model_schema().clone();
                }
                own
            }
            None => definition::declare(spec, tool.model_schema(), Format::Mcp, self.lang),
        };
        let mut declared: Declared = serde_json::from_value(value).ok()?;
        declared.name = name.to_owned().into();
        if let (None, Some(icon)) = (&declared.icons, icon(spec.icon.as_deref())) {
            declared.icons = serde_json::from_value(icon).ok();
        }
        Some(declared)
    }
}

/// Whether tools are listed with their output schemas.
pub(super) fn declares_output(tool: &Tool) -> bool {
    let spec = tool.spec();
    declared(spec).map_or(spec.output.is_some(), |own| own.get("outputSchema").is_some())
}

/// An icon that a client can fetch by itself.
fn icon(icon: Option<&str>) -> Option<Value> {
    let own = icon.filter(|icon| icon.starts_with("https://") || icon.starts_with("data:"))?;
    Some(serde_json::json!([{"src": own}]))
}

/// The tools but for the engine's own search: clients have `find_tools`, which
/// does not depend on a conversation.
fn without_search(mut tools: Vec<Arc<Tool>>) -> Vec<Arc<Tool>> {
    tools.retain(|tool| tool.spec().exposure != Exposure::Hidden);
    tools
}
