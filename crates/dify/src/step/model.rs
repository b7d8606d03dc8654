//! Nodes that ask a model: prompts out, outputs back.
//!
//! Classifiers and extractors ask with a schema and with prompts of our own; what comes
//! back is read as Dify reads it, fences, prose and missing fields included.

use serde_json::{Value as Json, json};

use super::{
    Failure, History, Message, ModelAnswer, ModelRequest, Outcome, Outputs, lookup, named,
    object_in,
};
use crate::jinja::{Jinja, Limits, Missing};
use crate::node::Selector;
use crate::node::model::{Classifier, Extractor, Llm, Memory, Model, Parameter, Prompt, Role};
use crate::pool::Pool;
use crate::template::{self, Template};
use crate::value::number::{parse_float, parse_int};
use crate::value::{Kind, Object, Segment, Value, text};

/// What stands for the context of an LLM node.
const CONTEXT: &str = "{{#context#}}";

pub(super) fn llm(settings: &Llm, pool: &Pool) -> Result<ModelRequest, Failure> {
    let context = match &settings.context {
        Some(selector) => {
            lookup(pool, selector)?.map(|segment| context_text(&segment)).transpose()?
        }
        None => None,
    };
    let mut messages = Vec::new();
    for prompt in &settings.prompts {
        push_prompt(prompt, settings, context.as_deref().unwrap_or_default(), pool, &mut messages)?;
    }
    let files = vision(settings.vision.as_ref(), pool)?;
    let history = remember(settings.memory.as_ref(), &mut messages, pool)?;
    attach(files, &mut messages);
    // Whether nothing at all can be asked is for the model to say.
    if messages.is_empty() {
        messages.push(Message::default());
    }
    let model = with_parameters(&settings.model, pool)?;
    Ok(ModelRequest { model, messages, history, schema: settings.schema.clone() })
}

/// The context of results of a search, or of texts.
fn context_text(segment: &Segment) -> Result<String, Failure> {
    let items = match &segment.value {
        Value::Text(text) => return Ok(text.to_string()),
        Value::List(items) => items,
        _ => return Ok(String::new()),
    };
    let mut context = String::new();
    for item in items.iter() {
        match item {
            Value::Text(text) => context.push_str(text),
            Value::Object(object) => {
                let Some(content) = object.get("content") else {
                    let message = format!("Invalid context structure: {}", text::python(item));
                    return Err(Failure::new("InvalidContextStructureError", message));
                };
                if let Some(summary) = object.get("summary").filter(|summary| summary.is_truthy()) {
                    context.push_str(&text::python(summary));
                    context.push('\n');
                }
                context.push_str(&text::python(content));
            }
            other => context.push_str(&text::python(other)),
        }
        context.push('\n');
    }
    Ok(context.trim().to_owned())
}

fn push_prompt(
    prompt: &Prompt,
    settings: &Llm,
    context: &str,
    pool: &Pool,
    messages: &mut Vec<Message>,
) -> Result<(), Failure> {
    let role = prompt.role;
    if prompt.is_jinja {
        let variables = named(pool, &settings.variables)?;
        let text = render_jinja(&prompt.text, &variables)?;
        if !text.is_empty() {
            messages.push(Message { role, text, files: Vec::new() });
        }
        return Ok(());
    }
    // The context is put in as it is: what a document says is never a template.
    let (mut text, mut files) = (String::new(), Vec::new());
    for (at, part) in prompt.text.split(CONTEXT).enumerate() {
        if at > 0 {
            text.push_str(context);
        }
        for segment in Template::parse(part).resolve(pool)? {
            text.push_str(&segment.text());
            files.extend(segment.files());
        }
    }
    if !text.is_empty() || !files.is_empty() {
        messages.push(Message { role, text, files });
    }
    Ok(())
}

pub(super) fn render_jinja(source: &str, variables: &Object) -> Result<String, Failure> {
    let rendered = Jinja::parse(source)
        .and_then(|jinja| jinja.render(variables, Missing::Fails, Limits::default()));
    rendered.map_err(|error| Failure::new("TemplateRenderError", error.message))
}

