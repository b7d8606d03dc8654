//! Loads definitions into an engine, and keeps them up to date.
//!
//! Every file is a source of its own: the tools of a changed file are swapped
//! at once, a broken file keeps its last good version, and running calls keep
//! the tools they began with.

mod watch;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

pub use watch::{FolderWatch, WatchOptions};

use crate::call::Call;
use crate::call::content::Output;
use crate::definition::{
    Definition, DefinitionLimits, FolderWalk, LibrarySpec, LoadError, LoadedFile, Parsed,
    ProviderSpec, SettingPlaces, list_files, parse_all,
};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, SettingFlaw};
use crate::journal::event::EventBody;
use crate::tool::executor::{BoxFuture, Executor};
use crate::tool::registry::{Conflict, SourceTools};
use crate::tool::{Source, Tool, ToolBuilder, ToolSpec};
use crate::value::name::{TenantId, ToolName};

/// The outcome of loading definitions.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Number of files read.
    pub files: usize,
    /// Number of tools loaded.
    pub tools: usize,
    /// Errors; everything else was loaded.
    pub errors: Vec<LoadError>,
    /// Warnings: loaded, but not quite as written.
    pub notes: Vec<LoadError>,
}

impl Engine {
    /// Loads all definitions below a folder. A broken file does not affect the
    /// others.
    pub fn load_folder(&self, folder: impl AsRef<Path>) -> LoadReport {
        Loader::new(self.clone(), folder.as_ref()).load()
    }

    /// Loads a folder and reloads it on every change, until the watch is
    /// dropped.
    pub fn watch_folder(
        &self,
        folder: impl AsRef<Path>,
        options: WatchOptions,
    ) -> Result<(LoadReport, FolderWatch), Error> {
        watch::start(Loader::new(self.clone(), folder.as_ref()), options)
    }

    /// Loads definitions from a text; `source` names it in errors.
    pub fn load_text(&self, source: &str, text: &str) -> LoadReport {
        self.load_text_of(None, source, text)
    }

    /// Loads definitions from a text as tools of a tenant, replacing those that
    /// this source had before.
    pub fn load_text_for(&self, tenant: &TenantId, source: &str, text: &str) -> LoadReport {
        self.load_text_of(Some(tenant), source, text)
    }

    /// Replaces the tools and providers of a source, for a tenant or for all
    /// tenants.
    pub fn load_parsed(
        &self,
        owner: Option<&TenantId>,
        source: &str,
        parsed: Parsed,
    ) -> LoadReport {
        self.load_all_parsed(owner, [(source.to_owned(), parsed)])
    }

    /// Replaces the definitions of several sources at once. Each installation
    /// costs time in proportion to the tools that exist, so large numbers
    /// should go in together.
    pub fn load_all_parsed(
        &self,
        owner: Option<&TenantId>,
        sources: impl IntoIterator<Item = (String, Parsed)>,
    ) -> LoadReport {
        let file = |(source, parsed): (String, Parsed)| LoadedFile {
            path: source.into(),
            outcome: Ok(parsed),
        };
        self.install(owner, sources.into_iter().map(file).collect(), &[]).0
    }

    /// Loads definitions from several texts at once, each with the name of its
    /// source.
    pub fn load_texts(&self, texts: impl IntoIterator<Item = (String, String)>) -> LoadReport {
        let file = |(source, text): (String, String)| {
            let outcome = parse_all(&source, &text, &DefinitionLimits::default());
            LoadedFile { path: source.into(), outcome }
        };
        self.install(None, texts.into_iter().map(file).collect(), &[]).0
    }

    /// Removes everything that a tenant has from this source.
    pub fn unload_for(&self, tenant: &TenantId, source: &str) {
        self.install(Some(tenant), Vec::new(), &[source.into()]);
    }

    fn load_text_of(&self, owner: Option<&TenantId>, source: &str, text: &str) -> LoadReport {
        let outcome = parse_all(source, text, &DefinitionLimits::default());
        self.install(owner, vec![LoadedFile { path: source.into(), outcome }], &[]).0
    }

