//! [`Installation`]: what one process works with. Each part is opened once, when
//! it is first asked for.
//!
//! ```text
//! Settings ─► Installation ─► documents ─► credentials ─► grants ──┐
//!                  │              ├──────► imports, runs, notebook │
//!                  └─► outbound ──┴────────────────────────────────┴─► wiring ─► Engine, Servers
//! ```
//!
//! Commands, `windlass serve`, `windlass mcp` and [`Server`](crate::Server) all begin
//! with one. Which kinds of tools there are is said in [`wiring`](crate::wiring).

use std::env;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;
use windlass::definition::Parsed;
use windlass::{Engine, EngineBuilder, Error, MemoryStore, RecordStore, TenantId};
use windlass_executors::mcp::{Servers, Start};
use windlass_executors::outbound::Outbound;
use windlass_executors::rest::AskConsent;
use windlass_store::{Documents, MemoryDocuments, Options, SqliteDocuments, SqliteStore};
#[cfg(feature = "postgres")]
use windlass_store::{PostgresDocuments, PostgresOptions, PostgresStore};
use windlass_workflow::Runs;

use crate::cli::exit::Failure;
use crate::cli::output::Screen;
use crate::human::approvals::RulesOnly;
use crate::mcp::{StoredNotebook, VaultTokens};
use crate::prerequisites::Prerequisites;
use crate::settings::{DatabaseLocation, RecordSettings, Settings};
use crate::state::credential_source::VaultSource;
use crate::state::imports::{self, ImportedProvider};
use crate::state::quota::{CheckedDocuments, TenantQuotas};
use crate::state::runs::StoredRuns;
use crate::state::vault::{
    Credentials, Grants, KEY_FILE, KeySource, MASTER_KEY, MissingKeyFile, Vault,
};
use crate::state::workflow_runs::StoredWorkflowRuns;
use crate::telemetry::Tracer;
use crate::wiring::{self, KeptRuns};

/// What one process works with.
pub(crate) struct Installation<'s> {
    pub(crate) settings: &'s Settings,
    pub(crate) screen: Screen,
    access: FileAccess,
    /// What tenants may have, where that is bounded.
    quotas: Option<Arc<TenantQuotas>>,
    outbound: OnceLock<Outbound>,
    documents: OnceCell<Arc<dyn Documents>>,
    credentials: OnceLock<Arc<Credentials>>,
    grants: OnceLock<Arc<Grants>>,
}

/// Whether a database file that does not exist yet is created.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileAccess {
    /// It is.
    Create,
    /// It is not: a file that is missing has nothing to be looked at.
    Look,
    /// Nothing is opened at all.
    Nothing,
}

/// The records of a database. There is one in a process, so its size does not matter.
#[allow(clippy::large_enum_variant, reason = "one value in a process, moved once")]
enum Records {
    Memory(MemoryStore),
    File(SqliteStore),
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore),
}

/// What an engine tells a server, and asks people.
#[derive(Default)]
pub(crate) struct Serving {
    /// How people are asked to agree.
    pub(crate) ask: Option<AskConsent>,
    /// What follows the models that are asked.
    pub(crate) tracer: Option<Arc<Tracer>>,
}

impl<'s> Installation<'s> {
    /// For whoever changes something, or calls tools.
    pub(crate) fn new(settings: &'s Settings, screen: Screen) -> Self {
        Self::with(settings, screen, FileAccess::Create)
    }

    /// For whoever only looks: a database that does not exist yet is not created.
    pub(crate) fn to_look_at(settings: &'s Settings, screen: Screen) -> Self {
        Self::with(settings, screen, FileAccess::Look)
    }

    /// For whoever has found out that the database cannot be used.
    pub(crate) fn without_database(settings: &'s Settings, screen: Screen) -> Self {
        Self::with(settings, screen, FileAccess::Nothing)
    }

    fn with(settings: &'s Settings, screen: Screen, access: FileAccess) -> Self {
        Self {
            settings,
            screen,
            access,
            quotas: None,
            outbound: OnceLock::new(),
            documents: OnceCell::new(),
            credentials: OnceLock::new(),
            grants: OnceLock::new(),
        }
    }

    /// Bounds what tenants may have.
    pub(crate) fn bounded(mut self, quotas: &Arc<TenantQuotas>) -> Self {
        self.quotas = Some(Arc::clone(quotas));
        self
    }

    /// The guarded HTTP client for outbound requests.
    pub(crate) fn outbound(&self) -> &Outbound {
        self.outbound.get_or_init(|| Outbound::new(self.settings.outbound.policy.clone()))
    }

