//! The inputs of a server (`${input:NAME}`): read from the credential of its provider
//! whenever it is started, and redacted like its other secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use windlass::definition::{CredentialField, CredentialKind, McpServer};
use windlass::{Error, ErrorKind, Secret, Veil};

use super::expand::{Expansion, INPUT, expand};
use super::secrets;
use super::server::Server;
use super::tokens::Account;

/// What is filled into a server's settings, and what redacts the secrets in it.
pub(super) struct Filling {
    /// Whether variables of our environment may be read: only in the operator's own
    /// definitions.
    reads_environment: bool,
    now: Mutex<Filled>,
}

struct Filled {
    inputs: BTreeMap<String, Secret>,
    veil: Arc<Veil>,
}

impl Filling {
    pub(super) fn new(settings: &McpServer, reads_environment: bool) -> Self {
        let inputs = BTreeMap::new();
        let veil = veil(settings, &inputs, reads_environment);
        Self { reads_environment, now: Mutex::new(Filled { inputs, veil }) }
    }

    /// Redacts the secrets of the settings.
    pub(super) fn veil(&self) -> Arc<Veil> {
        Arc::clone(&self.now.lock().veil)
    }

    /// A text of the settings with what is filled in.
    pub(super) fn expanded(&self, text: &str) -> Result<String, Error> {
        let now = self.now.lock();
        expand(text, |name| find(name, &now.inputs, self.reads_environment))
    }

    fn set(&self, settings: &McpServer, inputs: BTreeMap<String, Secret>) {
        let veil = veil(settings, &inputs, self.reads_environment);
        *self.now.lock() = Filled { inputs, veil };
    }
}

impl Server {
    /// Reads the inputs, and says what is missing and how to supply it.
    pub(super) async fn read_inputs(&self) -> Result<(), Error> {
        let settings = self.settings();
        if settings.inputs.is_empty() {
            return Ok(());
        }
        let tenant = self.owner().cloned().unwrap_or_default();
        let account = Account { tenant, server: self.shared_name(), user: None };
        let stored = self.ways.tokens.inputs(&account, &settings.inputs).await?;
        let mut inputs: BTreeMap<String, Secret> = stored.into_iter().collect();
        let mut missing = Vec::new();
        for input in &settings.inputs {
            if inputs.contains_key(&input.name) {
                continue;
            }
            match default_of(input) {
                Some(default) => drop(inputs.insert(input.name.clone(), default)),
                None => missing.push(described(input)),
            }
        }
        self.filling.set(settings, inputs);
        if missing.is_empty() {
            return Ok(());
        }
        let name = self.name();
        let why = format!(
            "the server `{name}` needs {}: store a credential of `{name}` (`windlass credentials \
             set {name}`, or POST /v1/providers/{name}/credentials)",
            missing.join(", ")
        );
        Err(Error::new(ErrorKind::CredentialInvalid, why))
    }
}

fn default_of(input: &CredentialField) -> Option<Secret> {
    let default = input.default.as_ref()?;
    Some(Secret::new(default.as_str().map_or_else(|| default.to_string(), str::to_owned)))
}

fn described(input: &CredentialField) -> String {
    let label = input.label.as_ref().map(|label| label.get(windlass::Lang::En));
    let label = label.filter(|label| !label.is_empty());
    let label = label.map(|label| format!(" ({label})")).unwrap_or_default();
    format!("the input `{}`{label}", input.name)
}

fn find(name: &str, inputs: &BTreeMap<String, Secret>, reads_environment: bool) -> Expansion {
    let value = match name.strip_prefix(INPUT) {
        Some(input) => inputs.get(input).map(|value| value.expose().to_owned()),
        None if !reads_environment => return Expansion::Literal,
        None => std::env::var(name).ok(),
    };
    value.map_or(Expansion::Missing, Expansion::Value)
}

fn veil(
    settings: &McpServer,
    inputs: &BTreeMap<String, Secret>,
    reads_environment: bool,
) -> Arc<Veil> {
    let variable = |name: &str| match find(name, inputs, reads_environment) {
        Expansion::Value(value) => Some(value),
        Expansion::Literal | Expansion::Missing => None,
    };
    let mut secrets = secrets::of(&settings.transport, variable);
    for input in settings.inputs.iter().filter(|input| input.kind == CredentialKind::SecretInput) {
        secrets.extend(inputs.get(&input.name).map(|value| Secret::new(value.expose())));
    }
    Arc::new(Veil::new(&secrets))
}
