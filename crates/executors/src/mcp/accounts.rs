//! A remote server, as one person or one tenant is logged in to it.
//!
//! Everybody sees the same tools, which the server itself publishes. A call of
//! somebody who has logged in goes over a connection with their tokens, which
//! has a keeper of its own and is closed when it has not been used for a while.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass::definition::McpTransport;
use windlass::{Caller, Error};

use super::keeper::{Keeper, Start};
use super::notebook::Note;
use super::server::Server;
use super::tokens::Account;

/// How long it is believed that somebody has not logged in: another process may
/// have taken the login.
const NOBODY: Duration = Duration::from_secs(30);
/// How long a connection that nobody uses stays.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// How many accounts of a server are known at once.
const MAX_KNOWN: usize = 1_000;

/// The accounts of a server.
#[derive(Default)]
pub(super) struct AccountConnections(Mutex<HashMap<Account, Known>>);

enum Known {
    /// Logged in.
    Double { server: Arc<Server>, used: Instant, _stop: DropGuard },
    /// Not, as far as is known.
    Nobody { since: Instant },
}

impl Known {
    fn since(&self) -> Instant {
        match self {
            Self::Double { used: since, .. } | Self::Nobody { since } => *since,
        }
    }

    fn is_fresh(&self) -> bool {
        let life = match self {
            Self::Double { .. } => IDLE,
            Self::Nobody { .. } => NOBODY,
        };
        self.since().elapsed() < life
    }
}

enum Found {
    Double(Arc<Server>),
    Nobody,
    Unknown,
}

impl AccountConnections {
    fn find(&self, account: &Account) -> Found {
        match self.0.lock().get_mut(account).filter(|known| known.is_fresh()) {
            Some(Known::Double { server, used, .. }) => {
                *used = Instant::now();
                Found::Double(Arc::clone(server))
            }
            Some(Known::Nobody { .. }) => Found::Nobody,
            None => Found::Unknown,
        }
    }

    /// Ends what is known of an account; what comes next is found out again.
    pub(super) fn forget(&self, account: &Account) {
        self.0.lock().remove(account);
    }

    fn note(&self, account: Account, known: Known) {
        let mut all = self.0.lock();
        if all.len() >= MAX_KNOWN {
            all.retain(|_, known| known.is_fresh());
        }
        if all.len() >= MAX_KNOWN {
            let oldest =
                all.iter().min_by_key(|(_, known)| known.since()).map(|(key, _)| key.clone());
            oldest.iter().for_each(|oldest| drop(all.remove(oldest)));
        }
        all.insert(account, known);
    }
}

impl Server {
    /// The server as a caller is logged in to it: as the person, else as the
    /// tenant, else as everybody is.
    pub async fn of(self: &Arc<Self>, caller: &Caller) -> Result<Arc<Self>, Error> {
        if !self.takes_logins() {
            return Ok(Arc::clone(self));
        }
        for account in self.accounts(caller).filter(|account| account != self.account()) {
            match self.accounts.find(&account) {
                Found::Double(double) => return Ok(double),
                Found::Nobody => continue,
                Found::Unknown => {}
            }
            if self.store(account.clone()).read().await?.is_some() {
                return Ok(self.double(account));
            }
            self.accounts.note(account, Known::Nobody { since: Instant::now() });
        }
        Ok(Arc::clone(self))
    }

    /// The account that a caller logs in to: its own, as far as it has one.
    pub(super) fn account_of(&self, caller: &Caller) -> Account {
        let (tenant, user) = (caller.tenant.clone(), caller.user.clone());
        Account { tenant, server: self.shared_name(), user }
    }

    fn accounts(&self, caller: &Caller) -> impl Iterator<Item = Account> + use<> {
        let own = self.account_of(caller);
        let shared = Account { user: None, ..own.clone() };
        let own = own.user.is_some().then_some(own);
        own.into_iter().chain([shared])
    }

    /// Whether tokens decide who somebody is: not with a process, and not where
    /// the definition says what is sent.
    fn takes_logins(&self) -> bool {
        match &self.settings().transport {
            McpTransport::Command { .. } => false,
            McpTransport::Url { headers, .. } => {
                !headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
            }
        }
    }

    /// Has the tools published that somebody who has just logged in sees: the
    /// server may tell them to nobody else.
    pub(super) async fn learn_from(self: &Arc<Self>, account: Account) {
        match self.double(account).list("tools/list", "tools").await {
            Ok(tools) => {
                *self.learned.lock() = Some(tools);
                self.learns.notify_one();
            }
            Err(error) => {
                tracing::warn!(server = self.name(), %error, "a login shows no tools");
            }
        }
    }

    fn double(self: &Arc<Self>, account: Account) -> Arc<Self> {
        let stop: CancellationToken = self.ways.stop.child_token();
        let server = Self::new(
            self.name(),
            self.owner().cloned(),
            Arc::clone(self.settings()),
            self.ways.clone(),
            account.clone(),
        );
        let keeper = Keeper {
            server: Arc::clone(&server),
            engine: None,
            notebook: Arc::clone(&self.ways.notebook),
            stop: stop.clone(),
            start: Start::Needed,
            note: Note::default(),
            chose_older: false,
        };
        self.ways.keepers.spawn(keeper.run());
        let double = Arc::clone(&server);
        let known = Known::Double { server, used: Instant::now(), _stop: stop.drop_guard() };
        self.accounts.note(account, known);
        double
    }
}
