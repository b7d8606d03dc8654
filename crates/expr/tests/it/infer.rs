//! Types, and what they exclude before anything is evaluated.

use std::collections::HashMap;

use serde_json::json;
use windlass_expr::{Expr, Text, Tree, Type};

fn types() -> HashMap<String, Type> {
    let ticket = json!({
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "subject": {"type": "string"},
            "price": {"type": "number"},
            "state": {"enum": ["open", "closed"]},
            "note": {"type": ["string", "null"]},
            "person": {"$ref": "#/$defs/person"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "lines": {"type": "array", "items": {
                "type": "object",
                "properties": {"sum": {"type": "number"}, "count": {"type": "integer"}},
                "additionalProperties": false,
            }},
            "extra": {},
        },
        "additionalProperties": false,
        "$defs": {"person": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "boss": {"$ref": "#/$defs/person"}},
        }},
    });
    HashMap::from([("ticket".to_owned(), Type::from_schema(&ticket))])
}

#[track_caller]
fn is(text: &str, expected: &str) {
    match Expr::parse(text).unwrap().infer(&types()) {
        Ok(of) => assert_eq!(of.to_string(), expected, "{text}"),
        Err(error) => panic!("{text}: {error}, at {:?}", error.at),
    }
}

#[track_caller]
fn wrong(text: &str, expected: &str) {
    match Expr::parse(text).unwrap().infer(&types()) {
        Ok(of) => panic!("{text} is {of}"),
        Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
    }
}

#[test]
fn types_follow_from_schemas() {
    is("ticket.id", "int");
    is("ticket.price", "int | double");
    is("ticket.price * 2", "int | double");
    is("ticket.id + 1", "int");
    is("ticket.note", "string | null");
    is("ticket.state", "string");
    is("ticket.tags", "list(string)");
    is("ticket.tags[0]", "string");
    is("ticket.tags.join(', ')", "string");
    is("ticket.lines.map(l, l.sum)", "list(int | double)");
    is("ticket.lines.filter(l, l.count > 1)[0].sum", "int | double");
    is("ticket.lines.transformList(i, l, i)", "list(int)");
    is("ticket.lines.exists(l, l.count > 1)", "bool");
    is("ticket.person.name", "string");
    // What is recursive is not known.
    is("ticket.person.boss.name", "dyn");
    is("ticket.person.age", "dyn");
    is("ticket.extra.anything[3]", "dyn");
    is("unknown.a.b", "dyn");
    is("{'a': 1, 'b': [true]}.b", "list(bool)");
    is("ticket.id > 1 ? 'a' : 2", "string | int");
    is("default(ticket.note, 'none')", "string");
    is("default(ticket?.id, 'none')", "int | string");
    is("first(ticket?.id, ticket?.price)", "int | double | null");
    is("ticket?.id", "int | null");
    is("ticket?.id.orValue(0)", "int");
    is("ticket.?note.optMap(n, size(n))", "int | null");
    is("timestamp(ticket.subject) - duration('1h')", "string");
    is("cel.bind(x, ticket.id, x + 1)", "int");
    is("ticket.subject.split(' ').map(x, x.upper()).distinct()", "list(string)");
    is("max(ticket.id, 3)", "dyn");
    is("math.round(ticket.price)", "double");
    is("json(ticket)", "string");
    is("type(ticket.id) == int", "bool");
}

