//! Child processes: their environment, and that none is left behind.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;
use windlass::{CallRequest, CancellationToken};

use super::Rig;
use super::played::server;

/// The processes below this one that play a server, or were started by one.
fn children() -> BTreeSet<u32> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let mut words = rest.split(' ');
        let (state, parent, group) = (words.next(), words.next(), words.next());
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<u32>().ok());
        parents.push((id, state == Some("Z"), number(parent), number(group)));
    }
    let own = std::process::id();
    // Groups of servers: each is led by a child of this process.
    let leaders: BTreeSet<u32> = (parents.iter())
        .filter(|(id, _, parent, group)| *parent == Some(own) && *group == Some(*id))
        .filter(|(id, ..)| {
            let line = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
            !line.starts_with("/bin/sh")
        })
        .map(|(id, ..)| *id)
        .collect();
    (parents.iter())
        .filter(|(_, _, _, group)| group.is_some_and(|group| leaders.contains(&group)))
        .map(|(id, ..)| *id)
        .collect()
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_knows_what_it_was_told_and_nothing_else() {
    let rig = Rig::new(&[("s", server("old"))]).await;
    let known = rig.call("s/environment", json!({})).await.output().unwrap().to_text();
    let known: Vec<&str> = known.split(',').collect();
    assert!(known.contains(&"WINDLASS_TEST_PLAY") && known.contains(&"PATH"), "{known:?}");
    // What cargo tells a test is of no use to a server, but for where its files are.
    let is_cargos = |name: &&str| name.starts_with("CARGO") && *name != "CARGO_HOME";
    assert!(!known.iter().any(is_cargos), "{known:?}");
}

/// Set for a test that counts, and so has to be alone in its process.
const ALONE: &str = "WINDLASS_TEST_ALONE";

/// How many rounds to play: few by default, 200 where somebody has the time.
const ROUNDS: &str = "WINDLASS_TEST_ROUNDS";

#[test]
fn no_process_and_no_file_is_left_behind() {
    let this = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(this);
    command.args(["--exact", "mcp::processes::rounds", "--nocapture"]).env(ALONE, "1");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let rounds = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok());
    let rounds: usize = rounds.unwrap_or(12);
    // Once before counting: the watchdog, and what the runtime keeps.
    Rig::new(&[("s", server("child"))]).await.servers.stop().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (files, before) = (open_files(), children());
    for round in 0..rounds {
        let rig = Rig::new(&[("s", server("child+stubborn"))]).await;
        match round % 4 {
            // Ends in order.
            0 => rig.servers.stop().await,
            // Dropped in the middle of a call.
            1 => {
                let request = CallRequest::new("s/never", json!({}));
                let call = rig.engine.call(request.timeout(Duration::from_millis(50)));
                assert!(!call.await.is_success());
                drop(rig);
            }
            // Cancelled, then dropped.
            2 => {
                let token = CancellationToken::new();
                let request = CallRequest::new("s/never", json!({})).cancel_token(token.clone());
                let call = rig.engine.call(request);
                token.cancel();
                assert!(!call.await.is_success());
                rig.servers.stop().await;
            }
            // Killed from outside.
            _ => {
                assert!(!rig.call("s/crash", json!({})).await.is_success());
                rig.servers.stop().await;
            }
        }
    }
    let start = Instant::now();
    while (children() != before || open_files() > files)
        && start.elapsed() < Duration::from_secs(15)
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(children(), before, "after {rounds} rounds");
    assert!(open_files() <= files, "{} files were open, now {}", files, open_files());
}

/// Marks a process and whatever it starts, so that they are found again.
const MARK: &str = "WINDLASS_TEST_MARK";

/// The processes that carry a mark.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let carries = |id: &u32| {
        let known = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        known.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    ids.filter(carries).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_left_its_group_ends_with_its_server() {
    for crashes in [true, false] {
        let mark = format!("{}-{:?}", std::process::id(), Instant::now());
        let mut own = server("child+stray");
        own["env"][MARK] = json!(mark);
        let rig = Rig::new(&[("s", own)]).await;
        // A child that has not yet become `sleep` may not be seen for a moment.
        let (start, mut first) = (Instant::now(), marked(&mark));
        while first.len() < 3 && start.elapsed() < Duration::from_secs(10) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            first = marked(&mark);
        }
        assert_eq!(first.len(), 3, "the server, its child and the one that left");
        match crashes {
            true => assert!(!rig.call("s/crash", json!({})).await.is_success()),
            false => rig.servers.stop().await,
        }
        // One that has crashed may have been started again.
        let left = || marked(&mark).into_iter().filter(|id| first.contains(id)).count();
        let start = Instant::now();
        while left() > 0 {
            assert!(start.elapsed() < Duration::from_secs(10), "{crashes}: {} are left", left());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[test]
fn nobody_outlives_a_process_that_is_killed() {
    let this = std::env::current_exe().unwrap();
    let rounds = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok());
    let rounds: u64 = rounds.unwrap_or(12);
    let mark = format!("{}-{:?}", std::process::id(), Instant::now());
    let mut ready = 0;
    for round in 0..rounds {
        let mut command = std::process::Command::new(&this);
        command.args(["--exact", "mcp::processes::victim", "--nocapture"]);
        command.env(ALONE, &mark).stdout(std::process::Stdio::null());
        let mut victim = command.stderr(std::process::Stdio::null()).spawn().unwrap();
        // At every moment of a start, and of the time after it.
        std::thread::sleep(Duration::from_millis(round * 37 % 400));
        ready += usize::from(marked(&mark).len() >= 2);
        victim.kill().unwrap();
        victim.wait().unwrap();
    }
    let start = Instant::now();
    while !marked(&mark).is_empty() && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(marked(&mark), [] as [u32; 0], "after {rounds} rounds");
    assert!(ready > 0, "no server was ever started");
}

#[tokio::test(flavor = "multi_thread")]
async fn victim() {
    let Ok(mark) = std::env::var(ALONE) else { return };
    let mut marked = server("child+stray+stubborn");
    marked["env"][MARK] = json!(mark);
    let _rig = Rig::new(&[("s", marked)]).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
}
