//! Tools: [`ToolSpec`] describes one, [`Tool`] is checked and registered, and
//! an [`Executor`] runs it.

mod compact;
pub(crate) mod executor;
pub(crate) mod groups;
pub(crate) mod library;
pub mod native;
pub(crate) mod output_tool;
pub(crate) mod providers;
pub(crate) mod registry;
mod schema;
pub(crate) mod search;
pub(crate) mod search_tool;
mod spec;

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value};

use schema::{CacheGuard, Fill};
pub(crate) use schema::{LazySchema, Schema, assumed};
pub(crate) use spec::object_schema;
pub use spec::{
    Approval, Behaviour, Category, Entry, Exposure, FilledBy, InputKind, Kind, Parameter, ToolSpec,
    empty_object_schema,
};

use crate::call::context::Context;
use crate::error::{Error, ErrorKind};
use crate::schedule::{RetryPolicy, Upstream, UpstreamRef, Upstreams, asks_many};
use crate::tool::executor::Executor;
use crate::value::name::{TenantId, ToolName};
use crate::value::secret::Secret;
use crate::value::text::Text;

/// A registered tool, with checked schemas and its executor.
pub struct Tool {
    spec: ToolSpec,
    /// `None` if the model sees the whole input schema.
    model_schema: Option<Value>,
    input: LazySchema,
    /// Parts of the arguments that are not validated, and why.
    unchecked: Option<String>,
    /// Whether the schemas are foreign: what does not compile is not checked.
    of_others: bool,
    output: Option<LazySchema>,
    hidden: Vec<HiddenParameter>,
    executor: Arc<dyn Executor>,
    source: Source,
    owner: Option<TenantId>,
    /// Name for counting its calls, qualified by owner: tools of different
    /// owners are different tools.
    counted_as: Arc<str>,
    /// Distinguishes it from an earlier tool of the same name.
    generation: u64,
    upstream: OnceLock<Arc<Upstream>>,
    asks_many: bool,
    wire: Option<WireNames>,
}

/// Wire names of a tool whose own name is not accepted by model APIs.
pub(crate) struct WireNames {
    /// The readable one, which may not be unique.
    pub(crate) readable: Arc<str>,
    /// The unique one, with a hash.
    pub(crate) hashed: Arc<str>,
    /// Whether another tool of the same owner has the same readable name.
    pub(crate) is_shared: AtomicBool,
}

/// Source of a tool: a file, a server, or the program itself. All tools of a
/// source are replaced together.
pub type Source = Arc<str>;

impl Tool {
    pub(crate) fn compile(
        builder: ToolBuilder,
        source: Source,
        owner: Option<TenantId>,
    ) -> Result<Self, Error> {
        let ToolBuilder { mut spec, presets, executor, of_others, problem, checked } = builder;
        if let Some(problem) = problem {
            return Err(problem);
        }
        if !checked {
            spec.compact();
        }
        let about = |error: Error| {
            Error::new(error.kind(), format!("tool `{}`: {}", spec.name, error.message()))
        };
        let hidden = hidden_parameters(&spec, presets).map_err(about)?;
        let arguments = arguments_schema(&spec.input, &hidden);
        let known = match checked {
            true => Ok(LazySchema::default()),
            false => LazySchema::check(&arguments),
        };
        let (input, unchecked) = match known {
            Ok(input) => (input, None),
            Err(_) if of_others => {
                let unchecked = Schema::unchecked_of(&arguments).map_err(about)?;
                (LazySchema::default(), unchecked)
            }
            Err(error) => return Err(about(error)),
        };
        drop(arguments);
        let enforced = spec.output.as_ref().filter(|_| !spec.output_advisory);
        let output = match enforced.map(LazySchema::check).transpose() {
            // Defaults of a foreign schema that does not compile are unknown;
            // that must not fail calls.
            Err(_) if of_others => None,
            output => output.map_err(about)?,
        };
        let model_schema = (!hidden.is_empty()).then(|| model_schema(&spec.input, &hidden));
        if spec.entry.handler.is_empty() {
            spec.entry.handler = spec.name.to_string();
        }
        if spec.cache.is_some() && !spec.behaviour.read_only {
            return Err(about(Error::new(
                ErrorKind::InvalidDefinition,
                "only the results of a tool that is `read_only` can be cached",
            )));
        }
        let wire = (!spec.name.fits()).then(|| WireNames {
            readable: spec.name.wire().into(),
            hashed: spec.name.hashed().into(),
            is_shared: AtomicBool::new(false),
        });
        let counted_as = scoped(owner.as_ref(), spec.name.shared());
        static GENERATIONS: AtomicU64 = AtomicU64::new(0);
        Ok(Self {
            asks_many: asks_many(&spec),
            spec,
            model_schema,
            input,
            unchecked,
            of_others,
            output,
            hidden,
            executor,
            source,
            owner,
            counted_as,
            generation: GENERATIONS.fetch_add(1, Ordering::Relaxed),
            upstream: OnceLock::new(),
            wire,
        })
    }