    /// Installs the tools of the files that were read; `removed` files are
    /// gone. Also returns the sources whose names belong to another source.
    fn install(
        &self,
        owner: Option<&TenantId>,
        files: Vec<LoadedFile>,
        removed: &[PathBuf],
    ) -> (LoadReport, Vec<Source>) {
        let mut report = LoadReport { files: files.len(), ..LoadReport::default() };
        let mut sources = Vec::new();
        let mut places = HashMap::new();
        for compiled in in_parallel(files, |file| self.compile(owner, file)) {
            report.errors.extend(compiled.errors);
            report.notes.extend(compiled.notes);
            places.extend(compiled.places);
            if let Some((source, providers, library)) = compiled.others {
                self.providers().replace_source(owner, &source, providers);
                self.library().replace_source(owner, &source, library);
            }
            sources.extend(compiled.source);
        }
        for source in removed.iter().map(|path| source_of(path)) {
            self.providers().replace_source(owner, &source, Vec::new());
            self.library().replace_source(owner, &source, LibrarySpec::default());
            sources.push(SourceTools::new(source).owned_by(owner));
        }
        report.tools = sources.iter().map(|own| own.tools.len()).sum();
        let mut refused = Vec::new();
        for Conflict { tool, error } in self.registry().install(owner, &sources) {
            let place = places.get(tool.name()).copied().unwrap_or_default();
            report.tools -= 1;
            refused.push(Arc::clone(tool.source()));
            report.errors.push(place.error(tool.source(), &error));
        }
        for error in &report.errors {
            self.bus().emit(|| EventBody::LoadError {
                source: error.file.as_str().into(),
                error: error.to_string(),
                tenant: owner.cloned(),
            });
        }
        (report, refused)
    }

    fn compile(&self, owner: Option<&TenantId>, file: LoadedFile) -> CompiledFile {
        let source = source_of(&file.path);
        let mut compiled = CompiledFile::default();
        let parsed = match file.outcome {
            Ok(parsed) => parsed,
            // Without a source to replace, the tools of the last good version
            // stay.
            Err(errors) => return CompiledFile { errors, ..compiled },
        };
        let parsed = self.with_imports(&file.path, parsed, &mut compiled.errors);
        let mut own = SourceTools::new(Arc::clone(&source)).owned_by(owner);
        // A single API document may hold more tools than a folder of files.
        let tools = in_parallel(parsed.tools, |definition| {
            let name = definition.spec.name.clone();
            let place = ToolLocation { line: definition.line, column: definition.column };
            let settings = definition.settings.clone();
            let tool = self
                .bind(definition)
                .and_then(|builder| Tool::compile(builder, Arc::clone(&source), owner.cloned()))
                .map_err(|error| place.errors(&source, &error, &settings));
            (name, place, tool)
        });
        for (name, place, tool) in tools {
            match tool {
                Ok(tool) => {
                    compiled
                        .notes
                        .extend(tool.unchecked().map(|why| place.note(&source, &name, why)));
                    own.tools.push(Arc::new(tool));
                    compiled.places.push((name, place));
                }
                Err(errors) => {
                    own.kept.push(name);
                    compiled.errors.extend(errors);
                }
            }
        }
        compiled.source = Some(own);
        compiled.notes.extend(parsed.notes);
        compiled.others = Some((source, parsed.providers, parsed.library));
        compiled
    }

