//! `read_file`: reads a file or a part of it.

use std::io::{Read, Seek, SeekFrom};

use serde_json::{Value, json};
use windlass::{Content, Error, ErrorKind, Output};

use super::{Granted, fault, path};

/// Reads a file: text as text, anything else as bytes.
pub(super) fn run(granted: &Granted, arguments: &Value) -> Result<Output, Error> {
    let path = path(arguments, "")?;
    let offset = arguments["offset"].as_u64().unwrap_or(0);
    let length = arguments["length"].as_u64().unwrap_or(granted.max_bytes).min(granted.max_bytes);
    let wrong = |cause| fault(path, cause);
    // Checked before opening: opening a named pipe blocks until there is a writer.
    let about = granted.dir.metadata(path).map_err(wrong)?;
    if !about.is_file() {
        let what = if about.is_dir() { "a folder" } else { "no ordinary file" };
        return Err(Error::tool(format!("it is {what}: {}", path.escape_debug())));
    }
    let mut file = granted.dir.open(path).map_err(wrong)?;
    let size = file.metadata().map_err(wrong)?.len();
    if offset > size {
        let why = format!("the file has only {size} bytes");
        return Err(Error::new(ErrorKind::InvalidArguments, why));
    }
    file.seek(SeekFrom::Start(offset)).map_err(wrong)?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).map_err(wrong)?;
    let end = offset + bytes.len() as u64;
    let mut about = json!({"path": path, "size": size, "offset": offset, "end": end});
    about["truncated"] = Value::from(end < size);
    let block = match text(bytes) {
        Ok(text) => {
            about["text"] = text.as_str().into();
            Content::text(text)
        }
        Err(bytes) => {
            about["media_type"] = "application/octet-stream".into();
            Content::blob(bytes, "application/octet-stream").with_meta("filename", path)
        }
    };
    Ok(Output::from(block).with_structured(about))
}

/// The bytes as text. A partial read may cut a character at either end.
fn text(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    if bytes.contains(&0) {
        return Err(bytes);
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) => {
            let bytes = error.into_bytes();
            let broken = String::from_utf8_lossy(&bytes).matches('\u{fffd}').count();
            if broken <= 6 && bytes.len() > 64 {
                return Ok(String::from_utf8_lossy(&bytes).trim_matches('\u{fffd}').to_owned());
            }
            Err(bytes)
        }
    }
}
