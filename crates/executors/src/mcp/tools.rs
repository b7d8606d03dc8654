//! Converts a server's tool declarations into tools of the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use windlass::{
    Behaviour, BoxFuture, Call, Entry, Error, ErrorKind, Executor, Kind, Output, Text, ToolBuilder,
    ToolName, ToolSpec, empty_object_schema,
};

use super::authorize;
use super::call::Remote;
use super::server::Server;

/// The setting of an entry that holds the tool as its server declared it.
const DECLARED: &str = "declared";

/// The tools of a list, and why others of it are none.
pub(super) fn build(
    server: &Arc<Server>,
    declared: &[Value],
    is_held: impl Fn(&str) -> bool,
) -> (Vec<ToolBuilder>, Vec<Error>) {
    let (mut tools, mut errors) = (Vec::new(), Vec::new());
    for declared in declared {
        let name = declared["name"].as_str().unwrap_or_default();
        match spec(server, name, declared) {
            Ok(spec) => tools.push(builder(server, name, spec, is_held(name))),
            Err(error) => errors.push(error),
        }
    }
    (tools, errors)
}

fn builder(server: &Arc<Server>, name: &str, spec: ToolSpec, held: bool) -> ToolBuilder {
    let executor: Arc<dyn Executor> = match held {
        true => Arc::new(Held { server: Arc::clone(server), tool: name.into() }),
        false => Arc::new(Remote { server: Arc::clone(server), tool: name.into() }),
    };
    // What cannot be checked of its schema here is left to the server.
    ToolBuilder::new(spec, executor).schemas_of_others()
}

fn spec(server: &Server, name: &str, declared: &Value) -> Result<ToolSpec, Error> {
    let text = |key: &str| declared[key].as_str().filter(|text| !text.is_empty());
    let settings = server.settings();
    let mut spec = ToolSpec::new(ToolName::new(&format!("{}/{name}", server.name()))?);
    spec.provider = Some(server.name().to_owned());
    spec.kind = Kind::Mcp;
    spec.label = text("title")
        .or_else(|| declared["annotations"]["title"].as_str())
        .map(|title| Text::One(title.to_owned()));
    spec.description = Text::One(text("description").unwrap_or_default().to_owned());
    spec.icon = declared["icons"][0]["src"].as_str().map(str::to_owned);
    spec.input = match &declared["inputSchema"] {
        Value::Object(schema) => Value::Object(schema.clone()),
        _ => empty_object_schema(),
    };
    spec.output = declared.get("outputSchema").filter(|schema| schema.is_object()).cloned();
    if settings.trust_annotations {
        spec.behaviour = behaviour(&declared["annotations"]);
    }
    spec.timeout = settings.timeout;
    spec.max_output_bytes = settings.max_output_bytes;
    spec.entry = Entry {
        handler: name.to_owned(),
        config: Map::from_iter([(DECLARED.to_owned(), declared.clone())]),
    };
    Ok(spec)
}

/// Behaviour from the protocol's annotations. The protocol's defaults apply: a tool is
/// not read-only, and may be destructive.
fn behaviour(annotations: &Value) -> Behaviour {
    let hint = |key: &str| annotations[key].as_bool();
    let read_only = hint("readOnlyHint").unwrap_or_default();
    Behaviour {
        read_only,
        concurrency_safe: read_only.then_some(true),
        idempotent: read_only || hint("idempotentHint").unwrap_or_default(),
        destructive: !read_only && hint("destructiveHint").unwrap_or(annotations.is_object()),
    }
}

/// A tool as its server declared it, for proxies.
pub fn declared(spec: &ToolSpec) -> Option<&Value> {
    if spec.kind == Kind::Mcp { spec.entry.config.get(DECLARED) } else { None }
}

/// The login tool of a server whose tools are not known yet.
pub(super) fn log_in(server: &Arc<Server>) -> Option<ToolBuilder> {
    let name = server.name();
    let mut spec = ToolSpec::new(ToolName::new(&format!("{name}/log_in")).ok()?);
    spec.provider = Some(name.to_owned());
    spec.kind = Kind::Mcp;
    spec.description = Text::Many(BTreeMap::from([
        (
            "en".to_owned(),
            format!(
                "Gives the address at which the user logs in to `{name}`. Its tools are there \
                 once somebody has."
            ),
        ),
        ("zh".to_owned(), format!("返回用户登录 `{name}` 的地址。登录后才能看到它的工具。")),
    ]));
    spec.behaviour.read_only = true;
    spec.input = empty_object_schema();
    Some(ToolBuilder::new(spec, Arc::new(LogIn(Arc::clone(server)))))
}

/// The executor of the login tool.
struct LogIn(Arc<Server>);

impl Executor for LogIn {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let Self(server) = self;
            let failed = authorize::wants_login(server.name());
            let challenge = server.challenge().unwrap_or_default();
            Err(server.ask_to_log_in(call.caller(), &challenge, failed).await)
        })
    }
}

/// The executor of a quarantined tool.
struct Held {
    server: Arc<Server>,
    tool: Arc<str>,
}

impl Executor for Held {
    fn execute<'a>(&'a self, _call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(std::future::ready(Err(held(&self.server, &self.tool))))
    }
}

/// The error of a call of a quarantined tool.
pub(super) fn held(server: &Server, tool: &str) -> Error {
    let why = format!(
        "the tool `{tool}` of `{}` has changed since it was accepted, and an operator has not \
         looked at the difference yet",
        server.name()
    );
    Error::new(ErrorKind::Denied, why)
}
