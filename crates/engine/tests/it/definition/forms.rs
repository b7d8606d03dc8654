//! The accepted forms of definitions, and what each becomes.

use std::time::Duration;

use serde_json::json;
use windlass::definition::{
    CredentialKind, DefinitionLimits, McpProtocol, ProviderSpec, lint, parse, parse_all,
};
use windlass::{Exposure, FilledBy, InputKind, Kind, Lang};

use super::{faults, one};

#[test]
fn every_key_of_the_list_form_is_read() {
    let tool = one("\
name: send
version: 1.10
description: {en_US: Sends a letter., zh_Hans: 发信。}
label: Send
category: notification
tags: [mail, 2]
provider: post
author: Ada
icon: letter.svg
group: mail
exposure: deferred
timeout: 500ms
estimated_duration: 2
max_output_bytes: 4096
behaviour: {idempotent: true, concurrency_safe: false}
parameters:
  - name: to
    type: array
    required: true
    validation: {items: {type: string, min_length: 3}, min_items: 1, max_items: 9}
  - {name: level, type: integer, default: 2, validation: {min: 1, max: 3}}
  - {name: extra, type: object, validation: {properties: {a: integer, b: any}, required: [a]}}
  - {name: any, type: any}
  - {name: from, type: string, form: form, required: true}
  - {name: key, type: secret-input, required: true}
entry: {type: external, handler: mailer, url: https://example.com}
output: {type: object, properties: {id: string, at: any}}
presets:
  from: me@example.com
  level: {value: 3, overridable: true}
  any: {variable: user_id}
");
    let spec = &tool.spec;
    assert_eq!(spec.version.as_deref(), Some("1.10"));
    assert_eq!(spec.description.get(Lang::Zh), "发信。");
    assert_eq!(spec.tags, ["mail", "2"]);
    assert_eq!(spec.category.as_str(), "notification");
    assert_eq!(spec.exposure, Exposure::Deferred);
    assert_eq!(spec.timeout, Some(Duration::from_millis(500)));
    assert_eq!(spec.estimated_duration, Some(Duration::from_secs(2)));
    assert_eq!(spec.max_output_bytes, Some(4096));
    assert_eq!(spec.behaviour.concurrency_safe, Some(false));
    assert!(spec.behaviour.idempotent && !spec.behaviour.read_only);
    assert_eq!((spec.kind, spec.entry.handler.as_str()), (Kind::Rest, "mailer"));
    assert_eq!(spec.entry.config["url"], "https://example.com");
    assert_eq!(
        spec.input,
        json!({
            "type": "object",
            "properties": {
                "to": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 3},
                    "minItems": 1,
                    "maxItems": 9,
                },
                "level": {"type": "integer", "minimum": 1, "maximum": 3, "default": 2},
                "extra": {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}, "b": {}},
                    "required": ["a"],
                },
                "any": {},
                "from": {"type": "string"},
                "key": {"type": "string"},
            },
            "required": ["to"],
        })
    );
    assert_eq!(
        spec.output,
        Some(json!({"type": "object", "properties": {"id": {"type": "string"}, "at": {}}}))
    );
    assert_eq!(spec.parameters["from"].filled_by, FilledBy::Form);
    assert!(spec.parameters["from"].required);
    assert_eq!(spec.parameters["key"].filled_by, FilledBy::Secret);
    assert_eq!(spec.parameters["key"].input, InputKind::SecretInput);
    let presets: Vec<&str> = tool.presets.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(presets, ["from", "level", "any"]);
}

#[test]
fn entry_types_become_kinds() {
    for (entry, kind) in [
        ("", Kind::Builtin),
        ("entry: {type: builtin}", Kind::Builtin),
        ("entry: {type: custom}", Kind::Native),
        ("entry: {type: external, command: ls}", Kind::Process),
        ("entry: {type: external, base_url: http://x}", Kind::Rest),
        ("entry: {type: wasm}", Kind::Wasm),
        ("kind: workflow", Kind::Workflow),
        ("input_schema: {type: object}", Kind::Native),
        ("type: REST\nparameters: {type: object}\nmetadata: {baseUrl: http://x}", Kind::Rest),
    ] {
        assert_eq!(one(&format!("name: t\n{entry}")).spec.kind, kind, "{entry}");
    }
}

