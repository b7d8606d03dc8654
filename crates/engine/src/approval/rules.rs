//! Approval rules: plain data, read from a file or a document and checked once.
//!
//! The first matching rule decides. If none matches, the tool's own `approval`
//! setting applies, then the default of the rules.

use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::Decision;
use crate::call::Call;
use crate::tool::{Approval, ToolSpec, assumed};

/// Upper bound for the number of rules: every call is compared with all of
/// them.
const MAX_RULES: usize = 1_000;
/// Upper bound for the size of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 256 * 1024;

/// Ordered approval rules with a default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawRules")]
pub struct ApprovalRules {
    /// The rules; the first match decides.
    pub rules: Vec<ApprovalRule>,
    /// Applies where no rule matches and the tool has no setting.
    pub default: Approval,
}

/// One rule. It matches a call if all its conditions hold; a rule without
/// conditions matches every call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// Glob over the tool's name: `*` stands for any characters, `?` for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Glob over the provider's name. Tools without a provider never match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Conditions on the tool's behaviour; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behaviour: Vec<BehaviourTest>,
    /// Conditions on the arguments; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<ArgumentRule>,
    /// What happens to a matching call.
    pub then: Approval,
    /// Reason, shown to the person or the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A condition on a tool's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BehaviourTest {
    /// It changes nothing.
    ReadOnly,
    /// It may change something.
    NotReadOnly,
    /// It may destroy something.
    Destructive,
    /// Doing it twice is the same as doing it once.
    Idempotent,
    /// Doing it twice may be more than doing it once.
    NotIdempotent,
    /// It reaches beyond this process: it names an upstream, or is an HTTP API,
    /// a tool of an MCP server or another agent.
    OpenWorld,
}

/// A condition on one argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawArgument")]
pub struct ArgumentRule {
    /// JSON pointer to the argument: `/recipient/name`. An absent argument does
    /// not match, except in rules that ask or deny, where the value that the
    /// tool's schema assumes is tested.
    pub pointer: String,
    /// The test.
    #[serde(flatten)]
    pub test: ArgumentTest,
}

/// How an argument is tested.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentTest {
    /// It equals this value.
    Equals(Value),
    /// This regular expression matches part of its text. Values other than
    /// strings are matched as JSON text.
    #[serde(serialize_with = "as_text")]
    Matches(Regex),
}

impl PartialEq for ArgumentTest {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Equals(own), Self::Equals(others)) => own == others,
            (Self::Matches(own), Self::Matches(others)) => own.as_str() == others.as_str(),
            _ => false,
        }
    }
}

impl ApprovalRules {
    /// Decides about a call.
    pub fn decide(&self, call: &Call) -> Decision {
        let spec = call.tool().spec();
        let rule = self.rules.iter().enumerate().find(|(_, rule)| rule.fits(spec, call));
        let (word, reason) = match (rule, spec.approval) {
            (Some((at, rule)), _) => {
                let reason = || format!("rule {} for calls of `{}`", at + 1, spec.name);
                (rule.then, rule.reason.clone().unwrap_or_else(reason))
            }
            (None, Some(own)) => (own, format!("the tool `{}` asks for it", spec.name)),
            (None, None) => (self.default, format!("no rule allows calls of `{}`", spec.name)),
        };
        word.because(reason)
    }
}

impl ApprovalRule {
    fn fits(&self, spec: &ToolSpec, call: &Call) -> bool {
        let provider = spec.provider.as_deref();
        self.tool.as_ref().is_none_or(|glob| matches(glob, spec.name.as_str()))
            && (self.provider.as_ref())
                .is_none_or(|glob| provider.is_some_and(|name| matches(glob, name)))
            && self.behaviour.iter().all(|test| test.fits(spec))
            && self
                .arguments
                .iter()
                .all(|rule| self.value(rule, spec, call).is_some_and(|value| rule.fits(value)))
    }
}

impl ApprovalRule {
    /// The argument that a rule tests. A model must not bypass a rule by
    /// omitting a value that the upstream would assume; but an upstream's claim
    /// to assume a value never allows a call.
    fn value<'a>(
        &self,
        rule: &ArgumentRule,
        spec: &'a ToolSpec,
        call: &'a Call,
    ) -> Option<&'a Value> {
        match self.then {
            Approval::Allow => call.arguments().pointer(&rule.pointer),
            Approval::Ask | Approval::Deny => assumed(&spec.input, call.arguments(), &rule.pointer),
        }
    }
}

impl BehaviourTest {
    fn fits(self, spec: &ToolSpec) -> bool {
        let behaviour = spec.behaviour;
        match self {
            Self::ReadOnly => behaviour.read_only,
            Self::NotReadOnly => !behaviour.read_only,
            Self::Destructive => behaviour.destructive,
            Self::Idempotent => behaviour.may_be_repeated(),
            Self::NotIdempotent => !behaviour.may_be_repeated(),
            Self::OpenWorld => spec.is_remote(),
        }
    }
}

impl ArgumentRule {
    fn fits(&self, value: &Value) -> bool {
        match (&self.test, value) {
            (ArgumentTest::Equals(wanted), value) => wanted == value,
            (ArgumentTest::Matches(pattern), Value::String(text)) => pattern.is_match(text),
            (ArgumentTest::Matches(pattern), value) => pattern.is_match(&value.to_string()),
        }
    }
}

