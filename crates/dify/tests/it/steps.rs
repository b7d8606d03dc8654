//! What single nodes ask for, and what their outputs are.

use serde_json::{Value as Json, json};
use windlass_dify::document::Document;
use windlass_dify::node::Node;
use windlass_dify::pool::Pool;
use windlass_dify::run;
use windlass_dify::step::{
    self, Answer, Failure, HeaderValue, History, HttpAnswer, HttpBody, ModelAnswer, Outcome,
    ToolAnswer, Work,
};
use windlass_dify::template::Part;
use windlass_dify::value::{Object, Segment, Value};

/// A node of these settings, and the variables of a run in which `n.NAME` are these.
#[expect(clippy::needless_pass_by_value, reason = "`json!` is written where it is used")]
fn node(data: &str, variables: Json) -> (Node, Pool) {
    let file = format!(
        "app: {{name: x, mode: advanced-chat}}\nworkflow:\n  environment_variables:\n  - {{name: key, value_type: secret, value: ''}}\n  - {{name: base, value_type: string, value: 'https://e.org'}}\n  conversation_variables:\n  - {{name: list, value_type: 'array[string]', value: [a]}}\n  - {{name: count, value_type: number, value: 4}}\n  - {{name: object, value_type: object, value: {{}}}}\n  graph:\n    nodes:\n    - {{id: x, data: {data}}}\n    - {{id: s, data: {{type: answer, answer: ok}}}}\n    edges: []\n"
    );
    let document = Document::read("x.yml", &file).unwrap_or_else(|faults| panic!("{faults:?}"));
    let mut system = Object::new();
    system.insert("query".to_owned(), Value::from("question"));
    let mut pool = run::pool(&document, &system);
    for (name, value) in variables.as_object().unwrap() {
        pool.set("n", name, Value::from_json(value.clone()));
    }
    (document.graph.nodes()[0].clone(), pool)
}

fn begin(data: &str, variables: Json) -> Result<Work, Failure> {
    let (node, pool) = node(data, variables);
    step::begin(&node, &pool)
}

fn done(data: &str, variables: Json) -> Result<Outcome, String> {
    match begin(data, variables) {
        Ok(Work::Done(outcome)) => Ok(outcome),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => Err(failure.message),
    }
}

fn outputs(outcome: &Outcome) -> Json {
    let outputs = outcome.outputs.iter();
    Json::Object(outputs.map(|(name, segment)| (name.clone(), segment.value.to_json())).collect())
}

fn finish(data: &str, variables: Json, answer: Answer) -> Result<(Json, Option<String>), String> {
    let (node, pool) = node(data, variables);
    let outcome = step::finish(&node, &pool, answer).map_err(|failure| failure.message)?;
    Ok((outputs(&outcome), outcome.handle))
}

fn model(text: &str) -> Answer {
    Answer::Model(Box::new(ModelAnswer { text: text.to_owned(), ..ModelAnswer::default() }))
}

