//! `write_file`: creates, replaces or appends to a file.

use std::io::{self, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cap_std::fs::OpenOptions;
use serde_json::{Value, json};
use windlass::{Error, ErrorKind, Output};

use super::{Granted, fault, path};

/// Writes a file. Replacing is atomic: the new content is written to a temporary file,
/// which is then renamed.
pub(super) fn run(granted: &Granted, arguments: &Value) -> Result<Output, Error> {
    let path = path(arguments, "")?;
    let bytes = content(arguments)?;
    if bytes.len() as u64 > granted.max_bytes {
        let why = format!("`content` is larger than {} bytes", granted.max_bytes);
        return Err(Error::new(ErrorKind::InvalidArguments, why));
    }
    let wrong = |cause| fault(path, cause);
    let dir = &granted.dir;
    let parent = Path::new(path).parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|_| arguments["create_folders"].as_bool() == Some(true)) {
        dir.create_dir_all(parent).map_err(wrong)?;
    }
    // Opening a named pipe or a device could block the thread, or have side effects.
    let existing = match dir.metadata(path) {
        Ok(about) => Some(about),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
        Err(cause) => return Err(wrong(cause)),
    };
    if existing.as_ref().is_some_and(|about| !about.is_file()) {
        return Err(Error::tool(format!("it is no ordinary file: {}", path.escape_debug())));
    }
    let mode = arguments["mode"].as_str().unwrap_or("create");
    match mode {
        "append" => {
            let size = existing.map_or(0, |about| about.len());
            if size.saturating_add(bytes.len() as u64) > granted.max_bytes.saturating_mul(16) {
                return Err(Error::tool("the file would grow too large"));
            }
            let mut options = OpenOptions::new();
            let mut file = dir.open_with(path, options.append(true).create(true)).map_err(wrong)?;
            file.write_all(&bytes).map_err(wrong)?;
        }
        "overwrite" => replace(granted, path, &bytes)?,
        _ => {
            let mut options = OpenOptions::new();
            let mut file =
                dir.open_with(path, options.write(true).create_new(true)).map_err(wrong)?;
            file.write_all(&bytes).map_err(wrong)?;
        }
    }
    let written = bytes.len();
    Ok(Output::text(format!("Wrote {written} bytes to {path}."))
        .with_structured(json!({"path": path, "mode": mode, "bytes": written})))
}

fn replace(granted: &Granted, path: &str, bytes: &[u8]) -> Result<(), Error> {
    let wrong = |cause| fault(path, cause);
    let target = Path::new(path);
    if target.file_name().is_none() {
        return Err(Error::new(ErrorKind::InvalidArguments, "`path` names no file"));
    }
    let beside = format!(".windlass-{:016x}", fastrand::u64(..));
    let beside = target.with_file_name(beside);
    let mut options = OpenOptions::new();
    let mut file =
        granted.dir.open_with(&beside, options.write(true).create_new(true)).map_err(wrong)?;
    let done = file.write_all(bytes).and_then(|()| granted.dir.rename(&beside, &granted.dir, path));
    done.map_err(|cause| {
        drop(granted.dir.remove_file(&beside));
        wrong(cause)
    })
}

fn content(arguments: &Value) -> Result<Vec<u8>, Error> {
    let content = arguments["content"].as_str().unwrap_or_default();
    match arguments["encoding"].as_str() {
        Some("base64") => STANDARD
            .decode(content.trim())
            .map_err(|_| Error::new(ErrorKind::InvalidArguments, "`content` is no valid base64")),
        _ => Ok(content.as_bytes().to_vec()),
    }
}
