//! What nodes reach: models, tools, addresses, datasets, people.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use windlass::{Error, ErrorKind, Tool as WindlassTool};
use windlass_dify::node::Node;
use windlass_dify::node::model::{Model, Role};
use windlass_dify::node::reach::Tool;
use windlass_dify::step::{
    HeaderValue, HttpBody, HttpRequest, Lookup, Message, ModelRequest, Question, ToolCall, Work,
};
use windlass_dify::template::Part;
use windlass_dify::value::{Object, Value as DifyValue};

use super::Dify;
use super::answer::KeptAnswer;
use super::job::{JobStep, Todo};
use crate::log::Ask;
use crate::native::Prompt;
use crate::run::At;
use crate::step::Halt;

/// The tool that sends requests.
pub(super) const HTTP: &str = "http_request";

impl Dify {
    /// The tool that stands for a tool of Dify.
    pub(super) fn tool_name(&self, tool: &Tool) -> String {
        self.tool_for(&tool.provider, &tool.name)
    }

    /// The names under which a model of Dify may be known here, the likeliest first.
    pub(super) fn model_names(&self, model: &Model) -> Vec<String> {
        let name = format!("{}/{}", model.vendor(), model.name);
        let models = &self.settings.models;
        match models.get(&name).or_else(|| models.get(&model.name)) {
            Some(mapped) => vec![mapped.clone()],
            None => vec![name, model.name.clone()],
        }
    }

    fn tool_for(&self, provider: &str, name: &str) -> String {
        let vendor = provider.rsplit('/').next().unwrap_or(provider);
        let (short, long) = (format!("{vendor}/{name}"), format!("{provider}/{name}"));
        let tools = &self.settings.tools;
        let mapped = tools.get(&short).or_else(|| tools.get(&long)).or_else(|| tools.get(name));
        mapped.map_or_else(|| name.to_owned(), Clone::clone)
    }
}

fn missing(what: &str, how: &str) -> Halt {
    Error::new(ErrorKind::NotFound, format!("{what}; {how}")).nothing_done().into()
}

fn json_of(object: &Object) -> Map<String, Value> {
    object.iter().map(|(name, value)| (name.clone(), value.to_json())).collect()
}

impl JobStep {
    /// Does it once.
    pub(super) async fn once(&self, at: &At<'_>) -> Result<KeptAnswer, Halt> {
        let work = match &self.todo {
            Todo::Replaced { tool, given } => {
                let value = at.call(tool, given.clone()).await?;
                return match Value::clone(&value) {
                    Value::Object(outputs) => Ok(KeptAnswer::Outputs(outputs)),
                    other => {
                        let why = format!(
                            "`{tool}` gives the outputs of a node, as an object, found {other}"
                        );
                        Err(Error::new(ErrorKind::InvalidOutput, why).into())
                    }
                };
            }
            Todo::Work(work) => work,
        };
        match work {
            Work::Model(request) => self.ask_model(at, request).await,
            Work::Tool(call) => self.call_tool(at, call).await,
            Work::Http(request) => send(at, request).await,
            Work::Knowledge(lookup) => self.search(at, lookup).await,
            Work::Human(question) => ask_person(at, question).await,
            Work::Code(call) => {
                let how = format!(
                    "map it to a tool: `dify: {{replace: {{\"{}\": tool}}}}`",
                    self.own().id
                );
                Err(missing(
                    &format!("nothing here runs {} of Dify's code nodes", call.language),
                    &how,
                ))
            }
            Work::Documents(_) | Work::Agent(_) => {
                let (id, kind) = (&self.own().id, self.own().kind.name());
                let how = format!("map it to a tool: `dify: {{replace: {{\"{id}\": tool}}}}`");
                Err(missing(&format!("nothing here stands for nodes of type {kind}"), &how))
            }
            Work::Done(_) | Work::Rounds => {
                Err(Error::new(ErrorKind::Internal, "there is nothing to do for this node").into())
            }
        }
    }

    async fn ask_model(&self, at: &At<'_>, request: &ModelRequest) -> Result<KeptAnswer, Halt> {
        let tool = self.model(request)?;
        let message = transcript(&request.messages);
        let value = at.call_own(&tool, json!({"message": message})).await?;
        let (text, structured) = match &*value {
            Value::String(text) => (text.clone(), None),
            Value::Object(object) => match object.get("text") {
                Some(Value::String(text)) => (text.clone(), None),
                Some(other) => (other.to_string(), Some(other.clone())),
                None => (value.to_string(), Some(Value::clone(&value))),
            },
            other => (other.to_string(), Some(other.clone())),
        };
        Ok(KeptAnswer::Model { text, structured, usage: json!({}) })
    }

