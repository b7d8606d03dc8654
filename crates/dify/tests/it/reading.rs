//! Reading of files: all of the corpus, those that Dify would not take, hostile ones.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use needs_shared::needs_shared;
use windlass_dify::Document;

use crate::vectors::corpus;

/// All files in a folder of the corpus, in order.
pub(crate) fn files(folder: &str) -> Vec<(String, String)> {
    let mut open: Vec<PathBuf> = vec![corpus(folder)];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false if path.extension().is_some_and(|e| e != "md" && e != "jsonl") => {
                    let text = fs::read_to_string(&path).unwrap();
                    found.push((path.file_name().unwrap().to_string_lossy().into_owned(), text));
                }
                false => {}
            }
        }
    }
    found.retain(|(name, _)| name != "cases.json");
    found.sort();
    found
}

#[needs_shared]
#[test]
fn every_well_formed_file_reads() {
    let mut refused = Vec::new();
    let files: Vec<_> = files("dify").into_iter().chain(files("dify-fixtures")).collect();
    for (name, text) in &files {
        assert!(Document::is_likely(text), "{name}");
        if let Err(faults) = Document::read(name, text) {
            refused.extend(faults.into_iter().map(|fault| fault.to_string()));
        }
    }
    assert!(files.len() >= 127, "{}", files.len());
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// One of these is no fault in Dify either: a class of a classifier that leads nowhere.
const TAKEN_BY_DIFY: [&str; 1] = ["tests__fixtures__dsl__broken-question-classifier-routing.yml"];

#[needs_shared]
#[test]
fn every_malformed_file_gets_an_error_that_says_where_and_what_to_write() {
    let files = files("dify-malformed");
    assert!(files.len() >= 45, "{}", files.len());
    for (name, text) in &files {
        let faults = match Document::read(name, text) {
            Err(faults) => faults,
            Ok(document) => {
                assert!(TAKEN_BY_DIFY.contains(&name.as_str()), "{name} was read");
                document.notes
            }
        };
        assert!(!faults.is_empty(), "{name}");
        for fault in faults {
            assert!(fault.at.line > 0 && fault.at.column > 0, "{fault}");
            assert!(!fault.message.is_empty() && !fault.hint.is_empty(), "{fault}");
        }
    }
}

fn wrap(nodes: &str, edges: &str) -> String {
    format!(
        "app: {{name: x, mode: workflow}}\nworkflow:\n  graph:\n    nodes: [{nodes}]\n    edges: [{edges}]\n"
    )
}

fn first_fault(text: &str) -> String {
    let Err(faults) = Document::read("f.yml", text) else { return "none".to_owned() };
    faults.first().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn faults_tell_line_column_and_what_to_write() {
    let start = "{id: s, data: {type: start}}";
    let mut wrong = Vec::new();
    for (text, expected) in [
        ("", "f.yml:1:1: the file is empty; export the workflow as DSL"),
        ("app: [", "f.yml:1:6: not valid YAML or JSON: unclosed bracket"),
        ("kind: rag_pipeline", "f.yml:1:7: `kind` is `rag_pipeline`, not `app`; RAG pipelines"),
        (
            "app: {mode: chat}\nworkflow: {graph: {nodes: []}}",
            "f.yml:1:13: `mode` is `chat`, which has no graph; convert",
        ),
        ("app: {mode: workflow}", "f.yml:1:1: the file needs `workflow`; write `workflow: {graph:"),
        (
            &wrap("{id: a, type: llm, data: {title: x}}", ""),
            "f.yml:4:38: node `a` needs `data.type`; write `type: llm` into `data`",
        ),
        (
            &wrap("{id: a, data: {type: question_classifier}}", ""),
            "f.yml:4:34: node `a`: unknown type `question_classifier`; did you mean `question-classifier`?",
        ),
        (
            &wrap(start, "{source: s, target: t}"),
            "f.yml:5:33: no node has the id `t`; write the id of a node, or delete the edge",
        ),
        (
            &wrap(
                "{id: a, data: {type: if-else, cases: [{case_id: x, conditions: [{variable_selector: [a, b], comparison_operator: eq}]}]}}",
                "",
            ),
            "f.yml:4:126: unknown comparison_operator `eq`",
        ),
        (
            &wrap(
                &format!("{start}, {{id: a, data: {{type: answer, answer: x}}}}"),
                "{source: s, target: a}, {source: a, target: s}",
            ),
            "f.yml:5:13: the edge from `s` to `a` closes a cycle; use a loop node",
        ),
        (
            &wrap("{id: l, data: {type: loop, loop_count: 3}}, {id: e, data: {type: end}}", ""),
            "f.yml:4:13: node `l` needs `start_node_id`; write the id of its first node",
        ),
    ] {
        let fault = first_fault(text);
        if !fault.starts_with(expected) {
            wrong.push(format!("{text}\n  got  {fault}\n  want {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn hostile_files_are_refused_at_once() {
    let many_edges = "{source: s, target: e},".repeat(1_000_000);
    let fan = wrap(
        "{id: s, data: {type: start}}, {id: e, data: {type: end}}",
        &"{source: s, target: e},".repeat(150_000),
    );
    let bomb = (0..30).fold("a0: &a0 [x, x]\n".to_owned(), |text, n| {
        text + &format!("a{}: &a{} [*a{n}, *a{n}, *a{n}]\n", n + 1, n + 1)
    });
    let chain = |length: usize| {
        let nodes: String = (0..length)
            .map(|n| format!("{{id: n{n}, data: {{type: answer, answer: x}}}},"))
            .collect();
        let edges: String =
            (1..length).map(|n| format!("{{source: n{}, target: n{n}}},", n - 1)).collect();
        wrap(&nodes, &edges)
    };
    for (what, text) in [
        ("a million edges", wrap("", &many_edges)),
        ("edges within the size", fan),
        ("deep flow", "[".repeat(100_000)),
        ("deep maps", "{a: ".repeat(100_000)),
        ("deep blocks", (0..3_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect()),
        ("alias bomb", bomb),
        ("alias of itself", "a: &a [*a]".to_owned()),
        ("too many nodes", chain(5_000)),
        (
            "parents in a circle",
            wrap(
                "{id: a, parentId: b, data: {type: iteration, iterator_selector: [a, b], output_selector: [a, b], start_node_id: b}}, {id: b, parentId: a, data: {type: iteration, iterator_selector: [a, b], output_selector: [a, b], start_node_id: a}}",
                "",
            ),
        ),
        ("NUL", "app: \0".to_owned()),
        ("a megabyte of dashes", "-".repeat(1 << 20)),
        ("a megabyte of questions", "? ".repeat(1 << 19)),
        ("a megabyte of quotes", "'".repeat((1 << 20) + 1)),
        ("a megabyte of ampersands", "&a ".repeat(1 << 18)),
    ] {
        let started = Instant::now();
        assert!(Document::read(what, &text).is_err(), "{what}");
        assert!(started.elapsed() < Duration::from_secs(20), "{what}: {:?}", started.elapsed());
    }
    // A long graph that is within the limits reads, and quickly.
    let started = Instant::now();
    Document::read("chain", &chain(2_000)).unwrap();
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// Every file of the corpus, with a part of it missing or doubled.
#[needs_shared]
#[test]
fn broken_files_never_panic() {
    for (name, text) in files("dify-fixtures") {
        let lines: Vec<&str> = text.lines().collect();
        for at in (0..lines.len()).step_by(7) {
            let without = [&lines[..at], &lines[at + 1..]].concat().join("\n");
            let doubled = [&lines[..=at], &lines[at..]].concat().join("\n");
            let cut = lines[..at].join("\n");
            for text in [without, doubled, cut] {
                if let Err(faults) = Document::read(&name, &text) {
                    assert!(!faults.is_empty(), "{name}");
                }
            }
        }
    }
}
