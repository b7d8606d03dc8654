//! The one place that names every kind of tool and every store.

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use windlass::definition::{self, Limits, Parsed, ProviderSpec};
use windlass::{
    Engine, EngineBuilder, Error, Executor, Kind, MemoryStore, RecordStore, Secret, TenantId,
    ToolSpec,
};
use windlass_executors::agent::{Agents, RunLog};
use windlass_executors::builtin::Builtins;
use windlass_executors::model::{Api, Embeddings, ModelSettings, Models};
use windlass_executors::outbound::Outbound;
use windlass_executors::rest::{AskConsent, Rest};
use windlass_executors::{agent, files, network, sql};
use windlass_store::{Documents, MemoryDocuments, Options, SqliteDocuments, SqliteStore};
#[cfg(feature = "postgres")]
use windlass_store::{PostgresDocuments, PostgresOptions, PostgresStore, PostgresUrl};

use crate::cli::exit::Failure;
use crate::cli::output::Screen;
use crate::http::Metrics;
use crate::human::approvals::NoDesk;
use crate::settings::{Database, OutboundSettings, RecordSettings, Settings};
use crate::state::credential_source::VaultSource;
use crate::state::imports;
use crate::state::runs::KeptRuns;
use crate::state::vault::{Credentials, Grants, KEY_FILE, KeySource, MASTER_KEY, Missing, Vault};
use crate::telemetry::Tracer;

/// Finds what runs a definition.
type Bind = Box<dyn Fn(&ToolSpec) -> Result<Arc<dyn Executor>, Error> + Send + Sync>;

/// What the sources of tools begin with that come with the program.
pub(crate) const SHIPPED: &str = "builtin/";

/// The kinds of tools that definitions may name.
pub(crate) struct Kinds {
    kinds: Vec<(Kind, Bind)>,
    /// The tools that come with the program: a file name, and the YAML in it.
    definitions: Vec<(String, String)>,
}

impl Kinds {
    /// All kinds, which reach out as far as these settings let them.
    pub(crate) fn new(settings: &OutboundSettings, models: &ModelSettings) -> Self {
        Self::asking(settings, models, None, Agents::new(self::models(settings, models)))
    }

    /// The same, where people can be asked to agree, and with these agents.
    fn asking(
        settings: &OutboundSettings,
        models: &ModelSettings,
        ask: Option<AskConsent>,
        agents: Agents,
    ) -> Self {
        let outbound = Outbound::new(settings.policy.clone());
        let builtins = Builtins::default()
            .with(network::toolbox(&outbound))
            .with(files::toolbox(&settings.files))
            .with(sql::toolbox(&outbound, settings.databases.clone()));
        let rest = Rest::new(outbound);
        let rest = ask.into_iter().fold(rest, Rest::ask_consent);
        let shipped = builtins.definitions().into_iter().chain(agent::DEFINITIONS.to_vec());
        let shipped = shipped.map(|(file, text)| (file.to_owned(), text.to_owned()));
        Self {
            definitions: shipped.chain(agent::provider_definitions(models)).collect(),
            kinds: vec![
                (Kind::Builtin, Box::new(move |spec| builtins.bind(spec))),
                (Kind::Rest, Box::new(move |spec| rest.bind(spec))),
                (Kind::Agent, Box::new(move |spec| agents.bind(spec))),
            ],
        }
    }

    /// What runs a definition, or why nothing here does.
    pub(crate) fn bind(&self, spec: &ToolSpec) -> Result<Arc<dyn Executor>, Error> {
        match self.kinds.iter().find(|(kind, _)| *kind == spec.kind) {
            Some((_, bind)) => bind(spec),
            None => Err(Error::new(
                windlass::ErrorKind::ExecutorNotFound,
                format!("this program runs no tools of the kind `{}`", spec.kind),
            )),
        }
    }
}

