//! The section `approvals`: approval rules, in the same form as over HTTP; the
//! environment variable takes them as JSON.

use serde_json::{Value as Json, json};
use windlass::{Approval, ApprovalRule, ApprovalRules};

use super::value::{SettingInput, SettingValue, WrittenValue};

impl SettingValue for Vec<ApprovalRule> {
    const FORM: &'static str = "a list of rules: [{tool: \"delete_*\", then: ask}]";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        let wrong = |_| format!("{} takes {}", given.label(), Self::FORM);
        let rules: Vec<Json> = match given.said {
            WrittenValue::One(text) => serde_json::from_str(text).map_err(wrong)?,
            WrittenValue::Several(rules) => {
                let rules = rules.iter().map(|rule| serde_json::from_str(rule));
                rules.collect::<Result<_, _>>().map_err(wrong)?
            }
        };
        let read = serde_json::from_value::<ApprovalRules>(json!({"rules": rules}));
        let read = read.map_err(|why| format!("{}: {why}", given.label()))?;
        Ok(read.rules)
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

impl SettingValue for Approval {
    const FORM: &'static str = "allow, deny or ask";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        serde_json::from_value(json!(given.text()?)).map_err(|_| given.wrong(Self::FORM))
    }

    fn show(&self) -> Json {
        json!(self)
    }
}
