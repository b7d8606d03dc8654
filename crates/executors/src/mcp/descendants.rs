//! Finds and kills every process that a server has started, by a mark in its environment.
//!
//! A process that calls `setsid` leaves its process group, and signals to the group no
//! longer reach it. It normally keeps its environment, though, and that holds a random
//! mark that is unique to the server. Without `/proc` the environment cannot be read, and
//! only the process group is killed.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The environment variable that holds the mark.
pub(super) const MARK: &str = "WINDLASS_CHILD";

/// Passes over `/proc`: a process may fork while it is looked for.
const ROUNDS: usize = 5;

/// A new random mark.
pub(super) fn new_mark() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// Kills all processes with this mark.
pub(super) fn kill(mark: &str) {
    let wanted = format!("{MARK}={mark}");
    for _ in 0..ROUNDS {
        let found = carriers(&wanted);
        if found.is_empty() {
            return;
        }
        for process in found {
            // It may have exited already, which is fine.
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// The processes with this variable in their environment. Zombies have none any more and
/// are left out.
fn carriers(wanted: &str) -> Vec<Pid> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let carries = |id: &i32| {
        let known = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        known.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    ids.filter(carries).filter_map(Pid::from_raw).collect()
}
