//! Keys that every form of definition shares.

use std::collections::BTreeMap;

use serde_json::Value;

use super::agent;
use super::node::{Node, NodeValue, Position};
use super::preset;
use super::reader::{self, FaultReport, MapFields};
use super::reliability;
use super::schema::{self, Dialect};
use super::workflow;
use super::{Definition, SettingPlaces};
use crate::tool::{Approval, Behaviour, Category, Exposure, Kind, ToolSpec};
use crate::value::name::ToolName;

/// Names of kinds in definitions. `custom` is a function of the embedding
/// program; `external` is an HTTP API if the entry has an address, and a
/// process otherwise.
const KINDS: [(&str, NamedKind); 12] = [
    ("builtin", NamedKind::Kind(Kind::Builtin)),
    ("external", NamedKind::External),
    ("custom", NamedKind::Kind(Kind::Native)),
    ("native", NamedKind::Kind(Kind::Native)),
    ("rest", NamedKind::Kind(Kind::Rest)),
    ("mcp", NamedKind::Kind(Kind::Mcp)),
    ("wasm", NamedKind::Kind(Kind::Wasm)),
    ("process", NamedKind::Kind(Kind::Process)),
    ("workflow", NamedKind::Kind(Kind::Workflow)),
    ("agent", NamedKind::Kind(Kind::Agent)),
    // An alias for `agent`.
    ("agent_invocation", NamedKind::Kind(Kind::Agent)),
    ("retrieval", NamedKind::Kind(Kind::Retrieval)),
];

#[derive(Clone, Copy)]
enum NamedKind {
    Kind(Kind),
    External,
}

/// A tool that is being read.
pub(super) struct ToolDraft {
    pub(super) spec: ToolSpec,
    pub(super) at: Position,
    /// Position of each parameter.
    pub(super) places: BTreeMap<String, Position>,
    /// Whether its schemas were written elsewhere.
    pub(super) of_others: bool,
    /// Position of each setting of the entry.
    pub(super) settings: SettingPlaces,
}

impl ToolDraft {
    /// Starts a tool with its name. A bad name is reported, and reading
    /// continues to find further errors.
    pub(super) fn new(
        at: Position,
        name: Option<&Node>,
        report: &mut FaultReport<'_>,
    ) -> Option<Self> {
        let read = name.and_then(|node| {
            let text = reader::text(node, "name", report)?;
            ToolName::new(&text).map_err(|error| report.add(node.at, error.message())).ok()
        });
        let name = read.or_else(|| ToolName::new("unnamed").ok())?;
        let (places, settings) = (BTreeMap::new(), SettingPlaces::default());
        Some(Self { spec: ToolSpec::new(name), at, places, of_others: false, settings })
    }

    /// Reads the shared keys, reports unknown ones, and completes the tool.
    pub(super) fn finish(
        mut self,
        mut fields: MapFields<'_>,
        report: &mut FaultReport<'_>,
    ) -> Definition {
        read_common(&mut fields, &mut self.spec, report);
        let presets = fields
            .get("presets")
            .map(|node| preset::read(node, &self.spec, report))
            .unwrap_or_default();
        fields.finish(report);
        if self.spec.kind == Kind::Agent {
            agent::complete(&mut self.spec);
        }
        if self.spec.kind == Kind::Workflow {
            workflow::complete(&mut self.spec);
        }
        let Position { line, column } = self.at;
        let notes = report.take_notes();
        let Self { spec, places, of_others, settings, .. } = self;
        Definition {
            spec,
            presets,
            line,
            column,
            places,
            settings,
            of_others,
            notes,
            checked: false,
        }
    }
}

