//! `cargo xtask docs`: generates the reference pages from the code.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;
use windlass::{ErrorKind, FilledBy, Lang, ToolSpec};

use crate::requirements;
use crate::run::{cargo, must, root};

const NOTICE: &str = "<!-- Written by `cargo xtask docs`; edit the code instead. -->\n\n";

/// Writes the pages, or checks that they are up to date; checks the hand-written page of
/// requirements.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    if check {
        requirements::check()?;
    }
    let folder = root().join("docs/reference");
    std::fs::create_dir_all(&folder)?;
    for (name, page) in [
        ("errors.md", errors()?),
        ("tools.md", tools()?),
        ("command-line.md", command_line()?),
        ("settings.md", settings()?),
    ] {
        publish(&folder.join(name), &page, check)?;
    }
    Ok(())
}

fn publish(path: &Path, page: &str, check: bool) -> anyhow::Result<()> {
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    if kept == page {
        return Ok(());
    }
    if check {
        bail!("{} is out of date; run `cargo xtask docs`", path.display());
    }
    std::fs::write(path, page).with_context(|| format!("{} cannot be written", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}

fn errors() -> anyhow::Result<String> {
    let mut page = format!(
        "{NOTICE}# Errors\n\nEvery call that fails has one of these kinds. The first table shows \
         what each surface calls it; the second what a model reads. `{{detail}}` is the error's \
         message.\n\n\
         HTTP has two statuses. A request that is refused gets that of `HTTP, request`, with a \
         problem in the body. A call that was taken gets that of `HTTP, call`: a call that fails is \
         a result, too, and 200, but where the server itself had no room or no database.\n\n\
         | kind | meaning | `error_type` | class | code | HTTP, request | HTTP, call | MCP | may be retried |\n\
         |---|---|---|---|---|---|---|---|---|\n"
    );
    for kind in ErrorKind::ALL {
        let row = kind.info();
        let mcp = row.mcp_code.map_or("`isError`".to_owned(), |code| code.to_string());
        let retry = if row.retryable { "yes" } else { "no" };
        writeln!(
            page,
            "| `{}` | {} | `{}` | `{}` | `{}` | {} | {} | {mcp} | {retry} |",
            row.name, row.meaning, row.error_type, row.class, row.code, row.status, row.call_status
        )?;
    }
    page += "\n| kind | English | Chinese |\n|---|---|---|\n";
    for kind in ErrorKind::ALL {
        let row = kind.info();
        writeln!(page, "| `{}` | {} | {} |", row.name, row.feedback_en, row.feedback_zh)?;
    }
    Ok(page)
}

fn tools() -> anyhow::Result<String> {
    let mut page = format!(
        "{NOTICE}# Built-in tools\n\nThey are defined by the same YAML that everybody writes, in the \
         folders `definitions` of `crates/executors`.\n"
    );
    for spec in &shipped()? {
        writeln!(page, "\n## {}\n\n{}\n", spec.name, spec.description.get(Lang::En).trim())?;
        parameters(&mut page, spec)?;
    }
    Ok(page)
}

/// The built-in tools of the program, by name.
fn shipped() -> anyhow::Result<Vec<ToolSpec>> {
    let all = windlass(&["tools", "--kind", "builtin", "--json"])?;
    let all: Vec<serde_json::Map<String, Value>> = serde_json::from_str(&all)?;
    let specs = all.into_iter().map(|mut tool| {
        // What a specification does not have itself.
        tool.retain(|name, _| name != "source" && name != "model_schema");
        Ok(serde_json::from_value(Value::Object(tool))?)
    });
    specs.collect()
}

fn parameters(page: &mut String, spec: &ToolSpec) -> anyhow::Result<()> {
    let Some(properties) = spec.input["properties"].as_object().filter(|all| !all.is_empty())
    else {
        writeln!(page, "No parameters.")?;
        return Ok(());
    };
    writeln!(
        page,
        "| parameter | type | required | default | description |\n|---|---|---|---|---|"
    )?;
    for (name, schema) in properties {
        let hidden = spec.parameters.get(name).is_some_and(|own| own.filled_by != FilledBy::Model);
        let required = spec.input["required"]
            .as_array()
            .is_some_and(|all| all.contains(&name.as_str().into()));
        let kind = schema["type"].as_str().unwrap_or("any");
        let default = schema.get("default").map_or(String::new(), |value| format!("`{value}`"));
        let mut text = schema["description"].as_str().unwrap_or_default().replace('|', "\\|");
        if let Some(options) = schema["enum"].as_array() {
            let options: Vec<String> = options.iter().map(|one| format!("`{one}`")).collect();
            write!(text, " One of {}.", options.join(", "))?;
        }
        let text = text.replace('\n', " ");
        let required = match (required, hidden) {
            (_, true) => "hidden",
            (true, _) => "yes",
            (false, _) => "no",
        };
        writeln!(page, "| `{name}` | {kind} | {required} | {default} | {text} |")?;
    }
    Ok(())
}

/// The help of the program, of its commands, and of those below them.
fn command_line() -> anyhow::Result<String> {
    must(&mut cargo(&["build", "--quiet", "--profile", "test", "--package", "windlass-server"]))?;
    let mut page = format!(
        "{NOTICE}# The command line\n\nEvery command also takes the global options of `windlass`.\n"
    );
    describe(&mut page, &[])?;
    Ok(page)
}

fn describe(page: &mut String, command: &[&str]) -> anyhow::Result<()> {
    let text = windlass(&[command, &["--help"]].concat())?;
    let text = text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    let shown = if command.is_empty() { text.clone() } else { without_global_options(&text) };
    let level = if command.len() > 1 { "###" } else { "##" };
    let name = [&["windlass"], command].concat().join(" ");
    write!(page, "\n{level} {name}\n\n```text\n{}\n```\n", shown.trim_end())?;
    let listed = text.split_once("\nCommands:\n").map_or("", |(_, listed)| listed);
    let names = listed
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    for name in names {
        describe(page, &[command, &[name]].concat())?;
    }
    Ok(())
}

/// The help without the section that is the same for all commands.
fn without_global_options(help: &str) -> String {
    let mut is_global = false;
    let mut kept: Vec<&str> = Vec::new();
    for line in help.lines() {
        let begins_section = !line.is_empty() && !line.starts_with(' ');
        is_global = line == "Global options:" || (is_global && !begins_section);
        if !is_global {
            kept.push(line);
        }
    }
    kept.join("\n")
}

/// The program's output with default settings.
fn windlass(args: &[&str]) -> anyhow::Result<String> {
    let mut command =
        cargo(&["run", "--quiet", "--profile", "test", "--package", "windlass-server", "--"]);
    // A folder without settings and tools in it or above it.
    command.arg("--project").arg(root().join("docs"));
    command.args(args).env("NO_COLOR", "1").env("COLUMNS", "100");
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name.to_string_lossy().starts_with("WINDLASS_")) {
        command.env_remove(name);
    }
    let output = command.output()?;
    anyhow::ensure!(output.status.success(), "windlass {args:?} failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// Every setting, as `windlass config --json` explains it.
fn settings() -> anyhow::Result<String> {
    let printed = windlass(&["config", "--json"])?;
    let document: Value = serde_json::from_str(&printed)?;
    let mut page = format!(
        "{NOTICE}# Settings\n\nA flag wins over a variable of the environment, that over \
         `windlass.yaml`, and that over the default; `windlass config` shows what is in effect. A \
         name with a dot is a key in a section of the file: `server: {{listen: …}}`. Those from \
         `max_concurrent` to `max_depth` may also stand under `concurrency` or `limits`. Lists in \
         variables have commas in between. Where two variables are named, the first wins.\n\n\
         | setting | default | takes | variable, flag | what it is for |\n|---|---|---|---|---|\n"
    );
    let settings = document["settings"].as_array().context("no settings were printed")?;
    for setting in settings {
        let text = |key: &str| setting[key].as_str().unwrap_or_default().replace('|', "\\|");
        let default = match &setting["default"] {
            Value::Null => String::new(),
            Value::String(text) => format!("`{text}`"),
            Value::Array(items) if items.is_empty() => String::new(),
            Value::Object(pairs) if pairs.is_empty() => String::new(),
            other => format!("`{other}`"),
        };
        let variables = setting["variables"].as_array().into_iter().flatten();
        let names: Vec<String> = (variables.chain([&setting["flag"]]))
            .filter_map(|name| name.as_str())
            .map(|name| format!("`{name}`"))
            .collect();
        let (names, takes, about) = (names.join(", "), text("takes"), text("about"));
        writeln!(page, "| `{}` | {default} | {takes} | {names} | {about} |", text("name"))?;
    }
    page += "\n`WINDLASS_MASTER_KEY` holds the master key itself and is no setting: it is never shown.\n";
    Ok(page)
}