impl Approval {
    /// The decision, with the reason if it needs one.
    pub(crate) fn because(self, reason: String) -> Decision {
        match self {
            Self::Allow => Decision::Allow,
            Self::Deny => Decision::Deny(reason),
            Self::Ask => Decision::Ask(reason),
        }
    }
}

/// Rules as deserialised, before they are checked.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawRules {
    rules: Vec<ApprovalRule>,
    default: Approval,
}

impl TryFrom<RawRules> for ApprovalRules {
    type Error = String;

    fn try_from(RawRules { rules, default }: RawRules) -> Result<Self, String> {
        if rules.len() > MAX_RULES {
            return Err(format!("{} rules are too many; {MAX_RULES} are allowed", rules.len()));
        }
        for (at, rule) in rules.iter().enumerate() {
            rule.check().map_err(|why| format!("rule {}: {why}", at + 1))?;
        }
        Ok(Self { rules, default })
    }
}

impl ApprovalRule {
    fn check(&self) -> Result<(), String> {
        for (key, glob) in [("tool", &self.tool), ("provider", &self.provider)] {
            if glob.as_ref().is_some_and(String::is_empty) {
                return Err(format!("`{key}` is empty; leave it out, or write `*`"));
            }
        }
        let wrong = self.arguments.iter().find(|rule| !rule.pointer.starts_with('/'));
        wrong.map_or(Ok(()), |rule| {
            let pointer = &rule.pointer;
            Err(format!("`{pointer}` is not a JSON pointer; write `/{pointer}`"))
        })
    }
}

/// Whether a glob matches a whole name.
fn matches(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // Backtracking point: where to continue when the last star has to consume
    // one more character.
    let mut star = None;
    while seen < name.len() {
        match glob.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(own) if *own == '?' || *own == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => match &mut star {
                Some((begin, taken)) => {
                    *taken += 1;
                    (at, seen) = (*begin + 1, *taken);
                }
                None => return false,
            },
        }
    }
    glob[at..].iter().all(|rest| *rest == '*')
}

fn as_text<S: Serializer>(pattern: &Regex, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(pattern.as_str())
}

/// An argument rule as deserialised.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawArgument {
    pointer: String,
    #[serde(default, deserialize_with = "present")]
    equals: Option<Value>,
    matches: Option<String>,
}

/// Tells an explicit `null` from an absent value.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl TryFrom<RawArgument> for ArgumentRule {
    type Error = String;

    fn try_from(RawArgument { pointer, equals, matches }: RawArgument) -> Result<Self, String> {
        let test = match (equals, matches) {
            (Some(value), None) => ArgumentTest::Equals(value),
            (None, Some(pattern)) => ArgumentTest::Matches(compile(&pattern)?),
            _ => return Err(format!("`{pointer}` needs either `equals` or `matches`")),
        };
        Ok(Self { pointer, test })
    }
}

fn compile(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build();
    built.map_err(|error| format!("the pattern `{pattern}` does not compile: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(rules: Value) -> String {
        serde_json::from_value::<ApprovalRules>(rules).unwrap_err().to_string()
    }

    #[test]
    fn globs() {
        for (glob, name, fits) in [
            ("*", "", true),
            ("pay", "pay", true),
            ("pay", "payment", false),
            ("pay*", "payment", true),
            ("*pay", "repay", true),
            ("g*.*_x?", "git.list_xy", true),
            ("g*.*_x?", "git.list_x", false),
            ("a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("天?", "天气", true),
        ] {
            assert_eq!(matches(glob, name), fits, "{glob} {name}");
        }
    }

    #[test]
    fn rules_are_read_and_written() {
        let written = json!({
            "rules": [
                {"tool": "pay_*", "arguments": [{"pointer": "/amount", "equals": 1}], "then": "allow"},
                {"provider": "bank", "behaviour": ["not_read_only", "open_world"], "then": "ask",
                 "reason": "it moves money"},
                {"arguments": [{"pointer": "/to/0", "matches": "@evil"}], "then": "deny"},
            ],
            "default": "ask",
        });
        let rules: ApprovalRules = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&rules).unwrap(), written);
        let empty: ApprovalRules = serde_json::from_value(json!({})).unwrap();
        assert_eq!(empty.default, Approval::Allow);
    }

    #[test]
    fn faults_say_what_is_wrong() {
        for (rules, expected) in [
            (json!({"rules": [{"tool": "x"}]}), "missing field `then`"),
            (json!({"rules": [{"tol": "x", "then": "ask"}]}), "unknown field `tol`"),
            (json!({"rules": [{"then": "maybe"}]}), "unknown variant `maybe`"),
            (json!({"defualt": "ask"}), "unknown field `defualt`"),
            (json!({"rules": [{"tool": "", "then": "ask"}]}), "rule 1: `tool` is empty"),
            (
                json!({"rules": [{"then": "ask", "arguments": [{"pointer": "a", "equals": 1}]}]}),
                "rule 1: `a` is not a JSON pointer; write `/a`",
            ),
            (
                json!({"rules": [{"then": "ask", "arguments": [{"pointer": "/a", "matches": "["}]}]}),
                "the pattern `[` does not compile",
            ),
            (
                json!({"rules": [{"then": "ask", "arguments": [{"pointer": "/a"}]}]}),
                "`/a` needs either `equals` or `matches`",
            ),
            (json!({"rules": vec![json!({"then": "ask"}); 1001]}), "1001 rules are too many"),
        ] {
            let found = fault(rules);
            assert!(found.contains(expected), "{found}");
        }
    }
}
