//! Providers: who offers tools, and what their credentials look like.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::definition::ProviderSpec;
use crate::tool::Source;
use crate::value::name::TenantId;

/// All providers of an engine. Like tools, they are everybody's or a tenant's.
pub struct Providers {
    /// Those of one name in the order in which they count.
    entries: RwLock<BTreeMap<String, Vec<ProviderEntry>>>,
    /// Sources whose providers count only where there are no others.
    spare: RwLock<HashSet<Source>>,
    /// Counts up whenever one is new, another or gone.
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
    /// The provider of this name that a tenant sees: its own, else everybody's.
    pub fn get_for(&self, tenant: &TenantId, name: &str) -> Option<Arc<ProviderSpec>> {
        seen(self.entries.read().get(name)?, tenant)
    }

    /// All providers that a tenant sees, by name.
    pub fn list_for(&self, tenant: &TenantId) -> Vec<Arc<ProviderSpec>> {
        self.entries.read().values().filter_map(|entries| seen(entries, tenant)).collect()
    }

    /// All providers with their owners, those that others of their name hide
    /// left out.
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

    /// Tells when providers have changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Lets the providers of a source give way to others of their names,
    /// whenever those come: for what ships with a program.
    pub fn give_way(&self, source: &str) {
        self.spare.write().insert(source.into());
    }

    /// Makes these the providers of a source.
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
        // Most files are about tools only.
        if before.iter().map(|spec| &**spec).eq(&specs) {
            return;
        }
        for entries in providers.values_mut() {
            entries.retain(|entry| !of_source(entry));
        }
        let spare = self.spare.read();
        for spec in specs {
            let entries = providers.entry(spec.name.clone()).or_default();
            // The first file that names a provider defines it.
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
        // It changes while the program runs.
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
