use std::time::Duration;

use windlass_store::MemoryDocuments;

use super::*;

fn keys() -> (Arc<MemoryDocuments>, ApiKeys) {
    let documents = Arc::new(MemoryDocuments::new());
    (documents.clone(), ApiKeys::new(documents))
}

fn request(name: &str, role: Role) -> KeyRequest {
    KeyRequest {
        name: name.to_owned(),
        role,
        expires_at: None,
        tools: None,
        user: None,
        quotas: None,
    }
}

#[tokio::test]
async fn a_key_says_who_holds_it() {
    let (_, keys) = keys();
    let acme = TenantId::new("acme");
    let made = keys.create(&acme, request("  agent 7 ", Role::Caller)).await.unwrap();
    let identity = keys.verify(made.text.expose()).await.unwrap().unwrap();
    assert_eq!(
        identity,
        Identity {
            tenant: acme.clone(),
            key_id: made.key.id.clone(),
            role: Role::Caller,
            name: "agent 7".into(),
            tools: None,
            user: None,
        }
    );
    assert_eq!(keys.list(&acme).await.unwrap().len(), 1);
    assert!(keys.list(&TenantId::default()).await.unwrap().is_empty());
    let foreign = keys.revoke(&TenantId::default(), &made.key.id).await.unwrap_err();
    assert_eq!(foreign.kind(), ErrorKind::NotFound);
    assert!(keys.verify(made.text.expose()).await.unwrap().is_some());
}

#[tokio::test]
async fn what_is_no_key_is_nobody() {
    let (_, keys) = keys();
    let made = keys.create(&TenantId::default(), request("a", Role::Admin)).await.unwrap();
    let text = made.text.expose().to_owned();
    let changed = |at: usize| {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = if bytes[at] == b'a' { b'b' } else { b'a' };
        String::from_utf8(bytes).unwrap()
    };
    for at in 0..text.len() {
        assert_eq!(keys.verify(&changed(at)).await.unwrap(), None, "byte {at}");
    }
    let hash = KeyHash::digest(&text);
    for wrong in ["", "Bearer x", &hash.to_hex(), &made.key.prefix, &text.to_uppercase()] {
        assert_eq!(keys.verify(wrong).await.unwrap(), None, "{wrong}");
    }
    assert!(keys.verify(&text).await.unwrap().is_some());
}

/// While the database cannot be asked, nobody can revoke a key either.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_known_is_believed_in_an_outage_but_not_for_ever() {
    let (documents, keys) = keys();
    let made = keys.create(&TenantId::default(), request("a", Role::Caller)).await.unwrap();
    let hash = KeyHash::of(made.text.expose()).unwrap();
    assert!(keys.verify(made.text.expose()).await.unwrap().is_some());
    let cache = &keys.cache;
    let is_known = || matches!(cache.get(&hash), CacheLookup::Key(_));
    tokio::time::advance(Duration::from_secs(6)).await;
    assert!(!is_known(), "the database has to be asked");
    assert!(cache.in_outage(&hash).is_some(), "it could not be asked");
    assert!(is_known(), "nobody waits for it a second time at once");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(!is_known(), "it is asked again");
    tokio::time::advance(Duration::from_secs(15 * 60)).await;
    assert!(cache.in_outage(&hash).is_none(), "too much may have changed");
    // Change notifications take effect immediately.
    assert!(keys.verify(made.text.expose()).await.unwrap().is_some());
    ApiKeys::new(documents).revoke(&TenantId::default(), &made.key.id).await.unwrap();
    assert!(cache.in_outage(&hash).is_none());
}

