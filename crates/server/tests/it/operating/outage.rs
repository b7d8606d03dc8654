//! Outages of the database: side effects are refused, reads go on, and health checks and
//! the exit status report it.

use std::fs;
use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::server::{Answer, SLOW, start};
use crate::http::{Server, until};
use crate::postgres::Database;
use crate::project::Project;

const WRITE: &str = r#"{"tool": "slow", "arguments": {"seconds": 0}}"#;
const READ: &str = r#"{"tool": "echo", "arguments": {"message": "hello"}}"#;

fn database(server: &Server) -> PathBuf {
    server.project.path(".windlass/windlass.db")
}

fn ready(server: &Server) -> Answer {
    server.send("GET", "/readyz", &[], "")
}

/// An effect is refused, and the server says that it is not ready and why; what
/// only reads goes on.
#[track_caller]
fn is_out(server: &Server, why: &str) {
    let refused = server.call(&[], WRITE);
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("storage_unavailable")));
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    let told = until("probes say so", || Some(ready(server)).filter(|it| it.status == 503));
    assert!(told.headers.contains_key("retry-after"), "{told:?}");
    let health = told.json();
    assert_eq!(health["status"], "database unavailable");
    let reason = health["reason"].as_str().unwrap();
    assert!(reason.contains(why) && !reason.contains('/'), "{reason}");
    let metrics = server.send("GET", "/metrics", &[], "").body;
    assert!(metrics.contains("windlass_database_writable 0\n"), "{metrics}");
    assert_eq!(server.call(&[], READ).json()["output"], "hello");
}

#[test]
fn no_effect_is_acknowledged_once_the_database_file_is_gone() {
    type Mishap = (&'static str, fn(&Path));
    let mishaps: &[Mishap] = &[
        ("was deleted or moved", |path| fs::remove_file(path).unwrap()),
        ("was replaced", |path| {
            let copy = path.with_extension("copy");
            fs::copy(path, &copy).unwrap();
            fs::rename(copy, path).unwrap();
        }),
        ("was deleted or moved", |path| {
            fs::remove_file(path.with_extension("db-wal")).unwrap();
        }),
    ];
    for (why, mishap) in mishaps {
        let server = start("", &[]);
        assert_eq!(server.call(&[], WRITE).json()["is_success"], true);
        assert_eq!(ready(&server).status, 200);
        mishap(&database(&server));
        is_out(&server, why);
        assert!(server.log().contains("while it was in use"), "{}", server.log());
        let key = r#"{"name": "k", "role": "caller"}"#;
        assert_eq!(server.send("POST", "/v1/keys", &[], key).status, 503, "no key is made either");
    }
}

/// The log of the database cannot grow any more.
fn fill_disk(server: &Server) {
    let log = fs::metadata(database(server).with_extension("db-wal")).unwrap();
    limit_files(server, &log.len().to_string());
}

fn limit_files(server: &Server, bytes: &str) {
    let id = server.id().to_string();
    let limit = format!("--fsize={bytes}:unlimited");
    let set = Command::new("prlimit").args([&limit, "--pid", &id]).status().unwrap();
    assert!(set.success());
}

/// A disk cannot be filled up without being root; a limit on the size of files
/// is the same to SQLite.
#[test]
fn a_full_disk_is_not_ready_and_ends_with_a_code_that_says_what_is_lost() {
    let project = Project::empty();
    project.write("windlass.yaml", "").write("tools/slow.yaml", SLOW);
    let mut server = Server::run_shielded(Arc::new(project));
    assert_eq!(server.call(&[], WRITE).json()["is_success"], true);
    fill_disk(&server);
    is_out(&server, "write call records");
    // There is room again: all by itself.
    limit_files(&server, "unlimited");
    until("it is ready", || (ready(&server).status == 200).then_some(()));
    assert_eq!(server.call(&[], WRITE).json()["is_success"], true);

    fill_disk(&server);
    until("it is not ready", || (ready(&server).status == 503).then_some(()));
    for _ in 0..3 {
        assert_eq!(server.call(&[], READ).json()["output"], "hello");
    }
    server.signal("-TERM");
    until("it drains", || TcpStream::connect(server.address).err());
    // Whoever insists does not wait for the disk.
    until("it ends", || {
        if server.is_running() {
            server.signal("-TERM");
            return None;
        }
        Some(())
    });
    assert_eq!(server.ended().code(), Some(7), "{}", server.log());
    let log = server.log();
    assert!(log.contains("\"unwritten\":3"), "{log}");
}

/// The way to a PostgreSQL that can be closed.
struct Way {
    address: SocketAddr,
    open: Arc<AtomicBool>,
}

impl Way {
    fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, open) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(true)));
        let (server, is_open) = (server.to_owned(), Arc::clone(&open));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(near) = stream else { return };
                if !is_open.load(Ordering::SeqCst) {
                    continue;
                }
                let far = TcpStream::connect(&server).unwrap();
                for (from, to) in [(&near, &far), (&far, &near)] {
                    pass_on(from.try_clone().unwrap(), to.try_clone().unwrap(), &is_open);
                }
            }
        });
        Self { address, open }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, open: &Arc<AtomicBool>) {
    let open = Arc::clone(open);
    from.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while open.load(Ordering::SeqCst) {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(size) if std::io::Write::write_all(&mut to, &buffer[..size]).is_ok() => {}
                Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock) => {}
                _ => break,
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}

#[test]
fn reads_go_on_while_postgres_is_away() {
    let database = Database::new();
    let url = database.url();
    let (_, rest) = url.rsplit_once('@').unwrap();
    let (place, _) = rest.split_once('/').unwrap();
    let way = Way::to(place);
    let url = url.replace(place, &way.address.to_string());
    let server = start("", &[("WINDLASS_DATABASE", &url)]);
    assert_eq!(server.call(&[], WRITE).json()["is_success"], true);
    way.open.store(false, Ordering::SeqCst);
    until("effects are refused", || (server.call(&[], WRITE).status == 503).then_some(()));
    is_out(&server, "database");
    // Also when what was known of the key has become old.
    let away = Instant::now();
    while away.elapsed() < Duration::from_secs(7) {
        let answer = server.call(&[], READ);
        assert_eq!(answer.status, 200, "after {:?}: {answer:?}", away.elapsed());
        thread::sleep(Duration::from_millis(200));
    }
    // Whatever has to ask the database says when to come back.
    let asked = server.send("GET", "/v1/calls", &[], "");
    assert_eq!(asked.status, 503, "{asked:?}");
    assert!(asked.headers.contains_key("retry-after"), "{asked:?}");
    way.open.store(true, Ordering::SeqCst);
    until("effects run again", || (server.call(&[], WRITE).status == 200).then_some(()));
    until("it is ready", || (ready(&server).status == 200).then_some(()));
}
