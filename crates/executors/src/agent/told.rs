//! Texts written by agents themselves, in English and Chinese.

use windlass::{Error, Lang};

use super::log::Stop;
use super::spec::AgentSpec;

/// The text of an empty answer.
pub(super) fn nothing(lang: Lang) -> &'static str {
    match lang {
        Lang::Zh => "(无输出)",
        Lang::En => "(no output)",
    }
}

/// The answer of a stopped agent: the reason, and its last text.
pub(super) fn stopped(agent: &str, stop: Stop, spec: &AgentSpec, last: &str, lang: Lang) -> String {
    let AgentSpec { max_turns, max_tokens, .. } = spec;
    let last = if last.trim().is_empty() { nothing(lang) } else { last };
    let why = match (stop, lang) {
        (Stop::MaxTurns, Lang::Zh) => format!("达到最大轮次 ({max_turns})"),
        (Stop::MaxTurns, Lang::En) => format!("reached its maximum of {max_turns} turns"),
        (Stop::Tokens, Lang::Zh) => "已用完 token 预算".to_owned(),
        (Stop::Tokens, Lang::En) => "has used up its budget of tokens".to_owned(),
        (Stop::Cost, Lang::Zh) => "已用完费用预算".to_owned(),
        (Stop::Cost, Lang::En) => "has used up its budget of money".to_owned(),
        (Stop::Time, Lang::Zh) => "已用完时间预算".to_owned(),
        (Stop::Time, Lang::En) => "has used up its time".to_owned(),
        (Stop::Calls, Lang::Zh) => "已用完工具调用次数".to_owned(),
        (Stop::Calls, Lang::En) => "has used up its calls of tools".to_owned(),
        (Stop::Loop, Lang::Zh) => "重复了相同的工具调用".to_owned(),
        (Stop::Loop, Lang::En) => "kept repeating the same call".to_owned(),
        (Stop::MaxTokens, Lang::Zh) => format!("的回答达到最大长度 ({max_tokens} token)"),
        (Stop::MaxTokens, Lang::En) => {
            format!("reached its maximum of {max_tokens} tokens for an answer")
        }
        (Stop::Done | Stop::Refused, _) => return last.to_owned(),
    };
    match lang {
        Lang::Zh => format!("[Agent {agent} {why},以下是当前结果]\n{last}"),
        Lang::En => format!("[Agent {agent} {why}; this is the result so far]\n{last}"),
    }
}

/// The answer of a model that refused, with the API's reason.
pub(super) fn refused(word: &str, lang: Lang) -> String {
    match lang {
        Lang::Zh => format!("(模型拒绝回答: {word})"),
        Lang::En => format!("(the model refused to answer: {word})"),
    }
}

/// The error of a failed agent, for the operator and for the model that called it.
pub(super) fn failed(agent: &str, cause: Error, lang: Lang) -> Error {
    let why = cause.message();
    let feedback = match lang {
        Lang::Zh => format!("专家 Agent 暂时不可用: {why}. 请直接回答用户。"),
        Lang::En => format!("The expert agent is not available: {why}. Answer the user yourself."),
    };
    let message = match lang {
        Lang::Zh => format!("Agent {agent} 执行失败: {why}"),
        Lang::En => format!("agent {agent} failed: {why}"),
    };
    let error = Error::new(cause.kind(), message).with_feedback(feedback);
    let error = match cause.retry_after() {
        Some(after) => error.with_retry_after(after),
        None => error,
    };
    error.with_source(cause)
}

/// The warning for a model that repeats itself.
pub(super) fn repeats(tool: &str, times: u32, lang: Lang) -> String {
    match lang {
        Lang::Zh => format!(
            "你已用相同参数调用 {tool} {times} 次,结果都相同。请勿再次调用,请使用已有结果或换一种方式。"
        ),
        Lang::En => format!(
            "You have called {tool} {times} times with the same arguments and got the same result. \
             Do not call it again; use the result that you have, or do something else."
        ),
    }
}

/// The error for a model that makes too many calls in a turn.
pub(super) fn too_many(most: usize, lang: Lang) -> String {
    match lang {
        Lang::Zh => format!("每轮最多调用 {most} 个工具。请在下一轮发送其余调用。"),
        Lang::En => {
            format!("At most {most} tools may be called in a turn. Send the rest in the next one.")
        }
    }
}

/// The error for a model whose budget of calls is spent.
pub(super) fn no_calls_left(lang: Lang) -> &'static str {
    match lang {
        Lang::Zh => "工具调用次数已用完。请根据已有信息回答。",
        Lang::En => "No more tools may be called. Answer with what you know.",
    }
}
