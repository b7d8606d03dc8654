//! An engine with the tools of a document.

use serde_json::Value;
use windlass::definition::{Definition, Parsed};
use windlass::{CallRequest, CallResult, Context, Engine, EngineBuilder, EngineSettings, Kind};
use windlass_executors::outbound::{Outbound, OutboundPolicy};
use windlass_executors::rest::{Import, ImportOptions, Origin, Rest, import};

pub(crate) fn read(document: &str) -> Import {
    read_with(document, &ImportOptions::default())
}

pub(crate) fn read_with(document: &str, options: &ImportOptions) -> Import {
    import("api", document, options, Origin::default()).unwrap()
}

/// An engine that may reach this machine.
pub(crate) fn engine() -> Engine {
    builder().build().unwrap()
}

/// The same, which asks once, whatever comes back.
pub(crate) fn engine_once() -> Engine {
    let once = |settings: &mut EngineSettings| {
        settings.retry.attempts = 1;
        settings.breaker = None;
    };
    builder().settings(once).build().unwrap()
}

fn builder() -> EngineBuilder {
    let policy =
        OutboundPolicy { allow: vec!["127.0.0.1".parse().unwrap()], ..OutboundPolicy::default() };
    let rest = Rest::new(Outbound::new(policy));
    Engine::builder().kind(Kind::Rest, move |spec| rest.bind(spec))
}

/// The same with all tools of a document, whose API is at this address.
pub(crate) fn engine_for(document: &str, base_url: &str) -> Engine {
    let options = ImportOptions { base_url: Some(base_url.to_owned()), ..ImportOptions::default() };
    install(engine(), read_with(document, &options))
}

pub(crate) fn install(engine: Engine, import: Import) -> Engine {
    let tools = import.tools.into_iter().map(|tool| Definition::from(tool.spec)).collect();
    let parsed = Parsed { tools, providers: vec![import.provider], ..Parsed::default() };
    let report = engine.load_parsed(None, "api", parsed);
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    engine
}

pub(crate) async fn call(engine: &Engine, tool: &str, arguments: Value) -> CallResult {
    engine.call(CallRequest::new(tool, arguments)).await
}

pub(crate) async fn call_with(
    engine: &Engine,
    tool: &str,
    arguments: Value,
    secrets: &[(&str, &str)],
) -> CallResult {
    let context = secrets
        .iter()
        .fold(Context::default(), |context, (name, value)| context.secret(name, *value));
    engine.call(CallRequest::new(tool, arguments).context(context)).await
}
