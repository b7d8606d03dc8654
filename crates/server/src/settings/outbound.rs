//! The section `outbound`: what tools may reach outside of the program: the network, a
//! folder of files, databases.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value as Json, json};
use windlass::Secret;
use windlass_executors::files::FileSettings;
use windlass_executors::outbound::{Allowed, Network, OutboundPolicy, Proxy};

use super::value::{SettingInput, SettingValue};

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

macro_rules! parsed_lists {
    ($($type:ty, $form:literal;)*) => {$(
        impl SettingValue for Vec<$type> {
            const FORM: &'static str = $form;

            fn read(given: &SettingInput<'_>) -> Result<Self, String> {
                let read = |text: &str| {
                    text.parse::<$type>().map_err(|why| format!("{}: {why}", given.label()))
                };
                given.texts()?.into_iter().map(read).collect()
            }

            fn show(&self) -> Json {
                self.iter().map(ToString::to_string).collect()
            }
        }
    )*};
}

parsed_lists! {
    Allowed, "a list of names, addresses and networks, each with a port or without";
    Network, "a list of networks";
}

/// Shown without its password.
impl SettingValue for Proxy {
    const FORM: &'static str = "a URL such as http://proxy.internal:3128";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        given.text()?.parse::<Self>().map_err(|why| format!("{}: {why}", given.label()))
    }

    fn show(&self) -> Json {
        json!(self.to_string())
    }
}

/// Addresses of databases, which may hold passwords and are not shown.
impl SettingValue for BTreeMap<String, Secret> {
    const FORM: &'static str = "an address for each name: {sales: postgres://…}";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        let pairs = given.texts()?.into_iter().map(|pair| {
            let wrong = || format!("{} is written NAME=ADDRESS", given.label());
            let (name, address) = pair.split_once('=').ok_or_else(wrong)?;
            // A path in the settings is relative to them.
            let address = match address.trim().strip_prefix("sqlite:") {
                Some(path) => format!("sqlite:{}", given.base.join(path).display()),
                None => address.trim().to_owned(),
            };
            Ok((name.trim().to_owned(), Secret::new(address)))
        });
        pairs.collect()
    }

    fn show(&self) -> Json {
        let names = self.keys().map(|name| (name.clone(), json!("[hidden]")));
        Json::Object(names.collect::<Map<_, _>>())
    }
}
