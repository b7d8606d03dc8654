//! [`Workflows`]: the executor of the kind `workflow`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass::{
    BoxFuture, Call, CallId, CallRequest, Content, Context, Error, ErrorKind, Executor, Lang,
    Output, Tool, ToolBuilder, ToolSpec,
};

use crate::limits::RunLimits;
use crate::log::{
    Message, OpenWait, ParentStep, Recipient, RetryOf, RunEnd, RunHead, RunStatus, Wait, Wake,
};
use crate::native::{self, PromptMaker};
use crate::plan::Plan;
use crate::run::{Drive, DriveEnd, Driver, Frame, Memo, RUN_FACT, Writer};
use crate::store::{MemoryRuns, RunStore};

/// The executor of workflows. Cheap to clone.
#[derive(Clone)]
pub struct Workflows(Arc<Shared>);

struct Shared {
    store: Arc<dyn RunStore>,
    limits: RunLimits,
    lang: Lang,
    prompts: Option<PromptMaker>,
    /// The runs that this process drives.
    driven: Mutex<HashMap<Arc<str>, Arc<Notify>>>,
}

/// Which run a call goes on with: a context object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resume {
    run: Option<Arc<str>>,
    retry: Option<RetryOf>,
}

/// Whether a run is stored as soon as it begins: a context object. Others are
/// stored before their first effect, and at the latest when they end or wait.
pub(crate) struct KnownAtOnce;

impl Resume {
    pub(crate) fn none() -> Self {
        Self::default()
    }

    pub(crate) fn run(run: Arc<str>) -> Self {
        Self { run: Some(run), retry: None }
    }

    pub(crate) fn retry(retry: RetryOf) -> Self {
        Self { run: None, retry: Some(retry) }
    }
}

impl Default for Workflows {
    fn default() -> Self {
        Self::new(Arc::new(MemoryRuns::default()))
    }
}

impl Workflows {
    /// Workflows whose runs this store keeps.
    pub fn new(store: Arc<dyn RunStore>) -> Self {
        let (limits, lang) = (RunLimits::default(), Lang::default());
        let driven = Mutex::default();
        Self(Arc::new(Shared { store, limits, lang, prompts: None, driven }))
    }

    /// Sets the limits of definitions and runs.
    #[must_use]
    pub fn limits(self, limits: RunLimits) -> Self {
        self.with(|shared| shared.limits = limits)
    }

    /// Sets the language of texts for models.
    #[must_use]
    pub fn lang(self, lang: Lang) -> Self {
        self.with(|shared| shared.lang = lang)
    }

    /// Sets what makes the tools of `prompt` steps, which ask a model.
    #[must_use]
    pub fn prompts(self, prompts: PromptMaker) -> Self {
        self.with(|shared| shared.prompts = Some(prompts))
    }

    fn with(self, change: impl FnOnce(&mut Shared)) -> Self {
        let Shared { store, limits, lang, prompts, .. } = &*self.0;
        let mut shared = Shared {
            store: Arc::clone(store),
            limits: limits.clone(),
            lang: *lang,
            prompts: prompts.clone(),
            driven: Mutex::default(),
        };
        change(&mut shared);
        Self(Arc::new(shared))
    }

    /// What makes the tools of steps that ask a model.
    pub(crate) fn prompt_maker(&self) -> Option<&PromptMaker> {
        self.0.prompts.as_ref()
    }

    /// Where the runs are kept.
    pub fn store(&self) -> &Arc<dyn RunStore> {
        &self.0.store
    }

    /// The limits that no definition exceeds.
    pub(crate) fn most(&self) -> &RunLimits {
        &self.0.limits
    }

    /// Reads a definition.
    pub fn plan(&self, spec: &ToolSpec) -> Result<Plan, Error> {
        native::read(spec, &self.0.limits, self.0.prompts.as_ref())
    }

    /// The executor for a workflow's definition.
    pub fn bind(&self, spec: &ToolSpec) -> Result<Arc<dyn Executor>, Error> {
        Ok(Arc::new(Workflow { plan: Arc::new(self.plan(spec)?), shared: Arc::clone(&self.0) }))
    }

    /// A workflow as a tool by itself: as it was defined when a run began.
    pub(crate) fn tool(&self, spec: &ToolSpec) -> Result<Arc<Tool>, Error> {
        let executor = self.bind(spec)?;
        ToolBuilder::new(spec.clone(), executor).build("workflow")
    }

