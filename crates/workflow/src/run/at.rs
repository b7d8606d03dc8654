//! [`At`]: a step in a run, as the code of the step sees it.

use std::hash::Hasher;
use std::io;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::{
    Body, CallId, CallRequest, CallResult, Context, Error, ErrorKind, Kind, Lang, Output, Tool,
    Usage,
};

use super::drive::Drive;
use super::frame::{Acting, Frame, StepValue};
use crate::graph::{Graph, Node, OnInterrupted};
use crate::limits::RunLimits;
use crate::log::{Ask, Entry, Failure, OpenWait, ParentStep, RunEnd, StepEnd, Wait, Wake};
use crate::run::walk::BlockEnd;
use crate::step::Halt;
use crate::workflows::Resume;

/// How often a call that was cut off is made at most.
const MAX_ROUNDS: u32 = 10;

/// Name of the fact in the result of a run that waits.
pub(crate) const RUN_FACT: &str = "run";

/// A step in a run: where it stands, what it can read, and what it can do.
pub struct At<'a> {
    pub(crate) drive: &'a Drive<'a>,
    pub(crate) node: &'a Arc<Node>,
    pub(crate) frame: &'a Arc<Frame>,
    pub(crate) place: Arc<str>,
    pub(crate) acting: Acting,
    /// The digest of what it asks for.
    pub(crate) asked: OnceLock<Arc<str>>,
    pub(crate) usage: Mutex<Usage>,
    /// The call that it made last.
    pub(crate) made: Mutex<Option<CallId>>,
}

impl<'a> At<'a> {
    pub(crate) fn new(drive: &'a Drive<'a>, node: &'a Arc<Node>, frame: &'a Arc<Frame>) -> Self {
        let place = frame.place(&node.id);
        let acting = Acting::within(frame.acting());
        let (asked, usage, made) = (OnceLock::new(), Mutex::default(), Mutex::default());
        Self { drive, node, frame, place, acting, asked, usage, made }
    }

