//! Providers: who offers tools, and what their credentials look like.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::definition::ProviderSpec;
use crate::name::TenantId;
use crate::tool::Source;

/// All providers of an engine. Like tools, they are everybody's or a tenant's.
#[derive(Default)]
pub struct Providers(RwLock<BTreeMap<String, Vec<Entry>>>);

struct Entry {
    owner: Option<TenantId>,
    source: Source,
    spec: Arc<ProviderSpec>,
}

impl Providers {
    /// The provider of this name that a tenant sees: its own, else everybody's.
    pub fn get_for(&self, tenant: &TenantId, name: &str) -> Option<Arc<ProviderSpec>> {
        seen(self.0.read().get(name)?, tenant)
    }

    /// All providers that a tenant sees, by name.
    pub fn list_for(&self, tenant: &TenantId) -> Vec<Arc<ProviderSpec>> {
        self.0.read().values().filter_map(|entries| seen(entries, tenant)).collect()
    }

    /// Makes these the providers of a source.
    pub(crate) fn replace_source(
        &self,
        owner: Option<&TenantId>,
        source: &Source,
        specs: Vec<ProviderSpec>,
    ) {
        let mut providers = self.0.write();
        for entries in providers.values_mut() {
            entries.retain(|entry| entry.source != *source || entry.owner.as_ref() != owner);
        }
        for spec in specs {
            let entries = providers.entry(spec.name.clone()).or_default();
            // The first file that names a provider defines it.
            entries.push(Entry {
                owner: owner.cloned(),
                source: Arc::clone(source),
                spec: Arc::new(spec),
            });
        }
        providers.retain(|_, entries| !entries.is_empty());
    }
}

fn seen(entries: &[Entry], tenant: &TenantId) -> Option<Arc<ProviderSpec>> {
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
