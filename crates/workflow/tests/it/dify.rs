//! Dify's files at the boundary of the engine: its own suite, the oracle, and what is
//! durable about them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use needs_shared::needs_shared;
use serde_json::{Map, Value, json};
use windlass::{
    Behaviour, CallRequest, CallResult, Caller, Context, Engine, Error, Kind, TenantId, ToolBuilder,
};
use windlass_dify::Document;
use windlass_dify::node::reach::CodeOutput;
use windlass_dify::node::{Node, NodeKind};
use windlass_dify::value::Kind as DifyKind;
use windlass_workflow::log::RunStatus;
use windlass_workflow::store::MemoryRuns;
use windlass_workflow::{
    Answer, PlaceStatus, Prompt, PromptMaker, RunLimits, RunView, Runs, Workflows, dify,
};

use crate::setup::{House, waiting};

fn corpus(path: &str) -> PathBuf {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    shared.join("corpora/workflows").join(path)
}

/// The types of nodes that reach out.
const REACHING: [&str; 10] = [
    "llm",
    "question-classifier",
    "parameter-extractor",
    "agent",
    "tool",
    "http-request",
    "knowledge-retrieval",
    "document-extractor",
    "code",
    "human-input",
];

type Answers = Arc<dyn Fn(&Node, &Value) -> Option<Result<Value, String>> + Send + Sync>;

/// An engine whose one tool answers for all nodes that reach out.
struct Desk {
    engine: Engine,
    runs: Runs,
}

impl Desk {
    fn new(document: &Document, store: Arc<MemoryRuns>, answers: Answers) -> Self {
        let workflows =
            Workflows::new(store).limits(RunLimits { steps_run: 10_000, ..RunLimits::default() });
        let kinds = workflows.clone();
        let nodes: BTreeMap<String, Node> =
            document.graph.nodes().iter().map(|node| (node.id.clone(), node.clone())).collect();
        let nodes = Arc::new(nodes);
        let answer = move |given: Value| {
            let (answers, nodes) = (Arc::clone(&answers), Arc::clone(&nodes));
            let id = given["node"].as_str().unwrap_or_default().to_owned();
            async move {
                match answers(&nodes[&id], &given) {
                    Some(Ok(outputs)) => Ok(outputs),
                    Some(Err(error)) => Err(Error::tool(error)),
                    None => Err(Error::tool(format!("nothing answers for `{id}`"))),
                }
            }
        };
        let engine = Engine::builder()
            .kind(Kind::Workflow, move |spec| kinds.bind(spec))
            .tool(ToolBuilder::from_fn("answer", answer).behaviour(Behaviour::READ_ONLY))
            .build()
            .unwrap();
        let runs = Runs::new(&engine, &workflows);
        Self { engine, runs }
    }

    /// Loads a file whose inputs are not checked: the references did not check them.
    fn load(&self, source: &str, inputs: &[String], replace: &Value) {
        let parameters: Vec<Value> =
            inputs.iter().map(|name| json!({"name": name, "type": "any"})).collect();
        let definition = json!({
            "name": "flow",
            "kind": "workflow",
            "description": "A file of Dify.",
            "parameters": parameters,
            "dify": {"source": source, "replace": replace},
        });
        let report = self.engine.load_text("flow.json", &definition.to_string());
        assert!(report.errors.is_empty(), "{:#?}", report.errors);
    }

    async fn call(&self, input: Value) -> (CallResult, RunView) {
        let caller = Caller {
            user: Some("user-1".into()),
            conversation: Some("conv-1".into()),
            ..Caller::default()
        };
        let request = CallRequest::new("flow", input).context(Context::new(caller));
        let result = self.engine.call(request).await;
        let run = result.id.to_string();
        let view = self.runs.show(&TenantId::default(), &run).await.unwrap().unwrap();
        (result, view)
    }
}

