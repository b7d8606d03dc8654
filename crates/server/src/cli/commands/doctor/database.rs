//! Checks of the database (reachable, intact, writable, schema up to date, free
//! space) and of the clock, which orders the records.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use windlass_store::{Documents, Examination, examine_file};

use super::Diagnosis;
use crate::installation::Installation;
use crate::settings::DatabaseLocation;

const ABOUT: &str = "database";
/// Less space than this will not last, in bytes.
const LITTLE: u64 = 256 * 1024 * 1024;
/// And with less than this nothing can be written soon.
const NONE: u64 = 16 * 1024 * 1024;
/// How far clocks may be apart, in seconds.
const APART: i64 = 5;
/// The clock of a machine that never heard the time is before this: 2026.
const LONG_AGO: i64 = 1_767_225_600;

/// What was found, and the documents in the database where it has some.
pub(super) async fn examine(
    installation: &Installation<'_>,
) -> (Vec<Diagnosis>, Option<Arc<dyn Documents>>) {
    let settings = installation.settings;
    let mut findings = Vec::new();
    let mut clock = None;
    let examined = match &settings.database {
        DatabaseLocation::Memory => {
            findings.push(
                Diagnosis::warning(
                    ABOUT,
                    "nothing is kept: records, keys and credentials go with the process",
                )
                .hint("name a file or a PostgreSQL database with --database"),
            );
            None
        }
        DatabaseLocation::File(path) if !path.exists() => {
            findings.push(new_file(path));
            None
        }
        DatabaseLocation::File(path) => {
            clock = written_later(path);
            Some(examine_file(path))
        }
        #[cfg(feature = "postgres")]
        DatabaseLocation::Postgres(url) => Some(windlass_store::examine_postgres(url).await),
    };
    if let DatabaseLocation::File(path) = &settings.database {
        findings.extend(space(path));
    }
    let mut documents = None;
    match examined {
        None => {}
        Some(Err(error)) => findings.push(Diagnosis::broken(ABOUT, error.message())),
        Some(Ok(found)) => {
            let place = settings.database.describe();
            let state = state(&place, &found);
            let works = state.state != super::DiagnosisState::Broken;
            findings.insert(0, state);
            clock = found.clock.and_then(apart).or(clock);
            // Opening a database migrates it.
            if works && found.version == found.known {
                match installation.documents().await {
                    Ok(open) => documents = Some(Arc::clone(open)),
                    Err(failure) => findings.push(Diagnosis::broken(ABOUT, failure.message)),
                }
            }
        }
    }
    findings.push(clock.unwrap_or_else(own_clock));
    (findings, documents)
}

fn state(place: &str, found: &Examination) -> Diagnosis {
    if !found.damage.is_empty() {
        let message = format!("{place} is damaged: {}", found.damage.join("; "));
        return Diagnosis::broken(ABOUT, message).hint(
            "stop all windlass processes, then restore a backup, or save what is left with \
             `sqlite3 FILE .recover`",
        );
    }
    if let Some(why) = &found.read_only {
        return Diagnosis::broken(ABOUT, format!("{place} cannot be written to: {why}"))
            .hint("windlass must own the database, and name the primary server");
    }
    match found.version {
        0 => {
            Diagnosis::ok(ABOUT, format!("{place} is reachable; the first start makes the tables"))
        }
        version if version < found.known => Diagnosis::warning(
            ABOUT,
            format!("{place} has version {version}; the next start brings it to {}", found.known),
        )
        .hint("make a backup first: an older windlass cannot open it afterwards"),
        version => {
            Diagnosis::ok(ABOUT, format!("{place} is whole and writable, version {version}"))
        }
    }
}

/// A file that is still to be made: its folder has to let us in.
fn new_file(path: &Path) -> Diagnosis {
    let place = path.display();
    match write_into(folder_of(path)) {
        Ok(()) => {
            Diagnosis::ok(ABOUT, format!("{place} does not exist yet; the first use makes it"))
        }
        Err(error) => Diagnosis::broken(ABOUT, format!("{place} cannot be made: {error}"))
            .hint("choose another place with --database, or give yourself the folder"),
    }
}

/// The nearest folder that is there.
fn folder_of(path: &Path) -> &Path {
    let folders = path.ancestors().skip(1).map(|folder| match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    });
    folders.into_iter().find(|folder| folder.is_dir()).unwrap_or(Path::new("."))
}

/// Whether something can be written into a folder.
fn write_into(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".windlass-doctor-{}", std::process::id()));
    std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)
}

#[cfg(unix)]
fn space(path: &Path) -> Option<Diagnosis> {
    let disk = rustix::fs::statvfs(folder_of(path)).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let mebibytes = free / (1024 * 1024);
    let message = format!("{mebibytes} MiB of disk are free for {}", path.display());
    let hint = "free some space; records.keep and records.keep_outputs_bytes bound what is kept";
    Some(match free {
        free if free < NONE => Diagnosis::broken(ABOUT, message).hint(hint),
        free if free < LITTLE => Diagnosis::warning(ABOUT, message).hint(hint),
        _ => Diagnosis::ok(ABOUT, message),
    })
}

#[cfg(not(unix))]
fn space(_: &Path) -> Option<Diagnosis> {
    None
}

/// A file from the future: the clock was set back since.
fn written_later(path: &Path) -> Option<Diagnosis> {
    let written = std::fs::metadata(path).ok()?.modified().ok()?;
    let ahead = written.duration_since(SystemTime::now()).ok()?;
    (ahead.as_secs() > APART.unsigned_abs()).then(|| {
        let message = format!("the database was written {} s in the future", ahead.as_secs());
        Diagnosis::warning("clock", message)
            .hint("set the clock, and let NTP keep it: `timedatectl set-ntp true`")
    })
}

/// The database server has another idea of the time.
fn apart(theirs: Timestamp) -> Option<Diagnosis> {
    let seconds = Timestamp::now().duration_since(theirs).as_secs();
    (seconds.abs() > APART).then(|| {
        let message = format!("this machine and the database server are {} s apart", seconds.abs());
        Diagnosis::warning("clock", message)
            .hint("let NTP keep both clocks; events and expiries of several servers rely on it")
    })
}

fn own_clock() -> Diagnosis {
    let now = Timestamp::now();
    if now.as_second() < LONG_AGO {
        return Diagnosis::broken("clock", format!("this machine believes that it is {now}"))
            .hint("set the clock: keys and certificates would not be valid");
    }
    Diagnosis::ok("clock", format!("{}", now.strftime("%Y-%m-%d %H:%M:%SZ")))
}