    /// Tells the run that there is a message for it. Returns whether this
    /// process drives it.
    pub(crate) fn notify(&self, run: &str) -> bool {
        let driven = self.0.driven.lock();
        let mail = driven.get(run);
        mail.into_iter().for_each(|mail| mail.notify_one());
        mail.is_some()
    }
}

/// The executor of one workflow.
struct Workflow {
    plan: Arc<Plan>,
    shared: Arc<Shared>,
}

impl Executor for Workflow {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let tools = call.tools();
            tools.aside(self.drive(call)).await
        })
    }
}

impl Workflow {
    async fn drive(&self, call: &Call) -> Result<Output, Error> {
        let resume = call.object::<Resume>().unwrap_or_default();
        let run = resume.run.clone().unwrap_or_else(|| call.id().to_string().into());
        let listed = ListedRun::new(&self.shared, &run)?;
        let opened = match &resume.run {
            Some(run) => self.resume(call, run).await?,
            None => self.begin(call, resume.retry.clone()).await?,
        };
        let Opened { head, memo, writer } = opened;
        let left = LeftGuard::new(&self.shared.store, &head);
        let context = Context::clone(call.context());
        let drive = Drive::new(
            &self.plan,
            call,
            context,
            self.shared.lang,
            memo,
            writer,
            Arc::clone(&head.id),
        );
        let run = json!({"id": head.id, "started": head.created_at});
        let given = vec![("input".into(), Arc::clone(&head.input)), ("run".into(), Arc::new(run))];
        let driver = Driver {
            drive,
            mail: Arc::clone(&listed.mail),
            frame: Frame::outermost(given),
            began: Instant::now(),
            ran_before: Duration::from_millis(head.ran_ms),
        };
        let ended = driver.run().await;
        left.arrived();
        drop(listed);
        match ended? {
            DriveEnd::Ended { end, handled } => {
                if resume.run.is_some() {
                    self.tell_parent(&head, &end).await?;
                }
                self.output(&head, end, handled)
            }
            DriveEnd::Waiting(waits) => Ok(waiting(&head, &waits, self.shared.lang)),
        }
    }

    /// A run that begins with this call.
    async fn begin(&self, call: &Call, retry: Option<RetryOf>) -> Result<Opened, Error> {
        let caller = call.caller();
        let mut memo = Memo::default();
        if let Some(RetryOf { run, from }) = &retry {
            let (entries, _) = self.shared.store.entries(&caller.tenant, run).await?;
            memo.take_over(entries, from.as_deref());
        }
        let parent = call.object::<ParentStep>().filter(|parent| {
            // That of this very call, not one of a call around it.
            caller.caller_id.as_deref() == Some(&*parent.place)
        });
        let head = RunHead {
            id: call.id().to_string().into(),
            tenant: caller.tenant.clone(),
            workflow: Arc::clone(&self.plan.name),
            digest: Arc::clone(&self.plan.digest),
            input: Arc::new(call.arguments().clone()),
            user: caller.user.clone(),
            conversation: caller.conversation.clone(),
            begun_by: call.context().beginner().map(Arc::from),
            parent: parent.map(|parent| ParentStep::clone(&parent)),
            retry_of: retry,
            created_at: Timestamp::now(),
            ended_at: None,
            status: RunStatus::Running,
            driver: call.id(),
            owner: Some(self.shared.store.owner()),
            ran_ms: 0,
            usage: windlass::Usage::default(),
            waits: Vec::new(),
            end: None,
        };
        let definition = Definition { plan: &self.plan, store: &self.shared.store };
        let writer = Writer::begin(Arc::clone(&self.shared.store), head.clone());
        definition.keep(&head).await?;
        if call.object::<KnownAtOnce>().is_some() && head.parent.is_none() {
            writer.flush().await?;
        }
        Ok(Opened { head, memo, writer })
    }

    /// The run that this call goes on with.
    async fn resume(&self, call: &Call, run: &Arc<str>) -> Result<Opened, Error> {
        let store = &self.shared.store;
        let tenant = &call.caller().tenant;
        let mut stored = store.head(tenant, run).await?.ok_or_else(|| unknown(run))?;
        if !stored.head.status.has_ended() {
            stored.head.status = RunStatus::Running;
            stored.head.driver = call.id();
            stored.head.owner = Some(store.owner());
            let version = store.update(&stored.head, stored.version).await?;
            stored.version = version.ok_or_else(|| crate::store::taken_over(run))?;
        }
        let (entries, groups) = store.entries(tenant, run).await?;
        let mut memo = Memo::of(entries);
        if let Some(RetryOf { run, from }) = &stored.head.retry_of {
            let (entries, _) = store.entries(tenant, run).await?;
            memo.take_over(entries, from.as_deref());
        }
        let head = stored.head.clone();
        let writer = Writer::resume(Arc::clone(store), stored, groups);
        writer.add(crate::log::Entry::Resumed { call: call.id() });
        writer.flush().await?;
        Ok(Opened { head, memo, writer })
    }