    /// The unique name.
    pub fn name(&self) -> &ToolName {
        &self.spec.name
    }

    /// The name for model APIs: see [`ToolName::wire`], or [`ToolName::hashed`]
    /// if another tool of the engine would have the same. The registry finds a
    /// tool by each of its names.
    pub fn wire_name(&self) -> &str {
        match &self.wire {
            None => self.spec.name.as_str(),
            Some(wire) if wire.is_shared.load(Ordering::Relaxed) => &wire.hashed,
            Some(wire) => &wire.readable,
        }
    }

    pub(crate) fn wire_names(&self) -> Option<&WireNames> {
        self.wire.as_ref()
    }

    /// The description.
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// The model's view of the input schema: without hidden parameters.
    pub fn model_schema(&self) -> &Value {
        self.model_schema.as_ref().unwrap_or(&self.spec.input)
    }

    /// Parts of the arguments that are not validated, and why: a foreign schema
    /// did not compile.
    pub fn unchecked(&self) -> Option<&str> {
        self.unchecked.as_deref()
    }

    /// The source of the tool.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The tenant that owns the tool; `None` if it is shared by all tenants.
    pub fn owner(&self) -> Option<&TenantId> {
        self.owner.as_ref()
    }

    pub(crate) fn counted_as(&self) -> &Arc<str> {
        &self.counted_as
    }

    /// The schema of the arguments, compiled on first use.
    pub(crate) fn input(&self) -> Result<CacheGuard<Schema>, Error> {
        self.input.get(|| {
            let forms = asked_of_people(&self.spec);
            let fill = match self.spec.kind.counts_on_defaults() {
                true => Fill::Everything,
                false => Fill::Required(&forms),
            };
            let arguments = arguments_schema(&self.spec.input, &self.hidden);
            match self.of_others {
                true => Schema::of_others(&arguments, &fill).map(|(schema, _)| schema),
                false => Schema::of_arguments(&arguments, &fill),
            }
        })
    }

    /// The schema of results, if they are validated.
    pub(crate) fn output(&self) -> Result<Option<CacheGuard<Schema>>, Error> {
        let (Some(lazy), Some(output)) = (&self.output, &self.spec.output) else {
            return Ok(None);
        };
        lazy.get(|| Schema::compile(output)).map(Some)
    }

    pub(crate) fn hidden(&self) -> &[HiddenParameter] {
        &self.hidden
    }

    pub(crate) fn executor(&self) -> &dyn Executor {
        &*self.executor
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The upstream, looked up once; for each call if the arguments determine
    /// it.
    pub(crate) fn upstream(
        &self,
        upstreams: &Upstreams,
        arguments: &Value,
        context: &Context,
    ) -> UpstreamRef<'_> {
        match self.asks_many {
            true => UpstreamRef::OneOfMany(upstreams.of_call(self, arguments, context)),
            false => UpstreamRef::Fixed(self.upstream.get_or_init(|| upstreams.of(self))),
        }
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tool({} from {})", self.spec.name, self.source)
    }
}

/// Qualifies a name by owner. Names of tools contain no line break, so
/// qualified names cannot collide with unqualified ones.
pub(crate) fn scoped(owner: Option<&TenantId>, name: Arc<str>) -> Arc<str> {
    match owner {
        Some(tenant) => format!("{tenant}\n{name}").into(),
        None => name,
    }
}

/// A tool before registration: a description and an executor.
#[derive(Clone)]
pub struct ToolBuilder {
    spec: ToolSpec,
    presets: Vec<(String, Preset)>,
    executor: Arc<dyn Executor>,
    /// Whether the schemas are foreign.
    of_others: bool,
    /// An early error, reported at registration, so that builders need no `?`.
    problem: Option<Error>,
    /// Whether the schemas were already checked.
    checked: bool,
}

impl ToolBuilder {
    /// Creates a tool from its parts.
    pub fn new(spec: ToolSpec, executor: Arc<dyn Executor>) -> Self {
        let (presets, problem) = (Vec::new(), None);
        Self { spec, presets, executor, of_others: false, problem, checked: false }
    }