/// The files that a model sees.
fn vision(selector: Option<&Selector>, pool: &Pool) -> Result<Vec<Value>, Failure> {
    let Some(selector) = selector else { return Ok(Vec::new()) };
    let Some(segment) = lookup(pool, selector)? else { return Ok(Vec::new()) };
    match segment.kind {
        Kind::File | Kind::FileList => Ok(segment.files()),
        Kind::None | Kind::AnyList => Ok(Vec::new()),
        kind => {
            let message = format!("Invalid variable type: {kind}");
            Err(Failure::new("InvalidVariableTypeError", message))
        }
    }
}

/// Files go with the last message, if it is the person's.
fn attach(files: Vec<Value>, messages: &mut Vec<Message>) {
    if files.is_empty() {
        return;
    }
    match messages.last_mut() {
        Some(last) if last.role == Role::User => last.files.extend(files),
        _ => messages.push(Message { role: Role::User, text: String::new(), files }),
    }
}

/// The history goes after the prompts, and the question of the run after it.
fn remember(
    memory: Option<&Memory>,
    messages: &mut Vec<Message>,
    pool: &Pool,
) -> Result<Option<History>, Failure> {
    let Some(memory) = memory else { return Ok(None) };
    let query = match memory.query.as_str() {
        "" => pool.get(&["sys", "query"]).map(|query| query.text()).unwrap_or_default(),
        query => template::render(query, pool)?,
    };
    let history = History { before: messages.len(), rounds: memory.window };
    if !query.is_empty() {
        messages.push(Message { role: Role::User, text: query, files: Vec::new() });
    }
    Ok(Some(history))
}

/// The model, the templates in its parameters rendered.
fn with_parameters(model: &Model, pool: &Pool) -> Result<Model, Failure> {
    let mut model = model.clone();
    for value in model.parameters.values_mut() {
        if let Value::Text(text) = value {
            *value = Value::from(template::render(text, pool)?);
        }
    }
    Ok(model)
}

pub(super) fn llm_answer(settings: &Llm, answer: ModelAnswer) -> Outcome {
    let ModelAnswer { mut text, mut reasoning, structured, usage, finish_reason, files } = answer;
    if settings.separates_reasoning {
        let (clean, thought) = split_thoughts(&text);
        if reasoning.is_empty() {
            reasoning = thought;
        }
        text = clean;
    }
    let mut outputs = Outputs::new();
    if settings.schema.is_some() {
        let structured =
            structured.or_else(|| object_in(&text).map(Json::Object).map(Value::from_json));
        if let Some(structured) = structured {
            outputs.insert("structured_output".to_owned(), structured.into());
        }
    }
    for (name, value) in [
        ("text", Value::from(text)),
        ("reasoning_content", Value::from(reasoning)),
        ("usage", usage),
        ("finish_reason", Value::from(finish_reason)),
    ] {
        outputs.insert(name.to_owned(), value.into());
    }
    if !files.is_empty() {
        let value = files.into_iter().collect();
        outputs.insert("files".to_owned(), Segment { kind: Kind::FileList, value });
    }
    Outcome { outputs, ..Outcome::default() }
}

/// What is between `<think>` and `</think>`, apart.
fn split_thoughts(text: &str) -> (String, String) {
    let (mut clean, mut thoughts, mut rest) = (String::new(), Vec::new(), text);
    while let Some(start) = rest.find("<think") {
        let Some(open) = rest[start..].find('>') else { break };
        let inside = &rest[start + open + 1..];
        let Some(end) = inside.find("</think>") else { break };
        clean.push_str(&rest[..start]);
        thoughts.push(inside[..end].trim());
        rest = &inside[end + "</think>".len()..];
    }
    clean.push_str(rest);
    (clean.trim().to_owned(), thoughts.join("\n"))
}

