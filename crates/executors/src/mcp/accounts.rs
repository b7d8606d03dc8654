//! Connections to a remote server with the OAuth tokens of one user or one tenant.
//!
//! Everybody sees the same list of tools, which the server itself publishes. The call of
//! a caller who has logged in goes over a connection with their own tokens, which has its
//! own keeper and is closed once it has been idle for a while.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass::definition::McpTransport;
use windlass::{Caller, Error, TenantId};

use super::keeper::{Keeper, Start};
use super::notebook::Note;
use super::server::Server;
use super::tokens::Account;

/// How long "has not logged in" is cached. Another process may have stored a login since.
const NOBODY: Duration = Duration::from_secs(30);
/// Idle timeout of an account's connection.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// Maximum number of accounts remembered for a server.
const MAX_KNOWN: usize = 1_000;

/// The accounts of a server, logged in or not.
#[derive(Default)]
pub(super) struct AccountConnections(Mutex<HashMap<Account, Known>>);

enum Known {
    /// Logged in, with a server handle of its own.
    Double { server: Arc<Server>, used: Instant, _stop: DropGuard },
    /// Not logged in, as of this moment.
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

    /// Drops what is cached for an account, so that the next call looks it up again.
    pub(super) fn forget(&self, account: &Account) {
        self.0.lock().remove(account);
    }

    fn note(&self, account: Account, known: Known) {
        let mut all = self.0.lock();
        if all.len() >= MAX_KNOWN {
            all.retain(|_, known| known.is_fresh());
        }
        if all.len() >= MAX_KNOWN {
            forget_one(&mut all);
        }
        all.insert(account, known);
    }
}

fn forget_one(all: &mut HashMap<Account, Known>) {
    let mut counts: HashMap<&TenantId, usize> = HashMap::new();
    all.keys().for_each(|account| *counts.entry(&account.tenant).or_default() += 1);
    let Some((greatest, _)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return };
    let own = all.iter().filter(|(account, _)| account.tenant == *greatest);
    let rank = |known: &Known| (matches!(known, Known::Double { .. }), known.since());
    if let Some(account) = own.min_by_key(|(_, known)| rank(known)).map(|(own, _)| own.clone()) {
        all.remove(&account);
    }
}

impl Server {
    /// The server as a caller is logged in to it: with the user's login, else with the
    /// tenant's, else with the shared one.
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

    /// The account that a caller logs in to: the user's, or the tenant's for a call
    /// without a user.
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

    /// Whether OAuth logins apply: not to a process, and not if the definition sets the
    /// `Authorization` header itself.
    fn takes_logins(&self) -> bool {
        match &self.settings().transport {
            McpTransport::Command { .. } => false,
            McpTransport::Url { headers, .. } => {
                !headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
            }
        }
    }

    /// Publishes the tools that a new login can list: the server may not list them for
    /// anybody else.
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