#[test]
fn presets_are_checked_against_their_parameter() {
    let tool = |presets: &str| {
        format!(
            "name: t\nparameters:\n- {{name: unit, type: string, validation: {{enum: [c, f]}}}}\n\
             presets: {presets}"
        )
    };
    one(&tool("{unit: c}"));
    one(&tool("{unit: {value: f, overridable: true}}"));
    for (presets, expected) in [
        ("{unit: k}", "4:17: the preset of `unit` does not fit; expected one of \"c\", \"f\""),
        ("{units: c}", "4:11: unknown parameter `units` in `presets`; did you mean `unit`?"),
        ("{unit: {value: c, variable: x}}", "a preset has either `value` or `variable`"),
        ("{unit: {value: c, overridabel: true}}", "did you mean `overridable`?"),
        ("[unit]", "`presets` is a mapping, found a list"),
    ] {
        let found = faults(&tool(presets));
        assert!(found.contains(expected), "expected: {expected}\nfound: {found}");
    }
}

#[test]
fn a_preset_that_does_not_fit_is_not_repeated() {
    for (parameter, preset, expected) in [
        ("type: integer", "hunter2", "does not fit; expected an integer"),
        ("type: integer, validation: {max: 5}", "90210", "does not fit; expected at most 5"),
        ("type: integer", "{value: hunter2}", "does not fit; expected an integer"),
        (
            "type: array, validation: {items: {type: integer}}",
            "[1, hunter2]",
            "does not fit at /1; expected an integer",
        ),
    ] {
        let found = faults(&format!(
            "name: t\nparameters:\n- {{name: key, {parameter}}}\npresets: {{key: {preset}}}"
        ));
        assert!(found.contains(&format!("the preset of `key` {expected}")), "{found}");
        assert!(!found.contains("hunter2") && !found.contains("90210"), "{found}");
    }
}

#[test]
fn the_identity_form_is_read() {
    let tool = one("\
identity:
  name: weather
  author: Dify
  label: {en_US: Weather}
  icon: icon.svg
description:
  human: {en_US: For people., zh_Hans: 给人看。}
  llm: For the model.
parameters:
  - name: unit
    type: select
    form: form
    default: c
    label: {en_US: Unit}
    human_description: {en_US: The unit}
    llm_description: The unit of the temperature.
    options: [{value: c, label: {en_US: Celsius}}, f]
  - {name: days, type: number, form: llm, min: 1, max: 14, required: true}
  - {name: note, type: string, form: llm, max_length: 9}
  - {name: map, type: file, form: llm}
is_team_authorization: true
");
    let spec = &tool.spec;
    assert_eq!(spec.description.to_string(), "For the model.");
    assert_eq!((spec.kind, spec.team_authorization), (Kind::Builtin, true));
    assert_eq!(
        spec.input,
        json!({
            "type": "object",
            "properties": {
                "unit": {
                    "description": "The unit of the temperature.",
                    "type": "string",
                    "enum": ["c", "f"],
                    "default": "c",
                },
                "days": {"type": "number", "minimum": 1, "maximum": 14},
                "note": {"type": "string", "maxLength": 9},
                "map": {"type": "string"},
            },
            "required": ["days"],
        })
    );
    let unit = &spec.parameters["unit"];
    assert_eq!((unit.input, unit.filled_by), (InputKind::Select, FilledBy::Form));
    assert_eq!(unit.help.as_ref().unwrap().to_string(), "The unit");
    assert_eq!(spec.parameters["map"].input, InputKind::File);
}

#[test]
fn the_forms_of_model_apis_are_read() {
    let schema =
        json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]});
    let tools = [
        json!({"name": "find", "description": "Finds.", "input_schema": schema}),
        json!({"name": "find", "description": "Finds.", "inputSchema": schema}),
        json!({"name": "find", "description": "Finds.", "parameters": schema}),
        json!({"type": "function", "name": "find", "description": "Finds.", "parameters": schema, "strict": true}),
        json!({"type": "function", "function": {"name": "find", "description": "Finds.", "parameters": schema}}),
        json!({"tools": [{"name": "find", "description": "Finds.", "inputSchema": schema}]}),
        json!([{"name": "find", "description": "Finds.", "input_schema": schema}]),
        json!({"functionDeclarations": [{"name": "find", "description": "Finds.", "parameters": {
            "type": "OBJECT", "properties": {"q": {"type": "STRING"}}, "required": ["q"]}}]}),
        json!({"tools": [{"functionDeclarations": [
            {"name": "find", "description": "Finds.", "parametersJsonSchema": schema}]}]}),
        json!({"id": "7", "name": "find", "type": "NATIVE", "description": "Finds.",
            "parameters": schema, "metadata": {"executor": "x"}}),
    ];
    for tool in tools {
        for text in [tool.to_string(), serde_json::to_string_pretty(&tool).unwrap()] {
            let read = one(&text).spec;
            assert_eq!(read.name.as_str(), "find");
            assert_eq!(read.description.to_string(), "Finds.");
            assert_eq!(read.input, schema, "{text}");
        }
    }
}