    /// What is kept besides records.
    pub(crate) async fn documents(&self) -> Result<&Arc<dyn Documents>, Failure> {
        let opened = self.documents.get_or_try_init(async || {
            let Settings { database, records, .. } = self.settings;
            let opened: Arc<dyn Documents> = match database {
                _ if self.is_missing() => Arc::new(MemoryDocuments::new()),
                DatabaseLocation::Memory => {
                    let most = at_most(records.keep_events, MemoryDocuments::EVENTS);
                    Arc::new(MemoryDocuments::with_events(most))
                }
                DatabaseLocation::File(path) => {
                    Arc::new(SqliteDocuments::open_with(path, options(records))?)
                }
                #[cfg(feature = "postgres")]
                DatabaseLocation::Postgres(url) => {
                    Arc::new(PostgresDocuments::connect_to(url, postgres_options(records)).await?)
                }
            };
            Ok::<Arc<dyn Documents>, Failure>(match &self.quotas {
                Some(quotas) => CheckedDocuments::new(opened, Arc::clone(quotas)),
                None => opened,
            })
        });
        opened.await
    }

    /// The credentials, and the keys that seal them.
    pub(crate) async fn credentials(&self) -> Result<&Arc<Credentials>, Failure> {
        let documents = self.documents().await?;
        if let Some(opened) = self.credentials.get() {
            return Ok(opened);
        }
        let vault = Vault::new(Arc::clone(documents), key_source(self.settings))?;
        let credentials = Credentials::new(Arc::clone(documents), vault);
        Ok(self.credentials.get_or_init(|| Arc::new(credentials)))
    }

    /// What people granted.
    pub(crate) async fn grants(&self) -> Result<&Arc<Grants>, Failure> {
        let (documents, credentials) = (self.documents().await?, self.credentials().await?);
        let grants = || Arc::new(Grants::new(Arc::clone(documents), Arc::clone(credentials)));
        Ok(self.grants.get_or_init(grants))
    }

    /// Runs of agents.
    pub(crate) async fn runs(&self) -> Result<StoredRuns, Failure> {
        Ok(StoredRuns(Arc::clone(self.documents().await?)))
    }

    /// What built-in tools need before they can work.
    pub(crate) async fn prerequisites(&self) -> Result<Prerequisites, Failure> {
        Ok(Prerequisites::new(Arc::clone(self.credentials().await?), self.settings))
    }

    /// The records, for whoever has no engine; an engine owns its own.
    pub(crate) async fn records(&self) -> Result<Box<dyn RecordStore>, Failure> {
        Ok(match self.open_records().await? {
            Records::Memory(store) => Box::new(store),
            Records::File(store) => Box::new(store),
            #[cfg(feature = "postgres")]
            Records::Postgres(store) => Box::new(store),
        })
    }

    async fn open_records(&self) -> Result<Records, Failure> {
        let Settings { database, records, .. } = self.settings;
        Ok(match database {
            _ if self.is_missing() => Records::Memory(MemoryStore::new()),
            DatabaseLocation::Memory => {
                let most = at_most(records.keep, MemoryStore::RECORDS);
                Records::Memory(MemoryStore::with_capacity(most))
            }
            DatabaseLocation::File(path) => {
                Records::File(SqliteStore::open_with(path, options(records))?)
            }
            // The store has its own runtime, because it outlives the current one.
            #[cfg(feature = "postgres")]
            DatabaseLocation::Postgres(url) => {
                Records::Postgres(PostgresStore::connect_to(url, postgres_options(records)).await?)
            }
        })
    }

    fn is_missing(&self) -> bool {
        match (self.access, &self.settings.database) {
            (FileAccess::Nothing, _) => true,
            (FileAccess::Look, DatabaseLocation::File(path)) => !path.exists(),
            (FileAccess::Look | FileAccess::Create, _) => false,
        }
    }

    /// An engine with all tools, for a command that calls them.
    pub(crate) async fn engine(&self) -> Result<Engine, Failure> {
        Ok(self.engine_with_runs().await?.0)
    }

    /// The same, with the runs of its workflows.
    pub(crate) async fn engine_with_runs(&self) -> Result<(Engine, Runs), Failure> {
        let builder = Engine::builder().approvals(RulesOnly(self.settings.approvals.clone()));
        let (engine, runs) = self.engine_and_runs(builder, Serving::default()).await?;
        self.load_imports(&engine).await?;
        keep_to_the_end(&engine);
        Ok((engine, runs))
    }

    /// An engine with all tools but those of imports, which keeps its records in
    /// the database.
    pub(crate) async fn engine_from(
        &self,
        builder: EngineBuilder,
        serving: Serving,
    ) -> Result<Engine, Failure> {
        Ok(self.engine_and_runs(builder, serving).await?.0)
    }