#[test]
fn a_request_names_secrets_in_its_headers_and_nowhere_else() {
    let data = r#"{type: http-request, method: POST, url: "{{#env.base#}}/{{#n.id#}}", headers: "X-Key: a{{#env.key#}}z\nX-Empty:\nx-id:{{#n.id#}}", params: "q: {{#n.q#}}\nq:2", authorization: {type: api-key, config: {type: bearer, api_key: "{{#env.key#}}"}}, body: {type: json, data: [{type: text, value: '{"a": {{#n.list#}}, "b": "{{#n.q#}}"}'}]}}"#;
    let variables = json!({"id": 7, "q": "x y", "list": ["m"]});
    let Ok(Work::Http(request)) = begin(data, variables) else { panic!() };
    assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", "https://e.org/7"));
    assert_eq!(request.params, [("q".into(), "x y".into()), ("q".into(), "2".into())]);
    let (text, secret) = (|t: &str| Part::Text(t.to_owned()), Part::Secret("key".to_owned()));
    let headers = [
        ("X-Key", vec![text("a"), secret.clone(), text("z")]),
        ("X-Empty", vec![]),
        ("x-id", vec![text("7")]),
        ("Authorization", vec![text("Bearer "), secret]),
        ("Content-Type", vec![text("application/json")]),
    ];
    let headers: Vec<_> =
        headers.into_iter().map(|(n, parts)| (n.to_owned(), HeaderValue::Plain(parts))).collect();
    assert_eq!(request.headers, headers);
    assert_eq!(request.body, HttpBody::Json(json!({"a": ["m"], "b": "x y"})));

    for data in [
        r#"{type: http-request, url: "https://e.org/{{#env.key#}}"}"#,
        r#"{type: http-request, url: "https://e.org", params: "k: {{#env.key#}}"}"#,
        r#"{type: http-request, url: "https://e.org", headers: "{{#env.key#}}: x"}"#,
        r#"{type: http-request, url: "https://e.org", body: {type: raw-text, data: "{{#env.key#}}"}}"#,
        r#"{type: llm, model: {provider: p, name: m}, prompt_template: [{role: user, text: "{{#env.key#}}"}]}"#,
        r#"{type: code, code: x, variables: [{variable: k, value_selector: [env, key]}]}"#,
        r#"{type: template-transform, template: x, variables: [{variable: k, value_selector: [env, key]}]}"#,
        r#"{type: answer, answer: "{{#env.key#}}"}"#,
        r#"{type: end, outputs: [{variable: k, value_selector: [env, key]}]}"#,
        r#"{type: tool, tool_name: t, tool_parameters: {k: {type: variable, value: [env, key]}}}"#,
        r#"{type: if-else, cases: [{case_id: t, conditions: [{variable_selector: [env, key], comparison_operator: not empty}]}]}"#,
        r#"{type: document-extractor, variable_selector: [env, key]}"#,
    ] {
        let failure = begin(data, json!({})).map(|work| panic!("{data}: {work:?}")).unwrap_err();
        assert!(failure.message.contains("`env.key` is a secret"), "{data}: {failure}");
    }
}

#[test]
fn a_status_that_says_no_is_a_failure_only_where_the_node_says_what_then() {
    let answer = || {
        let headers = Object::new();
        Answer::Http(Box::new(HttpAnswer {
            status: 404,
            body: "no".into(),
            headers,
            files: vec![],
        }))
    };
    let plain = "{type: http-request, url: 'https://e.org'}";
    let (got, _) = finish(plain, json!({}), answer()).unwrap();
    assert_eq!((&got["status_code"], &got["body"]), (&json!(404), &json!("no")));
    for more in
        ["error_strategy: fail-branch", "retry_config: {retry_enabled: true, max_retries: 2}"]
    {
        let strict = format!("{{type: http-request, url: 'https://e.org', {more}}}");
        assert_eq!(
            finish(&strict, json!({}), answer()),
            Err("Request failed with status code 404".into())
        );
    }
}

#[test]
fn prompts_have_context_history_and_files_in_their_places() {
    let data = r#"{type: llm, model: {provider: langgenius/openai/openai, name: gpt-4o, completion_params: {temperature: 0.5}}, prompt_template: [{role: system, text: "Use {{#context#}}."}, {role: user, text: "{{#n.q#}} {{#n.file#}}"}, {role: assistant, edition_type: jinja2, jinja2_text: "{{ q | upper }}"}], prompt_config: {jinja2_variables: [{variable: q, value_selector: [n, q]}]}, context: {enabled: true, variable_selector: [n, found]}, memory: {window: {enabled: true, size: 3}}, vision: {enabled: true, configs: {variable_selector: [n, file]}}}"#;
    let file = json!({"dify_model_identity": "__dify__file__", "type": "image", "transfer_method": "remote_url", "remote_url": "https://e.org/a.png"});
    let variables = json!({"q": "hi", "file": file, "found": [{"content": "fact {{#n.q#}}"}, {"content": "two", "summary": "s"}]});
    let Ok(Work::Model(request)) = begin(data, variables) else { panic!() };
    let texts: Vec<&str> = request.messages.iter().map(|message| message.text.as_str()).collect();
    // What a document says is never a template.
    assert_eq!(texts, ["Use fact {{#n.q#}}\ns\ntwo.", "hi ", "HI", "question"]);
    assert_eq!(request.history, Some(History { before: 3, rounds: Some(3) }));
    let files: Vec<usize> = request.messages.iter().map(|message| message.files.len()).collect();
    assert_eq!(files, [0, 1, 0, 1]);
    assert_eq!((request.model.vendor(), request.model.name.as_str()), ("openai", "gpt-4o"));
}

