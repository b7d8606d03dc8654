//! `windlass providers`: manages APIs and MCP servers as providers of tools.

mod mcp;
mod show;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use clap::{Args, Subcommand};
use windlass::TenantId;
use windlass_executors::mcp::{Note, Notebook};
use windlass_executors::rest::{Auth, Import, ImportOptions, Names, Selector};
use windlass_store::{Documents, Expect};

use crate::cli::exit::{Exit, Failure};
use crate::cli::options;
use crate::cli::output::Screen;
use crate::installation::{Installation, block_on};
use crate::mcp::StoredNotebook;
use crate::settings::Settings;
use crate::state::audit::Audit;
use crate::state::imports::{self, ApiDocument, ImportSummary, ImportedProvider, SPACE};
use crate::wiring;

/// How often a change is tried where others change the same provider.
const ATTEMPTS: usize = 8;

/// Import APIs as tools, list them, and keep them up to date
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct ProvidersArgs {
    #[command(subcommand)]
    action: ProvidersAction,
    /// The tenant whose providers to manage
    #[arg(long, global = true, value_name = "ID", default_value = "default")]
    tenant: String,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a run has one of it")]
enum ProvidersAction {
    /// Make every operation of an OpenAPI or Swagger document a tool, or add an MCP server
    Add {
        /// What to call the provider
        name: String,
        /// The API document: a file, a URL, or - for stdin; with --mcp, the URL of an MCP server
        #[arg(required_unless_present = "command")]
        document: Option<String>,
        /// The URL is that of an MCP server
        #[arg(long, requires = "document")]
        mcp: bool,
        #[command(flatten)]
        server: mcp::ServerArgs,
        /// The command of a local MCP server, after --
        #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["document", "dry_run"])]
        command: Vec<String>,
        /// Dry run: show what would be imported, and store nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        options: OptionArgs,
    },
    /// List the providers
    List,
    /// Show a provider: its tools, its credentials, what waits to be accepted
    Show {
        /// Its name
        name: String,
    },
    /// Import again, and show what was added, removed and changed
    #[command(after_help = "Options that are not given stay as they were.")]
    Update {
        /// Its name
        name: String,
        /// The document, where it does not come from an address
        document: Option<String>,
        /// Dry run: show the changes, and apply none
        #[arg(long)]
        dry_run: bool,
        /// Accept the changed tools, so that they run without approval
        #[arg(long)]
        accept: bool,
        /// How requests authenticate from now on
        #[arg(long, value_name = "HOW")]
        auth: Option<Auth>,
    },
    /// Accept changes of tools, so that they run without asking
    Accept {
        /// The provider
        name: String,
        /// The tools; all changed ones if none is given
        #[arg(value_name = "TOOL")]
        names: Vec<String>,
    },
    /// Remove a provider with its tools
    Remove {
        /// Its name
        name: String,
        /// Delete its credentials, too
        #[arg(long, conflicts_with = "keep_credentials")]
        remove_credentials: bool,
        /// Keep its credentials for a provider of the same name, without a note
        #[arg(long)]
        keep_credentials: bool,
    },
}

/// What to make of a document.
#[derive(Debug, Default, PartialEq, Args)]
struct OptionArgs {
    /// How requests authenticate, overriding the document: none, bearer, basic,
    /// header:NAME, query:NAME, cookie:NAME, or scheme:NAME for one of the document's
    #[arg(long, value_name = "HOW")]
    auth: Option<Auth>,
    /// List none of the tools; they are found by search
    #[arg(long)]
    deferred: bool,
    /// Do not list these operations; they are found by search
    #[arg(long, value_name = "WHICH")]
    defer: Vec<String>,
    /// Base URL of the API, overriding the document
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Only these operations: tag:NAME, GET, '/path/*', 'GET /path/*' or an operationId
    #[arg(long, value_name = "WHICH")]
    include: Vec<String>,
    /// All operations but these
    #[arg(long, value_name = "WHICH")]
    exclude: Vec<String>,
    /// Only operations with this tag
    #[arg(long, value_name = "TAG")]
    include_tag: Vec<String>,
    /// No operations with this tag
    #[arg(long, value_name = "TAG")]
    exclude_tag: Vec<String>,
    /// Rename a tool: OPERATION=NAME
    #[arg(long, value_name = "OPERATION=NAME", value_parser = parse_rename)]
    rename: Vec<(String, String)>,
    /// Prefix of all tool names
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// These operations are read-only, whatever their method
    #[arg(long, value_name = "WHICH")]
    read_only: Vec<String>,
    /// These operations are idempotent
    #[arg(long, value_name = "WHICH")]
    idempotent: Vec<String>,
    /// These operations are destructive
    #[arg(long, value_name = "WHICH")]
    destructive: Vec<String>,
    /// These operations need an approval
    #[arg(long, value_name = "WHICH")]
    ask: Vec<String>,
    /// Maximum length of a description, in characters
    #[arg(long, value_name = "N")]
    max_description: Option<usize>,
    /// Maximum size of a tool's schema, in bytes
    #[arg(long, value_name = "N")]
    max_schema_bytes: Option<usize>,
    /// Maximum number of tools
    #[arg(long, value_name = "N")]
    max_tools: Option<usize>,
    /// Maximum number of files that the document may reference
    #[arg(long, value_name = "N")]
    max_files: Option<usize>,
}

fn parse_rename(text: &str) -> Result<(String, String), String> {
    let (operation, name) = text.rsplit_once('=').ok_or("write OPERATION=NAME")?;
    Ok((operation.trim().to_owned(), name.trim().to_owned()))
}

impl OptionArgs {
    /// None of these means anything to an MCP server.
    fn refuse_any(&self) -> Result<(), Failure> {
        if *self == Self::default() {
            return Ok(());
        }
        Err(Failure::usage("an MCP server says itself what its tools are").hint(
            "--auth, --include and the other options of an import are for API documents; \
             --header sets what a server's address is sent",
        ))
    }

    fn read(&self) -> ImportOptions {
        let all = |texts: &[String]| texts.iter().map(Selector::new).collect::<Vec<_>>();
        let tags = |tags: &[String]| {
            tags.iter().map(|tag| Selector::new(format!("tag:{tag}"))).collect::<Vec<_>>()
        };
        let both = |texts: &[String], by_tag: &[String]| [all(texts), tags(by_tag)].concat();
        ImportOptions {
            base_url: self.base_url.clone(),
            include: both(&self.include, &self.include_tag),
            exclude: both(&self.exclude, &self.exclude_tag),
            rename: self.rename.iter().cloned().collect(),
            prefix: self.prefix.clone(),
            read_only: all(&self.read_only),
            idempotent: all(&self.idempotent),
            destructive: all(&self.destructive),
            ask: all(&self.ask),
            max_description: self.max_description,
            max_schema_bytes: self.max_schema_bytes,
            max_tools: self.max_tools,
            max_files: self.max_files,
            defer: if self.deferred { vec![Selector::new("/*")] } else { all(&self.defer) },
            auth: self.auth.clone(),
            headers: BTreeMap::new(),
        }
    }
}

fn after_help() -> String {
    options::examples(&[
        (
            "What would come of a document",
            "windlass providers add petstore ./petstore.yaml --dry-run",
        ),
        ("Every operation becomes a tool", "windlass providers add petstore ./petstore.yaml"),
        (
            "Only what reads, from an address",
            "windlass providers add github https://example.com/openapi.json --include 'GET /repos/*'",
        ),
        (
            "Ask a person before anything is deleted",
            "windlass providers add crm crm.json --ask DELETE",
        ),
        (
            "The tools of an MCP server",
            "windlass providers add files -- npx -y @modelcontextprotocol/server-filesystem /srv",
        ),
        (
            "Of one at an address",
            "windlass providers add github --mcp https://api.githubcopilot.com/mcp/",
        ),
        (
            "A document that does not say how to log in",
            "windlass providers add github github.json --auth bearer",
        ),
        ("Its credential", "windlass credentials set petstore"),
        ("The API has changed", "windlass providers update petstore ./petstore.yaml"),
        ("The changes are fine", "windlass providers accept petstore"),
    ])
}

/// Runs the command.
pub(crate) fn run(
    args: ProvidersArgs,
    settings: &Settings,
    screen: Screen,
) -> Result<Exit, Failure> {
    let gives_names = match &args.action {
        ProvidersAction::Add { mcp, command, .. } => !mcp && command.is_empty(),
        ProvidersAction::Update { .. } => true,
        _ => false,
    };
    block_on(async {
        let keeps = matches!(args.action, ProvidersAction::Add { dry_run: false, .. });
        let installation = match keeps {
            true => Installation::new(settings, screen),
            false => Installation::to_look_at(settings, screen),
        };
        // Names that tools have already, but for those of imports, which give none of
        // them again.
        let taken = match gives_names {
            true => imports::names_of(&installation.defined()?.registry().list()),
            false => HashSet::new(),
        };
        let documents = Arc::clone(installation.documents().await?);
        let tenant = TenantId::new(args.tenant);
        let command = ProviderCommands {
            installation: &installation,
            documents,
            tenant,
            taken,
            settings,
            screen,
        };
        match args.action {
            ProvidersAction::Add { name, document, mcp: true, server, options, .. } => {
                options.refuse_any()?;
                mcp::add_address(&name, &document.unwrap_or_default(), &server, settings, screen)?;
            }
            ProvidersAction::Add { name, server, command, options, .. } if !command.is_empty() => {
                options.refuse_any()?;
                mcp::add_command(&name, &command, &server, settings, screen)?;
            }
            ProvidersAction::Add { name, document, dry_run, server, options, .. } => {
                let document = document.unwrap_or_default();
                let options = ImportOptions { headers: server.of_document()?, ..options.read() };
                command.add(&name, &document, dry_run, options).await?;
            }
            ProvidersAction::List => command.list().await?,
            ProvidersAction::Show { name } => command.show(&name).await?,
            ProvidersAction::Update { name, document, dry_run, accept, auth } => {
                let how = Updating { dry_run, accept, auth };
                command.update(&name, document.as_deref(), &how).await?;
            }
            ProvidersAction::Accept { name, names } => command.accept(&name, &names).await?,
            ProvidersAction::Remove { name, remove_credentials, keep_credentials } => {
                let afterwards = match (remove_credentials, keep_credentials) {
                    (true, _) => RemovedCredentials::Remove,
                    (false, true) => RemovedCredentials::Keep,
                    (false, false) => RemovedCredentials::KeepAndTell,
                };
                command.remove(&name, afterwards).await?;
            }
        }
        Ok(Exit::Success)
    })
}

/// How a document is imported again.
struct Updating {
    dry_run: bool,
    accept: bool,
    auth: Option<Auth>,
}

/// What becomes of the credentials of a provider that is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RemovedCredentials {
    Remove,
    Keep,
    KeepAndTell,
}

