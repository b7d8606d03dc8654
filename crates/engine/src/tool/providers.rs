//! Registry of providers.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::definition::ProviderSpec;
use crate::tool::Source;
use crate::value::name::TenantId;

/// All providers of an engine. Like tools, they are shared or belong to a
/// tenant.
pub struct Providers {
    /// Providers by name, in order of precedence.
    entries: RwLock<BTreeMap<String, Vec<ProviderEntry>>>,
    /// Sources whose providers are only fallbacks.
    spare: RwLock<HashSet<Source>>,
    /// Version, increased with every change.
    version: watch::Sender<u64>,
}

impl Default for Providers {
    fn default() -> Self {
        Self {
            entries: RwLock::default(),
            spare: RwLock::default(),
            version: watch::Sender::new(0),
        }
    }
}

struct ProviderEntry {
    owner: Option<TenantId>,
    source: Source,
    spec: Arc<ProviderSpec>,
}

impl Providers {
    /// The provider that a tenant sees under this name: its own, else the
    /// shared one.
    pub fn get_for(&self, tenant: &TenantId, name: &str) -> Option<Arc<ProviderSpec>> {
        seen(self.entries.read().get(name)?, tenant)
    }

    /// All providers visible to a tenant, by name.
    pub fn list_for(&self, tenant: &TenantId) -> Vec<Arc<ProviderSpec>> {
        self.entries.read().values().filter_map(|entries| seen(entries, tenant)).collect()
    }

    /// All effective providers with their owners.
    pub fn all(&self) -> Vec<(Option<TenantId>, Arc<ProviderSpec>)> {
        let entries = self.entries.read();
        let mut all: Vec<(Option<TenantId>, Arc<ProviderSpec>)> = Vec::new();
        for entry in entries.values().flatten() {
            let same = |(owner, spec): &(Option<TenantId>, Arc<ProviderSpec>)| {
                *owner == entry.owner && spec.name == entry.spec.name
            };
            if !all.iter().any(same) {
                all.push((entry.owner.clone(), Arc::clone(&entry.spec)));
            }
        }
        all
    }

    /// Notifies of changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Marks the providers of a source as fallbacks, which give way to others
    /// of the same name: for definitions that ship with a program.
    pub fn give_way(&self, source: &str) {
        self.spare.write().insert(source.into());
    }

    /// Replaces the providers of a source.
    pub(crate) fn replace_source(
        &self,
        owner: Option<&TenantId>,
        source: &Source,
        specs: Vec<ProviderSpec>,
    ) {
        let mut providers = self.entries.write();
        let of_source =
            |entry: &ProviderEntry| entry.source == *source && entry.owner.as_ref() == owner;
        let before: Vec<Arc<ProviderSpec>> = (providers.values().flatten())
            .filter(|entry| of_source(entry))
            .map(|entry| Arc::clone(&entry.spec))
            .collect();
        // Most files define only tools.
        if before.iter().map(|spec| &**spec).eq(&specs) {
            return;
        }
        for entries in providers.values_mut() {
            entries.retain(|entry| !of_source(entry));
        }
        let spare = self.spare.read();
        for spec in specs {
            let entries = providers.entry(spec.name.clone()).or_default();
            // The first file that defines a provider takes precedence.
            let end = match spare.contains(source) {
                true => entries.len(),
                false => entries.partition_point(|entry| !spare.contains(&entry.source)),
            };
            let (owner, source) = (owner.cloned(), Arc::clone(source));
            entries.insert(end, ProviderEntry { owner, source, spec: Arc::new(spec) });
        }
        drop(spare);
        providers.retain(|_, entries| !entries.is_empty());
        drop(providers);
        self.version.send_modify(|version| *version += 1);
    }
}

fn seen(entries: &[ProviderEntry], tenant: &TenantId) -> Option<Arc<ProviderSpec>> {
    let own = entries.iter().find(|entry| entry.owner.as_ref() == Some(tenant));
    let found = own.or_else(|| entries.iter().find(|entry| entry.owner.is_none()));
    found.map(|entry| Arc::clone(&entry.spec))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, author: &str) -> ProviderSpec {
        let author = Some(author.to_owned());
        ProviderSpec { name: name.to_owned(), author, ..ProviderSpec::default() }
    }

    #[test]
    fn what_ships_with_a_program_gives_way() {
        let (providers, anybody) = (Providers::default(), TenantId::default());
        let (shipped, file): (Source, Source) = ("shipped.yaml".into(), "weather.yaml".into());
        providers.give_way(&shipped);
        let author = || providers.get_for(&anybody, "weather").unwrap().author.clone();
        providers.replace_source(None, &shipped, vec![spec("weather", "program")]);
        providers.replace_source(None, &file, vec![spec("weather", "user")]);
        assert_eq!(author().as_deref(), Some("user"));
        // The set of providers changes at run time.
        providers.replace_source(None, &file, vec![spec("weather", "other")]);
        assert_eq!(author().as_deref(), Some("other"));
        providers.replace_source(None, &file, Vec::new());
        assert_eq!(author().as_deref(), Some("program"));
    }

    #[test]
    fn a_tenant_sees_its_own_and_everybodys() {
        let (providers, a, b) = (Providers::default(), TenantId::new("a"), TenantId::new("b"));
        let (file, api): (Source, Source) = ("weather.yaml".into(), "api/weather".into());
        providers.replace_source(None, &file, vec![spec("weather", "file"), spec("maps", "file")]);
        providers.replace_source(Some(&a), &api, vec![spec("weather", "a")]);
        let author =
            |tenant: &TenantId| providers.get_for(tenant, "weather").unwrap().author.clone();
        assert_eq!((author(&a).as_deref(), author(&b).as_deref()), (Some("a"), Some("file")));
        assert_eq!(providers.list_for(&a).len(), 2);
        providers.replace_source(Some(&a), &api, Vec::new());
        assert_eq!(author(&a).as_deref(), Some("file"));
        providers.replace_source(None, &file, Vec::new());
        assert!(providers.list_for(&b).is_empty());
    }
}
