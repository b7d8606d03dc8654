//! What is known of MCP servers (their tools, versions and capabilities), cached in
//! the documents that all servers on a database share.

use std::sync::Arc;

use serde_json::from_value;
use windlass::{BoxFuture, Error, TenantId};
use windlass_executors::mcp::{Note, Notebook};
use windlass_store::{Documents, Expect, Put};

/// Where it is kept of tenants' own servers, and of everybody's.
const OWNED: &str = "mcp_servers";
const SHARED: &str = "mcp_shared_servers";

/// A notebook that outlives the process.
pub(crate) struct StoredNotebook(pub(crate) Arc<dyn Documents>);

fn place(owner: Option<&TenantId>) -> (&'static str, TenantId) {
    match owner {
        Some(tenant) => (OWNED, tenant.clone()),
        None => (SHARED, TenantId::default()),
    }
}

impl Notebook for StoredNotebook {
    fn read<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
    ) -> BoxFuture<'a, Result<Option<Note>, Error>> {
        Box::pin(async move {
            let (space, tenant) = place(owner);
            let kept = self.0.get(space, &tenant, server).await?;
            // What an earlier version wrote and this one cannot read is as good
            // as nothing: the server is asked again.
            Ok(kept.and_then(|kept| from_value(kept.body).ok()))
        })
    }

    fn write<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
        note: Note,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let (space, tenant) = place(owner);
            let put = Put::of(space, tenant, server, &note)?;
            self.0.put(put, Expect::Anything).await.map(drop)
        })
    }
}
