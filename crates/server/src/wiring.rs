//! The one place that names every kind of tool: a row for each in [`Kinds`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;

use windlass::definition::{self, DefinitionLimits, ProviderSpec};
use windlass::{
    Behaviour, Engine, EngineBuilder, Error, ErrorKind, Executor, Kind, Secret, SettingFlaw,
    ToolSpec,
};
use windlass_executors::agent::{AgentSpec, Agents, RunLog};
use windlass_executors::builtin::Builtins;
use windlass_executors::mcp::{Servers, Start};
use windlass_executors::model::{Api, Embeddings, ModelSettings, Models};
use windlass_executors::outbound::Outbound;
use windlass_executors::rest::Rest;
use windlass_executors::{agent, files, network, rest, sql};
use windlass_workflow::store::RunStore;
use windlass_workflow::{Prompt, PromptMaker, Workflows};

use crate::cli::exit::Failure;
use crate::installation::{Installation, Serving};
use crate::mcp::{StoredNotebook, VaultTokens};
use crate::settings::{OutboundSettings, Settings};
use crate::state::imports;

/// What the sources of tools begin with that come with the program.
pub(crate) const SHIPPED: &str = "builtin/";

/// The kinds of tools that definitions may name.
pub(crate) struct Kinds(Vec<KindRow>);

/// A kind, and everything that the program knows of it.
struct KindRow {
    kind: Kind,
    /// The definitions that come with the program: a file name, and the YAML in it.
    shipped: Vec<(String, Cow<'static, str>)>,
    runs: KindRunner,
    /// What is wrong with the settings of an entry.
    flaws: fn(&ToolSpec) -> Vec<SettingFlaw>,
}

/// What runs the tools of a kind.
enum KindRunner {
    /// What their definition is bound to.
    Definition(BindDefinition),
    /// The server that offers them, which a provider names: see [`servers`].
    Server,
}

/// Finds what runs a definition.
type BindDefinition = Box<dyn Fn(&ToolSpec) -> Result<Arc<dyn Executor>, Error> + Send + Sync>;

impl KindRow {
    fn bound(
        kind: Kind,
        bind: impl Fn(&ToolSpec) -> Result<Arc<dyn Executor>, Error> + Send + Sync + 'static,
    ) -> Self {
        let runs = KindRunner::Definition(Box::new(bind));
        Self { kind, shipped: Vec::new(), runs, flaws: |_| Vec::new() }
    }

    fn of_servers(kind: Kind) -> Self {
        Self { kind, shipped: Vec::new(), runs: KindRunner::Server, flaws: |_| Vec::new() }
    }

    fn ships(
        mut self,
        definitions: impl IntoIterator<Item = (impl Into<String>, impl Into<Cow<'static, str>>)>,
    ) -> Self {
        let own = definitions.into_iter().map(|(file, text)| (file.into(), text.into()));
        self.shipped.extend(own);
        self
    }

    fn flaws(mut self, flaws: fn(&ToolSpec) -> Vec<SettingFlaw>) -> Self {
        self.flaws = flaws;
        self
    }
}

impl Kinds {
    /// All kinds, which reach out as far as these settings let them.
    pub(crate) fn new(settings: &OutboundSettings, models: &ModelSettings) -> Self {
        let outbound = Outbound::new(settings.policy.clone());
        let agents = Agents::new(self::models(settings, models));
        let workflows = Workflows::default().prompts(prompts(&agents));
        let rest = Rest::new(outbound.clone());
        Self::with(&outbound, settings, models, rest, agents, workflows)
    }

    fn with(
        outbound: &Outbound,
        settings: &OutboundSettings,
        models: &ModelSettings,
        rest: Rest,
        agents: Agents,
        workflows: Workflows,
    ) -> Self {
        let builtins = Builtins::default()
            .with(network::toolbox(outbound))
            .with(files::toolbox(&settings.files))
            .with(sql::toolbox(outbound, settings.databases.clone()));
        let shipped = builtins.definitions();
        let agents = KindRow::bound(Kind::Agent, move |spec| agents.bind(spec));
        let agents = agents.ships(agent::provider_definitions(models));
        Self(vec![
            KindRow::bound(Kind::Builtin, move |spec| builtins.bind(spec)).ships(shipped),
            KindRow::bound(Kind::Rest, move |spec| rest.bind(spec)).flaws(rest::flaws),
            agents,
            KindRow::bound(Kind::Workflow, move |spec| workflows.bind(spec)),
            KindRow::of_servers(Kind::Mcp),
        ])
    }

    fn row(&self, kind: Kind) -> Option<&KindRow> {
        self.0.iter().find(|row| row.kind == kind)
    }

    /// What runs a definition, or why nothing here does.
    pub(crate) fn bind(&self, spec: &ToolSpec) -> Result<Arc<dyn Executor>, Error> {
        match self.row(spec.kind).map(|row| &row.runs) {
            Some(KindRunner::Definition(bind)) => bind(spec),
            Some(KindRunner::Server) | None => Err(Error::new(
                ErrorKind::ExecutorNotFound,
                format!("this program runs no tools of the kind `{}`", spec.kind),
            )),
        }
    }

    /// What is wrong with the settings of a definition's entry.
    pub(crate) fn flaws(&self, spec: &ToolSpec) -> Vec<SettingFlaw> {
        self.row(spec.kind).map(|row| (row.flaws)(spec)).unwrap_or_default()
    }