/// How often each node ran, containers' first nodes left out.
fn ran(view: &RunView) -> BTreeMap<String, u64> {
    let mut ran = BTreeMap::new();
    for place in &view.places {
        let id = place.place.rsplit('.').next().unwrap_or_default();
        if &*place.place != "dify" && place.status != PlaceStatus::Skipped {
            *ran.entry(id.to_owned()).or_default() += 1;
        }
    }
    ran
}

fn status(result: &CallResult, view: &RunView) -> &'static str {
    let handled = view.places.iter().any(|place| place.status == PlaceStatus::Handled);
    match (&result.outcome, handled) {
        (Err(_), _) => "failed",
        (Ok(_), true) => "partial-succeeded",
        (Ok(_), false) => "succeeded",
    }
}

fn outputs(result: &CallResult) -> Value {
    match &result.outcome {
        Ok(output) => output.structured.as_deref().cloned().unwrap_or_default(),
        Err(_) => json!({}),
    }
}

/// Nodes of these types, and those with ids, are answered by the tool.
fn replacing(kinds: &[&str], ids: impl IntoIterator<Item = String>) -> Value {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned());
    Value::Object(kinds.chain(ids).map(|key| (key, json!("answer"))).collect())
}

/// Sets what a case changes in the file.
fn patched(mut text: String, patch: &Value) -> String {
    for (id, fields) in patch.as_object().into_iter().flatten() {
        let place = text.find(&format!("id: {id}\n")).unwrap();
        let data = text[..place].rfind("- data:\n").unwrap() + "- data:\n".len();
        let indent = text[data..].len() - text[data..].trim_start().len();
        let fields = fields.as_object().unwrap().iter();
        let lines: String = fields
            .map(|(name, value)| format!("{}{name}: {value}\n", " ".repeat(indent)))
            .collect();
        text.insert_str(data, &lines);
    }
    text
}

async fn fixture(case: &Value) -> Result<(), String> {
    let file = format!("{}.yml", case["fixture"].as_str().unwrap());
    let source = fs::read_to_string(corpus("dify-fixtures").join(&file)).unwrap();
    let source = patched(source, &case["patch"]);
    let document = Document::read(&file, &source).map_err(|faults| faults[0].to_string())?;
    let mocks = case["mocks"].clone();
    let answers: Answers = Arc::new(move |node, given| {
        let own = &mocks["nodes"][&node.id];
        if let Some(error) = own["error"].as_str() {
            return Some(Err(error.to_owned()));
        }
        if let Some(outputs) = own.get("outputs") {
            return Some(Ok(outputs.clone()));
        }
        if own["rule"].as_str().is_some_and(|rule| rule.contains("[item, item * 2]")) {
            let variables = given["variables"].as_object().unwrap();
            let item = variables.iter().find(|(name, _)| name.ends_with(".item")).unwrap().1;
            let item = item.as_i64().unwrap();
            return Some(Ok(json!({"result": [item, item * 2]})));
        }
        let by_hand = json!("one two three");
        let text = |name: &str| json!({"text": mocks[name].as_str().unwrap_or("unused")});
        Some(Ok(match &node.kind {
            NodeKind::Llm(_) if mocks.is_null() => json!({"text": by_hand}),
            NodeKind::Llm(_) => text("llm"),
            NodeKind::Agent(_) => text("agent"),
            NodeKind::Tool(_) => mocks.get("tool").cloned().unwrap_or_else(|| json!({"text": ""})),
            NodeKind::Http(_) => mocks["http"].clone(),
            NodeKind::Knowledge(_) => json!({"result": [{"content": mocks["retrieval"]}]}),
            _ => return None,
        }))
    });
    let desk = Desk::new(&document, Arc::default(), answers);
    let ids = case["mocks"]["nodes"].as_object().into_iter().flatten().map(|(id, _)| id.clone());
    let mut input = case["inputs"].as_object().unwrap().clone();
    input.entry("query").or_insert_with(|| case["query"].clone());
    let names: Vec<String> = input.keys().cloned().collect();
    desk.load(&source, &names, &replacing(&REACHING, ids));
    let (result, view) = desk.call(Value::Object(input)).await;
    let got = outputs(&result);
    let tell = |what: &str| {
        let errors: Vec<_> = view.places.iter().filter_map(|p| p.error.as_ref()).collect();
        Err(format!("{}: {what}, got {got} {errors:?}", case["fixture"]))
    };
    let wanted = case["expected_status"].as_str().unwrap_or("succeeded");
    if status(&result, &view) != wanted {
        return tell(&format!("status {wanted}"));
    }
    for (name, value) in case["expected_outputs"].as_object().into_iter().flatten() {
        if got.get(name) != Some(value) {
            return tell(&format!("{name} is {value}"));
        }
    }
    Ok(())
}