    /// Skips checking the schemas, because they were checked before. An invalid
    /// one is reported by the first call.
    pub(crate) fn checked(self, checked: bool) -> Self {
        Self { checked, ..self }
    }

    /// Creates a native tool with this name and input schema.
    pub fn native(name: &str, input: Value, executor: Arc<dyn Executor>) -> Self {
        let (name, problem) = match ToolName::new(name) {
            Ok(name) => (name, None),
            Err(error) => (ToolName::unnamed(), Some(error)),
        };
        let mut spec = ToolSpec::new(name);
        spec.input = input;
        Self { problem, ..Self::new(spec, executor) }
    }

    /// The current description.
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Marks the schemas as foreign: models see them unchanged, and parts that
    /// do not compile are not validated (see [`Tool::unchecked`]).
    #[must_use]
    pub fn schemas_of_others(mut self) -> Self {
        self.of_others = true;
        self
    }

    /// Checks whether it could be registered: name, schemas and presets.
    pub fn check(&self) -> Result<(), Error> {
        Tool::compile(self.clone(), "check".into(), None).map(drop)
    }

    /// Modifies the description.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut ToolSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// The tool by itself, without registering it: see
    /// [`CallRequest::pinned`](crate::CallRequest::pinned).
    pub fn build(self, source: &str) -> Result<Arc<Tool>, Error> {
        Tool::compile(self, source.into(), None).map(Arc::new)
    }

    /// Sets the description that the model reads.
    #[must_use]
    pub fn description(self, description: impl Into<Text>) -> Self {
        self.with(|spec| spec.description = description.into())
    }

    /// Puts the tool into a group.
    #[must_use]
    pub fn group(self, group: impl Into<String>) -> Self {
        self.with(|spec| spec.group = Some(group.into()))
    }

    /// Sets the timeout of calls.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|spec| spec.timeout = Some(timeout))
    }

    /// Sets the behaviour: its side effects.
    #[must_use]
    pub fn behaviour(self, behaviour: Behaviour) -> Self {
        self.with(|spec| spec.behaviour = behaviour)
    }

    /// Sets whether calls are allowed, need approval, or are denied.
    #[must_use]
    pub fn approval(self, approval: Approval) -> Self {
        self.with(|spec| spec.approval = Some(approval))
    }

    /// Sets the retry policy, also for tools that are not known to be safe to
    /// repeat.
    #[must_use]
    pub fn retry(self, retry: RetryPolicy) -> Self {
        self.with(|spec| spec.retry = Some(retry))
    }

    /// Caches results for this long, by arguments. The tool must be read-only.
    #[must_use]
    pub fn cache(self, keep: Duration) -> Self {
        self.with(|spec| spec.cache = Some(keep))
    }

    /// Sets the upstream, whose failures are counted together; `{url}` stands
    /// for the argument `url`.
    #[must_use]
    pub fn upstream(self, name: impl Into<String>) -> Self {
        self.with(|spec| spec.upstream = Some(name.into()))
    }

    /// Declares a resource that the tool writes, such as `memory:{user_id}`.
    #[must_use]
    pub fn writes(self, resource: impl Into<String>) -> Self {
        self.with(|spec| spec.writes.push(resource.into()))
    }

    /// Declares that calls may run concurrently if a parameter has one of these
    /// values.
    #[must_use]
    pub fn safe_when(self, parameter: &str, values: impl IntoIterator<Item = Value>) -> Self {
        self.with(|spec| {
            spec.safe_when.insert(parameter.to_owned(), values.into_iter().collect());
        })
    }

    /// Presets a parameter and hides it from the model.
    #[must_use]
    pub fn preset(mut self, parameter: &str, preset: impl Into<Preset>) -> Self {
        self.presets.push((parameter.to_owned(), preset.into()));
        self
    }
}

/// A preset: fills a parameter in place of the model.
#[derive(Clone)]
pub struct Preset {
    pub(crate) value: PresetValue,
    pub(crate) overridable: bool,
}

#[derive(Clone)]
pub(crate) enum PresetValue {
    Value(Value),
    Variable(String),
    Secret(Secret),
}

impl Preset {
    /// A fixed value.
    pub fn value(value: impl Into<Value>) -> Self {
        Self { value: PresetValue::Value(value.into()), overridable: false }
    }

    /// The value of a variable of the call's context.
    pub fn variable(name: impl Into<String>) -> Self {
        Self { value: PresetValue::Variable(name.into()), overridable: false }
    }