    /// Adds the tools of API documents. A document that cannot be read is
    /// reported, and the rest of its file is kept.
    fn with_imports(&self, file: &Path, mut parsed: Parsed, errors: &mut Vec<LoadError>) -> Parsed {
        for request in std::mem::take(&mut parsed.imports) {
            let outcome = match self.importer() {
                Some(import) => import(&request, file.parent().unwrap_or(Path::new(""))),
                None => Err(Error::new(
                    ErrorKind::ExecutorNotFound,
                    "this engine reads no API documents",
                )),
            };
            match outcome {
                Ok(mut imported) => {
                    parsed.tools.append(&mut imported.tools);
                    parsed.providers.append(&mut imported.providers);
                }
                Err(error) => {
                    let place = ToolLocation { line: request.line, column: request.column };
                    errors.push(place.error(&source_of(file), &error));
                }
            }
        }
        parsed
    }

    /// The executor for a tool, or why there is none.
    pub fn executor_for(&self, spec: &ToolSpec) -> Result<Arc<dyn Executor>, Error> {
        match self.kinds().get(&spec.kind) {
            Some(bind) => bind(spec),
            None => Err(Error::new(
                ErrorKind::ExecutorNotFound,
                format!("this engine runs no tools of the kind `{}`", spec.kind),
            )),
        }
    }

    /// Binds a definition to its executor. A definition whose handler is not
    /// installed still becomes a tool; its calls report what is missing.
    fn bind(&self, definition: Definition) -> Result<ToolBuilder, Error> {
        let executor = self.executor_for(&definition.spec).or_else(|error| match error.kind() {
            ErrorKind::ExecutorNotFound => Ok(Arc::new(Unbound(error)) as Arc<dyn Executor>),
            _ => Err(error),
        })?;
        Ok(definition.builder(executor))
    }
}

/// The compiled contents of a file.
#[derive(Default)]
struct CompiledFile {
    source: Option<SourceTools>,
    /// Providers, prompts and resources of the file.
    others: Option<(Source, Vec<ProviderSpec>, LibrarySpec)>,
    places: Vec<(ToolName, ToolLocation)>,
    errors: Vec<LoadError>,
    notes: Vec<LoadError>,
}

/// Position of a tool's definition.
#[derive(Clone, Copy, Default)]
struct ToolLocation {
    line: u32,
    column: u32,
}

impl ToolLocation {
    fn error(self, source: &Source, error: &Error) -> LoadError {
        self.says(source, error.message().to_owned())
    }

    /// Every mistake of the definition at its own place.
    fn errors(self, source: &Source, error: &Error, settings: &SettingPlaces) -> Vec<LoadError> {
        let flaw = |flaw: &SettingFlaw| {
            let (line, column) = settings.get(&flaw.key).unwrap_or((self.line, self.column));
            let hint = Some(flaw.hint.clone()).filter(|hint| !hint.is_empty());
            let message = flaw.message.clone();
            LoadError { file: source.to_string(), line, column, message, hint }
        };
        match error.flaws() {
            [] => vec![self.error(source, error)],
            flaws => flaws.iter().map(flaw).collect(),
        }
    }

    fn note(self, source: &Source, tool: &ToolName, unchecked: &str) -> LoadError {
        self.says(source, format!("tool `{tool}`: {unchecked}"))
    }

    fn says(self, source: &Source, message: String) -> LoadError {
        LoadError {
            file: source.to_string(),
            line: self.line,
            column: self.column,
            message,
            hint: None,
        }
    }
}

/// Executor of a tool whose handler is not installed; fails every call.
struct Unbound(Error);

impl Executor for Unbound {
    fn execute<'a>(&'a self, _call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(std::future::ready(Err(self.0.clone())))
    }
}

fn source_of(path: &Path) -> Source {
    path.display().to_string().into()
}