    /// Where it stands: `pages[3].lookup`.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<StepValue> {
        self.frame.get(name)
    }

    /// The limits of the run.
    pub fn limits(&self) -> &RunLimits {
        &self.drive.plan.limits
    }

    /// The language of texts for models.
    pub fn lang(&self) -> Lang {
        self.drive.lang
    }

    /// Reports what happens, to whoever follows the run.
    pub fn tell(&self, event: &'static str, about: impl FnOnce() -> Value) {
        self.drive.tell(event, &self.place, about);
    }

    /// Runs a block of this step: `key` tells its place (`[3].`), and `given`
    /// are the names that its steps can read besides those around it.
    pub async fn block(
        &self,
        graph: &Graph,
        key: &str,
        given: Vec<(Arc<str>, Arc<Value>)>,
    ) -> Result<BlockEnd, Halt> {
        let prefix = format!("{}{key}", self.place);
        let frame = self.frame.within(prefix, given, &self.acting);
        self.drive.walk(graph, frame).await
    }

    /// Runs a node of this step by itself.
    pub(crate) async fn alone(&self, node: &Arc<Node>) -> Result<Arc<Value>, Halt> {
        let prefix = format!("{}.", self.place);
        let frame = self.frame.within(prefix, Vec::new(), &self.acting);
        let acting = Acting::within(frame.acting());
        self.drive.run_node(node, &frame, acting).await.map(|done| done.value)
    }

    /// Calls a tool by its name.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Arc<Value>, Halt> {
        let found = self.drive.tools.find(tool);
        let request = |arguments| CallRequest::new(tool, arguments);
        self.make(tool, found.as_deref(), arguments, request).await
    }

    /// Calls a tool that the workflow has for itself.
    pub async fn call_own(&self, tool: &Arc<Tool>, arguments: Value) -> Result<Arc<Value>, Halt> {
        let request = |arguments| CallRequest::pinned(tool, arguments);
        self.make(tool.name().as_str(), Some(tool), arguments, request).await
    }

    async fn make(
        &self,
        name: &str,
        tool: Option<&Tool>,
        arguments: Value,
        request: impl Fn(Value) -> CallRequest,
    ) -> Result<Arc<Value>, Halt> {
        let may_change = tool.is_none_or(|tool| !tool.spec().behaviour.read_only);
        if let Some(earlier) = self.earlier(&json!([name, &arguments])) {
            return Ok(earlier);
        }
        if may_change && tool.is_some() && self.drive.plan.read_only {
            let why = format!(
                "the workflow says `read_only`, and its step `{}` calls `{name}`, \
                 which may change something",
                self.place
            );
            return Err(Error::new(ErrorKind::Denied, why).into());
        }
        self.drive.check_budget()?;
        let mut round = 1;
        loop {
            if round == 1
                && may_change
                && let Some(call) = self.drive.memo(|memo| memo.started.get(&self.place).copied())
                && let Some(run) = self.run_of(call).await?
            {
                return self.end_of(run).await;
            }
            let outcome = match self.of_log(round, may_change).await? {
                Some(outcome) => outcome,
                None => self.make_once(&request, arguments.clone(), may_change, round).await?,
            };
            match outcome {
                // What became of a run is what its own log says, not the call that
                // began it: it goes on by itself.
                Err(error)
                    if tool.is_some_and(|tool| tool.spec().kind == Kind::Workflow)
                        && was_cut_off(&error) =>
                {
                    let made = *self.made.lock();
                    let run = match made {
                        Some(call) => self.run_of(call).await?,
                        None => None,
                    };
                    match run {
                        Some(run) => return self.end_of(run).await,
                        // It did nothing: effects wait for the run to be stored.
                        None if round < MAX_ROUNDS => round += 1,
                        None => return Err(error.into()),
                    }
                }
                Ok(output) => return self.value_of(&output).await,
                Err(error) if error.kind() == ErrorKind::Interrupted && may_change => {
                    match self.interrupted(name, round, error).await? {
                        Some(value) => return Ok(value),
                        None => round += 1,
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The run that a call began, if it did.
    async fn run_of(&self, call: CallId) -> Result<Option<Arc<str>>, Error> {
        let run: Arc<str> = call.to_string().into();
        let tenant = &self.drive.context.caller().tenant;
        let found = self.drive.writer.store().head(tenant, &run).await?;
        Ok(found.map(|stored| stored.head.id))
    }

    /// The value of another run when it has ended.
    async fn end_of(&self, run: Arc<str>) -> Result<Arc<Value>, Halt> {
        let tenant = &self.drive.context.caller().tenant;
        let found = self.drive.writer.store().head(tenant, &run).await?;
        let end = match found.and_then(|stored| stored.head.end) {
            Some(end) => end,
            None => match self.wait(Wait::Run { run }).await? {
                Wake::Run { end } => end,
                Wake::Time | Wake::Message { .. } => return Ok(Arc::default()),
            },
        };
        match end {
            RunEnd::Succeeded { value } => Ok(value),
            RunEnd::Failed { error, .. } => Err(error.to_error().into()),
            RunEnd::Cancelled { .. } => {
                Err(Error::new(ErrorKind::Cancelled, "the run was cancelled").into())
            }
        }
    }

    /// The outcome of the call that an earlier driver began, if it has one.
    async fn of_log(
        &self,
        round: u32,
        may_change: bool,
    ) -> Result<Option<Result<Arc<Output>, Error>>, Error> {
        if !may_change || round > 1 {
            return Ok(None);
        }
        let Some(call) = self.drive.memo(|memo| memo.started.get(&self.place).copied()) else {
            return Ok(None);
        };
        *self.made.lock() = Some(call);
        self.recorded(call).await
    }

    async fn recorded(&self, call: CallId) -> Result<Option<Result<Arc<Output>, Error>>, Error> {
        let record = self.drive.tools.record(call).await?;
        Ok(record.map(|record| match (record.result, record.error) {
            (Some(output), _) => Ok(output),
            (None, Some(error)) => Err(Error::from(&*error)),
            (None, None) => Ok(Arc::default()),
        }))
    }

    async fn make_once(
        &self,
        request: &impl Fn(Value) -> CallRequest,
        arguments: Value,
        may_change: bool,
        round: u32,
    ) -> Result<Result<Arc<Output>, Error>, Halt> {
        let Drive { tools, run, limits_of_values, .. } = self.drive;
        let id = CallId::at(Timestamp::now());
        *self.made.lock() = Some(id);
        let mut request =
            request(arguments).context(self.context()).id(id).max_output_bytes(*limits_of_values);
        if let Some(timeout) = self.node.policy.timeout {
            request = request.timeout(timeout);
        }
        if let Some(attempts) = self.node.policy.attempts {
            request = request.attempts(attempts);
        }
        let mut guard = None;
        if may_change {
            let again = if round > 1 { format!("~{round}") } else { String::new() };
            request = request.idempotency_key(format!("run:{run}.{}{again}", self.place));
            let place = Arc::clone(&self.place);
            self.drive.writer.add(Entry::Started { place, call: id });
            self.drive.writer.flush().await?;
            guard = Some(self.acting.act());
        }
        // Nobody closes them.
        let slot = self.drive.slots.acquire().await;
        let result = tools.call(request).await?;
        drop((slot, guard));
        self.charge(&result);
        match &result.outcome {
            Err(error) if error.kind() == ErrorKind::ApprovalRequired => {
                // A person decides about the call, which then runs by itself.
                let call = result.same_as.unwrap_or(result.id);
                self.wait(Wait::Call { call }).await?;
                let why = "the call that a person was asked about has no record";
                let lost = || Err(Error::new(ErrorKind::NotFound, why));
                Ok(self.recorded(call).await?.unwrap_or_else(lost))
            }
            outcome => Ok(outcome.clone()),
        }
    }

    /// The context of the step's calls.
    fn context(&self) -> Context {
        let Drive { context, run, .. } = self.drive;
        let parent = ParentStep { run: Arc::clone(run), place: Arc::clone(&self.place) };
        context.for_step(run, &self.place).object(parent).object(Resume::none())
    }

    fn charge(&self, result: &CallResult) {
        if let Some(usage) = &result.usage {
            *self.usage.lock() += **usage;
            self.drive.charge(**usage);
        }
    }

    /// The value of an output; of a run that waits, the value when it has ended.
    async fn value_of(&self, output: &Output) -> Result<Arc<Value>, Halt> {
        if let Some(run) = waiting_run(output) {
            return self.end_of(run).await;
        }
        Ok(Arc::new(value_of(output)))
    }

    /// What to do about a call that was cut off: its value, or `None` to repeat
    /// it.
    async fn interrupted(
        &self,
        name: &str,
        round: u32,
        error: Error,
    ) -> Result<Option<Arc<Value>>, Halt> {
        match self.node.policy.on_interrupted {
            OnInterrupted::Fail => Err(error.into()),
            OnInterrupted::Repeat if round < MAX_ROUNDS => Ok(None),
            OnInterrupted::Repeat => Err(error.into()),
            OnInterrupted::Ask => {
                let place = format!("{}?{round}", self.place);
                let text = format!(
                    "`{name}` was cut off at the step `{}`, and may have taken effect. \
                     Repeat it, or go on as if it was done?",
                    self.place
                );
                let actions = ["repeat", "done", "fail"].map(str::to_owned).to_vec();
                let ask = Ask { text, actions, form: None, who: Vec::new() };
                let wait = Wait::Person { ask, until: None };
                let wake = self.drive.wait(place.into(), wait).await?;
                let Wake::Message { value, .. } = wake else { return Err(error.into()) };
                match value["action"].as_str() {
                    Some("repeat") => Ok(None),
                    Some("done") => Ok(Some(Arc::new(value["form"].clone()))),
                    _ => Err(error.into()),
                }
            }
        }
    }

    /// The value that an earlier run has of the same step, if that was asked
    /// for the same.
    pub(crate) fn earlier(&self, asked: &Value) -> Option<Arc<Value>> {
        let asked = digest(asked);
        let earlier = self.drive.memo(|memo| {
            let known = memo.earlier.get(&self.place).filter(|known| known.asked == asked)?;
            match &known.end {
                StepEnd::Succeeded { value, .. } => Some(Arc::clone(value)),
                _ => None,
            }
        });
        self.asked.set(asked).ok();
        earlier
    }

    /// Waits, for as long as it takes: while a run does nothing else, it is not
    /// in memory.
    pub async fn wait(&self, wait: Wait) -> Result<Wake, Halt> {
        self.drive.wait(Arc::clone(&self.place), wait).await
    }

    /// Waits for a person's answer: its value, and who gave it. An answer of the
    /// run that this one repeats counts.
    pub async fn ask(&self, ask: Ask, until: Option<Timestamp>) -> Result<Option<Value>, Halt> {
        let question = serde_json::to_value(&ask).unwrap_or_default();
        if let Some(earlier) = self.earlier(&question) {
            return Ok(Some(Value::clone(&earlier)));
        }
        match self.wait(Wait::Person { ask, until }).await? {
            Wake::Message { value, who } => Ok(Some(answer(value, who))),
            Wake::Time | Wake::Run { .. } => Ok(None),
        }
    }

    /// The end of the step, for the log.
    pub(crate) fn entry(&self, end: StepEnd) -> Entry {
        Entry::Ended {
            place: Arc::clone(&self.place),
            end,
            asked: self.asked.get().cloned(),
            usage: *self.usage.lock(),
        }
    }

    /// What handlers know of an error.
    pub(crate) fn error_value(error: &Error) -> Arc<Value> {
        let Failure { kind, message, .. } = Failure::of(error);
        Arc::new(json!({"kind": kind, "message": message}))
    }
}

fn answer(mut value: Value, who: Option<String>) -> Value {
    if let (Value::Object(answer), Some(who)) = (&mut value, who) {
        answer.insert("by".to_owned(), who.into());
    }
    value
}

/// Whether the run of a call that ended with this error may go on.
fn was_cut_off(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted | ErrorKind::StorageUnavailable | ErrorKind::Conflict
    )
}

/// The run that an output announces, if it waits.
pub(crate) fn waiting_run(output: &Output) -> Option<Arc<str>> {
    let fact = output.metadata.get(RUN_FACT)?;
    (fact["status"] == "waiting").then(|| fact["id"].as_str().unwrap_or_default().into())
}

/// The value of a step that has this output: its structured value, else its
/// JSON, else `{text}`.
pub(crate) fn value_of(output: &Output) -> Value {
    if let Some(structured) = &output.structured {
        return Value::clone(structured);
    }
    let mut values = output.content.iter().filter_map(|block| match &block.body {
        Body::Json(value) => Some(value),
        _ => None,
    });
    match (values.next(), values.next(), output.content.len()) {
        (Some(value), None, 1) => value.clone(),
        _ => {
            let files: Vec<Value> = (output.content.iter())
                .filter(|block| block.body.is_file())
                .filter_map(|block| serde_json::to_value(block).ok())
                .collect();
            let texts = output.content.iter().filter(|block| !block.body.is_file());
            let text: Vec<String> = texts.map(windlass::Content::to_text).collect();
            let mut value = json!({"text": text.join("\n")});
            if !files.is_empty() {
                value["files"] = files.into();
            }
            value
        }
    }
}

/// A digest that tells what was asked for from anything else; it is no secret,
/// and no proof.
fn digest(value: &Value) -> Arc<str> {
    /// FNV-1a, twice with different beginnings.
    struct Fnv([u64; 2]);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0[0]
        }
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                for half in &mut self.0 {
                    *half = (*half ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
    }
    impl io::Write for Fnv {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Hasher::write(self, bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut hash = Fnv([0xcbf2_9ce4_8422_2325, 0x6c62_272e_07bb_0142]);
    // Writing to memory does not fail.
    serde_json::to_writer(&mut hash, value).ok();
    format!("{:016x}{:016x}", hash.0[0], hash.0[1]).into()
}

/// A wait as it is kept while the run is in memory.
pub(crate) struct OpenedWait {
    pub(crate) open: OpenWait,
    pub(crate) woken: tokio::sync::oneshot::Sender<Wake>,
}