    /// A tool that asks the model of a request.
    fn model(&self, request: &ModelRequest) -> Result<Arc<WindlassTool>, Halt> {
        let model = &request.model;
        let name = format!("{}/{}", model.vendor(), model.name);
        let how = || format!("map it: `dify: {{models: {{\"{name}\": provider/model}}}}`");
        let Some(make) = &self.dify.prompts else {
            return Err(missing("there are no models here", &how()));
        };
        let number = |key: &str| model.parameters.get(key).and_then(DifyValue::as_number);
        let system = request.messages.iter().filter(|message| message.role == Role::System);
        let system: Vec<&str> = system.map(|message| message.text.as_str()).collect();
        let prompt = |model: &str| Prompt {
            name: tool_name_of(self.own()),
            model: Some(model.to_owned()),
            system: Some(system.join("\n\n")).filter(|system| !system.is_empty()),
            schema: request.schema.clone(),
            temperature: number("temperature"),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "casts saturate"
            )]
            max_tokens: number("max_tokens").map(|tokens| tokens as u64),
        };
        let mut refused = None;
        for known in self.dify.model_names(model) {
            match make(&prompt(&known)) {
                Ok(tool) => return Ok(tool),
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        let why = refused.map(|error| error.message().to_owned()).unwrap_or_default();
        Err(missing(&format!("no model {name}: {why}"), &how()))
    }

    async fn call_tool(&self, at: &At<'_>, call: &ToolCall) -> Result<KeptAnswer, Halt> {
        let name = self.dify.tool_for(&call.provider, &call.name);
        let Some(tool) = at.drive.tools.find(&name) else {
            let dify = format!("{}/{}", call.provider, call.name);
            let how = format!("map it: `dify: {{tools: {{\"{dify}\": tool}}}}`");
            return Err(missing(&format!("there is no tool `{name}` for Dify's {dify}"), &how));
        };
        // Settings of the plugin that the tool does not know are the plugin's alone.
        let known = |name: &str| tool.spec().input["properties"].get(name).is_some();
        let mut arguments: Map<String, Value> =
            json_of(&call.configuration).into_iter().filter(|(name, _)| known(name)).collect();
        arguments.extend(json_of(&call.arguments));
        let value = at.call(&name, Value::Object(arguments)).await?;
        let (mut text, mut files, mut json) = (String::new(), Vec::new(), Vec::new());
        match &*value {
            Value::String(only) => text.clone_from(only),
            Value::Object(object) => {
                match object.get("text").and_then(Value::as_str) {
                    Some(own) => text = own.to_owned(),
                    None => text = value.to_string(),
                }
                files = object.get("files").and_then(Value::as_array).cloned().unwrap_or_default();
                if object.keys().any(|key| !matches!(key.as_str(), "text" | "files")) {
                    json.push(Value::clone(&value));
                }
            }
            other => {
                text = other.to_string();
                json.push(other.clone());
            }
        }
        Ok(KeptAnswer::Tool { text, files, json })
    }

    async fn search(&self, at: &At<'_>, lookup: &Lookup) -> Result<KeptAnswer, Halt> {
        let mut results = Vec::new();
        for id in &lookup.datasets {
            let Some(tool) = self.dify.settings.datasets.get(id) else {
                let how = format!(
                    "map it to a tool that searches: `dify: {{datasets: {{\"{id}\": tool}}}}`"
                );
                return Err(missing(&format!("there is no dataset {id}"), &how));
            };
            let mut arguments = json!({"query": lookup.query});
            let known = at.drive.tools.find(tool);
            if known.is_some_and(|tool| tool.spec().input["properties"].get("top_k").is_some()) {
                arguments["top_k"] = lookup.top_k.into();
            }
            let value = at.call(tool, arguments).await?;
            results.extend(results_in(&value));
        }
        results.truncate(usize::try_from(lookup.top_k).unwrap_or(usize::MAX));
        Ok(KeptAnswer::Knowledge(results))
    }
}

/// The name of the tool that asks for a node, for records.
fn tool_name_of(node: &Node) -> String {
    let id = node.id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let id: String = id.take(40).collect();
    format!("{}_{id}", node.kind.name().replace('-', "_"))
}

/// The messages besides the system's, as one text.
fn transcript(messages: &[Message]) -> String {
    let others: Vec<&Message> =
        messages.iter().filter(|message| message.role != Role::System).collect();
    let one = |message: &Message| {
        let files = message.files.iter().filter_map(|file| match file {
            DifyValue::File(file) => file.url.as_ref().map(|url| format!("\n[file: {url}]")),
            _ => None,
        });
        format!("{}{}", message.text, files.collect::<String>())
    };
    if let [only] = others.as_slice() {
        return one(only);
    }
    let told = others.iter().map(|message| match message.role {
        Role::Assistant => format!("Assistant: {}", one(message)),
        Role::User | Role::System => format!("User: {}", one(message)),
    });
    told.collect::<Vec<_>>().join("\n\n")
}

