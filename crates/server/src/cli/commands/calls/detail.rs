//! One call in full.

use std::time::Duration;

use serde_json::Value;
use windlass::{CallRecord, FailedAttempt, Lang, RecordStore, Status, TenantId};

use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, BAD, BOLD, DOUBTFUL, GOOD, Screen, spent, visible};

/// How much of a kept result is in memory at once.
const PART: u64 = 1024 * 1024;

/// What somebody must know who thinks of repeating it.
const INTERRUPTED: &str = "The program ended while this call ran. Whether it took effect is not \
                           known: check before you repeat it.";

/// Prints a record for people.
pub(super) fn show(record: &CallRecord, lang: Lang, screen: Screen) -> Result<(), Failure> {
    let style = match record.status {
        Status::Succeeded => GOOD,
        Status::Failed | Status::Interrupted => BAD,
        Status::Refused | Status::TimedOut | Status::Cancelled => DOUBTFUL,
    };
    let tool = visible(&record.tool_name);
    screen.line(format_args!("{BOLD}{tool}{BOLD:#} {style}{}{style:#}", record.status))?;
    if record.status == Status::Interrupted {
        screen.line(format_args!("{style}{INTERRUPTED}{style:#}"))?;
    }
    screen.line("")?;
    for (name, value) in facts(record) {
        screen.line(format_args!("{BOLD}{name:<12}{BOLD:#} {}", output::one_line(&value)))?;
    }
    attempts(record, screen)?;
    screen.line(format_args!("\n{BOLD}Arguments{BOLD:#}"))?;
    screen.foreign(&pretty(&record.arguments))?;
    if let Some(error) = &record.error {
        screen.line(format_args!("\n{BOLD}Error{BOLD:#} ({})", error.kind))?;
        screen.foreign(&error.kind.explain(&error.message, lang))?;
        let feedback = windlass::Error::from(&**error).feedback(lang);
        screen.line(format_args!("\n{BOLD}What a model is told{BOLD:#}"))?;
        screen.foreign(&feedback)?;
    }
    if let Some(result) = &record.result {
        screen.line(format_args!("\n{BOLD}Result{BOLD:#}"))?;
        match result.value() {
            Some(value) => screen.foreign(&pretty(value))?,
            None => screen.foreign(&result.to_text())?,
        }
        if is_cut(record) {
            screen.note(format_args!("for more of it: windlass calls {} --output", record.id));
        }
    }
    Ok(())
}

/// Prints the whole result: as it was kept for that, else as it is recorded.
pub(super) async fn output(
    records: &dyn RecordStore,
    record: &CallRecord,
    screen: Screen,
) -> Result<(), Failure> {
    let tenant = TenantId::default();
    let mut offset = 0;
    while let Some(part) = records.read_output(&tenant, record.id, offset, PART).await? {
        screen.bytes(&part.bytes)?;
        offset += part.bytes.len() as u64;
        if part.bytes.is_empty() || offset >= part.total_bytes {
            return Ok(());
        }
    }
    if offset > 0 {
        return Err(Failure::new(Exit::Failed, "the result was removed while it was read"));
    }
    let Some(result) = &record.result else {
        return Err(Failure::new(
            Exit::NotFound,
            format!("the call {} has no result: {}", record.id, record.status),
        )
        .hint(format!("`windlass calls {}` shows why", record.id)));
    };
    screen.bytes(result.to_text().as_bytes())?;
    if is_cut(record) {
        screen.warn("only the beginning of this result was kept");
    }
    Ok(())
}

/// Whether the record has only the beginning of the result.
fn is_cut(record: &CallRecord) -> bool {
    record.result.as_ref().is_some_and(|result| {
        result.truncated.is_some()
            || result.content.iter().any(|block| block.meta.get("truncated") == Some(&true.into()))
    })
}

