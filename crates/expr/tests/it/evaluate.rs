//! Values.

use serde_json::json;

use crate::{check, evaluate, fails};

#[test]
fn selects_fields_and_elements() {
    check("input.name", json!("Ann"));
    check("input['name']", json!("Ann"));
    check("found.results[1].url", json!("u2"));
    check("found.results[1.0].url", json!("u2"));
    check("`get-ticket`.id", json!(7));
    check("{'a-b': 1}.`a-b`", json!(1));
    check("big", json!(18_446_744_073_709_551_615_u64));
    fails(
        "input.nam",
        "no such key: `nam`, the map has `name`, `n`, `price`, `none`, `tags`, `ok`; did you mean `name`?",
    );
    fails(
        "found.results[2]",
        "there is no element 2 in a list of 2; write list[?index] if it may be absent",
    );
    fails("input.none.x", "null has no field `x`; write `?.x` if it may be null");
    fails("inpt.name", "there is no `inpt` here; did you mean `input`?");
    fails("input.name.x", "a string has no field `x`");
}

#[test]
fn reads_what_may_be_absent() {
    check("skipped?", json!(null));
    check("skipped?.id", json!(null));
    check("skipped?.id.orValue(5)", json!(5));
    check("input?.name", json!("Ann"));
    check("input.?none.x", json!(null));
    check("input.?nothing.orValue('x')", json!("x"));
    check("found.results[?5].url", json!(null));
    check("found.results[?0].url", json!("u1"));
    check("has(input.name)", json!(true));
    check("has(input.nothing)", json!(false));
    check("has(skipped)", json!(false));
    check("has(input)", json!(true));
    check("default(skipped.a.b, 1)", json!(1));
    check("default(input.none, 1)", json!(1));
    check("default(input.n, 1)", json!(3));
    check("default(1, 1 / 0)", json!(1));
    check("first(skipped, empty.x, input.n)", json!(3));
    check("first(skipped?, empty.?x)", json!(null));
    check("first(found.results[9], found.results[0]).url", json!("u1"));
    check("optional.of(3).optMap(x, x + 1).value()", json!(4));
    check("optional.none().optMap(x, x + 1).hasValue()", json!(false));
    check("skipped?.id.or(input.?n).value()", json!(3));
    check("[?input.?nothing, ?input.?n]", json!([3]));
    check("{?'a': input.?nothing, ?'b': input.?n}", json!({"b": 3}));
}

#[test]
fn chooses() {
    check("input.ok ? 1 : 2", json!(1));
    check("input.n > 5 ? 'big' : input.n > 2 ? 'middle' : 'small'", json!("middle"));
    check("input.ok ? .5 : 1", json!(0.5));
    check("input.ok?.5:1", json!(0.5));
    check("input.ok || 1 / 0 == 1", json!(true));
    check("1 / 0 == 1 || input.ok", json!(true));
    check("1 / 0 == 1 && false", json!(false));
    fails("1 / 0 == 1 && true", "division by zero");
    fails(
        "input.name && true",
        "`&&` needs bools, not a string; compare the value: x != null, x != \"\", size(x) > 0",
    );
}

#[test]
fn calculates() {
    check("1 + 2 * 3", json!(7));
    check("(1 + 2) * 3", json!(9));
    check("7 / 2", json!(3));
    check("-7 % 3", json!(-1));
    check("7 / 2.0", json!(3.5));
    check("input.price * input.n", json!(7.5));
    check("2.0 * 3", json!(6.0));
    check("-9223372036854775808", json!(i64::MIN));
    check("0x1f + 1", json!(32));
    check("1u + 1", json!(2));
    check("- - 3", json!(3));
    check("1 == 1.0", json!(true));
    check("9007199254740993 == 9007199254740992.0", json!(false));
    check("1 < 1.5 && 2u > 1.5", json!(true));
    check("round(2.5) + ceil(0.1) + floor(0.9)", json!(4));
    check("math.round(2.5)", json!(3.0));
    check("abs(-3)", json!(3));
    check("max(1, 2.5, 2)", json!(2.5));
    check("min([3, 1, 2])", json!(1));
    check("['b', 'a'].min()", json!("a"));
    check("[1, 2, 3].sum() + sum([0.5])", json!(6.5));
    check("[].sum()", json!(0));
    fails(
        "9223372036854775807 + 1",
        "the result does not fit into 64 bits; calculate with doubles: double(x)",
    );
    fails("1 / 0", "division by zero");
    fails(
        "1.0 / 0.0",
        "JSON has no number inf; compare with math.isFinite(x), or convert with string(x)",
    );
    fails("'a' + 1", "`+` cannot take a string and an int; write string(value) to join texts");
    fails(
        "input.none + 1",
        "`+` cannot take null and an int; write default(value, otherwise) if it may be null",
    );
}

#[test]
fn goes_through_lists_and_maps() {
    check("found.results.map(r, r.score)", json!([2, 1]));
    check("found.results.map(r, r.score > 1, r.url)", json!(["u1"]));
    check("found.results.filter(r, r.score < 2).map(r, r.url)", json!(["u2"]));
    check("found.results.all(r, r.score > 0)", json!(true));
    check("found.results.exists(r, r.score > 1)", json!(true));
    check("found.results.exists_one(r, r.score > 0)", json!(false));
    check("{'a': 1, 'b': 2}.map(k, k)", json!(["a", "b"]));
    check("{'a': 1, 'b': 2}.transformMap(k, v, v + 1)", json!({"a": 2, "b": 3}));
    check("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v)", json!({"b": 2}));
    check("['x', 'y'].transformList(i, v, string(i) + v)", json!(["0x", "1y"]));
    check("['x', 'y'].transformMapEntry(i, v, {v: i})", json!({"x": 0, "y": 1}));
    check("[1, 2].exists(i, v, i == 1 && v == 2)", json!(true));
    check("found.results.sortBy(r, r.score).map(r, r.url)", json!(["u2", "u1"]));
    check("[[1, 2], [3]].map(x, x.map(y, y * size(x)))", json!([[2, 4], [3]]));
    check("[1].map(x, [2].map(x, x))", json!([[2]]));
    check("cel.bind(x, input.n + 1, x * x)", json!(16));
    check("3 in [1, 2, 3] && 'a' in {'a': 1}", json!(true));
    fails(
        "input.none.map(x, x)",
        "a macro goes through a list or a map, not null; write default(value, []) if it may be absent",
    );
}

