use serde_json::{Value, json};
use windlass_store::{MemoryDocuments, Put};

use super::*;
use crate::state::vault::KeySource;

const CANARY: &str = "canary-5e1f0c9d-a7b3";

struct Server {
    documents: Arc<MemoryDocuments>,
    credentials: Credentials,
}

fn server() -> Server {
    let documents = Arc::new(MemoryDocuments::new());
    let vault = Vault::new(documents.clone(), KeySource::Memory).unwrap();
    Server { documents: documents.clone(), credentials: Credentials::new(documents, vault) }
}

fn provider(name: &str) -> ProviderSpec {
    serde_json::from_value(json!({"name": name, "credentials": [
        {"name": "api_key", "type": "secret-input", "required": true},
        {"name": "account", "type": "text-input", "default": "main"},
    ]}))
    .unwrap()
}

fn key(value: &str) -> Vec<(String, FieldValue)> {
    vec![("api_key".to_owned(), json!(value).into())]
}

fn request(name: &str, user: Option<&str>, value: &str) -> CredentialRequest {
    CredentialRequest { name: name.to_owned(), user: user.map(Into::into), values: key(value) }
}

impl Server {
    async fn store(
        &self,
        tenant: &TenantId,
        name: &str,
        user: Option<&str>,
        value: &str,
    ) -> MaskedCredential {
        let request = request(name, user, value);
        self.credentials.store(tenant, &provider("weather"), request).await.unwrap()
    }

    /// The key that a call gets.
    async fn key(
        &self,
        tenant: &TenantId,
        name: Option<&str>,
        user: Option<&str>,
    ) -> Option<String> {
        let wanted = CredentialChoice { name, user };
        let revealed = self.credentials.reveal(tenant, &provider("weather"), wanted).await;
        match revealed {
            Ok(revealed) => revealed.map(|revealed| revealed.values[0].1.expose().to_owned()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::CredentialInvalid, "{error:?}");
                None
            }
        }
    }

    async fn put(&self, document: &Document, tenant: &TenantId, id: &str, body: Value) {
        let alias = document.alias.clone();
        let put = Put { alias, ..Put::new(SPACE, tenant.clone(), id, body) };
        self.documents.put(put, Expect::Anything).await.unwrap();
    }
}

#[tokio::test]
async fn a_call_gets_what_it_names_else_the_users_else_the_tenants() {
    let server = server();
    let acme = TenantId::new("acme");
    assert_eq!(server.key(&acme, None, Some("ada")).await, None);
    let first = server.store(&acme, "first", None, "k-first").await;
    let second = server.store(&acme, "second", None, "k-second").await;
    server.store(&acme, "mine", Some("ada"), "key-ada").await;
    server.store(&acme, "first", Some("bob"), "key-bob").await;
    for (name, user, wanted) in [
        (None, None, Some("k-first")),
        (None, Some("ada"), Some("key-ada")),
        (None, Some("eve"), Some("k-first")),
        (Some("second"), None, Some("k-second")),
        (Some("second"), Some("ada"), Some("k-second")),
        (Some("first"), Some("bob"), Some("key-bob")),
        (Some("first"), Some("ada"), Some("k-first")),
        (Some("mine"), Some("ada"), Some("key-ada")),
        (Some("mine"), Some("bob"), None),
        (Some("mine"), None, None),
        (None, Some(""), Some("k-first")),
    ] {
        let got = server.key(&acme, name, user).await;
        assert_eq!(got.as_deref(), wanted, "{name:?} {user:?}");
    }
    assert_eq!(server.key(&TenantId::new("other"), None, None).await, None);
    server.credentials.make_default(&acme, &second.id).await.unwrap();
    assert_eq!(server.key(&acme, None, None).await.as_deref(), Some("k-second"));
    server.credentials.make_default(&acme, &first.id).await.unwrap();
    assert_eq!(server.key(&acme, None, None).await.as_deref(), Some("k-first"));
    server.credentials.delete(&acme, &first.id).await.unwrap();
    assert_eq!(server.key(&acme, None, None).await.as_deref(), Some("k-second"));
}

#[tokio::test]
async fn what_is_missing_is_filled_from_the_definition() {
    let server = server();
    let acme = TenantId::new("acme");
    let stored = server.store(&acme, "a", None, CANARY).await;
    let revealed = server
        .credentials
        .reveal(&acme, &provider("weather"), CredentialChoice::default())
        .await
        .unwrap();
    let revealed = revealed.unwrap();
    assert_eq!(revealed.id, stored.id);
    let names: Vec<&str> = revealed.values.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names, revealed.values[1].1.expose()), (vec!["api_key", "account"], "main"));
}