/// Reads `kind`, `entry` and its settings. The entry's own settings take
/// precedence over `implementation_config` and `metadata`.
pub(super) fn read_kind(
    fields: &mut MapFields<'_>,
    draft: &mut ToolDraft,
    unsaid: Kind,
    report: &mut FaultReport<'_>,
) {
    let ToolDraft { spec, settings, .. } = draft;
    let mut named: Option<(NamedKind, Position)> = None;
    for key in ["implementation_config", "metadata"] {
        if let Some(node) = fields.get(key) {
            add_settings(node, key, spec, settings, report);
        }
    }
    if let Some(entry) = fields.get("entry") {
        add_settings(entry, "entry", spec, settings, report);
        spec.entry.config.shift_remove("type");
        spec.entry.config.shift_remove("handler");
        named = entry
            .get("type")
            .and_then(|node| Some((kind_named(node, "entry type", report)?, node.at)));
        if let Some(node) = entry.get("handler") {
            spec.entry.handler = reader::text(node, "handler", report).unwrap_or_default();
        }
    }
    let has_address =
        ["url", "base_url", "baseUrl"].into_iter().any(|key| spec.entry.config.contains_key(key));
    let resolve = |named: NamedKind| match named {
        NamedKind::Kind(kind) => kind,
        NamedKind::External if has_address => Kind::Rest,
        NamedKind::External => Kind::Process,
    };
    let entry_kind = named.map(|(named, _)| resolve(named));
    let said = fields
        .get("kind")
        .and_then(|node| Some((resolve(kind_named(node, "kind", report)?), node.at)));
    spec.kind = match (said, entry_kind) {
        (Some((said, at)), Some(entry)) if said != entry => {
            report.add(at, format!("`kind` is {said}, but the entry's type means {entry}"));
            said
        }
        (said, entry) => said.map(|(kind, _)| kind).or(entry).unwrap_or(unsaid),
    };
    if spec.kind == Kind::Agent {
        for key in ["model", "tools", "groups"] {
            fields.get(key).into_iter().for_each(|node| settings.note(key, node));
        }
        agent::read(fields, spec, report);
    }
    if spec.kind == Kind::Workflow {
        workflow::read(fields, spec, settings, report);
    }
}

/// Reads a kind in capitals, such as `type: REST`.
pub(super) fn kind_in_capitals(word: &str) -> Option<Kind> {
    let word = word.to_ascii_lowercase();
    KINDS.iter().find(|(name, _)| *name == word).and_then(|(_, named)| match named {
        NamedKind::Kind(kind) => Some(*kind),
        NamedKind::External => None,
    })
}

fn kind_named(node: &Node, what: &str, report: &mut FaultReport<'_>) -> Option<NamedKind> {
    reader::choice(node, what, &KINDS, report)
}

fn add_settings(
    node: &Node,
    key: &str,
    spec: &mut ToolSpec,
    places: &mut SettingPlaces,
    report: &mut FaultReport<'_>,
) {
    match &node.data {
        NodeValue::Map(entries) => {
            for entry in entries {
                places.note(&entry.key, &entry.value);
                spec.entry.config.insert(entry.key.clone(), entry.value.to_json());
            }
        }
        _ => report.add(node.at, format!("`{key}` is a mapping, found {}", node.kind_name())),
    }
}

