//! Reads the definitions of a folder in parallel.
//!
//! A broken file does not affect the others. Symbolic links are followed, but
//! each folder is entered once; hidden files and folders are skipped.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::node::Position;
use super::{DefinitionLimits, LoadError, Parsed, ProviderSpec, parse_all};

/// Maximum number of reader threads; more would wait for the same disk.
const MAX_THREADS: usize = 4;

/// The contents of a folder of definitions.
#[derive(Debug, Default)]
pub struct Folder {
    /// Every file with its outcome, sorted by path.
    pub files: Vec<LoadedFile>,
    /// Errors of the folder itself: it cannot be read, or exceeds a limit.
    pub errors: Vec<LoadError>,
}

/// A file and its definitions.
#[derive(Debug)]
pub struct LoadedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its definitions, or all its errors.
    pub outcome: Result<Parsed, Vec<LoadError>>,
}

impl Folder {
    /// All errors, in the order of the files.
    pub fn all_errors(&self) -> impl Iterator<Item = &LoadError> {
        let in_files = self.files.iter().filter_map(|file| file.outcome.as_ref().err()).flatten();
        self.errors.iter().chain(in_files)
    }
}

/// Reads all `*.yaml`, `*.yml` and `*.json` files below a folder.
pub fn load_folder(dir: &Path) -> Folder {
    load_folder_with(dir, &DefinitionLimits::default())
}

/// Reads a folder with custom limits.
pub fn load_folder_with(dir: &Path, limits: &DefinitionLimits) -> Folder {
    FolderWalk::through(dir, limits).read()
}

/// The files that [`load_folder`] would read, sorted.
pub fn list_files(dir: &Path) -> Vec<PathBuf> {
    FolderWalk::through(dir, &DefinitionLimits::default()).found
}

/// Reads a file of definitions as text. A file that is too large is not read.
pub fn read_file(path: &Path, limits: &DefinitionLimits) -> Result<String, LoadError> {
    let fault = |at: Position, message: String| LoadError {
        file: path.display().to_string(),
        line: at.line,
        column: at.column,
        message,
        hint: None,
    };
    let too_large = || fault(Position::START, format!("larger than {} bytes", limits.file_bytes));
    let unreadable =
        |error: std::io::Error| fault(Position::START, format!("cannot be read: {error}"));
    // Checked first: opening a named pipe could block for ever.
    let about = fs::metadata(path).map_err(unreadable)?;
    if !about.is_file() {
        return Err(fault(Position::START, "not a regular file".to_owned()));
    }
    if about.len() > limits.file_bytes as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(about.len()).unwrap_or_default());
    // The file may have grown since.
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(limits.file_bytes as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > limits.file_bytes {
        return Err(too_large());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = Position::of_byte(error.as_bytes(), error.utf8_error().valid_up_to());
        fault(at, "not UTF-8 text".to_owned())
    })
}

/// A folder walk: finds files before they are read.
pub(crate) struct FolderWalk<'l> {
    limits: &'l DefinitionLimits,
    visited: HashSet<PathBuf>,
    /// Sorted.
    pub(crate) found: Vec<PathBuf>,
    errors: Vec<LoadError>,
}

impl<'l> FolderWalk<'l> {
    pub(crate) fn through(dir: &Path, limits: &'l DefinitionLimits) -> Self {
        let mut walk =
            Self { limits, visited: HashSet::new(), found: Vec::new(), errors: Vec::new() };
        walk.enter(dir, 0);
        walk.found.sort();
        walk
    }

    /// Reads the files that were found.
    pub(crate) fn read(self) -> Folder {
        let mut files = read_files(self.found, self.limits);
        name_providers(&mut files);
        refuse_duplicates(&mut files);
        Folder { files, errors: self.errors }
    }

    fn enter(&mut self, dir: &Path, depth: usize) {
        if depth > self.limits.folder_depth {
            let message = format!("more than {} folders deep", self.limits.folder_depth);
            return self.fault(dir, message);
        }
        let entries = fs::canonicalize(dir).and_then(|real| {
            // Skips a folder that was already visited (link cycles).
            if self.visited.insert(real) { fs::read_dir(dir).map(Some) } else { Ok(None) }
        });
        let entries = match entries {
            Ok(Some(entries)) => entries,
            Ok(None) => return,
            Err(error) => return self.fault(dir, format!("cannot be read: {error}")),
        };
        let mut paths: Vec<(PathBuf, bool)> =
            entries.flatten().map(|entry| (entry.path(), is_folder(&entry))).collect();
        paths.sort();
        for (path, is_folder) in paths {
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
                continue;
            }
            if is_folder {
                self.enter(&path, depth + 1);
            } else if is_definition(&path) {
                if self.found.len() >= self.limits.files {
                    let message = format!("more than {} files", self.limits.files);
                    return self.fault(dir, message);
                }
                self.found.push(path);
            }
        }
    }

    fn fault(&mut self, path: &Path, message: String) {
        let file = path.display().to_string();
        self.errors.push(LoadError { file, line: 1, column: 1, message, hint: None });
    }
}

