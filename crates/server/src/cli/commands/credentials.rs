//! `windlass credentials`: stores and shows the credentials of providers.

mod input;
mod show;

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use windlass::TenantId;
use windlass::definition::ProviderSpec;
use windlass_store::Documents;

use crate::cli::exit::{Exit, Failure};
use crate::cli::options;
use crate::cli::output::{Screen, nearest};
use crate::installation::{Installation, block_on};
use crate::settings::Settings;
use crate::state::audit::Audit;
use crate::state::imports;
use crate::state::vault::{CredentialFilter, CredentialRequest, Credentials};
use crate::wiring;
use input::{Purpose, ValueArgs};

/// What a credential is called if nobody says.
const NAME: &str = "default";

/// Store, list and replace the credentials of providers
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct CredentialsArgs {
    #[command(subcommand)]
    action: CredentialsAction,
    /// The tenant whose credentials to use
    #[arg(long, global = true, value_name = "ID", default_value = "default")]
    tenant: String,
    /// Credentials of this user instead of those that the tenant shares
    #[arg(long, global = true, value_name = "ID")]
    user: Option<String>,
}

#[derive(Debug, Subcommand)]
enum CredentialsAction {
    /// Store a credential; secrets are asked for, or read from stdin
    Set {
        /// The provider
        provider: String,
        /// A name, to tell several credentials apart
        #[arg(long, default_value = NAME)]
        name: String,
        /// Make it the default for calls that name none
        #[arg(long)]
        default: bool,
        #[command(flatten)]
        values: ValueArgs,
    },
    /// List the credentials, masked
    List {
        /// Only those of this provider
        provider: Option<String>,
    },
    /// Show one credential, masked
    Show {
        /// Its id, PROVIDER/NAME, or PROVIDER for the one called `default`
        which: String,
    },
    /// Replace values of a credential; what is not given stays
    Rotate {
        /// Its id, PROVIDER/NAME, or PROVIDER
        which: String,
        #[command(flatten)]
        values: ValueArgs,
    },
    /// Call a credential something else
    Rename {
        /// Its id, PROVIDER/NAME, or PROVIDER
        which: String,
        /// The new name
        name: String,
    },
    /// Take this credential for calls that name none
    MakeDefault {
        /// Its id, or PROVIDER/NAME
        which: String,
    },
    /// Forget a credential
    Delete {
        /// Its id, PROVIDER/NAME, or PROVIDER
        which: String,
    },
    /// Seal all credentials of the tenant by a new key of its own
    RotateDataKey,
    /// Make a new master key and seal the keys of all tenants by it
    RotateMasterKey {
        /// Only remove old master keys that encrypt nothing any more; create no new one
        #[arg(long)]
        prune: bool,
    },
}

fn after_help() -> String {
    let examples = options::examples(&[
        ("Be asked for the secrets", "windlass credentials set weather --field region=eu"),
        (
            "One secret from another program",
            "pass show weather | windlass credentials set weather --stdin",
        ),
        (
            "Several fields, as JSON or as lines of NAME=VALUE",
            "windlass credentials set weather --name second --stdin < fields.json",
        ),
        ("A user's own", "windlass credentials set weather --user ada"),
        ("Which there are", "windlass credentials list"),
        ("A new secret under the same id", "windlass credentials rotate weather"),
        ("A new master key", "windlass credentials rotate-master-key"),
    ]);
    let keys = options::section(
        "Master key",
        "  Credentials are sealed. The master key is in WINDLASS_MASTER_KEY (base64 of 32 bytes), or in\n  \
         windlass.key beside the database, which is made when it is first needed. Keep a copy of it\n  \
         elsewhere: without it, credentials are lost. All servers of a PostgreSQL database need the\n  \
         same key; `openssl rand -base64 32` makes one.",
    );
    format!("{examples}\n\n{keys}")
}

/// Runs the command.
pub(crate) fn run(
    args: CredentialsArgs,
    settings: &Settings,
    screen: Screen,
) -> Result<Exit, Failure> {
    block_on(async {
        let installation = match args.action {
            CredentialsAction::Set { .. } => Installation::new(settings, screen),
            _ => Installation::to_look_at(settings, screen),
        };
        let command = CredentialCommands {
            credentials: Arc::clone(installation.credentials().await?),
            documents: Arc::clone(installation.documents().await?),
            tenant: TenantId::new(args.tenant),
            user: args.user,
            settings,
            screen,
        };
        command.run(args.action).await?;
        Ok(Exit::Success)
    })
}

/// Where one command is done.
struct CredentialCommands<'a> {
    credentials: Arc<Credentials>,
    documents: Arc<dyn Documents>,
    tenant: TenantId,
    user: Option<String>,
    settings: &'a Settings,
    screen: Screen,
}