    /// The same, with the runs of its workflows.
    pub(crate) async fn engine_and_runs(
        &self,
        builder: EngineBuilder,
        serving: Serving,
    ) -> Result<(Engine, Runs), Failure> {
        let (credentials, grants) = (self.credentials().await?, self.grants().await?);
        let outbound = self.outbound().clone();
        let (source, asked) =
            VaultSource::new(Arc::clone(credentials), Arc::clone(grants), outbound);
        let builder = match self.open_records().await? {
            Records::Memory(store) => builder.store(store),
            Records::File(store) => builder.store(store),
            #[cfg(feature = "postgres")]
            Records::Postgres(store) => builder.store(store),
        };
        let builder = builder.credentials(source);
        let workflows = StoredWorkflowRuns::new(
            Arc::clone(self.documents().await?),
            self.settings.workflows.open_runs,
        );
        workflows.follow();
        let kept = KeptRuns { agents: Arc::new(self.runs().await?), workflows };
        let (engine, workflows) = wiring::load(builder, self, Some(kept), serving)?;
        let _ = asked.set(engine.clone());
        let runs = Runs::new(&engine, &workflows);
        Ok((engine, runs))
    }

    /// An engine with all tools for those who only look at them: it keeps no records.
    pub(crate) async fn catalogue(&self) -> Result<Engine, Failure> {
        let engine = self.defined()?;
        self.load_imports(&engine).await?;
        keep_to_the_end(&engine);
        Ok(engine)
    }

    /// The same for those who also ask servers what they have: what these answer is
    /// kept, in a database that may have to be created for it.
    pub(crate) async fn catalogue_of_servers(&mut self) -> Result<Engine, Failure> {
        let engine = self.defined()?;
        if engine.providers().all().iter().any(|(_, provider)| provider.mcp.is_some()) {
            self.access = FileAccess::Create;
        }
        self.load_imports(&engine).await?;
        keep_to_the_end(&engine);
        Ok(engine)
    }

    /// The same without the tools of imports: nothing is opened on disk.
    pub(crate) fn defined(&self) -> Result<Engine, Failure> {
        Ok(wiring::load(Engine::builder(), self, None, Serving::default())?.0)
    }

    /// Adds the imports of the tenant that commands are of: the first. They are
    /// megabytes of JSON, so each is read in a task of its own, on all threads of
    /// the runtime.
    pub(crate) async fn load_imports(&self, engine: &Engine) -> Result<(), Failure> {
        let own = TenantId::default();
        let documents = self.documents().await?;
        let names = documents.names(imports::SPACE).await?;
        let reading: Vec<_> = names
            .into_iter()
            .filter(|(tenant, _)| *tenant == own)
            .map(|(tenant, name)| {
                let documents = Arc::clone(documents);
                tokio::spawn(async move {
                    let body = documents.body_text(imports::SPACE, &tenant, &name).await?;
                    let kept = body.and_then(|body| ImportedProvider::of_text(&name, &body));
                    Ok::<_, Error>(kept.transpose()?.map(|kept| (name, kept.parsed())))
                })
            })
            .collect();
        let mut found: Vec<(String, Parsed)> = Vec::with_capacity(reading.len());
        for read in reading {
            let read = read.await.map_err(io::Error::other)?;
            found.extend(read?);
        }
        let sources = found.into_iter().map(|(name, own)| (format!("api/providers/{name}"), own));
        let report = engine.load_all_parsed(None, sources);
        report.errors.iter().for_each(|error| self.screen.warn(error));
        Ok(())
    }

    /// The MCP servers that an engine's providers name. Needs a runtime.
    pub(crate) async fn servers(&self, engine: &Engine, start: Start) -> Result<Servers, Failure> {
        let notebook = StoredNotebook(Arc::clone(self.documents().await?));
        let tokens = VaultTokens(Arc::clone(self.credentials().await?));
        Ok(wiring::servers(engine, self.settings, notebook, tokens, start))
    }
}

/// Keeps the tools until the process ends: taking thousands of schemas apart, value
/// by value, would be a tenth of the time of a command.
fn keep_to_the_end(engine: &Engine) {
    std::mem::forget(engine.registry().list());
}

/// What is kept in memory: no more than fits there.
fn at_most(wanted: u64, most: usize) -> usize {
    usize::try_from(wanted).map_or(most, |wanted| wanted.min(most))
}

/// How a file is opened, with as much of the past as was set.
fn options(records: &RecordSettings) -> Options {
    Options {
        keep_records: records.keep,
        keep_keys: records.keep_keys,
        keep_outputs_bytes: records.keep_outputs_bytes,
        keep_events: records.keep_events,
        ..Options::default()
    }
}

