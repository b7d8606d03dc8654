use serde_json::json;

use super::*;

#[track_caller]
fn check(operation: &str, mut arguments: Value, expected: impl Into<Value>) {
    arguments["operation"] = json!(operation);
    let shown = match run(&Arguments::new(&arguments)) {
        Ok(output) => output.value().cloned().unwrap_or_else(|| output.to_text().into()),
        Err(error) => format!("error: {}", error.message()).into(),
    };
    assert_eq!(shown, expected.into(), "{arguments}");
}

#[test]
fn shapes() {
    check(
        "length",
        json!({"text": "héllo wörld\n二"}),
        json!({"characters": 13, "bytes": 17, "words": 3, "lines": 2}),
    );
    check("upper", json!({"text": "straße"}), "STRASSE");
    check("lower", json!({"text": "ÀB"}), "àb");
    check("title", json!({"text": "the qUICK  fox"}), "The Quick  Fox");
    check("capitalize", json!({"text": "éCOLE Du soir"}), "École du soir");
    check("trim", json!({"text": "  a  "}), "a");
    check("trim", json!({"text": "xxaxx", "characters": "x", "side": "start"}), "axx");
    check("pad", json!({"text": "7", "length": 3, "fill": "0", "side": "start"}), "007");
    check("pad", json!({"text": "ab", "length": 7, "fill": "-=", "side": "both"}), "-=ab-=-");
    check("pad", json!({"text": "abc", "length": 2}), "abc");
    check("truncate", json!({"text": "abcdef", "length": 4}), "abc…");
    check("truncate", json!({"text": "abcd", "length": 4}), "abcd");
    check("repeat", json!({"text": "ab", "count": 3, "separator": "-"}), "ab-ab-ab");
    check("repeat", json!({"text": "ab", "count": 0}), "");
    check("reverse", json!({"text": "e\u{301}x👩🏽"}), "👩🏽xe\u{301}");
    check("substring", json!({"text": "Windlass", "start": 4}), "lass");
    check("substring", json!({"text": "Windlass", "start": -4, "end": -1}), "las");
    check("substring", json!({"text": "abc", "start": 5, "end": 2}), "");
    check("slug", json!({"text": " Hello, Wörld! 2 "}), "hello-wörld-2");
}

#[test]
fn lists() {
    check("split", json!({"text": "a,b,,c", "separator": ","}), json!(["a", "b", "", "c"]));
    check("split", json!({"text": "a,b,c", "separator": ",", "limit": 2}), json!(["a", "b,c"]));
    check("split", json!({"text": " a  b "}), json!(["a", "b"]));
    check(
        "split",
        json!({"text": "a1b22c", "separator": "[0-9]+", "regex": true}),
        json!(["a", "b", "c"]),
    );
    check("lines", json!({"text": "a\r\nb\n"}), json!(["a", "b"]));
    check("words", json!({"text": "one  two"}), json!(["one", "two"]));
    check("join", json!({"items": ["a", 1, null, true], "separator": ", "}), "a, 1, null, true");
}

#[test]
fn searches() {
    let text = "The cat and the Cat";
    check("contains", json!({"text": text, "search": "cat"}), true);
    check("contains", json!({"text": text, "search": "c.t"}), false);
    check("starts_with", json!({"text": text, "search": "the"}), false);
    check("starts_with", json!({"text": text, "search": "the", "ignore_case": true}), true);
    check("ends_with", json!({"text": text, "search": "[Cc]at", "regex": true}), true);
    check("find", json!({"text": "ünder", "search": "der"}), 2);
    check("find", json!({"text": text, "search": "dog"}), -1);
    check("count", json!({"text": text, "search": "cat", "ignore_case": true}), 2);
    check(
        "replace",
        json!({"text": text, "search": "cat", "replacement": "$1"}),
        "The $1 and the Cat",
    );
    check(
        "replace",
        json!({"text": "a-b-c", "search": "-", "replacement": "+", "limit": 1}),
        "a+b-c",
    );
    check(
        "replace",
        json!({"text": "Doe, Jane", "search": r"(\w+), (?<first>\w+)", "replacement": "$first $1", "regex": true}),
        "Jane Doe",
    );
    check(
        "match",
        json!({"text": "é v1.2", "search": r"v(?<major>\d+)\.(\d+)"}),
        json!({"matched": true, "match": "v1.2", "index": 2, "groups": ["1", "2"], "named": {"major": "1"}}),
    );
    check("match", json!({"text": "x", "search": "y"}), json!({"matched": false}));
    check("extract", json!({"text": "a1 b22", "search": r"\w(\d+)"}), json!(["a1", "b22"]));
    check(
        "extract",
        json!({"text": "a1 b22", "search": r"\w(\d+)", "group": 1}),
        json!(["1", "22"]),
    );
    check("extract", json!({"text": "a1", "search": r"\w(?<n>\d+)", "group": "n"}), json!(["1"]));
    check(
        "extract",
        json!({"text": "a1", "search": "a", "group": 2}),
        "error: there is no group 2; the pattern has 0",
    );
}