#[tokio::test]
async fn a_credential_lives_under_one_id() {
    let server = server();
    let all = &server.credentials;
    let acme = TenantId::new("acme");
    let stored = server.store(&acme, "a", None, CANARY).await;
    assert_eq!(stored.fields["api_key"], "••••a7b3");
    let valid = Validation::Valid { at: Timestamp::now(), by: "forecast".to_owned() };
    all.note_validation(&acme, &stored.id, valid.clone()).await.unwrap();
    assert_eq!(all.get(&acme, &stored.id).await.unwrap().validation, valid);
    // A form sends everything back, and one change.
    let mut back: Vec<(String, FieldValue)> =
        stored.fields.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    back.push(("account".to_owned(), json!("second").into()));
    let changed = all.rotate(&acme, &provider("weather"), &stored.id, back).await.unwrap();
    assert_eq!((&changed.id, &changed.fields["account"]), (&stored.id, &json!("second")));
    assert_eq!(changed.validation, Validation::Unknown);
    assert_eq!(server.key(&acme, None, None).await.as_deref(), Some(CANARY));
    all.rotate(&acme, &provider("weather"), &stored.id, key("key-new")).await.unwrap();
    assert_eq!(server.key(&acme, None, None).await.as_deref(), Some("key-new"));
    let renamed = all.rename(&acme, &stored.id, "b").await.unwrap();
    assert_eq!((renamed.id, renamed.name.as_str()), (stored.id.clone(), "b"));
    assert_eq!(all.find(&acme, "weather", None, "b").await.unwrap(), Some(stored.id.clone()));
    assert_eq!(all.find(&acme, "weather", None, "a").await.unwrap(), None);
    // The note is written by another task.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let used = all.list(&acme, CredentialFilter::default()).await.unwrap()[0].last_used_at;
    assert!(used.is_some(), "the calls above used it");
    all.delete(&acme, &stored.id).await.unwrap();
    assert!(all.list(&acme, CredentialFilter::default()).await.unwrap().is_empty());
    for gone in [
        all.get(&acme, &stored.id).await.err(),
        all.delete(&acme, &stored.id).await.err(),
        all.rename(&acme, &stored.id, "c").await.err(),
    ] {
        assert_eq!(gone.map(|error| error.kind()), Some(ErrorKind::NotFound));
    }
}

#[tokio::test]
async fn names_are_unique_for_a_provider_and_a_user() {
    let server = server();
    let acme = TenantId::new("acme");
    server.store(&acme, "a", None, "key-no-1").await;
    let other = server.store(&acme, "b", None, "key-no-2").await;
    server.store(&acme, "a", Some("ada"), "key-no-3").await;
    server.store(&TenantId::new("other"), "a", None, "key-no-4").await;
    let again =
        server.credentials.store(&acme, &provider("weather"), request("a", None, "xxxxxx")).await;
    assert_eq!(again.err().map(|error| error.kind()), Some(ErrorKind::AlreadyRegistered));
    assert!(server.credentials.rename(&acme, &other.id, "a").await.is_err());
    let maps = request("a", None, "key-no-5");
    server.credentials.store(&acme, &provider("maps"), maps).await.unwrap();
    let list = async |filter| server.credentials.list(&acme, filter).await.unwrap().len();
    assert_eq!(list(CredentialFilter::default()).await, 4);
    assert_eq!(list(CredentialFilter { provider: Some("weather"), user: None }).await, 3);
    assert_eq!(list(CredentialFilter { provider: None, user: Some("ada") }).await, 1);
    for name in ["", "\n", "a\u{7}"] {
        let refused = request(name, None, "xxxxxx");
        assert!(server.credentials.store(&acme, &provider("weather"), refused).await.is_err());
    }
}

#[tokio::test]
async fn swapped_and_changed_documents_fail_closed() {
    let server = server();
    let (acme, other) = (TenantId::new("acme"), TenantId::new("other"));
    let mine = server.store(&acme, "a", Some("ada"), CANARY).await;
    let shared = server.store(&acme, "b", None, "k-shared").await;
    let foreign = server.store(&other, "a", None, "k-foreign").await;
    let get = async |tenant: &TenantId, id: &str| {
        server.documents.get(SPACE, tenant, id).await.unwrap().unwrap()
    };
    let (mine_kept, shared_kept) = (get(&acme, &mine.id).await, get(&acme, &shared.id).await);
    let foreign_kept = get(&other, &foreign.id).await;
    let swapped = |into: &Document, from: &Document| {
        let mut body = into.body.clone();
        body["sealed"] = from.body["sealed"].clone();
        body
    };
    let with = |key: &str, value: Value| {
        let mut body = mine_kept.body.clone();
        body[key] = value;
        body
    };
    for (what, tenant, target, body) in [
        ("another id", &acme, &shared_kept, swapped(&shared_kept, &mine_kept)),
        ("another tenant", &other, &foreign_kept, swapped(&foreign_kept, &mine_kept)),
        ("a whole document", &other, &foreign_kept, mine_kept.body.clone()),
        ("another provider", &acme, &mine_kept, with("provider", json!("maps"))),
        ("another user", &acme, &mine_kept, with("user", json!("eve"))),
        ("no user", &acme, &mine_kept, with("user", Value::Null)),
        ("no key", &acme, &mine_kept, with("sealed", json!({"key": "ffff", "value": ""}))),
        (
            "no value",
            &acme,
            &mine_kept,
            with("sealed", json!({"key": mine_kept.body["sealed"]["key"], "value": ""})),
        ),
        ("no shape", &acme, &mine_kept, with("sealed", json!(CANARY))),
    ] {
        server.put(target, tenant, &target.id, body).await;
        let error = server.credentials.get(tenant, &target.id).await.err();
        let error = error.unwrap_or_else(|| panic!("{what} was opened"));
        assert_eq!(error.kind(), ErrorKind::CredentialInvalid, "{what}");
        assert!(!format!("{error:?} {}", error.message()).contains("canary-"), "{what}: {error:?}");
        server.put(target, tenant, &target.id, target.body.clone()).await;
        server.credentials.get(tenant, &target.id).await.unwrap();
    }
}