impl CredentialCommands<'_> {
    async fn run(&self, action: CredentialsAction) -> Result<(), Failure> {
        let (all, tenant, screen) = (&self.credentials, &self.tenant, self.screen);
        match action {
            CredentialsAction::Set { provider, name, default, values } => {
                self.set(&provider, name, default, &values).await
            }
            CredentialsAction::List { provider } => {
                let filter =
                    CredentialFilter { provider: provider.as_deref(), user: self.user.as_deref() };
                let listed = all.list(tenant, filter).await?;
                show::list(&listed, &self.settings.database.describe(), screen)
            }
            CredentialsAction::Show { which } => {
                let shown = all.get(tenant, &self.find(&which).await?).await;
                show::one(&shown.map_err(unknown)?, screen)
            }
            CredentialsAction::Rotate { which, values } => self.rotate(&which, &values).await,
            CredentialsAction::Rename { which, name } => {
                let renamed = all.rename(tenant, &self.find(&which).await?, &name).await;
                let renamed = renamed.map_err(unknown)?;
                self.note("rename_credential", &renamed.id).await?;
                show::done("renamed", &renamed, screen)
            }
            CredentialsAction::MakeDefault { which } => {
                let chosen = all.make_default(tenant, &self.find(&which).await?).await;
                let chosen = chosen.map_err(unknown)?;
                self.note("make_default_credential", &chosen.id).await?;
                show::done("default is now", &chosen, screen)
            }
            CredentialsAction::Delete { which } => self.delete(&which).await,
            CredentialsAction::RotateDataKey => {
                let resealed = all.rotate_data_key(tenant).await?;
                self.note("rotate_data_key", tenant.as_str()).await?;
                show::rotated(json!({"tenant": tenant, "credentials": resealed}), screen)
            }
            CredentialsAction::RotateMasterKey { prune: false } => {
                let rotation = all.vault().rotate_master().await?;
                self.note("rotate_master_key", "all tenants").await?;
                show::rotated(json!(rotation), screen)?;
                screen.note("old master keys are kept; --prune drops those that nothing needs");
                Ok(())
            }
            CredentialsAction::RotateMasterKey { prune: true } => {
                let dropped = all.vault().prune_masters().await?;
                self.note("prune_master_keys", "all tenants").await?;
                show::rotated(json!({"dropped": dropped}), screen)
            }
        }
    }

    async fn set(
        &self,
        provider: &str,
        name: String,
        default: bool,
        values: &ValueArgs,
    ) -> Result<(), Failure> {
        let provider = self.provider(provider).await?;
        let values = values.read(&provider, Purpose::New)?;
        let request = CredentialRequest { name, user: self.user.clone(), values };
        let stored = self.credentials.store(&self.tenant, &provider, request).await;
        let mut stored = stored.map_err(|error| {
            let failure = Failure::named(error);
            let taken = failure.message.ends_with("already");
            if taken {
                return failure.hint("`windlass credentials rotate` replaces its values");
            }
            failure
        })?;
        self.note("store_credential", &stored.id).await?;
        if default {
            stored = self.credentials.make_default(&self.tenant, &stored.id).await?;
        }
        show::done("stored", &stored, self.screen)
    }

    async fn rotate(&self, which: &str, values: &ValueArgs) -> Result<(), Failure> {
        let id = self.find(which).await?;
        let known = self.credentials.get(&self.tenant, &id).await.map_err(unknown)?;
        let provider = self.provider(&known.provider).await?;
        let values = values.read(&provider, Purpose::Change)?;
        let rotated = self.credentials.rotate(&self.tenant, &provider, &id, values).await;
        let rotated = rotated.map_err(unknown)?;
        self.note("rotate_credential", &rotated.id).await?;
        show::done("rotated", &rotated, self.screen)
    }

    async fn delete(&self, which: &str) -> Result<(), Failure> {
        let id = self.find(which).await?;
        self.credentials.delete(&self.tenant, &id).await.map_err(unknown)?;
        self.note("delete_credential", &id).await?;
        if self.screen.json {
            self.screen.document(&json!({"deleted": id}))?;
        } else {
            self.screen.line(format_args!("deleted {id}"))?;
        }
        Ok(())
    }

    /// Writes to the audit log.
    async fn note(&self, action: &str, target: &str) -> Result<(), Failure> {
        let audit = Audit::new(Arc::clone(&self.documents));
        Ok(audit.by_command(&self.tenant, action, target).await?)
    }

    /// The id of a credential that a person named.
    async fn find(&self, which: &str) -> Result<String, Failure> {
        if which.starts_with("cred_") {
            return Ok(which.to_owned());
        }
        let (provider, name) = which.rsplit_once('/').unwrap_or((which, NAME));
        let user = self.user.as_deref();
        let found = self.credentials.find(&self.tenant, provider, user, name).await?;
        found.ok_or_else(|| {
            let message = format!("the provider `{provider}` has no credential called `{name}`");
            Failure::new(Exit::NotFound, message).hint(LOOK)
        })
    }

    async fn provider(&self, name: &str) -> Result<ProviderSpec, Failure> {
        let kept = self.documents.get(imports::SPACE, &self.tenant, name).await?;
        if let Some(kept) = kept.as_ref().and_then(imports::ImportedProvider::read) {
            return Ok(kept?.provider);
        }
        let mut providers = wiring::providers(self.settings);
        let found = providers.remove(name);
        found.ok_or_else(|| no_provider(name, &providers))
    }
}

const LOOK: &str = "`windlass credentials list` shows all; those of a user need --user";

fn unknown(error: windlass::Error) -> Failure {
    let failure = Failure::named(error);
    if failure.exit == Exit::NotFound { failure.hint(LOOK) } else { failure }
}

fn no_provider(name: &str, known: &BTreeMap<String, ProviderSpec>) -> Failure {
    let failure = Failure::new(Exit::NotFound, format!("there is no provider `{name}`"));
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    failure.hint(match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => {
            "definitions of tools describe providers; see --tools".to_owned()
        }
        None => format!("the providers are {}", names.join(", ")),
    })
}