#[test]
fn foreign_types_become_json_schema() {
    let tool = one(r#"{"name": "t", "parameters": {"type": "dict", "properties": {
        "type": {"type": "STRING", "nullable": true, "maxLength": "5"},
        "size": {"type": "tuple", "items": {"type": "float"}},
        "free": {"type": "any", "default": {"type": "dict"}}}}}"#);
    assert_eq!(
        tool.spec.input,
        json!({"type": "object", "properties": {
            "type": {"type": ["string", "null"], "maxLength": 5},
            "size": {"type": "array", "items": {"type": "number"}},
            "free": {"default": {"type": "dict"}},
        }})
    );
}

#[test]
fn a_foreign_default_that_does_not_fit_is_left_out_and_noted() {
    let tool = one("name: t\ndescription: Does what it does.\nbehaviour: {read_only: true}\n\
        input_schema:\n  properties:\n    a: {type: boolean, default: 'no', description: x}");
    let property = &tool.spec.input["properties"]["a"];
    assert_eq!(*property, json!({"type": "boolean", "description": "x"}));
    let lints = lint(&tool);
    assert_eq!(lints.len(), 1, "{lints:?}");
    assert_eq!((lints[0].line, lints[0].column), (6, 33));
    assert!(lints[0].message.starts_with("the default does not fit"), "{lints:?}");
}

#[test]
fn mcp_hints_become_behaviour() {
    let behaviour = |annotations: &str| {
        one(&format!("name: t\ninputSchema: {{type: object}}\n{annotations}")).spec.behaviour
    };
    let read_only = behaviour("annotations: {readOnlyHint: true, title: T}");
    assert!(read_only.read_only && read_only.idempotent && !read_only.destructive);
    assert_eq!(read_only.concurrency_safe, Some(true));
    assert!(behaviour("annotations: {readOnlyHint: false}").destructive);
    assert!(!behaviour("annotations: {readOnlyHint: false, destructiveHint: false}").destructive);
    assert_eq!(behaviour(""), windlass::Behaviour::default());
}

#[test]
fn faults_of_json_schemas_have_places() {
    for (schema, expected) in [
        ("{type: array}", "2:21: the arguments are of type \"array\"; write `object`"),
        ("{type: object, properties: {a: {type: strng}}}", "2:52: unknown type `strng`"),
        ("{type: object, properties: {a: {type: string}}, required: [b]}", "`b` is required, but"),
        (
            "{type: object, properties: {a: {type: string, required: true}}}",
            "is a list of property names",
        ),
        ("{type: object, properties: {a: {enum: []}}}", "`enum` is empty"),
        ("{type: object, properties: {a: {minimum: 3, maximum: 2}}}", "is above the largest"),
        ("{type: object, properties: [a]}", "`properties` is a mapping of schemas, found a list"),
        ("[a]", "the arguments are a JSON Schema, found a list"),
    ] {
        let found = faults(&format!("name: t\ninputSchema: {schema}"));
        assert!(found.contains(expected), "expected: {expected}\nfound: {found}");
    }
}

#[tokio::test]
async fn a_schema_from_elsewhere_that_does_not_compile_reaches_the_model_as_it_is() {
    let schema = json!({
        "type": "object",
        "properties": {
            "code": {"type": "string", "pattern": "("},
            "share": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
            "count": {"type": "integer", "dependentRequired": 7},
        },
        "required": ["share"],
    });
    let engine = windlass::Engine::builder().build().unwrap();
    let file = json!({"name": "t", "description": "d", "inputSchema": schema}).to_string();
    let report = engine.load_text("t.json", &file);
    assert_eq!(report.errors, [], "it is a tool");
    let told = |note: &windlass::definition::LoadError| note.message.contains("is not checked");
    assert!(report.notes.iter().any(told), "{:?}", report.notes);
    let tool = engine.registry().get("t").unwrap();
    assert_eq!(*tool.model_schema(), schema);
    assert!(tool.unchecked().unwrap().contains("/properties/"), "{:?}", tool.unchecked());
    for (given, fault) in [
        (json!({"code": "x"}), Some("/share")),
        (json!({"share": 0}), Some("/share")),
        (json!({"share": 1, "pair": ["a", "b"]}), Some("/pair/1")),
        (json!({"share": 1, "code": 5}), Some("/code")),
        (json!({"share": 1, "count": "many"}), Some("/count")),
        (json!({"share": 1, "code": "x", "count": 2, "pair": ["a", 1]}), None),
    ] {
        let result = engine.call(windlass::CallRequest::new("t", given.clone())).await;
        let error = result.error().unwrap();
        let wanted = fault.map_or("executor", |fault| fault);
        let said = format!("{} {error}", error.kind());
        assert!(said.contains(wanted), "{given}: {said}");
    }
}

