//! Groups of tools, switched on and off globally or per session. A session is a
//! conversation of a tenant.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::call::content::Output;
use crate::call::context::Caller;
use crate::error::{Error, ErrorKind};
use crate::fair_map::FairMap;
use crate::tool::ToolBuilder;
use crate::tool::executor::{BoxFuture, Executor};
use crate::tool::native::schema_of;
use crate::value::name::TenantId;

/// Maximum number of remembered sessions; the oldest is forgotten first and
/// falls back to the global setting.
const MAX_SESSIONS: usize = 10_000;

/// The groups of an engine. Cheap to clone.
#[derive(Clone, Default)]
pub struct Groups(Arc<RwLock<GroupTable>>);

struct GroupTable {
    groups: BTreeMap<String, Group>,
    sessions: FairMap<Session, HashMap<String, bool>>,
}

impl Default for GroupTable {
    fn default() -> Self {
        Self { groups: BTreeMap::new(), sessions: FairMap::new(MAX_SESSIONS) }
    }
}

struct Group {
    description: String,
    active: bool,
}

/// A conversation of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    tenant: TenantId,
    conversation: Arc<str>,
}

impl Session {
    /// The session of a conversation.
    pub fn new(tenant: TenantId, conversation: impl Into<Arc<str>>) -> Self {
        Self { tenant, conversation: conversation.into() }
    }

    /// The tenant of the conversation.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The session of a caller, if it names a conversation.
    pub fn of(caller: &Caller) -> Option<Self> {
        let conversation = Arc::clone(caller.conversation.as_ref()?);
        Some(Self { tenant: caller.tenant.clone(), conversation })
    }
}

/// State of a group in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// Description.
    pub description: String,
    /// Whether it is active.
    pub active: bool,
}

impl Groups {
    /// Creates a group, or changes its description and default.
    pub fn create(&self, name: &str, description: &str, active: bool) {
        let group = Group { description: description.to_owned(), active };
        self.0.write().groups.insert(name.to_owned(), group);
    }

    /// Switches groups on or off globally. An unknown group is an error, and
    /// then nothing changes.
    pub fn update(&self, names: &[&str], active: bool) -> Result<(), Error> {
        let mut state = self.0.write();
        state.check(names.iter().copied())?;
        for name in names {
            if let Some(group) = state.groups.get_mut(*name) {
                group.active = active;
            }
        }
        Ok(())
    }

    /// Switches groups of one session on and off. An unknown group is an error,
    /// and then nothing changes.
    pub fn update_session(
        &self,
        session: &Session,
        activate: &[&str],
        deactivate: &[&str],
    ) -> Result<(), Error> {
        self.change_session(session, activate, deactivate, |_| {})
    }

    /// Activates only these groups in a session.
    pub fn replace_session(&self, session: &Session, names: &[&str]) -> Result<(), Error> {
        self.change_session(session, names, &[], |own| {
            own.values_mut().for_each(|active| *active = false);
        })
    }

    fn change_session(
        &self,
        session: &Session,
        activate: &[&str],
        deactivate: &[&str],
        prepare: impl FnOnce(&mut HashMap<String, bool>),
    ) -> Result<(), Error> {
        let mut state = self.0.write();
        state.check(activate.iter().chain(deactivate).copied())?;
        let mut own: HashMap<String, bool> = (state.groups.keys())
            .map(|name| (name.clone(), state.is_active(name, Some(session))))
            .collect();
        prepare(&mut own);
        own.extend(activate.iter().map(|name| ((*name).to_owned(), true)));
        own.extend(deactivate.iter().map(|name| ((*name).to_owned(), false)));
        *state.sessions.of(session.tenant(), session, HashMap::new) = own;
        Ok(())
    }

    /// Resets the groups of a session to the global setting.
    pub fn reset_session(&self, session: &Session) {
        self.0.write().sessions.remove(session);
    }

    /// Whether a group is active. Unknown groups are active.
    pub fn is_active(&self, name: &str, session: Option<&Session>) -> bool {
        self.0.read().is_active(name, session)
    }

    /// All groups with their state in a session.
    pub fn list(&self, session: Option<&Session>) -> Vec<GroupInfo> {
        let state = self.0.read();
        (state.groups.iter())
            .map(|(name, group)| GroupInfo {
                name: name.clone(),
                description: group.description.clone(),
                active: state.is_active(name, session),
            })
            .collect()
    }

    /// The tool with which a model switches the groups of its own session.
    pub fn meta_tool(&self) -> ToolBuilder {
        ToolBuilder::native(
            "update_tool_groups",
            schema_of::<GroupChange>(),
            Arc::new(GroupTool(self.clone())),
        )
        .description(
            "Switch groups of tools on or off for this conversation. Call it without arguments \
             to list the groups with their descriptions. Tools of an inactive group cannot be \
             called.",
        )
    }
}

impl GroupTable {
    fn is_active(&self, name: &str, session: Option<&Session>) -> bool {
        session
            .and_then(|session| self.sessions.get(session))
            .and_then(|own| own.get(name).copied())
            .or_else(|| self.groups.get(name).map(|group| group.active))
            .unwrap_or(true)
    }

    fn check<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> Result<(), Error> {
        match names.find(|name| !self.groups.contains_key(*name)) {
            None => Ok(()),
            Some(unknown) => {
                let known: Vec<&str> = self.groups.keys().map(String::as_str).collect();
                Err(Error::new(
                    ErrorKind::NotFound,
                    format!("there is no tool group `{unknown}`; there are: {}", known.join(", ")),
                ))
            }
        }
    }
}

/// Groups to switch.
#[derive(Deserialize, JsonSchema)]
struct GroupChange {
    /// Groups to switch on.
    #[serde(default)]
    activate: Vec<String>,
    /// Groups to switch off.
    #[serde(default)]
    deactivate: Vec<String>,
    /// Switch off every group that is not in `activate`.
    #[serde(default)]
    only: bool,
}

struct GroupTool(Groups);

impl Executor for GroupTool {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let change: GroupChange = call.parse()?;
            let session = Session::of(call.caller());
            let on: Vec<&str> = change.activate.iter().map(String::as_str).collect();
            let off: Vec<&str> = change.deactivate.iter().map(String::as_str).collect();
            match &session {
                _ if on.is_empty() && off.is_empty() && !change.only => {}
                None => {
                    return Err(Error::tool("groups can only be changed within a conversation"));
                }
                Some(session) if change.only => self.0.replace_session(session, &on)?,
                Some(session) => self.0.update_session(session, &on, &off)?,
            }
            Ok(Output::json(serde_json::json!({"groups": self.0.list(session.as_ref())})))
        })
    }
}
