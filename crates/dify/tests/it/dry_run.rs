//! Dry runs: every file of the corpus maps, or says node by node what it lacks.

use needs_shared::needs_shared;
use windlass_dify::document::Document;
use windlass_dify::dry_run::{DryRun, Lack, Surroundings};
use windlass_dify::node::NodeKind;
use windlass_dify::node::model::Model;
use windlass_dify::node::reach::Tool;

use crate::reading::files;

/// Nothing is there, or all of it.
struct Around(bool);

impl Around {
    fn some(&self) -> Option<String> {
        self.0.then(|| "it".to_owned())
    }
}

impl Surroundings for Around {
    fn tool(&self, _: &Tool) -> Option<String> {
        self.some()
    }
    fn model(&self, _: &Model) -> Option<String> {
        self.some()
    }
    fn dataset(&self, _: &str) -> Option<String> {
        self.some()
    }
    fn runs_code(&self, _: &str) -> bool {
        self.0
    }
    fn has_secret(&self, _: &str) -> bool {
        self.0
    }
    fn replacement(&self, _: &str) -> Option<String> {
        None
    }
}

#[needs_shared]
#[test]
fn every_file_says_node_by_node_what_it_lacks() {
    let (mut complete, mut lacking) = (0, 0);
    for (name, text) in files("dify") {
        let document = Document::read(&name, &text).unwrap();
        let nothing = DryRun::of(&document, &Around(false));
        assert_eq!(nothing.nodes.len(), document.graph.nodes().len());
        for (node, report) in document.graph.nodes().iter().zip(&nothing.nodes) {
            let needs = match &node.kind {
                NodeKind::Llm(_) | NodeKind::Classifier(_) | NodeKind::Extractor(_) => true,
                NodeKind::Tool(_) | NodeKind::Code(_) | NodeKind::Trigger(_) => true,
                NodeKind::Knowledge(knowledge) => !knowledge.datasets.is_empty(),
                _ => false,
            };
            assert!(!needs || !report.missing.is_empty(), "{name} {}", node.id);
            assert!(report.missing.iter().all(|missing| !missing.how.is_empty()), "{name}");
        }
        if nothing.is_complete() {
            complete += 1;
        } else {
            lacking += 1;
        }
        // With all supplied, only what nothing can supply is left.
        for report in DryRun::of(&document, &Around(true)).nodes {
            let left = report.missing.iter().map(|missing| &missing.what);
            let left: Vec<_> = left
                .filter(|what| !matches!(what, Lack::Trigger(_) | Lack::SecretPlace(_)))
                .collect();
            assert!(left.is_empty(), "{name} {}: {left:?}", report.id);
        }
    }
    assert!(complete > 10 && lacking > 50, "{complete} {lacking}");
}

#[test]
fn a_report_reads_as_a_list_of_what_to_do() {
    let file = r#"
app: {name: x, mode: workflow}
workflow:
  environment_variables: [{name: key, value_type: secret, value: ""}]
  graph:
    nodes:
    - {id: s, data: {type: start, title: Start}}
    - {id: m, data: {type: llm, title: Ask, model: {provider: langgenius/openai/openai, name: gpt-4o}, prompt_template: [{role: user, text: "{{#env.key#}} {{#gone.x#}}"}]}}
    - {id: h, data: {type: http-request, title: Get, url: "https://e.org", headers: "Authorization: Bearer {{#env.key#}}"}}
    - {id: c, data: {type: code, title: Sum, code_language: javascript, code: "function main() {}", outputs: {}}}
    - {id: e, data: {type: end, title: End, outputs: []}}
    edges: [{source: s, target: m}, {source: m, target: h}, {source: h, target: c}, {source: c, target: e}]
"#;
    let document = Document::read("x.yml", file).unwrap();
    let expected = "\
ok      line 7    start `s` Start
missing line 8    llm `m` Ask
          model openai/gpt-4o: set up the provider, or map it: `models: {\"openai/gpt-4o\": provider/model}`
          secret key outside of headers: move it into a header of an http-request node; prompts, code, addresses and bodies never see secrets
          note: `gone.x` names a node that is not in the file, and renders as its own name
missing line 9    http-request `h` Get
          secret key: supply a credential with the name `key`
missing line 10   code `c` Sum
          code in javascript: map the node to a tool that does the same: `replace: {\"c\": tool}`
ok      line 11   end `e` End
";
    assert_eq!(DryRun::of(&document, &Around(false)).to_string(), expected);
}