#[test]
fn what_cannot_fit_is_an_error() {
    wrong(
        "ticket.subjcet",
        "no such key: `subjcet`, the map has `id`, `subject`, `price`, `state`, `note`, `person`, `tags`, `lines`, …; did you mean `subject`?",
    );
    wrong(
        "ticket.person.nmae",
        "no such key: `nmae`; did you mean `name`? Write `.?nmae` if there are both",
    );
    wrong(
        "ticket['subjcet']",
        "no such key: `subjcet`, the map has `id`, `subject`, `price`, `state`, `note`, `person`, `tags`, `lines`, …; did you mean `subject`?",
    );
    wrong(
        "has(ticket.subjekt)",
        "no such key: `subjekt`, the map has `id`, `subject`, `price`, `state`, `note`, `person`, `tags`, `lines`, …; did you mean `subject`?",
    );
    wrong("ticket.lines.map(l, l.summe)", "no such key: `summe`, the map has `sum`, `count`");
    wrong(
        "ticket.lines.sum",
        "a list(map) has no field `sum`; write list.map(x, x.sum), or list[0].sum",
    );
    wrong("ticket.id.x", "an int has no field `x`");
    wrong(
        "ticket.id + 'a'",
        "`+` cannot take an int and a string; write string(value) to join texts",
    );
    wrong(
        "ticket.id == '7'",
        "`==` compares an int and a string, which are never equal; convert one of them: string(x), int(x), double(x)",
    );
    wrong(
        "ticket?.id == 7",
        "`==` compares an optional(int) and an int, which are never equal; write value.orValue(otherwise) or default(value, otherwise)",
    );
    wrong(
        "ticket.subject && true",
        "`&&` needs bools, not a string; compare the value: x != null, x != \"\", size(x) > 0",
    );
    wrong(
        "ticket.tags ? 1 : 2",
        "the condition of `?` needs to be a bool, not a list(string); compare the value: x != null, x != \"\", size(x) > 0",
    );
    wrong(
        "ticket.id.split(',')",
        "`split` cannot be called of an int with a string; write string.split(string) or string.split(string, int)",
    );
    wrong(
        "size(ticket.id)",
        "`size` cannot be called with an int; write size(string) or size(bytes) or size(list) or size(map)",
    );
    wrong("ticket.id.map(x, x)", "a macro goes through a list or a map, not an int");
    wrong(
        "'a' in ticket.subject",
        "`in` cannot take a string and a string; write text.contains(part)",
    );
    wrong("ticket.tags['a']", "the index of a list is a whole number, not a string");
    wrong(
        "ticket.price % 2.0",
        "`%` cannot take a number and a double; `%` is for whole numbers; write int(x)",
    );
    wrong(
        "!ticket.id",
        "`!` needs a bool, not an int; compare the value: x != null, x != \"\", size(x) > 0",
    );
    wrong("ticket.tags < ['a']", "`<` cannot take a list(string) and a list(string)");
}

#[test]
fn what_a_schema_leaves_open_is_not_known() {
    let check = |schema: serde_json::Value, text: &str| {
        let types = HashMap::from([("x".to_owned(), Type::from_schema(&schema))]);
        Expr::parse(text)
            .unwrap()
            .infer(&types)
            .map(|of| of.to_string())
            .map_err(|error| error.message)
    };
    let name = json!({"name": {"type": "string"}});
    let unknown = || Err("no such key: `names`".to_owned());
    let known = |of: &str| Ok(of.to_owned());
    assert_eq!(check(json!({"properties": name}), "x.names"), unknown());
    assert_eq!(check(json!({"properties": name}), "x.?names"), known("dyn"));
    assert_eq!(check(json!({"properties": name}), "x.address"), known("dyn"));
    assert_eq!(
        check(json!({"properties": name, "additionalProperties": {"type": "integer"}}), "x.names"),
        known("int")
    );
    assert_eq!(
        check(json!({"properties": name, "patternProperties": {"s$": {}}}), "x.names"),
        known("dyn")
    );
    for more in ["allOf", "anyOf", "oneOf"] {
        let schema =
            json!({"type": "object", "properties": name, (more): [{"properties": {"names": {}}}]});
        assert_eq!(check(schema.clone(), "x.names"), known("dyn"), "{more}");
        assert_eq!(check(schema, "x.name"), known("string"), "{more}");
    }
    let schema = json!({"$ref": "#/$defs/base", "$defs": {"base": {"properties": name}}});
    assert_eq!(check(schema, "x.names"), unknown());
    let schema = json!({"$ref": "#/$defs/base", "properties": {"names": {}}, "$defs": {"base": {"properties": name}}});
    assert_eq!(check(schema, "x.name"), known("dyn"));
    let schema = json!({"anyOf": [{"type": "null"}, {"properties": name}]});
    assert_eq!(check(schema.clone(), "x.name"), known("string"));
    assert_eq!(check(schema, "x.names"), unknown());
    let schema = json!({"oneOf": [{"properties": {"a": {"type": "string"}}, "additionalProperties": false}, {"properties": name, "additionalProperties": false}]});
    assert_eq!(check(schema.clone(), "x.a"), known("dyn"));
    assert_eq!(check(schema, "x.b"), Err("no such key: `b`, the map has `a`, `name`".to_owned()));
    assert_eq!(
        check(json!({"allOf": [{"properties": name}, {"required": ["name"]}]}), "x.name"),
        known("string")
    );
    assert_eq!(check(json!(true), "x.y.z"), known("dyn"));
    assert_eq!(
        check(json!({"type": "array", "items": [{"type": "string"}]}), "x[0]"),
        known("dyn")
    );
    assert_eq!(check(json!({"type": "string", "nullable": true}), "x"), known("string | null"));
    assert_eq!(check(json!({"$ref": "#/nowhere"}), "x.y"), known("dyn"));
}

