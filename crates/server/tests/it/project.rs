//! A project folder to run the program in, and the result of a run.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder that is also the home, so that nothing outside of it is looked at.
pub(crate) struct Project {
    folder: TempDir,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Project {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// An empty folder whose path is of the same length on every machine.
    #[cfg(unix)]
    pub(crate) fn short() -> Self {
        Self { folder: tempfile::tempdir_in("/tmp").unwrap() }
    }

    /// What `windlass init` makes.
    pub(crate) fn new() -> Self {
        let project = Self::empty();
        project.ok(&["init"]);
        project
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.isolated(env!("CARGO_BIN_EXE_windlass"));
        command.args(args);
        command
    }

    /// A line as a person types it.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let mut command = self.isolated("sh");
        command.args(["-c", "windlass() { \"$0\" \"$@\"; }; eval \"$1\""]);
        command.args([env!("CARGO_BIN_EXE_windlass"), line]);
        command
    }

    /// Another program, which sees no more than this one.
    pub(crate) fn isolated(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("HOME", self.folder.path());
        let ours = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with("WINDLASS_"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| ours(name)) {
            command.env_remove(name);
        }
        command.env_remove("XDG_DATA_HOME");
        command.env("TZ", "UTC").stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.command(args).output().unwrap().into()
    }

    /// Runs with a text on stdin.
    pub(crate) fn pipe(&self, text: &str, args: &[&str]) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// Runs what must succeed, without a word on stderr, and returns stdout.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{args:?}: {ran:?}");
        ran.out
    }

    /// Runs what must succeed and print one JSON document.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let out = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}: {out}"))
    }
}

impl Ran {
    /// Asserts the code and parts of what was said on stderr.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, parts: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "no {part:?} in {self:?}");
        }
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