#[test]
fn thoughts_are_taken_out_and_structure_is_found() {
    let data = r#"{type: llm, model: {provider: p, name: m}, prompt_template: [{role: user, text: x}], reasoning_format: separated, structured_output_enabled: true, structured_output: {schema: {type: object}}}"#;
    let (got, _) = finish(data, json!({}), model("<think>hm</think>Here: {\"a\": 1}")).unwrap();
    assert_eq!(got["text"], "Here: {\"a\": 1}");
    assert_eq!(got["reasoning_content"], "hm");
    assert_eq!(got["structured_output"], json!({"a": 1}));
}

#[test]
fn classes_and_parameters_are_found_in_what_models_say() {
    let classes = r#"{type: question-classifier, model: {provider: p, name: m}, query_variable_selector: [n, q], classes: [{id: "1", name: "a {{#n.q#}}"}, {id: "2", name: b, label: Bee}]}"#;
    for (text, id, name, label) in [
        ("```json\n{\"category_id\": \"2\", \"category_name\": \"b\"}\n```", "2", "b", "Bee"),
        (
            "<think>{\"category_id\": \"2\"}</think>{\"category_id\": \"1\", \"category_name\": \"a\"}",
            "1",
            "a hi",
            "CLASS 1",
        ),
        ("{\"category_id\": 2}", "2", "b", "Bee"),
        ("{\"category_id\": \"9\"}", "1", "a hi", "CLASS 1"),
    ] {
        let (got, handle) = finish(classes, json!({"q": "hi"}), model(text)).unwrap();
        assert_eq!(handle.as_deref(), Some(id), "{text}");
        assert_eq!((&got["class_name"], &got["class_label"]), (&json!(name), &json!(label)));
    }
    assert!(finish(classes, json!({}), model("I do not know")).is_err());

    let parameters = r#"{type: parameter-extractor, model: {provider: p, name: m}, query: [n, q], parameters: [{name: city, type: string, required: true, description: c}, {name: days, type: number, required: false, description: d}, {name: tags, type: "array[string]", required: false, description: t}]}"#;
    for (text, expected) in [
        (
            "{\"city\": \"Bern\", \"days\": 3, \"tags\": [\"a\"]}",
            json!(["Bern", 3, ["a"], 1, null]),
        ),
        (
            "Sure! {\"city\": \"Bern\", \"days\": \"2.5\", \"tags\": [\"a\", 1]}",
            json!([
                "Bern",
                2.5,
                ["a"],
                0,
                "Invalid value for parameter days, expected segment type: number, actual_type: string, value: 2.5"
            ]),
        ),
        ("{\"city\": \"Bern\"}", json!(["Bern", 0, [], 0, "Invalid number of parameters"])),
        (
            "no",
            json!([
                "",
                0,
                [],
                0,
                "Failed to extract result from function call or text response, using empty result."
            ]),
        ),
    ] {
        let (got, _) = finish(parameters, json!({"q": "x"}), model(text)).unwrap();
        let got =
            ["city", "days", "tags", "__is_success", "__reason"].map(|name| got[name].clone());
        assert_eq!(Json::from(got.to_vec()), expected, "{text}");
    }
}

