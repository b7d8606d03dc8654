//! Settings of nodes that ask a model.

use std::collections::HashSet;

use super::{named_selectors, reach};
use crate::document::fields::Fields;
use crate::document::report::Report;
use crate::document::tree::Data;
use crate::node::Selector;
use crate::node::model::{
    Agent, Class, Classifier, Extractor, Llm, Memory, Model, Parameter, Prompt, Role,
};
use crate::value::{Kind, Value};

fn model(data: Fields<'_>, report: &mut Report<'_>) -> Model {
    let hint = "write `model: {provider: openai, name: gpt-4o, mode: chat}`";
    if data.need("model", hint, report).is_none() {
        return Model::default();
    }
    let Some(fields) = data.map("model", report) else { return Model::default() };
    let parameters = match fields.value("completion_params") {
        Value::Object(parameters) => (*parameters).clone(),
        _ => crate::value::Object::new(),
    };
    Model {
        provider: fields.text_or_empty("provider", report),
        name: fields.text_or_empty("name", report),
        completes: fields.text("mode", report).as_deref() == Some("completion"),
        parameters,
    }
}

fn memory(data: Fields<'_>, report: &mut Report<'_>) -> Option<Memory> {
    let fields = data.map("memory", report)?;
    let window = fields.map("window", report);
    let window = window.filter(|window| window.flag("enabled", false, report));
    Some(Memory {
        window: window.map(|window| window.count("size", 10, report)),
        query: fields.text_or_empty("query_prompt_template", report),
    })
}

fn vision(data: Fields<'_>, report: &mut Report<'_>) -> Option<Selector> {
    let fields = data.map("vision", report)?;
    if !fields.flag("enabled", false, report) {
        return None;
    }
    let selector = fields.map("configs", report)?.selector("variable_selector", report);
    selector.or_else(|| Some(vec!["sys".to_owned(), "files".to_owned()]))
}

fn prompt(fields: Fields<'_>, report: &mut Report<'_>) -> Prompt {
    let roles = [
        ("system", Role::System),
        ("user", Role::User),
        ("assistant", Role::Assistant),
        ("human", Role::User),
    ];
    let jinja = fields.text("jinja2_text", report).filter(|text| !text.is_empty());
    let wants_jinja = fields.text("edition_type", report).as_deref() == Some("jinja2");
    let (text, is_jinja) = match (wants_jinja, jinja) {
        (true, Some(jinja)) => (jinja, true),
        (is_jinja, _) => (fields.text_or_empty("text", report), is_jinja),
    };
    Prompt { role: fields.choice("role", &roles, Role::User, report), text, is_jinja }
}

pub(super) fn llm(data: Fields<'_>, report: &mut Report<'_>) -> Llm {
    let hint = "write a list of `{role: user, text: …}`";
    let prompts = match data.need("prompt_template", hint, report).map(|tree| &tree.data) {
        Some(Data::Map(_)) => data
            .map("prompt_template", report)
            .map(|fields| prompt(fields, report))
            .into_iter()
            .collect(),
        Some(_) => {
            let prompts = data.maps("prompt_template", report);
            prompts.into_iter().map(|fields| prompt(fields, report)).collect()
        }
        None => Vec::new(),
    };
    let context = data.map("context", report);
    let context = context.filter(|context| context.flag("enabled", false, report));
    let config = data.map("prompt_config", report);
    let structured = data.map("structured_output", report);
    let wants_structure = data.flag("structured_output_enabled", false, report);
    Llm {
        model: model(data, report),
        prompts,
        variables: config.map_or_else(Vec::new, |c| named_selectors(c, "jinja2_variables", report)),
        memory: memory(data, report),
        context: context.and_then(|context| context.selector("variable_selector", report)),
        vision: vision(data, report),
        schema: structured
            .filter(|_| wants_structure)
            .map(|fields| fields.json("schema"))
            .filter(|s| !s.is_null()),
        separates_reasoning: data.text("reasoning_format", report).as_deref() == Some("separated"),
    }
}

pub(super) fn classifier(data: Fields<'_>, report: &mut Report<'_>) -> Classifier {
    data.need("classes", "write a list of `{id: …, name: …}`", report);
    let (mut classes, mut ids) = (Vec::new(), HashSet::new());
    for fields in data.maps("classes", report) {
        let id = fields.need_text("id", "write an id that no other class has", report);
        if !ids.insert(id.clone()) {
            report.fault(fields.at(), format!("two classes have the id `{id}`"), "write another");
        }
        let name = fields.text_or_empty("name", report);
        classes.push(Class { id, name, label: fields.text_or_empty("label", report) });
    }
    if classes.is_empty() && data.get("classes").is_some() {
        report.fault(data.at(), "a classifier without classes", "write at least one class");
    }
    // It was called `instructions` first.
    let instruction = data.text("instruction", report).filter(|text| !text.is_empty());
    Classifier {
        model: model(data, report),
        query: data.selector("query_variable_selector", report),
        classes,
        instruction: instruction.unwrap_or_else(|| data.text_or_empty("instructions", report)),
        memory: memory(data, report),
        vision: vision(data, report),
    }
}

pub(super) fn extractor(data: Fields<'_>, report: &mut Report<'_>) -> Extractor {
    data.need("parameters", "write a list of `{name: …, type: string, description: …}`", report);
    let mut parameters = Vec::new();
    for fields in data.maps("parameters", report) {
        let name = fields.need_text("name", "write a name", report);
        if matches!(name.as_str(), "__reason" | "__is_success") {
            report.fault(fields.at(), format!("`{name}` is reserved"), "write another name");
        }
        let written = fields.text("type", report).unwrap_or_else(|| "string".to_owned());
        let kind = Kind::from_name(&written).unwrap_or_else(|| {
            report.fault(
                fields.at(),
                format!("unknown type `{written}`"),
                "write `string`, `number`, `array[string]` …",
            );
            Kind::String
        });
        let options = fields.list("options", report).iter();
        parameters.push(Parameter {
            name,
            kind,
            description: fields.text_or_empty("description", report),
            required: fields.flag("required", false, report),
            options: options.filter_map(|option| option.scalar()).collect(),
        });
    }
    Extractor {
        model: model(data, report),
        query: data.need_selector("query", report),
        parameters,
        instruction: data.text_or_empty("instruction", report),
        memory: memory(data, report),
        vision: vision(data, report),
    }
}

pub(super) fn agent(data: Fields<'_>, report: &mut Report<'_>) -> Option<Agent> {
    let hint = "write the name of a strategy, such as `function_calling`";
    let strategy = data.need_text("agent_strategy_name", hint, report);
    if strategy.is_empty()
        && let Some(tree) = data.get("agent_strategy_name")
    {
        report.fault(tree.at, "`agent_strategy_name` is empty", hint);
    }
    let parameters = match data.get("agent_parameters") {
        None => Vec::new(),
        Some(tree) => {
            let fields = Fields::of(tree, "agent_parameters", report)?;
            reach::inputs(fields, report)
        }
    };
    Some(Agent {
        provider: data.text_or_empty("agent_strategy_provider_name", report),
        strategy,
        parameters,
        memory: memory(data, report),
    })
}
