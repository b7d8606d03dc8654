//! The source documents' own examples load as they are written.

use std::fs;
use std::path::PathBuf;

use needs_shared::needs_shared;
use serde_json::json;
use windlass::{FilledBy, Kind, Lang};

use super::one;

/// The first fenced YAML block of a seed that has a line.
fn example(seed: &str, line: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/seeds");
    let file = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with(seed))
        .expect("the seed is there");
    let text = fs::read_to_string(file.path()).unwrap();
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let found = blocks.into_iter().find(|block| block.lines().any(|known| known == line));
    found.expect("the seed has the example").to_owned()
}

#[needs_shared]
#[test]
fn http_request_of_s0_loads_unchanged() {
    let text = example("000_", "name: http_request");
    let spec = one(&text).spec;
    assert_eq!((spec.name.as_str(), spec.version.as_deref()), ("http_request", Some("1.0.0")));
    assert_eq!((spec.kind, spec.entry.handler.as_str()), (Kind::Builtin, "http_request"));
    assert_eq!(spec.tags, ["network", "api", "request"]);
    assert_eq!(spec.input["required"], json!(["url"]));
    let properties = &spec.input["properties"];
    assert_eq!(properties["url"]["pattern"], "^https?://");
    assert_eq!(properties["method"]["enum"], json!(["GET", "POST", "PUT", "DELETE", "PATCH"]));
    assert_eq!(
        properties["timeout"],
        json!({"description": "超时时间（秒）", "type": "number",
        "minimum": 1, "maximum": 300, "default": 30})
    );
    assert_eq!(
        spec.output,
        Some(json!({"type": "object", "properties": {
            "status_code": {"type": "integer"}, "headers": {"type": "object"}, "body": {}}}))
    );
}

#[needs_shared]
#[test]
fn current_time_of_s3_loads_unchanged() {
    let text = example("003_", "  name: current_time");
    let spec = one(&text).spec;
    assert_eq!((spec.name.as_str(), spec.author.as_deref()), ("current_time", Some("Dify")));
    assert_eq!(
        (spec.kind, spec.description.get(Lang::Zh)),
        (Kind::Builtin, "获取指定时区的当前时间")
    );
    assert_eq!(spec.label.as_ref().unwrap().get(Lang::En), "Current Time");
    assert_eq!(spec.input["required"], json!(["timezone"]));
    let zone = &spec.parameters["timezone"];
    assert_eq!((zone.filled_by, zone.required), (FilledBy::Model, true));
    assert_eq!(zone.label.as_ref().unwrap().get(Lang::Zh), "时区");
}
