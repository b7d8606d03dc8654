//! The master key file: one key in base64 on each line, the newest first.
//!
//! Only its owner may read it. It is replaced atomically, so that a reader sees all
//! of the old or all of the new keys.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind::AlreadyExists, ErrorKind::NotFound, Read, Write};
use std::path::{Path, PathBuf};

use windlass::{Error, ErrorKind};
use zeroize::Zeroizing;

use super::seal::{KEY, SealKey};
use crate::random;

/// Far more keys than an installation needs.
const MAX_BYTES: u64 = 64 * 1024;

/// The keys of a file, the newest first; none where there is no file.
pub(super) fn read(path: &Path) -> Result<Option<Vec<SealKey>>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == NotFound => return Ok(None),
        Err(error) => return Err(refused(path, &format!("cannot be read: {error}"))),
    };
    let about = file.metadata().map_err(|error| refused(path, &error.to_string()))?;
    if !about.is_file() || about.len() > MAX_BYTES {
        return Err(refused(path, "is not a file of master keys"));
    }
    only_for_its_owner(path, &about)?;
    let room = usize::try_from(about.len()).unwrap_or_default() + 1;
    let mut text = Zeroizing::new(String::with_capacity(room));
    file.take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| refused(path, &format!("cannot be read: {error}")))?;
    parse(&text).map(Some).map_err(|why| refused(path, &why))
}

/// The keys of a text: one a line, or separated by commas. Lines that begin with
/// `#` are comments.
pub(super) fn parse(text: &str) -> Result<Vec<SealKey>, String> {
    let mut keys = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words = line.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        for word in words.take_while(|word| !word.starts_with('#')) {
            let key = SealKey::from_base64(word).ok_or_else(|| {
                // The word is not echoed: it may be most of a key.
                format!("has something in line {} that is not {KEY} bytes in base64", number + 1)
            })?;
            keys.push(key);
        }
    }
    if keys.is_empty() { Err("has no key in it".to_owned()) } else { Ok(keys) }
}

/// Makes a file with a new key, unless somebody else does so first; then theirs
/// is the one that counts.
pub(super) fn create(path: &Path) -> Result<Vec<SealKey>, Error> {
    let draft = KeyFileDraft::write(path, &[SealKey::random()?])?;
    // A hard link is atomic: the file appears complete, or not at all.
    match fs::hard_link(&draft.0, path) {
        Ok(()) => sync_folder(path),
        Err(error) if error.kind() == AlreadyExists => {}
        Err(error) => return Err(refused(path, &format!("cannot be made: {error}"))),
    }
    read(path)?.ok_or_else(|| refused(path, "was removed as soon as it was made"))
}

/// Changes the keys of a file. Who does so at the same time waits.
pub(super) fn change(
    path: &Path,
    change: impl FnOnce(Vec<SealKey>) -> Result<Vec<SealKey>, Error>,
) -> Result<Vec<SealKey>, Error> {
    let lock = beside(path, "lock");
    let cannot = |error: io::Error| refused(&lock, &format!("cannot be locked: {error}"));
    let lock_file = private().create(true).truncate(false).open(&lock).map_err(cannot)?;
    // The lock is released when the file is dropped.
    lock_file.lock().map_err(cannot)?;
    let old = read(path)?.ok_or_else(|| refused(path, "does not exist"))?;
    let new = change(old)?;
    let draft = KeyFileDraft::write(path, &new)?;
    fs::rename(&draft.0, path)
        .map_err(|error| refused(path, &format!("cannot be replaced: {error}")))?;
    sync_folder(path);
    Ok(new)
}

/// A file that is written beside the real one; it goes when it is not needed.
struct KeyFileDraft(PathBuf);

impl KeyFileDraft {
    fn write(path: &Path, keys: &[SealKey]) -> Result<Self, Error> {
        let cannot = |error: io::Error| refused(path, &format!("cannot be written: {error}"));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.map_or(Ok(()), windlass_store::private_folder).map_err(cannot)?;
        let own = beside(path, &random::text(12)?);
        let mut file = private().create_new(true).open(&own).map_err(cannot)?;
        let draft = Self(own);
        for key in keys {
            let line = key.to_base64();
            file.write_all(line.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(cannot)?;
        }
        file.sync_all().map_err(cannot)?;
        Ok(draft)
    }
}

impl Drop for KeyFileDraft {
    fn drop(&mut self) {
        // After a rename it is gone already.
        let _ = fs::remove_file(&self.0);
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(end);
    path.with_file_name(name)
}

/// A file that only its owner may read, from its first moment.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// A name outlives a crash only once its folder is written. Not every system can
/// do that, and then there is nothing to be done.
fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
}

#[cfg(unix)]
fn only_for_its_owner(path: &Path, about: &fs::Metadata) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    let mode = about.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let place = path.display();
    Err(refused(path, &format!("can be used by others (mode {mode:o}); run `chmod 600 {place}`")))
}

#[cfg(not(unix))]
fn only_for_its_owner(_: &Path, _: &fs::Metadata) -> Result<(), Error> {
    Ok(())
}

fn refused(path: &Path, why: &str) -> Error {
    let message = format!("the master key file {} {why}", path.display());
    Error::new(ErrorKind::CredentialInvalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(keys: &[SealKey]) -> Vec<String> {
        keys.iter().map(SealKey::id).collect()
    }

    #[test]
    fn all_who_make_the_file_at_once_get_the_same_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/windlass.key");
        let made: Vec<Vec<String>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..16).map(|_| scope.spawn(|| ids(&create(&path).unwrap()))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.iter().all(|keys| *keys == made[0] && keys.len() == 1), "{made:?}");
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing is left behind: {left:?}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn all_changes_are_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("windlass.key");
        assert!(read(&path).unwrap().is_none() && change(&path, Ok).is_err());
        create(&path).unwrap();
        let add = || {
            let new = SealKey::random().unwrap();
            change(&path, |old| Ok([vec![new.clone()], old].concat())).unwrap();
            new.id()
        };
        let added: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(add)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let kept = ids(&read(&path).unwrap().unwrap());
        assert_eq!(kept.len(), 9);
        assert!(added.iter().all(|id| kept.contains(id)));
    }

    #[test]
    fn wrong_files_are_refused_and_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("windlass.key");
        let key = SealKey::random().unwrap().to_base64();
        let short = &key[..40];
        for (text, part) in [
            ("", "has no key in it"),
            ("# only a comment\n", "has no key in it"),
            ("c2hvcnQ=\n", "line 1 that is not 32 bytes"),
            (&format!("{}\n{short}\n", *key), "line 2"),
            (&format!("{0}{0}\n", *key), "line 1"),
        ] {
            let mut file = private().create(true).truncate(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let message = read(&path).err().unwrap().message().to_owned();
            assert!(message.contains(part) && !message.contains(short), "{message}");
        }
        assert!(read(folder.path()).is_err(), "a folder is no key");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("windlass.key");
        create(&path).unwrap();
        for mode in [0o644, 0o640, 0o604, 0o620, 0o601] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let message = read(&path).err().unwrap().message().to_owned();
            assert!(message.contains("chmod 600"), "{mode:o}: {message}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().len(), 1);
    }
}
