//! One call, with everything that was kept of it.

use serde_json::Value;
use windlass::{CallRecord, Lang, RecordStore, Status, TenantId};

use crate::exit::{Exit, Failure};
use crate::output::{self, BAD, BOLD, DOUBTFUL, GOOD, Screen, spent, visible};

/// How much of a kept result is in memory at once.
const PART: u64 = 1024 * 1024;

/// Prints a record for people.
pub(super) fn show(record: &CallRecord, lang: Lang, screen: Screen) -> Result<(), Failure> {
    let style = match record.status {
        Status::Succeeded => GOOD,
        Status::Failed | Status::Interrupted => BAD,
        Status::Refused | Status::TimedOut | Status::Cancelled => DOUBTFUL,
    };
    let tool = visible(&record.tool_name);
    screen.line(format_args!("{BOLD}{tool}{BOLD:#} {style}{}{style:#}\n", record.status))?;
    for (name, value) in facts(record) {
        screen.line(format_args!("{BOLD}{name:<12}{BOLD:#} {}", output::one_line(&value)))?;
    }
    screen.line(format_args!("\n{BOLD}Arguments{BOLD:#}"))?;
    screen.foreign(&pretty(&record.arguments))?;
    if let Some(error) = &record.error {
        screen.line(format_args!("\n{BOLD}Error{BOLD:#} ({})", error.kind))?;
        screen.foreign(&error.message)?;
        let feedback = error.kind.feedback(lang, &error.message);
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
        ("time", super::local_time(record.created_at)),
        ("duration", super::duration(record)),
    ];
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    let text = |value: &Option<std::sync::Arc<str>>| value.as_deref().map(str::to_owned);
    add("waited", (!record.queue_wait.is_zero()).then(|| spent(record.queue_wait)));
    add("attempts", (record.attempts > 1).then(|| record.attempts.to_string()));
    add("call ref", text(&record.call_ref));
    add("caller", text(&caller.caller_id));
    add("caller type", Some(caller.caller_type.name().to_owned()));
    add("user", text(&caller.user));
    add("conversation", text(&caller.conversation));
    add("workflow", text(&caller.workflow));
    add("parent", caller.parent.map(|parent| parent.to_string()));
    facts
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}