    /// Tells the run that waits for this one how it ended.
    async fn tell_parent(&self, head: &RunHead, end: &RunEnd) -> Result<(), Error> {
        let Some(ParentStep { run, place }) = &head.parent else { return Ok(()) };
        let message = Message {
            key: format!("run:{}", head.id),
            to: Recipient::Place(Arc::clone(place)),
            wake: Wake::Run { end: end.clone() },
        };
        self.shared.store.send(&head.tenant, run, &message).await?;
        Ok(())
    }

    /// The result of a run that has ended.
    fn output(&self, head: &RunHead, end: RunEnd, handled: usize) -> Result<Output, Error> {
        let fact = |status: &str| {
            let mut fact = json!({"id": head.id, "status": status});
            if handled > 0 {
                fact["handled_errors"] = handled.into();
            }
            fact
        };
        match end {
            RunEnd::Succeeded { value } => {
                Ok(output_of(&value).with_metadata(RUN_FACT, fact("succeeded")))
            }
            RunEnd::Failed { place, error } => {
                let mut fact = fact("failed");
                fact["step"] = json!(place);
                let message = match &place {
                    Some(place) => format!("the step `{place}` failed: {}", error.message),
                    None => error.message.to_string(),
                };
                let kind = ErrorKind::from_name(&error.kind).unwrap_or(ErrorKind::ToolError);
                let failed = Error::new(kind, message).with_metadata(RUN_FACT, fact);
                Err(match error.feedback {
                    Some(feedback) => failed.with_feedback(&*feedback),
                    None => failed,
                })
            }
            RunEnd::Cancelled { .. } => {
                Err(Error::new(ErrorKind::Cancelled, "the run was cancelled")
                    .with_metadata(RUN_FACT, fact("cancelled")))
            }
        }
    }
}

/// What a run returns, as a result: files, then text, then JSON.
fn output_of(value: &Value) -> Output {
    let files = files_in(value);
    let mut output = match value {
        Value::String(text) => Output::text(text.clone()),
        value => Output::json(value.clone()),
    };
    output.content.splice(0..0, files);
    output.with_structured(value.clone())
}

/// The files in a value: blocks of a file that a tool gave.
fn files_in(value: &Value) -> Vec<Content> {
    let block = |value: &Value| {
        let named = value.get("type")?.as_str()?;
        let is_file = ["image_link", "image", "file_var", "blob", "audio"].contains(&named);
        is_file.then(|| serde_json::from_value::<Content>(value.clone()).ok()).flatten()
    };
    match value {
        Value::Array(items) => items.iter().flat_map(files_in).collect(),
        Value::Object(map) => match block(value) {
            Some(block) => vec![block],
            None => map.values().flat_map(files_in).collect(),
        },
        _ => Vec::new(),
    }
}

/// The result of a call whose run waits.
fn waiting(head: &RunHead, waits: &[OpenWait], lang: Lang) -> Output {
    let told = |open: &OpenWait| match (&open.wait, lang) {
        (Wait::Person { ask, .. }, Lang::En) => format!("a person: {}", ask.text),
        (Wait::Person { ask, .. }, Lang::Zh) => format!("人工答复:{}", ask.text),
        (Wait::Signal { name, .. }, Lang::En) => format!("the signal `{name}`"),
        (Wait::Signal { name, .. }, Lang::Zh) => format!("信号 `{name}`"),
        (Wait::Time { until }, Lang::En) => format!("the time {until}"),
        (Wait::Time { until }, Lang::Zh) => format!("时间 {until}"),
        (Wait::Run { run }, Lang::En) => format!("the run {run}"),
        (Wait::Run { run }, Lang::Zh) => format!("运行 {run}"),
        (Wait::Call { call }, Lang::En) => format!("the approval of the call {call}"),
        (Wait::Call { call }, Lang::Zh) => format!("对调用 {call} 的审批"),
    };
    let told: Vec<String> = waits.iter().map(told).collect();
    let id = &head.id;
    let text = match lang {
        Lang::En => format!(
            "The run {id} waits for {}. It goes on by itself; do not call it again.",
            told.join("; ")
        ),
        Lang::Zh => format!("运行 {id} 正在等待{}。它会自动继续,请勿重复调用。", told.join(";")),
    };
    let fact = json!({"id": id, "status": "waiting", "waits": waits});
    let structured = json!({"run_id": id, "status": "waiting"});
    Output::text(text).with_structured(structured).with_metadata(RUN_FACT, fact)
}

