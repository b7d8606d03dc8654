//! Vectors of conditions and templates: what Dify's own engine answers.

use std::fs;
use std::path::{Path, PathBuf};

use needs_shared::needs_shared;
use serde_json::Value as Json;
use windlass_dify::condition::{Condition, Conditions, Join, Operator};
use windlass_dify::pool::Pool;
use windlass_dify::template;
use windlass_dify::value::Value;

/// A file of the corpus beside the clone.
pub(crate) fn corpus(path: &str) -> PathBuf {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    shared.join("corpora/workflows").join(path)
}

/// The lines of a JSONL file.
pub(crate) fn lines(path: &str) -> Vec<Json> {
    let text = fs::read_to_string(corpus(path)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn pool(value: &Json, other: &Json) -> Pool {
    let mut pool = Pool::default();
    pool.set("n", "v", Value::from_json(value.clone()));
    pool.set("n", "other", Value::from_json(other.clone()));
    pool
}

#[needs_shared]
#[test]
fn all_condition_vectors_are_equal() {
    let vectors = lines("dify-oracle/conditions.jsonl");
    let mut wrong = Vec::new();
    for vector in &vectors {
        let condition = Condition {
            selector: vec!["n".into(), "v".into()],
            operator: Operator::from_name(vector["op"].as_str().unwrap()).unwrap(),
            expected: Value::from_json(vector["expected"].clone()),
            on_files: None,
        };
        let conditions = Conditions { join: Join::And, all: vec![condition] };
        let got = match conditions.hold(&pool(&vector["value"], &vector["other"])) {
            Ok(holds) => Json::Bool(holds),
            Err(error) => format!("{}: {error}", error.class).into(),
        };
        if got != *vector.get("result").unwrap_or(&vector["error"]) {
            wrong.push(format!("{vector} gave {got}"));
        }
    }
    assert!(vectors.len() > 4000);
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

#[needs_shared]
#[test]
fn all_template_vectors_are_equal() {
    let vectors = lines("dify-oracle/templates.jsonl");
    let mut wrong = Vec::new();
    for vector in &vectors {
        let pool = pool(&vector["value"], &Json::from("abc"));
        let text = vector["template"].as_str().unwrap();
        let got = (
            template::render(text, &pool).unwrap(),
            template::render_markdown(text, &pool).unwrap(),
        );
        if got
            != (
                vector["text"].as_str().unwrap().into(),
                vector["markdown"].as_str().unwrap().into(),
            )
        {
            wrong.push(format!("{vector} gave {got:?}"));
        }
    }
    assert!(vectors.len() > 200);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
