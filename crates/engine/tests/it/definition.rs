//! Definitions: what loads, what is rejected, and with which message.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy.toml allows them in test functions, not in what these share"
)]

mod expansion;
pub(crate) mod export;
mod forms;
mod hostile;
mod reliability;
mod seeds;

use std::fmt::Write as _;

use windlass::definition::{Definition, lint, parse};

/// The only tool of a text that must load.
fn one(text: &str) -> Definition {
    match parse("t.yaml", text) {
        Ok(tools) if tools.len() == 1 => tools.into_iter().next().unwrap(),
        Ok(tools) => panic!("{} tools in:\n{text}", tools.len()),
        Err(errors) => panic!("{errors:#?}\n{text}"),
    }
}

/// Everything that is wrong with a text, one fault a line.
fn faults(text: &str) -> String {
    let errors = parse("t.yaml", text).expect_err(text);
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A tool with one parameter, written in flow style.
fn with_parameter(parameter: &str) -> String {
    format!("name: t\nparameters:\n- {{name: p, {parameter}}}\n")
}

#[test]
fn faults_say_where_and_what_to_write() {
    let cases = [
        (
            "name: t\nparameters:\n- {name: p, type: strng}",
            "3:19: unknown type `strng`; did you mean `string`?",
        ),
        (
            "name: t\nparameters:\n- {name: p, type: float}",
            "3:19: unknown type `float`; did you mean `number`?",
        ),
        (
            "name: t\ndescripton: x",
            "2:1: unknown key `descripton` in a tool; did you mean `description`?",
        ),
        ("name: t\nparams: []", "2:1: unknown key `params` in a tool; did you mean `parameters`?"),
        ("description: x", "1:1: a tool needs `name`"),
        ("name: a b", "1:7: the tool name `a b` has a ' '; use letters, digits and _ - . / :"),
        ("name: t\nname: u", "2:1: duplicate key `name`, first in line 1"),
        ("name: t\n1: x", "2:1: the key `1` is not a text; write \"1\""),
        (
            "name: t\ntimeout: fast",
            "2:10: `timeout`: `fast` is not a duration; write 30s, 500ms, 2m or 1h",
        ),
        (
            "name: t\ntimeout: 0",
            "2:10: `timeout`: 0 seconds is out of range; use more than 0 and at most a year",
        ),
        ("name: t\nexposure: direkt", "2:11: unknown exposure `direkt`; did you mean `direct`?"),
        (
            "name: t\nbehaviour: {read_only: yes}",
            "2:24: `read_only` is true or false, found a text",
        ),
        (
            "name: t\nbehaviour: {read_only: true, destructive: true}",
            "2:12: a tool cannot be both `read_only` and `destructive`",
        ),
        (
            "name: t\nentry: {type: bultin}",
            "2:15: unknown entry type `bultin`; did you mean `builtin`?",
        ),
        (
            "name: t\nkind: rest\nentry: {type: builtin}",
            "2:7: `kind` is rest, but the entry's type means builtin",
        ),
        (
            "name: t\nparameters: x",
            "2:13: `parameters` is a list, found a text; write `- name: …` for each parameter",
        ),
        (
            "name: t\nparameters: {url: {type: string}}",
            "2:13: the arguments are a mapping, but not a JSON Schema; write a list of parameters, or `type: object` and `properties`",
        ),
        (
            "name: t\nlabel: {english: x}",
            "2:9: `english` in `label` is not a language; write a tag such as en_US or zh_Hans",
        ),
        (
            "name: t\noutput: {type: object, properties: {a: intger}}",
            "2:40: unknown type `intger`; did you mean `integer`?",
        ),
        ("name: t\npresets: {a: 1}", "2:11: unknown parameter `a` in `presets`; the tool has none"),
        ("name: t\nstatus: draft", "2:9: a definition is `status: active`; or move the file away"),
        ("- name: t\n- name: t", "2:3: the tool `t` is already defined in line 1"),
        (
            "just text",
            "1:1: expected a tool, found a text; write a mapping with `name` and `description`",
        ),
        (
            "openapi: 3.0.0",
            "1:1: this is an OpenAPI document, not a tool definition; import it with `windlass providers add NAME FILE`, or call it openapi.yaml and name it in a provider: {identity: {name: NAME}, openapi: ./openapi.yaml}",
        ),
        ("# nothing", "1:1: the file defines nothing; write a tool: name, description …"),
        ("name: [", "1:7: not valid YAML or JSON: unclosed bracket '['"),
        ("name: !secret x", "1:15: tags such as `!name` have no meaning here"),
        (
            "name: t\nmax_output_bytes: -1",
            "2:19: `max_output_bytes` is a whole number, 0 or more, found a number",
        ),
        ("name: t\ntags: x", "2:7: `tags` is a list of texts, found a text"),
    ];
    let mut wrong = String::new();
    for (text, expected) in cases {
        let found = faults(text);
        if !found.lines().any(|fault| fault.strip_prefix("t.yaml:") == Some(expected)) {
            write!(wrong, "{text}\nexpected: {expected}\nfound:    {found}\n\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn faults_of_parameters() {
    let cases = [
        ("type: string, validation: {pattern: \"[\"}", "the pattern `[` does not compile"),
        ("type: string, validation: {pattern: \"(\\\\w{100}){100}{100}\"}", "does not compile"),
        (
            "type: integer, validation: {min: 5, max: 1}",
            "the smallest allowed, 5, is above the largest, 1",
        ),
        (
            "type: string, validation: {min_length: 5, max_length: 1}",
            "the smallest allowed, 5, is above the largest, 1",
        ),
        (
            "type: string, validation: {min_length: x}",
            "`min_length` is a whole number, 0 or more, found a text",
        ),
        (
            "type: string, validation: {min: 5}",
            "`min` does not apply to the type string; use `min_length` and `max_length`",
        ),
        (
            "type: integer, validation: {min_items: 5}",
            "`min_items` does not apply to the type integer",
        ),
        ("type: string, validation: {enum: []}", "`enum` is empty: no value would be allowed"),
        ("type: string, validation: {enum: [a, b]}, default: c", "the default does not fit"),
        ("type: integer, validation: {max: 5}, default: 7", "the default does not fit"),
        ("type: boolean, default: yes", "the default does not fit"),
        (
            "type: string, validation: {minlength: 1}",
            "unknown limit `minlength`; did you mean `min_length`?",
        ),
        (
            "type: object, validation: {properties: {a: string}, required: [b]}",
            "`b` is required, but is not in `properties`",
        ),
        (
            "type: array, validation: {items: {type: strin}}",
            "unknown type `strin`; did you mean `string`?",
        ),
        ("type: select", "a `select` needs `options`"),
        ("type: select, options: []", "`options` is empty"),
        ("type: select, options: [a, a]", "the option \"a\" is given twice"),
        ("type: select, options: [a, b], default: c", "the default does not fit"),
        ("type: secret-input, default: abc", "a secret has no default"),
        ("type: secret-input, form: llm", "a model never fills a secret"),
        ("type: string, required: maybe", "`required` is true or false, found a text"),
        ("type: string, form: formm", "unknown form `formm`; did you mean `form`?"),
        ("type: string, min: 1, validation: {min: 2}", "`min` is given twice"),
        ("typ: string", "a parameter needs `type`"),
        ("typ: string", "unknown key `typ` in a parameter; did you mean `type`?"),
    ];
    for (parameter, expected) in cases {
        let text = with_parameter(parameter);
        let found = faults(&text);
        assert!(found.contains(expected), "{text}\nexpected: {expected}\nfound:    {found}");
        assert!(found.contains("t.yaml:3:"), "{found}");
    }
}

#[test]
fn all_faults_of_a_file_come_at_once_in_order() {
    let text = "\
name: bad name
timeout: soon
parameters:
  - name: a
    type: strng
  - name: b
    type: integer
    validation: {min: 9, max: 1}
  - name: b
    type: string
nonsense: 1
---
name: other
colour: red
";
    insta::assert_snapshot!(faults(text), @r"
    t.yaml:1:7: the tool name `bad name` has a ' '; use letters, digits and _ - . / :
    t.yaml:2:10: `timeout`: `soon` is not a duration; write 30s, 500ms, 2m or 1h
    t.yaml:5:11: unknown type `strng`; did you mean `string`?
    t.yaml:8:26: the smallest allowed, 9, is above the largest, 1
    t.yaml:9:5: duplicate parameter `b`, first in line 6
    t.yaml:11:1: unknown key `nonsense` in a tool; use one of name, description, parameters, implementation_config, metadata, entry, kind, version, provider, author, icon, group, label, category, tags, output, behaviour, approval, writes, safe_when, exposure, timeout, estimated_duration, max_concurrent, retry, upstream, cache, max_output_bytes, is_team_authorization, id, status, presets
    t.yaml:14:1: unknown key `colour` in a tool; use one of name, description, parameters, implementation_config, metadata, entry, kind, version, provider, author, icon, group, label, category, tags, output, behaviour, approval, writes, safe_when, exposure, timeout, estimated_duration, max_concurrent, retry, upstream, cache, max_output_bytes, is_team_authorization, id, status, presets
    ");
}

#[test]
fn prompts_in_a_tool_are_told_where_they_belong() {
    let text = "name: t\ndescription: d\nprompts: [{name: p, messages: [{text: x}]}]\n";
    let faults = faults(text);
    assert_eq!(
        faults,
        "t.yaml:3:1: unknown key `prompts` in a tool; `prompts` are a document of their own, \
         without `name`"
    );
}

#[test]
fn lints_point_at_what_could_be_better() {
    let definition = one("\
name: github.search
description: Find
category: htp
kind: rest
parameters:
  - {name: query, type: string, required: true, default: x}
");
    let lints: Vec<String> = lint(&definition)
        .iter()
        .map(|lint| format!("{}:{}: {}; {}", lint.line, lint.column, lint.message, lint.hint))
        .collect();
    insta::assert_snapshot!(lints.join("\n"), @r"
    1:1: the description of `github.search` is very short; say what it does and when to use it
    1:1: the name `github.search` does not fit model APIs; models will see `github_search`; use at most 64 of A-Z a-z 0-9 _ -
    1:1: unknown category `htp`; did you mean `http`?
    1:1: `github.search` does not declare its behaviour; without `behaviour: {read_only: true}` it runs alone in a batch
    1:1: `github.search` is a rest tool without a timeout; write `timeout: 30s`
    6:5: the parameter `query` has no description; say what it means, with an example
    6:5: the parameter `query` is required, so its default is never used; drop one of the two
    ");

    let good = one("\
name: search
description: Searches the web and returns the ten best pages.
behaviour: {read_only: true}
parameters:
  - {name: query, type: string, required: true, description: What to look for.}
");
    assert_eq!(lint(&good), []);

    let near = one("\
name: search
description: Searches the web and returns the ten best pages.
behaviour: {read_only: true}
parameters:
  type: object
  properties:
    query: {type: string, description: What to look for., min_length: 3}
");
    let lints = lint(&near);
    assert_eq!(lints.len(), 1, "{lints:?}");
    assert_eq!((lints[0].line, lints[0].column), (7, 5));
    assert_eq!(lints[0].hint, "did you mean `minLength`?");
}