#[tokio::test]
async fn a_change_of_any_sealed_byte_is_found_out() {
    let server = server();
    let acme = TenantId::new("acme");
    let stored = server.store(&acme, "a", None, CANARY).await;
    let kept = server.documents.get(SPACE, &acme, &stored.id).await.unwrap().unwrap();
    let sealed = kept.body["sealed"]["value"].as_str().unwrap();
    for at in 0..sealed.len() {
        let mut changed = sealed.to_owned().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let mut body = kept.body.clone();
        body["sealed"]["value"] = String::from_utf8(changed).unwrap().into();
        server.put(&kept, &acme, &stored.id, body).await;
        assert_eq!(server.key(&acme, None, None).await, None, "sign {at}");
    }
}

#[tokio::test]
async fn secrets_are_nowhere_in_the_clear() {
    let server = server();
    let acme = TenantId::new("acme");
    let stored = server.store(&acme, "a", Some("ada"), CANARY).await;
    server.credentials.rotate_data_key(&acme).await.unwrap();
    assert_eq!(server.key(&acme, None, Some("ada")).await.as_deref(), Some(CANARY));
    let mut seen = format!("{stored:?}{}", serde_json::to_string(&stored).unwrap());
    seen += &format!(
        "{:?}",
        server.credentials.list(&acme, CredentialFilter::default()).await.unwrap()
    );
    for space in [SPACE, USES, "vault_keys"] {
        for document in server.documents.all(space).await.unwrap() {
            seen += &format!("{document:?}{}", document.body);
        }
    }
    use base64::Engine;
    let encoded = base64::engine::general_purpose::STANDARD.encode(CANARY);
    for trace in [CANARY, "canary-5e1f", &encoded[..16]] {
        assert!(!seen.contains(trace), "{seen}");
    }
    assert!(seen.contains("••••a7b3"));
}

#[tokio::test]
async fn a_data_key_is_replaced_while_calls_run() {
    let server = Arc::new(server());
    let acme = TenantId::new("acme");
    for n in 0..5 {
        server.store(&acme, &format!("c{n}"), None, CANARY).await;
    }
    let reader = {
        let (server, acme) = (server.clone(), acme.clone());
        tokio::spawn(async move {
            for round in 0..300 {
                let name = format!("c{}", round % 5);
                let got = server.key(&acme, Some(&name), None).await;
                assert_eq!(got.as_deref(), Some(CANARY), "round {round}");
                tokio::task::yield_now().await;
            }
        })
    };
    for _ in 0..6 {
        assert_eq!(server.credentials.rotate_data_key(&acme).await.unwrap(), 5);
        tokio::task::yield_now().await;
    }
    reader.await.unwrap();
    let keys = async || server.documents.all("vault_keys").await.unwrap().remove(0);
    let mut kept = keys().await;
    let count = |kept: &Document| kept.body["keys"].as_array().unwrap().len();
    assert_eq!(count(&kept), 7, "others may be about to write by one of them");
    for key in kept.body["keys"].as_array_mut().unwrap() {
        if key["retired_at"].is_string() {
            key["retired_at"] = json!("2026-01-01T00:00:00Z");
        }
    }
    let put = Put::new("vault_keys", acme.clone(), kept.id.clone(), kept.body);
    server.documents.put(put, Expect::Anything).await.unwrap();
    server.credentials.rotate_data_key(&acme).await.unwrap();
    assert_eq!(count(&keys().await), 2, "the current key, and the one before it");
    assert_eq!(server.key(&acme, None, None).await.as_deref(), Some(CANARY));
}

#[tokio::test]
async fn changes_at_once_are_all_made() {
    let server = Arc::new(server());
    let acme = TenantId::new("acme");
    let stored = server.store(&acme, "a", None, CANARY).await;
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let (server, acme, id) = (server.clone(), acme.clone(), stored.id.clone());
            tokio::spawn(async move {
                let values = vec![("account".to_owned(), json!(format!("acc{n}")).into())];
                server.credentials.rotate(&acme, &provider("weather"), &id, values).await.unwrap();
                server.credentials.rotate_data_key(&acme).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(server.key(&acme, None, None).await.as_deref(), Some(CANARY));
}
