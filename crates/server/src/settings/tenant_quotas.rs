//! [`TenantOverrides`]: quotas of single tenants, in place of those of all.
//!
//! Every row of the section `quotas` can be set for one tenant: `TENANT.tools`,
//! `TENANT.per_key.files`. The row reads, checks and shows the value.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};
use windlass::TenantId;

use super::raw::Raw;
use super::table::{ROWS, SettingRow};
use super::value::{SettingInput, SettingValue, WrittenValue};
use crate::cli::output::nearest;
use crate::state::identity::{TENANT_NAME, is_tenant_name};
use crate::state::quota::QuotaSettings;

/// The section whose rows can be overridden.
const SECTION: &str = "quotas.";
/// The row of the overrides.
const OWN: &str = "tenants";

/// What was set for tenants: by tenant and quota, as it was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TenantOverrides(BTreeMap<String, BTreeMap<&'static str, String>>);

impl TenantOverrides {
    /// The quotas of these tenants, where all others have `base`.
    pub(super) fn resolve(&self, base: &QuotaSettings) -> BTreeMap<TenantId, QuotaSettings> {
        let of = |overrides: &BTreeMap<&'static str, String>| {
            let mut raw = Raw { quotas: *base, ..Raw::default() };
            for (name, text) in overrides {
                // It was read before.
                let _ = find(name).map(|row| set(row, &mut raw, name, text));
            }
            raw.quotas
        };
        self.0.iter().map(|(tenant, own)| (TenantId::new(tenant.as_str()), of(own))).collect()
    }
}

impl SettingValue for TenantOverrides {
    const FORM: &'static str = "quotas for each tenant: {acme: {tools: 50, per_key: {files: 5}}}";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        let mut overrides = Self::default();
        for pair in given.texts()? {
            let wrong =
                || format!("{} is written TENANT.QUOTA=LIMIT, found `{pair}`", given.label());
            let (name, text) = pair.split_once('=').ok_or_else(wrong)?;
            let (name, text) = (name.trim(), text.trim());
            let (tenant, row) = named(name).ok_or_else(|| unknown(name))?;
            if !is_tenant_name(tenant) {
                return Err(format!("`{tenant}` is no name of a tenant: {TENANT_NAME}"));
            }
            set(row, &mut Raw::default(), &format!("{SECTION}{OWN}.{name}"), text)?;
            let own = overrides.0.entry(tenant.to_owned()).or_default();
            own.insert(quota(row), text.to_owned());
        }
        Ok(overrides)
    }

    fn show(&self) -> Json {
        let shown = |overrides: &BTreeMap<&'static str, String>| {
            let mut raw = Raw::default();
            let mut all = Map::new();
            for (name, text) in overrides {
                if let Some(row) = find(name)
                    && set(row, &mut raw, name, text).is_ok()
                {
                    all.insert((*name).to_owned(), (row.show)(&raw));
                }
            }
            Json::Object(all)
        };
        self.0.iter().map(|(tenant, own)| (tenant.clone(), shown(own))).collect()
    }
}

/// The rows that can be overridden.
fn rows() -> impl Iterator<Item = &'static SettingRow> {
    ROWS.iter().filter(|row| row.name.starts_with(SECTION) && quota(row) != OWN)
}

fn quota(row: &'static SettingRow) -> &'static str {
    row.name.strip_prefix(SECTION).unwrap_or(row.name)
}

fn find(name: &str) -> Option<&'static SettingRow> {
    rows().find(|row| quota(row) == name)
}

/// The tenant and the quota of a name. Tenants may have points in their names, so the
/// longest quota counts.
fn named(name: &str) -> Option<(&str, &'static SettingRow)> {
    let named =
        |row: &'static SettingRow| Some((name.strip_suffix(quota(row))?.strip_suffix('.')?, row));
    rows().filter_map(named).min_by_key(|(tenant, _)| tenant.len())
}

fn unknown(name: &str) -> String {
    let own = name.rsplit_once('.').map_or(name, |(_, own)| own);
    match nearest(own, rows().map(quota)) {
        Some(near) => format!("unknown quota `{own}`; did you mean `{near}`?"),
        None => format!("unknown quota `{own}` of a tenant; the reference of settings lists them"),
    }
}

fn set(row: &SettingRow, raw: &mut Raw, name: &str, text: &str) -> Result<(), String> {
    let base = std::path::Path::new("");
    (row.set)(raw, &SettingInput { name, said: WrittenValue::One(text), base, least: row.least })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[&str]) -> Result<TenantOverrides, String> {
        let texts: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
        let said = WrittenValue::Several(&texts);
        let base = std::path::Path::new("");
        TenantOverrides::read(&SettingInput { name: "quotas.tenants", said, base, least: 1 })
    }

    #[test]
    fn every_quota_can_be_set_for_a_tenant_and_what_is_not_set_is_that_of_all() {
        let pairs = ["a.b.per_key.tools=3", "a.b.tools=5", "c.cost_per_day=0.5", "c.runs=0"];
        let overrides = read(&pairs).unwrap();
        let base = QuotaSettings { files: 77, ..QuotaSettings::default() };
        let all = overrides.resolve(&base);
        let own = &all[&TenantId::new("a.b")];
        assert_eq!((own.tools, own.per_key.tools, own.files), (5, Some(3), 77));
        assert_eq!(own.per_key.files, base.per_key.files);
        let other = &all[&TenantId::new("c")];
        assert_eq!((other.cost_per_day.map(|cost| cost.0), other.runs), (Some(0.5), 0));
        let shown = overrides.show();
        assert_eq!(shown["a.b"]["per_key.tools"], 3);
        assert_eq!(shown["c"]["cost_per_day"], 0.5);
        for row in rows() {
            let text = format!("t.{}=7", quota(row));
            assert!(read(&[&text]).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (pair, part) in [
            ("a.tools=many", "`quotas.tenants.a.tools` is a whole number"),
            ("a.tolls=5", "did you mean `tools`?"),
            ("tools=5", "unknown quota"),
            ("a b.tools=5", "no name of a tenant"),
            ("a.tools", "TENANT.QUOTA=LIMIT"),
            ("a.tenants=5", "unknown quota"),
        ] {
            let why = read(&[pair]).unwrap_err();
            assert!(why.contains(part), "{pair}: {why}");
        }
    }
}
