//! Quotas of single keys: read from their documents, and followed when they change, here
//! or on another server.

use windlass::{Error, ErrorKind};
use windlass_store::Change;

use super::app::App;
use crate::state::identity::ApiKey;
use crate::state::quota::API_KEYS;

/// Reads the quotas of all keys.
pub(super) async fn read_all(app: &App) -> Result<(), Error> {
    let keys = app.keys.with_quotas().await?;
    for old in app.quotas.keys() {
        if !keys.iter().any(|key| key.id == old) {
            forget(app, &old);
        }
    }
    keys.iter().for_each(|key| heed(app, key));
    Ok(())
}

/// A key may have changed.
pub(super) async fn changed(app: &App, change: &Change) -> Result<(), Error> {
    if change.space.is_empty() {
        return read_all(app).await;
    }
    if change.space != API_KEYS {
        return Ok(());
    }
    match app.keys.get(&change.tenant, &change.id).await {
        Ok(key) => heed(app, &key),
        Err(error) if error.kind() == ErrorKind::NotFound => forget(app, &change.id),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// From now on, the key has the quotas that it says. One that does not work any more has
/// none to keep.
pub(crate) fn heed(app: &App, key: &ApiKey) {
    let works = key.works(jiff::Timestamp::now());
    match key.quotas.filter(|_| works) {
        Some(quotas) => {
            app.quotas.set_key(&key.id, Some(quotas));
            app.engine.set_key_quota(&key.id, Some(quotas.calls()));
        }
        None => forget(app, &key.id),
    }
}

fn forget(app: &App, key: &str) {
    app.quotas.set_key(key, None);
    app.engine.set_key_quota(key, None);
}
