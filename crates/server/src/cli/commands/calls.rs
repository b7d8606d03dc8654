//! `windlass calls`: lists recorded calls.

mod detail;
mod find;

use clap::Args;
use jiff::Timestamp;
use windlass::{
    CallId, CallRecord, Lang, PageRequest, RecordFilter, RecordPage, RecordStore, Status, Summary,
    TenantId,
};

use super::time_argument;
use crate::cli::exit::{Exit, Failure};
use crate::cli::options;
use crate::cli::output::{
    BOLD, Grid, Screen, beginning, cell, local_time, one_line, spent, status, strong,
};
use crate::installation::{Installation, block_on};
use crate::settings::Settings;

/// A UUIDv7 begins with the millisecond of the call: enough to tell calls
/// apart that a person made. Those of a batch need more of it.
const SHORT_ID: usize = 13;

/// Room for an error in the list; the call itself shows all of it.
const MAX_ERROR: usize = 120;

/// List the recorded calls, or show one of them
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct CallsArgs {
    /// Show this call; a prefix of its id is enough
    #[arg(value_parser = find::parse)]
    id: Option<find::CallSelector>,
    /// Print the whole result of the call and nothing else
    #[arg(long, requires = "id")]
    output: bool,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME", conflicts_with = "id")]
    tool: Option<String>,
    /// Only calls with this status: succeeded, failed, refused, timed_out, cancelled, interrupted
    #[arg(long, conflicts_with = "id")]
    status: Option<Status>,
    /// Only calls of this conversation
    #[arg(long, value_name = "ID", conflicts_with = "id")]
    conversation: Option<String>,
    /// Only calls of this caller
    #[arg(long, value_name = "ID", conflicts_with = "id")]
    caller: Option<String>,
    /// Only calls since this time: 30m, 2d, 2026-11-16, 2026-11-16T08:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = time_argument::parse_past, conflicts_with = "id")]
    since: Option<Timestamp>,
    /// Only calls before this time
    #[arg(long, value_name = "WHEN", value_parser = time_argument::parse_past, conflicts_with = "id")]
    until: Option<Timestamp>,
    /// Maximum number of calls, up to 1000
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "id")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=PageRequest::MAX as i64))]
    limit: u16,
    /// Continue after this call: the `next` of the previous page
    #[arg(long, value_name = "ID", conflicts_with = "id")]
    after: Option<CallId>,
    /// Summarize a conversation instead of listing its calls
    #[arg(long, value_name = "CONVERSATION")]
    #[arg(conflicts_with_all = ["id", "tool", "status", "conversation", "caller", "since", "until", "after"])]
    summary: Option<String>,
    /// Only what belongs into a final answer
    #[arg(long, requires = "summary")]
    brief: bool,
}

fn after_help() -> String {
    options::examples(&[
        ("The last calls", "windlass calls"),
        ("What went wrong today", "windlass calls --status failed --since 24h"),
        ("One call with its arguments and result", "windlass calls 019a8c21-f3e2"),
        ("A result that was cut, all of it", "windlass calls 019a8c21-f3e2 --output > result.txt"),
        ("A conversation in numbers", "windlass calls --summary CONVERSATION"),
    ])
}

/// Runs the command.
pub(crate) fn run(args: CallsArgs, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    block_on(async {
        let records = Installation::to_look_at(settings, screen).records().await?;
        let records = &*records;
        match (&args.id, &args.summary) {
            (Some(wanted), _) => {
                let record = find::find(records, wanted).await?;
                if args.output {
                    detail::output(records, &record, screen).await?;
                } else if screen.json {
                    screen.document(&record)?;
                } else {
                    detail::show(&record, settings.lang, screen)?;
                }
            }
            (None, Some(conversation)) => {
                let summary = records.summary(&TenantId::default(), conversation).await?;
                show_summary(&summary, args.brief, screen)?;
            }
            (None, None) => list(records, args, settings, screen).await?,
        }
        Ok(Exit::Success)
    })
}

async fn list(
    records: &dyn RecordStore,
    args: CallsArgs,
    settings: &Settings,
    screen: Screen,
) -> Result<(), Failure> {
    let filter = RecordFilter {
        conversation: args.conversation,
        tool: args.tool,
        caller_id: args.caller,
        status: args.status,
        since: args.since,
        until: args.until,
    };
    let page = PageRequest { limit: args.limit.into(), after: args.after };
    let page = records.query(&TenantId::default(), &filter, page).await?;
    if screen.json {
        screen.document(&page)?;
    } else if page.records.is_empty() {
        let database = settings.database.describe();
        screen.note(format_args!("no such calls are recorded (database: {database})"));
    } else {
        show_page(&page, settings.lang, screen)?;
    }
    Ok(())
}

