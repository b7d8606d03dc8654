//! What is remembered of a server from one start to the next.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass::{BoxFuture, Error, TenantId};

use super::handshake::Era;
use super::quarantine::{self, ToolChange};

/// What is remembered of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// Which era it turned out to be of. Notes that call it `era` do not know
    /// where its questions work, and are asked again.
    #[serde(rename = "spoken")]
    pub(super) era: Option<Era>,
    /// A fingerprint of how it is reached: another command is another server.
    pub(super) reached: String,
    /// Its tools, as they are shown.
    pub(super) tools: Vec<Value>,
    /// Whether it has ever listed its tools. The first list is accepted, also
    /// when it is empty.
    pub(super) listed: bool,
    /// All tools that were ever accepted, as they were then, by name. One that the
    /// server takes away stays here: when it comes back, it is no new one.
    pub(super) accepted: BTreeMap<String, Value>,
    /// Tools that have changed since they were accepted, as they are declared
    /// now, by name.
    pub(super) held: BTreeMap<String, Value>,
    /// What it has besides tools.
    pub(super) offers: Offers,
}

/// What a server has besides tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers {
    /// Prompts.
    pub prompts: bool,
    /// Resources.
    pub resources: bool,
}

impl Note {
    /// Accepts those of these names as they are now, or all where there are
    /// none. Says which.
    pub fn accept(&mut self, names: &[String]) -> Vec<String> {
        let wanted = |name: &String| names.is_empty() || names.contains(name);
        let accepted: Vec<String> = self.held.keys().filter(|name| wanted(name)).cloned().collect();
        for name in &accepted {
            let Some(now) = self.held.remove(name) else { continue };
            let shown = self.tools.iter_mut().find(|tool| tool["name"] == name.as_str());
            if let Some(shown) = shown {
                shown.clone_from(&now);
            }
            self.accepted.insert(name.clone(), now);
        }
        accepted
    }

    /// What is another about the tools that are held back.
    pub fn changes(&self) -> Vec<ToolChange> {
        quarantine::changes(&self.accepted, &self.held)
    }

    /// Its tools, as they are shown, by the names that the server gives them.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.tools.iter().filter_map(|tool| Some((tool["name"].as_str()?, tool)))
    }

    /// Takes what an older note shows for what it has accepted: it says nothing
    /// of that.
    pub(super) fn brought_up_to_date(mut self) -> Self {
        if !self.listed && !self.tools.is_empty() {
            self.listed = true;
            self.accepted = quarantine::by_name(&self.tools);
        }
        self
    }
}

/// Where notes are kept.
pub trait Notebook: Send + Sync + 'static {
    /// What is remembered of a server of this owner.
    fn read<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
    ) -> BoxFuture<'a, Result<Option<Note>, Error>>;

    /// Remembers it.
    fn write<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
        note: Note,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

/// A notebook that is lost with the process.
#[derive(Default)]
pub struct MemoryNotebook(Mutex<HashMap<(Option<TenantId>, String), Note>>);

impl Notebook for MemoryNotebook {
    fn read<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
    ) -> BoxFuture<'a, Result<Option<Note>, Error>> {
        let note = self.0.lock().get(&(owner.cloned(), server.to_owned())).cloned();
        Box::pin(std::future::ready(Ok(note)))
    }

    fn write<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
        note: Note,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.0.lock().insert((owner.cloned(), server.to_owned()), note);
        Box::pin(std::future::ready(Ok(())))
    }
}