#[test]
fn results_of_code_are_checked_against_what_is_declared() {
    let data = r#"{type: code, code: x, outputs: {n: {type: number}, o: {type: object, children: {k: {type: string}}}, l: {type: "array[string]"}}}"#;
    let good = json!({"n": true, "o": {"k": "v"}, "l": ["a\u{0}", null]});
    let check = |result: Json| finish(data, json!({}), Answer::Code(Value::from_json(result)));
    assert_eq!(check(good).unwrap().0, json!({"n": 1, "o": {"k": "v"}, "l": ["a", null]}));
    for (result, expected) in [
        (json!({"n": 1, "o": {"k": "v"}}), "Output l is missing."),
        (
            json!({"n": "1", "o": {"k": "v"}, "l": []}),
            "Output n is not a number, got <class 'str'> instead.",
        ),
        (json!({"n": 1, "o": {"k": 5}, "l": []}), "Output o.k must be a string, got int instead."),
        (
            json!({"n": 1, "o": {"k": "v"}, "l": [1]}),
            "Output l[0] must be a string, got int instead.",
        ),
        (
            json!({"n": 1, "o": {"k": "v"}, "l": vec!["x"; 31]}),
            "The length of output variable `l` must be less than 30 elements.",
        ),
        (
            json!({"n": 1e19, "o": {"k": "v"}, "l": []}),
            "Output variable `n` is out of range, it must be between -9223372036854775808 and 9223372036854775807.",
        ),
        (
            json!({"n": 1, "o": {"k": "v"}, "l": [], "x": 1}),
            "Not all output parameters are validated.",
        ),
        (json!([1]), "result must be a dict, got list instead."),
    ] {
        assert_eq!(check(result.clone()), Err(expected.to_owned()), "{result}");
    }
}

#[test]
fn variables_are_changed_as_their_types_allow() {
    let assign = |items: &str| {
        let data = format!("{{type: assigner, version: '2', items: [{items}]}}");
        done(&data, json!({"t": "b", "n": 2, "l": ["x", "y"], "none": null})).map(|outcome| {
            let all = outcome.assigned.into_iter();
            all.map(|(_, name, segment)| (name, segment.value.to_json())).collect::<Vec<_>>()
        })
    };
    let item = |name: &str, operation: &str, kind: &str, value: &str| {
        format!(
            "{{variable_selector: [conversation, {name}], operation: '{operation}', input_type: {kind}, value: {value}}}"
        )
    };
    let set = |name: &str, value: Json| Ok(vec![(name.to_owned(), value)]);
    for (items, expected) in [
        (item("list", "append", "variable", "[n, t]"), set("list", json!(["a", "b"]))),
        (item("list", "extend", "variable", "[n, l]"), set("list", json!(["a", "x", "y"]))),
        (item("list", "over-write", "variable", "[n, l]"), set("list", json!(["x", "y"]))),
        (item("list", "clear", "variable", "null"), set("list", json!([]))),
        (item("list", "remove-first", "variable", "null"), set("list", json!([]))),
        (item("count", "+=", "constant", "3"), set("count", json!(7))),
        (item("count", "/=", "constant", "8"), set("count", json!(0.5))),
        (item("count", "over-write", "variable", "[n, none]"), Ok(vec![])),
        (item("object", "set", "constant", "'{\"k\": 1}'"), set("object", json!({"k": 1}))),
        (
            item("count", "+=", "constant", "1") + "," + &item("count", "*=", "constant", "2"),
            set("count", json!(10)),
        ),
        (item("list", "append", "variable", "[n, n]"), Err("Invalid input value 2".to_owned())),
        (item("count", "/=", "constant", "0"), Err("Invalid input value 0".to_owned())),
        (
            item("list", "+=", "constant", "1"),
            Err("Operation += is not supported for type array[string]".to_owned()),
        ),
        (
            item("count", "+=", "variable", "[n, n]"),
            Err("Input type variable is not supported for operation +=".to_owned()),
        ),
        (
            item("gone", "clear", "variable", "null"),
            Err("Variable ['conversation', 'gone'] not found".to_owned()),
        ),
        (
            item("list", "append", "variable", "[n, gone]"),
            Err("Variable ['n', 'gone'] not found".to_owned()),
        ),
    ] {
        assert_eq!(assign(&items), expected, "{items}");
    }
}

