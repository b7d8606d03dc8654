//! Dry run: what of a file can run as it is, what is missing, and how to supply it.

use std::collections::HashSet;
use std::fmt;

use crate::document::Document;
use crate::node::model::Model;
use crate::node::reach::Tool;
use crate::node::{Node, NodeKind};
use crate::pool::RESERVED;

/// What is there for nodes to reach.
pub trait Surroundings {
    /// The tool that stands for a tool of Dify.
    fn tool(&self, tool: &Tool) -> Option<String>;
    /// The model that stands for a model of Dify.
    fn model(&self, model: &Model) -> Option<String>;
    /// The tool that searches a dataset.
    fn dataset(&self, id: &str) -> Option<String>;
    /// Whether code of a language can run.
    fn runs_code(&self, language: &str) -> bool;
    /// Whether somebody supplied a secret.
    fn has_secret(&self, name: &str) -> bool;
    /// What takes the place of a node altogether.
    fn replacement(&self, node: &str) -> Option<String>;
}

/// What became of the nodes of a file.
#[derive(Clone, Debug, Default)]
pub struct DryRun {
    /// The nodes, in the order of the file.
    pub nodes: Vec<NodeReport>,
}

/// What became of a node.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its type.
    pub kind: String,
    /// Its line in the file.
    pub line: u32,
    /// What it becomes: the name of a tool or a model, or nothing if it needs none.
    pub becomes: Option<String>,
    /// What is missing; the node fails when it runs.
    pub missing: Vec<Missing>,
    /// What is worth knowing.
    pub notes: Vec<String>,
}

/// Something that a node lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What it is.
    pub what: Lack,
    /// How to supply it.
    pub how: String,
}

/// What a node lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A tool.
    Tool(String),
    /// A model.
    Model(String),
    /// A dataset.
    Dataset(String),
    /// Somebody who runs code.
    Code(String),
    /// The value of a secret.
    Secret(String),
    /// A secret where none may be.
    SecretPlace(String),
    /// What starts the run.
    Trigger(String),
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(name) => write!(f, "tool {name}"),
            Self::Model(name) => write!(f, "model {name}"),
            Self::Dataset(id) => write!(f, "dataset {id}"),
            Self::Code(language) => write!(f, "code in {language}"),
            Self::Secret(name) => write!(f, "secret {name}"),
            Self::SecretPlace(name) => write!(f, "secret {name} outside of headers"),
            Self::Trigger(kind) => write!(f, "{kind}"),
        }
    }
}

impl DryRun {
    /// Looks at all nodes of a file.
    pub fn of(document: &Document, around: &dyn Surroundings) -> Self {
        let secrets = document.environment.iter().filter(|variable| variable.value.is_none());
        let secrets: HashSet<&str> = secrets.map(|variable| variable.name.as_str()).collect();
        let look = |node: &Node| look(node, document, &secrets, around);
        Self { nodes: document.graph.nodes().iter().map(look).collect() }
    }

    /// Whether every node can run.
    pub fn is_complete(&self) -> bool {
        self.nodes.iter().all(|node| node.missing.is_empty())
    }
}

impl fmt::Display for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            let NodeReport { id, title, kind, line, becomes, missing, notes } = node;
            let state = if missing.is_empty() { "ok" } else { "missing" };
            write!(f, "{state:<8}line {line:<5}{kind} `{id}` {title}")?;
            if let Some(becomes) = becomes {
                write!(f, " → {becomes}")?;
            }
            writeln!(f)?;
            for Missing { what, how } in missing {
                writeln!(f, "          {what}: {how}")?;
            }
            for note in notes {
                writeln!(f, "          note: {note}")?;
            }
        }
        Ok(())
    }
}

fn look(
    node: &Node,
    document: &Document,
    secrets: &HashSet<&str>,
    around: &dyn Surroundings,
) -> NodeReport {
    let mut report = NodeReport {
        id: node.id.clone(),
        title: node.title.clone(),
        kind: node.kind.name().to_owned(),
        line: node.at.line,
        becomes: around.replacement(&node.id),
        missing: Vec::new(),
        notes: Vec::new(),
    };
    if report.becomes.is_some() {
        return report;
    }
    report.reach(node, around);
    report.variables(node, document, secrets, around);
    report
}

impl NodeReport {
    fn lacks(&mut self, what: Lack, how: impl Into<String>) {
        let missing = Missing { what, how: how.into() };
        if !self.missing.contains(&missing) {
            self.missing.push(missing);
        }
    }

    fn reach(&mut self, node: &Node, around: &dyn Surroundings) {
        let model = match &node.kind {
            NodeKind::Llm(settings) => Some(&settings.model),
            NodeKind::Classifier(settings) => Some(&settings.model),
            NodeKind::Extractor(settings) => Some(&settings.model),
            _ => None,
        };
        if let Some(model) = model {
            let name = format!("{}/{}", model.vendor(), model.name);
            match around.model(model) {
                Some(found) => self.becomes = Some(found),
                None => self.lacks(
                    Lack::Model(name.clone()),
                    format!(
                        "set up the provider, or map it: `models: {{\"{name}\": provider/model}}`"
                    ),
                ),
            }
        }
        match &node.kind {
            NodeKind::Tool(tool) => {
                let name = format!("{}/{}", tool.vendor(), tool.name);
                match around.tool(tool) {
                    Some(found) => self.becomes = Some(found),
                    None => {
                        let how = match tool.provider_kind.as_str() {
                            "api" => "import its OpenAPI document, and map it",
                            "workflow" => "import that workflow, and map it",
                            "mcp" => "add the MCP server, and map it",
                            _ => "add a tool or an MCP server that does the same, and map it",
                        };
                        self.lacks(
                            Lack::Tool(name.clone()),
                            format!("{how}: `tools: {{\"{name}\": tool}}`"),
                        );
                    }
                }
            }
            NodeKind::Knowledge(knowledge) => {
                for id in &knowledge.datasets {
                    match around.dataset(id) {
                        Some(found) => self.becomes = Some(found),
                        None => self.lacks(
                            Lack::Dataset(id.clone()),
                            format!(
                                "map it to a tool that searches: `datasets: {{\"{id}\": tool}}`"
                            ),
                        ),
                    }
                }
            }
            NodeKind::Code(code) if !around.runs_code(&code.language) => {
                let how = format!(
                    "map the node to a tool that does the same: `replace: {{\"{}\": tool}}`",
                    node.id
                );
                self.lacks(Lack::Code(code.language.clone()), how);
            }
            NodeKind::Trigger(kind) => {
                self.lacks(
                    Lack::Trigger((*kind).to_owned()),
                    "call the workflow as a tool instead; the arguments are what the trigger gives",
                );
            }
            _ => {}
        }
    }

    fn variables(
        &mut self,
        node: &Node,
        document: &Document,
        secrets: &HashSet<&str>,
        around: &dyn Surroundings,
    ) {
        for reference in node.references() {
            let [first, name, ..] = reference.selector.as_slice() else { continue };
            if first == "env" && secrets.contains(name.as_str()) {
                if !reference.in_header {
                    self.lacks(
                        Lack::SecretPlace(name.clone()),
                        "move it into a header of an http-request node; prompts, code, addresses and bodies never see secrets",
                    );
                } else if !around.has_secret(name) {
                    self.lacks(
                        Lack::Secret(name.clone()),
                        format!("supply a credential with the name `{name}`"),
                    );
                }
            } else if !RESERVED.contains(&first.as_str()) && document.graph.place(first).is_none() {
                let note = format!(
                    "`{first}.{name}` names a node that is not in the file, and renders as its own name"
                );
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
        }
    }
}
