//! What tenants have registered: every server loads it from the documents, and
//! again when another server has changed one.

use windlass::{Error, TenantId};
use windlass_store::{Change, Document};

use super::app::App;
use super::{own_tools, providers};

/// Makes something what is kept of it.
type Restore = fn(&App, &TenantId, &str, Option<&Document>);

/// Providers come before the tools that may name them.
const SPACES: [(&str, Restore); 2] =
    [(providers::SPACE, providers::restore), (own_tools::SPACE, own_tools::restore)];

/// Loads all that is kept, when a server starts.
pub(super) async fn load_all(app: &App) -> Result<(), Error> {
    for (space, restore) in SPACES {
        load(app, space, restore).await?;
    }
    Ok(())
}

/// Does what another server did.
pub(super) async fn changed(app: &App, change: &Change) -> Result<(), Error> {
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
        let kept = app.documents.get(space, &change.tenant, &change.id).await?;
        restore(app, &change.tenant, &change.id, kept.as_ref());
    } else if change.space.is_empty() {
        load(app, space, restore).await?;
    }
    Ok(())
}

async fn load(app: &App, space: &'static str, restore: Restore) -> Result<(), Error> {
    for document in app.documents.all(space).await? {
        restore(app, &document.tenant, &document.id, Some(&document));
    }
    Ok(())
}