    /// The definitions that come with the program, with their sources.
    fn shipped(&mut self) -> impl Iterator<Item = (String, Cow<'static, str>)> {
        let all = self.0.iter_mut().flat_map(|row| std::mem::take(&mut row.shipped));
        all.map(|(file, text)| (format!("{SHIPPED}{file}"), text))
    }
}

/// The models that agents ask. A key that nobody has stored comes from the
/// environment: `NAME_API_KEY` for the provider `name`.
fn models(outbound: &OutboundSettings, settings: &ModelSettings) -> Models {
    let variable = |provider: &str| {
        format!("{}_API_KEY", provider.to_ascii_uppercase().replace(['-', '.'], "_"))
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

/// The MCP servers that an engine's providers name, from now on. Needs a runtime.
pub(crate) fn servers(
    engine: &Engine,
    settings: &Settings,
    notebook: StoredNotebook,
    tokens: VaultTokens,
    start: Start,
) -> Servers {
    let policy = settings.outbound.policy.clone();
    Servers::follow(engine, Arc::new(notebook), Arc::new(tokens), policy, start)
}

/// The providers that definitions describe, by name; those of the user win over
/// those that come with the program.
pub(crate) fn providers(settings: &Settings) -> BTreeMap<String, ProviderSpec> {
    let folders = settings.tools.iter().filter(|folder| folder.path.is_dir());
    let files = folders.flat_map(|folder| definition::load_folder(&folder.path).files);
    let mut kinds = Kinds::new(&settings.outbound, &settings.models);
    let shipped = kinds
        .shipped()
        .map(|(source, text)| definition::parse_all(&source, &text, &DefinitionLimits::default()));
    let read = files.map(|file| file.outcome).chain(shipped);
    let found = read.filter_map(Result::ok).flat_map(|parsed| parsed.providers);
    let mut providers = BTreeMap::new();
    for provider in found {
        providers.entry(provider.name.clone()).or_insert(provider);
    }
    providers
}

/// Where runs are kept.
pub(crate) struct KeptRuns {
    pub(crate) agents: Arc<dyn RunLog>,
    pub(crate) workflows: Arc<dyn RunStore>,
}

/// What makes the tools of `prompt` steps: agents that answer once, without tools.
fn prompts(agents: &Agents) -> PromptMaker {
    let agents = agents.clone();
    Arc::new(move |prompt: &Prompt| {
        let model = prompt.model.clone().ok_or_else(|| {
            let why = "a `prompt` needs a `model`, such as `claude-sonnet-4-20250514`";
            Error::new(ErrorKind::InvalidDefinition, why)
        })?;
        let system = prompt.system.clone().unwrap_or_default();
        let system = match &prompt.schema {
            None => system,
            Some(schema) => format!(
                "{system}\n\nAnswer with JSON alone, without any other text, that fits this \
                 JSON Schema: {schema}"
            ),
        };
        let mut spec = AgentSpec::new(model);
        spec.system = system.trim().into();
        spec.temperature = prompt.temperature;
        spec.max_turns = 1;
        spec.max_tokens = prompt.max_tokens.unwrap_or(spec.max_tokens);
        spec.input_template = Some("{{message}}".to_owned());
        let asks = agents.tool(&prompt.name, spec)?;
        // Asking again changes nothing.
        asks.behaviour(Behaviour::READ_ONLY).build("workflow")
    })
}

/// Makes an engine with all tools that are defined: those of the user, and those
/// that come with the program.
pub(crate) fn load(
    builder: EngineBuilder,
    installation: &Installation<'_>,
    runs: Option<KeptRuns>,
    serving: Serving,
) -> Result<(Engine, Workflows), Failure> {
    let (settings, screen) = (installation.settings, installation.screen);
    let models = models(&settings.outbound, &settings.models);
    let models = match serving.tracer {
        Some(tracer) => models.observed(move |chat| tracer.chat(chat)),
        None => models,
    };
    let agents = Agents::new(models).lang(settings.lang);
    let (agents, workflows) = match runs {
        Some(KeptRuns { agents: log, workflows }) => (agents.log(log), Workflows::new(workflows)),
        None => (agents, Workflows::default()),
    };
    let workflows =
        workflows.limits(settings.workflows.clone()).lang(settings.lang).prompts(prompts(&agents));
    let outbound = installation.outbound();
    let rest = serving.ask.into_iter().fold(Rest::new(outbound.clone()), Rest::ask_consent);
    let mut kinds = Kinds::with(
        outbound,
        &settings.outbound,
        &settings.models,
        rest,
        agents,
        workflows.clone(),
    );
    let shipped: Vec<_> = kinds.shipped().collect();
    let builder = kinds.0.into_iter().fold(builder, |builder, row| match row.runs {
        KindRunner::Definition(bind) => builder.kind(row.kind, bind),
        KindRunner::Server => builder,
    });
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
    if settings.embedded.is_none_or(|program| program.builtin_tools) {
        shipped.iter().for_each(|(source, _)| engine.providers().give_way(source));
        engine.load_texts(shipped.into_iter().map(|(source, text)| (source, text.into_owned())));
    }
    Ok((engine, workflows))
}
