//! The table of all kinds of failure: a row per kind, a column per surface.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::value::text::Lang;
use crate::value::text_schema;

/// Names and properties of one kind of failure, on all surfaces.
#[derive(Debug, Clone, Copy)]
pub struct KindInfo {
    /// Name in records, events, metrics and the HTTP API.
    pub name: &'static str,
    /// The coarse `error_type`: one of eight families.
    pub error_type: &'static str,
    /// Name as an exception class, such as `ValidationError`.
    pub class: &'static str,
    /// Upper-case error code.
    pub code: &'static str,
    /// The HTTP status where a request is refused for it.
    pub status: u16,
    /// The HTTP status where a call that was asked for ends with it: a failure is a
    /// result like any other, and 200, but where a person is asked first or the
    /// server itself had no room or no database.
    pub call_status: u16,
    /// JSON-RPC error code in MCP; `None` if MCP gets a result with `isError`.
    pub mcp_code: Option<i32>,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// Meaning, for the reference page.
    pub meaning: &'static str,
    /// Feedback for the model; `{detail}` is the message.
    pub feedback_en: &'static str,
    /// Feedback in Chinese.
    pub feedback_zh: &'static str,
    /// Feedback if a tool that is not safe to repeat had begun: what happened,
    /// without advice to try again. Empty if a failure of this kind excludes an
    /// effect.
    pub begun_en: &'static str,
    /// The same in Chinese.
    pub begun_zh: &'static str,
}

/// Appended if it is unknown whether a call took effect.
const DOUBT_EN: &str = "The call may have taken effect. Do not simply repeat it: check first \
    whether it did, for example by looking up what it would have changed; if you cannot check, \
    ask the user.";
/// The same in Chinese.
const DOUBT_ZH: &str = "该调用可能已经生效。请勿直接重复调用: 请先确认是否已生效,\
    例如查询它本应更改的内容;若无法确认,请询问用户。";

macro_rules! kinds {
    ($($kind:ident = $name:literal, $error_type:literal, $class:literal, $code:literal,
        $status:literal, $call_status:literal, $mcp:expr, $retryable:literal,
        $meaning:literal, $en:literal, $zh:literal
        $(, begun $begun_en:literal, $begun_zh:literal)?;)*) => {
        /// Every kind of failure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $(#[doc = $meaning] #[serde(rename = $name)] $kind,)*
        }

        impl ErrorKind {
            /// All kinds, in table order.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// The row of this kind.
            pub const fn info(self) -> KindInfo {
                match self {
                    $(Self::$kind => KindInfo {
                        name: $name,
                        error_type: $error_type,
                        class: $class,
                        code: $code,
                        status: $status,
                        call_status: $call_status,
                        mcp_code: $mcp,
                        retryable: $retryable,
                        meaning: $meaning,
                        feedback_en: $en,
                        feedback_zh: $zh,
                        begun_en: concat!($($begun_en)?),
                        begun_zh: concat!($($begun_zh)?),
                    },)*
                }
            }
        }
    };
}

