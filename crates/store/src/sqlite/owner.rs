//! Owners of intents: one for each open store, kept alive by a file lock.
//!
//! An owner is alive as long as it holds the lock on a file of its own beside the
//! database. The operating system releases the lock when the process ends, however it
//! ends, so nobody has to guess from times or process ids. Owner ids are never reused, so
//! a dead owner stays dead.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use parking_lot::Mutex;
use uuid::Uuid;
use windlass::CallId;

pub(crate) struct Owner {
    id: Uuid,
    database: PathBuf,
    lock: Mutex<Option<File>>,
}

impl Owner {
    /// A new owner without a lock: a store that never stores an intent and is not asked
    /// for its owner id leaves no file.
    pub(crate) fn new(database: &Path) -> Self {
        let id = CallId::at(Timestamp::now()).uuid();
        Self { id, database: database.to_owned(), lock: Mutex::default() }
    }

    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// Takes the lock. Must be called before the first intent is written, and before the
    /// owner id is published.
    ///
    /// The file is renamed to its final name once it is locked, so no file of that name
    /// ever belongs to a living owner without a lock.
    pub(crate) fn hold(&self) -> io::Result<()> {
        let mut held = self.lock.lock();
        if held.is_some() {
            return Ok(());
        }
        let file = self.file(self.id);
        let unnamed = file.with_added_extension("new");
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let lock = options.open(&unnamed)?;
        let named = lock.try_lock().map_err(io::Error::from);
        if let Err(cause) = named.and_then(|()| fs::rename(&unnamed, &file)) {
            let _ = fs::remove_file(&unnamed);
            return Err(cause);
        }
        *held = Some(lock);
        Ok(())
    }

    /// Whether another owner is dead. If in doubt, it is not.
    pub(crate) fn is_dead(&self, other: Uuid) -> bool {
        if other == self.id {
            return false;
        }
        match File::open(self.file(other)) {
            // A shared lock, so that several who check at once do not take each other for
            // the owner.
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(cause)) => self.in_doubt(other, &cause),
            },
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => true,
            Err(cause) => self.in_doubt(other, &cause),
        }
    }

    /// The other owners that left a file.
    pub(crate) fn others(&self) -> Vec<Uuid> {
        let folder = self.database.parent().filter(|folder| !folder.as_os_str().is_empty());
        let Ok(files) = fs::read_dir(folder.unwrap_or(Path::new("."))) else { return Vec::new() };
        let begin = self.prefix();
        let begin = begin.as_encoded_bytes();
        files
            .filter_map(|file| {
                let name = file.ok()?.file_name();
                let id = name.as_encoded_bytes().strip_prefix(begin)?;
                Uuid::try_parse_ascii(id).ok()
            })
            .filter(|&id| id != self.id)
            .collect()
    }

    /// Deletes the file of a dead owner without intents.
    pub(crate) fn bury(&self, dead: Uuid) {
        match fs::remove_file(self.file(dead)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(file = %self.file(dead).display(), %cause, "cannot remove a lock file");
            }
            _ => {}
        }
    }

    fn in_doubt(&self, other: Uuid, cause: &io::Error) -> bool {
        tracing::warn!(
            file = %self.file(other).display(), %cause,
            "cannot tell whether the process that holds this file lives; its calls are left alone"
        );
        false
    }

    fn file(&self, owner: Uuid) -> PathBuf {
        let mut name = self.prefix();
        name.push(owner.to_string());
        self.database.with_file_name(name)
    }

    fn prefix(&self) -> OsString {
        let mut name = self.database.file_name().unwrap_or_default().to_owned();
        name.push("-owner-");
        name
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.lock.get_mut().is_some() {
            self.bury(self.id);
        }
    }
}