#[test]
fn lists_are_filtered_taken_from_ordered_and_cut() {
    let lists = json!({"t": ["pear", "fig", "apple"], "n": [3, 1.5, 2], "b": [true, false], "e": [], "o": [{"k": 1}]});
    for (settings, expected) in [
        (
            "variable: [n, t], filter_by: {enabled: true, conditions: [{comparison_operator: contains, value: p}]}",
            Ok(json!(["pear", "apple"])),
        ),
        (
            "variable: [n, n], filter_by: {enabled: true, conditions: [{comparison_operator: '≥', value: '2'}]}",
            Ok(json!([3, 2])),
        ),
        (
            "variable: [n, b], filter_by: {enabled: true, conditions: [{comparison_operator: is, value: true}]}",
            Ok(json!([true])),
        ),
        (
            "variable: [n, t], order_by: {enabled: true, value: desc}, limit: {enabled: true, size: 2}",
            Ok(json!(["pear", "fig"])),
        ),
        ("variable: [n, n], order_by: {enabled: true, value: asc}", Ok(json!([1.5, 2, 3]))),
        ("variable: [n, t], extract_by: {enabled: true, serial: '2'}", Ok(json!(["fig"]))),
        (
            "variable: [n, t], extract_by: {enabled: true, serial: '4'}",
            Err("Invalid serial index: must be <= 3, got 4".to_owned()),
        ),
        ("variable: [n, e]", Ok(json!([]))),
        (
            "variable: [n, o]",
            Err("Variable ['n', 'o'] is not an array type, actual type: array[object]".to_owned()),
        ),
        ("variable: [n, gone]", Err("Variable not found for selector: ['n', 'gone']".to_owned())),
    ] {
        let got = done(&format!("{{type: list-operator, {settings}}}"), lists.clone());
        let got = got.map(|outcome| outputs(&outcome)["result"].clone());
        assert_eq!(got, expected, "{settings}");
    }
}

#[test]
fn a_person_chooses_a_handle_and_fills_in_the_form() {
    let data = r#"{type: human-input, form_content: "Pay {{#n.sum#}}? {{#$output.why#}}", inputs: [{type: paragraph, output_variable_name: why, default: {type: variable, selector: [n, sum]}}], user_actions: [{id: "yes", title: Approve}, {id: "no", title: Reject}], timeout: 2, timeout_unit: day}"#;
    let Ok(Work::Human(question)) = begin(data, json!({"sum": 5})) else { panic!() };
    assert_eq!((question.form.as_str(), question.timeout), ("Pay 5? {{#$output.why#}}", 172_800));
    assert_eq!(question.inputs[0].1, Value::Int(5));
    let inputs: Object = [("why".to_owned(), Value::from("late"))].into_iter().collect();
    let answer = Answer::Human { action: "no".to_owned(), inputs };
    let (got, handle) = finish(data, json!({"sum": 5}), answer).unwrap();
    assert_eq!(handle.as_deref(), Some("no"));
    let expected = json!({"why": "late", "__action_id": "no", "__action_value": "Reject", "__rendered_content": "Pay 5? late"});
    assert_eq!(got, expected);
    let (_, handle) = finish(data, json!({}), Answer::Expired).unwrap();
    assert_eq!(handle.as_deref(), Some("__timeout"));
    let unknown = Answer::Human { action: "maybe".to_owned(), inputs: Object::new() };
    assert!(finish(data, json!({}), unknown).is_err());
}

