//! Prints the results of a batch: a table, JSON, or the messages of a model API.

use std::time::Duration;

use serde_json::{Value, json};
use windlass::{CallResult, Lang, Status};

use super::BatchFormat;
use crate::cli::exit::Failure;
use crate::cli::output::{Grid, Screen, beginning, cell, count, one_line, spent, status, strong};

/// Room for a result in the table; `--json` prints all of it.
const MAX_RESULT: usize = 80;

/// How results are printed.
pub(super) struct BatchPrintOptions {
    pub(super) lang: Lang,
    pub(super) format: Option<BatchFormat>,
}

/// A result, and how long its call waited.
pub(super) struct ResultRow<'a> {
    pub(super) result: &'a CallResult,
    pub(super) waited: Duration,
}

/// Prints the results.
pub(super) fn show(
    rows: &[ResultRow<'_>],
    view: &BatchPrintOptions,
    screen: Screen,
) -> Result<(), Failure> {
    let results = rows.iter().map(|row| row.result);
    if let Some(format) = view.format {
        let messages: Vec<Value> =
            results.map(|result| format.message(result, view.lang)).collect();
        screen.document(&messages)?;
    } else if screen.json {
        let documents: Vec<Value> = results.map(|result| result.to_json(view.lang)).collect();
        screen.document(&documents)?;
    } else if !rows.is_empty() {
        table(rows, view, screen)?;
    }
    Ok(())
}

/// Says what the batch took, against what its calls took.
pub(super) fn sum_up(
    rows: &[ResultRow<'_>],
    took: Duration,
    view: &BatchPrintOptions,
    screen: Screen,
) -> Result<(), Failure> {
    if screen.json || view.format.is_some() {
        return Ok(());
    }
    let failed = rows.iter().filter(|row| !row.result.is_success()).count();
    let failed = match failed {
        0 => String::new(),
        some => format!(" ({some} did not succeed)"),
    };
    let sum: Duration = rows.iter().map(|row| row.result.run_time).sum();
    screen.line(format_args!(
        "{}{failed} in {}; their run times add up to {}",
        count(rows.len(), "call"),
        spent(took),
        spent(sum),
    ))?;
    Ok(())
}

fn table(rows: &[ResultRow<'_>], view: &BatchPrintOptions, screen: Screen) -> Result<(), Failure> {
    let columns = [">#", "TOOL", "!STATUS", ">WAITED", ">RAN", "RESULT"];
    let mut table = Grid::new(&columns).one_line();
    let mut shortened = false;
    for (at, ResultRow { result, waited }) in rows.iter().enumerate() {
        let ran = result.attempts > 0;
        let ended = match result.error() {
            None => Status::Succeeded,
            Some(error) => Status::of(error.kind(), ran),
        };
        let text = one_line(&preview(result, view.lang));
        let shown = beginning(&text, MAX_RESULT);
        shortened |= shown.len() < text.len();
        table.row([
            cell((at + 1).to_string()),
            strong(&*result.tool_name),
            status(ended),
            cell(if ran { spent(*waited) } else { "-".to_owned() }),
            cell(if ran { spent(result.run_time) } else { "-".to_owned() }),
            cell(shown),
        ]);
    }
    screen.table(&table)?;
    if shortened {
        screen.note("results are shortened here; --json prints all of them");
    }
    Ok(())
}

/// What people read of a result: of an error, what went wrong.
fn preview(result: &CallResult, lang: Lang) -> String {
    match result.error() {
        None => result.to_text(lang),
        Some(error) => error.explain(lang),
    }
}

impl BatchFormat {
    /// The result as the model wants it.
    fn message(self, result: &CallResult, lang: Lang) -> Value {
        // A call without an id of the model's is answered by its own.
        let id = result.call_ref.as_deref().map_or_else(|| result.id.to_string(), str::to_owned);
        let content = result.to_text(lang);
        match self {
            Self::Anthropic => json!({
                "type": "tool_result",
                "tool_use_id": id,
                "content": content,
                "is_error": !result.is_success(),
            }),
            Self::Openai => json!({"role": "tool", "tool_call_id": id, "content": content}),
        }
    }
}
