//! The section `outbound`: what tools may reach outside of the program, which
//! is the network, a folder of files, and databases.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value as Json, json};
use windlass::Secret;
use windlass_executors::files::FileSettings;
use windlass_executors::outbound::{Allowed, Network, OutboundPolicy, Proxy};

use super::value::{Given, Value};

/// The section `outbound`, resolved.
#[derive(Clone, Default)]
pub(crate) struct OutboundSettings {
    /// What requests may reach, and how much of it.
    pub(crate) policy: OutboundPolicy,
    /// The folder that the file tools work in.
    pub(crate) files: FileSettings,
    /// Databases that definitions of `sql_query` may name in `entry.database`.
    /// An address may hold a password.
    pub(crate) databases: BTreeMap<String, Secret>,
}

impl fmt::Debug for OutboundSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundSettings")
            .field("policy", &self.policy)
            .field("files", &self.files)
            .field("databases", &self.databases.keys())
            .finish()
    }
}

impl Value for Vec<Allowed> {
    const FORM: &'static str =
        "a list of hosts, addresses and networks: localhost:8080, *.internal, 10.0.0.0/8";

    fn read(given: &Given<'_>) -> Result<Self, String> {
        let read = |text: &str| text.parse().map_err(|why| format!("`{}`: {why}", given.name));
        given.texts()?.into_iter().map(read).collect()
    }

    fn show(&self) -> Json {
        self.iter().map(ToString::to_string).collect()
    }
}

impl Value for Vec<Network> {
    const FORM: &'static str = "a list of networks: 10.1.0.0/16, fd00::/8";

    fn read(given: &Given<'_>) -> Result<Self, String> {
        let read = |text: &str| text.parse().map_err(|why| format!("`{}`: {why}", given.name));
        given.texts()?.into_iter().map(read).collect()
    }

    fn show(&self) -> Json {
        self.iter().map(ToString::to_string).collect()
    }
}

/// Shown without a password; errors do not repeat it either.
impl Value for Proxy {
    const FORM: &'static str = "http://HOST:PORT, with USER:PASSWORD@ where it wants that";

    fn read(given: &Given<'_>) -> Result<Self, String> {
        given.text()?.parse().map_err(|why| format!("`{}`: {why}", given.name))
    }

    fn show(&self) -> Json {
        json!(format!("{self:?}"))
    }
}

/// Addresses may hold passwords, and are not shown.
impl Value for BTreeMap<String, Secret> {
    const FORM: &'static str = "a list of NAME=postgres://… or NAME=sqlite:PATH";

    fn read(given: &Given<'_>) -> Result<Self, String> {
        let wrong = || format!("`{}` is {}", given.name, Self::FORM);
        let pairs = given.texts()?.into_iter().map(|pair| {
            let (name, address) = pair.split_once('=').ok_or_else(wrong)?;
            let (name, address) = (name.trim(), address.trim());
            let address = match address.strip_prefix("sqlite:") {
                Some(path) => format!("sqlite:{}", given.base.join(path).display()),
                None if address.starts_with("postgres") => address.to_owned(),
                None => return Err(wrong()),
            };
            if name.is_empty() { Err(wrong()) } else { Ok((name.to_owned(), Secret::new(address))) }
        });
        pairs.collect()
    }

    fn show(&self) -> Json {
        self.keys().map(|name| format!("{name}=[hidden]")).collect()
    }
}