#[test]
fn works_on_lists() {
    check("range(3)", json!([0, 1, 2]));
    check("[3, 1, 2].sort()", json!([1, 2, 3]));
    check("[1, 1.0, 2, 1].distinct()", json!([1, 2]));
    check("[[1], [2, [3]]].flatten()", json!([1, 2, [3]]));
    check("[[1], [2, [3]]].flatten(2)", json!([1, 2, 3]));
    check("[1, 2, 3].slice(1, 3)", json!([2, 3]));
    check("[1, 2, 3].reverse()", json!([3, 2, 1]));
    check("[1, 2].first()", json!(1));
    check("[].last()", json!(null));
    check("[1] + [2]", json!([1, 2]));
    check("sets.contains([1, 2, 3], [2.0, 1])", json!(true));
    check("sets.equivalent([1, 1], [1])", json!(true));
    check("sets.intersects([1], [2])", json!(false));
    fails("[1, 'a'].sort()", "elements 0 and 1 of the list have no order: an int and a string");
}

#[test]
fn works_on_texts() {
    check("'a,b,c'.split(',')", json!(["a", "b", "c"]));
    check("'a,b,c'.split(',', 2)", json!(["a", "b,c"]));
    check("'häß'.split('')", json!(["h", "ä", "ß"]));
    check("['a', 'b'].join('-')", json!("a-b"));
    check("'banana'.replace('an', 'o')", json!("booa"));
    check("'banana'.replace('an', 'o', 1)", json!("boana"));
    check("'Äpfel'.lower() + 'x'.upper()", json!("äpfelX"));
    check("'Äpfel'.lowerAscii()", json!("Äpfel"));
    check("' a '.trim()", json!("a"));
    check("'grün'.size() + size('ab')", json!(6));
    check("'grün'.indexOf('n')", json!(3));
    check("'banana'.lastIndexOf('an')", json!(3));
    check("'banana'.lastIndexOf('an', 2)", json!(1));
    check("'grün'.substring(2)", json!("ün"));
    check("'grün'.substring(1, 3)", json!("rü"));
    check("'grün'.charAt(2)", json!("ü"));
    check("'grün'.reverse()", json!("nürg"));
    check("'order-17'.matches('^[a-z]+-[0-9]+$')", json!(true));
    check("matches(input.name, input.name + '$')", json!(true));
    check("'%s has %d, %.2f, %x'.format(['Ann', 3, 2.5, 255])", json!("Ann has 3, 2.50, ff"));
    check("strings.quote('a\"b\\n')", json!("\"a\\\"b\\n\""));
    check("r'\\d' + \"\\u00e4\" + '''a'b'''", json!("\\däa'b"));
    fails(
        "'abc'.substring(2, 9)",
        "there is no part from 2 to 9 of a length of 3; the end is not included; write min([size(x), n]) for an end that may be too far",
    );
}

#[test]
fn converts() {
    check("int('42') + int(2.9)", json!(44));
    check("double('1.5')", json!(1.5));
    check("string(1.5) + string(true) + string(3)", json!("1.5true3"));
    check("bool('true')", json!(true));
    check("type(1) == int && type('') == string", json!(true));
    check("type([])", json!("list"));
    check("json({'a': [1, 2.5, null]})", json!("{\"a\":[1,2.5,null]}"));
    check("parseJson('{\"a\": [1]}').a[0]", json!(1));
    check("base64.encode(b'hello')", json!("aGVsbG8="));
    check("string(base64.decode('aGVsbG8'))", json!("hello"));
    check("b'\\xff'", json!("/w=="));
    fails("int('4x')", "\"4x\" is not an int");
    fails("parseJson('{')", "the text is not JSON: EOF while parsing an object at line 1 column 1");
    fails("string([1])", "a list cannot become a string; write json(value), or list.join(\", \")");
}

#[test]
fn reckons_with_time() {
    check("timestamp('2026-01-31T09:30:00Z') + duration('36h')", json!("2026-02-01T21:30:00Z"));
    check("timestamp('2026-01-31T23:30:00Z').getDate('Europe/Berlin')", json!(1));
    check("timestamp('2026-01-31T09:30:00+02:00').getHours()", json!(7));
    check("duration('1h30m')", json!("5400s"));
    check("duration('1h30m').getMinutes()", json!(90));
    check(
        "timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z') > duration('23h')",
        json!(true),
    );
    fails(
        "timestamp('yesterday')",
        "\"yesterday\" is not a timestamp; write it as in RFC 3339: 2026-01-31T09:30:00Z",
    );
    fails(
        "duration('5 minutes')",
        "\"5 minutes\" is not a duration; write it with units: 90s, 1h30m, 250ms",
    );
}

#[test]
fn says_where_it_failed() {
    let error = evaluate("1 + (input.nam + 2)").unwrap_err();
    assert_eq!(error.at, 5..14);
    let error = evaluate("[1].map(x, x + input.name)").unwrap_err();
    assert_eq!(error.at, 11..25);
}
