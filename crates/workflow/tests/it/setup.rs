//! An engine with workflows, and tools that tell what they did.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::{
    Behaviour, CallRequest, CallResult, Engine, Error, Kind, LoadReport, TenantId, ToolBuilder,
};
use windlass_workflow::store::MemoryRuns;
use windlass_workflow::{RunLimits, RunView, Runs, Workflows};

/// What the tools of a test have done.
#[derive(Clone, Default)]
pub(crate) struct Done(Arc<Mutex<Vec<String>>>);

impl Done {
    pub(crate) fn say(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// An engine, its runs, and what its tools do.
pub(crate) struct House {
    pub(crate) engine: Engine,
    pub(crate) runs: Runs,
    pub(crate) done: Done,
    pub(crate) store: Arc<MemoryRuns>,
}

impl House {
    pub(crate) fn new() -> Self {
        Self::with(Arc::default(), Done::default(), RunLimits::default())
    }

    /// The house of another process on the same store.
    pub(crate) fn beside(&self) -> Self {
        Self::with(Arc::new(self.store.for_another()), self.done.clone(), RunLimits::default())
    }

    pub(crate) fn with(store: Arc<MemoryRuns>, done: Done, limits: RunLimits) -> Self {
        let workflows = Workflows::new(Arc::clone(&store) as _).limits(limits);
        let kinds = workflows.clone();
        let flaky = AtomicUsize::new(0);
        let (effect, pay) = (done.clone(), done.clone());
        let (slow, now) = (done.clone(), Arc::new(AtomicUsize::new(0)));
        let engine = Engine::builder()
            .kind(Kind::Workflow, move |spec| kinds.bind(spec))
            .tool(
                ToolBuilder::from_fn("look", |input: Value| async move { input })
                    .behaviour(Behaviour::READ_ONLY),
            )
            .tool(
                ToolBuilder::from_fn("slow_look", move |input: Value| {
                    let (slow, now) = (slow.clone(), Arc::clone(&now));
                    async move {
                        let at_once = now.fetch_add(1, Ordering::SeqCst) + 1;
                        tokio::time::sleep(Duration::from_millis(30)).await;
                        now.fetch_sub(1, Ordering::SeqCst);
                        slow.say(format!("at once {at_once}"));
                        input
                    }
                })
                .behaviour(Behaviour::READ_ONLY),
            )
            .tool(ToolBuilder::from_fn("effect", move |input: Value| {
                let effect = effect.clone();
                async move {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    effect.say(input["name"].as_str().unwrap_or("?"));
                    json!({"id": input["name"]})
                }
            }))
            .tool(ToolBuilder::from_fn("pay", move |input: Value| {
                pay.say(format!("pay {}", input["amount"]));
                async move { Err::<Value, _>(Error::tool("no money")) }
            }))
            .tool(ToolBuilder::from_fn("flaky", move |_: Value| {
                let count = flaky.fetch_add(1, Ordering::SeqCst);
                async move {
                    match count {
                        0 => Err(Error::tool("not yet")),
                        _ => Ok(json!({"count": count})),
                    }
                }
            }))
            .build()
            .unwrap();
        let runs = Runs::new(&engine, &workflows);
        Self { engine, runs, done, store }
    }

    /// Loads a definition that has to be right.
    #[track_caller]
    pub(crate) fn load(&self, text: &str) -> &Self {
        let report = self.report(text);
        assert!(report.errors.is_empty(), "{:#?}", report.errors);
        self
    }

    pub(crate) fn report(&self, text: &str) -> LoadReport {
        self.engine.load_text("flow.yaml", text)
    }

    pub(crate) async fn call(&self, tool: &str, input: Value) -> CallResult {
        self.engine.call(CallRequest::new(tool, input)).await
    }

    /// The value that a workflow returns.
    #[track_caller]
    pub(crate) fn value(result: &CallResult) -> Value {
        let output = result.outcome.as_ref().unwrap_or_else(|error| panic!("{error:?}"));
        output.structured.as_deref().cloned().unwrap_or_default()
    }

    pub(crate) async fn run(&self, text: &str, input: Value) -> CallResult {
        self.load(text);
        self.call("flow", input).await
    }

    pub(crate) async fn show(&self, run: &str) -> RunView {
        self.runs.show(&TenantId::default(), run).await.unwrap().unwrap()
    }

    /// Goes on with a run until the condition holds.
    pub(crate) async fn until(&self, run: &str, holds: impl Fn(&RunView) -> bool) -> RunView {
        for _ in 0..500 {
            let view = self.show(run).await;
            if holds(&view) {
                return view;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:#?}", self.show(run).await);
    }

    /// Goes on with runs, as a server does.
    pub(crate) fn wake(&self) -> tokio::task::JoinHandle<()> {
        let runs = self.runs.clone();
        tokio::spawn(async move { runs.keep_going().await })
    }
}

/// The run that a result announces.
#[track_caller]
pub(crate) fn waiting(result: &CallResult) -> String {
    let output = result.outcome.as_ref().unwrap_or_else(|error| panic!("{error:?}"));
    let fact = output.metadata.get("run").unwrap();
    assert_eq!(fact["status"], "waiting", "{fact}");
    fact["id"].as_str().unwrap().to_owned()
}

/// A definition with these steps, and perhaps more keys.
pub(crate) fn flow(rest: &str) -> String {
    format!("name: flow\nkind: workflow\ndescription: A flow.\n{rest}\n")
}
