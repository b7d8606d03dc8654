//! Connections to a remote server with the OAuth tokens of one user or one tenant.
//!
//! Everybody sees the same list of tools, which the server itself publishes. The call of
//! a caller who has logged in goes over a connection with their own tokens, which has its
//! own keeper and is closed once it has been idle for a while.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass::definition::McpTransport;
use windlass::{Caller, Error, FairMap};

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
pub(super) struct AccountConnections(Mutex<KnownAccounts>);

/// Of both, the tenant with the most loses what it used least recently.
struct KnownAccounts {
    /// Those that are logged in.
    doubles: FairMap<Account, AccountDouble>,
    /// Those that are not, and since when that is known.
    nobodies: FairMap<Account, Instant>,
}

/// The server as an account is logged in to it.
struct AccountDouble {
    server: Arc<Server>,
    used: Instant,
    _stop: DropGuard,
}

enum Found {
    Double(Arc<Server>),
    Nobody,
    Unknown,
}

impl AccountConnections {
    /// For so many accounts that are logged in, and so many that are not.
    fn with_accounts(most: usize) -> Self {
        let known = KnownAccounts { doubles: FairMap::new(most), nobodies: FairMap::new(most) };
        Self(Mutex::new(known))
    }

    fn find(&self, account: &Account) -> Found {
        let mut known = self.0.lock();
        if let Some(double) = known.doubles.touch(account)
            && double.used.elapsed() < IDLE
        {
            double.used = Instant::now();
            return Found::Double(Arc::clone(&double.server));
        }
        match known.nobodies.get(account).filter(|since| since.elapsed() < NOBODY) {
            Some(_) => Found::Nobody,
            None => Found::Unknown,
        }
    }

    /// Drops what is cached for an account, so that the next call looks it up again.
    pub(super) fn forget(&self, account: &Account) {
        let mut known = self.0.lock();
        known.doubles.remove(account);
        known.nobodies.remove(account);
    }

    fn note_double(&self, account: &Account, double: AccountDouble) {
        let mut known = self.0.lock();
        known.nobodies.remove(account);
        if known.doubles.len() >= MAX_KNOWN {
            known.doubles.retain(|_, double| double.used.elapsed() < IDLE);
        }
        known.doubles.insert(&account.tenant, account, double);
    }

    fn note_nobody(&self, account: &Account) {
        let mut known = self.0.lock();
        known.doubles.remove(account);
        known.nobodies.insert(&account.tenant, account, Instant::now());
    }
}

impl Default for AccountConnections {
    fn default() -> Self {
        Self::with_accounts(MAX_KNOWN)
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
                return Ok(self.double(&account));
            }
            self.accounts.note_nobody(&account);
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
    pub(super) async fn learn_from(self: &Arc<Self>, account: &Account) {
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

    fn double(self: &Arc<Self>, account: &Account) -> Arc<Self> {
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
        let known = AccountDouble { server, used: Instant::now(), _stop: stop.drop_guard() };
        self.accounts.note_double(account, known);
        double
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tokio_util::task::TaskTracker;
    use windlass::definition::parse_all;
    use windlass::{Secret, TenantId};

    use super::*;
    use crate::mcp::notebook::MemoryNotebook;
    use crate::mcp::server::Ways;
    use crate::mcp::tokens::{MemoryTokens, Tokens};
    use crate::outbound::{Outbound, OutboundPolicy};

    #[tokio::test]
    async fn a_tenant_with_many_logins_evicts_only_its_own_connections() {
        let list = r#"{"mcpServers": {"s": {"url": "http://127.0.0.1:9/mcp"}}}"#;
        let limits = windlass::definition::DefinitionLimits::default();
        let mut parsed = parse_all("servers.json", list, &limits).unwrap();
        let settings = Arc::from(parsed.providers.remove(0).mcp.unwrap());
        let tokens = Arc::<MemoryTokens>::default();
        let ways = Ways {
            outbound: Outbound::new(OutboundPolicy::default()),
            notebook: Arc::<MemoryNotebook>::default(),
            tokens: Arc::clone(&tokens) as _,
            logins: Arc::default(),
            start_queue: Arc::default(),
            stop: CancellationToken::new(),
            keepers: TaskTracker::new(),
        };
        let account = |tenant: &str, user: Option<&str>| Account {
            tenant: TenantId::new(tenant),
            server: "s".into(),
            user: user.map(Into::into),
        };
        let shared = account("default", None);
        let server = Server::new("s", None, settings, ways, shared);
        let kept = r#"{"credentials": {"client_id": "c", "token_response": null,
            "granted_scopes": [], "token_received_at": null}, "redirect_uri": "http://l"}"#;
        let of = async |tenant: &str, user: &str| {
            let own = account(tenant, Some(user));
            tokens.save(&own, Some(Secret::new(kept))).await.unwrap();
            let caller = Caller {
                tenant: TenantId::new(tenant),
                user: Some(user.into()),
                ..Caller::default()
            };
            let double = server.of(&caller).await.unwrap();
            assert_eq!(*double.account(), own, "it is logged in");
            double
        };
        let quiet = of("quiet", "ada").await;
        let mut noisy = HashMap::new();
        for user in 0..MAX_KNOWN + 50 {
            noisy.insert(user, of("noisy", &user.to_string()).await);
        }
        assert!(Arc::ptr_eq(&quiet, &of("quiet", "ada").await), "its connection is still there");
        let newest = MAX_KNOWN + 49;
        let again = of("noisy", &newest.to_string()).await;
        assert!(Arc::ptr_eq(&noisy[&newest], &again));
        assert!(!Arc::ptr_eq(&noisy[&0], &of("noisy", "0").await), "its own was closed");
        // Whoever has not logged in is remembered by tenant as well.
        let nobody = account("quiet", Some("bob"));
        server.accounts.note_nobody(&nobody);
        (0..MAX_KNOWN + 50).for_each(|user| {
            server.accounts.note_nobody(&account("noisy", Some(&format!("n{user}"))));
        });
        assert!(matches!(server.accounts.find(&nobody), Found::Nobody));
        let first = account("noisy", Some("n0"));
        assert!(matches!(server.accounts.find(&first), Found::Unknown));
    }
}