kinds! {
    ToolNotFound = "tool_not_found", "tool_not_found", "ToolExecutionError", "TOOL_NOT_FOUND",
        404, 200, Some(-32602), false,
        "No tool has this name.",
        "Unknown tool: {detail}", "错误: Unknown tool: {detail}";
    ToolInactive = "tool_inactive", "tool_not_found", "ToolExecutionError", "TOOL_NOT_FOUND",
        409, 200, None, false,
        "The tool exists, but its group is not active in this session.",
        "This tool is not active: {detail}", "该工具未激活: {detail}";
    ProviderNotFound = "provider_not_found", "tool_not_found", "ToolExecutionError", "TOOL_PROVIDER_NOT_FOUND",
        404, 200, Some(-32602), false,
        "No provider has this name.",
        "Unknown provider: {detail}", "未知的工具提供商: {detail}";
    ExecutorNotFound = "executor_not_found", "executor_not_found", "ToolExecutionError", "TOOL_INVOKE_ERROR",
        501, 200, None, false,
        "The tool is defined, but nothing here can run it: its entry names a handler that is not installed.",
        "This tool cannot be run here: {detail}. Use another way.", "该工具在此处无法运行: {detail}。请使用其他方式获取信息。";
    InvalidArguments = "invalid_arguments", "validation_error", "ValidationError", "PARAMETER_VALIDATION_ERROR",
        400, 200, None, false,
        "The arguments do not fit the tool's input schema.",
        "Invalid arguments: {detail}. Correct them and call the tool again.", "工具输入参数无效: {detail}";
    InvalidDefinition = "invalid_definition", "validation_error", "ValidationError", "PARAMETER_VALIDATION_ERROR",
        400, 200, None, false,
        "A tool definition is not valid; it was not registered.",
        "The tool definition is invalid: {detail}", "工具定义无效: {detail}";
    AlreadyRegistered = "already_registered", "validation_error", "ValidationError", "PARAMETER_VALIDATION_ERROR",
        409, 200, None, false,
        "A tool with this name is registered already; replace it on purpose or choose another name.",
        "A tool with this name exists already: {detail}", "工具已存在: {detail}";
    Denied = "denied", "execution_error", "AuthenticationError", "TOOL_INVOKE_ERROR",
        403, 200, None, false,
        "The caller may not use this tool, or a hook or a person refused the call.",
        "This call was refused: {detail}. Do not try it again; go on without it.", "该调用被拒绝: {detail}。请勿重试,请使用其他方式。";
    ApprovalRequired = "approval_required", "execution_error", "AuthenticationError", "TOOL_INVOKE_ERROR",
        202, 202, None, false,
        "The call waits for a person's approval. It has not ended; its record comes when it does.",
        "A person has been asked to approve this call: {detail}. It runs as soon as it is approved. Do not repeat it; go on with something else, or tell the user what you are waiting for.", "该调用需要人工批准,已提交审批: {detail}。批准后将自动执行,请勿重复调用,可先处理其他事项。";
    CredentialInvalid = "credential_invalid", "execution_error", "AuthenticationError", "CREDENTIAL_VALIDATION_ERROR",
        401, 200, None, false,
        "A credential that the tool needs is missing or was refused.",
        "Authentication failed: the tool's credentials are missing or invalid. Go on without it.", "认证失败: 工具凭证缺失或无效。请使用其他方式获取信息。";
    AuthorizationRequired = "authorization_required", "execution_error", "AuthenticationError", "CREDENTIAL_VALIDATION_ERROR",
        401, 200, None, false,
        "A person has to agree first that the tool acts in their name; the message has the address.",
        "Authorization required. Ask the user to open this address and to agree, then call the tool again: {detail}", "需要授权。请让用户打开以下地址并同意,然后再次调用该工具: {detail}";
    QueueFull = "queue_full", "execution_error", "RateLimitError", "TOOL_INVOKE_ERROR",
        429, 429, None, true,
        "All slots are taken and the queue is full, or the strategy is `reject`.",
        "Too many tool calls are running. Try again in a moment.", "当前工具调用过多,请稍后重试。";
    BatchLimit = "batch_limit", "execution_error", "RateLimitError", "TOOL_INVOKE_ERROR",
        413, 200, None, false,
        "The batch has more calls than are allowed; the calls beyond the limit were not run.",
        "Too many tool calls at once: {detail}. Send the rest in another turn.", "单次工具调用过多: {detail}。请在下一轮发送其余调用。";
    RateLimited = "rate_limited", "execution_error", "RateLimitError", "TOOL_INVOKE_ERROR",
        429, 429, None, true,
        "A rate limit was reached, here or at the other side.",
        "The rate limit was reached. Wait a moment, then try again.", "已达到调用频率限制,请稍后重试。";
    QuotaExceeded = "quota_exceeded", "execution_error", "RateLimitError", "TOOL_INVOKE_ERROR",
        429, 429, None, false,
        "A quota of the tenant, the user, the key or the tool is used up. The message says which, and when it ends by itself.",
        "A quota is used up: {detail}. Do not repeat the call before it ends; go on without it.", "配额已用完: {detail}。在配额恢复之前请勿重复调用,请使用其他方式。";
    Timeout = "timeout", "timeout", "TimeoutError", "TOOL_INVOKE_TIMEOUT",
        504, 200, None, true,
        "The call did not end before its deadline and was stopped. Waiting for a slot counts.",
        "{detail}. Try again or find the information another way.", "工具执行超时,请重试或使用其他方式获取信息。",
        begun "{detail}.", "工具执行超时。";
    Cancelled = "cancelled", "execution_error", "ToolExecutionError", "TOOL_INVOKE_ERROR",
        499, 200, None, false,
        "The caller cancelled the call or went away.",
        "The call was cancelled.", "调用已取消。",
        begun "The call was cancelled while it ran.", "调用在执行过程中被取消。";
    Interrupted = "interrupted", "execution_error", "ToolExecutionError", "TOOL_INVOKE_ERROR",
        500, 200, None, false,
        "The process ended while the call was running; whether it took effect is unknown.",
        "The call was interrupted; it is not known whether it took effect. Check before you repeat it.", "调用被中断,无法确定是否已生效。请先确认再重试。",
        begun "The call was interrupted.", "调用被中断。";
    Network = "network", "execution_error", "NetworkError", "TOOL_INVOKE_ERROR",
        502, 200, None, true,
        "The other side could not be reached.",
        "The service could not be reached. Try again later or find the information another way.", "服务暂时无法访问,请稍后重试或使用其他方式获取信息。",
        begun "The connection to the service broke off before it answered.", "与服务的连接在应答前中断。";
    UpstreamRejected = "upstream_rejected", "execution_error", "ToolExecutionError", "TOOL_INVOKE_ERROR",
        502, 200, None, false,
        "The other side refused the request as wrong (400, 404 and the like).",
        "The service refused the request: {detail}", "服务拒绝了请求: {detail}";
    UpstreamFailed = "upstream_failed", "execution_error", "ServerError", "TOOL_INVOKE_ERROR",
        502, 200, None, true,
        "The other side failed (5xx).",
        "The service failed. Try again later or find the information another way.", "服务暂时不可用,请稍后重试或使用其他方式获取信息。",
        begun "The service failed.", "服务出错。";
    CircuitOpen = "circuit_open", "execution_error", "ServerError", "TOOL_INVOKE_ERROR",
        503, 200, None, true,
        "The other side has failed too often and is left alone for a while; the call was not tried.",
        "The service keeps failing. Try again later or find the information another way.", "服务持续不可用,请稍后重试或使用其他方式获取信息。";
    IdempotencyConflict = "idempotency_conflict", "validation_error", "ValidationError", "PARAMETER_VALIDATION_ERROR",
        409, 200, None, false,
        "The idempotency key was used for a call with another tool or other arguments.",
        "This call reuses the key of another call: {detail}", "该调用使用了其他调用的幂等键: {detail}";
    Conflict = "conflict", "execution_error", "ToolExecutionError", "TOOL_INVOKE_ERROR",
        409, 200, None, false,
        "Somebody else does this already, or was quicker; this one has stopped.",
        "This is already being done: {detail}. Do not repeat it.", "该操作已在进行中: {detail}。请勿重复。";
    ToolError = "tool_error", "execution_error", "ToolExecutionError", "TOOL_INVOKE_ERROR",
        500, 200, None, false,
        "The tool ran and reported a failure.",
        "Tool execution failed: {detail}", "工具执行失败: {detail}。请重试或使用其他方式获取信息。",
        begun "Tool execution failed: {detail}", "工具执行失败: {detail}。";
    Panicked = "panicked", "execution_error", "ToolExecutionError", "TOOL_INVOKE_ERROR",
        500, 200, None, false,
        "The tool's code panicked.",
        "The tool crashed. Find the information another way.", "工具运行崩溃,请使用其他方式获取信息。",
        begun "The tool crashed while it ran.", "工具在运行中崩溃。";
    InvalidOutput = "invalid_output", "execution_error", "ToolExecutionError", "TOOL_INVOKE_ERROR",
        502, 200, None, false,
        "The tool's result does not fit its own output schema.",
        "The tool gave an invalid result: {detail}", "工具返回了无效的结果: {detail}",
        begun "The tool ran and gave an invalid result: {detail}.", "工具已运行,但返回了无效的结果: {detail}。";
    DepthExceeded = "depth_exceeded", "execution_error", "ToolExecutionError", "TOOL_INVOKE_ERROR",
        508, 200, None, false,
        "Tools that call tools are nested too deeply.",
        "Tool calls are nested too deeply: {detail}", "工具调用嵌套过深: {detail}";
    NotFound = "not_found", "execution_error", "ToolExecutionError", "TOOL_INVOKE_ERROR",
        404, 200, None, false,
        "A record, output or other thing with this id does not exist, or is not the caller's.",
        "Not found: {detail}", "未找到: {detail}";
    StorageUnavailable = "storage_unavailable", "execution_error", "ServerError", "TOOL_INVOKE_ERROR",
        503, 503, None, true,
        "The record store cannot be read or written.",
        "The service is temporarily unavailable. Try again later.", "服务暂时不可用,请稍后重试。",
        begun "The tool ran, but what came of it could not be kept.", "工具已运行,但结果无法保存。";
    Internal = "internal", "execution_error", "ToolExecutionError", "TOOL_INVOKE_ERROR",
        500, 200, None, false,
        "A fault of the engine itself; please report it.",
        "The tool could not be run because of an internal error.", "内部错误,工具无法执行。",
        begun "An internal error ended the call while it ran.", "内部错误使调用在执行过程中结束。";
}