/// Maps over items in parallel, keeping their order.
fn in_parallel<T: Send, R: Send>(items: Vec<T>, map: impl Fn(T) -> R + Sync) -> Vec<R> {
    const WORTH_A_THREAD: usize = 64;
    // Checked first: asking for the number of cores reads system files, which
    // is more work than compiling the one tool of a usual file.
    if items.len() <= WORTH_A_THREAD {
        return items.into_iter().map(map).collect();
    }
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(threads).max(WORTH_A_THREAD);
    if items.len() <= share {
        return items.into_iter().map(map).collect();
    }
    let mut shares: Vec<Vec<T>> = Vec::new();
    for (at, item) in items.into_iter().enumerate() {
        if at % share == 0 {
            shares.push(Vec::with_capacity(share));
        }
        if let Some(last) = shares.last_mut() {
            last.push(item);
        }
    }
    thread::scope(|scope| {
        let map = &map;
        let running: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(move || share.into_iter().map(map).collect::<Vec<R>>()))
            .collect();
        running
            .into_iter()
            .flat_map(|thread| match thread.join() {
                Ok(mapped) => mapped,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

/// Loads a folder, and later its changes.
struct Loader {
    engine: Engine,
    folder: PathBuf,
    seen: HashMap<PathBuf, FileStamp>,
    failed: HashSet<PathBuf>,
}

/// Version of a file: modification time and size.
type FileStamp = Option<(SystemTime, u64)>;

impl Loader {
    fn new(engine: Engine, folder: &Path) -> Self {
        Self { engine, folder: folder.to_owned(), seen: HashMap::new(), failed: HashSet::new() }
    }

    /// Reads the folder and installs what is new, changed or gone.
    fn load(&mut self) -> LoadReport {
        // Taken before reading, so that concurrent changes are seen next time.
        let limits = DefinitionLimits::default();
        let walk = FolderWalk::through(&self.folder, &limits);
        let now: HashMap<PathBuf, FileStamp> =
            walk.found.iter().map(|path| (path.clone(), stamp(path))).collect();
        let folder = walk.read();
        // An unreadable folder keeps its tools, as a broken file does.
        let removed: Vec<PathBuf> = match folder.errors.as_slice() {
            [] => self.seen.keys().filter(|path| !now.contains_key(*path)).cloned().collect(),
            _ => Vec::new(),
        };
        let failed = std::mem::take(&mut self.failed);
        // Files that failed are retried: another file's change may have fixed
        // them.
        let is_changed = |file: &LoadedFile| {
            self.seen.get(&file.path) != now.get(&file.path) || failed.contains(&file.path)
        };
        // Tools depend on the file of their provider.
        let providers: Vec<&Path> = (folder.files.iter())
            .filter(|file| is_changed(file))
            .filter(|file| file.outcome.as_ref().is_ok_and(|parsed| !parsed.providers.is_empty()))
            .filter_map(|file| file.path.parent())
            .collect();
        let reloaded: Vec<bool> = (folder.files.iter())
            .map(|file| is_changed(file) || providers.iter().any(|dir| file.path.starts_with(dir)))
            .collect();
        let broken = folder.files.iter().filter(|file| file.outcome.is_err());
        self.failed.extend(broken.map(|file| file.path.clone()));
        let changed: Vec<LoadedFile> = folder
            .files
            .into_iter()
            .zip(reloaded)
            .filter_map(|(file, reloaded)| reloaded.then_some(file))
            .collect();
        self.seen = now;
        let (mut report, refused) = self.engine.install(None, changed, &removed);
        self.failed.extend(refused.iter().map(|source| PathBuf::from(&**source)));
        report.errors.extend(folder.errors);
        report
    }

    /// Reloads, with events before and after.
    fn reload(&mut self) -> LoadReport {
        let source: Arc<str> = self.folder.display().to_string().into();
        let bus = Arc::clone(self.engine.bus());
        bus.emit(|| EventBody::ReloadStarted { source: Arc::clone(&source) });
        let report = self.load();
        bus.emit(|| EventBody::ReloadCompleted {
            source,
            tools: report.tools,
            errors: report.errors.len(),
        });
        report
    }

    /// Whether any file differs from its loaded version.
    fn is_stale(&self) -> bool {
        let files = list_files(&self.folder);
        files.len() != self.seen.len()
            || files.iter().any(|path| self.seen.get(path) != Some(&stamp(path)))
    }
}

fn stamp(path: &Path) -> FileStamp {
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}