fn show_page(page: &RecordPage, lang: Lang, screen: Screen) -> Result<(), Failure> {
    let columns = ["!TIME", "!ID", "TOOL", "!STATUS", ">DURATION", "CALLER", "ERROR"];
    let mut table = Grid::new(&columns).one_line();
    let short = table.on_terminal();
    let ids: Vec<String> = page.records.iter().map(|record| record.id.to_string()).collect();
    for (record, id) in page.records.iter().zip(&ids) {
        let id = if short { shortened(id, &ids) } else { id };
        let time = local_time(record.created_at);
        // A page of calls is rarely older than a year.
        let time = if short { time.get("2026-".len()..).unwrap_or(&time) } else { &time };
        table.row([
            cell(time),
            cell(id),
            strong(&*record.tool_name),
            status(record.status),
            cell(duration(record)),
            cell(caller(record)),
            cell(error(record, lang)),
        ]);
    }
    screen.table(&table)?;
    if let Some(next) = page.next {
        screen.note(format_args!("there are more: add --after {next}"));
    }
    Ok(())
}

/// As much of an id as tells it from the others.
fn shortened<'a>(id: &'a str, others: &[String]) -> &'a str {
    let alike = |other: &String| id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let others = others.iter().filter(|other| *other != id);
    let longest = others.map(alike).max().map_or(0, |alike| alike + 1);
    id.get(..longest.max(SHORT_ID)).unwrap_or(id).trim_end_matches('-')
}

/// How long it ran, if it did.
fn duration(record: &CallRecord) -> String {
    if record.attempts == 0 { "-".to_owned() } else { spent(record.run_time) }
}

/// The beginning of what went wrong.
fn error(record: &CallRecord, lang: Lang) -> String {
    let message = record.error.as_ref().map(|error| error.kind.explain(&error.message, lang));
    beginning(&one_line(&message.unwrap_or_default()), MAX_ERROR).into_owned()
}

/// Who called, and in which conversation.
fn caller(record: &CallRecord) -> String {
    let caller = &record.caller;
    let who = caller.caller_id.as_deref().or(caller.user.as_deref()).unwrap_or("-");
    match &caller.conversation {
        Some(conversation) => format!("{who} in {conversation}"),
        None => who.to_owned(),
    }
}

fn show_summary(summary: &Summary, brief: bool, screen: Screen) -> Result<(), Failure> {
    if screen.json {
        let brief = brief.then(|| summary.to_brief());
        match brief {
            Some(brief) => screen.document(&brief)?,
            None => screen.document(summary)?,
        }
        return Ok(());
    }
    if summary.total_calls == 0 {
        let id = &summary.conversation_id;
        screen.note(format_args!("no calls of the conversation `{id}` are recorded"));
        return Ok(());
    }
    if !brief {
        screen.line(format_args!("{BOLD}conversation{BOLD:#} {}", summary.conversation_id))?;
    }
    let (total, good, bad) = (summary.total_calls, summary.successful_calls, summary.failed_calls);
    screen.line(format_args!(
        "{total} calls: {good} succeeded, {bad} did not ({:.1} % success)",
        summary.success_rate
    ))?;
    let mut table = Grid::new(&["TOOL", ">CALLS"]);
    for (tool, calls) in &summary.tool_usage {
        table.row([strong(tool), cell(calls.to_string())]);
    }
    screen.table(&table)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_as_far_as_it_differs_from_the_others() {
        let ids = ["01a1ee89-441c-7000-8000-0103aaaa0000", "01a1ee89-441c-7000-8000-0102aaaa0000"];
        let other = "01a1ee89-5555-7000-8000-0102aaaa0000";
        let all: Vec<String> = ids.iter().chain([&other]).map(|id| (*id).to_owned()).collect();
        assert_eq!(shortened(ids[0], &all), "01a1ee89-441c-7000-8000-0103");
        assert_eq!(shortened(ids[1], &all), "01a1ee89-441c-7000-8000-0102");
        assert_eq!(shortened(other, &all), "01a1ee89-5555");
        for id in &all {
            let fits = |other: &&String| other.starts_with(shortened(id, &all));
            assert_eq!(all.iter().filter(fits).count(), 1, "{id}");
        }
    }
}
