//! Checks `docs/requirements.md`: that it has every demand once, and that the tests
//! it names exist.
//!
//! A test is named as the test runner names it, after its package:
//! `windlass::batch::a_sliding_window_not_waves`. The way there is followed through
//! the source, from `mod` to `mod`, without compiling anything. Tests that a macro of
//! ours makes are not found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::run::root;

const PAGE: &str = "docs/requirements.md";

/// How many rows there are whose ids begin like this.
const GROUPS: [(&str, usize); 7] =
    [("S0.", 27), ("S1.", 19), ("S2.", 16), ("S3.", 29), ("S4.", 18), ("D", 19), ("B", 15)];

/// Fails where the page is wrong, and says everything that is.
pub(crate) fn check() -> anyhow::Result<()> {
    let page = std::fs::read_to_string(root().join(PAGE))
        .with_context(|| format!("{PAGE} cannot be read"))?;
    let faults = faults(&page, &root());
    anyhow::ensure!(faults.is_empty(), "{PAGE} is wrong:\n{}", faults.join("\n"));
    Ok(())
}

fn faults(page: &str, root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for row in page.lines().filter_map(Row::read) {
        *seen.entry(row.id).or_default() += 1;
        faults.extend(row.faults(root).into_iter().map(|fault| format!("{}: {fault}", row.id)));
    }
    for id in ids() {
        match seen.remove(id.as_str()) {
            Some(1) => {}
            Some(times) => faults.push(format!("{id}: there are {times} rows")),
            None => faults.push(format!("{id}: there is no row")),
        }
    }
    faults.extend(seen.keys().map(|id| format!("{id}: there is no such demand")));
    faults
}

fn ids() -> impl Iterator<Item = String> {
    GROUPS
        .iter()
        .flat_map(|(group, count)| (1..=*count).map(move |number| format!("{group}{number}")))
}

/// A row of a table: `| id | demand | state | tests |`.
struct Row<'a> {
    id: &'a str,
    cells: Vec<&'a str>,
}

impl<'a> Row<'a> {
    /// None where the line is no row about a demand.
    fn read(line: &'a str) -> Option<Self> {
        let line = line.trim().strip_prefix('|')?.strip_suffix('|')?;
        let mut cells = line.split('|').map(str::trim);
        let id = cells.next()?;
        let starts = |(group, _): &(&str, usize)| {
            let rest = id.strip_prefix(group);
            rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        };
        GROUPS.iter().any(starts).then(|| Self { id, cells: cells.collect() })
    }

    fn faults(&self, root: &Path) -> Vec<String> {
        let &[demand, state, tests] = self.cells.as_slice() else {
            return vec![format!("4 cells are wanted, {} are there", self.cells.len() + 1)];
        };
        let mut faults = Vec::new();
        if demand.is_empty() {
            faults.push("the demand is not said".to_owned());
        }
        let says_why = |word: &str| {
            state.strip_prefix(word).is_some_and(|why| why.starts_with(": ") && why.len() > 2)
        };
        if state != "done" && !says_why("partly") && !says_why("not yet") {
            faults.push(format!(
                "the state is `done`, `partly: …` or `not yet: …`, and not `{state}`"
            ));
        }
        let tests: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() && !state.starts_with("not yet") {
            faults.push("no test shows it".to_owned());
        }
        faults.extend(tests.into_iter().filter_map(|test| missing(root, test)));
        faults
    }
}

/// Says why there is no such test; none where there is one.
fn missing(root: &Path, test: &str) -> Option<String> {
    let mut way = test.split("::");
    let package = way.next().unwrap_or_default();
    let mut modules: Vec<&str> = way.collect();
    let Some(function) = modules.pop() else {
        return Some(format!("`{test}` names no function"));
    };
    let found: Vec<Scope> = ["src/lib.rs", "src/main.rs", "tests/it/main.rs"]
        .iter()
        .filter_map(|file| Scope::of_file(&root.join(folder(package)).join(file), true))
        .filter_map(|scope| modules.iter().try_fold(scope, |scope, module| scope.module(module)))
        .collect();
    if found.is_empty() {
        return Some(format!("`{test}`: there is no such module"));
    }
    let kinds: Vec<Function> = found.iter().map(|scope| scope.function(function)).collect();
    match () {
        () if kinds.contains(&Function::Test) => None,
        () if kinds.contains(&Function::Ignored) => Some(format!("`{test}` is ignored")),
        () if kinds.contains(&Function::Other) => Some(format!("`{test}` is no test")),
        () => Some(format!("`{test}`: there is no such function")),
    }
}

