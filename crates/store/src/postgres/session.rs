//! The writer's session: reconnects when the connection is lost, and keeps the owner.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::Client;
use windlass::CallRecord;

use super::connect::Target;
use super::fault::Fault;
use super::{owners, schema};

pub(crate) struct WriterSession {
    target: Target,
    client: Option<Client>,
    /// Known since the first connection.
    owner: Option<i32>,
    /// Whether this connection holds the owner's lock. The previous one may still hold it
    /// until the server notices its end.
    locked: bool,
}

impl WriterSession {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, client: None, owner: None, locked: false }
    }

    /// The connection and our owner id.
    pub(crate) async fn client(&mut self) -> Result<(&mut Client, i32), Fault> {
        let open = self.client.take().filter(|client| !client.is_closed());
        let client = match open {
            Some(client) => client,
            None => self.connect().await?,
        };
        let owner = self.owner(&client).await?;
        Ok((self.client.insert(client), owner))
    }

    async fn connect(&mut self) -> Result<Client, Fault> {
        let mut client = self.target.writer().await?;
        schema::migrate(&mut client, &self.target.place).await?;
        self.locked = false;
        Ok(client)
    }

    async fn owner(&mut self, client: &Client) -> Result<i32, Fault> {
        let owner = match self.owner {
            Some(owner) => owner,
            None => *self.owner.insert(owners::register(client).await?),
        };
        if !self.locked {
            owners::touch(client, owner).await?;
            self.locked = owners::lock(client, owner).await?;
        }
        Ok(owner)
    }

    /// Writes the heartbeat, and closes the calls of dead owners.
    pub(crate) async fn beat(
        &mut self,
        grace: Duration,
        closed: &mut Vec<CallRecord>,
    ) -> Result<(), Fault> {
        let (client, owner) = self.client().await?;
        owners::touch(client, owner).await?;
        for silent in owners::silent(client, owner, grace).await? {
            owners::close(client, silent, grace, closed).await?;
        }
        Ok(())
    }

    /// After a failure: keeps the connection only if it is known to be good. A new one
    /// may also reach another server.
    pub(crate) fn doubt(&mut self, fault: &Fault) {
        if fault.code().is_none() || fault.is_read_only() {
            self.client = None;
        }
        // Others may have taken us for dead.
        self.locked = false;
    }

    /// Leaves: others may close what we leave behind at once.
    pub(crate) async fn leave(mut self, patience: Duration) {
        let (Some(client), Some(owner)) = (self.client.take(), self.owner) else { return };
        // Otherwise others notice a little later.
        if let Ok(Err(cause)) = timeout(patience, owners::leave(&client, owner)).await {
            tracing::debug!(%cause, "the record store left without saying so");
        }
    }
}
