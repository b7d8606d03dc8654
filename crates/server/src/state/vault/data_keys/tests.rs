use windlass_store::MemoryDocuments;

use super::*;
use crate::state::vault::MissingKeyFile;

const PARTS: [&str; 2] = ["credential", "weather"];

struct KeyFolder {
    folder: tempfile::TempDir,
    documents: Arc<MemoryDocuments>,
}

impl KeyFolder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), documents: Arc::new(MemoryDocuments::new()) }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("windlass.key")
    }

    /// A vault as another process would open it.
    fn vault(&self) -> Vault {
        let source = KeySource::File(self.path(), MissingKeyFile::Make);
        Vault::new(self.documents.clone(), source).unwrap()
    }
}

fn environment(documents: &Arc<MemoryDocuments>, keys: &[&SealKey]) -> Result<Vault, Error> {
    let text: Vec<String> = keys.iter().map(|key| key.to_base64().to_string()).collect();
    Vault::new(documents.clone(), KeySource::Environment(text.join(",").into()))
}

async fn opens(vault: &Vault, tenant: &TenantId, sealed: &Sealed) -> bool {
    let opened = vault.open(tenant, &PARTS, sealed).await.unwrap();
    opened.is_some_and(|value| value.as_slice() == b"canary")
}

#[tokio::test]
async fn processes_that_start_at_once_share_their_keys() {
    let place = Arc::new(KeyFolder::new());
    let tenant = TenantId::new("acme");
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (place, tenant) = (place.clone(), tenant.clone());
            tokio::spawn(
                async move { place.vault().seal(&tenant, &PARTS, b"canary").await.unwrap() },
            )
        })
        .collect();
    let reader = place.vault();
    for task in tasks {
        assert!(opens(&reader, &tenant, &task.await.unwrap()).await);
    }
    let kept = place.documents.all(SPACE).await.unwrap();
    assert_eq!((kept.len(), kept[0].version), (1, 1));
}

#[tokio::test]
async fn tenants_do_not_open_each_others_values() {
    let place = KeyFolder::new();
    let vault = place.vault();
    let (acme, other) = (TenantId::new("acme"), TenantId::new("other"));
    let sealed = vault.seal(&acme, &PARTS, b"canary").await.unwrap();
    assert!(vault.open(&other, &PARTS, &sealed).await.unwrap().is_none());
    vault.seal(&other, &PARTS, b"x").await.unwrap();
    assert!(vault.open(&other, &PARTS, &sealed).await.unwrap().is_none());
    // Somebody copies the keys of one tenant to the other.
    let stolen = place.documents.get(SPACE, &acme, ID).await.unwrap().unwrap();
    let put = Put::new(SPACE, other.clone(), ID, stolen.body);
    place.documents.put(put, Expect::Anything).await.unwrap();
    let error = place.vault().open(&other, &PARTS, &sealed).await.err().unwrap();
    assert!(error.message().contains("were changed, or belong to another tenant"), "{error:?}");
    assert!(opens(&place.vault(), &acme, &sealed).await);
}

#[tokio::test]
async fn a_master_key_is_replaced_while_servers_run() {
    let place = Arc::new(KeyFolder::new());
    let tenants: Vec<TenantId> = (0..4).map(|n| TenantId::new(format!("t{n}"))).collect();
    let server = Arc::new(place.vault());
    let mut sealed = Vec::new();
    for tenant in &tenants {
        sealed.push(server.seal(tenant, &PARTS, b"canary").await.unwrap());
    }
    let reader = {
        let (place, tenants, sealed) = (place.clone(), tenants.clone(), sealed.clone());
        tokio::spawn(async move {
            let running = place.vault();
            for round in 0..200 {
                let at = round % tenants.len();
                // Without what was open before, so that master keys are looked for.
                running.open.lock().clear();
                assert!(opens(&running, &tenants[at], &sealed[at]).await, "round {round}");
                tokio::task::yield_now().await;
            }
        })
    };
    let operator = place.vault();
    let mut names = Vec::new();
    for _ in 0..5 {
        let rotation = operator.rotate_master().await.unwrap();
        assert_eq!(rotation.tenants, tenants.len());
        names.push(rotation.master);
        tokio::task::yield_now().await;
    }
    reader.await.unwrap();
    names.dedup();
    assert_eq!(names.len(), 5);
    assert_eq!(operator.prune_masters().await.unwrap(), 5);
    assert_eq!(operator.prune_masters().await.unwrap(), 0);
    server.open.lock().clear();
    for (tenant, sealed) in tenants.iter().zip(&sealed) {
        assert!(opens(&server, tenant, sealed).await, "a server from before all this");
        assert!(opens(&place.vault(), tenant, sealed).await);
    }
}