/// Where a package is.
fn folder(package: &str) -> PathBuf {
    match package {
        "windlass" => "crates/engine".into(),
        "windlass-examples" => "examples".into(),
        other => match other.strip_prefix("windlass-") {
            Some(name) => Path::new("crates").join(name),
            None => other.into(),
        },
    }
}

/// What a name stands for in a module.
#[derive(Clone, Copy, PartialEq)]
enum Function {
    Test,
    Ignored,
    Other,
    Missing,
}

/// A module: its lines, and where the files of its modules are.
struct Scope {
    lines: Vec<String>,
    modules: PathBuf,
}

impl Scope {
    /// The modules of a crate's first file, and of a `mod.rs`, stand beside it;
    /// those of all others in a folder of their name.
    fn of_file(file: &Path, is_first: bool) -> Option<Self> {
        let text = std::fs::read_to_string(file).ok()?;
        let modules = match is_first || file.ends_with("mod.rs") {
            true => file.parent()?.to_owned(),
            false => file.with_extension(""),
        };
        Some(Self { lines: text.lines().map(str::to_owned).collect(), modules })
    }

    fn module(&self, name: &str) -> Option<Self> {
        for (at, line) in self.lines.iter().enumerate() {
            let item = without_visibility(line);
            if item == format!("mod {name};") {
                let file = self.modules.join(format!("{name}.rs"));
                let folder = self.modules.join(name).join("mod.rs");
                return Self::of_file(&file, false).or_else(|| Self::of_file(&folder, false));
            }
            if item == format!("mod {name} {{") {
                let lines = self.lines[at + 1..self.end_of(at)].to_vec();
                return Some(Self { lines, modules: self.modules.join(name) });
            }
        }
        None
    }

    /// The line that closes the block which this line opens; formatted code has it
    /// under the beginning of the block.
    fn end_of(&self, at: usize) -> usize {
        let indent = &self.lines[at][..self.lines[at].len() - self.lines[at].trim_start().len()];
        let end = format!("{indent}}}");
        let rest = self.lines[at..].iter().position(|line| *line == end);
        rest.map_or(self.lines.len(), |after| at + after)
    }

    /// Looks for a function, but not in modules within this one.
    fn function(&self, name: &str) -> Function {
        let mut at = 0;
        while let Some(line) = self.lines.get(at) {
            let item = without_visibility(line);
            if item.starts_with("mod ") && item.ends_with('{') {
                at = self.end_of(at);
            }
            let item = item.strip_prefix("async ").unwrap_or(item);
            let rest = item.strip_prefix("fn ").and_then(|item| item.strip_prefix(name));
            if rest.is_some_and(|rest| rest.starts_with('(')) {
                return self.kind(at);
            }
            at += 1;
        }
        Function::Missing
    }

    /// What the attributes above a function make of it.
    fn kind(&self, function: usize) -> Function {
        let above = self.lines[..function].iter().rev().map(|line| line.trim());
        let attributes: Vec<&str> =
            above.take_while(|line| !line.is_empty() && !line.ends_with(['{', '}', ';'])).collect();
        let has = |start: &str| attributes.iter().any(|line| line.starts_with(start));
        match () {
            () if !has("#[test]") && !has("#[tokio::test") => Function::Other,
            () if has("#[ignore") => Function::Ignored,
            () => Function::Test,
        }
    }
}

