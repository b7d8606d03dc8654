//! OAuth flows started by calls that wait for the browser to return.
//!
//! A call whose server needs a login fails with the URL at which its caller consents. The
//! next call gets the same URL, so that a model that retries does not start one flow
//! after the other.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use url::Url;
use windlass::{Error, TenantId};

use super::authorize::{self, Login, LoginOptions};
use super::server::Server;
use super::tokens::Account;

/// How long a person has to log in.
const PATIENCE: Duration = Duration::from_secs(600);
/// Maximum number of pending logins.
const MAX_PENDING: usize = 1_000;

/// Pending logins, by their OAuth `state`.
#[derive(Default)]
pub(super) struct Logins {
    options: OnceLock<LoginOptions>,
    pending: Mutex<HashMap<String, Pending>>,
}

struct Pending {
    login: Login,
    account: Account,
    /// The challenge that this login answers; a newer one may ask for more scopes.
    challenge: Option<String>,
    until: Instant,
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
        let mut pending = self.pending.lock();
        let now = Instant::now();
        pending.retain(|_, other| other.until > now && other.account != account);
        if pending.len() >= MAX_PENDING {
            forget_one(&mut pending);
        }
        let challenge = challenge.map(str::to_owned);
        pending.insert(state, Pending { login, account, challenge, until: now + PATIENCE });
        Some(Ok(url))
    }

    fn begun(&self, account: &Account, challenge: Option<&str>) -> Option<String> {
        let pending = self.pending.lock();
        let mut all = pending.values().filter(|pending| pending.until > Instant::now());
        let begun = all.find(|pending| {
            pending.account == *account && pending.challenge.as_deref() == challenge
        })?;
        Some(begun.login.url().to_owned())
    }

    /// Whose login a browser comes back from.
    pub(super) fn account_of(&self, came_back_to: &str) -> Option<Account> {
        let state = state_of(came_back_to)?;
        self.pending.lock().get(&state).map(|pending| pending.account.clone())
    }

    /// The login that a browser came back from; it is finished once.
    pub(super) fn take(&self, came_back_to: &str) -> Option<Login> {
        let pending = self.pending.lock().remove(&state_of(came_back_to)?)?;
        (pending.until > Instant::now()).then_some(pending.login)
    }
}

/// Gives up a login of the tenant that has the most.
fn forget_one(pending: &mut HashMap<String, Pending>) {
    let mut counts: HashMap<&TenantId, usize> = HashMap::new();
    pending.values().for_each(|own| *counts.entry(&own.account.tenant).or_default() += 1);
    let Some((greatest, _)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return };
    let own = pending.iter().filter(|(_, pending)| pending.account.tenant == *greatest);
    if let Some(state) = own.min_by_key(|(_, own)| own.until).map(|(state, _)| state.clone()) {
        pending.remove(&state);
    }
}

fn state_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let mut pairs = url.query_pairs();
    pairs.find_map(|(name, value)| (name == "state").then(|| value.into_owned()))
}
