//! Finds the tool of a call.

use crate::call::context::Caller;
use crate::error::{Error, ErrorKind};
use crate::tool::groups::{Groups, Session};
use crate::tool::registry::{FoundTool, Registry};
use crate::value::name::TenantId;

/// The tool, if it exists and its group is active in the caller's session.
pub(crate) fn resolve(
    registry: &Registry,
    groups: &Groups,
    caller: &Caller,
    name: &str,
) -> Result<FoundTool, Error> {
    let tenant = &caller.tenant;
    let tool = registry.find(tenant, name).ok_or_else(|| unknown(registry, tenant, name))?;
    if let Some(group) = &tool.spec().group {
        let session = Session::of(caller);
        if !groups.is_active(group, session.as_ref()) {
            return Err(Error::new(
                ErrorKind::ToolInactive,
                format!("`{}` belongs to the group `{group}`, which is not active", tool.name()),
            ));
        }
    }
    Ok(tool)
}

fn unknown(registry: &Registry, tenant: &TenantId, name: &str) -> Error {
    const SHOWN: usize = 100;
    let near = registry.nearest_for(tenant, name);
    let shown: String = name.chars().take(SHOWN).collect();
    let mut detail = shown;
    if !near.is_empty() {
        let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        detail = format!("{detail}; did you mean {}?", quoted.join(", "));
    }
    Error::new(ErrorKind::ToolNotFound, detail)
}
