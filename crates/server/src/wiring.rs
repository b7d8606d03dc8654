//! The one place that names every kind of tool and every store.

use std::io;
use std::sync::Arc;

use windlass::{Engine, EngineBuilder, Error, Executor, Kind, MemoryStore, RecordStore, ToolSpec};
use windlass_executors::builtin;
use windlass_store::{Documents, MemoryDocuments, SqliteStore};
#[cfg(feature = "postgres")]
use windlass_store::{PostgresOptions, PostgresStore, PostgresUrl};

use crate::exit::Failure;
use crate::http::{Counted, Metrics};
use crate::output::Screen;
use crate::settings::{Database, Settings};

/// Finds what runs a definition.
type Bind = fn(&ToolSpec) -> Result<Arc<dyn Executor>, Error>;

/// The kinds of tools that definitions may name.
const KINDS: &[(Kind, Bind)] = &[(Kind::Builtin, builtin::bind)];

/// An engine with all tools, which keeps its records in the database.
pub(crate) fn engine(settings: &Settings, screen: &Screen) -> Result<Engine, Failure> {
    let builder = match &settings.database {
        Database::Memory => Engine::builder(),
        Database::File(path) => Engine::builder().store(SqliteStore::open(path)?),
        #[cfg(feature = "postgres")]
        Database::Postgres(url) => Engine::builder().store(block_on(postgres(url))?),
    };
    load(builder, settings, screen)
}

/// An engine with all tools for those who only look at them: nothing is
/// opened or created on disk.
pub(crate) fn catalogue(settings: &Settings, screen: &Screen) -> Result<Engine, Failure> {
    load(Engine::builder(), settings, screen)
}

/// The same for a server: what ends is counted.
pub(crate) async fn serving(
    settings: &Settings,
    screen: Screen,
    metrics: &Arc<Metrics>,
) -> Result<Engine, Failure> {
    let metrics = || Arc::clone(metrics);
    let builder = match &settings.database {
        Database::Memory => {
            Engine::builder().store(Counted { store: MemoryStore::new(), metrics: metrics() })
        }
        Database::File(path) => {
            let store = SqliteStore::open(path)?;
            Engine::builder().store(Counted { store, metrics: metrics() })
        }
        #[cfg(feature = "postgres")]
        Database::Postgres(url) => {
            let store = postgres(url).await?;
            Engine::builder().store(Counted { store, metrics: metrics() })
        }
    };
    load(builder, settings, &screen)
}

/// What a server keeps besides records.
pub(crate) async fn documents(database: &Database) -> Result<Arc<dyn Documents>, Failure> {
    Ok(match database {
        _ => Arc::new(MemoryDocuments::new()),
    })
}

/// The records. A database that does not exist yet is not created to be read.
pub(crate) async fn records(database: &Database) -> Result<Box<dyn RecordStore>, Failure> {
    Ok(match database {
        Database::File(path) if path.exists() => Box::new(SqliteStore::open(path)?),
        Database::File(_) | Database::Memory => Box::new(MemoryStore::new()),
        #[cfg(feature = "postgres")]
        Database::Postgres(url) => Box::new(postgres(url).await?),
    })
}

/// The store has a runtime of its own, so it outlives the one that waits here.
#[cfg(feature = "postgres")]
async fn postgres(url: &PostgresUrl) -> Result<PostgresStore, Failure> {
    Ok(PostgresStore::connect_to(url, PostgresOptions::default()).await?)
}

/// What runs a definition, or why nothing here does.
pub(crate) fn bind(spec: &ToolSpec) -> Result<Arc<dyn Executor>, Error> {
    match KINDS.iter().find(|(kind, _)| *kind == spec.kind) {
        Some((_, bind)) => bind(spec),
        None => Err(Error::new(
            windlass::ErrorKind::ExecutorNotFound,
            format!("this program runs no tools of the kind `{}`", spec.kind),
        )),
    }
}

fn load(builder: EngineBuilder, settings: &Settings, screen: &Screen) -> Result<Engine, Failure> {
    let builder = KINDS.iter().fold(builder, |builder, (kind, bind)| builder.kind(*kind, bind));
    let engine = builder.output_tool().settings(|own| own.clone_from(&settings.engine)).build()?;
    for folder in &settings.tools {
        if folder.path.is_dir() {
            let report = engine.load_folder(&folder.path);
            report.errors.iter().for_each(|error| screen.warn(error));
        } else if folder.asked_for {
            screen.warn(format_args!("{}: no such folder of tools", folder.path.display()));
        }
    }
    // Last, so that a definition of the user's wins over a built-in of its
    // name. That a name is taken is the only thing which can be wrong here.
    for (file, text) in builtin::DEFINITIONS {
        engine.load_text(&format!("builtin/{file}"), text);
    }
    Ok(engine)
}

/// Runs a command that waits for something.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime()?;
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