#[cfg(feature = "postgres")]
fn postgres_options(records: &RecordSettings) -> PostgresOptions {
    PostgresOptions {
        keep_records: records.keep,
        keep_keys: records.keep_keys,
        keep_outputs_bytes: records.keep_outputs_bytes,
        keep_events: records.keep_events,
        ..PostgresOptions::default()
    }
}

/// Where master keys come from: the environment, else a file. The one of a
/// database that others may use from elsewhere is not made up here.
pub(crate) fn key_source(settings: &Settings) -> KeySource {
    if let Some(keys) = env::var(MASTER_KEY).ok().filter(|keys| !keys.is_empty()) {
        return KeySource::Environment(keys.into());
    }
    let named = |missing| settings.key_file.clone().map(|path| KeySource::File(path, missing));
    match &settings.database {
        DatabaseLocation::Memory => KeySource::Memory,
        DatabaseLocation::File(path) => named(MissingKeyFile::Make).unwrap_or_else(|| {
            KeySource::File(path.with_file_name(KEY_FILE), MissingKeyFile::Make)
        }),
        #[cfg(feature = "postgres")]
        DatabaseLocation::Postgres(_) => {
            let root = settings.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
            named(MissingKeyFile::Refuse)
                .unwrap_or_else(|| KeySource::File(root.join(KEY_FILE), MissingKeyFile::Refuse))
        }
    }
}

/// Runs a command that waits for something.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    // Two threads: a CPU-bound tool blocks one, and the other handles Ctrl-C.
    run(tokio::runtime::Builder::new_multi_thread().worker_threads(2), work)
}

/// Runs a server, on all processors.
pub(crate) fn block_on_all<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    run(&mut tokio::runtime::Builder::new_multi_thread(), work)
}

fn run<T>(
    runtime: &mut tokio::runtime::Builder,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime = runtime.enable_all().build()?;
    // Boxed, so that the runtime is not compiled again for every command.
    let work: Pin<Box<dyn Future<Output = Result<T, Failure>> + '_>> = Box::pin(work);
    let done = runtime.block_on(work);
    // A task that ignores its cancellation must not prevent the process from exiting.
    runtime.shutdown_background();
    done
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::{env, fs, process};

    use super::*;
    use crate::settings::Embedded;

    /// A folder that goes with the test.
    struct TestFolder(PathBuf);

    impl TestFolder {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("windlass-installation-{}-{number}", process::id());
            let path = env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn settings(&self) -> Settings {
            let file = self.0.join("windlass.db").to_str().unwrap().to_owned();
            let flags = [("--database", vec![file])];
            Settings::of_program(&flags, Embedded { builtin_tools: true }).unwrap()
        }

        /// How many connections this process has to the database.
        fn connections(&self) -> usize {
            let file = self.0.join("windlass.db");
            let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
            open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|path| path == file)).count()
        }
    }

    impl Drop for TestFolder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn quiet() -> Screen {
        Screen { json: false, quiet: true, verbose: false }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_database_is_opened_once() {
        let folder = TestFolder::new();
        let settings = folder.settings();
        let installation = Installation::new(&settings, quiet());
        let engine = installation.engine().await.unwrap();
        // The records have one that writes; the documents have one for themselves and
        // one for events, and one that reads. A fifth looks for what others wrote.
        let opened = folder.connections();
        assert!((1..=4).contains(&opened), "{opened}");
        let documents = Arc::clone(installation.documents().await.unwrap());
        installation.runs().await.unwrap();
        installation.prerequisites().await.unwrap();
        installation.servers(&engine, Start::Needed).await.unwrap().stop().await;
        installation.load_imports(&engine).await.unwrap();
        assert!(Arc::ptr_eq(&documents, installation.documents().await.unwrap()));
        assert!(folder.connections() <= opened + 1, "{opened}");
    }

    #[tokio::test]
    async fn who_only_looks_makes_no_database() {
        let folder = TestFolder::new();
        let settings = folder.settings();
        let installation = Installation::to_look_at(&settings, quiet());
        installation.catalogue().await.unwrap();
        installation.credentials().await.unwrap();
        installation.records().await.unwrap();
        assert_eq!((folder.connections(), fs::read_dir(&folder.0).unwrap().count()), (0, 0));
        Installation::new(&settings, quiet()).documents().await.unwrap();
        assert!(folder.0.join("windlass.db").exists());
    }

    #[test]
    fn nothing_is_opened_before_it_is_asked_for() {
        let folder = TestFolder::new();
        let settings = folder.settings();
        let engine = Installation::new(&settings, quiet()).defined().unwrap();
        assert!(engine.registry().get("calculator").is_some());
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    }
}
