//! [`Notebook`]: store for what is known of a server across restarts.

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
    /// Its detected era. Older notes call the field `era`; they are ignored, because they
    /// were made without checking where the server's requests work.
    #[serde(rename = "spoken")]
    pub(super) era: Option<Era>,
    /// A fingerprint of its transport: another command or URL means another server.
    pub(super) reached: String,
    /// Its tools, as they are published.
    pub(super) tools: Vec<Value>,
    /// Whether it has ever listed its tools. The first list is trusted, even an empty
    /// one.
    pub(super) listed: bool,
    /// Every tool that was ever accepted, by name, as it was then. A tool that the server
    /// removes stays here, so it is not new when it comes back.
    pub(super) accepted: BTreeMap<String, Value>,
    /// Quarantined tools by name, as the server declares them now.
    pub(super) held: BTreeMap<String, Value>,
    /// Its capabilities besides tools.
    pub(super) offers: Offers,
}

/// A server's capabilities besides tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers {
    /// Prompts.
    pub prompts: bool,
    /// Resources.
    pub resources: bool,
}

impl Note {
    /// Accepts the quarantined tools of these names as they are now, or all if there are
    /// no names. Returns which.
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

    /// The differences of the quarantined tools.
    pub fn changes(&self) -> Vec<ToolChange> {
        quarantine::changes(&self.accepted, &self.held)
    }

    /// Its published tools, by their names on the server.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.tools.iter().filter_map(|tool| Some((tool["name"].as_str()?, tool)))
    }

    /// Migrates an older note, which has no list of accepted tools: what it publishes
    /// counts as accepted.
    pub(super) fn brought_up_to_date(mut self) -> Self {
        if !self.listed && !self.tools.is_empty() {
            self.listed = true;
            self.accepted = quarantine::by_name(&self.tools);
        }
        self
    }
}

/// A store for notes about servers.
pub trait Notebook: Send + Sync + 'static {
    /// Reads the note about a server of this owner.
    fn read<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
    ) -> BoxFuture<'a, Result<Option<Note>, Error>>;

    /// Writes the note.
    fn write<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
        note: Note,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

/// A notebook in memory, lost when the process ends.
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
