//! [`McpReply`]: the response to a request.

use rmcp::model::{
    CallToolResponse, CallToolResult, ErrorCode, ErrorData, GetPromptResponse, GetPromptResult,
    InputRequiredResult, ReadResourceResponse, ReadResourceResult,
};
use windlass::{CallResult, Error, Lang};
use windlass_executors::mcp::{ProtocolError, convert};

/// The response to a request that may elicit answers first.
pub(super) enum McpReply {
    Tool(CallToolResult),
    Prompt(GetPromptResult),
    Resource(ReadResourceResult),
    /// Not the end: the client is asked first.
    Asks(InputRequiredResult),
}

impl McpReply {
    pub(super) fn into_tool(self) -> Result<CallToolResponse, ErrorData> {
        match self {
            Self::Tool(result) => Ok(result.into()),
            Self::Asks(asks) => Ok(asks.into()),
            _ => Err(mixed_up()),
        }
    }

    pub(super) fn into_prompt(self) -> Result<GetPromptResponse, ErrorData> {
        match self {
            Self::Prompt(result) => Ok(result.into()),
            Self::Asks(asks) => Ok(asks.into()),
            _ => Err(mixed_up()),
        }
    }

    pub(super) fn into_resource(self) -> Result<ReadResourceResponse, ErrorData> {
        match self {
            Self::Resource(result) => Ok(result.into()),
            Self::Asks(asks) => Ok(asks.into()),
            _ => Err(mixed_up()),
        }
    }
}

/// A state of one kind of request was sent with another.
fn mixed_up() -> ErrorData {
    ErrorData::invalid_params("the request state belongs to another request", None)
}

/// The result of a call as the protocol wants it: an error of the protocol where
/// the table of errors says so, else a result that says it is an error.
///
/// Where structured results are `promised`, one that was cut has lost its form.
/// Clients refuse it then, unless it is said to be an error; as one, they show
/// how to read on.
pub(super) fn of_call(
    result: &CallResult,
    promised: bool,
    lang: Lang,
) -> Result<CallToolResult, ErrorData> {
    match &result.outcome {
        Ok(output) => {
            let mut told = convert::to_result(output);
            if promised && output.truncated.is_some() {
                told.is_error = Some(true);
            }
            Ok(told)
        }
        Err(error) => match (ProtocolError::of(error), error.kind().info().mcp_code) {
            (Some(refused), _) => Err(passed_on(refused)),
            (None, Some(code)) => Err(ErrorData::new(ErrorCode(code), error.feedback(lang), None)),
            (None, None) => Ok(convert::to_failure(error, error.feedback(lang))),
        },
    }
}

/// An error outside of a call.
pub(super) fn of_error(error: &Error, lang: Lang) -> ErrorData {
    match (ProtocolError::of(error), error.kind().info().mcp_code) {
        (Some(refused), _) => passed_on(refused),
        (None, Some(code)) => ErrorData::new(ErrorCode(code), error.feedback(lang), None),
        (None, None) => ErrorData::internal_error(error.feedback(lang), None),
    }
}

fn passed_on(refused: &ProtocolError) -> ErrorData {
    ErrorData::new(ErrorCode(refused.code), refused.message.clone(), refused.data.clone())
}