impl ErrorKind {
    /// The name, such as `tool_not_found`.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The default feedback for the model.
    pub fn feedback(self, lang: Lang, detail: &str) -> String {
        let info = self.info();
        let template = match lang {
            Lang::En => info.feedback_en,
            Lang::Zh => info.feedback_zh,
        };
        template.replace("{detail}", detail)
    }

    /// Turns an operator's message into a text that can stand alone: the
    /// message about an unknown tool is just its name.
    pub fn explain(self, message: &str, lang: Lang) -> String {
        match (self, lang) {
            (Self::ToolNotFound, Lang::En) => format!("unknown tool: {message}"),
            (Self::ToolNotFound, Lang::Zh) => format!("未知工具: {message}"),
            _ => message.to_owned(),
        }
    }

    /// Feedback if a tool that is not safe to repeat had begun; `None` if a
    /// failure of this kind excludes an effect. `own` replaces the kind's own
    /// description.
    pub(crate) fn begun(self, lang: Lang, detail: &str, own: Option<&str>) -> Option<String> {
        let info = self.info();
        let (template, doubt) = match lang {
            Lang::En => (info.begun_en, format!(" {DOUBT_EN}")),
            Lang::Zh => (info.begun_zh, DOUBT_ZH.to_owned()),
        };
        if template.is_empty() {
            return None;
        }
        let said = own.map_or_else(|| template.replace("{detail}", detail), str::to_owned);
        // A tool that reports its own failure has said what it did.
        Some(if self == Self::ToolError { said } else { format!("{said}{doubt}") })
    }