const CLASSIFY: &str = "You sort texts into categories. Choose the one category that fits the text of the \
user best, and answer with a JSON object that has `keywords` (the words that decided), `category_id` and \
`category_name`, exactly as they are listed. Answer nothing else.";

pub(super) fn classifier(settings: &Classifier, pool: &Pool) -> Result<ModelRequest, Failure> {
    let query = match &settings.query {
        Some(selector) => lookup(pool, selector)?.map(|segment| segment.text()).unwrap_or_default(),
        None => String::new(),
    };
    let mut categories = Vec::new();
    for class in &settings.classes {
        let name = template::render(&class.name, pool)?;
        categories.push(json!({"category_id": class.id, "category_name": name}));
    }
    let instruction = template::render(&settings.instruction, pool)?;
    let mut system = format!("{CLASSIFY}\n\nCategories: {}", Json::Array(categories));
    if !instruction.trim().is_empty() {
        system.push_str(&format!("\n\nInstructions: {instruction}"));
    }
    let ids: Vec<&str> = settings.classes.iter().map(|class| class.id.as_str()).collect();
    let schema = json!({
        "type": "object",
        "properties": {
            "keywords": {"type": "array", "items": {"type": "string"}},
            "category_id": {"type": "string", "enum": ids},
            "category_name": {"type": "string"},
        },
        "required": ["category_id", "category_name"],
    });
    request(
        &settings.model,
        system,
        query,
        settings.memory.as_ref(),
        settings.vision.as_ref(),
        schema,
        pool,
    )
}

fn request(
    model: &Model,
    system: String,
    text: String,
    memory: Option<&Memory>,
    seen: Option<&Selector>,
    schema: Json,
    pool: &Pool,
) -> Result<ModelRequest, Failure> {
    let mut messages = vec![
        Message { role: Role::System, text: system, files: Vec::new() },
        Message { role: Role::User, text, files: Vec::new() },
    ];
    attach(vision(seen, pool)?, &mut messages);
    let history = memory.map(|memory| History { before: 1, rounds: memory.window });
    let model = with_parameters(model, pool)?;
    Ok(ModelRequest { model, messages, history, schema: Some(schema) })
}

pub(super) fn class_of(
    settings: &Classifier,
    pool: &Pool,
    answer: &ModelAnswer,
) -> Result<Outcome, Failure> {
    let (clean, _) = split_thoughts(&answer.text);
    let object = match answer.structured.as_ref().map(Value::to_json) {
        Some(Json::Object(object)) => Some(object),
        _ => object_in(&clean),
    };
    let Some(object) = object else {
        return Err(Failure::new("OutputParserError", "could not find json block in the output."));
    };
    let id = object.get("category_id").map(|id| text::python(&Value::from_json(id.clone())));
    // An answer that names no class is taken for the first.
    let found = settings.classes.iter().position(|class| Some(&class.id) == id.as_ref());
    let at = found.unwrap_or(0);
    let Some(class) = settings.classes.get(at) else {
        return Err(Failure::value("the classifier has no classes"));
    };
    let label = match class.label.as_str() {
        "" => format!("CLASS {}", at + 1),
        label => label.to_owned(),
    };
    let outputs = [
        ("class_name", Value::from(template::render(&class.name, pool)?).into()),
        ("class_label", Value::from(label).into()),
        ("class_id", Value::from(class.id.as_str()).into()),
        ("usage", answer.usage.clone().into()),
    ];
    Ok(Outcome::of(outputs).at(class.id.clone()))
}

const EXTRACT: &str = "You find values in texts. Look in the text of the user for what the schema asks for, and \
answer with one JSON object that fits the schema. Leave out what is not there, invent nothing, and answer \
nothing else.";

