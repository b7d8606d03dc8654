//! [`Runs`]: what a server does with runs: shows them, answers them, and goes on
//! with those that have something to do.

mod view;
mod waker;

use std::sync::Arc;

use serde_json::{Value, json};
use windlass::definition::ValueSchema;
use windlass::{CallRequest, CallResult, Engine, Error, ErrorKind, TenantId, ToolSpec};

pub use view::{PlaceStatus, PlaceView, RunView};

use crate::log::{Ask, Message, Recipient, RunHead, RunStatus, Wait, Wake};
use crate::plan::Plan;
use crate::store::{RunPage, StoredRun};
use crate::workflows::{KnownAtOnce, Workflows, repeating, resuming};

/// The runs of an engine. Cheap to clone.
#[derive(Clone)]
pub struct Runs {
    engine: Engine,
    workflows: Workflows,
}

/// A person's answer to a question of a run.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The step that asks; if only one does, it need not be named.
    pub place: Option<String>,
    /// What the person chose; the first action, if there is only one.
    pub action: Option<String>,
    /// What the person filled in.
    pub form: Option<Value>,
    /// What the person added.
    pub comment: Option<String>,
    /// Who it is.
    pub who: Option<String>,
}

impl Runs {
    /// The runs of workflows that this engine runs.
    pub fn new(engine: &Engine, workflows: &Workflows) -> Self {
        Self { engine: engine.clone(), workflows: workflows.clone() }
    }

    /// What of a file of Dify in a definition can run here, and what is missing, node by
    /// node.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub fn dry_run(
        &self,
        tenant: &TenantId,
        definition: &Value,
    ) -> Result<windlass_dify::dry_run::DryRun, Vec<windlass_dify::Fault>> {
        let has_tool = |name: &str| self.engine.registry().get_for(tenant, name).is_some();
        crate::dify::dry_run(definition, &has_tool, self.workflows.prompt_maker())
    }

    /// A run, with the state of each place.
    pub async fn show(&self, tenant: &TenantId, run: &str) -> Result<Option<RunView>, Error> {
        let store = self.workflows.store();
        let Some(StoredRun { head, .. }) = store.head(tenant, run).await? else { return Ok(None) };
        let (entries, _) = store.entries(tenant, run).await?;
        Ok(Some(RunView::new(head, &entries)))
    }

    /// Runs of a tenant, the newest first.
    pub async fn list(&self, tenant: &TenantId, page: RunPage<'_>) -> Result<Vec<RunHead>, Error> {
        self.workflows.store().list(tenant, page).await
    }

    /// Answers a question of a run, which then goes on.
    pub async fn answer(&self, tenant: &TenantId, run: &str, answer: Answer) -> Result<(), Error> {
        let head = self.head(tenant, run).await?;
        let (place, ask) = asked(&head, answer.place.as_deref())?;
        let value = fit(ask, &answer)?;
        let message = Message {
            // The first answer counts.
            key: format!("answer:{place}"),
            to: Recipient::Place(Arc::clone(place)),
            wake: Wake::Message { value, who: answer.who },
        };
        match self.send(&head, &message).await? {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Conflict, "it was answered already")),
        }
    }

    /// Sends a signal to a run. With the same key it is the same signal.
    /// Returns whether it is a new one.
    pub async fn signal(
        &self,
        tenant: &TenantId,
        run: &str,
        name: &str,
        value: Value,
        key: &str,
        who: Option<String>,
    ) -> Result<bool, Error> {
        let head = self.head(tenant, run).await?;
        if head.status.has_ended() {
            return Err(ended(&head));
        }
        let sent = self.workflows.store().messages(tenant, run).await?;
        let key = format!("signal:{name}:{key}");
        let is_known = sent.iter().any(|message| message.key == key);
        let most = self.workflows.most().signals;
        if !is_known && sent.len() >= most {
            let why = format!("the run has {most} messages already");
            return Err(Error::new(ErrorKind::QuotaExceeded, why));
        }
        let (to, wake) = (Recipient::Signal(name.into()), Wake::Message { value, who });
        self.send(&head, &Message { key, to, wake }).await
    }

    /// The same request, for a run that whoever looks for it finds as soon as it
    /// begins.
    #[must_use]
    pub fn known_at_once(&self, request: CallRequest) -> CallRequest {
        request.object(KnownAtOnce)
    }

    /// Cancels a run. What it has done is not undone.
    pub async fn cancel(
        &self,
        tenant: &TenantId,
        run: &str,
        who: Option<String>,
    ) -> Result<(), Error> {
        let head = self.head(tenant, run).await?;
        if head.status.has_ended() {
            return Err(ended(&head));
        }
        let wake = Wake::Message { value: Value::Null, who };
        let message = Message { key: "cancel".to_owned(), to: Recipient::Cancel, wake };
        self.send(&head, &message).await.map(drop)
    }

    async fn send(&self, head: &RunHead, message: &Message) -> Result<bool, Error> {
        let is_new = self.workflows.store().send(&head.tenant, &head.id, message).await?;
        // Another process that drives it hears of it from the store.
        self.workflows.notify(&head.id);
        Ok(is_new)
    }

    /// Goes on with a run that nobody drives. Returns the result of that call;
    /// `None` if there is nothing to do.
    pub async fn go_on(&self, tenant: &TenantId, run: &str) -> Result<Option<CallResult>, Error> {
        let head = self.head(tenant, run).await?;
        if head.status.has_ended() || self.workflows.notify(run) {
            return Ok(None);
        }
        if head.status == RunStatus::Running
            && let Some(owner) = &head.owner
            && **owner != *self.workflows.store().owner()
            && self.workflows.store().is_alive(owner).await?
        {
            return Ok(None);
        }
        let spec = self.definition(&head).await?;
        let tool = self.workflows.tool(&spec)?;
        let timeout = spec.timeout.unwrap_or(std::time::Duration::from_secs(3600));
        Ok(Some(self.engine.call(resuming(&tool, &head, timeout)).await))
    }

    /// The request that repeats a run as a new one: steps that ended are taken
    /// over as far as they are asked the same. `from` names the step from which
    /// on everything runs again. With `latest` the definition is the present
    /// one, else that of the run.
    pub async fn retry(
        &self,
        tenant: &TenantId,
        run: &str,
        from: Option<&str>,
        latest: bool,
    ) -> Result<CallRequest, Error> {
        let head = self.head(tenant, run).await?;
        if !head.status.has_ended() {
            let why = format!("the run {run} has not ended; cancel it first");
            return Err(Error::new(ErrorKind::Conflict, why));
        }
        if let Some(from) = from {
            let (entries, _) = self.workflows.store().entries(tenant, run).await?;
            let view = RunView::new(head.clone(), &entries);
            if !view.places.iter().any(|place| *place.place == *from) {
                let known: Vec<&str> = view.places.iter().map(|place| &*place.place).collect();
                let hint = windlass::definition::nearest(from, &known);
                let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                let why = format!("the run {run} has no step `{from}`{hint}");
                return Err(Error::new(ErrorKind::NotFound, why));
            }
        }
        let tool = match latest {
            true => {
                let name = &head.workflow;
                let found = self.engine.registry().get_for(tenant, name);
                found.ok_or_else(|| Error::new(ErrorKind::ToolNotFound, &**name))?
            }
            false => self.workflows.tool(&self.definition(&head).await?)?,
        };
        Ok(repeating(&tool, &head, from))
    }

    /// Reads a definition.
    pub fn plan(&self, spec: &ToolSpec) -> Result<Plan, Error> {
        self.workflows.plan(spec)
    }

    /// The definition that a run keeps to.
    pub async fn definition(&self, head: &RunHead) -> Result<ToolSpec, Error> {
        let kept = self.workflows.store().definition(&head.tenant, &head.digest).await?;
        let gone = || Error::new(ErrorKind::NotFound, "the definition of the run is gone");
        serde_json::from_value(kept.ok_or_else(gone)?)
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
    }

    /// Goes on with runs from now on, whenever what they wait for has come, and
    /// with those whose process has died. Ends when the future is dropped.
    pub async fn keep_going(&self) {
        waker::run(self).await;
    }

    async fn head(&self, tenant: &TenantId, run: &str) -> Result<RunHead, Error> {
        let found = self.workflows.store().head(tenant, run).await?;
        let unknown = || Error::new(ErrorKind::NotFound, format!("there is no run {run}"));
        found.map(|stored| stored.head).ok_or_else(unknown)
    }
}