fn facts(record: &CallRecord) -> Vec<(&'static str, String)> {
    let caller = &record.caller;
    let mut facts = vec![
        ("id", record.id.to_string()),
        ("time", crate::cli::output::local_time(record.created_at)),
        ("duration", super::duration(record)),
    ];
    let details = record.details.as_deref();
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    let text = |value: &Option<std::sync::Arc<str>>| value.as_deref().map(str::to_owned);
    add("waited", (!record.queue_wait.is_zero()).then(|| spent(record.queue_wait)));
    add("attempts", (record.attempts > 1).then(|| record.attempts.to_string()));
    add("same as", details.and_then(|own| own.same_as).map(|first| first.to_string()));
    add("key", record.idempotency_key().map(|key| key.to_string()));
    let usage = details.and_then(|own| own.total_usage.or(own.usage));
    add(
        "cost",
        usage.map(|usage| format!("${:.4} for {} tokens", usage.cost_usd, usage.total_tokens())),
    );
    add("call ref", text(&record.call_ref));
    add("caller", text(&caller.caller_id));
    add("caller type", Some(caller.caller_type.name().to_owned()));
    add("user", text(&caller.user));
    add("conversation", text(&caller.conversation));
    add("workflow", text(&caller.workflow));
    add("parent", caller.parent.map(|parent| parent.to_string()));
    facts
}

/// Prints how each attempt ended, where there was more than one.
fn attempts(record: &CallRecord, screen: Screen) -> Result<(), Failure> {
    let failed = record.details.as_deref().map_or(&[][..], |own| &own.failed_attempts);
    if failed.is_empty() {
        return Ok(());
    }
    screen.line(format_args!("\n{BOLD}Attempts{BOLD:#}"))?;
    for line in attempt_lines(record, failed) {
        screen.line(line)?;
    }
    Ok(())
}

fn attempt_lines(record: &CallRecord, failed: &[FailedAttempt]) -> Vec<String> {
    let seconds = |seconds: f64| spent(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let mut lines: Vec<String> = failed
        .iter()
        .enumerate()
        .map(|(at, attempt)| {
            let (ran, delay) = (seconds(attempt.execution_time), seconds(attempt.delay));
            let error = output::one_line(&attempt.error.message);
            let kind = attempt.error.kind;
            format!("{:>3}  failed after {ran} ({kind}): {error}; waited {delay}", at + 1)
        })
        .collect();
    // Stopped while it waited for the next attempt, it has no last one.
    if record.attempts as usize > failed.len() {
        lines.push(format!("{:>3}  {}", record.attempts, record.status));
    }
    lines
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass::{Behaviour, CallRequest, Engine, Error, ErrorKind, PageRequest, RecordFilter};
    use windlass::{RetryPolicy, ToolBuilder};

    use super::*;

    async fn failing(keyed: bool) -> CallRecord {
        let tool = ToolBuilder::from_fn("get_rate", |_: Value| async {
            Err::<Value, _>(Error::new(ErrorKind::Network, "connection\nreset"))
        });
        let engine = Engine::builder().tool(tool.behaviour(Behaviour::READ_ONLY)).build().unwrap();
        let request = CallRequest::new("get_rate", json!({})).retry(RetryPolicy {
            attempts: 2,
            backoff: Duration::from_millis(1),
            ..RetryPolicy::default()
        });
        engine.call(if keyed { request.idempotency_key("order-17") } else { request }).await;
        let (tenant, filter) = (TenantId::default(), RecordFilter::default());
        let page = engine.records().query(&tenant, &filter, PageRequest::first(1)).await.unwrap();
        page.records.into_iter().next().unwrap()
    }

    #[tokio::test]
    async fn every_attempt_is_told() {
        let record = failing(false).await;
        let failed = &record.details.as_deref().unwrap().failed_attempts;
        let lines = attempt_lines(&record, failed);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("1  failed after"), "{lines:?}");
        assert!(lines[0].contains("(network): connection reset; waited"), "{lines:?}");
        assert_eq!(lines[1], "  2  failed");
        assert!(facts(&record).contains(&("attempts", "2".to_owned())));
    }

    #[tokio::test]
    async fn a_key_is_told() {
        let facts = facts(&failing(true).await);
        assert!(facts.contains(&("key", "order-17".to_owned())), "{facts:?}");
    }
}
