//! The tool `read_output`, with which a model reads the rest of a truncated
//! result.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::Call;
use crate::call::content::Output;
use crate::call::context::Caller;
use crate::error::{Error, ErrorKind};
use crate::journal::record::RecordStore;
use crate::tool::executor::{BoxFuture, Executor};
use crate::tool::native::schema_of;
use crate::tool::{Behaviour, ToolBuilder};
use crate::value::name::CallId;

const MAX_PART: u64 = 50_000;

/// Restricts which results may be read: a context object for callers that may
/// not see everything.
#[derive(Clone)]
pub struct OutputScope(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl OutputScope {
    /// Allows only results of tools whose names pass the predicate, and those
    /// of the caller's own conversation.
    pub fn new(shows: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(shows))
    }

    /// Whether a caller may read the output stored under this id. Data that is
    /// not the result of a call, such as an uploaded file, is not readable.
    pub async fn shows(
        &self,
        store: &dyn RecordStore,
        caller: &Caller,
        id: CallId,
    ) -> Result<bool, Error> {
        let mut record = store.get(&caller.tenant, id).await?;
        if record.is_none() {
            // The call may have ended a moment ago.
            store.flush().await?;
            record = store.get(&caller.tenant, id).await?;
        }
        Ok(record.is_some_and(|record| {
            let own = &caller.conversation;
            (self.0)(&record.tool_name) || (own.is_some() && record.caller.conversation == *own)
        }))
    }
}

#[derive(Deserialize, JsonSchema)]
struct ReadArguments {
    /// The handle from the notice at the end of the cut result.
    handle: String,
    /// The byte to begin at; 0 is the beginning.
    #[serde(default)]
    offset: u64,
    /// How many bytes to read, at most 50000.
    #[serde(default = "whole_part")]
    #[schemars(range(min = 1, max = 50_000))]
    limit: u64,
}

fn whole_part() -> u64 {
    MAX_PART
}

struct ReadOutput(Arc<dyn RecordStore>);

pub(crate) fn read_output(store: Arc<dyn RecordStore>) -> ToolBuilder {
    ToolBuilder::native("read_output", schema_of::<ReadArguments>(), Arc::new(ReadOutput(store)))
        .description(
            "Read a part of an earlier tool result that was too long and was cut. The notice at \
             the end of such a result names the handle and the offset to go on from.",
        )
        .behaviour(Behaviour::READ_ONLY)
}

impl Executor for ReadOutput {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let part: ReadArguments = call.parse()?;
            let missing = || {
                Error::new(
                    ErrorKind::NotFound,
                    format!("no result has the handle `{}`", part.handle),
                )
            };
            let id: CallId = part.handle.parse().map_err(|_| missing())?;
            // A conversation may only read its own results.
            if let Some(own) = &call.caller().conversation
                && let Some(record) = self.0.get(&call.caller().tenant, id).await?
                && record.caller.conversation.as_ref() != Some(own)
            {
                return Err(missing());
            }
            if let Some(scope) = call.object::<OutputScope>()
                && !scope.shows(&*self.0, call.caller(), id).await?
            {
                return Err(missing());
            }
            let limit = part.limit.clamp(1, MAX_PART);
            let read = self.0.read_output(&call.caller().tenant, id, part.offset, limit).await?;
            let read = read.ok_or_else(missing)?;
            let end = part.offset + read.bytes.len() as u64;
            let text = String::from_utf8_lossy(&read.bytes);
            let rest = read.total_bytes.saturating_sub(end);
            Ok(Output::text(match rest {
                0 => text.into_owned(),
                _ => format!("{text}\n\n[{rest} more bytes; read on at offset {end}]"),
            }))
        })
    }
}
