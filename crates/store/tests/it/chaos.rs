//! Chaos test: a process under load is killed again and again. Whatever it acknowledged
//! is in the store, no side effect happens twice, and the calls that it left behind are
//! closed when the next one starts. Side effects are counted by a process that is not
//! killed: this one.
//!
//! `cargo xtask chaos` runs it for longer: see [`Plan`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::json;
use windlass::{Behaviour, CallId, CallRequest, Engine, ErrorKind, ToolBuilder, tool};
use windlass_store::SqliteStore;

/// Set in the process that is going to be killed.
const FILE: &str = "WINDLASS_TEST_CHAOS_FILE";
const COUNTER: &str = "WINDLASS_TEST_CHAOS_COUNTER";
const RESEND: &str = "WINDLASS_TEST_CHAOS_RESEND";
/// Calls that run at once.
const CALLERS: usize = 16;
/// How soon after its start a process must have closed what the last one left.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// How often and how long: `WINDLASS_CHAOS_KILLS`, `WINDLASS_CHAOS_SECONDS`.
struct Plan {
    kills: u32,
    time: Duration,
    /// Whether somebody watches.
    loud: bool,
}

impl Plan {
    fn read() -> Self {
        let number = |name| std::env::var(name).ok().map(|text| text.parse::<u32>().unwrap());
        let kills = number("WINDLASS_CHAOS_KILLS");
        Self {
            kills: kills.unwrap_or(10).max(1),
            time: Duration::from_secs(number("WINDLASS_CHAOS_SECONDS").unwrap_or(4).into()),
            loud: kills.is_some(),
        }
    }
}

#[test]
fn a_process_that_is_killed_loses_nothing_and_repeats_nothing() {
    if let Some(path) = std::env::var_os(FILE) {
        return work_until_killed(Path::new(&path));
    }
    let plan = Plan::read();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let counter = Counter::start();
    let mut seen = Seen::default();
    for round in 1..=plan.kills {
        let life = plan.time / plan.kills * random(20, 180) / 100;
        seen.live_and_die(&path, &counter, life);
        if plan.loud {
            eprintln!(
                "kill {round:>4} of {}: {:>6} acknowledged, {:>6} effects, slowest start {:?}",
                plan.kills,
                seen.acknowledged.len(),
                counter.effects().len(),
                seen.slowest_start
            );
        }
    }
    // The last one starts only to close what is left.
    seen.live_and_die(&path, &counter, Duration::from_millis(100));
    let interrupted = seen.check(&path, &counter);
    let calls = seen.acknowledged.len();
    assert!(calls > plan.kills as usize, "only {calls} calls were acknowledged");
    if plan.loud {
        eprintln!(
            "{} kills, {calls} acknowledged, 0 lost; {} effects, 0 twice; {interrupted} \
             interrupted, closed within {:?}; the database is intact",
            plan.kills,
            counter.effects().len(),
            seen.slowest_start
        );
    }
}

/// What the processes said before they were killed.
#[derive(Default)]
struct Seen {
    acknowledged: HashMap<CallId, String>,
    /// Keys that were sent and not acknowledged yet.
    unanswered: HashSet<String>,
    /// Calls that were seen to be closed.
    closed: HashSet<CallId>,
    slowest_start: Duration,
}

impl Seen {
    fn live_and_die(&mut self, path: &Path, counter: &Counter, life: Duration) {
        // Picked out before the clock starts: how many there ever were is not
        // what a start is measured by.
        let effects = counter.effects();
        let left: Vec<CallId> =
            effects.into_keys().filter(|id| !self.closed.contains(id)).collect();
        let start = Instant::now();
        let mut child = self.spawn(path, counter);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The first line says that the store is open.
        let first = lines.find_map(|line| line.unwrap().contains("ready").then_some(()));
        assert!(first.is_some(), "the process did not start");
        self.everything_is_closed(path, left, start);
        let reader = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
        std::thread::sleep(life);
        child.kill().unwrap();
        child.wait().unwrap();
        reader.join().unwrap().iter().for_each(|line| self.hear(line));
    }

    fn spawn(&self, path: &Path, counter: &Counter) -> Child {
        let keys: Vec<&str> = self.unanswered.iter().map(String::as_str).collect();
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("chaos::a_process_that_is_killed_loses_nothing_and_repeats_nothing")
            .env(FILE, path)
            .env(COUNTER, counter.port.to_string())
            .env(RESEND, keys.join(","))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["sent", key] => {
                self.unanswered.insert(key.to_owned());
            }
            ["ack", id, end, key] => {
                self.unanswered.remove(key);
                self.acknowledged.insert(id.parse().unwrap(), end.to_owned());
            }
            // The line that was being written when the process died.
            _ => {}
        }
    }

    /// Every call that took effect in an earlier life has its record.
    fn everything_is_closed(&mut self, path: &Path, left: Vec<CallId>, start: Instant) {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        for id in &left {
            assert!(record(&connection, *id).is_some(), "call {id} was not closed at the start");
        }
        let took = start.elapsed();
        self.closed.extend(left);
        assert!(took < CLOSED_WITHIN, "{took:?}");
        self.slowest_start = self.slowest_start.max(took);
    }

    /// Returns how many calls were interrupted.
    fn check(&self, path: &Path, counter: &Counter) -> usize {
        let connection = Connection::open(path).unwrap();
        let whole: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok");
        for (id, end) in &self.acknowledged {
            let found = record(&connection, *id);
            assert_eq!(found.as_deref(), Some(end.as_str()), "acknowledged call {id}");
        }
        let mut by_key: BTreeMap<String, u32> = BTreeMap::new();
        for (id, (key, times)) in counter.effects() {
            assert_eq!(times, 1, "call {id} took effect {times} times");
            *by_key.entry(key).or_default() += 1;
        }
        by_key.remove("-");
        let twice: Vec<_> = by_key.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "keys with more than one effect: {twice:?}");
        let count = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        let counted = count("SELECT sum(count) FROM call_stats");
        assert_eq!(counted, count("SELECT count(*) FROM calls"), "statistics agree with the rows");
        usize::try_from(count("SELECT count(*) FROM calls WHERE status = 5")).unwrap()
    }
}