/// An engine with all tools, which keeps its records in the database.
pub(crate) fn engine(settings: &Settings, screen: &Screen) -> Result<Engine, Failure> {
    let builder = match &settings.database {
        Database::Memory => Engine::builder(),
        Database::File(path) => {
            Engine::builder().store(SqliteStore::open_with(path, options(&settings.records))?)
        }
        #[cfg(feature = "postgres")]
        Database::Postgres(url) => {
            Engine::builder().store(block_on(postgres(url, &settings.records))?)
        }
    };
    let kept = block_on(Kept::open(settings))?;
    let (source, asked) = VaultSource::new(kept.credentials, kept.grants, outbound(settings));
    let builder = builder.credentials(source).approvals(NoDesk(settings.approvals.clone()));
    let engine = load(builder, settings, screen, None, Some(Arc::new(kept.runs)), None)?;
    let _ = asked.set(engine.clone());
    load_imports(&engine, kept.providers, screen);
    keep_to_the_end(&engine);
    Ok(engine)
}

/// What was imported as a provider: its name, and what an engine loads of it.
type Imported = (String, Parsed);

/// The imports of the tenant that commands are of: the first. They are megabytes
/// of JSON, so each is read in a task of its own, on all threads of the runtime.
pub(crate) async fn own_imports(documents: &Arc<dyn Documents>) -> Result<Vec<Imported>, Failure> {
    let own = TenantId::default();
    let names = documents.names(imports::SPACE).await?;
    let reading: Vec<_> = names
        .into_iter()
        .filter(|(tenant, _)| *tenant == own)
        .map(|(tenant, name)| {
            let documents = Arc::clone(documents);
            tokio::spawn(async move {
                let document = documents.get(imports::SPACE, &tenant, &name).await?;
                let kept = document.and_then(imports::Kept::take).transpose()?;
                Ok::<_, Error>(kept.map(|kept| (name, kept.parsed())))
            })
        })
        .collect();
    let mut imports = Vec::with_capacity(reading.len());
    for read in reading {
        let read = read.await.map_err(io::Error::other)?;
        imports.extend(read?);
    }
    Ok(imports)
}

/// Keeps the tools until the process ends: taking thousands of schemas apart, value
/// by value, would be a tenth of the time of a command.
fn keep_to_the_end(engine: &Engine) {
    std::mem::forget(engine.registry().list());
}

/// What commands need of what is kept besides records.
struct Kept {
    credentials: Arc<Credentials>,
    grants: Arc<Grants>,
    providers: Vec<Imported>,
    runs: KeptRuns,
}

impl Kept {
    async fn open(settings: &Settings) -> Result<Self, Failure> {
        let documents = kept_documents(&settings.database).await?;
        let credentials = Arc::new(credentials(settings, &documents)?);
        let grants = Arc::new(Grants::new(Arc::clone(&documents), Arc::clone(&credentials)));
        let providers = own_imports(&documents).await?;
        let runs = KeptRuns(documents);
        Ok(Self { credentials, grants, providers, runs })
    }
}

/// The providers that were imported.
pub(crate) fn load_imports(engine: &Engine, imports: Vec<Imported>, screen: &Screen) {
    let sources = imports.into_iter().map(|(name, own)| (format!("api/providers/{name}"), own));
    let report = engine.load_all_parsed(None, sources);
    report.errors.iter().for_each(|error| screen.warn(error));
}

/// The models that agents ask. A key that nobody has stored comes from the
/// environment: `NAME_API_KEY` for the provider `name`.
fn models(outbound: &OutboundSettings, settings: &ModelSettings) -> Models {
    let variable = |provider: &str| {
        let known = Api::ALL.into_iter().find(|api| api.provider() == provider);
        known.map_or_else(
            || format!("{}_API_KEY", provider.to_ascii_uppercase().replace(['-', '.'], "_")),
            |api| api.key_variable().to_owned(),
        )
    };
    let known = Api::ALL.into_iter().map(|api| api.provider().to_owned());
    let keys = known.chain(settings.providers.keys().cloned()).filter_map(|provider| {
        let key = env::var(variable(&provider)).ok().filter(|key| !key.is_empty())?;
        Some((provider, Secret::new(key)))
    });
    Models::new(settings.clone(), outbound.policy.clone()).with_keys(keys.collect())
}

/// The model that tools are searched with besides words, where one was set.
fn embedding(settings: &Settings) -> Result<Option<Embeddings>, Failure> {
    let Some(name) = settings.search.embedding_model.as_deref() else { return Ok(None) };
    let models = models(&settings.outbound, &settings.models);
    let embeddings = Embeddings::new(models, name)
        .map_err(|error| Failure::usage(format!("search.embedding_model: {}", error.message())))?;
    Ok(Some(embeddings))
}

