//! Tools and providers that tenants have registered: every server loads them from
//! the documents, and reloads those that another server has changed.

use windlass::{Error, TenantId};
use windlass_store::{Change, Document};

use crate::http::app::App;
use crate::http::routes::{own_tools, providers};

/// Makes something what is kept of it.
type Restore = fn(&App, &TenantId, &str, Option<Document>);

/// Providers come before the tools that may name them.
const SPACES: [(&str, Restore); 2] =
    [(providers::SPACE, providers::restore), (own_tools::SPACE, own_tools::restore)];

/// Loads all that is kept, when a server starts.
pub(crate) async fn load_all(app: &App) -> Result<(), Error> {
    for (space, restore) in SPACES {
        load(app, space, restore).await?;
    }
    Ok(())
}

/// Does what another server did.
pub(crate) async fn changed(app: &App, change: &Change) -> Result<(), Error> {
    let mut end = Ok(());
    for (space, restore) in SPACES {
        end = end.and(heed(app, change, space, restore).await);
    }
    end
}

async fn heed(
    app: &App,
    change: &Change,
    space: &'static str,
    restore: Restore,
) -> Result<(), Error> {
    if change.space == space {
        let kept = match app.documents.get(space, &change.tenant, &change.id).await? {
            Some(kept) => opened(app, kept).await,
            None => None,
        };
        restore(app, &change.tenant, &change.id, kept);
    } else if change.space.is_empty() {
        load(app, space, restore).await?;
    }
    Ok(())
}

/// A document with its definition in it, where that is sealed. One that cannot be
/// opened is as good as none.
async fn opened(app: &App, document: Document) -> Option<Document> {
    let (tenant, name) = (document.tenant.clone(), document.id.clone());
    match app.credentials.open_definition(document).await {
        Ok(document) => Some(document),
        Err(error) => {
            tracing::error!(%tenant, provider = name, %error, "a kept definition is not loaded");
            None
        }
    }
}

async fn load(app: &App, space: &'static str, restore: Restore) -> Result<(), Error> {
    // One by one: what all tenants imported may be far larger than what comes of
    // it.
    for (tenant, id) in app.documents.names(space).await? {
        if let Some(document) = app.documents.get(space, &tenant, &id).await?
            && let Some(document) = opened(app, document).await
        {
            restore(app, &tenant, &id, Some(document));
        }
    }
    Ok(())
}
