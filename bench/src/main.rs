//! `cargo xtask bench`: the cost of Windlass, as ratios within one run.
//!
//! Absolute times mean little on a shared machine. Every figure is measured against its
//! baseline in alternating rounds, and reported as the ratio of the medians. Nothing here
//! fails a build; `holds` says whether a limit is kept.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here should stop the run"
)]

mod adder;
mod admission;
mod agents;
mod batch;
mod command;
mod definitions;
mod durable;
mod hot_path;
mod http;
mod mcp;
mod openapi;
mod pages;
mod process;
mod records;
mod report;
mod search;
mod threads;

use report::{Figure, Table};

/// The same allocator as in the `windlass` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A group of figures and the function that measures them.
type Group = (&'static str, fn() -> anyhow::Result<Vec<Figure>>);

const GROUPS: &[Group] = &[
    ("call", hot_path::run),
    ("admission", admission::run),
    ("threads", threads::run),
    ("batch", batch::run),
    ("burst", records::burst),
    ("sustained", records::sustained),
    ("pages", pages::run),
    ("durable", durable::run),
    ("definitions", definitions::run),
    ("openapi", openapi::run),
    ("http", http::calls),
    ("sse", http::subscribers),
    ("start", http::start),
    ("command", command::run),
    ("tenants", http::tenants),
    ("overload", http::overload),
    ("turn", agents::turn),
    ("agents", agents::many),
    ("search", search::run),
    ("search-live", search::live),
    ("mcp", mcp::run),
    ("mcp-servers", mcp::servers),
];

fn main() -> anyhow::Result<()> {
    let (flags, wanted): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    if flags.iter().any(|flag| flag == http::BARE) {
        return http::serve_bare();
    }
    if flags.iter().any(|flag| flag == agents::MODEL) {
        return agents::serve_model();
    }
    if flags.iter().any(|flag| flag == mcp::BARE) {
        return mcp::serve_bare();
    }
    if flags.iter().any(|flag| flag == mcp::BARE_STDIO) {
        return mcp::serve_bare_stdio();
    }
    if let Some(path) = flags.iter().find_map(|flag| flag.strip_prefix(openapi::IMPORT)) {
        return openapi::import_and_list(path);
    }
    if let Some(unknown) = wanted.iter().find(|name| !GROUPS.iter().any(|(own, _)| own == name)) {
        let known: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
        anyhow::bail!("there is no benchmark `{unknown}`; there are: {}", known.join(", "));
    }
    let mut table = Table::new(flags.iter().any(|flag| flag == "--json"));
    for (name, measure) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|own| own == name) {
            measure()?.into_iter().for_each(|figure| table.add(&figure));
        }
    }
    Ok(())
}
