//! What people see, whole: the help, tables, errors and JSON of every command, in
//! English and in Chinese, on a terminal of [`COLUMNS`]. To accept a change, run these
//! tests with `INSTA_UPDATE=always` and read what git shows.

mod commands;
mod steady;
mod terminal;

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::agents::Model;
use crate::project::{Project, Ran};

/// The width of the terminal.
const COLUMNS: u16 = 100;
/// Lines that begin so are not run again with `--json`.
const TEXT_ONLY: &str = "% ";

/// What is shown of a command.
struct Screens {
    command: &'static str,
    /// Makes the project. What comes back is kept until the last line has run.
    prepare: fn(&Project) -> Option<Model>,
    /// Typed one after another in the project.
    lines: &'static [&'static str],
}

/// A way to print what a line came to.
#[derive(Clone, Copy, PartialEq)]
struct Way {
    json: bool,
    lang: &'static str,
}

/// English first: what Chinese has in common with it is not shown twice.
const WAYS: [Way; 4] = [
    Way { json: false, lang: "en" },
    Way { json: false, lang: "zh" },
    Way { json: true, lang: "en" },
    Way { json: true, lang: "zh" },
];

impl Screens {
    /// What all lines print.
    fn show(&self) -> String {
        let mut shown = String::new();
        // Each way has a project of its own, in which the same happens.
        let all: Vec<Vec<String>> = WAYS.iter().map(|way| self.transcripts(*way)).collect();
        for at in 0..self.lines.len() {
            for (way, own) in WAYS.iter().zip(&all) {
                let english = WAYS.iter().position(|it| it.json == way.json).unwrap();
                if way.lang == "en" || own[at] != all[english][at] {
                    let chinese = if way.lang == "en" { "" } else { "[中文] " };
                    let _ = write!(shown, "{chinese}{}", own[at]);
                }
            }
        }
        shown
    }

    fn transcripts(&self, way: Way) -> Vec<String> {
        let project = Project::short();
        let _kept = (self.prepare)(&project);
        let run = |line: &&str| {
            let (line, text_only) = match line.strip_prefix(TEXT_ONLY) {
                Some(line) => (line, true),
                None => (*line, false),
            };
            if way.json && text_only {
                return String::new();
            }
            let line = if way.json { format!("{line} --json") } else { line.to_owned() };
            let line = with_ids(&project, &line);
            transcript(&line, &typed(&project, &line, way))
        };
        self.lines.iter().map(run).collect()
    }
}

/// Runs a line as a person types it; a program that reads JSON has no terminal.
fn typed(project: &Project, line: &str, way: Way) -> Ran {
    let (line, until) = match line.split_once("  # until ") {
        Some((line, until)) => (line, Some(until)),
        None => (line, None),
    };
    let mut command = project.shell(line);
    command.env("WINDLASS_LANG", way.lang).env("NO_COLOR", "1").env("COLUMNS", "100");
    for proxy in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] {
        command.env_remove(proxy);
    }
    match (way.json, until) {
        (true, None) => command.output().unwrap().into(),
        _ => terminal::run(command, COLUMNS, until),
    }
}

/// Puts in the id of the newest call or key.
fn with_ids(project: &Project, line: &str) -> String {
    let mut line = line.to_owned();
    for (name, args, pointer) in
        [("{call}", &["calls"][..], "/records/0/record_id"), ("{key}", &["keys", "list"], "/0/id")]
    {
        if line.contains(name) {
            let found = project.json(args);
            line = line.replace(name, found.pointer(pointer).unwrap().as_str().unwrap());
        }
    }
    line
}

fn transcript(line: &str, ran: &Ran) -> String {
    let mut shown = format!("$ {line}\n");
    for said in ran.out.lines() {
        let _ = writeln!(shown, "{}", said.trim_end());
    }
    for said in ran.err.lines() {
        let _ = writeln!(shown, "{}", format!("! {said}").trim_end());
    }
    match ran.code {
        Some(0) => {}
        Some(code) => drop(writeln!(shown, "exit {code}")),
        // The shell around it was interrupted, too.
        None => {}
    }
    shown.push('\n');
    steady::steady(&shown)
}

/// The commands below one, as its help lists them.
fn below(help: &str) -> Vec<String> {
    let (_, listed) = help.split_once("\nCommands:\n").unwrap_or_default();
    let listed = listed.lines().take_while(|line| !line.is_empty());
    // What an entry says goes on in lines that are indented further.
    let names = listed.filter_map(|line| line.strip_prefix("  ")).filter(|it| !it.starts_with(' '));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Shows the help of a command and of all below it, and collects their names.
fn helps(command: &str, shown: &mut String, names: &mut BTreeSet<String>) {
    let line = format!("{command} --help");
    let ran = typed(&Project::short(), &line, WAYS[0]);
    shown.push_str(&transcript(&line, &ran));
    // The commands of the program have screens of their own.
    if command != "windlass" {
        for name in below(&ran.out) {
            helps(&format!("{command} {name}"), shown, names);
        }
    }
    names.insert(command.to_owned());
}

/// Shows one command.
fn check(screens: &Screens) {
    let command = match screens.command {
        "windlass" => "windlass".to_owned(),
        name => format!("windlass {name}"),
    };
    let (mut shown, mut names) = (String::new(), BTreeSet::new());
    helps(&command, &mut shown, &mut names);
    for name in &names {
        let is_used = |line: &&&str| line.contains(name.as_str());
        let is_shown = screens.lines.iter().any(|line| is_used(&line));
        assert!(is_shown, "no line in `commands.rs` shows what `{name}` prints");
    }
    shown.push_str(&screens.show());
    insta::with_settings!({
        snapshot_path => "screens",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(screens.command, shown);
    });
}

#[test]
fn every_command_is_shown() {
    let help = Project::short().ok(&["--help"]);
    let known: BTreeSet<String> = below(&help).into_iter().collect();
    let shown: BTreeSet<String> = commands::ALL.iter().map(|it| it.command.to_owned()).collect();
    let missing: Vec<_> = known.difference(&shown).collect();
    assert!(missing.is_empty(), "add them to `screens/commands.rs`: {missing:?}");
    assert!(known.len() > 15, "{help}");
}
