//! Finds what a server has started, wherever it has gone.
//!
//! A process can leave its group by beginning a session of its own, and then no
//! signal to the group reaches it. It keeps its environment, though, as a rule,
//! and in there is a mark that no other server's processes have. Where `/proc` is
//! missing there is nothing to look at, and only the group is ended.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The variable that holds the mark.
pub(super) const MARK: &str = "WINDLASS_CHILD";

/// Whoever is found may be starting another just now.
const ROUNDS: usize = 5;

/// A mark that nobody has yet.
pub(super) fn new_mark() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// Kills all processes that carry a mark.
pub(super) fn kill(mark: &str) {
    let wanted = format!("{MARK}={mark}");
    for _ in 0..ROUNDS {
        let found = carriers(&wanted);
        if found.is_empty() {
            return;
        }
        for process in found {
            // That it is gone is what we want.
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// The processes with a variable, but for those that have ended and wait to be
/// taken off the list: they have no environment any more.
fn carriers(wanted: &str) -> Vec<Pid> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let carries = |id: &i32| {
        let known = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        known.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    ids.filter(carries).filter_map(Pid::from_raw).collect()
}
