//! Which variables the settings of a node name, and where.

use super::flow::{Aggregator, Operand};
use super::model::Memory;
use super::reach::{Body, FieldValue, ToolInput};
use super::{Node, NodeKind, Selector};
use crate::condition::Conditions;
use crate::template::Template;
use crate::value::Value;

/// A variable that a node names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The variable.
    pub selector: Selector,
    /// Whether it is in a header of a request, where secrets may be.
    pub in_header: bool,
}

impl Node {
    /// All variables that its settings name.
    pub fn references(&self) -> Vec<Reference> {
        let mut found = Found::default();
        found.kind(&self.kind);
        found.all
    }
}

#[derive(Default)]
struct Found {
    all: Vec<Reference>,
}

impl Found {
    fn selector(&mut self, selector: &Selector) {
        if !selector.is_empty() {
            self.all.push(Reference { selector: selector.clone(), in_header: false });
        }
    }

    fn selectors<'s>(&mut self, selectors: impl IntoIterator<Item = &'s Selector>) {
        selectors.into_iter().for_each(|selector| self.selector(selector));
    }

    fn text(&mut self, text: &str) {
        self.selectors(&Template::parse(text).selectors().map(<[_]>::to_vec).collect::<Vec<_>>());
    }

    fn header(&mut self, text: &str) {
        let template = Template::parse(text);
        let selectors = template.selectors();
        self.all.extend(
            selectors.map(|selector| Reference { selector: selector.to_vec(), in_header: true }),
        );
    }

    fn conditions(&mut self, conditions: &Conditions) {
        for condition in &conditions.all {
            self.selector(&condition.selector);
            if let Value::Text(text) = &condition.expected {
                self.text(text);
            }
        }
    }

    fn memory(&mut self, memory: Option<&Memory>) {
        memory.into_iter().for_each(|memory| self.text(&memory.query));
    }

    fn inputs(&mut self, inputs: &[(String, ToolInput)]) {
        for (_, input) in inputs {
            match input {
                ToolInput::Variable(selector) => self.selector(selector),
                ToolInput::Text(text) => self.text(text),
                ToolInput::Constant(_) => {}
            }
        }
    }

    fn operand(&mut self, operand: &Operand) {
        if let Operand::Variable(selector) = operand {
            self.selector(selector);
        }
    }

    fn kind(&mut self, kind: &NodeKind) {
        match kind {
            NodeKind::Start(_)
            | NodeKind::Trigger(_)
            | NodeKind::ContainerStart
            | NodeKind::LoopEnd => {}
            NodeKind::End(outputs) => self.selectors(outputs.iter().map(|output| &output.selector)),
            NodeKind::Answer(text) => self.text(text),
            NodeKind::Llm(llm) => {
                llm.prompts.iter().for_each(|prompt| self.text(&prompt.text));
                self.selectors(llm.variables.iter().map(|(_, selector)| selector));
                self.selectors(llm.context.iter().chain(&llm.vision));
                self.memory(llm.memory.as_ref());
            }
            NodeKind::Classifier(classifier) => {
                classifier.classes.iter().for_each(|class| self.text(&class.name));
                self.text(&classifier.instruction);
                self.selectors(classifier.query.iter().chain(&classifier.vision));
            }
            NodeKind::Extractor(extractor) => {
                self.selector(&extractor.query);
                self.text(&extractor.instruction);
                self.selectors(&extractor.vision);
            }
            NodeKind::Agent(agent) => self.inputs(&agent.parameters),
            NodeKind::Code(code) => {
                self.selectors(code.variables.iter().map(|(_, selector)| selector));
            }
            NodeKind::Template(template) => {
                self.selectors(template.variables.iter().map(|(_, selector)| selector));
            }
            NodeKind::Tool(tool) => {
                self.inputs(&tool.parameters);
                self.inputs(&tool.configuration);
            }
            NodeKind::Http(http) => {
                self.text(&http.url);
                self.text(&http.params);
                self.header(&http.headers);
                http.authorization.iter().for_each(|authorization| self.header(&authorization.key));
                self.body(&http.body);
            }
            NodeKind::Knowledge(knowledge) => self.selectors(&knowledge.query),
            NodeKind::Document(document) => self.selector(&document.files),
            NodeKind::Human(human) => self.text(&human.form),
            NodeKind::IfElse(cases) => {
                cases.iter().for_each(|case| self.conditions(&case.conditions));
            }
            NodeKind::Iteration(iteration) => {
                self.selectors([&iteration.over, &iteration.output]);
            }
            NodeKind::Loop(repeat) => {
                self.conditions(&repeat.until);
                repeat.variables.iter().for_each(|variable| self.operand(&variable.from));
            }
            NodeKind::Aggregator(Aggregator::One(selectors)) => self.selectors(selectors),
            NodeKind::Aggregator(Aggregator::Groups(groups)) => {
                self.selectors(groups.iter().flat_map(|(_, selectors)| selectors));
            }
            NodeKind::Assigner(changes) => {
                for change in changes {
                    self.selector(&change.target);
                    self.operand(&change.operand);
                }
            }
            NodeKind::ListOperator(list) => {
                self.selector(&list.list);
                list.extract.iter().for_each(|text| self.text(text));
                for (_, _, expected) in &list.filter {
                    if let Value::Text(text) = expected {
                        self.text(text);
                    }
                }
            }
        }
    }

    fn body(&mut self, body: &Body) {
        match body {
            Body::None => {}
            Body::Raw(text) | Body::Json(text) => self.text(text),
            Body::Binary(selector) => self.selector(selector),
            Body::Form(fields) | Body::Multipart(fields) => {
                for field in fields {
                    self.text(&field.name);
                    match &field.value {
                        FieldValue::Text(text) => self.text(text),
                        FieldValue::Files(selector) => self.selector(selector),
                    }
                }
            }
        }
    }
}