#[test]
fn encodings() {
    check("base64_encode", json!({"text": "héllo?>"}), "aMOpbGxvPz4=");
    check("base64_decode", json!({"text": "aMOpbGxvPz4"}), "héllo?>");
    check("base64_decode", json!({"text": "aMOp\nbGxvPz4="}), "héllo?>");
    check(
        "base64_decode",
        json!({"text": "_w"}),
        "error: the 1 decoded bytes are not text in UTF-8",
    );
    check("url_encode", json!({"text": "a b&c=é~"}), "a%20b%26c%3D%C3%A9~");
    check("url_decode", json!({"text": "a%20b%26c%3D%C3%A9~"}), "a b&c=é~");
    check("url_decode", json!({"text": "%ff"}), "error: the decoded bytes are not text in UTF-8");
}

#[test]
fn what_would_be_too_large_is_refused() {
    let too_large = "error: the result would have more than 1000000 bytes";
    check("repeat", json!({"text": "abc", "count": 1_000_000_000}), too_large);
    check("pad", json!({"text": "", "length": 1_000_000_000}), too_large);
    let long = "x".repeat(100_000);
    check(
        "replace",
        json!({"text": long, "search": "x", "replacement": "y".repeat(1000)}),
        too_large,
    );
    check("join", json!({"items": vec![""; 1000], "separator": long}), too_large);
    check(
        "replace",
        json!({"text": long, "search": "x+", "replacement": "$0".repeat(10_000), "regex": true}),
        "error: the result could have more than 1000000 bytes",
    );
    check(
        "upper",
        json!({"text": "x".repeat(1_000_001)}),
        "error: the text has 1000001 bytes; the most that is taken is 1000000",
    );
}

#[test]
fn patterns_are_bounded() {
    let shown = |pattern: &str, text: &str| {
        let arguments =
            json!({"operation": "count", "text": text, "search": pattern, "regex": true});
        run(&Arguments::new(&arguments)).map(|output| output.to_text())
    };
    assert!(
        shown("(a{100}){100}{100}", "a").unwrap_err().message().contains("is not a valid pattern")
    );
    assert!(shown("(", "a").unwrap_err().message().contains("unclosed group"));
    assert!(shown(&"(".repeat(60), "a").is_err());
    assert_eq!(shown(r"\w+@\w+\.\p{Letter}{2,}", "a@b.com, ü@d.org").unwrap(), "2");
    // A large expression is for short texts only.
    let large = r"\w{2,20}@\w{2,20}";
    assert_eq!(shown(large, "héllo@example").unwrap(), "1");
    assert!(shown(large, &"a".repeat(90_000)).unwrap_err().message().contains("size limit"));
    let error = shown("a", &"a".repeat(100_001)).unwrap_err();
    assert!(error.message().starts_with("a regular expression takes at most"));
}

#[test]
fn a_missing_parameter_is_named() {
    check(
        "replace",
        json!({"text": "a", "search": "b"}),
        "error: operation `replace` needs the parameter `replacement`",
    );
    check("upper", json!({}), "error: operation `upper` needs the parameter `text`");
    check("count", json!({"text": "a", "search": ""}), "error: what to look for must not be empty");
}