#[needs_shared]
#[tokio::test]
async fn all_cases_of_difys_own_suite_give_the_expected_outputs() {
    let text = fs::read_to_string(corpus("dify-fixtures/cases.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(cases.len(), 81);
    // The one whose Python has no mock.
    let python = "array_iteration_formatting_workflow";
    let mut wrong = Vec::new();
    for case in cases.iter().filter(|case| case["fixture"] != python) {
        wrong.extend(fixture(case).await.err());
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A value of a type, as the oracle's README has it.
fn typed(kind: DifyKind, tag: &str, variant: usize) -> Value {
    match kind {
        DifyKind::Number | DifyKind::Integer | DifyKind::Float => (7 + variant).into(),
        DifyKind::Boolean => variant.is_multiple_of(2).into(),
        DifyKind::Object => json!({"k": tag}),
        DifyKind::StringList | DifyKind::AnyList => json!([format!("{tag}.1"), format!("{tag}.2")]),
        DifyKind::NumberList => json!([1, 2, 3]),
        DifyKind::ObjectList => json!([{"k": format!("{tag}.1")}, {"k": format!("{tag}.2")}]),
        DifyKind::BooleanList => json!([true, false]),
        _ => tag.into(),
    }
}

fn structured(schema: &Value, tag: &str) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let one = |(key, schema): (&String, &Value)| {
                (key.clone(), structured(schema, &format!("{tag}.{key}")))
            };
            Value::Object(properties.map(one).collect())
        }
        Some("array") => json!([structured(&schema["items"], &format!("{tag}.1"))]),
        Some("number" | "integer") => 7.into(),
        Some("boolean") => true.into(),
        _ => tag.into(),
    }
}

/// What the oracle's nodes gave.
fn fixed(node: &Node, variant: usize) -> Option<Value> {
    let id = &node.id;
    Some(match &node.kind {
        NodeKind::Llm(llm) => {
            let mut outputs = json!({"text": format!("llm:{id}")});
            if let Some(schema) = &llm.schema {
                outputs["structured_output"] = structured(schema, &format!("so:{id}"));
            }
            outputs
        }
        NodeKind::Classifier(settings) => {
            let class = &settings.classes[variant % settings.classes.len()];
            json!({"class_name": class.name, "class_id": class.id})
        }
        NodeKind::Extractor(settings) => {
            let one = |p: &windlass_dify::node::model::Parameter| {
                (p.name.clone(), typed(p.kind, &format!("param:{id}.{}", p.name), variant))
            };
            let mut outputs: Map<String, Value> = settings.parameters.iter().map(one).collect();
            outputs.insert("__is_success".into(), 1.into());
            outputs.insert("__reason".into(), Value::Null);
            Value::Object(outputs)
        }
        NodeKind::Tool(_) => {
            json!({"text": format!("tool:{id}"), "files": [], "json": [{"k": format!("tool:{id}")}]})
        }
        NodeKind::Http(_) => {
            json!({"status_code": 200, "body": format!("http:{id}"), "headers": {}, "files": []})
        }
        NodeKind::Knowledge(_) => {
            json!({"result": [{"title": "t", "content": format!("knowledge:{id}"), "metadata": {}}]})
        }
        NodeKind::Document(document) => match document.is_list {
            true => json!({"text": [format!("doc:{id}")]}),
            false => json!({"text": format!("doc:{id}")}),
        },
        NodeKind::Agent(_) => json!({"text": format!("agent:{id}"), "files": [], "json": []}),
        NodeKind::Code(code) => {
            let one = |output: &CodeOutput| {
                let tag = format!("code:{id}.{}", output.name);
                (output.name.clone(), typed(output.kind, &tag, variant))
            };
            Value::Object(code.outputs.iter().map(one).collect())
        }
        NodeKind::Human(human) => {
            let action = &human.actions[variant % human.actions.len()];
            let mut outputs = json!({"__action_id": action.id});
            for input in &human.inputs {
                outputs[&input.name] = format!("human:{}", input.name).into();
            }
            outputs
        }
        _ => return None,
    })
}

async fn oracle(case: &Value) -> Result<(), String> {
    let file = case["file"].as_str().unwrap();
    let source = fs::read_to_string(corpus("dify").join(file)).unwrap();
    let document = Document::read(file, &source).map_err(|faults| faults[0].to_string())?;
    if matches!(case["status"].as_str(), Some("refused" | "no start node")) {
        return Ok(());
    }
    let variant = usize::try_from(case["variant"].as_u64().unwrap()).unwrap();
    let answers: Answers = Arc::new(move |node, _| fixed(node, variant).map(Ok));
    let desk = Desk::new(&document, Arc::default(), answers);
    let mut input = case["inputs"].as_object().cloned().unwrap_or_default();
    for name in ["query", "files"] {
        if let Some(value) = case["sys"].get(name) {
            input.entry(name).or_insert_with(|| value.clone());
        }
    }
    let names: Vec<String> = input.keys().cloned().collect();
    desk.load(&source, &names, &replacing(&REACHING, []));
    let (result, view) = desk.call(Value::Object(input)).await;
    let (got, ran) = (outputs(&result), ran(&view));
    let tell = |what: &str| {
        let errors: Vec<_> = view.places.iter().filter_map(|p| p.error.as_ref()).collect();
        let why = result.outcome.as_ref().err().map(|error| error.message().to_owned());
        Err(format!(
            "{file} {variant}: {what}\n  got  {got} {ran:?} {errors:?} {why:?}\n  want {} {} {}",
            case["status"], case["outputs"], case["ran"]
        ))
    };
    let ended = status(&result, &view).trim_start_matches("partial-");
    if case["status"] != ended {
        return tell("status");
    }
    if ended == "failed" {
        return Ok(());
    }
    if case["outputs"] != got {
        return tell("outputs");
    }
    let wanted: BTreeMap<String, u64> = case["ran"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(id, n)| (id.clone(), n.as_u64().unwrap()))
        .collect();
    if wanted != ran {
        return tell("which nodes ran");
    }
    Ok(())
}

#[needs_shared]
#[tokio::test]
async fn runs_are_those_of_difys_engine() {
    let text = fs::read_to_string(corpus("dify-oracle/cases.jsonl")).unwrap();
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let deterministic: Vec<&Value> = cases.iter().filter(|c| c["deterministic"] == true).collect();
    assert!(deterministic.len() >= 211);
    let mut wrong = Vec::new();
    for case in &deterministic {
        wrong.extend(oracle(case).await.err());
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        deterministic.len(),
        wrong.join("\n")
    );
}

fn definition(source: &str, more: &Value) -> String {
    let mut dify = json!({"source": source});
    dify.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    json!({"name": "flow", "kind": "workflow", "description": "A file of Dify.", "dify": dify})
        .to_string()
}

/// Asks three people at once, and does something for those who agree.
const PEOPLE: &str = r#"
app: {name: people, mode: workflow}
workflow:
  conversation_variables: [{name: people, value_type: "array[string]", value: [a, b, c]}]
  graph:
    nodes:
    - {id: start, data: {type: start}}
    - {id: first, data: {type: tool, tool_name: effect, tool_parameters: {name: {type: mixed, value: first}}}}
    - {id: each, data: {type: iteration, iterator_selector: [conversation, people], output_selector: [joined, output], start_node_id: inside, is_parallel: true, parallel_nums: 3}}
    - {id: inside, parentId: each, data: {type: iteration-start}}
    - {id: ask, parentId: each, data: {type: human-input, form_content: "{{#each.item#}}?", inputs: [{type: paragraph, output_variable_name: why}], user_actions: [{id: "yes", title: Yes}, {id: "no", title: "No"}], timeout: 2, timeout_unit: day}}
    - {id: act, parentId: each, data: {type: tool, tool_name: effect, tool_parameters: {name: {type: mixed, value: "{{#each.item#}} {{#ask.why#}}"}}}}
    - {id: joined, parentId: each, data: {type: variable-aggregator, output_type: string, variables: [[act, text], [ask, __action_id]]}}
    - {id: end, data: {type: end, outputs: [{variable: all, value_selector: [each, output]}]}}
    edges:
    - {source: start, target: first}
    - {source: first, target: each}
    - {source: inside, target: ask}
    - {source: ask, sourceHandle: "yes", target: act}
    - {source: ask, sourceHandle: "no", target: joined}
    - {source: act, target: joined}
    - {source: each, target: end}
"#;

#[tokio::test]
async fn people_in_parallel_rounds_are_asked_one_by_one_and_effects_are_not_repeated() {
    let house = House::new();
    let run = waiting(&house.run(&definition(PEOPLE, &json!({})), json!({})).await);
    let view = house.show(&run).await;
    let places: Vec<_> = view.head.waits.iter().map(|open| &*open.place).collect();
    assert_eq!(places, ["each[0].ask", "each[1].ask", "each[2].ask"]);
    // The first process is gone, and the file has changed.
    let other = house.beside();
    other.load("name: flow\nkind: workflow\ndescription: Other.\nsteps: {other: {set: other}}");
    let waker = other.wake();
    for (place, action, left) in
        [("each[1].ask", "yes", 2), ("each[2].ask", "no", 1), ("each[0].ask", "yes", 0)]
    {
        let answer = Answer {
            place: Some(place.to_owned()),
            action: Some(action.to_owned()),
            form: Some(json!({"why": format!("because of {place}")})),
            ..Answer::default()
        };
        other.runs.answer(&TenantId::default(), &run, answer).await.unwrap();
        other
            .until(&run, |view| match left {
                0 => view.head.status.has_ended(),
                left => view.head.status == RunStatus::Waiting && view.head.waits.len() == left,
            })
            .await;
    }
    let view = other.show(&run).await;
    let end = serde_json::to_value(&view.head.end).unwrap();
    let expected = json!([
        "{\"id\":\"a because of each[0].ask\"}",
        "{\"id\":\"b because of each[1].ask\"}",
        "no"
    ]);
    assert_eq!(end["value"]["all"], expected, "{view:#?}");
    assert_eq!(other.done.all(), ["first", "b because of each[1].ask", "a because of each[0].ask"]);
    let state =
        |place: &str| view.places.iter().find(|known| &*known.place == place).map(|p| p.status);
    assert_eq!(state("each[2].act"), Some(PlaceStatus::Skipped));
    assert_eq!(state("each[2].joined"), Some(PlaceStatus::Succeeded));
    waker.abort();
}

#[tokio::test]
async fn failures_take_their_branch_or_fail_the_run_with_their_step() {
    let file = |more: &str| {
        format!(
            r#"
app: {{name: pay, mode: workflow}}
workflow:
  graph:
    nodes:
    - {{id: start, data: {{type: start}}}}
    - {{id: pay, data: {{type: tool, tool_name: pay, tool_parameters: {{amount: {{type: constant, value: 5}}}}{more}}}}}
    - {{id: good, data: {{type: end, outputs: [{{variable: ok, value_selector: [pay, text]}}]}}}}
    - {{id: bad, data: {{type: end, outputs: [{{variable: why, value_selector: [pay, error_message]}}]}}}}
    edges:
    - {{source: start, target: pay}}
    - {{source: pay, target: good}}
    - {{source: pay, sourceHandle: fail-branch, target: bad}}
"#
        )
    };
    let house = House::new();
    let handled = file(", error_strategy: fail-branch");
    let result = house.run(&definition(&handled, &json!({})), json!({})).await;
    assert_eq!(House::value(&result), json!({"why": "no money"}));
    let output = result.outcome.unwrap();
    assert_eq!(output.metadata.get("run").unwrap()["handled_errors"], 1);

    let failed = house.run(&definition(&file(""), &json!({})), json!({})).await;
    let error = failed.outcome.unwrap_err();
    assert!(error.message().contains("no money") && error.message().contains("`pay`"), "{error:?}");
    // What may have had an effect is tried once, whatever the file says.
    let retried = file(", retry_config: {retry_enabled: true, max_retries: 3, retry_interval: 1}");
    let before = house.done.all().len();
    house.run(&definition(&retried, &json!({})), json!({})).await;
    assert_eq!(house.done.all().len(), before + 1);
}

#[tokio::test]
async fn what_is_missing_is_said_at_the_node_and_what_is_wrong_at_its_line() {
    let house = House::new();
    let file = |node: &str| {
        format!(
            "app: {{name: x, mode: workflow}}\nworkflow:\n  graph:\n    nodes:\n    - {{id: s, data: {{type: start}}}}\n    - {{id: n, data: {node}}}\n    - {{id: e, data: {{type: end, outputs: []}}}}\n    edges: [{{source: s, target: n}}, {{source: n, target: e}}]\n"
        )
    };
    for (node, expected) in [
        (
            "{type: code, code_language: javascript, code: x, outputs: {}}",
            "nothing here runs javascript of Dify's code nodes; map it to a tool: `dify: {replace: {\"n\": tool}}`",
        ),
        (
            "{type: tool, provider_id: a/b/tavily, tool_name: tavily_search}",
            "there is no tool `tavily_search` for Dify's a/b/tavily/tavily_search; map it",
        ),
        (
            "{type: llm, model: {provider: x/y/openai, name: gpt-4o}, prompt_template: [{role: user, text: hi}]}",
            "there are no models here; map it: `dify: {models: {\"openai/gpt-4o\": provider/model}}`",
        ),
        (
            "{type: knowledge-retrieval, dataset_ids: [d], query_variable_selector: [sys, user_id]}",
            "there is no dataset d; map it",
        ),
        (
            "{type: agent, agent_strategy_name: react}",
            "nothing here stands for nodes of type agent",
        ),
    ] {
        let result = house.run(&definition(&file(node), &json!({})), json!({})).await;
        let error = result.outcome.unwrap_err();
        assert!(error.message().contains(expected), "{node}: {}", error.message());
    }
    let report = house.report(&definition(&file("{type: lm}"), &json!({})));
    let error = report.errors[0].to_string();
    assert!(error.contains("line 6, column 28: node `n`: unknown type `lm`"), "{error}");
    let mapped = json!({"replace": {"code": "look"}});
    let code = "{type: code, code: x, variables: [{variable: v, value_selector: [sys, app_id]}], outputs: {}}";
    let result = house.run(&definition(&file(code), &mapped), json!({})).await;
    assert!(result.is_success(), "{result:?}");
}

#[tokio::test]
async fn models_requests_and_datasets_are_reached_by_what_stands_for_them() {
    let prompts: PromptMaker = Arc::new(|prompt: &Prompt| {
        if prompt.model.as_deref() != Some("openai/gpt-5") {
            return Err(Error::tool("no such model"));
        }
        let system = prompt.system.clone().unwrap_or_default();
        let tool = ToolBuilder::from_fn(&prompt.name, move |input: Value| {
            let text = format!("{system}|{}", input["message"].as_str().unwrap_or_default());
            async move { json!({"text": text}) }
        });
        tool.behaviour(Behaviour::READ_ONLY).build("workflow")
    });
    let workflows = Workflows::default().prompts(prompts);
    let kinds = workflows.clone();
    let engine = Engine::builder()
        .kind(Kind::Workflow, move |spec| kinds.bind(spec))
        .tool(ToolBuilder::from_fn("http_request", |input: Value| async move {
            json!({"status_code": 201, "headers": {"x": "y"}, "body": input})
        }))
        .tool(
            ToolBuilder::from_fn("search", |input: Value| async move {
                json!({"results": [{"title": "T", "text": format!("about {}", input["query"])}]})
            })
            .behaviour(Behaviour::READ_ONLY),
        )
        .build()
        .unwrap();
    let source = r#"
app: {name: desk, mode: advanced-chat}
workflow:
  graph:
    nodes:
    - {id: s, data: {type: start}}
    - {id: h, data: {type: http-request, method: post, url: "https://e.org/a?b=1", params: "q: x y", headers: "X-A:{{#sys.query#}}", body: {type: json, data: '{"n": "{{#sys.query#}}"}'}, timeout: {read: 9}}}
    - {id: k, data: {type: knowledge-retrieval, dataset_ids: [d], query_variable_selector: [sys, query]}}
    - {id: m, data: {type: llm, model: {provider: langgenius/tongyi/tongyi, name: qwen-max}, prompt_template: [{role: system, text: "Use {{#context#}}"}, {role: user, text: "{{#sys.query#}}?"}], context: {enabled: true, variable_selector: [k, result]}}}
    - {id: a, data: {type: answer, answer: "{{#h.status_code#}} {{#h.body#}}\n{{#m.text#}}"}}
    edges: [{source: s, target: h}, {source: h, target: k}, {source: k, target: m}, {source: m, target: a}]
"#;
    let mut definition: Value = serde_json::from_str(&definition(
        source,
        &json!({"models": {"tongyi/qwen-max": "openai/gpt-5"}, "datasets": {"d": "search"}}),
    ))
    .unwrap();
    definition["parameters"] = json!([{"name": "query", "type": "string", "required": true}]);
    let report = engine.load_text("flow.json", &definition.to_string());
    assert!(report.errors.is_empty(), "{:#?}", report.errors);
    let result = engine.call(CallRequest::new("flow", json!({"query": "hi"}))).await;
    let answer = House::value(&result)["answer"].as_str().unwrap().to_owned();
    let (first, second) = answer.split_once('\n').unwrap();
    let sent: Value = serde_json::from_str(first.strip_prefix("201 ").unwrap()).unwrap();
    assert_eq!(
        sent,
        json!({"url": "https://e.org/a?b=1&q=x+y", "method": "POST", "headers": {"X-A": "hi", "Content-Type": "application/json"}, "body": {"n": "hi"}, "timeout": 9})
    );
    assert_eq!(second, "Use about \"hi\"|hi?");

    let runs = Runs::new(&engine, &workflows);
    let found = runs.dry_run(&TenantId::default(), &definition).unwrap();
    assert!(found.is_complete(), "{found}");
    definition["dify"]["models"] = json!({});
    let found = runs.dry_run(&TenantId::default(), &definition).unwrap();
    assert!(found.to_string().contains("model tongyi/qwen-max: set up the provider"), "{found}");
}

/// Every file of the corpus becomes a definition that loads.
#[needs_shared]
#[tokio::test]
async fn every_file_imports_as_a_definition_that_loads() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for folder in fs::read_dir(corpus("dify")).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            match dify::import(&name, &text) {
                Ok(import) => {
                    let house = House::new();
                    let report = house.engine.load_text(&name, &import.definition.to_string());
                    wrong.extend(report.errors.iter().map(|error| format!("{name}: {error}")));
                }
                Err(faults) => wrong.push(format!("{name}: {}", faults[0])),
            }
            count += 1;
        }
    }
    assert!(count >= 105, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