/// The results that a search gave: a list, or the list in an object.
fn results_in(value: &Value) -> Vec<Value> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        Value::Object(object) => {
            let list = object.values().find_map(Value::as_array);
            list.map_or(std::slice::from_ref(value), Vec::as_slice)
        }
        other => std::slice::from_ref(other),
    };
    let result = |item: &Value| {
        let text = |keys: &[&str]| {
            keys.iter().find_map(|key| item[*key].as_str()).unwrap_or_default().to_owned()
        };
        let content = match item {
            Value::String(text) => text.clone(),
            _ => text(&["content", "text", "snippet", "body"]),
        };
        json!({
            "title": text(&["title", "name"]),
            "content": content,
            "url": text(&["url", "link"]),
            "metadata": item.get("metadata").cloned().unwrap_or_else(|| json!({})),
        })
    };
    items.iter().map(result).collect()
}

async fn send(at: &At<'_>, request: &HttpRequest) -> Result<KeptAnswer, Halt> {
    let mut headers = Map::new();
    for (name, value) in &request.headers {
        headers.insert(name.clone(), header(value)?.into());
    }
    let body = match &request.body {
        HttpBody::None => Value::Null,
        HttpBody::Json(json @ Value::Object(_)) => json.clone(),
        HttpBody::Form(fields) => form(fields),
        HttpBody::Multipart(fields, files) if files.is_empty() => {
            let name = "Content-Type".to_owned();
            headers.insert(name, "application/x-www-form-urlencoded".into());
            form(fields)
        }
        HttpBody::Text(_) | HttpBody::Json(_) | HttpBody::File(_) | HttpBody::Multipart(..) => {
            let what =
                "bodies that are neither JSON objects nor forms of texts are not sent from here";
            return Err(missing(what, "map the node to a tool: `dify: {replace: …}`"));
        }
    };
    let mut url = request.url.clone();
    if !request.params.is_empty() {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(&encoded(&request.params));
    }
    let mut arguments = json!({"url": url, "method": request.method, "headers": headers});
    if !body.is_null() {
        arguments["body"] = body;
    }
    if let Some(seconds) = request.timeouts[1] {
        arguments["timeout"] = seconds.clamp(1, 300).into();
    }
    let value = at.call(HTTP, arguments).await?;
    let body = match value.get("body") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    let status = value["status_code"].as_u64().or_else(|| value["status"].as_u64());
    Ok(KeptAnswer::Http {
        status: status.and_then(|status| u16::try_from(status).ok()).unwrap_or(200),
        body,
        headers: value["headers"].as_object().cloned().unwrap_or_default(),
    })
}

fn header(value: &HeaderValue) -> Result<String, Halt> {
    let (HeaderValue::Plain(parts) | HeaderValue::Basic(parts)) = value;
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Text(own) => text.push_str(own),
            // An argument is recorded; a secret never is one.
            Part::Secret(name) => {
                let how = "map the node to a tool that has the credential: `dify: {replace: …}`";
                return Err(missing(&format!("the secret `{name}` has no value here"), how));
            }
        }
    }
    Ok(match value {
        HeaderValue::Plain(_) => text,
        HeaderValue::Basic(_) if text.contains(':') => {
            use base64::Engine as _;
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text))
        }
        HeaderValue::Basic(_) => format!("Basic {text}"),
    })
}

/// The fields of a form, which the tool encodes.
fn form(fields: &[(String, String)]) -> Value {
    let fields = fields.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
    Value::Object(fields.collect())
}

/// Pairs as the query of an address has them.
fn encoded(pairs: &[(String, String)]) -> String {
    let escaped = |text: &str| {
        let bytes = text.bytes().map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(b).to_string()
            }
            b' ' => "+".to_owned(),
            b => format!("%{b:02X}"),
        });
        bytes.collect::<String>()
    };
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value)));
    pairs.collect::<Vec<_>>().join("&")
}

async fn ask_person(at: &At<'_>, question: &Question) -> Result<KeptAnswer, Halt> {
    let mut properties = Map::new();
    for (input, default) in &question.inputs {
        let mut property = json!({"type": "string", "title": input.name});
        if input.kind == "select"
            && let Some(DifyValue::List(options)) = input.settings.get("options")
        {
            property["enum"] = options.iter().map(DifyValue::to_json).collect();
        }
        if !matches!(default, DifyValue::Null) {
            property["default"] = default.to_json();
        }
        properties.insert(input.name.clone(), property);
    }
    let form =
        (!properties.is_empty()).then(|| json!({"type": "object", "properties": properties}));
    let ask = Ask {
        text: question.form.clone(),
        actions: question.actions.iter().map(|action| action.id.clone()).collect(),
        form,
        who: Vec::new(),
    };
    let seconds = i64::try_from(question.timeout).unwrap_or(i64::MAX / 1000);
    let until = Timestamp::now().checked_add(SignedDuration::from_secs(seconds)).ok();
    let Some(answer) = at.ask(ask, until).await? else { return Ok(KeptAnswer::Expired) };
    let first = question.actions.first().map(|action| action.id.clone());
    let action = answer["action"].as_str().map(str::to_owned).or(first).unwrap_or_default();
    let mut form = answer["form"].as_object().cloned().unwrap_or_default();
    for (input, default) in &question.inputs {
        form.entry(input.name.clone()).or_insert_with(|| default.to_json());
    }
    Ok(KeptAnswer::Person { action, form })
}
