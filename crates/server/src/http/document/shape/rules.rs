//! Schemas of approval rules.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use windlass::BehaviourTest;

/// Rules in order, and the default if none matches.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ApprovalRules")]
pub(crate) struct RulesDoc {
    /// The rules; the first match decides.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    rules: Vec<RuleDoc>,
    /// The default if no rule matches and the tool's definition has no policy.
    #[serde(default = "allow")]
    default: Word,
}

fn allow() -> Word {
    Word::Allow
}

/// One rule. It fits a call where all that it says is true; one that says
/// nothing fits every call.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ApprovalRule")]
struct RuleDoc {
    /// The tool's name; `*` stands for any characters, `?` for one.
    tool: Option<String>,
    /// The provider's name, with `*` and `?` too.
    provider: Option<String>,
    /// What the tool does to the world: all of these.
    #[serde(default)]
    behaviour: Vec<BehaviourTest>,
    /// What the arguments are: all of these.
    #[serde(default)]
    arguments: Vec<ArgumentRuleDoc>,
    then: Word,
    /// Why, for the person or the model.
    reason: Option<String>,
}

/// What happens with a call.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ApprovalWord")]
enum Word {
    /// It may run.
    Allow,
    /// It must not run.
    Deny,
    /// A person has to approve it.
    Ask,
}

/// A test of an argument.
struct ArgumentRuleDoc;

impl Serialize for ArgumentRuleDoc {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_unit()
    }
}

impl JsonSchema for ArgumentRuleDoc {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ArgumentRule".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pointer = serde_json::json!({
            "type": "string",
            "description": "Which argument, as a JSON pointer",
            "pattern": "^(/([^~/]|~0|~1)*)+$",
        });
        schemars::json_schema!({
            "type": "object",
            "description": "What an argument is: exactly this value, or a text with a part that \
                            a pattern matches",
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"pointer": pointer, "equals": {}},
                    "required": ["pointer", "equals"],
                    "additionalProperties": false,
                },
                {
                    "type": "object",
                    "properties": {
                        "pointer": pointer,
                        "matches": {"type": "string", "format": "regex"},
                    },
                    "required": ["pointer", "matches"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}
