//! `retry`, `upstream` and `cache` in definitions.

use std::time::Duration;

use windlass::RetryPolicy;
use windlass::definition::{lint, parse};

fn with(keys: &str) -> String {
    format!("name: look\ndescription: Looks at something.\nparameters: []\n{keys}\n")
}

#[test]
fn they_are_read_in_every_form() {
    let spec = |keys: &str| parse("t.yaml", &with(keys)).unwrap().remove(0).spec;
    assert_eq!(spec("retry: 5").retry, Some(RetryPolicy { attempts: 5, ..RetryPolicy::default() }));
    let written = "retry: {attempts: 2, backoff: 500ms, multiplier: 3, max_backoff: 10}";
    assert_eq!(
        spec(written).retry,
        Some(RetryPolicy {
            attempts: 2,
            backoff: Duration::from_millis(500),
            multiplier: 3.0,
            max_backoff: Duration::from_secs(10),
        })
    );
    assert_eq!(spec("upstream: rates.example").upstream.as_deref(), Some("rates.example"));
    let cached =
        |cache: &str| spec(&format!("behaviour: {{read_only: true}}\ncache: {cache}")).cache;
    assert_eq!(cached("true"), Some(Duration::from_secs(300)));
    assert_eq!(cached("false"), None);
    assert_eq!(cached("10m"), Some(Duration::from_secs(600)));
    // What is read can be written and read again.
    let spec = spec(written);
    let json = serde_json::to_value(&spec).unwrap();
    assert_eq!(serde_json::from_value::<windlass::ToolSpec>(json).unwrap(), spec);
}

#[test]
fn faults_say_what_to_write() {
    let fault = |keys: &str| {
        let errors = parse("t.yaml", &with(keys)).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        errors[0].to_string()
    };
    for (keys, wanted) in [
        ("retry: 0", "must be from 1 to 100"),
        ("retry: {attempts: 1000}", "must be from 1 to 100"),
        ("retry: often", "`retry`"),
        ("retry: {atempts: 3}", "did you mean `attempts`"),
        ("retry: {multiplier: 0.5}", "from 1 to 100"),
        ("cache: 5m", "read_only"),
    ] {
        let fault = fault(keys);
        assert!(fault.contains(wanted), "{keys}: {fault}");
    }
}

#[test]
fn repeating_a_change_is_advised_against() {
    let advice = |keys: &str| {
        let tool = parse("t.yaml", &with(keys)).unwrap().remove(0);
        lint(&tool).iter().any(|lint| lint.message.contains("change something twice"))
    };
    assert!(advice("retry: 3"));
    assert!(!advice("retry: 1"));
    assert!(!advice("retry: 3\nbehaviour: {idempotent: true}"));
}
