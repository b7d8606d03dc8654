//! File modes: what other users of this machine can change, or read although it is
//! secret. `windlass doctor` reports it, and servers warn when they start.
//!
//! Group permissions are accepted: a team or a proxy often shares files by a group.
//! Servers warn and do not refuse, because volumes of containers are often
//! world-writable on machines without other users. The master key file is checked
//! where it is read.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::settings::Settings;

/// A file or folder that other users may do too much with.
pub(crate) struct Exposed {
    pub(crate) path: PathBuf,
    pub(crate) mode: u32,
    /// What others could do.
    pub(crate) danger: &'static str,
    /// The argument of `chmod` that mends it.
    pub(crate) mend: &'static str,
    /// Whether others could do it now; otherwise only a second mistake lets them.
    pub(crate) is_open: bool,
}

impl Exposed {
    pub(crate) fn message(&self) -> String {
        format!("{} has mode {:o}: {}", self.path.display(), self.mode, self.danger)
    }

    pub(crate) fn hint(&self) -> String {
        format!("run `chmod {} {}`", self.mend, self.path.display())
    }
}

/// Logs what is too open, for a server that starts.
pub(crate) fn warn(settings: &Settings) {
    for one in examine(settings) {
        tracing::warn!(mend = one.hint(), "{}", one.message());
    }
}

/// Creates a folder of a project, and those above it: others may read it and
/// not write to it, whatever the umask.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    if path.as_os_str().is_empty() { Ok(()) } else { builder.create(path) }
}

/// How a file of a project is written, with the same in mind.
pub(crate) fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o644);
    options
}

#[cfg(not(unix))]
pub(crate) fn examine(_: &Settings) -> Vec<Exposed> {
    Vec::new()
}

#[cfg(unix)]
pub(crate) use unix::examine;

#[cfg(unix)]
mod unix {
    use std::collections::HashSet;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    use super::Exposed;
    use crate::settings::{DatabaseLocation, Settings};

    const OTHERS_WRITE: u32 = 0o002;
    const OTHERS: u32 = 0o007;
    const GROUP_AND_OTHERS: u32 = 0o077;
    /// In a folder with it, only owners remove and rename their files.
    const STICKY: u32 = 0o1000;
    /// How many things in folders of tools are looked at, and how many are named.
    const MAX_LOOKED_AT: usize = 10_000;
    const MAX_NAMED: usize = 10;
    /// The extensions of definitions.
    const DEFINITIONS: [&str; 3] = ["yaml", "yml", "json"];

    /// What is too open.
    pub(crate) fn examine(settings: &Settings) -> Vec<Exposed> {
        let mut found = Vec::new();
        if let Some(file) = &settings.file {
            found.extend(writable(file, "other users can change how the server runs"));
            found.extend(replaceable(&folder_of(file)));
        }
        for folder in &settings.tools {
            tools(&folder.path, &mut found);
        }
        if let DatabaseLocation::File(path) = &settings.database {
            database(path, &mut found);
        }
        if let Some(tls) = &settings.server.tls {
            let danger = "other users can read the key of the certificate";
            found.extend(exposed(&tls.key, OTHERS, danger, "o="));
            found.extend(writable(&tls.certificate, "other users can replace the certificate"));
        }
        found
    }

    /// A folder of definitions, with all that is in it. Links are followed, as
    /// they are when definitions are read.
    fn tools(root: &Path, found: &mut Vec<Exposed>) {
        let before = found.len();
        let mut folders = vec![root.to_owned()];
        let mut entered = HashSet::new();
        let mut looked_at = 0;
        while let Some(folder) = folders.pop() {
            if !fs::canonicalize(&folder).is_ok_and(|real| entered.insert(real)) {
                continue;
            }
            found.extend(writable(&folder, "other users can add tools, which run as you"));
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                looked_at += 1;
                if looked_at > MAX_LOOKED_AT || found.len() - before >= MAX_NAMED {
                    return;
                }
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if is_definition(&path) {
                    found.extend(writable(&path, "other users can change tools, which run as you"));
                }
            }
        }
    }

    fn is_definition(path: &Path) -> bool {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|own| DEFINITIONS.iter().any(|known| known.eq_ignore_ascii_case(own)))
    }

    /// The database and its folder. One that is ours alone is nobody else's
    /// business; others may hold more than the database.
    fn database(path: &Path, found: &mut Vec<Exposed>) {
        let folder = folder_of(path);
        let danger = "other users can replace the database and the master key";
        let open = replaceable(&folder).map(|open| Exposed { danger, ..open });
        if open.is_none() && folder.file_name().is_some_and(|name| name == ".windlass") {
            let danger = "it is for its owner alone";
            let loose = exposed(&folder, GROUP_AND_OTHERS, danger, "700");
            found.extend(loose.map(|loose| Exposed { is_open: false, ..loose }));
        }
        found.extend(open);
        let danger = "it is for its owner alone, and holds what people asked";
        let loose = exposed(path, GROUP_AND_OTHERS, danger, "600");
        found.extend(loose.map(|loose| Exposed { is_open: loose.mode & OTHERS != 0, ..loose }));
    }

    fn folder_of(path: &Path) -> PathBuf {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new(".")).to_owned()
    }

    fn writable(path: &Path, danger: &'static str) -> Option<Exposed> {
        exposed(path, OTHERS_WRITE, danger, "o-w")
    }

    /// A folder in which others may put a file in the place of another.
    fn replaceable(folder: &Path) -> Option<Exposed> {
        let danger = "other users can replace windlass.yaml";
        writable(folder, danger).filter(|folder| folder.mode & STICKY == 0)
    }

    fn exposed(
        path: &Path,
        bits: u32,
        danger: &'static str,
        mend: &'static str,
    ) -> Option<Exposed> {
        let mode = fs::metadata(path).ok()?.permissions().mode() & 0o7777;
        let exposed = Exposed { path: path.to_owned(), mode, danger, mend, is_open: true };
        (mode & bits != 0).then_some(exposed)
    }
}