pub(super) fn extractor(settings: &Extractor, pool: &Pool) -> Result<ModelRequest, Failure> {
    let query = lookup(pool, &settings.query)?.map(|segment| segment.text()).unwrap_or_default();
    let instruction = template::render(&settings.instruction, pool)?;
    let schema = settings.schema();
    let mut system = format!("{EXTRACT}\n\nSchema: {schema}");
    if !instruction.trim().is_empty() {
        system.push_str(&format!("\n\nInstructions: {instruction}"));
    }
    request(
        &settings.model,
        system,
        query,
        settings.memory.as_ref(),
        settings.vision.as_ref(),
        schema,
        pool,
    )
}

pub(super) fn parameters_of(settings: &Extractor, answer: &ModelAnswer) -> Outcome {
    let (clean, _) = split_thoughts(&answer.text);
    let found = match answer.structured.as_ref().map(Value::to_json) {
        Some(Json::Object(object)) => Some(object),
        _ => object_in(&clean),
    };
    let found = found.map(|object| {
        object.into_iter().map(|(name, value)| (name, Value::from_json(value))).collect::<Object>()
    });
    let reason = match &found {
        None => Some(
            "Failed to extract result from function call or text response, using empty result."
                .to_owned(),
        ),
        Some(found) => check(&settings.parameters, found),
    };
    let found = found.unwrap_or_default();
    let mut outcome = Outcome::of([
        ("__is_success", Value::Int(i128::from(reason.is_none())).into()),
        ("__reason", reason.map_or(Value::Null, Value::from).into()),
        ("__usage", answer.usage.clone().into()),
    ]);
    for parameter in &settings.parameters {
        let value = found.get(&parameter.name).and_then(|value| coerce(parameter.kind, value));
        let value = value.or_else(|| parameter.kind.zero()).unwrap_or_default();
        let segment = match parameter.kind {
            kind if kind.is_list() => Segment { kind, value },
            _ => value.into(),
        };
        outcome.outputs.insert(parameter.name.clone(), segment);
    }
    outcome
}

/// What is wrong with the values that were found.
fn check(parameters: &[Parameter], found: &Object) -> Option<String> {
    if parameters.len() != found.len() {
        return Some("Invalid number of parameters".to_owned());
    }
    for parameter in parameters {
        let name = &parameter.name;
        let value = match found.get(name) {
            Some(value) => value,
            None if parameter.required => return Some(format!("Parameter {name} is required")),
            None => &Value::Null,
        };
        if !parameter.kind.fits(value) {
            let (kind, own) = (parameter.kind, Kind::of(value));
            let value = text::python(value);
            return Some(format!(
                "Invalid value for parameter {name}, expected segment type: {kind}, actual_type: {own}, value: {value}"
            ));
        }
        let chosen = |option: &String| value.as_text() == Some(option);
        let options = &parameter.options;
        if parameter.kind == Kind::String && !options.is_empty() && !options.iter().any(chosen) {
            return Some(format!("Invalid `select` value for parameter {name}"));
        }
    }
    None
}

/// A value in the type of its parameter, if it can be.
fn coerce(kind: Kind, value: &Value) -> Option<Value> {
    match (kind, value) {
        (Kind::Number, Value::Bool(flag)) => Some(Value::Int(i128::from(*flag))),
        (Kind::Number, Value::Int(_) | Value::Float(_)) => Some(value.clone()),
        (Kind::Number, Value::Text(text)) if text.contains('.') => {
            parse_float(text).map(Value::Float)
        }
        (Kind::Number, Value::Text(text)) => parse_int(text).map(Value::Int),
        (Kind::Boolean, Value::Bool(_) | Value::Int(_)) => Some(Value::Bool(value.is_truthy())),
        (Kind::String, Value::Text(_)) | (Kind::Object, Value::Object(_)) => Some(value.clone()),
        (list, Value::List(items)) => {
            let of = list.of_items()?;
            let keep = |item: &Value| match (of, item) {
                (Kind::Boolean, Value::Bool(_)) => Some(item.clone()),
                (Kind::Boolean, _) => None,
                _ => coerce(of, item),
            };
            Some(items.iter().filter_map(keep).collect())
        }
        _ => None,
    }
}
