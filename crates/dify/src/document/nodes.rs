//! Reads nodes: what all have, and the settings of each type.

mod flow;
mod model;
mod reach;

use super::fields::Fields;
use super::node_type;
use super::report::{Report, nearest};
use super::tree::{Data, Tree};
use crate::node::{Node, NodeKind, OnError, Retry, Selector};
use crate::value::{Kind, Segment, Value};

/// The types of nodes.
pub(super) const TYPES: [&str; 29] = [
    "start",
    "end",
    "answer",
    "llm",
    "code",
    "template-transform",
    "if-else",
    "question-classifier",
    "parameter-extractor",
    "knowledge-retrieval",
    "http-request",
    "tool",
    "agent",
    "iteration",
    "iteration-start",
    "loop",
    "loop-start",
    "loop-end",
    "variable-aggregator",
    "variable-assigner",
    "assigner",
    "list-operator",
    "document-extractor",
    "human-input",
    "trigger-webhook",
    "trigger-schedule",
    "trigger-plugin",
    "datasource",
    "knowledge-index",
];

/// Reads a node.
pub(super) fn read(outer: Fields<'_>, report: &mut Report<'_>) -> Option<Node> {
    let id = outer.need_text("id", "write an id that no other node has", report);
    let what = format!("node `{id}`");
    let hint = || "write `data: {type: llm, …}`; what runs is `data.type`";
    let Some(data) = outer.get("data") else {
        report.fault(outer.at(), format!("{what} needs `data`"), hint());
        return None;
    };
    let data = Fields::of(data, &what, report)?;
    let kind = read_type(outer, data, &what, report)?;
    let id_of =
        |key: &str, report: &mut Report<'_>| data.text(key, report).filter(|id| !id.is_empty());
    let loop_id = id_of("loop_id", report);
    let parent = outer.text("parentId", report).filter(|id| !id.is_empty());
    let parent =
        parent.or_else(|| id_of("iteration_id", report)).or_else(|| id_of("loop_id", report));
    let position = outer.map("position", report);
    let position = position
        .and_then(|position| Some((position.number("x", report)?, position.number("y", report)?)));
    let kind = settings(&kind, data, report)?;
    Some(Node {
        title: data.text_or_empty("title", report),
        on_error: on_error(data, report),
        retry: retry(data, report),
        at: outer.at(),
        id,
        parent,
        loop_id,
        kind,
        position,
    })
}

fn read_type(
    outer: Fields<'_>,
    data: Fields<'_>,
    what: &str,
    report: &mut Report<'_>,
) -> Option<String> {
    let Some(tree) = data.get("type") else {
        let outer = outer.text("type", report).unwrap_or_default().replace('_', "-");
        let hint = match node_type(&outer) {
            true => format!("write `type: {outer}` into `data`; what runs is `data.type`"),
            false => "write `data: {type: llm, …}`; what runs is `data.type`".to_owned(),
        };
        report.fault(data.at(), format!("{what} needs `data.type`"), hint);
        return None;
    };
    let name = tree.scalar().unwrap_or_default();
    match name.as_str() {
        "datasource" | "knowledge-index" => {
            let message = format!("{what}: `{name}` is for RAG pipelines");
            report.fault(tree.at, message, "import the app that asks the dataset");
            None
        }
        _ if node_type(&name) => Some(name),
        _ => {
            let dashed = name.replace('_', "-");
            let hint = match nearest(&dashed, TYPES.into_iter()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("use one of {}", TYPES[..24].join(", ")),
            };
            report.fault(tree.at, format!("{what}: unknown type `{name}`"), hint);
            None
        }
    }
}

