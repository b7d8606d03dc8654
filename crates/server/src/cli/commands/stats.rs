//! `windlass stats`: call counts, outcomes and latencies of tools.

use std::time::Duration;

use clap::Args;
use windlass::{TenantId, ToolStatistics};

use crate::cli::exit::{Exit, Failure};
use crate::cli::options;
use crate::cli::output::{Grid, Screen, cell, spent, strong};
use crate::installation::{Installation, block_on};
use crate::settings::Settings;

/// Show statistics of all recorded calls
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct StatsArgs {
    /// Only this tool
    tool: Option<String>,
}

fn after_help() -> String {
    options::examples(&[
        ("All tools", "windlass stats"),
        ("One tool", "windlass stats calculator"),
        (
            "Tools that fail more than one call in ten",
            "windlass stats --json | jq '.tools | map_values(select(.success_rate < 90)) | keys'",
        ),
    ])
}

/// Runs the command.
pub(crate) fn run(args: &StatsArgs, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    let mut all = block_on(async {
        let records = Installation::to_look_at(settings, screen).records().await?;
        Ok(records.statistics(&TenantId::default()).await?)
    })?;
    if let Some(tool) = &args.tool {
        all.tools.retain(|name, _| name == tool);
        all.total = all.tools.get(tool).cloned().unwrap_or_default();
    }
    if screen.json {
        screen.document(&all)?;
        return Ok(Exit::Success);
    }
    if all.tools.is_empty() {
        let database = settings.database.describe();
        screen.note(format_args!("no such calls are recorded (database: {database})"));
        return Ok(Exit::Success);
    }
    let mut columns = vec!["!TOOL", ">CALLS", ">SUCCESS", ">P50", ">P95", ">P99", "ENDED"];
    let has_cost = !all.total.usage.is_zero();
    if has_cost {
        columns.extend([">TOKENS", ">COST"]);
    }
    let mut table = Grid::new(&columns);
    let total = Some(("total", &all.total)).filter(|_| all.tools.len() > 1);
    let rows = all.tools.iter().map(|(name, statistics)| (name.as_str(), statistics));
    for (name, statistics) in rows.chain(total) {
        let mut cells = row(name, statistics);
        if has_cost {
            cells.push(cell(statistics.usage.total_tokens().to_string()));
            cells.push(cell(format!("${:.4}", statistics.usage.cost_usd)));
        }
        table.row(cells);
    }
    screen.table(&table)?;
    Ok(Exit::Success)
}

fn row(name: &str, statistics: &ToolStatistics) -> Vec<comfy_table::Cell> {
    let time = |millis: f64| cell(spent(Duration::from_secs_f64(millis / 1000.0)));
    let ended: Vec<String> =
        (statistics.by_status.iter()).map(|(status, calls)| format!("{calls} {status}")).collect();
    vec![
        strong(name),
        cell(statistics.calls.to_string()),
        cell(format!("{:.1} %", statistics.success_rate)),
        time(statistics.p50_ms),
        time(statistics.p95_ms),
        time(statistics.p99_ms),
        cell(ended.join(", ")),
    ]
}
