//! A PostgreSQL server in a temporary folder, on a free loopback port. The store's tests
//! include this file to start servers of their own, so it needs only the standard
//! library.
//!
//! The server does not sync to disk (`fsync = off`): these tests kill processes, not
//! machines. It shares our process group, so Ctrl-C ends it; what a killed run left
//! behind is removed by the next one.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PREFIX: &str = "windlass-postgres-";
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs until it is dropped.
pub(crate) struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    /// The server refuses to run as root: then it is run as this user.
    user: Option<(u32, u32)>,
    server: Option<Child>,
}

/// The folder with `initdb` and `postgres`: Debian's newest, or on the `PATH`.
pub(crate) fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, folder)| folder.join("initdb").exists())
        .max();
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|folder| folder.join("initdb").exists())
    };
    newest.map(|(_, folder)| folder).or_else(on_path)
}

impl Cluster {
    /// Creates a cluster and starts its server.
    pub(crate) fn start(programs: &Path) -> io::Result<Self> {
        remove_leftovers(programs);
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        let user = unprivileged(&folder)?;
        if let Some((user, group)) = user {
            chown(&folder, Some(user), Some(group))?;
        }
        let mut cluster =
            Self { programs: programs.to_owned(), folder, port: 0, user, server: None };
        let made = cluster
            .command("initdb")
            .args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"])
            .args(["--no-sync", "--no-instructions", "--pgdata"])
            .arg(cluster.data())
            .output()?;
        if !made.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        cluster.port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        cluster.resume()?;
        Ok(cluster)
    }

    /// URL of the database `postgres`.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Stops the server: `fast` disconnects clients, `immediate` is a crash.
    pub(crate) fn stop(&mut self, mode: &str) -> io::Result<()> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        self.command("pg_ctl")
            .args(["stop", "--silent", "--mode", mode, "--pgdata"])
            .arg(self.data())
            .output()?;
        server.wait()?;
        Ok(())
    }

    /// Starts the server again with the same data.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        let log = fs::File::create(self.folder.join("log"))?;
        let mut server = self
            .command("postgres")
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(&self.folder)
            .args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "fsync=off", "-c", "max_connections=200"])
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let give_up = Instant::now() + PATIENCE;
        while !self.is_ready()? {
            if server.try_wait()?.is_some() || Instant::now() > give_up {
                // Only if it has not ended by itself.
                let _ = server.kill();
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("the server does not answer: {log}")));
            }
            sleep(Duration::from_millis(20));
        }
        self.server = Some(server);
        Ok(())
    }

    fn is_ready(&self) -> io::Result<bool> {
        let port = self.port.to_string();
        let asked = self
            .command("pg_isready")
            .args(["--quiet", "--host", "127.0.0.1", "--port", &port])
            .status()?;
        Ok(asked.success())
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.folder).stdin(Stdio::null());
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.stop("immediate") {
            eprintln!("the PostgreSQL server in {} was left: {error}", self.folder.display());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The user `postgres`, if we are root and so our files would be root's.
fn unprivileged(folder: &Path) -> io::Result<Option<(u32, u32)>> {
    use std::os::unix::fs::MetadataExt;
    if fs::metadata(folder)?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let user = users.lines().find_map(|line| {
        let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    user.map(Some).ok_or_else(|| {
        io::Error::other("PostgreSQL does not run as root, and there is no user `postgres`")
    })
}

/// Stops servers of killed runs, and removes their folders.
fn remove_leftovers(programs: &Path) {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(run) = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()) else {
            continue;
        };
        if Path::new("/proc/self").exists() && !Path::new("/proc").join(run).exists() {
            let folder = entry.path();
            if let Ok(user) = unprivileged_owner(&folder) {
                let left =
                    Cluster { programs: programs.to_owned(), folder, port: 0, user, server: None };
                let _ = left
                    .command("pg_ctl")
                    .args(["stop", "--silent", "--mode", "immediate", "--pgdata"])
                    .arg(left.data())
                    .output();
            }
        }
    }
}

/// The owner of the folder, if that is not us.
fn unprivileged_owner(folder: &Path) -> io::Result<Option<(u32, u32)>> {
    use std::os::unix::fs::MetadataExt;
    let us = fs::metadata("/proc/self")?.uid();
    let owner = fs::metadata(folder)?;
    Ok((owner.uid() != us).then(|| (owner.uid(), owner.gid())))
}