fn settings(kind: &str, data: Fields<'_>, report: &mut Report<'_>) -> Option<NodeKind> {
    Some(match kind {
        "start" => NodeKind::Start(flow::start(data, report)),
        "end" => NodeKind::End(flow::outputs(data, report)),
        "answer" => NodeKind::Answer(data.need_text("answer", "write the text", report)),
        "llm" => NodeKind::Llm(Box::new(model::llm(data, report))),
        "question-classifier" => NodeKind::Classifier(Box::new(model::classifier(data, report))),
        "parameter-extractor" => NodeKind::Extractor(Box::new(model::extractor(data, report))),
        "agent" => NodeKind::Agent(Box::new(model::agent(data, report)?)),
        "code" => NodeKind::Code(Box::new(reach::code(data, report))),
        "template-transform" => NodeKind::Template(reach::template(data, report)),
        "tool" => NodeKind::Tool(Box::new(reach::tool(data, report))),
        "http-request" => NodeKind::Http(Box::new(reach::http(data, report))),
        "knowledge-retrieval" => NodeKind::Knowledge(Box::new(reach::knowledge(data, report))),
        "document-extractor" => NodeKind::Document(reach::document(data, report)),
        "human-input" => NodeKind::Human(Box::new(reach::human(data, report))),
        "if-else" => NodeKind::IfElse(flow::cases(data, report)),
        "iteration" => NodeKind::Iteration(Box::new(flow::iteration(data, report))),
        "loop" => NodeKind::Loop(Box::new(flow::repeat(data, report))),
        "iteration-start" | "loop-start" => NodeKind::ContainerStart,
        "loop-end" => NodeKind::LoopEnd,
        // `variable-assigner` is what the aggregator was called.
        "variable-aggregator" | "variable-assigner" => {
            NodeKind::Aggregator(flow::aggregator(data, report))
        }
        "assigner" => NodeKind::Assigner(flow::assigner(data, report)),
        "list-operator" => NodeKind::ListOperator(Box::new(flow::list_operator(data, report))),
        trigger => NodeKind::Trigger(TYPES.into_iter().find(|name| *name == trigger)?),
    })
}

fn retry(data: Fields<'_>, report: &mut Report<'_>) -> Retry {
    let Some(config) = data.map("retry_config", report) else { return Retry::default() };
    if !config.flag("retry_enabled", false, report) {
        return Retry::default();
    }
    let times = config.count("max_retries", 0, report).min(10);
    Retry {
        times: u32::try_from(times).unwrap_or(0),
        interval: config.count("retry_interval", 0, report).min(60_000),
    }
}

fn on_error(data: Fields<'_>, report: &mut Report<'_>) -> OnError {
    let strategies = [("none", 0), ("", 0), ("default-value", 1), ("fail-branch", 2)];
    match data.choice_or("error_strategy", &strategies, 0, report) {
        1 => OnError::Default(default_values(data, report)),
        2 => OnError::Branch,
        _ => OnError::Fail,
    }
}

fn default_values(data: Fields<'_>, report: &mut Report<'_>) -> Vec<(String, Value)> {
    let mut values = Vec::new();
    for fields in data.maps("default_value", report) {
        let key = fields.need_text("key", "write the name of the output", report);
        let written = fields.text("type", report).unwrap_or_else(|| "string".to_owned());
        let value = match (written.as_str(), fields.value("value")) {
            ("string", value) => value,
            ("number", Value::Text(text)) => {
                crate::value::number::parse_float(&text).map_or(Value::Null, Value::Float)
            }
            (_, Value::Text(text)) => {
                serde_json::from_str(&text).map_or(Value::Null, Value::from_json)
            }
            (_, value) => value,
        };
        let fits = match Kind::from_name(&written) {
            // An empty list of files is what is left of files.
            Some(Kind::FileList) => true,
            Some(kind) => kind.fits(&value) || Segment::typed(kind, value.clone()).is_ok(),
            None => false,
        };
        if !fits {
            let at = fields.get("value").map_or(fields.at(), |tree| tree.at);
            report.fault(
                at,
                format!("the default of `{key}` is no {written}"),
                "write a value of the type",
            );
        }
        values.push((key, value));
    }
    values
}

/// `[{variable, value_selector}]`
fn named_selectors(
    data: Fields<'_>,
    key: &'static str,
    report: &mut Report<'_>,
) -> Vec<(String, Selector)> {
    let mut read = Vec::new();
    for fields in data.maps(key, report) {
        let name = fields.text_or_empty("variable", report);
        if let Some(selector) = fields.selector("value_selector", report) {
            read.push((name, selector));
        } else {
            read.push((name, Vec::new()));
        }
    }
    read
}

/// A value as it stands in the file; numbers become the text that was written.
fn expected(tree: Option<&Tree>) -> Value {
    match tree.map(|tree| (&tree.data, tree)) {
        None => Value::Null,
        Some((Data::Number(_, written), _)) => Value::from(&**written),
        Some((Data::List(items), _)) => items.iter().map(|item| expected(Some(item))).collect(),
        Some((_, tree)) => Value::from_json(tree.to_json()),
    }
}