/// How a call ended, as its row says.
fn record(connection: &Connection, id: CallId) -> Option<String> {
    let mut statement = connection
        .prepare_cached("SELECT status FROM calls WHERE tenant = 'default' AND id = ?")
        .unwrap();
    let status: i64 = statement.query_row([id.uuid().as_bytes()], |row| row.get(0)).ok()?;
    let ends = ["succeeded", "failed", "refused", "timed_out", "cancelled", "interrupted"];
    Some(ends[usize::try_from(status).unwrap()].to_owned())
}

/// The outside world: counts the effects of each call.
struct Counter {
    port: u16,
    effects: Arc<Mutex<Effects>>,
}

/// The key of each call that took effect, and how often it did.
type Effects = HashMap<CallId, (String, u32)>;

impl Counter {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let effects: Arc<Mutex<Effects>> = Arc::default();
        let counted = Arc::clone(&effects);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut line = String::new();
                let Ok(_) = BufReader::new(&stream).read_line(&mut line) else { continue };
                let Some((id, key)) = line.trim_end().split_once(' ') else { continue };
                let Ok(id) = id.parse() else { continue };
                let mut counted = counted.lock().unwrap();
                counted.entry(id).or_insert((key.to_owned(), 0)).1 += 1;
                // Whoever was killed meanwhile does not hear it.
                let _ = (&stream).write_all(b"done\n");
            }
        });
        Self { port, effects }
    }

    fn effects(&self) -> Effects {
        self.effects.lock().unwrap().clone()
    }
}

/// Tells the counter.
#[tool]
fn take_effect(id: CallId, key: String) -> Result<String, String> {
    std::thread::sleep(Duration::from_millis(u64::from(random(0, 5))));
    let port = std::env::var(COUNTER).map_err(|error| error.to_string())?;
    let told = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap_or_default()))?;
        writeln!(stream, "{id} {key}")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = told().map_err(|error| error.to_string())?;
    std::thread::sleep(Duration::from_millis(u64::from(random(0, 5))));
    Ok(answer)
}

/// The process that is killed.
fn work_until_killed(path: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let look = ToolBuilder::from_fn("look", |_: serde_json::Value| async { "seen" });
        let engine = Engine::builder()
            .tool(take_effect::tool())
            .tool(look.behaviour(Behaviour::READ_ONLY))
            .store(SqliteStore::open(path).unwrap())
            .settings(|settings| settings.limits.max_concurrent = CALLERS)
            .build()
            .unwrap();
        println!("ready");
        let resend = std::env::var(RESEND).unwrap_or_default();
        let resend = Arc::new(Mutex::new(
            resend.split(',').filter(|key| !key.is_empty()).map(str::to_owned).collect::<Vec<_>>(),
        ));
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| tokio::spawn(call_for_ever(engine.clone(), Arc::clone(&resend))))
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
    });
}

async fn call_for_ever(engine: Engine, resend: Arc<Mutex<Vec<String>>>) {
    static SENT: AtomicU64 = AtomicU64::new(0);
    loop {
        let again = resend.lock().unwrap().pop();
        match (again, random(0, 4)) {
            (Some(key), _) => keyed(&engine, &key).await,
            (None, 0) => {
                let number = SENT.fetch_add(1, Ordering::Relaxed);
                let key = format!("key-{}-{number}", std::process::id());
                println!("sent {key}");
                keyed(&engine, &key).await;
            }
            (None, 1) => {
                let calls = (0..3).map(|_| CallRequest::new("take_effect", json!({"key": "-"})));
                for result in engine.call_batch(calls).await {
                    acknowledge(&result, "-");
                }
            }
            (None, 2) => {
                engine.call(CallRequest::new("look", json!({}))).await;
            }
            (None, _) => {
                let request = CallRequest::new("take_effect", json!({"key": "-"}));
                acknowledge(&engine.call(request).await, "-");
            }
        }
    }
}

async fn keyed(engine: &Engine, key: &str) {
    let request = CallRequest::new("take_effect", json!({"key": key})).idempotency_key(key);
    acknowledge(&engine.call(request).await, key);
}

/// What was said to the caller must be what the store says for ever.
fn acknowledge(result: &windlass::CallResult, key: &str) {
    let end = match result.error().map(windlass::Error::kind) {
        None => "succeeded",
        Some(ErrorKind::Interrupted) => "interrupted",
        Some(kind) => panic!("{kind}: {result:?}"),
    };
    println!("ack {} {end} {key}", result.id);
}

/// A number from `low` to below `high`.
fn random(low: u32, high: u32) -> u32 {
    use std::hash::{BuildHasher, RandomState};
    low + (RandomState::new().hash_one(()) % u64::from(high - low)) as u32
}
