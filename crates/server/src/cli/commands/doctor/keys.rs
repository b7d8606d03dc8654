//! Checks of secrets: the master key, the vault that it opens, and API keys.

use std::sync::Arc;

use windlass_store::Documents;

use super::Diagnosis;
use crate::installation::key_source;
use crate::settings::Settings;
use crate::state::identity::ApiKeys;
use crate::state::vault::{KeySource, MASTER_KEY, MissingKeyFile, Vault};

pub(super) async fn examine(
    settings: &Settings,
    documents: Option<Arc<dyn Documents>>,
) -> Vec<Diagnosis> {
    let mut findings = vec![master_key(settings, documents.as_ref()).await];
    findings.push(match documents {
        None => Diagnosis::ok("api keys", "the first start of `windlass serve` makes an admin key"),
        Some(documents) => admin_key(documents).await,
    });
    findings
}

async fn master_key(settings: &Settings, documents: Option<&Arc<dyn Documents>>) -> Diagnosis {
    let about = "vault";
    let (place, missing) = match key_source(settings) {
        KeySource::Memory => return Diagnosis::ok(about, "credentials are kept in memory only"),
        KeySource::Environment(_) => (MASTER_KEY.to_owned(), None),
        KeySource::File(path, missing) => {
            let there = path.exists();
            (path.display().to_string(), (!there).then_some(missing))
        }
    };
    let sealed = match documents {
        None => Ok(0),
        Some(documents) => match Vault::new(Arc::clone(documents), key_source(settings)) {
            Ok(vault) => vault.unlock_all().await,
            Err(error) => Err(error),
        },
    };
    match (sealed, missing) {
        (Err(error), _) => Diagnosis::broken(about, error.message()).hint(
            "credentials cannot be used before the key that sealed them is back: take it from a \
             backup, or from another server of this database",
        ),
        (Ok(0), Some(MissingKeyFile::Make)) => {
            Diagnosis::ok(about, format!("{place} is made when the first credential is stored"))
        }
        (Ok(_), Some(_)) => Diagnosis::warning(about, format!("there is no master key in {place}"))
            .hint(format!(
                "make one for all servers of the database: `(umask 077; openssl rand -base64 32 > \
                 {place})`, or set {MASTER_KEY}"
            )),
        (Ok(tenants), None) => match read_key(settings) {
            Err(why) => Diagnosis::broken(about, why).hint("`openssl rand -base64 32` makes a key"),
            Ok(()) => {
                let opens = match tenants {
                    0 => "nothing is sealed yet".to_owned(),
                    tenants => format!("opens the credentials of {}", count(tenants)),
                };
                Diagnosis::ok(about, format!("the master key in {place} {opens}"))
            }
        },
    }
}

fn count(tenants: usize) -> String {
    crate::cli::output::count(tenants, "tenant")
}

/// Whether the key can be read at all, also where nothing is sealed by it.
fn read_key(settings: &Settings) -> Result<(), String> {
    Vault::can_read(key_source(settings)).map_err(|error| error.message().to_owned())
}

async fn admin_key(documents: Arc<dyn Documents>) -> Diagnosis {
    let about = "api keys";
    match ApiKeys::new(documents).admins().await {
        Err(error) => Diagnosis::broken(about, error.message()),
        Ok((0, 0)) => {
            Diagnosis::ok(about, "there is none; the first start of `windlass serve` makes one")
        }
        Ok((_, 0)) => Diagnosis::broken(about, "all admin keys were revoked or have expired")
            .hint("`windlass keys create NAME --role admin` makes one"),
        Ok((_, working)) => {
            Diagnosis::ok(about, crate::cli::output::count(working, "admin key") + " can be used")
        }
    }
}
