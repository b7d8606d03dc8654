//! Watchdog: kills the servers' processes when this process dies without cleaning up.
//!
//! A process that gets `SIGKILL` runs no code, so its children would live on. One small
//! shell, started with the first server, waits for the end of a pipe that only this
//! process holds open. It then kills the process groups that are still registered, and
//! every process with one of their marks. It costs a megabyte of memory, needs no
//! `unsafe`, and works in every program that embeds this crate.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::LazyLock;

use parking_lot::Mutex;

use super::descendants::MARK;

/// Reads lines of `+ GROUP MARK` and `- GROUP MARK`; at the end of input, kills what is
/// registered. Not every shell supports `kill -9 -- -GROUP`. Processes with a mark may
/// fork meanwhile, so they are searched until none is left.
const SCRIPT: &str = r#"
left=""
while read -r sign group mark; do
  if [ "$sign" = + ]; then
    left="$left $group:$mark"
  else
    rest=""
    for one in $left; do [ "$one" = "$group:$mark" ] || rest="$rest $one"; done
    left=$rest
  fi
done
marks=""
for one in $left; do
  kill -s KILL -- "-${one%%:*}" 2>/dev/null
  marks="$marks -e $0=${one#*:}"
done
[ -n "$marks" ] || exit 0
for round in 1 2 3 4 5; do
  found=$(grep -ls $marks /proc/[0-9]*/environ 2>/dev/null)
  [ -n "$found" ] || exit 0
  for one in $found; do
    one=${one#/proc/}
    kill -s KILL "${one%/environ}" 2>/dev/null
  done
done
"#;

static WATCHDOG: LazyLock<Mutex<Option<ChildStdin>>> = LazyLock::new(|| Mutex::new(start()));

/// Starts the watchdog, if it is not running yet.
pub(super) fn ready() {
    LazyLock::force(&WATCHDOG);
}

/// Registers a process group and its mark.
pub(super) fn watch(group: i32, mark: &str) {
    tell('+', group, mark);
}

/// Removes a group that has ended.
pub(super) fn forget(group: i32, mark: &str) {
    tell('-', group, mark);
}

fn tell(sign: char, group: i32, mark: &str) {
    let mut watchdog = WATCHDOG.lock();
    let Some(pipe) = watchdog.as_mut() else { return };
    if let Err(error) = writeln!(pipe, "{sign} {group} {mark}") {
        tracing::warn!(%error, "servers may outlive this process if it is killed");
        *watchdog = None;
    }
}

fn start() -> Option<ChildStdin> {
    // In its own process group, so that Ctrl-C in a terminal does not kill it first.
    let started = Command::new("/bin/sh")
        .args(["-c", SCRIPT, MARK])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(mut shell) => shell.stdin.take(),
        Err(error) => {
            tracing::warn!(%error, "servers may outlive this process if it is killed");
            None
        }
    }
}
