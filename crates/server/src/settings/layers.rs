//! Layers of configuration: the file, then environment variables, then flags. Each
//! overrides the one before, and the origin of every value is remembered.

use std::collections::HashMap;
use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use super::file;
use super::raw::Raw;
use super::table::{self, ROWS, SettingRow};
use super::value::{SettingInput, WrittenValue};
use crate::cli::exit::Failure;
use crate::cli::output::nearest;
use crate::state::vault::MASTER_KEY;

/// Variables that are ours and no settings: secrets of calls, and tests.
const OTHERS: [&str; 3] = ["WINDLASS_SECRET_", "WINDLASS_TEST_", "WINDLASS_CHAOS_"];

/// A flag that was given, and its values.
pub(crate) type Flag = (&'static str, Vec<String>);

/// Where a value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SettingOrigin {
    #[default]
    Default,
    File(PathBuf, usize),
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "env {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// The merged layers.
#[derive(Default)]
pub(super) struct Layers {
    pub(super) raw: Raw,
    origins: HashMap<&'static str, SettingOrigin>,
    pub(super) warnings: Vec<String>,
}

impl Layers {
    /// Reads all of them, and reports all errors at once.
    pub(super) fn read(file: Option<&Path>, root: &Path, flags: &[Flag]) -> Result<Self, Failure> {
        let mut layers = Self::default();
        let mut faults = Vec::new();
        let mut hint = None;
        if let Some(path) = file {
            let text = file::text(path)?;
            let faults_before = faults.len();
            layers.apply_file(path, &text, root, &mut faults);
            hint = (faults.len() > faults_before).then_some(file::HINT);
        }
        for row in ROWS {
            // The variable derived from the setting's name comes last and wins.
            for name in row.short_variable.map(str::to_owned).into_iter().chain([row.variable()]) {
                if let Some(value) = variable(&name) {
                    faults.extend(layers.apply_variable(row, name, &value).err());
                }
            }
        }
        for (flag, values) in flags {
            faults.extend(layers.apply_flag(flag, values).err());
        }
        layers.warnings = unknown_variables();
        match (faults.is_empty(), hint) {
            (true, _) => Ok(layers),
            (false, None) => Err(Failure::usage(faults.join("\n"))),
            (false, Some(hint)) => Err(Failure::usage(faults.join("\n")).hint(hint)),
        }
    }

    /// What flags alone say.
    pub(super) fn of_flags(flags: &[Flag]) -> Result<Self, Failure> {
        let mut layers = Self::default();
        let faults: Vec<String> = flags
            .iter()
            .filter_map(|(flag, values)| layers.apply_flag(flag, values).err())
            .collect();
        match faults.is_empty() {
            true => Ok(layers),
            false => Err(Failure::usage(faults.join("\n"))),
        }
    }

    /// Where the value of a setting came from.
    pub(super) fn origin(&self, name: &str) -> SettingOrigin {
        self.origins.get(name).cloned().unwrap_or_default()
    }

    fn apply_file(&mut self, path: &Path, text: &str, root: &Path, faults: &mut Vec<String>) {
        let read = file::apply(text, root, &mut self.raw);
        for (row, line) in read.set {
            self.origins.insert(row.name, SettingOrigin::File(path.to_owned(), line));
        }
        let place = path.display();
        faults.extend(
            read.faults.iter().map(|fault| format!("{place}:{}: {}", fault.line, fault.why)),
        );
    }

    fn apply_variable(
        &mut self,
        row: &'static SettingRow,
        name: String,
        value: &str,
    ) -> Result<(), String> {
        let several: Vec<String>;
        let said = if row.is_paths {
            let paths =
                env::split_paths(value).filter_map(|path| path.into_os_string().into_string().ok());
            several = paths.collect();
            WrittenValue::Several(&several)
        } else {
            WrittenValue::One(value)
        };
        let given = SettingInput { name: &name, said, base: Path::new(""), least: row.least };
        (row.set)(&mut self.raw, &given)?;
        self.origins.insert(row.name, SettingOrigin::Variable(name));
        Ok(())
    }

    fn apply_flag(&mut self, flag: &'static str, values: &[String]) -> Result<(), String> {
        let Some(row) = ROWS.iter().find(|row| row.flag == Some(flag)) else {
            return Err(format!("{flag} is no setting"));
        };
        let said = match values {
            [one] if !row.is_paths => WrittenValue::One(one),
            several => WrittenValue::Several(several),
        };
        let given = SettingInput { name: flag, said, base: Path::new(""), least: row.least };
        (row.set)(&mut self.raw, &given)?;
        self.origins.insert(row.name, SettingOrigin::Flag(flag));
        Ok(())
    }
}

/// A variable of the environment; an empty one is as good as none.
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Variables that look like ours and are not.
fn unknown_variables() -> Vec<String> {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut unknown: Vec<String> = names.filter_map(|name| unknown_variable(&name)).collect();
    unknown.sort_unstable();
    unknown
}

fn unknown_variable(name: &str) -> Option<String> {
    if !name.starts_with("WINDLASS_") || OTHERS.iter().any(|ours| name.starts_with(ours)) {
        return None;
    }
    let own = ROWS.iter().map(SettingRow::variable);
    let short = ROWS.iter().filter_map(|row| row.short_variable.map(str::to_owned));
    let known: Vec<String> = own.chain(short).chain([MASTER_KEY.to_owned()]).collect();
    if known.iter().any(|known| known == name) {
        return None;
    }
    // The common prefix is ignored when names are compared.
    let rest = |name: &'_ str| name.trim_start_matches("WINDLASS_").to_owned();
    let rests: Vec<String> = known.iter().map(|known| rest(known)).collect();
    Some(match nearest(&rest(name), rests.iter().map(String::as_str)) {
        Some(near) => format!("{name} is no setting; did you mean WINDLASS_{near}?"),
        None => format!("{name} is no setting; `windlass config` lists them"),
    })
}

/// The setting of this name, or what to say.
pub(super) fn row_named(name: &str) -> Result<&'static SettingRow, Failure> {
    table::find(name).ok_or_else(|| {
        let failure =
            Failure::new(crate::cli::exit::Exit::NotFound, format!("there is no setting `{name}`"));
        let names = || ROWS.iter().map(|row| row.name);
        // Also suggests the key with its section.
        let alone = ROWS.iter().find(|row| row.key() == name).map(|row| row.name);
        failure.hint(match alone.or_else(|| nearest(name, names())) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`windlass config` lists them".to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_nobody_reads_are_noticed() {
        for known in [
            "WINDLASS_MAX_CONCURRENT",
            "WINDLASS_LOG",
            "WINDLASS_MASTER_KEY",
            "HOME",
            "WINDLASS_SECRET_X",
        ] {
            assert_eq!(unknown_variable(known), None);
        }
        for (name, part) in [
            ("WINDLASS_MAX_CONCURENT", "did you mean WINDLASS_MAX_CONCURRENT?"),
            ("WINDLASS_LISTN", "did you mean WINDLASS_LISTEN?"),
            ("WINDLASS_ZZZ", "lists them"),
        ] {
            let said = unknown_variable(name).unwrap();
            assert!(said.contains(part), "{said}");
        }
    }
}