/// The guarded way out.
pub(crate) fn outbound(settings: &Settings) -> Outbound {
    Outbound::new(settings.outbound.policy.clone())
}

/// An engine with all tools for those who only look at them: nothing is
/// opened or created on disk.
pub(crate) fn catalogue(settings: &Settings, screen: &Screen) -> Result<Engine, Failure> {
    let engine = defined(settings, screen)?;
    let imports =
        block_on(async { own_imports(&kept_documents(&settings.database).await?).await })?;
    load_imports(&engine, imports, screen);
    keep_to_the_end(&engine);
    Ok(engine)
}

/// The names of all tools but those of imports: an import gives none of them
/// again.
pub(crate) fn defined_names(
    settings: &Settings,
    screen: &Screen,
) -> Result<HashSet<String>, Failure> {
    Ok(imports::names_of(&defined(settings, screen)?.registry().list()))
}

/// An engine with all tools but those of imports, to be looked at.
pub(crate) fn defined(settings: &Settings, screen: &Screen) -> Result<Engine, Failure> {
    load(Engine::builder(), settings, screen, None, None, None)
}

/// The same for a server: what ends is counted, and traced where that was set.
pub(crate) async fn serving(
    builder: EngineBuilder,
    settings: &Settings,
    screen: Screen,
    metrics: &Arc<Metrics>,
    tracer: Option<Arc<Tracer>>,
    ask: Option<AskConsent>,
    runs: Arc<dyn RunLog>,
) -> Result<Engine, Failure> {
    let metrics = Arc::clone(metrics);
    let follower = tracer.clone();
    let builder = builder.on_record(move |record| {
        metrics.count(record);
        tracer.iter().for_each(|tracer| tracer.call(record));
    });
    let builder = match &settings.database {
        Database::Memory => builder.store(MemoryStore::new()),
        Database::File(path) => {
            builder.store(SqliteStore::open_with(path, options(&settings.records))?)
        }
        #[cfg(feature = "postgres")]
        Database::Postgres(url) => builder.store(postgres(url, &settings.records).await?),
    };
    load(builder, settings, &screen, ask, Some(runs), follower)
}

/// What a server keeps besides records.
pub(crate) async fn documents(database: &Database) -> Result<Arc<dyn Documents>, Failure> {
    documents_with(database, &RecordSettings::default()).await
}