#[test]
fn anchors_aliases_and_merges_work() {
    let tool = one("\
name: t
parameters:
  - &base {name: a, type: string, validation: &limits {max_length: 5}}
  - {<<: *base, name: b}
  - {name: c, type: string, validation: *limits}
");
    for name in ["a", "b", "c"] {
        assert_eq!(tool.spec.input["properties"][name]["maxLength"], 5, "{name}");
    }
}

#[test]
fn a_file_may_hold_several_documents() {
    let tools = parse("t.yaml", "name: a\n---\nname: b\n---\n- name: c\n- name: d\n...\n").unwrap();
    let lines: Vec<(&str, u32)> =
        tools.iter().map(|tool| (tool.spec.name.as_str(), tool.line)).collect();
    assert_eq!(lines, [("a", 1), ("b", 3), ("c", 5), ("d", 6)]);
}

#[test]
fn providers_are_read() {
    let text = "\
identity:
  author: Dify
  name: google
  label: {en_US: Google}
  description: {en_US: Search}
  icon: icon.svg
  tags: [search]
credentials_for_provider:
  api_key:
    type: secret-input
    required: true
    label: {en_US: Key}
    placeholder: {en_US: Your key}
    help: {en_US: Get one}
    url: https://example.com
  region:
    type: select
    options: [{value: eu, label: {en_US: Europe}}, us]
    default: eu
credentials_check: {tool: google_search, arguments: {query: test}}
";
    let parsed = parse_all("google.yaml", text, &DefinitionLimits::default()).unwrap();
    assert!(parsed.tools.is_empty());
    let provider = &parsed.providers[0];
    assert_eq!((provider.name.as_str(), provider.credentials.len()), ("google", 2));
    let key = &provider.credentials[0];
    assert_eq!((key.kind, key.required), (CredentialKind::SecretInput, true));
    assert_eq!(provider.credentials[1].options, ["eu", "us"]);
    let check = provider.check.as_ref().unwrap();
    assert_eq!((check.tool.as_str(), &check.arguments["query"]), ("google_search", &"test".into()));

    let found = faults("identity: {name: x}\ncredentials_check: {tool: t, arguments: [1]}");
    assert_eq!(found, "t.yaml:2:41: `arguments` is a mapping");
    let found = faults("identity: {name: x}\ncredentials_schema: [{name: k, type: secret}]");
    assert_eq!(
        found,
        "t.yaml:2:38: unknown credential type `secret`; did you mean `secret-input`?"
    );
}

#[test]
fn one_server_of_a_list_does_not_take_the_others_with_it() {
    let text = json!({"mcpServers": {
        "Brave Search": {"command": "npx", "args": ["-y", "brave"]},
        "Brave/Search": {"command": "npx", "protocol": "legacy", "one_at_a_time": true},
        "old": {"type": "sse", "url": "https://example.com/sse"},
        "wrong": {"command": "npx", "args": "-y brave"},
        "good": {"command": "npx", "trust": true, "includeTools": ["a"], "headersHelper": "x",
            "gallery": true, "version": "1", "metadata": {}, "timout": 5},
    }});
    let text = serde_json::to_string_pretty(&text).unwrap();
    let parsed = parse_all("servers.json", &text, &DefinitionLimits::default()).unwrap();
    let names: Vec<&str> = parsed.providers.iter().map(|own| own.name.as_str()).collect();
    assert_eq!(names, ["Brave_Search", "Brave_Search_2", "good"]);
    let second = parsed.providers[1].mcp.as_deref().unwrap();
    assert_eq!(second.protocol, McpProtocol::Legacy);
    assert!(second.one_at_a_time);
    let notes: Vec<String> = parsed.notes.iter().map(ToString::to_string).collect();
    for (at, what) in [
        "the server `Brave Search` is called `Brave_Search` here",
        "the server `Brave/Search` is called `Brave_Search_2` here",
        "the key `trust` in a server means nothing here",
        "the key `includeTools` in a server means nothing here",
        "the key `headersHelper` in a server means nothing here",
        "the key `timout` in a server means nothing here; did you mean `timeout`?",
        "the server `old` is left out: the transport `sse` of 2024 is not spoken here",
        "the server `wrong` is left out: `args` is a list of texts, found a text",
    ]
    .iter()
    .enumerate()
    {
        assert!(notes[at].starts_with("servers.json:") && notes[at].contains(what), "{notes:#?}");
    }
    assert_eq!(notes.len(), 8, "{notes:#?}");
}

#[test]
fn the_form_of_vs_code_is_read_and_its_inputs_become_credentials() {
    let inputs = json!([
        {"type": "promptString", "id": "api-key", "description": "API key of Svc", "password": true},
        {"type": "promptString", "id": "user", "default": "ada"},
        {"type": "pickString", "id": "region", "options": ["eu", {"label": "US", "value": "us"}]},
        {"type": "command", "id": "token", "command": "ext.token"},
        {"type": "promptString", "id": "unused"},
    ]);
    let servers = json!({
        "svc": {
            "type": "stdio", "command": "npx", "args": ["-y", "svc", "--region=${input:region}"],
            "env": {"KEY": "${input:api-key}", "USER": "${input:user}", "TWICE": "${input:api-key}"},
        },
        "far": {
            "type": "http", "url": "https://example.com/${input:undeclared}/mcp",
            "headers": {"Authorization": "Bearer ${input:token}"},
        },
        "plain": {"command": "plain"},
    });
    let alone = json!({"inputs": inputs, "servers": servers});
    for text in
        [alone.clone(), json!({"mcp": alone}), json!({"mcpServers": servers, "inputs": inputs})]
    {
        let parsed =
            parse_all("mcp.json", &text.to_string(), &DefinitionLimits::default()).unwrap();
        assert!(parsed.notes.is_empty() && parsed.tools.is_empty(), "{:?}", parsed.notes);
        let [svc, far, plain] = parsed.providers.as_slice() else { panic!("{parsed:?}") };
        assert_eq!((&*svc.name, &*far.name, &*plain.name), ("svc", "far", "plain"));
        assert_eq!(svc.credentials, svc.mcp.as_ref().unwrap().inputs);
        let names: Vec<&str> = svc.credentials.iter().map(|own| own.name.as_str()).collect();
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{names:?}");
        let of = |provider: &ProviderSpec, name: &str| {
            provider.credentials.iter().find(|own| own.name == name).unwrap().clone()
        };
        let key = of(svc, "api-key");
        assert_eq!((key.kind, key.required), (CredentialKind::SecretInput, true));
        assert_eq!(key.label.unwrap().get(Lang::En), "API key of Svc");
        let user = of(svc, "user");
        assert_eq!((user.kind, user.required), (CredentialKind::TextInput, false));
        assert_eq!(user.default, Some("ada".into()));
        let region = of(svc, "region");
        assert_eq!(
            (region.kind, region.options.as_slice()),
            (CredentialKind::Select, &["eu".to_owned(), "us".to_owned()][..])
        );
        for name in ["undeclared", "token"] {
            let input = of(far, name);
            assert_eq!((input.kind, input.required), (CredentialKind::SecretInput, true), "{name}");
        }
        assert!(plain.credentials.is_empty());
    }
    let wrong = json!({"servers": {"a": {"command": "x"}}, "inputs": {"id": "x"}});
    assert!(faults(&wrong.to_string()).contains("`inputs` is a list, found a mapping"));
    let wrong = json!({"servers": {"a": {"command": "x"}}, "inputs": [{"type": "promptString"}]});
    assert!(faults(&wrong.to_string()).contains("`id`"));
}

#[test]
fn a_list_of_nothing_but_faults_is_wrong_and_so_is_an_unknown_key_in_our_own_form() {
    let list = json!({"mcpServers": {"old": {"type": "sse", "url": "https://example.com"}}});
    assert!(faults(&list.to_string()).contains("`sse` of 2024"));
    let own = "name: p\nmcp: {command: npx, trust: true}\n";
    assert!(faults(own).contains("unknown key `trust` in a server"));
    for (url, wanted) in [
        (
            "mcp.example.com/mcp",
            "2:12: the address `mcp.example.com/mcp` of a server does not begin",
        ),
        ("mcp.example.com/mcp", "write `https://mcp.example.com/mcp`"),
        ("ftp://example.com", "2:12: the address `ftp://example.com` of a server does not begin"),
    ] {
        let own = faults(&format!("name: p\nmcp: {{url: '{url}'}}\n"));
        assert!(own.contains(wanted), "{own}");
    }
    for url in ["HTTPS://example.com", "http://localhost:1", "${BASE}/mcp"] {
        let own = format!("name: p\nmcp: {{url: '{url}'}}\n");
        assert!(parse_all("p.yaml", &own, &DefinitionLimits::default()).is_ok(), "{url}");
    }
    let own = "name: p\nmcp: {command: npx, protocol: old}\n";
    assert!(faults(own).contains("unknown protocol `old`"));
}
