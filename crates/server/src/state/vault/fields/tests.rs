use serde_json::json;

use super::*;

const CANARY: &str = "canary-5e1f0c9d";

/// What a provider asks for.
fn asked() -> Vec<CredentialField> {
    serde_json::from_value(json!([
        {"name": "api_key", "type": "secret-input", "required": true},
        {"name": "region", "type": "select", "options": ["eu", "us"], "default": "eu"},
        {"name": "account", "type": "text-input"},
        {"name": "sandbox", "type": "boolean"},
    ]))
    .unwrap()
}

fn given(value: Value) -> Vec<(String, FieldValue)> {
    let Value::Object(map) = value else { panic!("not an object") };
    map.into_iter().map(|(name, value)| (name, value.into())).collect()
}

fn check(value: Value, old: &CredentialFields) -> Result<CredentialFields, Error> {
    CredentialFields::check(&asked(), &given(value), old)
}

fn revealed(fields: &CredentialFields) -> Value {
    let values = fields.clone().reveal(&asked());
    values
        .into_iter()
        .map(|(name, value)| (name, json!(value.expose())))
        .collect::<Map<_, _>>()
        .into()
}

#[test]
fn values_are_checked_and_every_fault_names_its_field() {
    let none = CredentialFields::default();
    for (value, part) in [
        (json!({}), "/api_key: expected a secret text, got nothing"),
        (json!({"api_key": null}), "/api_key: expected a secret text, got nothing"),
        (json!({"api_key": ""}), "/api_key"),
        (json!({"api_key": ["x"]}), "/api_key: expected a secret text, got a list"),
        (json!({"api_key": "xxxxxx", "region": CANARY}), "/region: expected one of eu, us"),
        (json!({"api_key": "xxxxxx", "sandbox": CANARY}), "/sandbox: expected true or false"),
        (
            json!({"api_key": "xxxxxx", "acount": CANARY}),
            "/acount: expected no such field (did you mean `account`?)",
        ),
        (json!({"api_key": "xxxxxx", "zz": CANARY}), "one of the fields api_key, region"),
        (json!({"api_key": "••••"}), "/api_key: expected a secret text, got a masked value"),
        (json!({"api_key": "••••abcd"}), "a masked value"),
        (json!({"api_key": " ••••abcd, mine"}), "a masked value with more after it"),
        (json!({"api_key": "x".repeat(MAX_VALUE + 1)}), "more than 64 KiB"),
        (json!({"api_key": "5hort"}), "at least 6 characters, got a shorter one"),
    ] {
        let error = check(value.clone(), &none).err().unwrap_or_else(|| panic!("{value}"));
        let text = format!("{error:?} {}", error.message());
        assert!(error.message().contains(part), "{value}: {text}");
        assert!(!text.contains(CANARY), "{text}");
    }
    let both = check(json!({"region": "x", "zz": 1}), &none).err().unwrap();
    assert_eq!(both.violations().len(), 3, "all faults at once: {both:?}");
}

#[test]
fn secrets_are_masked_and_the_rest_is_not() {
    let value = json!({"api_key": CANARY, "account": "ada", "sandbox": true, "region": "us"});
    let fields = check(value, &CredentialFields::default()).unwrap();
    let masked =
        json!({"api_key": "••••0c9d", "region": "us", "account": "ada", "sandbox": "true"});
    assert_eq!(Value::Object(fields.masked()), masked);
    for (secret, shown) in [
        ("", "••••"),
        ("12345678901", "••••"),
        ("123456789012", "••••9012"),
        ("密密密密密密密密密密密码", "••••密密密码"),
    ] {
        assert_eq!(mask(secret), shown);
        assert!(is_masked(shown));
    }
    for text in ["", "•••", "secret", "x••••", "••••12345"] {
        assert!(!is_masked(text), "{text}");
    }
}

#[test]
fn a_masked_value_that_comes_back_changes_nothing() {
    let old =
        check(json!({"api_key": CANARY, "account": "ada"}), &CredentialFields::default()).unwrap();
    let back = Value::Object(old.masked());
    assert_eq!(revealed(&check(back, &old).unwrap()), revealed(&old));
    // A form that was opened before the last change.
    let stale = check(json!({"api_key": "••••zzzz", "account": "bob"}), &old).unwrap();
    assert_eq!(revealed(&stale)["api_key"], CANARY);
    assert_eq!(revealed(&stale)["account"], "bob");
    // White space that a form or a hand has added.
    for copied in ["••••0c9d ", " ••••0c9d", "•••• 0c9d", "\t••••0c9d\n", "••••"]
    {
        let kept = check(json!({"api_key": copied}), &old).unwrap();
        assert_eq!(revealed(&kept), revealed(&old), "{copied:?}");
    }
    let kept = check(json!({}), &old).unwrap();
    assert_eq!(revealed(&kept), revealed(&old));
    let emptied = check(json!({"account": null}), &old).unwrap();
    assert_eq!(revealed(&emptied), json!({"api_key": CANARY, "region": "eu"}));
    let replaced = check(json!({"api_key": "newer-key"}), &old).unwrap();
    assert_eq!(revealed(&replaced)["api_key"], "newer-key");
}

/// Changing a provider must not reveal its credentials.
#[test]
fn a_secret_stays_one_when_the_definition_changes() {
    let old = check(json!({"api_key": CANARY}), &CredentialFields::default()).unwrap();
    let mut open = asked();
    open[0].kind = CredentialKind::TextInput;
    let kept = CredentialFields::check(&open, &[], &old).unwrap();
    assert_eq!(kept.masked()["api_key"], "••••0c9d");
    let back =
        CredentialFields::check(&open, &given(json!({"api_key": "••••0c9d"})), &old).unwrap();
    assert_eq!(
        (revealed(&back)["api_key"].as_str(), back.masked()["api_key"].as_str()),
        (Some(CANARY), Some("••••0c9d"))
    );
}

#[test]
fn bytes_are_read_back_and_broken_ones_are_not() {
    let value = json!({"api_key": "线\n\0=ab", "account": "a".repeat(300), "sandbox": false});
    let fields = check(value, &CredentialFields::default()).unwrap();
    let bytes = fields.to_bytes();
    assert_eq!(bytes.capacity(), bytes.len(), "no copy is left behind by growing");
    let again = CredentialFields::from_bytes(&bytes).unwrap();
    assert_eq!(revealed(&again), revealed(&fields));
    assert_eq!(again.masked(), fields.masked());
    assert!(CredentialFields::from_bytes(&[]).unwrap().0.is_empty());
    for broken in
        [&bytes[..bytes.len() - 1], &[1], &[1, 255, 255, 255, 255, 0], &[0, 0, 0, 0, 1, 200]]
    {
        assert!(CredentialFields::from_bytes(broken).is_none());
    }
}