fn ended(head: &RunHead) -> Error {
    let why = format!("the run {} has ended: {}", head.id, head.status.name());
    Error::new(ErrorKind::Conflict, why)
}

/// The question at a place; the only one, if none is named.
fn asked<'h>(head: &'h RunHead, place: Option<&str>) -> Result<(&'h Arc<str>, &'h Ask), Error> {
    let mut open = head.waits.iter().filter_map(|open| match &open.wait {
        Wait::Person { ask, .. } => Some((&open.place, ask)),
        Wait::Time { .. } | Wait::Signal { .. } | Wait::Run { .. } | Wait::Call { .. } => None,
    });
    let places = || {
        let open = head.waits.iter().filter(|open| matches!(open.wait, Wait::Person { .. }));
        open.map(|open| format!("`{}`", open.place)).collect::<Vec<_>>().join(", ")
    };
    match place {
        Some(place) => open.find(|(own, _)| ***own == *place).ok_or_else(|| {
            let why = match places() {
                none if none.is_empty() => "it asks nobody anything now".to_owned(),
                open => format!("it asks at {open}"),
            };
            Error::new(ErrorKind::NotFound, format!("the run does not ask at `{place}`; {why}"))
        }),
        None => match (open.next(), open.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(Error::new(ErrorKind::Conflict, "the run asks nobody anything now")),
            (Some(_), Some(_)) => {
                let why = format!("the run asks at several places: {}; name one", places());
                Err(Error::new(ErrorKind::InvalidArguments, why))
            }
        },
    }
}

/// The value of an answer that fits the question.
fn fit(ask: &Ask, answer: &Answer) -> Result<Value, Error> {
    let action = match (&answer.action, ask.actions.as_slice()) {
        (Some(action), all) if all.is_empty() || all.contains(action) => Some(action.clone()),
        (None, [only]) => Some(only.clone()),
        (None, []) => None,
        (_, all) => {
            let why = format!("the answer is one of {}", all.join(", "));
            return Err(Error::new(ErrorKind::InvalidArguments, why));
        }
    };
    if !ask.who.is_empty() && !answer.who.as_ref().is_some_and(|who| ask.who.contains(who)) {
        let why = format!("only {} may answer", ask.who.join(", "));
        return Err(Error::new(ErrorKind::Denied, why));
    }
    let mut value = json!({"action": action});
    match (&ask.form, &answer.form) {
        (Some(schema), form) => {
            let form = form.clone().unwrap_or_else(|| json!({}));
            let violations = ValueSchema::compile(schema)?.violations(&form);
            if !violations.is_empty() {
                return Err(Error::invalid_arguments(violations));
            }
            value["form"] = form;
        }
        (None, Some(form)) => value["form"] = form.clone(),
        (None, None) => {}
    }
    if let Some(comment) = &answer.comment {
        value["comment"] = comment.clone().into();
    }
    Ok(value)
}
