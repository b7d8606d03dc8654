//! Built-in tools for files in one directory that the operator has granted.
//!
//! The directory is opened once, and everything is opened relative to it by `cap-std`:
//! `..`, absolute paths and symbolic links cannot escape, even if the directory changes
//! at the same time (no race between check and use). Without a directory the tools are
//! refused, and for all tenants but the default one as well.

mod list;
mod read;
mod write;

use std::future::ready;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::Value;
use windlass::native::run_blocking;
use windlass::{BoxFuture, Call, Error, ErrorKind, Executor, Kind, Output, TenantId, ToolSpec};

use crate::builtin::Toolbox;

/// The definitions of these tools: a file name and its YAML.
pub const DEFINITIONS: &[(&str, &str)] = &[
    ("list_files.yaml", include_str!("files/definitions/list_files.yaml")),
    ("read_file.yaml", include_str!("files/definitions/read_file.yaml")),
    ("write_file.yaml", include_str!("files/definitions/write_file.yaml")),
];

/// Maximum length of a path.
const MAX_PATH: usize = 1_024;

/// Settings of the file tools.
#[derive(Clone, Debug)]
pub struct FileSettings {
    /// The directory; without it the tools are refused.
    pub folder: Option<PathBuf>,
    /// Maximum size of one read or write.
    pub max_bytes: u64,
}

impl Default for FileSettings {
    fn default() -> Self {
        Self { folder: None, max_bytes: 1024 * 1024 }
    }
}

/// The tools, working in this directory.
pub fn toolbox(settings: &FileSettings) -> Toolbox {
    HANDLERS.iter().fold(Toolbox::new(DEFINITIONS), |tools, &(name, run)| {
        tools.handler(name, Arc::new(FileTool { settings: settings.clone(), run }))
    })
}

/// Whether a tool is one of these.
pub fn is_file_tool(spec: &ToolSpec) -> bool {
    spec.kind == Kind::Builtin
        && HANDLERS.iter().any(|(name, _)| spec.entry.handler.as_str() == *name)
}

/// Handler of a tool, run on a blocking thread.
type Run = fn(&Granted, &Value) -> Result<Output, Error>;

const HANDLERS: &[(&str, Run)] =
    &[("list_files", list::run), ("read_file", read::run), ("write_file", write::run)];

/// The opened directory.
struct Granted {
    dir: Dir,
    max_bytes: u64,
}

struct FileTool {
    settings: FileSettings,
    run: Run,
}

impl Executor for FileTool {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        // A single directory cannot separate tenants.
        if call.caller().tenant != TenantId::default() {
            let why = "the granted folder is the default tenant's alone";
            return Box::pin(ready(Err(Error::new(ErrorKind::Denied, why))));
        }
        let (settings, run, arguments) =
            (self.settings.clone(), self.run, call.arguments().clone());
        Box::pin(run_blocking(&call.caller().tenant, move || run(&open(&settings)?, &arguments)))
    }
}

fn open(settings: &FileSettings) -> Result<Granted, Error> {
    let Some(folder) = &settings.folder else {
        let why =
            "no folder is granted to the file tools; the operator sets `outbound.files.folder`";
        return Err(Error::new(ErrorKind::Denied, why));
    };
    let dir = Dir::open_ambient_dir(folder, ambient_authority()).map_err(|cause| {
        // The location of the directory is hidden from the model.
        Error::new(ErrorKind::Denied, "the granted folder cannot be opened").with_source(cause)
    })?;
    Ok(Granted { dir, max_bytes: settings.max_bytes })
}

/// A path argument.
fn path<'v>(arguments: &'v Value, default: &'v str) -> Result<&'v str, Error> {
    let path = arguments["path"].as_str().unwrap_or(default);
    if path.is_empty() || path.len() > MAX_PATH || path.contains('\0') {
        let why = format!("`path` must have 1 to {MAX_PATH} characters, and no zero byte");
        return Err(Error::new(ErrorKind::InvalidArguments, why));
    }
    Ok(path)
}

/// Maps an I/O error to an error for the model.
fn fault(path: &str, cause: io::Error) -> Error {
    let shown = path.escape_debug();
    match cause.kind() {
        io::ErrorKind::NotFound => Error::tool(format!("no such file or folder: {shown}")),
        io::ErrorKind::AlreadyExists => Error::tool(format!("it exists already: {shown}")),
        io::ErrorKind::IsADirectory => Error::tool(format!("it is a folder: {shown}")),
        io::ErrorKind::NotADirectory => Error::tool(format!("it is no folder: {shown}")),
        io::ErrorKind::PermissionDenied => {
            let why = format!("{shown} is outside of the granted folder, or may not be touched");
            Error::new(ErrorKind::Denied, why).with_source(cause)
        }
        _ => Error::tool(format!("{shown}: {cause}")).with_source(cause),
    }
}
