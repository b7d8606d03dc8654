//! Runs of graphs made for the purpose: retries, limits, rounds within rounds, and the
//! order in which text comes out.

use std::fmt::Write;

use serde_json::{Value as Json, json};
use windlass_dify::document::Document;
use windlass_dify::node::Node;
use windlass_dify::run::{self, Ended, Event, Limits, Outside, Status};
use windlass_dify::step::{Answer, Failure, ToolAnswer, Work};
use windlass_dify::value::{Object, Value};

/// Tools that fail as often as their argument `fails` says, and else say `text`.
#[derive(Default)]
struct Tools {
    called: usize,
    waited: u64,
}

impl Outside for Tools {
    fn answer(
        &mut self,
        _: &Node,
        work: &Work,
        text: &mut dyn FnMut(&str, &str, bool),
    ) -> Result<Answer, Failure> {
        self.called += 1;
        match work {
            Work::Tool(call) => {
                let argument = |name: &str| call.arguments.get(name).cloned().unwrap_or_default();
                let fails = argument("fails").as_number().unwrap_or(0.0);
                #[expect(clippy::cast_precision_loss, reason = "small counts")]
                if (self.called as f64) <= fails || argument("text") == Value::from("bad") {
                    return Err(Failure::new("ToolError", "it broke"));
                }
                let said = argument("text").as_text().unwrap_or_default().to_owned();
                Ok(Answer::Tool(Box::new(ToolAnswer { text: said, ..ToolAnswer::default() })))
            }
            Work::Model(_) => {
                text("text", "wor", false);
                text("text", "ds", false);
                text("text", "", true);
                let answer = windlass_dify::step::ModelAnswer {
                    text: "words".to_owned(),
                    ..windlass_dify::step::ModelAnswer::default()
                };
                Ok(Answer::Model(Box::new(answer)))
            }
            other => panic!("{other:?}"),
        }
    }

    fn wait(&mut self, milliseconds: u64) {
        self.waited += milliseconds;
    }
}

fn run(nodes: &str, edges: &str, limits: Limits) -> (Ended, Tools, Vec<String>) {
    let file = format!(
        "app: {{name: x, mode: advanced-chat}}\nworkflow:\n  conversation_variables:\n  - {{name: list, value_type: 'array[string]', value: [a, bad, c]}}\n  - {{name: seen, value_type: 'array[string]', value: []}}\n  graph:\n    nodes:\n    - {{id: start, data: {{type: start}}}}\n{nodes}    edges:\n{edges}"
    );
    let document = Document::read("x.yml", &file).unwrap_or_else(|faults| panic!("{faults:?}"));
    let mut tools = Tools::default();
    let mut told = Vec::new();
    let pool = run::pool(&document, &Object::new());
    let ended = run::run(&document.graph, pool, limits, &mut tools, &mut |event| match event {
        Event::Text(chunk) if !chunk.text.is_empty() => told.push(format!("text {}", chunk.text)),
        Event::NodeStarted { path, .. } => told.push(format!("start {path}")),
        Event::NodeRetried { .. } => told.push("retry".to_owned()),
        _ => {}
    });
    (ended, tools, told)
}

fn edges(pairs: &[(&str, &str)]) -> String {
    pairs.iter().fold(String::new(), |mut all, (source, target)| {
        let _ = writeln!(all, "    - {{source: {source}, target: {target}}}");
        all
    })
}

fn outputs(ended: &Ended) -> Json {
    Value::from(ended.outputs.clone()).to_json()
}

#[test]
fn a_node_is_tried_as_often_as_it_says() {
    let node = |times: u32| {
        format!(
            "    - {{id: t, data: {{type: tool, tool_name: t, tool_parameters: {{fails: {{type: constant, value: 2}}}}, retry_config: {{retry_enabled: true, max_retries: {times}, retry_interval: 20}}}}}}\n    - {{id: e, data: {{type: answer, answer: done}}}}\n"
        )
    };
    let edges = edges(&[("start", "t"), ("t", "e")]);
    let (ended, tools, told) = run(&node(2), &edges, Limits::default());
    assert_eq!((ended.status, tools.called, tools.waited), (Status::Succeeded, 3, 40));
    assert_eq!(told.iter().filter(|what| *what == "retry").count(), 2);
    let (ended, tools, _) = run(&node(1), &edges, Limits::default());
    assert_eq!((ended.status, tools.called), (Status::Failed, 2));
    assert_eq!(ended.failure.unwrap().1.message, "it broke");
}