/// Where one command is done.
struct ProviderCommands<'a> {
    installation: &'a Installation<'a>,
    documents: Arc<dyn Documents>,
    tenant: TenantId,
    /// The names of tools that were not imported.
    taken: HashSet<String>,
    settings: &'a Settings,
    screen: Screen,
}

impl ProviderCommands<'_> {
    async fn add(
        &self,
        name: &str,
        document: &str,
        dry_run: bool,
        options: ImportOptions,
    ) -> Result<(), Failure> {
        let source = self.source(document).await?;
        let names = Names { taken: self.taken(name).await?, ..Names::default() };
        let import = source.import(name, &options, &names).map_err(Failure::named)?;
        if dry_run {
            return show::import(&import, "would be imported", self.screen);
        }
        let known = self.documents.get(SPACE, &self.tenant, name).await?;
        if known.is_some() {
            return Err(taken(name));
        }
        let kept = ImportedProvider::new(Import::clone(&import), &source, options);
        let put = kept.to_put(&self.tenant, name)?;
        if self.documents.put(put, Expect::Absent).await?.is_none() {
            return Err(taken(name));
        }
        self.note("create_provider", name).await?;
        show::import(&import, "imported", self.screen)
    }

    /// The names that the tools of a provider cannot have.
    async fn taken(&self, provider: &str) -> Result<HashSet<String>, Failure> {
        let mut taken = self.taken.clone();
        for (name, kept) in self.imported().await? {
            if name != provider {
                taken.extend(kept.tools().map(str::to_owned));
            }
        }
        Ok(taken)
    }

    /// The imported providers of the tenant.
    async fn imported(&self) -> Result<Vec<(String, ImportSummary)>, Failure> {
        let mut all = Vec::new();
        for (tenant, name) in self.documents.names(SPACE).await? {
            if tenant == self.tenant
                && let Some(body) = self.documents.body_text(SPACE, &tenant, &name).await?
                && let Some(kept) = ImportSummary::of_text(&name, &body).transpose()?
            {
                all.push((name, kept));
            }
        }
        Ok(all)
    }

    async fn list(&self) -> Result<(), Failure> {
        let all: Vec<ImportSummary> =
            self.imported().await?.into_iter().map(|(_, kept)| kept).collect();
        show::list(&all, &wiring::providers(self.settings), self.screen)
    }

    async fn update(
        &self,
        name: &str,
        document: Option<&str>,
        how: &Updating,
    ) -> Result<(), Failure> {
        for _ in 0..ATTEMPTS {
            let (version, old) = self.kept(name).await?;
            let from =
                document.map(str::to_owned).or_else(|| old.url.clone()).ok_or_else(|| {
                    Failure::usage(format!("`{name}` did not come from an address"))
                        .hint(format!("windlass providers update {name} FILE"))
                })?;
            let source = self.source(&from).await?;
            let names = Names { taken: self.taken(name).await?, kept: old.names() };
            let mut options = old.options.clone();
            options.auth = how.auth.clone().or(options.auth);
            let import = source.import_again(name, &options, &names).map_err(Failure::named)?;
            let (warnings, strays) = (imports::warnings(&import), import.strays.clone());
            let kept = ImportedProvider::new(import, &source, options);
            let (mut new, diff) = old.updated(kept, &strays);
            if how.accept {
                new.accept(&[]);
            }
            if how.dry_run {
                return show::diff(name, &diff, &new.flagged(), &warnings, self.screen);
            }
            if self.replace(name, version, &new).await? {
                return show::diff(name, &diff, &new.flagged(), &warnings, self.screen);
            }
        }
        Err(busy(name))
    }

    async fn accept(&self, name: &str, tools: &[String]) -> Result<(), Failure> {
        if self.documents.get(SPACE, &self.tenant, name).await?.is_none()
            && let Some(accepted) = self.accept_of_server(name, tools).await?
        {
            return show::accepted(&accepted, self.screen);
        }
        for _ in 0..ATTEMPTS {
            let (version, mut kept) = self.kept(name).await?;
            let accepted = kept.accept(tools);
            must_wait(name, tools, &accepted)?;
            if self.replace(name, version, &kept).await? {
                return show::accepted(&accepted, self.screen);
            }
        }
        Err(busy(name))
    }

    async fn show(&self, name: &str) -> Result<(), Failure> {
        if self.documents.get(SPACE, &self.tenant, name).await?.is_none()
            && let Some((_, note)) = self.known_of(name).await?
        {
            return show::server(name, &note, self.screen);
        }
        show::one(&self.kept(name).await?.1, self.screen)
    }

    /// Accepts what an MCP server says of its tools now; none where nothing is
    /// known of such a server.
    async fn accept_of_server(
        &self,
        name: &str,
        tools: &[String],
    ) -> Result<Option<Vec<String>>, Failure> {
        let Some((owner, mut note)) = self.known_of(name).await? else { return Ok(None) };
        let accepted = note.accept(tools);
        must_wait(name, tools, &accepted)?;
        let notebook = StoredNotebook(Arc::clone(&self.documents));
        notebook.write(owner.as_ref(), name, note).await?;
        self.note("accept_changes", name).await?;
        Ok(Some(accepted))
    }

    /// What is known of an MCP server: the tenant's own, else everybody's.
    async fn known_of(&self, name: &str) -> Result<Option<(Option<TenantId>, Note)>, Failure> {
        let notebook = StoredNotebook(Arc::clone(&self.documents));
        let everybodys = (self.tenant == TenantId::default()).then_some(None);
        for owner in [Some(Some(self.tenant.clone())), everybodys].into_iter().flatten() {
            if let Some(note) = notebook.read(owner.as_ref(), name).await? {
                return Ok(Some((owner, note)));
            }
        }
        Ok(None)
    }

    async fn remove(&self, name: &str, afterwards: RemovedCredentials) -> Result<(), Failure> {
        let credentials = self.installation.credentials().await?;
        let kept = credentials.ids_of(&self.tenant, name).await?.len();
        if !self.documents.delete(SPACE, &self.tenant, name, Expect::Anything).await? {
            return Err(missing(name));
        }
        self.note("delete_provider", name).await?;
        let removed = match afterwards {
            RemovedCredentials::Remove => credentials.delete_all(&self.tenant, name).await?,
            RemovedCredentials::Keep | RemovedCredentials::KeepAndTell => 0,
        };
        show::removed(name, removed, self.screen)?;
        if afterwards == RemovedCredentials::KeepAndTell && kept > 0 {
            self.screen.note(format_args!(
                "its credentials stay ({kept}), for a provider of the same name; \
                 `--remove-credentials` deletes them, too"
            ));
        }
        Ok(())
    }

    async fn replace(
        &self,
        name: &str,
        version: u64,
        kept: &ImportedProvider,
    ) -> Result<bool, Failure> {
        let put = kept.to_put(&self.tenant, name)?;
        let replaced = self.documents.put(put, Expect::Version(version)).await?.is_some();
        if replaced {
            self.note("update_provider", name).await?;
        }
        Ok(replaced)
    }

    /// Writes to the audit log.
    async fn note(&self, action: &str, target: &str) -> Result<(), Failure> {
        let audit = Audit::new(Arc::clone(&self.documents));
        Ok(audit.by_command(&self.tenant, action, target).await?)
    }

    async fn kept(&self, name: &str) -> Result<(u64, ImportedProvider), Failure> {
        let document = self.documents.get(SPACE, &self.tenant, name).await?;
        let document = document.ok_or_else(|| missing(name))?;
        match ImportedProvider::read(&document) {
            Some(kept) => Ok((document.version, kept?)),
            None => Err(Failure::new(
                Exit::Failed,
                format!("`{name}` was not imported: it is a definition"),
            )),
        }
    }

    /// The document that a person named.
    async fn source(&self, document: &str) -> Result<ApiDocument, Failure> {
        if document.starts_with("http://") || document.starts_with("https://") {
            let outbound = self.installation.outbound();
            return imports::fetch(outbound, document).await.map_err(Failure::named);
        }
        if document == "-" {
            return Ok(ApiDocument::pasted(std::io::read_to_string(std::io::stdin())?));
        }
        let path = Path::new(document);
        if !path.exists() {
            return Err(Failure::usage(format!("{}: no such file", path.display())));
        }
        let text = imports::read_file(path).map_err(Failure::named)?;
        Ok(ApiDocument { text, url: None, folder: path.parent().map(Path::to_owned) })
    }
}

/// Refuses a name of nothing that waits.
fn must_wait(name: &str, tools: &[String], accepted: &[String]) -> Result<(), Failure> {
    let Some(unknown) = tools.iter().find(|tool| !accepted.contains(tool)) else { return Ok(()) };
    let why = format!("the tool `{unknown}` of `{name}` does not wait to be accepted");
    Err(Failure::new(Exit::NotFound, why)
        .hint(format!("`windlass providers show {name}` names those that do")))
}

fn taken(name: &str) -> Failure {
    Failure::new(Exit::Failed, format!("the provider `{name}` is there already"))
        .hint(format!("`windlass providers update {name}` imports it again"))
}

fn missing(name: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("there is no imported provider `{name}`"))
        .hint("`windlass providers list` shows all")
}

fn busy(name: &str) -> Failure {
    Failure::new(
        Exit::Storage,
        format!("the provider `{name}` is being changed by others; try again"),
    )
}
