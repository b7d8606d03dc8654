//! The oracle: what Dify's own engine did with the corpus, under fixed answers.

use std::collections::BTreeMap;
use std::fs;

use needs_shared::needs_shared;
use serde_json::{Map, Value as Json, json};
use windlass_dify::document::Document;
use windlass_dify::node::reach::CodeOutput;
use windlass_dify::node::{Node, NodeKind};
use windlass_dify::pool::Pool;
use windlass_dify::run::{self, Event, Limits, Outside};
use windlass_dify::step::{
    self, Answer, Failure, HttpAnswer, ModelAnswer, Outcome, ToolAnswer, Work,
};
use windlass_dify::value::{Kind, Object, Value};

use crate::vectors::{corpus, lines};

/// Answers as the oracle's README lists them.
struct Fixed {
    variant: usize,
}

fn object(json: Json) -> Object {
    match Value::from_json(json) {
        Value::Object(object) => (*object).clone(),
        _ => Object::new(),
    }
}

impl Fixed {
    fn typed(&self, kind: Kind, tag: &str) -> Json {
        match kind {
            Kind::Number | Kind::Integer | Kind::Float => (7 + self.variant).into(),
            Kind::Boolean => self.variant.is_multiple_of(2).into(),
            Kind::Object => json!({"k": tag}),
            Kind::StringList | Kind::AnyList => json!([format!("{tag}.1"), format!("{tag}.2")]),
            Kind::NumberList => json!([1, 2, 3]),
            Kind::ObjectList => json!([{"k": format!("{tag}.1")}, {"k": format!("{tag}.2")}]),
            Kind::BooleanList => json!([true, false]),
            _ => tag.into(),
        }
    }

    fn code(&self, id: &str, outputs: &[CodeOutput]) -> Json {
        let value = |output: &CodeOutput| {
            let tag = format!("code:{id}.{}", output.name);
            (output.name.clone(), self.typed(output.kind, &tag))
        };
        Json::Object(outputs.iter().map(value).collect())
    }
}

/// A value for a schema.
fn structured(schema: &Json, tag: &str) -> Json {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let filled = properties
                .map(|(key, schema)| (key.clone(), structured(schema, &format!("{tag}.{key}"))));
            Json::Object(filled.collect())
        }
        Some("array") => json!([structured(&schema["items"], &format!("{tag}.1"))]),
        Some("number" | "integer") => 7.into(),
        Some("boolean") => true.into(),
        _ => tag.into(),
    }
}

impl Outside for Fixed {
    fn answer(
        &mut self,
        node: &Node,
        work: &Work,
        _: &mut dyn FnMut(&str, &str, bool),
    ) -> Result<Answer, Failure> {
        self.fixed(node, Some(work)).ok_or_else(|| Failure::new("NoAnswer", node.id.clone()))
    }

    /// The oracle replaced such nodes as a whole: their settings were never looked at.
    /// The one kind that is not replaced here is http-request, whose address has to be one.
    fn stand_in(
        &mut self,
        node: &Node,
        pool: &Pool,
        _: &mut dyn FnMut(&str, &str, bool),
    ) -> Option<Result<Outcome, Failure>> {
        match step::begin(node, pool) {
            Err(failure) if failure.class == "InvalidURLError" => {
                Some(step::finish(node, pool, self.fixed(node, None)?))
            }
            _ => None,
        }
    }
}

impl Fixed {
    fn fixed(&self, node: &Node, work: Option<&Work>) -> Option<Answer> {
        let id = &node.id;
        Some(match (&node.kind, work) {
            (NodeKind::Classifier(settings), _) => {
                let class = &settings.classes[self.variant % settings.classes.len()];
                let text =
                    json!({"category_id": class.id, "category_name": class.name}).to_string();
                Answer::Model(Box::new(ModelAnswer { text, ..ModelAnswer::default() }))
            }
            (NodeKind::Extractor(settings), _) => {
                let found: Map<String, Json> = (settings.parameters.iter())
                    .map(|p| {
                        (p.name.clone(), self.typed(p.kind, &format!("param:{id}.{}", p.name)))
                    })
                    .collect();
                let text = Json::Object(found).to_string();
                Answer::Model(Box::new(ModelAnswer { text, ..ModelAnswer::default() }))
            }
            (NodeKind::Llm(settings), _) => {
                let answered =
                    settings.schema.as_ref().map(|schema| structured(schema, &format!("so:{id}")));
                Answer::Model(Box::new(ModelAnswer {
                    text: format!("llm:{id}"),
                    structured: answered.map(Value::from_json),
                    ..ModelAnswer::default()
                }))
            }
            (NodeKind::Tool(_), _) => Answer::Tool(Box::new(ToolAnswer {
                text: format!("tool:{id}"),
                json: vec![Value::from_json(json!({"k": format!("tool:{id}")}))],
                ..ToolAnswer::default()
            })),
            (NodeKind::Agent(_), _) => Answer::Tool(Box::new(ToolAnswer {
                text: format!("agent:{id}"),
                ..ToolAnswer::default()
            })),
            (NodeKind::Http(_), _) => Answer::Http(Box::new(HttpAnswer {
                status: 200,
                body: format!("http:{id}"),
                ..HttpAnswer::default()
            })),
            (NodeKind::Knowledge(_), _) => Answer::Knowledge(vec![Value::from_json(
                json!({"title": "t", "content": format!("knowledge:{id}"), "metadata": {}}),
            )]),
            (_, Some(Work::Documents(files))) => {
                Answer::Documents(vec![format!("doc:{id}"); files.len()])
            }
            (NodeKind::Code(settings), _) => {
                Answer::Code(Value::from_json(self.code(id, &settings.outputs)))
            }
            (NodeKind::Human(settings), _) => {
                let action = settings.actions[self.variant % settings.actions.len()].id.clone();
                let inputs = settings.inputs.iter();
                let inputs = inputs.map(|i| (i.name.clone(), json!(format!("human:{}", i.name))));
                Answer::Human { action, inputs: object(Json::Object(inputs.collect())) }
            }
            _ => return None,
        })
    }
}