fn unknown(run: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no run {run}"))
}

/// A run that is about to be driven.
struct Opened {
    head: RunHead,
    memo: Memo,
    writer: Writer,
}

/// The definition that a run keeps to.
struct Definition<'a> {
    plan: &'a Plan,
    store: &'a Arc<dyn RunStore>,
}

impl Definition<'_> {
    async fn keep(&self, head: &RunHead) -> Result<(), Error> {
        let spec = serde_json::to_value(&self.plan.spec)
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        self.store.keep_definition(&head.tenant, &head.digest, &spec).await
    }
}

/// A run that this process drives.
struct ListedRun {
    shared: Arc<Shared>,
    run: Arc<str>,
    mail: Arc<Notify>,
}

impl ListedRun {
    fn new(shared: &Arc<Shared>, run: &Arc<str>) -> Result<Self, Error> {
        match shared.driven.lock().entry(Arc::clone(run)) {
            Entry::Occupied(_) => Err(crate::store::taken_over(run)),
            Entry::Vacant(free) => {
                let mail = Arc::clone(free.insert(Arc::new(Notify::new())));
                Ok(Self { shared: Arc::clone(shared), run: Arc::clone(run), mail })
            }
        }
    }
}

impl Drop for ListedRun {
    fn drop(&mut self) {
        self.shared.driven.lock().remove(&self.run);
    }
}

/// Ends a run whose call was cancelled: its future is dropped, and nobody else
/// goes on with it.
struct LeftGuard {
    store: Arc<dyn RunStore>,
    head: Option<(windlass::TenantId, Arc<str>, CallId)>,
}

impl LeftGuard {
    fn new(store: &Arc<dyn RunStore>, head: &RunHead) -> Self {
        let head = Some((head.tenant.clone(), Arc::clone(&head.id), head.driver));
        Self { store: Arc::clone(store), head }
    }

    fn arrived(mut self) {
        self.head = None;
    }
}

impl Drop for LeftGuard {
    fn drop(&mut self) {
        let Some((tenant, run, driver)) = self.head.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let store = Arc::clone(&self.store);
        // On a runtime that shuts down, the run is found without an owner later.
        runtime.spawn(async move {
            for _ in 0..5 {
                let Ok(Some(mut stored)) = store.head(&tenant, &run).await else { return };
                if stored.head.driver != driver || stored.head.status.has_ended() {
                    return;
                }
                stored.head.status = RunStatus::Cancelled;
                stored.head.owner = None;
                stored.head.ended_at = Some(Timestamp::now());
                stored.head.waits.clear();
                stored.head.end = Some(RunEnd::Cancelled { who: None });
                match store.update(&stored.head, stored.version).await {
                    Ok(None) => {}
                    Ok(Some(_)) | Err(_) => return,
                }
            }
        });
    }
}

/// The request that goes on with a run.
pub(crate) fn resuming(tool: &Arc<Tool>, head: &RunHead, timeout: Duration) -> CallRequest {
    let caller = windlass::Caller {
        tenant: head.tenant.clone(),
        user: head.user.clone(),
        conversation: head.conversation.clone(),
        caller_type: windlass::CallerType::Direct,
        ..windlass::Caller::default()
    };
    let mut context = Context::new(caller).object(Resume::run(Arc::clone(&head.id)));
    if let Some(who) = &head.begun_by {
        context = context.begun_by(Arc::clone(who));
    }
    let left = timeout.saturating_sub(Duration::from_millis(head.ran_ms));
    CallRequest::pinned(tool, Value::clone(&head.input))
        .context(context)
        .timeout(left.max(Duration::from_secs(60)))
}

/// The request that repeats a run.
pub(crate) fn repeating(tool: &Arc<Tool>, head: &RunHead, from: Option<&str>) -> CallRequest {
    let retry = RetryOf { run: Arc::clone(&head.id), from: from.map(Arc::from) };
    let request = resuming(tool, head, Duration::MAX);
    let timeout = tool.spec().timeout.unwrap_or(Duration::from_secs(3600));
    request.object(Resume::retry(retry)).timeout(timeout)
}
