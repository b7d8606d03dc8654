//! Ends the servers' processes where this one cannot any more.
//!
//! A process that is killed runs no code, so its children would live on. One
//! small shell, started with the first server, waits for the end of a pipe that
//! only this process holds, and then kills the groups that are still listed. It
//! costs a megabyte, needs no `unsafe`, and works for every program that embeds
//! this crate.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::LazyLock;

use parking_lot::Mutex;

/// Lines of `+ GROUP` and `- GROUP`; at the end, what is left is killed. Not every
/// shell takes `kill -9 -- -GROUP`.
const SCRIPT: &str = r#"
groups=""
while read -r sign group; do
  if [ "$sign" = + ]; then
    groups="$groups $group"
  else
    left=""
    for one in $groups; do [ "$one" = "$group" ] || left="$left $one"; done
    groups=$left
  fi
done
for one in $groups; do kill -s KILL -- "-$one" 2>/dev/null; done
"#;

static WATCHDOG: LazyLock<Mutex<Option<ChildStdin>>> = LazyLock::new(|| Mutex::new(start()));

/// Starts it, if it does not run yet.
pub(super) fn ready() {
    LazyLock::force(&WATCHDOG);
}

/// Has a group of processes ended with this one.
pub(super) fn watch(group: i32) {
    tell('+', group);
}

/// Forgets a group that has ended.
pub(super) fn forget(group: i32) {
    tell('-', group);
}

fn tell(sign: char, group: i32) {
    let mut watchdog = WATCHDOG.lock();
    let Some(pipe) = watchdog.as_mut() else { return };
    if let Err(error) = writeln!(pipe, "{sign} {group}") {
        tracing::warn!(%error, "servers may outlive this process if it is killed");
        *watchdog = None;
    }
}

fn start() -> Option<ChildStdin> {
    // In a group of its own, so that Ctrl-C on a terminal does not end it first.
    let started = Command::new("/bin/sh")
        .args(["-c", SCRIPT])
        .env_clear()
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