#[tokio::test]
async fn a_revoked_key_stops_working_on_all_servers_at_once() {
    let (documents, here) = keys();
    let there = ApiKeys::new(documents);
    let tenant = TenantId::default();
    let made = here.create(&tenant, request("a", Role::Admin)).await.unwrap();
    let other = here.create(&tenant, request("b", Role::Admin)).await.unwrap();
    for keys in [&here, &there] {
        assert!(keys.verify(made.text.expose()).await.unwrap().is_some());
        assert!(keys.verify(other.text.expose()).await.unwrap().is_some());
    }
    let revoked = here.revoke(&tenant, &made.key.id).await.unwrap();
    for keys in [&here, &there] {
        assert_eq!(keys.verify(made.text.expose()).await.unwrap(), None);
        assert!(keys.verify(other.text.expose()).await.unwrap().is_some());
    }
    let again = there.revoke(&tenant, &made.key.id).await.unwrap();
    assert_eq!(again.revoked_at, revoked.revoked_at);
    assert!(there.rotate(&tenant, &made.key.id).await.is_err(), "a revoked key stays revoked");
    assert_eq!(here.list(&tenant).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_key_expires_also_where_it_is_remembered() {
    let (_, keys) = keys();
    let tenant = TenantId::default();
    let end = Timestamp::now() + Duration::from_millis(150);
    let soon = KeyRequest { expires_at: Some(end), ..request("short", Role::Viewer) };
    let made = keys.create(&tenant, soon).await.unwrap();
    assert!(keys.verify(made.text.expose()).await.unwrap().is_some());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(keys.verify(made.text.expose()).await.unwrap(), None);
    assert!(!keys.get(&tenant, &made.key.id).await.unwrap().works(Timestamp::now()));
    let past = KeyRequest { expires_at: Some(end), ..request("past", Role::Viewer) };
    assert!(keys.create(&tenant, past).await.is_err());
}

#[tokio::test]
async fn a_rotated_key_keeps_its_name_and_its_old_text_stops() {
    let (_, keys) = keys();
    let tenant = TenantId::default();
    let made = keys.create(&tenant, request("a", Role::Operator)).await.unwrap();
    assert!(keys.verify(made.text.expose()).await.unwrap().is_some());
    let rotated = keys.rotate(&tenant, &made.key.id).await.unwrap();
    assert_eq!((&rotated.key.id, rotated.key.role), (&made.key.id, Role::Operator));
    assert_ne!(rotated.key.prefix, made.key.prefix);
    assert_eq!(keys.verify(made.text.expose()).await.unwrap(), None);
    assert_eq!(keys.verify(rotated.text.expose()).await.unwrap().unwrap().key_id, made.key.id);
}

#[tokio::test]
async fn one_of_many_servers_makes_the_first_key() {
    let documents = Arc::new(MemoryDocuments::new());
    let servers = (0..8).map(|_| {
        let keys = ApiKeys::new(documents.clone());
        tokio::spawn(async move { keys.create_first().await.unwrap() })
    });
    let mut made = Vec::new();
    for server in servers.collect::<Vec<_>>() {
        made.extend(server.await.unwrap());
    }
    assert_eq!(made.len(), 1);
    let keys = ApiKeys::new(documents);
    let identity = keys.verify(made[0].text.expose()).await.unwrap().unwrap();
    assert_eq!((identity.role, identity.tenant), (Role::Admin, TenantId::default()));
    keys.revoke(&TenantId::default(), &made[0].key.id).await.unwrap();
    assert!(keys.create_first().await.unwrap().is_none(), "a revoked key does not come back");
}

#[tokio::test]
async fn uses_are_noted_off_the_path() {
    let (_, keys) = keys();
    let tenant = TenantId::default();
    let made = keys.create(&tenant, request("a", Role::Caller)).await.unwrap();
    assert_eq!(keys.list(&tenant).await.unwrap()[0].last_used_at, None);
    keys.verify(made.text.expose()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(keys.list(&tenant).await.unwrap()[0].last_used_at.is_some());
    assert!(keys.get(&tenant, &made.key.id).await.unwrap().last_used_at.is_some());
}

#[tokio::test]
async fn the_text_is_kept_nowhere() {
    let (documents, keys) = keys();
    let tenant = TenantId::default();
    let made = keys.create(&tenant, request("a", Role::Caller)).await.unwrap();
    keys.verify(made.text.expose()).await.unwrap();
    let (_, secret) = made.text.expose().rsplit_once('_').unwrap();
    let kept = format!("{:?}", documents.all(SPACE).await.unwrap());
    let shown = format!("{:?}", keys.list(&tenant).await.unwrap());
    let listed = serde_json::to_string(&keys.list(&tenant).await.unwrap()).unwrap();
    for text in [kept, shown, listed] {
        assert!(text.contains(&made.key.prefix) && !text.contains(secret), "{text}");
    }
}

#[tokio::test]
async fn a_document_under_another_hash_is_no_way_in() {
    let (documents, keys) = keys();
    let tenant = TenantId::default();
    let made = keys.create(&tenant, request("a", Role::Admin)).await.unwrap();
    let (guess, _) = key::new_text().unwrap();
    let mut kept = documents.all(SPACE).await.unwrap().remove(0);
    kept.alias = Some(KeyHash::digest(guess.expose()).to_hex());
    let put = Put {
        alias: kept.alias.clone(),
        ..Put::new(SPACE, tenant.clone(), made.key.id.to_string(), kept.body)
    };
    documents.put(put, Expect::Anything).await.unwrap();
    assert_eq!(keys.verify(guess.expose()).await.unwrap(), None);
}

#[tokio::test]
async fn names_are_checked() {
    let (_, keys) = keys();
    for name in ["", "  ", "a\u{1b}[2J", &"x".repeat(MAX_NAME + 1)] {
        let refused = keys.create(&TenantId::default(), request(name, Role::Viewer)).await;
        assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::InvalidArguments));
    }
}
