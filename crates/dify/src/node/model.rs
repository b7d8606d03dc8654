//! Nodes that ask a model.

use serde_json::{Map, Value as Json};

use super::Selector;
use super::reach::ToolInput;
use crate::value::{Kind, Object};

/// A model, as a file names it.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The provider: `openai`, or `langgenius/openai/openai`.
    pub provider: String,
    /// The model.
    pub name: String,
    /// Whether it completes text instead of chatting.
    pub completes: bool,
    /// Temperature and the like; texts in it are templates.
    pub parameters: Object,
}

impl Model {
    /// The short name of the provider.
    pub fn vendor(&self) -> &str {
        self.provider.rsplit('/').next().unwrap_or(&self.provider)
    }
}

/// A role in a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Instructions.
    System,
    /// The person.
    #[default]
    User,
    /// The model.
    Assistant,
}

/// A message of a prompt, as a template.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Whose it is.
    pub role: Role,
    /// The template.
    pub text: String,
    /// Whether it is Jinja.
    pub is_jinja: bool,
}

/// What a model remembers of the conversation.
#[derive(Clone, Debug)]
pub struct Memory {
    /// How many rounds; all that fit if there is no number.
    pub window: Option<u64>,
    /// The message after the history, as a template; the question of the run if empty.
    pub query: String,
}

/// Asks a model.
#[derive(Clone, Debug)]
pub struct Llm {
    /// The model.
    pub model: Model,
    /// The messages.
    pub prompts: Vec<Prompt>,
    /// What Jinja prompts see.
    pub variables: Vec<(String, Selector)>,
    /// What it remembers.
    pub memory: Option<Memory>,
    /// What `{{#context#}}` stands for.
    pub context: Option<Selector>,
    /// The files that it sees.
    pub vision: Option<Selector>,
    /// The JSON Schema of its answer.
    pub schema: Option<Json>,
    /// Whether what it thought is taken out of the text.
    pub separates_reasoning: bool,
}

/// Asks a model which class a question is of.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// The model.
    pub model: Model,
    /// The question.
    pub query: Option<Selector>,
    /// The classes.
    pub classes: Vec<Class>,
    /// A template.
    pub instruction: String,
    /// What it remembers.
    pub memory: Option<Memory>,
    /// The files that it sees.
    pub vision: Option<Selector>,
}

/// A class of questions.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its handle.
    pub id: String,
    /// What it is, as a template.
    pub name: String,
    /// Its label for people.
    pub label: String,
}

/// Asks a model for parameters in a text.
#[derive(Clone, Debug)]
pub struct Extractor {
    /// The model.
    pub model: Model,
    /// The text.
    pub query: Selector,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// A template.
    pub instruction: String,
    /// What it remembers.
    pub memory: Option<Memory>,
    /// The files that it sees.
    pub vision: Option<Selector>,
}

/// A parameter in a text.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// What it is.
    pub description: String,
    /// Whether it must be there.
    pub required: bool,
    /// The choices of a text.
    pub options: Vec<String>,
}

impl Extractor {
    /// The JSON Schema of the parameters.
    pub fn schema(&self) -> Json {
        let mut properties = Map::new();
        for parameter in &self.parameters {
            let mut property = Map::new();
            property.insert("description".into(), parameter.description.clone().into());
            match parameter.kind.of_items() {
                Some(items) => {
                    property.insert("type".into(), "array".into());
                    property.insert("items".into(), serde_json::json!({"type": items.name()}));
                }
                None => {
                    property.insert("type".into(), parameter.kind.name().into());
                }
            }
            if !parameter.options.is_empty() {
                property.insert("enum".into(), parameter.options.clone().into());
            }
            properties.insert(parameter.name.clone(), Json::Object(property));
        }
        let required = self.parameters.iter().filter(|parameter| parameter.required);
        let required: Vec<&str> = required.map(|parameter| parameter.name.as_str()).collect();
        serde_json::json!({"type": "object", "properties": properties, "required": required})
    }
}

/// Runs an agent.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Who offers the strategy.
    pub provider: String,
    /// The strategy: `function_calling`, `ReAct`.
    pub strategy: String,
    /// What it is given.
    pub parameters: Vec<(String, ToolInput)>,
    /// What it remembers.
    pub memory: Option<Memory>,
}