#[test]
fn errors_have_places() {
    let error = Text::parse("äb ${1 + ticket.nam}").unwrap().infer(&types()).unwrap_err();
    assert_eq!(error.at, 10..20);
}

#[test]
fn arguments_are_checked_against_what_a_tool_wants() {
    let wanted = Type::from_schema(&json!({
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "to": {"type": "array", "items": {"type": "string"}},
            "text": {"type": "string"},
            "flags": {"type": "object", "additionalProperties": {"type": "boolean"}},
        },
        "additionalProperties": false,
    }));
    let check = |arguments: serde_json::Value| {
        let tree = Tree::parse(&arguments).unwrap();
        tree.check(&types(), &wanted)
            .map(|_| ())
            .map_err(|error| (error.path.clone(), error.to_string()))
    };
    let fits = json!({"id": "${ticket.id}", "to": ["${ticket.subject}", "x"], "text": "No ${ticket.id}", "flags": {"a": "${ticket.id > 3}"}});
    assert_eq!(check(fits), Ok(()));
    assert_eq!(
        check(json!({"id": "${ticket.note}"})),
        Err(("/id".to_owned(), "an int is wanted here, not a string or null".to_owned()))
    );
    assert_eq!(
        check(json!({"to": ["a", "${ticket.id}"]})),
        Err((
            "/to/1".to_owned(),
            "a string is wanted here, not an int; write string(value)".to_owned()
        ))
    );
    assert_eq!(
        check(json!({"text": "${ticket.tags}"})),
        Err((
            "/text".to_owned(),
            "a string is wanted here, not a list(string); write json(value) or list.join(\", \")"
                .to_owned()
        ))
    );
    assert_eq!(
        check(json!({"flags": {"a": "yes"}})),
        Err(("/flags/a".to_owned(), "a bool is wanted here, not a string".to_owned()))
    );
    assert_eq!(
        check(json!({"txt": "a"})),
        Err((
            "/txt".to_owned(),
            "no such key: `txt`, the map has `id`, `to`, `text`, `flags`; did you mean `text`?"
                .to_owned()
        ))
    );
    assert_eq!(check(json!({"id": "${unknown.x}", "text": "${unknown.y}"})), Ok(()));
}

#[test]
fn types_stay_small() {
    let nested = (0..30).fold("x".to_owned(), |body, _| {
        format!("cel.bind(x, {{'a': x, 'b': x, 'c': [x, {{'c': x}}]}}, {body})")
    });
    let expr = Expr::parse(&format!("cel.bind(x, 1, {nested})")).unwrap();
    let started = std::time::Instant::now();
    assert!(expr.infer(&types()).unwrap().to_string().len() < 100);
    assert!(started.elapsed().as_secs() < 2, "{:?}", started.elapsed());

    // 2⁴⁰ schemas by references.
    let mut definitions = serde_json::Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
        definitions.insert(format!("l{level}"), json!({"properties": {"a": next, "b": next}}));
    }
    definitions.insert("l40".to_owned(), json!({"type": "string"}));
    let schema = json!({"$ref": "#/$defs/l0", "$defs": definitions});
    let of = Type::from_schema(&schema);
    let types = HashMap::from([("x".to_owned(), of)]);
    assert!(Expr::parse("x.a.b == x.b.a && [x, {'c': x}] == [x]").unwrap().infer(&types).is_ok());
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}