    /// Whether an English feedback says that a call may have taken effect.
    pub(crate) fn says_doubt(feedback: &str) -> bool {
        feedback.ends_with(DOUBT_EN)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

text_schema!(ErrorKind);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        for &kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_name(kind.name()), Some(kind));
        }
    }

    #[test]
    fn where_a_tool_had_begun_no_text_says_to_try_again() {
        for &kind in ErrorKind::ALL {
            for lang in [Lang::En, Lang::Zh] {
                let Some(text) = kind.begun(lang, "d", None) else { continue };
                for advice in ["ry again", "ater", "another way", "重试", "其他方式"] {
                    assert!(!text.contains(advice), "{kind}: {text}");
                }
                let doubt =
                    if lang == Lang::En { "may have taken effect" } else { "可能已经生效" };
                assert_eq!(text.contains(doubt), kind != ErrorKind::ToolError, "{kind}: {text}");
            }
        }
        let own = ErrorKind::UpstreamFailed.begun(Lang::En, "", Some("It broke (503).")).unwrap();
        assert!(own.starts_with("It broke (503). The call may have"), "{own}");
        assert!(ErrorKind::says_doubt(&own));
        assert_eq!(ErrorKind::UpstreamRejected.begun(Lang::En, "", None), None);
    }

    #[test]
    fn chinese_feedback_is_the_documents_own() {
        assert_eq!(
            ErrorKind::Timeout.feedback(Lang::Zh, "Tool x timed out after 5ms"),
            "工具执行超时,请重试或使用其他方式获取信息。"
        );
        assert_eq!(ErrorKind::ToolNotFound.feedback(Lang::Zh, "x"), "错误: Unknown tool: x");
        assert_eq!(ErrorKind::InvalidArguments.feedback(Lang::Zh, "d"), "工具输入参数无效: d");
    }
}
