//! Master keys (key-encryption keys): where they come from, and which one encrypts
//! new values.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use windlass::{Error, ErrorKind};
use zeroize::Zeroizing;

use super::key_file;
use super::seal::SealKey;

/// The variable of the environment that holds master keys.
pub(crate) const MASTER_KEY: &str = "WINDLASS_MASTER_KEY";
/// The name of the file that holds them otherwise.
pub(crate) const KEY_FILE: &str = "windlass.key";

/// Where master keys come from.
pub(crate) enum KeySource {
    /// The value of `WINDLASS_MASTER_KEY`: keys in base64, the newest first.
    Environment(Zeroizing<String>),
    /// A file of keys.
    File(PathBuf, MissingKeyFile),
    /// Nowhere: what it seals is forgotten with the process.
    Memory,
}

/// What to do if the file does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingKeyFile {
    /// Make one: the database is used on this machine only.
    Make,
    /// Refuse: other machines use the same database, and a key that each of
    /// them makes for itself is of no use to the others.
    Refuse,
}

/// Master keys, the newest first. There is at least one.
pub(super) type Ring = Arc<Vec<SealKey>>;

/// The master keys of a process.
pub(super) struct Masters {
    file: Option<(PathBuf, MissingKeyFile)>,
    ring: Mutex<Option<Ring>>,
}

impl Masters {
    /// The keys of a source. A file is read when a key is needed.
    pub(super) fn new(source: KeySource) -> Result<Self, Error> {
        let (file, ring) = match source {
            KeySource::File(path, missing) => (Some((path, missing)), None),
            KeySource::Memory => (None, Some(Arc::new(vec![SealKey::random()?]))),
            KeySource::Environment(text) => {
                let keys = key_file::parse(&text).map_err(|why| {
                    invalid(format!("{MASTER_KEY} {why}; `openssl rand -base64 32` makes a key"))
                })?;
                (None, Some(Arc::new(keys)))
            }
        };
        Ok(Self { file, ring: Mutex::new(ring) })
    }

    /// All keys as they are now: a file may have been changed by others.
    pub(super) fn read(&self) -> Result<Option<Ring>, Error> {
        if let Some((path, _)) = &self.file {
            let keys = key_file::read(path)?;
            *self.ring.lock() = keys.map(Arc::new);
        }
        Ok(self.ring.lock().clone())
    }

    /// The keys, or a new one where there is none. Only for a database in which
    /// nothing is sealed.
    pub(super) fn read_or_make(&self) -> Result<Ring, Error> {
        if let Some(ring) = self.read()? {
            return Ok(ring);
        }
        match &self.file {
            Some((path, MissingKeyFile::Make)) => {
                let ring = Arc::new(key_file::create(path)?);
                *self.ring.lock() = Some(Arc::clone(&ring));
                Ok(ring)
            }
            _ => Err(self.missing()),
        }
    }

    /// The key of this id. Where it is not known, others may have added it.
    pub(super) fn find(&self, id: &str) -> Result<SealKey, Error> {
        let of = |ring: &Ring| ring.iter().find(|key| key.id() == id).cloned();
        let known = self.ring.lock().as_ref().and_then(of);
        if let Some(key) = known {
            return Ok(key);
        }
        let Some(ring) = self.read()? else { return Err(self.missing()) };
        of(&ring).ok_or_else(|| {
            let held: Vec<String> = ring.iter().map(SealKey::id).collect();
            invalid(format!(
                "credentials are sealed by the master key {id}, but {} has {}; \
                 put back the key that they were sealed by",
                self.place(),
                held.join(", ")
            ))
        })
    }

    /// Makes a new key the first one. Keys of the environment are not ours to
    /// change: there, the first of them is taken to be the new one.
    pub(super) fn add(&self) -> Result<Ring, Error> {
        let new = SealKey::random()?;
        let before = |old: Vec<SealKey>| [vec![new.clone()], old].concat();
        let ring = match &self.file {
            Some((path, _)) => key_file::change(path, |old| Ok(before(old)))?,
            None => return self.read()?.ok_or_else(|| self.missing()),
        };
        let ring = Arc::new(ring);
        *self.ring.lock() = Some(Arc::clone(&ring));
        Ok(ring)
    }

    /// Drops the keys that nothing is sealed by, but for the newest. Returns how
    /// many are gone.
    pub(super) fn prune(&self, used: &[String]) -> Result<usize, Error> {
        let Some((path, _)) = &self.file else {
            return Err(invalid(format!(
                "the master keys are in {MASTER_KEY}; take the old ones out of it there"
            )));
        };
        let mut gone = 0;
        let ring = key_file::change(path, |old| {
            let before = old.len();
            let newest = old.first().map(SealKey::id);
            let kept: Vec<SealKey> = (old.into_iter())
                .filter(|key| Some(key.id()) == newest || used.contains(&key.id()))
                .collect();
            gone = before - kept.len();
            Ok(kept)
        })?;
        *self.ring.lock() = Some(Arc::new(ring));
        Ok(gone)
    }

    /// Where the keys are, in words.
    pub(super) fn place(&self) -> String {
        match &self.file {
            Some((path, _)) => path.display().to_string(),
            None => MASTER_KEY.to_owned(),
        }
    }

    /// What to do where there is no key.
    pub(super) fn missing(&self) -> Error {
        let place = self.place();
        match &self.file {
            Some((_, MissingKeyFile::Make)) => invalid(format!(
                "the master key file {place} is missing, but there are credentials that were \
                 sealed by it; put it back, or set {MASTER_KEY}"
            )),
            _ => invalid(format!(
                "there is no master key to seal credentials with; all servers of a database \
                 need the same one: set {MASTER_KEY} to the output of `openssl rand -base64 32`, \
                 or write that into {place} (mode 600) on each of them"
            )),
        }
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::CredentialInvalid, message)
}
