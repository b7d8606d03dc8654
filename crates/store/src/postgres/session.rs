//! The writer's connection: made again when it is lost, and the owner of what
//! the writer begins.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::Client;
use windlass::CallRecord;

use super::connect::Target;
use super::fault::Fault;
use super::{owners, schema};

pub(crate) struct Session {
    target: Target,
    client: Option<Client>,
    /// Known from the first connection on.
    owner: Option<i32>,
    /// Whether this connection holds the owner's lock. The one before it may
    /// hold it until the server has seen its end.
    locked: bool,
}

impl Session {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, client: None, owner: None, locked: false }
    }

    /// The connection, and who we are.
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

    /// Says that we live, and closes the calls of those that do not.
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

    /// After a failure: keeps the connection only where it is known to be
    /// good. Another one may also lead to another server.
    pub(crate) fn doubt(&mut self, fault: &Fault) {
        if fault.code().is_none() || fault.is_read_only() {
            self.client = None;
        }
        // Somebody may have taken us for dead.
        self.locked = false;
    }

    /// Ends: whatever we leave behind may be closed by others at once.
    pub(crate) async fn leave(mut self, patience: Duration) {
        let (Some(client), Some(owner)) = (self.client.take(), self.owner) else { return };
        // Without it others find out by themselves, a little later.
        if let Ok(Err(cause)) = timeout(patience, owners::leave(&client, owner)).await {
            tracing::debug!(%cause, "the record store left without saying so");
        }
    }
}