#[test]
fn rounds_that_fail_end_the_iteration_or_leave_a_gap() {
    let nodes = |mode: &str| {
        format!(
            "    - {{id: each, data: {{type: iteration, iterator_selector: [conversation, list], output_selector: [t, text], start_node_id: in, error_handle_mode: {mode}, is_parallel: true, parallel_nums: 2}}}}
    - {{id: in, parentId: each, data: {{type: iteration-start}}}}
    - {{id: t, parentId: each, data: {{type: tool, tool_name: t, tool_parameters: {{text: {{type: mixed, value: '{{{{#each.item#}}}}'}}}}}}}}
    - {{id: keep, parentId: each, data: {{type: assigner, version: '2', items: [{{variable_selector: [conversation, seen], operation: append, input_type: variable, value: [each, item]}}]}}}}
    - {{id: e, data: {{type: end, outputs: [{{variable: all, value_selector: [each, output]}}, {{variable: seen, value_selector: [conversation, seen]}}]}}}}
"
        )
    };
    let edges = edges(&[("start", "each"), ("in", "t"), ("t", "keep"), ("each", "e")]);
    let (ended, ..) = run(&nodes("continue-on-error"), &edges, Limits::default());
    assert_eq!(outputs(&ended)["all"], json!(["a", null, "c"]), "{:?}", ended.failure);
    let (ended, ..) = run(&nodes("remove-abnormal-output"), &edges, Limits::default());
    assert_eq!(outputs(&ended)["all"], json!(["a", "c"]));
    let (ended, _, told) = run(&nodes("terminated"), &edges, Limits::default());
    assert_eq!(ended.status, Status::Failed);
    assert_eq!(ended.failure.unwrap().1.message, "it broke");
    // Rounds that run when one fails go on; no others begin.
    assert!(!told.contains(&"start each[2].t".to_owned()), "{told:?}");
}

#[test]
fn rounds_within_rounds_have_their_own_variables() {
    let nodes = "    - {id: outer, data: {type: loop, loop_count: 3, start_node_id: in, break_conditions: [{variable_selector: [outer, n], comparison_operator: '≥', value: '2'}], logical_operator: and, loop_variables: [{label: n, var_type: number, value_type: constant, value: 0}]}}
    - {id: in, parentId: outer, data: {type: loop-start, loop_id: outer}}
    - {id: add, parentId: outer, data: {type: assigner, loop_id: outer, version: '2', items: [{variable_selector: [outer, n], operation: '+=', input_type: constant, value: 1}]}}
    - {id: each, parentId: outer, data: {type: iteration, loop_id: outer, iterator_selector: [conversation, seen], output_selector: [t, output], start_node_id: inner}}
    - {id: inner, parentId: each, data: {type: iteration-start}}
    - {id: t, parentId: each, data: {type: template-transform, template: '{{ n }}{{ item }}', variables: [{variable: n, value_selector: [outer, n]}, {variable: item, value_selector: [each, item]}]}}
    - {id: keep, parentId: outer, data: {type: assigner, loop_id: outer, version: '2', items: [{variable_selector: [conversation, seen], operation: over-write, input_type: variable, value: [conversation, list]}]}}
    - {id: say, parentId: outer, data: {type: answer, loop_id: outer, answer: '{{#outer.n#}}{{#each.output#}};'}}
    - {id: e, data: {type: answer, answer: 'after {{#outer.loop_round#}}'}}
";
    let edges = edges(&[
        ("start", "outer"),
        ("in", "add"),
        ("add", "each"),
        ("inner", "t"),
        ("each", "keep"),
        ("keep", "say"),
        ("outer", "e"),
    ]);
    let (ended, _, told) = run(nodes, &edges, Limits::default());
    assert_eq!(ended.status, Status::Succeeded, "{:?}", ended.failure);
    assert_eq!(outputs(&ended)["answer"], "1;2- 2a\n- 2bad\n- 2c;after 2");
    assert!(told.contains(&"start outer#1.each[2].t".to_owned()), "{told:?}");
    let kept = ended.conversation.iter().find(|(name, _)| name == "seen").unwrap();
    assert_eq!(kept.1.value.to_json(), json!(["a", "bad", "c"]));
}

#[test]
fn text_is_held_back_until_all_before_it_is_out() {
    let nodes = "    - {id: slow, data: {type: tool, tool_name: t, tool_parameters: {text: {type: mixed, value: first}}}}
    - {id: llm, data: {type: llm, model: {provider: p, name: m}, prompt_template: [{role: user, text: hi}]}}
    - {id: say, data: {type: answer, answer: '<{{#slow.text#}}|{{#llm.text#}}>'}}
";
    let both = edges(&[("start", "llm"), ("start", "slow"), ("llm", "say"), ("slow", "say")]);
    let (ended, _, told) = run(nodes, &both, Limits::default());
    assert_eq!(outputs(&ended)["answer"], "<first|words>");
    let texts: Vec<&str> = told.iter().filter_map(|what| what.strip_prefix("text ")).collect();
    // The model spoke first.
    assert_eq!(texts, ["<", "first", "|", "wor", "ds", ">"]);
    let at = |what: &str| told.iter().position(|told| told == what);
    assert!(at("text <") < at("start llm") && at("text first") < at("start say"), "{told:?}");
}

#[test]
fn runs_stop_at_their_limits() {
    let nodes = |count: u64| {
        format!(
            "    - {{id: l, data: {{type: loop, loop_count: {count}, start_node_id: in, break_conditions: []}}}}
    - {{id: in, parentId: l, data: {{type: loop-start}}}}
    - {{id: e, data: {{type: answer, answer: done}}}}
"
        )
    };
    let edges = edges(&[("start", "l"), ("l", "e")]);
    let limits = Limits { steps: 100, rounds: 1_000 };
    let (ended, ..) = run(&nodes(1_000_000_000_000), &edges, limits);
    assert_eq!(ended.failure.unwrap().1.class, "RoundLimit");
    let (ended, ..) = run(&nodes(1_000), &edges, limits);
    assert_eq!(ended.failure.unwrap().1.message, "Maximum execution steps 100 reached");
    let (ended, ..) = run(&nodes(1_000), &edges, Limits { steps: 2_000, rounds: 1_000 });
    assert_eq!(ended.status, Status::Succeeded);
}