fn read_common(fields: &mut MapFields<'_>, spec: &mut ToolSpec, report: &mut FaultReport<'_>) {
    for (key, field) in [
        ("version", &mut spec.version),
        ("provider", &mut spec.provider),
        ("author", &mut spec.author),
        ("icon", &mut spec.icon),
        ("group", &mut spec.group),
    ] {
        if let Some(node) = fields.get(key) {
            *field = reader::text(node, key, report);
        }
    }
    if let Some(node) = fields.get("label") {
        spec.label = reader::i18n(node, "label", report);
    }
    if let Some(node) = fields.get("category")
        && let Some(name) = reader::text(node, "category", report)
    {
        spec.category = Category::new(name);
    }
    if let Some(node) = fields.get("tags") {
        spec.tags = reader::texts(node, "tags", report).unwrap_or_default();
    }
    // The `output` of a workflow is what it returns, not a schema.
    if spec.kind != Kind::Workflow
        && let Some(node) = fields.get("output")
    {
        spec.output = Some(schema::read(node, Dialect::Short, report));
    }
    if let Some(node) = fields.get("behaviour") {
        read_behaviour(node, &mut spec.behaviour, report);
    }
    if let Some(node) = fields.get("approval") {
        const CHOICES: [(&str, Approval); 3] =
            [("allow", Approval::Allow), ("deny", Approval::Deny), ("ask", Approval::Ask)];
        spec.approval = reader::choice(node, "approval", &CHOICES, report);
    }
    if let Some(node) = fields.get("writes") {
        spec.writes = reader::texts(node, "writes", report).unwrap_or_default();
    }
    if let Some(node) = fields.get("safe_when") {
        spec.safe_when = read_safe_when(node, report);
    }
    if let Some(node) = fields.get("exposure") {
        const CHOICES: [(&str, Exposure); 3] = [
            ("direct", Exposure::Direct),
            ("deferred", Exposure::Deferred),
            ("hidden", Exposure::Hidden),
        ];
        spec.exposure = reader::choice(node, "exposure", &CHOICES, report).unwrap_or(spec.exposure);
    }
    if let Some(node) = fields.get("timeout") {
        spec.timeout = reader::span(node, "timeout", report);
    }
    if let Some(node) = fields.get("estimated_duration") {
        spec.estimated_duration = reader::span(node, "estimated_duration", report);
    }
    if let Some(node) = fields.get("max_concurrent") {
        spec.max_concurrent = reader::count(node, "max_concurrent", report)
            .and_then(|calls| usize::try_from(calls).ok())
            .map(|calls| calls.max(1));
    }
    if let Some(node) = fields.get("retry") {
        spec.retry = reliability::retry(node, report);
    }
    if let Some(node) = fields.get("upstream") {
        spec.upstream = reader::text(node, "upstream", report);
    }
    if let Some(node) = fields.get("cache") {
        spec.cache = reliability::cache(node, spec, report);
    }
    if let Some(node) = fields.get("max_output_bytes") {
        spec.max_output_bytes = reader::count(node, "max_output_bytes", report)
            .and_then(|bytes| usize::try_from(bytes).ok());
    }
    if let Some(node) = fields.get("is_team_authorization") {
        spec.team_authorization =
            reader::flag(node, "is_team_authorization", report).unwrap_or_default();
    }
    // `id` belongs to the store that exported the definition, and `status` is
    // only read so that a retired tool is not loaded.
    fields.get("id");
    if let Some(node) = fields.get("status")
        && reader::text(node, "status", report).is_some_and(|word| word.to_lowercase() != "active")
    {
        report.hinted(node.at, "a definition is `status: active`", "or move the file away");
    }
}

/// Reads `safe_when: {action: [load, list]}`; a single value needs no list.
fn read_safe_when(node: &Node, report: &mut FaultReport<'_>) -> BTreeMap<String, Vec<Value>> {
    match node.to_json() {
        Value::Object(parameters) => parameters
            .into_iter()
            .map(|(name, values)| match values {
                Value::Array(values) => (name, values),
                value => (name, vec![value]),
            })
            .collect(),
        _ => {
            let hint = "write a parameter and its safe values: {action: [load, list]}";
            report.hinted(node.at, "`safe_when` must be a mapping", hint);
            BTreeMap::new()
        }
    }
}

fn read_behaviour(node: &Node, behaviour: &mut Behaviour, report: &mut FaultReport<'_>) {
    let Some(mut fields) = MapFields::of(node, "`behaviour`", report) else { return };
    for (key, field) in [
        ("read_only", &mut behaviour.read_only),
        ("idempotent", &mut behaviour.idempotent),
        ("destructive", &mut behaviour.destructive),
    ] {
        if let Some(node) = fields.get(key) {
            *field = reader::flag(node, key, report).unwrap_or_default();
        }
    }
    if let Some(node) = fields.get("concurrency_safe") {
        behaviour.concurrency_safe = reader::flag(node, "concurrency_safe", report);
    }
    fields.finish(report);
    if behaviour.read_only && behaviour.destructive {
        report.add(node.at, "a tool cannot be both `read_only` and `destructive`");
    }
}