/// `pub(crate) mod x;` as `mod x;`.
fn without_visibility(line: &str) -> &str {
    let line = line.trim();
    match line.strip_prefix("pub") {
        Some(rest) => match rest.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
            Some((_, item)) => item,
            None => rest.strip_prefix(' ').unwrap_or(line),
        },
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace with tests wherever they may stand.
    fn workspace() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("crates/engine/src/lib.rs", "pub mod plan;\nmod stage;\n"),
            (
                "crates/engine/src/plan.rs",
                "fn helps() {}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    \
                 #[test]\n    fn inside() {}\n\n    proptest! {\n        /// Words.\n        \
                 #[test]\n        fn random(x in 0..5) {\n        }\n    }\n}\n",
            ),
            ("crates/engine/src/stage/mod.rs", "pub(crate) mod parse;\n"),
            ("crates/engine/src/stage/parse.rs", "#[cfg(test)]\nmod tests;\n"),
            ("crates/engine/src/stage/parse/tests.rs", "#[test]\nfn apart() {}\n"),
            ("crates/server/tests/it/main.rs", "mod http;\nmod mcp;\n// mod forgotten;\n"),
            ("crates/server/tests/it/http.rs", "mod quotas;\n"),
            (
                "crates/server/tests/it/http/quotas.rs",
                "#[tokio::test(start_paused = true)]\n#[expect(\n    dead_code,\n    \
                 reason = \"x\"\n)]\nasync fn counted() {}\n\n#[test]\n#[ignore = \"slow\"]\n\
                 fn later() {}\n\n// #[test]\n\nasync fn helper() {}\n",
            ),
            ("crates/server/tests/it/mcp/mod.rs", "#[test]\npub(crate) fn asked() {}\n"),
            ("crates/server/tests/it/forgotten.rs", "#[test]\nfn unheard() {}\n"),
        ] {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn tests_are_found_wherever_they_stand() {
        let root = workspace();
        for test in [
            "windlass::plan::tests::inside",
            "windlass::plan::tests::random",
            "windlass::stage::parse::tests::apart",
            "windlass-server::http::quotas::counted",
            "windlass-server::mcp::asked",
        ] {
            assert_eq!(missing(root.path(), test), None);
        }
    }

    #[test]
    fn what_is_no_test_is_told() {
        let root = workspace();
        for (test, why) in [
            ("windlass::plan::tests::insid", "no such function"),
            ("windlass::plan::inside", "no such function"),
            ("windlass::plan::helps", "is no test"),
            ("windlass::plans::tests::inside", "no such module"),
            ("windlass-server::http::quotas::helper", "is no test"),
            ("windlass-server::http::quotas::later", "is ignored"),
            ("windlass-server::http::counted", "no such function"),
            ("windlass-server::forgotten::unheard", "no such module"),
            ("windlass-nobody::counted", "no such module"),
            ("windlass", "names no function"),
        ] {
            let told = missing(root.path(), test).unwrap_or_default();
            assert!(told.contains(why), "{test}: {told:?} instead of {why}");
        }
    }

    /// A page on which nothing is wrong.
    fn page() -> String {
        let rows = ids().map(|id| format!("| {id} | It works. | not yet: some day |  |\n"));
        format!(
            "| id | demand | state | shown by |\n|---|---|---|---|\n{}",
            rows.collect::<String>()
        )
    }

    #[test]
    fn every_demand_has_one_row() {
        let root = workspace();
        assert_eq!(ids().count(), 109 + 19 + 15);
        assert_eq!(faults(&page(), root.path()), [""; 0]);
        let row = "| S3.7 | It works. | not yet: some day |  |\n";
        let without = page().replace(row, "");
        assert_eq!(faults(&without, root.path()), ["S3.7: there is no row"]);
        let twice = page() + row;
        assert_eq!(faults(&twice, root.path()), ["S3.7: there are 2 rows"]);
        let strange = page() + &row.replace("S3.7", "S3.30");
        assert_eq!(faults(&strange, root.path()), ["S3.30: there is no such demand"]);
    }

    #[test]
    fn a_row_says_its_state_and_names_tests() {
        let root = workspace();
        let with = |rest: &str| {
            let row = format!("| D4 | {rest} |");
            faults(&page().replace("| D4 | It works. | not yet: some day |  |", &row), root.path())
        };
        assert_eq!(with("It works. | done | `windlass::plan::tests::inside`"), [""; 0]);
        let both = "`windlass::plan::tests::inside`<br>`windlass::plan::tests::outside`";
        let told = with(&format!("It works. | partly: half of it | {both}"));
        assert_eq!(told, ["D4: `windlass::plan::tests::outside`: there is no such function"]);
        assert_eq!(with("It works. | done | "), ["D4: no test shows it"]);
        assert_eq!(with("It works. | partly: half | see there"), ["D4: no test shows it"]);
        for state in ["", "almost", "partly", "not yet:", "partly: "] {
            let told = with(&format!("It works. | {state} | `windlass::plan::tests::inside`"));
            assert!(told.len() == 1 && told[0].contains("the state is"), "{state}: {told:?}");
        }
        assert_eq!(
            with(" | done | `windlass::plan::tests::inside`"),
            ["D4: the demand is not said"]
        );
        assert_eq!(with("It works. | done"), ["D4: 4 cells are wanted, 3 are there"]);
    }
}