#[test]
fn tools_get_values_with_their_types_and_give_text_files_and_json() {
    let data = r#"{type: tool, provider_id: langgenius/tavily/tavily, provider_type: builtin, tool_name: search, tool_parameters: {q: {type: mixed, value: "about {{#n.q#}}"}, n: {type: variable, value: [n, n]}, gone: {type: variable, value: [n, gone]}, c: {type: constant, value: 5}, z: {type: mixed, value: null}}, tool_configurations: {days: {type: constant, value: 3}, raw: 1}}"#;
    let Ok(Work::Tool(call)) = begin(data, json!({"q": "x", "n": 2})) else { panic!() };
    assert_eq!(
        Value::from(call.arguments.clone()).to_json(),
        json!({"q": "about x", "n": 2, "c": 5})
    );
    assert_eq!(Value::from(call.configuration.clone()).to_json(), json!({"days": 3, "raw": 1}));
    let variables = [("own".to_owned(), Value::Int(1))].into_iter().collect();
    let answer = ToolAnswer { text: "t".into(), variables, ..ToolAnswer::default() };
    let (got, _) = finish(data, json!({}), Answer::Tool(Box::new(answer))).unwrap();
    assert_eq!(got, json!({"text": "t", "files": [], "json": [{"data": []}], "own": 1}));
}

#[test]
fn failures_become_outcomes_where_the_node_says_so() {
    let failed = || Failure::new("ToolError", "it broke");
    let (plain, _) = node("{type: tool, tool_name: t}", json!({}));
    assert_eq!(step::recover(&plain, failed()).unwrap_err(), failed());
    let (default, _) = node(
        "{type: tool, tool_name: t, error_strategy: default-value, default_value: [{key: text, type: string, value: d}, {key: n, type: number, value: '5'}]}",
        json!({}),
    );
    let outcome = step::recover(&default, failed()).unwrap();
    let expected =
        json!({"text": "d", "n": 5.0, "error_message": "it broke", "error_type": "ToolError"});
    assert_eq!(outputs(&outcome), expected);
    assert_eq!(outcome.failure, Some(failed()));
}

#[test]
fn inputs_are_fitted_to_the_form() {
    let data = r#"{type: start, variables: [{variable: t, type: text-input, required: true, max_length: 3}, {variable: n, type: number}, {variable: s, type: select, options: [a, b], default: a}, {variable: c, type: checkbox}, {variable: f, type: file-list}, {variable: o, type: json_object}]}"#;
    let start = |given: Json| {
        let (node, mut pool) = node(data, json!({}));
        let Value::Object(given) = Value::from_json(given) else { panic!() };
        step::check_inputs(&node, &given).map_err(|failure| failure.message)?;
        step::start(&node, &given, &mut pool);
        let value = |name: &str| pool.variable("x", name).map(|s: &Segment| s.value.to_json());
        Ok(["t", "n", "s", "c", "f", "o"].map(|name| value(name).unwrap()).to_vec())
    };
    let full = json!({"t": "abc", "n": "2.5", "s": "b", "c": "true", "o": "{\"k\": 1}"});
    assert_eq!(
        start(full),
        Ok(vec![json!("abc"), json!(2.5), json!("b"), json!(true), json!([]), json!({"k": 1})])
    );
    assert_eq!(
        start(json!({"t": ""})),
        Ok(vec![json!(""), json!(null), json!("a"), json!(null), json!([]), json!(null)])
    );
    for (given, expected) in [
        (json!({}), "t is required in input form"),
        (json!({"t": "abcd"}), "t in input form must be less than 3 characters"),
        (json!({"t": 5}), "t in input form must be a string"),
        (json!({"t": "a", "n": "x"}), "n in input form must be a valid number"),
        (json!({"t": "a", "s": "c"}), "s in input form must be one of the following: a, b"),
    ] {
        assert_eq!(start(given), Err::<Vec<Json>, _>(expected.to_owned()));
    }
}
