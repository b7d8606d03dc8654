//! Where records are kept: a SQLite file, PostgreSQL, or memory.

use std::env;
use std::path::{Path, PathBuf};

use super::layers::variable;
use crate::cli::exit::Failure;

/// The database of a project, below its root.
const IN_PROJECT: &str = ".windlass/windlass.db";
/// The database where there is no project, below the user's data.
const IN_DATA: &str = "windlass/windlass.db";

/// Where records are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseLocation {
    /// Only while the program runs.
    Memory,
    /// In a SQLite file.
    File(PathBuf),
    /// In a PostgreSQL database. Boxed, because files are the rule.
    #[cfg(feature = "postgres")]
    Postgres(Box<windlass_store::PostgresUrl>),
}

impl DatabaseLocation {
    /// The default location of records.
    pub(super) fn default_for(root: Option<&Path>) -> Result<Self, Failure> {
        if let Some(root) = root {
            return Ok(Self::File(root.join(IN_PROJECT)));
        }
        data_home().map(|folder| Self::File(folder.join(IN_DATA))).ok_or_else(|| {
            Failure::usage("there is no home folder to keep the database in")
                .hint("name a file with --database PATH, or `:memory:` for none")
        })
    }

    /// `postgres://…`, `sqlite:PATH`, a path, or `:memory:`. Paths begin at
    /// `base`. Errors do not repeat the text, which may hold a password.
    pub(super) fn parse(text: &str, base: &Path) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            return match path.strip_prefix("//").unwrap_or(path) {
                "" => Err("`sqlite:` names no file; write sqlite:PATH".to_owned()),
                path => Ok(Self::file(path, base)),
            };
        }
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => postgres(text),
            Some((scheme, _)) if is_scheme(scheme) => Err(format!(
                "unknown kind of database `{scheme}`; write postgres://USER@HOST/DATABASE, sqlite:PATH or a path"
            )),
            _ => Ok(Self::file(text, base)),
        }
    }

    fn file(path: &str, base: &Path) -> Self {
        match path {
            ":memory:" => Self::Memory,
            path => Self::File(base.join(path)),
        }
    }

    /// The place in words, without a password.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Memory => "in memory, forgotten at the end".to_owned(),
            Self::File(path) => path.display().to_string(),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => url.to_string(),
        }
    }
}

#[cfg(feature = "postgres")]
fn postgres(url: &str) -> Result<DatabaseLocation, String> {
    match url.parse() {
        Ok(url) => Ok(DatabaseLocation::Postgres(Box::new(url))),
        Err(error) => Err(windlass::Error::message(&error).to_owned()),
    }
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &str) -> Result<DatabaseLocation, String> {
    Err("this windlass was built without PostgreSQL; build it with `--features postgres`"
        .to_owned())
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// The user's folder for data of programs, as the XDG standard has it.
fn data_home() -> Option<PathBuf> {
    variable("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| env::home_dir().map(|home| home.join(".local/share")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match DatabaseLocation::parse(text, Path::new("base")) {
            Ok(database) => database.describe(),
            Err(why) => format!("refused: {why}"),
        }
    }

    #[test]
    fn every_form_is_understood() {
        for (text, wanted) in [
            ("a.db", "base/a.db"),
            ("/x/a.db", "/x/a.db"),
            ("sqlite:a.db", "base/a.db"),
            ("sqlite:///x/a.db", "/x/a.db"),
            ("sqlite:/x/a.db", "/x/a.db"),
            (":memory:", "in memory, forgotten at the end"),
            ("sqlite::memory:", "in memory, forgotten at the end"),
            ("odd:name.db", "base/odd:name.db"),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
        assert!(
            shown("mysql://ada:hunter2@h/d")
                .starts_with("refused: unknown kind of database `mysql`")
        );
        assert!(shown("sqlite:").starts_with("refused: `sqlite:` names no file"));
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_password_is_not_shown() {
        assert_eq!(shown("postgres://ada:hunter2@h/d"), "postgres://h/d");
        assert_eq!(shown("postgresql://ada:hunter2@h:7/d"), "postgres://h:7/d");
        let refused = shown("postgres://ada:p@hunter2@h/d");
        assert!(refused.contains("percent-encoded") && !refused.contains("hunter2"), "{refused}");
    }
}