/// Whether an entry is a folder, or a link to one. The directory listing has
/// the type of everything but links; a `stat` for each of thousands of files
/// would take longer than the listing.
fn is_folder(entry: &fs::DirEntry) -> bool {
    match entry.file_type() {
        Ok(kind) if !kind.is_symlink() => kind.is_dir(),
        _ => entry.path().is_dir(),
    }
}

/// Whether a file is a definition. A provider's API document (`openapi.yaml`,
/// `petstore.openapi.json`) may stand beside it.
fn is_definition(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let last = stem.rsplit('.').next().unwrap_or_default();
    if ["openapi", "swagger"].iter().any(|word| last.eq_ignore_ascii_case(word)) {
        return false;
    }
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    })
}

fn read_files(paths: Vec<PathBuf>, limits: &DefinitionLimits) -> Vec<LoadedFile> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((index, path)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            paths.get(index).map(|path| (index, path))
        } {
            done.push((index, read_one(path, limits)));
        }
        done
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let helpers = cores.min(MAX_THREADS).min(paths.len() / 16 + 1) - 1;
    let mut outcomes = thread::scope(|scope| {
        // Without this thread there is less parallelism, nothing else.
        let helpers: Vec<_> = (0..helpers)
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mut outcomes = work();
        outcomes.extend(helpers.into_iter().filter_map(|helper| helper.join().ok()).flatten());
        outcomes
    });
    outcomes.sort_by_key(|(index, _)| *index);
    let mut outcomes = outcomes.into_iter().peekable();
    paths
        .into_iter()
        .enumerate()
        .map(|(index, path)| {
            let outcome = outcomes.next_if(|(done, _)| *done == index).map(|(_, outcome)| outcome);
            let outcome = outcome.unwrap_or_else(|| {
                let message = "the reader failed on this file; please report it".to_owned();
                let file = path.display().to_string();
                Err(vec![LoadError { file, line: 1, column: 1, message, hint: None }])
            });
            LoadedFile { path, outcome }
        })
        .collect()
}

fn read_one(path: &Path, limits: &DefinitionLimits) -> Result<Parsed, Vec<LoadError>> {
    let text = read_file(path, limits).map_err(|error| vec![error])?;
    parse_all(&path.display().to_string(), &text, limits)
}

/// Sets the provider of the tools in `x/tools/` to the one defined in
/// `x/x.yaml`.
fn name_providers(files: &mut [LoadedFile]) {
    let of_folder = |file: &LoadedFile| -> Option<(PathBuf, ProviderSpec)> {
        let folder = file.path.parent()?;
        let [provider] = file.outcome.as_ref().ok()?.providers.as_slice() else { return None };
        (file.path.file_stem() == folder.file_name()).then(|| (folder.to_owned(), provider.clone()))
    };
    let providers: HashMap<PathBuf, ProviderSpec> = files.iter().filter_map(of_folder).collect();
    for file in files {
        let tools = file.path.parent().filter(|dir| dir.ends_with("tools"));
        let provider = tools.and_then(Path::parent).and_then(|folder| providers.get(folder));
        if let (Some(provider), Ok(parsed)) = (provider, &mut file.outcome) {
            for tool in &mut parsed.tools {
                tool.spec.provider.get_or_insert_with(|| provider.name.clone());
            }
        }
    }
}

/// Refuses duplicate names: the first file that defines a name keeps it.
fn refuse_duplicates(files: &mut [LoadedFile]) {
    let mut owners: HashMap<String, String> = HashMap::new();
    for file in files {
        let Ok(parsed) = &file.outcome else { continue };
        let name = file.path.display().to_string();
        let mut errors = Vec::new();
        for tool in &parsed.tools {
            let tool_name = tool.spec.name.as_str();
            if let Some(first) = owners.get(tool_name) {
                errors.push(LoadError {
                    file: name.clone(),
                    line: tool.line,
                    column: tool.column,
                    message: format!("the tool `{tool_name}` is already defined in {first}"),
                    hint: Some("rename one of the two".to_owned()),
                });
            }
        }
        if errors.is_empty() {
            let names = parsed.tools.iter().map(|tool| tool.spec.name.to_string());
            owners.extend(names.map(|tool| (tool, name.clone())));
        } else {
            file.outcome = Err(errors);
        }
    }
}