/// What differs from the oracle, and why.
const DIFFERENT: [(&str, &str); 0] = [];

fn check(case: &Json) -> Result<(), String> {
    let file = case["file"].as_str().unwrap();
    let text = fs::read_to_string(corpus("dify").join(file)).unwrap();
    let document = Document::read(file, &text).map_err(|faults| faults[0].to_string())?;
    if case["status"] == "no start node" {
        return match document.graph.root().map(|root| &document.graph.node(root).kind) {
            Some(NodeKind::Trigger(_)) => Ok(()),
            other => Err(format!("expected a trigger, found {other:?}")),
        };
    }
    // Old forms that the oracle's importer does not take, and Dify did: they read.
    if case["status"] == "refused" {
        return Ok(());
    }
    let system = object(case.get("sys").cloned().unwrap_or_default());
    let mut pool = run::pool(&document, &system);
    let root = document.graph.node(document.graph.root().ok_or("no root")?);
    for (name, value) in case["inputs"].as_object().into_iter().flatten() {
        pool.set(&root.id, name, Value::from_json(value.clone()));
    }
    let variant = usize::try_from(case["variant"].as_u64().unwrap()).unwrap();
    let mut ran: BTreeMap<String, u64> = BTreeMap::new();
    let mut errors = Vec::new();
    let limits = Limits { steps: 10_000, ..Limits::default() };
    let ended =
        run::run(&document.graph, pool, limits, &mut Fixed { variant }, &mut |event| match event {
            Event::NodeStarted { node, .. } => {
                *ran.entry(document.graph.node(node).id.clone()).or_default() += 1;
            }
            Event::NodeFailed { node, failure, .. } | Event::NodeExcepted { node, failure, .. } => {
                errors.push(format!("{}: {failure}", document.graph.node(node).id));
            }
            _ => {}
        });
    let outputs: Map<String, Json> =
        ended.outputs.iter().map(|(name, value)| (name.clone(), value.to_json())).collect();
    let tell = |what: &str| {
        Err(format!(
            "{what}\n  got  {:?} {} {ran:?} {errors:?}\n  want {} {} {} {}",
            ended.status,
            Json::Object(outputs.clone()),
            case["status"],
            case["outputs"],
            case["ran"],
            case["error"]
        ))
    };
    let status =
        if ended.status.name() == "partial-succeeded" { "succeeded" } else { ended.status.name() };
    if case["status"] != status {
        return tell("status");
    }
    if status == "failed" {
        return Ok(());
    }
    if case["outputs"] != Json::Object(outputs.clone()) {
        return tell("outputs");
    }
    let expected: BTreeMap<String, u64> = case["ran"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(id, times)| (id.clone(), times.as_u64().unwrap()))
        .collect();
    if expected != ran {
        return tell("ran");
    }
    Ok(())
}

#[needs_shared]
#[test]
fn runs_are_those_of_difys_engine() {
    let cases = lines("dify-oracle/cases.jsonl");
    assert!(cases.len() >= 211);
    let deterministic: Vec<&Json> =
        cases.iter().filter(|case| case["deterministic"] == true).collect();
    let mut wrong = Vec::new();
    for case in &deterministic {
        let name = format!("{} {}", case["file"].as_str().unwrap(), case["variant"]);
        let known = DIFFERENT.iter().any(|(known, _)| name == *known);
        match (check(case), known) {
            (Err(why), false) => wrong.push(format!("{name}: {why}")),
            (Ok(()), true) => wrong.push(format!("{name}: is equal now; take it off the list")),
            _ => {}
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        deterministic.len(),
        wrong.join("\n")
    );
    assert!(DIFFERENT.len() * 200 <= deterministic.len(), "more than half a percent differs");
}
