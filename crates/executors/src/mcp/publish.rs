//! Registers a server's tools with the engine, and remembers them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass::definition::{McpServer, McpTransport};
use windlass::{Error, ToolBuilder, Veil};

use super::keeper::Keeper;
use super::notebook::Note;
use super::quarantine;
use super::server::Listed;
use super::tools;

/// Of how many tools that are left out it is said why; the log has all.
const MAX_TOLD: usize = 10;

impl Keeper {
    /// Publishes what is remembered, so that a server need not be running for its tools
    /// to be known.
    pub(super) async fn recall(&mut self) {
        let reached = fingerprint(self.server.settings(), &self.server.veil());
        match self.notebook.read(self.server.owner(), self.server.name()).await {
            Ok(Some(note)) if note.reached == reached => {
                self.note = note.brought_up_to_date();
                *self.server.offers.lock() = self.note.offers;
                // An empty list is not trusted from a note, since listing again is cheap:
                // the server may have been interrupted or not ready.
                if self.note.listed && !self.note.tools.is_empty() {
                    self.register();
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(server = self.server.name(), %error, "nothing is known of a server");
            }
        }
        self.note.reached = reached;
        self.server.listed.send_if_modified(|listed| {
            let unread = *listed == Listed::Unread;
            if unread {
                *listed = Listed::Unknown;
            }
            unread
        });
    }

    pub(super) async fn publish(&mut self, tools: Vec<Value>) {
        if self.server.settings().quarantine {
            self.take_over().await;
        }
        let before = self.note.clone();
        if self.server.settings().quarantine && before.listed {
            let sorted = quarantine::sort(&mut self.note.accepted, tools);
            for name in sorted.held.keys() {
                tracing::warn!(server = self.server.name(), tool = name, "a changed tool is held");
            }
            (self.note.tools, self.note.held) = (sorted.tools, sorted.held);
        } else {
            self.note.accepted = quarantine::by_name(&tools);
            (self.note.tools, self.note.held) = (tools, BTreeMap::new());
        }
        self.note.listed = true;
        self.register();
        if self.note != before {
            self.remember().await;
        }
    }

    /// Takes over what was accepted elsewhere: by a command, or by another process on the
    /// same database.
    async fn take_over(&mut self) {
        let read = self.notebook.read(self.server.owner(), self.server.name()).await;
        if let Ok(Some(note)) = read.map(|note| note.map(Note::brought_up_to_date))
            && note.reached == self.note.reached
            && note.listed
        {
            self.note.listed = true;
            self.note.accepted.extend(note.accepted);
        }
    }

    pub(super) async fn remember(&self) {
        if self.engine.is_none() {
            return;
        }
        let note = self.note.clone();
        let written = self.notebook.write(self.server.owner(), self.server.name(), note);
        if let Err(error) = written.await {
            tracing::warn!(server = self.server.name(), %error, "a server is not remembered");
        }
    }

    /// Accepts the quarantined tools that an operator has approved.
    pub(super) async fn accept(&mut self) {
        let names = std::mem::take(&mut *self.server.accepting.lock());
        // An empty list of names would mean all.
        if names.is_empty() || self.note.accept(&names).is_empty() {
            return;
        }
        self.register();
        self.remember().await;
    }

    /// Publishes the list that a logged-in account's connection has fetched.
    pub(super) async fn learn(&mut self) {
        let learned = self.server.learned.lock().take();
        if let Some(tools) = learned {
            self.publish(tools).await;
        }
    }

    /// Until somebody logs in, a server that lists its tools only after login has one
    /// tool: the one to log in with.
    pub(super) fn offer_login(&self) {
        if self.note.tools.is_empty()
            && self.server.challenge().is_some()
            && self.server.ways.logins.is_offered()
        {
            self.replace(tools::log_in(&self.server).into_iter().collect(), Vec::new());
        }
    }

    /// Registers the known tools with the engine.
    fn register(&self) {
        self.server.held.lock().clone_from(&self.note.held);
        *self.server.changes.lock() = self.note.changes();
        let held = |name: &str| self.note.held.contains_key(name);
        let (tools, errors) = tools::build(&self.server, &self.note.tools, held);
        self.replace(tools, errors);
        self.server.listed.send_replace(Listed::Known);
    }

    pub(super) fn publish_nothing(&self) {
        self.replace(Vec::new(), Vec::new());
    }

    /// Replaces the server's tools with these; `errors` are those of others.
    fn replace(&self, tools: Vec<ToolBuilder>, mut errors: Vec<Error>) {
        let Some(engine) = &self.engine else { return };
        let source = format!("mcp/{}", self.server.name());
        let registry = engine.registry();
        errors.extend(match self.server.owner() {
            Some(tenant) => registry.replace_source_for(tenant, &source, tools),
            None => registry.replace_source(&source, tools),
        });
        for error in &errors {
            tracing::warn!(server = self.server.name(), %error, "a tool is left out");
        }
        *self.server.left_out.lock() = told(&errors);
        let known = match self.server.owner() {
            Some(tenant) => registry.owned_by(tenant),
            None => registry.list(),
        };
        for tool in known.iter().filter(|tool| **tool.source() == source) {
            if let Some(unchecked) = tool.unchecked() {
                let (server, tool) = (self.server.name(), tool.name());
                tracing::warn!(server, %tool, unchecked, "not all arguments are checked here");
            }
        }
    }
}

/// Why tools are left out, for people.
fn told(errors: &[Error]) -> Vec<String> {
    let told = errors.iter().take(MAX_TOLD);
    let mut told: Vec<String> =
        told.map(|error| format!("a tool is left out: {}", error.message())).collect();
    if errors.len() > MAX_TOLD {
        told.push(format!("{} more tools are left out", errors.len() - MAX_TOLD));
    }
    told
}

/// A fingerprint of the transport, without its secrets.
fn fingerprint(settings: &McpServer, veil: &Veil) -> String {
    let reached = match &settings.transport {
        McpTransport::Command { command, args, .. } => json!([command, args]).to_string(),
        McpTransport::Url { url, .. } => url.clone(),
    };
    veil.over_text(&reached).into_owned()
}
