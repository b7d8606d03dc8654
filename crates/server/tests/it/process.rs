//! The program as a process: broken pipes, signals, kills.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::project::Project;

#[test]
fn a_closed_pipe_is_no_failure() {
    let project = Project::empty();
    project.write("long.txt", &"line\n".repeat(18_000));
    for args in [
        &["tools", "--json"][..],
        &["completion", "zsh"],
        &["call", "echo", "message=@long.txt"],
        &["tools", "--format", "mcp"],
    ] {
        let mut command = project.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Closed before the program has written anything.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && err.is_empty(), "{args:?}: {err}");
    }
}

/// Set for a test that runs itself to become the program.
#[cfg(unix)]
const BECOME: &str = "WINDLASS_TEST_BECOME";

/// Becomes the program, which an interrupt ends. A shell that runs tests in the
/// background lets all that they start ignore interrupts; but a signal that a
/// process listens to is back at its default in whatever the process becomes.
#[cfg(unix)]
fn become_program(args: &[&str]) {
    use std::os::unix::process::CommandExt;
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _heard = runtime.block_on(async { signal(SignalKind::interrupt()) }).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    panic!("{}", command.args(args).env_remove(BECOME).exec());
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_program_that_waits_for_stdin() {
    use std::os::unix::process::ExitStatusExt;
    if std::env::var_os(BECOME).is_some() {
        become_program(&["call", "echo", "-"]);
    }
    let project = Project::new();
    let mut command = project.isolated(std::env::current_exe().unwrap());
    command.args(["--exact", "process::an_interrupt_ends_a_program_that_waits_for_stdin"]);
    command.env(BECOME, "1");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The database is opened before the arguments are read.
    let opened = (0..2000).any(|_| {
        sleep(Duration::from_millis(5));
        project.path(".windlass/windlass.db").exists()
    });
    assert!(opened);
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(2), "{status:?}");
    assert!(project.run(&["calls"]).err.contains("no such calls"), "no call was begun");
}

#[cfg(unix)]
#[test]
fn an_interrupt_cancels_a_running_call_and_records_it() {
    let project = Project::new();
    let mut command = project.command(&["call", "wait", "seconds=60", "--timeout", "2m"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // Long enough for the call to begin, also on a slow machine.
    sleep(Duration::from_millis(1500));
    let start = Instant::now();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{status:?}");
    assert!(start.elapsed() < Duration::from_secs(10), "the call was stopped, not waited for");
    let record = &project.json(&["calls"])["records"][0];
    assert_eq!((&record["tool_name"], &record["status"]), (&"wait".into(), &"cancelled".into()));
}

#[test]
fn a_timeout_stops_a_call_and_has_its_own_code() {
    let project = Project::new();
    let start = Instant::now();
    let ran = project.run(&["call", "wait", "seconds=60", "--timeout", "200ms"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.err.contains("timed out after 200ms"), "{}", ran.err);
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(project.json(&["calls"])["records"][0]["status"], "timed_out");
}

#[test]
fn a_kill_at_any_moment_leaves_a_usable_database() {
    let project = Project::new();
    let mut acknowledged = 0;
    for millis in (0..60).step_by(5) {
        let mut command = project.command(&["call", "echo", "message=kept"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(millis));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        acknowledged += usize::from(out == "kept\n");
    }
    project.ok(&["call", "echo", "message=after"]);
    let page = project.json(&["calls", "--limit", "100"]);
    let records = page["records"].as_array().unwrap();
    assert_eq!(records[0]["params"]["message"], "after");
    // A result is printed only once its record is kept.
    assert!(records.len() > acknowledged, "{acknowledged} acknowledged, {} kept", records.len());
    assert_eq!(project.json(&["stats"])["total"]["calls"], records.len());
}

#[test]
fn several_programs_share_a_database() {
    let project = Project::new();
    let children: Vec<_> = (0..8)
        .map(|_| project.command(&["call", "hello"]).stdout(Stdio::null()).spawn().unwrap())
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(project.json(&["stats"])["total"]["calls"], 8);
}