    /// A secret, which the tool can read but which is not an argument.
    pub fn secret(secret: impl Into<Secret>) -> Self {
        Self { value: PresetValue::Secret(secret.into()), overridable: false }
    }

    /// Lets the model see and override the parameter.
    #[must_use]
    pub fn overridable(mut self) -> Self {
        self.overridable = true;
        self
    }
}

impl<T: Into<Value>> From<T> for Preset {
    fn from(value: T) -> Self {
        Self::value(value)
    }
}

impl From<Secret> for Preset {
    fn from(secret: Secret) -> Self {
        Self::secret(secret)
    }
}

/// A parameter that is not filled by the model.
pub(crate) struct HiddenParameter {
    pub(crate) name: String,
    pub(crate) filled_by: FilledBy,
    pub(crate) required: bool,
    pub(crate) preset: Option<PresetValue>,
    /// Whether the model may see and override it; then it is not hidden.
    pub(crate) overridable: bool,
}

/// Parameters filled by people in forms; their defaults are the author's
/// choice.
fn asked_of_people(spec: &ToolSpec) -> Vec<&str> {
    let forms = spec.parameters.iter().filter(|(_, one)| one.filled_by == FilledBy::Form);
    forms.map(|(name, _)| name.as_str()).collect()
}

/// Combines the hidden parameters of the definition with the presets.
fn hidden_parameters(
    spec: &ToolSpec,
    presets: Vec<(String, Preset)>,
) -> Result<Vec<HiddenParameter>, Error> {
    let mut hidden: Vec<HiddenParameter> = spec
        .parameters
        .iter()
        .filter(|(_, parameter)| parameter.filled_by != FilledBy::Model)
        .map(|(name, parameter)| HiddenParameter {
            name: name.clone(),
            filled_by: parameter.filled_by,
            required: parameter.required,
            preset: None,
            overridable: false,
        })
        .collect();
    for (name, preset) in presets {
        let known = hidden.iter().position(|parameter| parameter.name == name);
        let in_schema =
            spec.input.pointer("/properties").is_some_and(|all| all.get(&name).is_some());
        if known.is_none() && !in_schema {
            return Err(Error::new(
                ErrorKind::InvalidDefinition,
                format!("a preset names the parameter `{name}`, which the tool does not have"),
            ));
        }
        if preset.overridable && matches!(preset.value, PresetValue::Secret(_)) {
            return Err(Error::new(
                ErrorKind::InvalidDefinition,
                format!("the preset of `{name}` is a secret, which a model cannot override"),
            ));
        }
        let at = known.unwrap_or_else(|| {
            hidden.push(HiddenParameter {
                name: name.clone(),
                filled_by: FilledBy::Form,
                required: false,
                preset: None,
                overridable: false,
            });
            hidden.len() - 1
        });
        if matches!(preset.value, PresetValue::Secret(_)) {
            hidden[at].filled_by = FilledBy::Secret;
        }
        hidden[at].overridable = preset.overridable;
        hidden[at].preset = Some(preset.value);
    }
    Ok(hidden)
}

/// The schema for validation: all parameters except secrets, which are never
/// arguments.
fn arguments_schema<'s>(input: &'s Value, hidden: &[HiddenParameter]) -> Cow<'s, Value> {
    let is_secret = |parameter: &HiddenParameter| parameter.filled_by == FilledBy::Secret;
    match hidden.iter().any(is_secret) {
        true => Cow::Owned(without(input, hidden, is_secret)),
        false => Cow::Borrowed(input),
    }
}

/// The model's view of the schema.
fn model_schema(input: &Value, hidden: &[HiddenParameter]) -> Value {
    let mut schema = without(input, hidden, |parameter| !parameter.overridable);
    // Parameters with an overridable preset are optional for the model.
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !hidden.iter().any(|parameter| *name == parameter.name.as_str()));
    }
    schema
}

fn without(
    input: &Value,
    hidden: &[HiddenParameter],
    leave_out: impl Fn(&HiddenParameter) -> bool,
) -> Value {
    let mut schema = input.clone();
    for parameter in hidden.iter().filter(|parameter| leave_out(parameter)) {
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.shift_remove(&parameter.name);
        }
        if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| *name != parameter.name.as_str());
        }
    }
    schema
}

/// A nested object of a schema, by key.
pub(crate) fn object<'a>(schema: &'a Value, key: &str) -> Option<&'a Map<String, Value>> {
    schema.get(key).and_then(Value::as_object)
}
