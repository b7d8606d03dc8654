//! Roles and their permissions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the bearer of a key is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Looks at tools, calls and events.
    Viewer,
    /// Calls tools: an agent.
    Caller,
    /// Also keeps tools, providers and credentials in order, and approves calls.
    Operator,
    /// Also makes and revokes keys.
    Admin,
}

/// Something that a request wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Permission {
    /// See which tools, groups and providers there are.
    ReadTools,
    /// See calls, events, statistics and limits.
    ReadCalls,
    /// Call tools, and cancel what oneself began.
    CallTools,
    /// Cancel calls of others.
    CancelCalls,
    /// Delete files that others uploaded.
    DeleteFiles,
    /// Call on behalf of whichever person a request names, with a key that is
    /// bound to nobody.
    ActForUsers,
    /// Approve calls that wait for a person.
    Approve,
    /// See which credentials there are, masked.
    ReadCredentials,
    /// Store, change, validate and delete credentials.
    WriteCredentials,
    /// Add, change, test, reload and remove tools and providers. Such a tool may
    /// run a command, so there is no way around this one.
    WriteTools,
    /// See, make, rotate and revoke keys.
    ManageKeys,
    /// See counts over all tenants. Names of tools are among them, so this is
    /// for whoever runs the installation.
    Observe,
    /// Change what all tenants share: limits, master keys.
    Administer,
}

impl Permission {
    /// Whether it concerns all tenants. Then only the tenant that the
    /// installation begins with may do it.
    pub(crate) const fn concerns_all(self) -> bool {
        matches!(self, Self::Observe | Self::Administer)
    }

    /// The roles that may do it, in words.
    pub(crate) fn roles(self) -> String {
        let own = |(own, _): &&(Permission, &[Role])| *own == self;
        let roles = PERMISSIONS.iter().find(own).map(|(_, roles)| *roles);
        let names: Vec<_> = roles.unwrap_or_default().iter().map(|role| role.name()).collect();
        match self.concerns_all() {
            true => format!("{} of the tenant default", names.join(", ")),
            false => names.join(", "),
        }
    }
}

use Role::{Admin, Caller, Operator, Viewer};

/// The permissions of each role; everything else is denied.
const PERMISSIONS: [(Permission, &[Role]); 13] = [
    (Permission::ReadTools, &[Viewer, Caller, Operator, Admin]),
    (Permission::ReadCalls, &[Viewer, Caller, Operator, Admin]),
    (Permission::CallTools, &[Caller, Operator, Admin]),
    (Permission::CancelCalls, &[Operator, Admin]),
    (Permission::DeleteFiles, &[Admin]),
    (Permission::ActForUsers, &[Operator, Admin]),
    (Permission::Approve, &[Operator, Admin]),
    (Permission::ReadCredentials, &[Operator, Admin]),
    (Permission::WriteCredentials, &[Operator, Admin]),
    (Permission::WriteTools, &[Operator, Admin]),
    (Permission::ManageKeys, &[Admin]),
    (Permission::Observe, &[Viewer, Caller, Operator, Admin]),
    (Permission::Administer, &[Admin]),
];

impl Role {
    /// Whether the role allows this.
    pub(crate) fn may(self, action: Permission) -> bool {
        PERMISSIONS.iter().any(|(own, roles)| *own == action && roles.contains(&self))
    }

    /// Its name, as requests and documents write it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Viewer => "viewer",
            Caller => "caller",
            Operator => "operator",
            Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_grow_and_only_admins_hand_out_keys() {
        let allowed = |role: Role| {
            let all = PERMISSIONS.iter().map(|(action, _)| *action);
            all.filter(|action| role.may(*action)).collect::<Vec<_>>()
        };
        let roles = [Viewer, Caller, Operator, Admin];
        for pair in roles.windows(2) {
            let (less, more) = (allowed(pair[0]), allowed(pair[1]));
            assert!(less.len() < more.len(), "{pair:?}");
            assert!(less.iter().all(|action| more.contains(action)), "{pair:?}");
        }
        assert_eq!(allowed(Admin).len(), PERMISSIONS.len());
        for (role, action, may) in [
            (Viewer, Permission::CallTools, false),
            (Caller, Permission::WriteTools, false),
            (Caller, Permission::ReadCredentials, false),
            (Operator, Permission::ManageKeys, false),
            (Operator, Permission::WriteTools, true),
            (Admin, Permission::ManageKeys, true),
        ] {
            assert_eq!(role.may(action), may, "{role} {action:?}");
        }
    }

    #[test]
    fn names_are_those_of_documents() {
        for role in [Viewer, Caller, Operator, Admin] {
            assert_eq!(serde_json::to_value(role).unwrap(), role.name());
        }
    }
}
