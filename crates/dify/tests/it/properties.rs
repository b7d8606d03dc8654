//! Properties: texts of any kind are read without a panic, and graphs of any shape run as
//! the rule of readiness says.

use proptest::prelude::*;
use windlass_dify::document::Document;
use windlass_dify::jinja::{Jinja, Limits as JinjaLimits, Missing};
use windlass_dify::pool::Pool;
use windlass_dify::run::{self, Event, Limits, Outside};
use windlass_dify::step::{Answer, Failure, Work};
use windlass_dify::template::{self, Piece, Template};
use windlass_dify::value::{Object, Value};

struct Nobody;

impl Outside for Nobody {
    fn answer(
        &mut self,
        node: &windlass_dify::node::Node,
        _: &Work,
        _: &mut dyn FnMut(&str, &str, bool),
    ) -> Result<Answer, Failure> {
        panic!("{} reaches for nothing", node.id)
    }
}

/// What becomes of a node, by the rule alone.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Runs,
    IsSkipped,
    /// Something before it never happens.
    NeverDecided,
}

proptest! {
    #[test]
    fn a_template_is_the_sum_of_its_pieces(text in r"(\{\{#|#\}\}|\{|\}|#|\.|[a-z]{1,3}|中| ){0,30}") {
        let joined: String = Template::parse(&text)
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Variable(selector) => format!("{{{{#{}#}}}}", selector.join(".")),
            })
            .collect();
        prop_assert_eq!(&joined, &text);
        prop_assert!(template::render(&text, &Pool::default()).is_ok());
    }

    #[test]
    fn jinja_never_panics(text in r#"(\{\{|\}\}|\{%|%\}|for|if|in|set|endfor|endif|x|loop\.index|'a'|1|2\.5|\+|-|~|\*\*|/|%|\||join|map|\(|\)|\[|\]|\{|\}|:|,|=|==| |
){0,40}"#) {
        let mut variables = Object::new();
        variables.insert("x".to_owned(), [Value::Int(1), Value::from("b")].into_iter().collect());
        let limits = JinjaLimits { steps: 10_000, memory: 1 << 16, output: 1_000 };
        if let Ok(jinja) = Jinja::parse(&text) {
            let _ = jinja.render(&variables, Missing::IsEmpty, limits);
        }
    }

    #[test]
    fn files_never_panic(text in r#"(app|workflow|graph|nodes|edges|data|type|id|: |\n|  |- |\[|\]|\{|\}|,|&a|\*a|<<|"|'|start|llm|loop|null|1|é|\||>|!|%|@|`|\?){0,60}"#) {
        if let Err(faults) = Document::read("f.yml", &text) {
            prop_assert!(!faults.is_empty());
        }
    }

    /// Node 0 is the start. A node is an if-else that takes `true` (0) or `false` (1), or
    /// a template (2). Each pair of nodes may have an edge, at one of two handles.
    #[test]
    fn graphs_run_as_the_rule_of_readiness_says(
        kinds in prop::collection::vec(0_usize..3, 1..10),
        picks in prop::collection::vec(0_usize..4, 45),
    ) {
        let count = kinds.len() + 1;
        let mut edges: Vec<(usize, usize, &str)> = Vec::new();
        let mut pick = picks.iter();
        for target in 1..count {
            for source in 0..target {
                let handle = match pick.next() {
                    Some(2) => "true",
                    Some(3) => "false",
                    _ => continue,
                };
                let plain = source == 0 || kinds[source - 1] == 2;
                edges.push((source, target, if plain { "source" } else { handle }));
            }
        }
        let node = |(at, kind): (usize, &usize)| {
            let id = at + 1;
            match kind {
                2 => format!("    - {{id: n{id}, data: {{type: template-transform, template: x}}}}\n"),
                kind => {
                    let value = if *kind == 0 { "yes" } else { "no" };
                    format!("    - {{id: n{id}, data: {{type: if-else, cases: [{{case_id: 'true', conditions: [{{variable_selector: [sys, q], comparison_operator: is, value: '{value}'}}]}}]}}}}\n")
                }
            }
        };
        let nodes: String = kinds.iter().enumerate().map(node).collect();
        let lines: String = edges.iter()
            .map(|(s, t, h)| format!("    - {{source: n{s}, target: n{t}, sourceHandle: '{h}'}}\n"))
            .collect();
        let file = format!("app: {{mode: workflow}}\nworkflow:\n  graph:\n    nodes:\n    - {{id: n0, data: {{type: start}}}}\n{nodes}    edges:{}\n{lines}", if lines.is_empty() { " []" } else { "" });
        let document = Document::read("f.yml", &file).unwrap_or_else(|faults| panic!("{faults:?}"));

        let mut fates = vec![Fate::Runs];
        for target in 1..count {
            let into: Vec<_> = edges.iter().filter(|(_, t, _)| *t == target).collect();
            let taken = |source: usize, handle: &str| {
                fates[source] == Fate::Runs
                    && match source.checked_sub(1).map(|at| kinds[at]) {
                        Some(0) => handle == "true",
                        Some(1) => handle == "false",
                        _ => true,
                    }
            };
            let fate = match into.as_slice() {
                [] => Fate::NeverDecided,
                into if into.iter().any(|(s, ..)| fates[*s] == Fate::NeverDecided) => Fate::NeverDecided,
                into if into.iter().any(|(s, _, h)| taken(*s, h)) => Fate::Runs,
                _ => Fate::IsSkipped,
            };
            fates.push(fate);
        }

        let mut system = Object::new();
        system.insert("q".to_owned(), Value::from("yes"));
        let (mut ran, mut skipped) = (vec![0; count], vec![0; count]);
        let pool = run::pool(&document, &system);
        run::run(&document.graph, pool, Limits::default(), &mut Nobody, &mut |event| match event {
            Event::NodeStarted { node, .. } => ran[node] += 1,
            Event::NodeSkipped { node, .. } => skipped[node] += 1,
            _ => {}
        });
        for (at, fate) in fates.iter().enumerate() {
            let expected = match fate {
                Fate::Runs => (1, 0),
                Fate::IsSkipped => (0, 1),
                Fate::NeverDecided => (0, 0),
            };
            prop_assert_eq!((ran[at], skipped[at]), expected, "n{} {:?}\n{}", at, fate, file);
        }
    }
}
