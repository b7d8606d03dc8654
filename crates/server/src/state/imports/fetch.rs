//! Reads API documents from files and URLs.

use std::fs;
use std::io::Read;
use std::path::Path;

use windlass::{Error, ErrorKind};
use windlass_executors::outbound::{Outbound, Request};
use windlass_executors::rest::DocumentLimits;

use super::ApiDocument;

/// Gets a document through the guard.
pub(crate) async fn fetch(outbound: &Outbound, url: &str) -> Result<ApiDocument, Error> {
    let most = DocumentLimits::default().file_bytes as u64;
    let request = Request::parse(axum::http::Method::GET, url)?
        .header("accept", "application/json, application/yaml, text/yaml, */*;q=0.5")?
        .max_bytes(most);
    let answer = outbound.clone().taking(most).send(request).await?.checked().await?;
    let from = answer.url().to_string();
    let text = String::from_utf8(answer.bytes().await?.to_vec())
        .map_err(|_| Error::new(ErrorKind::InvalidDefinition, "the document is not UTF-8 text"))?;
    // Relative URLs are resolved against the final URL of redirects.
    Ok(ApiDocument { text, url: Some(from), folder: None })
}

/// Reads a file that a document of this folder refers to. A link that leads out
/// of the folder leads to nothing.
pub(crate) fn read_beside(folder: &Path, name: &str) -> Result<String, Error> {
    let whole =
        |path: &Path| fs::canonicalize(path).map_err(|error| refused(path, &error.to_string()));
    // What stands in the current folder has a parent without a name.
    let path = whole(&folder.join(name))?;
    if !path.starts_with(whole(&Path::new(".").join(folder))?) {
        return Err(refused(&path, "not in the folder of the document"));
    }
    read_file(&path)
}

/// Reads a file of a document, if it is not too large.
pub(crate) fn read_file(path: &Path) -> Result<String, Error> {
    let most = DocumentLimits::default().file_bytes;
    let about = fs::metadata(path).map_err(|error| refused(path, &error.to_string()))?;
    if !about.is_file() {
        return Err(refused(path, "not a regular file"));
    }
    let mut text = String::new();
    let file = fs::File::open(path).map_err(|error| refused(path, &error.to_string()))?;
    let read = file.take(most as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| refused(path, &error.to_string()))?;
    if text.len() > most {
        return Err(refused(path, &format!("larger than {most} bytes")));
    }
    Ok(text)
}

fn refused(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::InvalidDefinition, format!("{}: {why}", path.display()))
}
