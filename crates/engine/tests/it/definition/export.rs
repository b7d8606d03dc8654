//! Real definitions survive a round trip through the exporter.

use std::fs;
use std::path::{Path, PathBuf};

use needs_shared::needs_shared;
use serde_json::{Value, json};
use windlass::definition::{Definition, Format, declare, export, parse};
use windlass::{Engine, Lang, ToolName, TurnFormat};

use super::one;

/// A folder of `shared/corpora`, for tests that are marked by `needs_shared`.
pub(crate) fn corpora(folder: &str) -> PathBuf {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora").join(folder);
    assert!(path.is_dir(), "{} is missing", path.display());
    path
}

pub(super) fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

fn round_trip(definition: &Definition) {
    let spec = &definition.spec;
    for format in [TurnFormat::Anthropic.into(), TurnFormat::OpenAi.into(), Format::Mcp] {
        let exported = declare(spec, &spec.input, format, Lang::En);
        let read = one(&exported.to_string()).spec;
        assert_eq!(read.name.as_str(), spec.name.wire());
        assert_eq!(read.description, spec.description);
        assert_eq!(read.input, spec.input, "{format:?}");
        if format == Format::Mcp {
            assert_eq!(read.behaviour.read_only, spec.behaviour.read_only);
            assert_eq!(read.behaviour.destructive, spec.behaviour.destructive);
        }
    }
    let gemini = declare(spec, &spec.input, TurnFormat::Gemini, Lang::En);
    assert_fits_gemini(gemini.get("parameters").unwrap_or(&json!({})));
    one(&json!({"functionDeclarations": [gemini]}).to_string());
}

/// Only keywords that Gemini documents, all the way down.
fn assert_fits_gemini(schema: &Value) {
    const KNOWN: [&str; 20] = [
        "type",
        "title",
        "description",
        "format",
        "nullable",
        "enum",
        "items",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "pattern",
        "anyOf",
        "default",
    ];
    for (key, value) in schema.as_object().unwrap() {
        assert!(KNOWN.contains(&key.as_str()), "{key} in {schema}");
        match key.as_str() {
            "type" => assert!(value.is_string(), "{schema}"),
            "enum" => assert!(value.as_array().unwrap().iter().all(Value::is_string), "{schema}"),
            "items" => assert_fits_gemini(value),
            "properties" => value.as_object().unwrap().values().for_each(assert_fits_gemini),
            "anyOf" => value.as_array().unwrap().iter().for_each(assert_fits_gemini),
            _ => {}
        }
    }
}

#[needs_shared]
#[test]
fn github_tools_survive() {
    let folder = corpora("mcp/github-toolsnaps");
    let files = files(&folder, "snap");
    assert!(files.len() > 100);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let definition = one(&text);
        let written: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(definition.spec.input, written["inputSchema"], "{}", file.display());
        round_trip(&definition);
    }
}

#[needs_shared]
#[test]
fn tools_of_live_servers_survive() {
    let folder = corpora("mcp/live-servers");
    let mut count = 0;
    for file in files(&folder, "json") {
        let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        for tool in written["tools"].as_array().unwrap() {
            let definition = one(&tool.to_string());
            assert_eq!(definition.spec.input, tool["inputSchema"]);
            assert_eq!(definition.spec.output.as_ref(), tool.get("outputSchema"));
            round_trip(&definition);
            count += 1;
        }
    }
    assert_eq!(count, 51);
}