#[tokio::test]
async fn a_key_that_does_not_fit_is_refused_and_never_replaced() {
    let place = KeyFolder::new();
    let tenant = TenantId::default();
    let sealed = place.vault().seal(&tenant, &PARTS, b"canary").await.unwrap();
    let real = std::fs::read(place.path()).unwrap();
    std::fs::remove_file(place.path()).unwrap();
    let vault = place.vault();
    for error in [
        vault.open(&tenant, &PARTS, &sealed).await.err().unwrap(),
        vault.seal(&tenant, &PARTS, b"x").await.err().unwrap(),
        vault.seal(&TenantId::new("new"), &PARTS, b"x").await.err().unwrap(),
        vault.rotate_master().await.err().unwrap(),
    ] {
        assert!(error.message().contains("is missing, but there are credentials"), "{error:?}");
    }
    assert!(!place.path().exists(), "no other key is made in its place");
    crate::state::vault::key_file::create(&place.path()).unwrap();
    let error = place.vault().open(&tenant, &PARTS, &sealed).await.err().unwrap();
    assert!(error.message().contains("put back the key"), "{error:?}");
    std::fs::write(place.path(), real).unwrap();
    assert!(opens(&vault, &tenant, &sealed).await);
}

#[tokio::test]
async fn keys_of_the_environment_are_taken_as_they_are() {
    let documents = Arc::new(MemoryDocuments::new());
    let tenant = TenantId::default();
    let (old, new) = (SealKey::random().unwrap(), SealKey::random().unwrap());
    let before = environment(&documents, &[&old]).unwrap();
    let sealed = before.seal(&tenant, &PARTS, b"canary").await.unwrap();
    let wrong = environment(&documents, &[&new]).unwrap();
    assert!(wrong.open(&tenant, &PARTS, &sealed).await.is_err());
    let both = environment(&documents, &[&new, &old]).unwrap();
    assert_eq!(both.rotate_master().await.unwrap(), Rotation { master: new.id(), tenants: 1 });
    assert_eq!(both.rotate_master().await.unwrap().tenants, 0, "done already");
    assert!(both.prune_masters().await.err().unwrap().message().contains("WINDLASS_MASTER_KEY"));
    assert!(opens(&environment(&documents, &[&new]).unwrap(), &tenant, &sealed).await);
    let broken = Vault::new(documents, KeySource::Environment("c2hvcnQ=".to_owned().into()));
    let message = broken.err().unwrap().message().to_owned();
    assert!(message.contains("openssl rand") && !message.contains("c2hvcnQ"), "{message}");
}

#[tokio::test]
async fn a_shared_database_without_a_key_says_what_to_do() {
    let place = KeyFolder::new();
    let source = KeySource::File(place.path(), MissingKeyFile::Refuse);
    let vault = Vault::new(place.documents.clone(), source).unwrap();
    let error = vault.seal(&TenantId::default(), &PARTS, b"x").await.err().unwrap();
    for part in ["WINDLASS_MASTER_KEY", "openssl rand -base64 32", "windlass.key"] {
        assert!(error.message().contains(part), "{error:?}");
    }
    assert!(!place.path().exists());
}

#[tokio::test]
async fn a_change_of_any_kept_key_is_found_out() {
    let place = KeyFolder::new();
    let tenant = TenantId::default();
    let sealed = place.vault().seal(&tenant, &PARTS, b"canary").await.unwrap();
    let kept = place.documents.get(SPACE, &tenant, ID).await.unwrap().unwrap();
    let text = kept.body["keys"][0]["sealed"].as_str().unwrap().to_owned();
    for at in 0..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let mut body = kept.body.clone();
        body["keys"][0]["sealed"] = String::from_utf8(changed).unwrap().into();
        let put = Put::new(SPACE, tenant.clone(), ID, body);
        place.documents.put(put, Expect::Anything).await.unwrap();
        assert!(place.vault().open(&tenant, &PARTS, &sealed).await.is_err(), "sign {at}");
    }
}
