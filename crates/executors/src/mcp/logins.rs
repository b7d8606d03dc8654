//! OAuth flows started by calls that wait for the browser to return.
//!
//! A call whose server needs a login fails with the URL at which its caller consents. The
//! next call gets the same URL, so that a model that retries does not start one flow
//! after the other.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use url::Url;
use windlass::{Error, FairMap};

use super::authorize::{self, Login, LoginOptions};
use super::server::Server;
use super::tokens::Account;

/// How long a person has to log in.
const PATIENCE: Duration = Duration::from_secs(600);
/// Maximum number of pending logins.
const MAX_PENDING: usize = 1_000;

/// Pending logins, by their OAuth `state`.
pub(super) struct Logins {
    options: OnceLock<LoginOptions>,
    pending: Mutex<PendingLogins<Login>>,
}

/// Logins by their `state`. The tenant with the most loses its oldest one.
struct PendingLogins<L>(FairMap<String, Pending<L>>);

struct Pending<L> {
    login: L,
    account: Account,
    /// The challenge that this login answers; a newer one may ask for more scopes.
    challenge: Option<String>,
    until: Instant,
}

impl Default for Logins {
    fn default() -> Self {
        let pending = Mutex::new(PendingLogins(FairMap::new(MAX_PENDING)));
        Self { options: OnceLock::new(), pending }
    }
}

impl<L> PendingLogins<L> {
    /// Adds a login, in place of others of the same account.
    fn add(&mut self, state: &str, pending: Pending<L>) {
        let now = Instant::now();
        self.0.retain(|_, other| other.until > now && other.account != pending.account);
        let tenant = pending.account.tenant.clone();
        self.0.insert(&tenant, &state.to_owned(), pending);
    }

    /// One that answers this challenge.
    fn begun(&self, account: &Account, challenge: Option<&str>) -> Option<&L> {
        let mut all = self.0.values().filter(|pending| pending.until > Instant::now());
        let begun = all.find(|pending| {
            pending.account == *account && pending.challenge.as_deref() == challenge
        })?;
        Some(&begun.login)
    }

    fn account_of(&self, state: &String) -> Option<Account> {
        self.0.get(state).map(|pending| pending.account.clone())
    }

    fn take(&mut self, state: &String) -> Option<L> {
        let pending = self.0.remove(state)?;
        (pending.until > Instant::now()).then_some(pending.login)
    }
}

impl Logins {
    /// Allows calls to start logins.
    pub(super) fn offer(&self, options: LoginOptions) {
        let _ = self.options.set(options);
    }

    /// Whether calls may start logins.
    pub(super) fn is_offered(&self) -> bool {
        self.options.get().is_some()
    }

    /// The URL at which to log in; `None` if calls may not start logins.
    pub(super) async fn url(
        &self,
        server: &Arc<Server>,
        account: Account,
        challenge: Option<&str>,
    ) -> Option<Result<String, Error>> {
        let options = self.options.get()?.clone();
        if let Some(url) = self.begun(&account, challenge) {
            return Some(Ok(url));
        }
        let login = match authorize::begin(server, account.clone(), challenge, options).await {
            Ok(login) => login,
            Err(error) => return Some(Err(error)),
        };
        let url = login.url().to_owned();
        let state = state_of(&url)?;
        let (challenge, until) = (challenge.map(str::to_owned), Instant::now() + PATIENCE);
        self.pending.lock().add(&state, Pending { login, account, challenge, until });
        Some(Ok(url))
    }

    fn begun(&self, account: &Account, challenge: Option<&str>) -> Option<String> {
        let pending = self.pending.lock();
        pending.begun(account, challenge).map(|login| login.url().to_owned())
    }

    /// Whose login a browser comes back from.
    pub(super) fn account_of(&self, came_back_to: &str) -> Option<Account> {
        self.pending.lock().account_of(&state_of(came_back_to)?)
    }

    /// The login that a browser came back from; it is finished once.
    pub(super) fn take(&self, came_back_to: &str) -> Option<Login> {
        self.pending.lock().take(&state_of(came_back_to)?)
    }
}

fn state_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let mut pairs = url.query_pairs();
    pairs.find_map(|(name, value)| (name == "state").then(|| value.into_owned()))
}

#[cfg(test)]
mod tests {
    use windlass::TenantId;

    use super::*;

    fn account(tenant: &str, user: usize) -> Account {
        let user = Some(user.to_string().into());
        Account { tenant: TenantId::new(tenant), server: "s".into(), user }
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_whose_people_never_log_in_evicts_only_its_own_logins() {
        let mut logins = PendingLogins(FairMap::new(10));
        let mut begin = |tenant: &str, user: usize| {
            let pending = Pending {
                login: format!("{tenant} {user}"),
                account: account(tenant, user),
                challenge: None,
                until: Instant::now() + PATIENCE,
            };
            logins.add(&format!("state of {tenant} {user}"), pending);
        };
        (0..3).for_each(|user| begin("quiet", user));
        (0..100).for_each(|user| begin("noisy", user));
        // Whoever begins anew has one login.
        (0..5).for_each(|_| begin("quiet", 0));
        for user in 0..3 {
            let login = logins.begun(&account("quiet", user), None);
            assert_eq!(login, Some(&format!("quiet {user}")));
            assert_eq!(logins.begun(&account("quiet", user), Some("more scopes")), None);
        }
        let left = (0..100).filter(|user| logins.begun(&account("noisy", *user), None).is_some());
        assert_eq!(left.collect::<Vec<_>>(), [93, 94, 95, 96, 97, 98, 99]);
        let state = "state of quiet 1".to_owned();
        assert_eq!(logins.account_of(&state), Some(account("quiet", 1)));
        assert_eq!(logins.take(&state).as_deref(), Some("quiet 1"));
        assert_eq!(logins.take(&state), None, "it is finished once");
        tokio::time::advance(PATIENCE).await;
        assert_eq!(logins.take(&"state of quiet 2".to_owned()), None, "it took too long");
    }
}