#[needs_shared]
#[test]
fn functions_of_the_leaderboard_survive() {
    let folder = corpora("functions/bfcl");
    let (mut read, mut refused) = (0, Vec::new());
    for file in files(&folder, "json") {
        for line in fs::read_to_string(&file).unwrap().lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            for function in case["function"].as_array().unwrap() {
                match parse("f.json", &function.to_string()) {
                    Ok(tools) => round_trip(&tools[0]),
                    Err(errors) => refused.push(format!("{}: {}", function["name"], errors[0])),
                }
                read += 1;
            }
        }
    }
    assert_eq!(read, 1_677);
    println!("{} of {read} refused", refused.len());
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn gemini_gets_what_it_takes() {
    let definition = one(&json!({
        "name": "t",
        "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "mode": {"const": "fast"},
                "unit": {"enum": ["c", null], "type": ["string", "null"]},
                "level": {"type": "integer", "enum": [1, 2], "exclusiveMinimum": 0},
                "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
                "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "place": {"$ref": "#/$defs/Place"},
                "list": {"type": "array"},
            },
            "required": ["mode", "place"],
            "$defs": {"Place": {"type": "object", "properties": {
                "inside": {"$ref": "#/$defs/Place"}, "name": {"type": "string"}}}},
        },
    })
    .to_string());
    let gemini = declare(&definition.spec, &definition.spec.input, TurnFormat::Gemini, Lang::En);
    assert_fits_gemini(&gemini["parameters"]);
    let mut parameters = gemini["parameters"].clone();
    let place = parameters["properties"].as_object_mut().unwrap().shift_remove("place").unwrap();
    assert_eq!(place["properties"]["inside"]["properties"]["name"]["type"], "string");
    assert_eq!(
        parameters,
        json!({
            "type": "object",
            "properties": {
                "mode": {"type": "string", "enum": ["fast"]},
                "unit": {"type": "string", "enum": ["c"], "nullable": true},
                "level": {"type": "integer", "minimum": 0},
                "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "maybe": {"nullable": true, "type": "string"},
                "list": {"type": "array", "items": {}},
            },
            "required": ["mode", "place"],
        })
    );
}

#[test]
fn tools_are_exported_in_order_without_what_is_hidden() {
    let engine = Engine::builder().build().unwrap();
    let report = engine.load_text(
        "t.yaml",
        "\
- {name: zebra, description: Last.}
- name: ant
  description: First.
  parameters:
    - {name: seen, type: string, required: true}
    - {name: asked, type: string, form: form}
    - {name: key, type: secret-input, required: true}
    - {name: fixed, type: integer, required: true}
    - {name: free, type: integer, required: true}
  presets: {fixed: 1, free: {value: 2, overridable: true}}
",
    );
    assert_eq!(report.errors, []);
    let tools = engine.registry().list();
    let exported = export(tools.iter().rev().map(|tool| &**tool), TurnFormat::Anthropic, Lang::En);
    assert_eq!(
        exported,
        json!([
            {"name": "ant", "description": "First.", "input_schema": {
                "type": "object",
                "properties": {"seen": {"type": "string"}, "free": {"type": "integer"}},
                "required": ["seen"],
            }},
            {"name": "zebra", "description": "Last.", "input_schema": {
                "type": "object",
                "properties": {},
            }},
        ])
    );
}

#[test]
fn formats_have_names() {
    for format in Format::all() {
        assert_eq!(format.name().parse(), Ok(format));
    }
    assert_eq!(
        "xml".parse::<Format>(),
        Err("unknown format `xml`; use anthropic, openai, responses, gemini, mcp".to_owned())
    );
    let name = ToolName::new("a.b").unwrap();
    let tool = one("name: a.b\ndescription: {en_US: Yes, zh_Hans: 是}");
    let exported = declare(&tool.spec, &json!({}), TurnFormat::Anthropic, Lang::Zh);
    assert_eq!(
        exported,
        json!({"name": name.wire(), "description": "是", "input_schema": {"type": "object"}})
    );
    let exported = declare(&tool.spec, &json!({}), TurnFormat::Responses, Lang::En);
    let wanted = json!({
        "type": "function", "name": name.wire(), "description": "Yes",
        "parameters": {"type": "object"}, "strict": false,
    });
    assert_eq!(exported, wanted);
}

#[test]
fn parameters_are_described_in_the_language_asked_for() {
    let text = "
name: greet
description: {en_US: Greets., zh_Hans: 问候。}
parameters:
  - {name: who, type: string, description: {en_US: Whom to greet., zh_Hans: 问候谁。}}
  - {name: plain, type: string, description: Only in English.}
";
    let spec = windlass::definition::parse("greet.yaml", text).unwrap().remove(0).spec;
    let described = |lang| {
        let declared =
            windlass::definition::declare(&spec, &spec.input, TurnFormat::Anthropic, lang);
        let of = |name: &str| declared["input_schema"]["properties"][name]["description"].clone();
        [declared["description"].clone(), of("who"), of("plain")]
    };
    assert_eq!(described(windlass::Lang::En), ["Greets.", "Whom to greet.", "Only in English."]);
    assert_eq!(described(windlass::Lang::Zh), ["问候。", "问候谁。", "Only in English."]);
}