/// The same, with as many events as was set.
pub(crate) async fn documents_with(
    database: &Database,
    records: &RecordSettings,
) -> Result<Arc<dyn Documents>, Failure> {
    Ok(match database {
        Database::Memory => Arc::new(MemoryDocuments::new()),
        Database::File(path) => Arc::new(SqliteDocuments::open_with(path, options(records))?),
        #[cfg(feature = "postgres")]
        Database::Postgres(url) => {
            Arc::new(PostgresDocuments::connect_to(url, postgres_options(records)).await?)
        }
    })
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

/// The same for those who only look. A database that does not exist yet is not
/// created to be read.
pub(crate) async fn kept_documents(database: &Database) -> Result<Arc<dyn Documents>, Failure> {
    match database {
        Database::File(path) if !path.exists() => documents(&Database::Memory).await,
        database => documents(database).await,
    }
}

/// The credentials in these documents, and the keys that seal them.
pub(crate) fn credentials(
    settings: &Settings,
    documents: &Arc<dyn Documents>,
) -> Result<Credentials, Failure> {
    let vault = Vault::new(Arc::clone(documents), key_source(settings))?;
    Ok(Credentials::new(Arc::clone(documents), vault))
}

/// Where master keys come from: the environment, else a file. The one of a
/// database that others may use from elsewhere is not made up here.
pub(crate) fn key_source(settings: &Settings) -> KeySource {
    if let Some(keys) = env::var(MASTER_KEY).ok().filter(|keys| !keys.is_empty()) {
        return KeySource::Environment(keys.into());
    }
    let named = |missing| settings.key_file.clone().map(|path| KeySource::File(path, missing));
    match &settings.database {
        Database::Memory => KeySource::Memory,
        Database::File(path) => named(Missing::Make)
            .unwrap_or_else(|| KeySource::File(path.with_file_name(KEY_FILE), Missing::Make)),
        #[cfg(feature = "postgres")]
        Database::Postgres(_) => {
            let root = settings.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
            named(Missing::Refuse)
                .unwrap_or_else(|| KeySource::File(root.join(KEY_FILE), Missing::Refuse))
        }
    }
}

/// The providers that definitions describe, by name; those of the user win over
/// those that come with the program.
pub(crate) fn providers(settings: &Settings) -> BTreeMap<String, ProviderSpec> {
    let folders = settings.tools.iter().filter(|folder| folder.path.is_dir());
    let files = folders.flat_map(|folder| definition::load_folder(&folder.path).files);
    let shipped = Kinds::new(&settings.outbound, &settings.models).definitions.into_iter();
    let shipped =
        shipped.map(|(file, text)| definition::parse_all(&file, &text, &Limits::default()));
    let read = files.map(|file| file.outcome).chain(shipped);
    let found = read.filter_map(Result::ok).flat_map(|parsed| parsed.providers);
    let mut providers = BTreeMap::new();
    for provider in found {
        providers.entry(provider.name.clone()).or_insert(provider);
    }
    providers
}

/// The records. A database that does not exist yet is not created to be read.
pub(crate) async fn records(database: &Database) -> Result<Box<dyn RecordStore>, Failure> {
    Ok(match database {
        Database::File(path) if path.exists() => Box::new(SqliteStore::open(path)?),
        Database::File(_) | Database::Memory => Box::new(MemoryStore::new()),
        #[cfg(feature = "postgres")]
        Database::Postgres(url) => Box::new(postgres(url, &RecordSettings::default()).await?),
    })
}

/// The store has a runtime of its own, so it outlives the one that waits here.
#[cfg(feature = "postgres")]
async fn postgres(url: &PostgresUrl, records: &RecordSettings) -> Result<PostgresStore, Failure> {
    Ok(PostgresStore::connect_to(url, postgres_options(records)).await?)
}

fn load(
    builder: EngineBuilder,
    settings: &Settings,
    screen: &Screen,
    ask: Option<AskConsent>,
    runs: Option<Arc<dyn RunLog>>,
    tracer: Option<Arc<Tracer>>,
) -> Result<Engine, Failure> {
    let models = models(&settings.outbound, &settings.models);
    let models = match tracer {
        Some(tracer) => models.observed(move |chat| tracer.chat(chat)),
        None => models,
    };
    let agents = Agents::new(models).lang(settings.lang);
    let agents = runs.into_iter().fold(agents, Agents::log);
    let Kinds { kinds, definitions } =
        Kinds::asking(&settings.outbound, &settings.models, ask, agents);
    let builder = kinds.into_iter().fold(builder, |builder, (kind, bind)| builder.kind(kind, bind));
    let builder = builder.importer(imports::of_definition);
    let builder = match embedding(settings)? {
        Some(embedder) => builder.search_embedder(embedder),
        None => builder,
    };
    let builder = match settings.embedded {
        Some(_) => builder,
        None => builder.settings(|own| own.clone_from(&settings.engine)),
    };
    let engine = builder.output_tool().search_tool().build()?;
    for folder in &settings.tools {
        if folder.path.is_dir() {
            let report = engine.load_folder(&folder.path);
            report.errors.iter().chain(&report.notes).for_each(|told| screen.warn(told));
        } else if folder.asked_for {
            screen.warn(format_args!("{}: no such folder of tools", folder.path.display()));
        }
    }
    // Last, so that a definition of the user's wins over a built-in of its
    // name. That a name is taken is the only thing which can be wrong here.
    let wanted = settings.embedded.is_none_or(|program| program.builtin_tools);
    let shipped = definitions.into_iter().filter(|_| wanted);
    let shipped: Vec<(String, String)> =
        shipped.map(|(file, text)| (format!("{SHIPPED}{file}"), text)).collect();
    shipped.iter().for_each(|(source, _)| engine.providers().give_way(source));
    engine.load_texts(shipped);
    Ok(engine)
}

/// Runs a command that waits for something. It is boxed, so that what a runtime
/// does with a future is compiled once and not for every command.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime()?;
    let work: Pin<Box<dyn Future<Output = Result<T, Failure>> + '_>> = Box::pin(work);
    let done = runtime.block_on(work);
    // What ignores its cancellation must not keep the program from ending.
    runtime.shutdown_background();
    done
}

/// Runs a server, on all processors.
pub(crate) fn block_on_all<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    // A tool that computes keeps one thread busy; the other hears Ctrl-C.
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}
