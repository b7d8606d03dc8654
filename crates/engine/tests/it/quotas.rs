//! Quotas of calls by tenant, user, API key and tool, wherever a call comes from.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use windlass::{
    BoxFuture, Call, CallQuota, CallQuotas, CallRequest, Caller, Context, Engine, Error, ErrorKind,
    Executor, JsonSchema, Lang, Output, QuotaScope, TenantId, ToolBuilder, ToolName, ToolSpec,
    Usage,
};

use crate::support::kind;

#[derive(Deserialize, JsonSchema)]
struct Say {
    text: String,
}

/// A tool whose every call costs a dollar.
struct Costly;

impl Executor for Costly {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        call.charge(Usage { input_tokens: 1, cost_usd: 1.0, ..Usage::default() });
        Box::pin(std::future::ready(Ok(Output::text("asked"))))
    }
}

fn engine(quotas: CallQuotas) -> Engine {
    Engine::builder()
        .tool(ToolBuilder::from_fn("echo", |say: Say| async move { say.text }))
        .tool(ToolBuilder::new(ToolSpec::new(ToolName::new("ask").unwrap()), Arc::new(Costly)))
        .settings(|settings| settings.quotas = quotas)
        .build()
        .unwrap()
}

fn per_day(most: u64) -> CallQuota {
    CallQuota { per_day: Some(most), ..CallQuota::default() }
}

fn echo(tenant: &str, user: Option<&str>) -> CallRequest {
    CallRequest::new("echo", json!({"text": "x"})).context(whose(tenant, user))
}

fn whose(tenant: &str, user: Option<&str>) -> Context {
    let tenant = TenantId::new(tenant);
    Context::new(Caller { tenant, user: user.map(Into::into), ..Caller::default() })
}

#[tokio::test]
async fn calls_of_a_day_end_with_it_and_what_is_wrong_costs_nothing() {
    let engine = engine(CallQuotas { tenant: per_day(3), ..CallQuotas::default() });
    let wrong = CallRequest::new("echo", json!({})).context(whose("a", None));
    for _ in 0..5 {
        assert_eq!(kind(&engine.call(wrong.clone()).await), ErrorKind::InvalidArguments);
    }
    let results = engine.call_batch(vec![echo("a", None); 5]).await;
    let refused: Vec<_> = results.iter().filter_map(|result| result.error()).collect();
    assert_eq!(refused.len(), 2);
    assert_eq!(refused[0].kind(), ErrorKind::QuotaExceeded);
    assert!(refused[0].retry_after().unwrap() <= Duration::from_secs(24 * 60 * 60));
    assert!(refused[0].feedback(Lang::En).contains("Do not repeat the call before it ends"));
    assert!(refused[0].feedback(Lang::Zh).contains("配额已用完"));
    assert!(engine.call(echo("b", None)).await.is_success(), "another tenant has its own");
    assert_eq!(engine.quota_use(&TenantId::new("a"), QuotaScope::Tenant).in_day, 3);
}

#[tokio::test]
async fn users_keys_and_tools_are_counted_apart() {
    let quotas =
        CallQuotas { user: per_day(1), key: per_day(2), tool: per_day(3), ..CallQuotas::default() };
    let engine = engine(quotas);
    let whose = async |user: &str, key: &str| {
        let result = engine.call(echo("a", Some(user)).begun_by(key)).await;
        let why = result.error().map(|error| error.message().to_owned()).unwrap_or_default();
        why.split(':').next().unwrap_or_default().to_owned()
    };
    assert_eq!(whose("u1", "k1").await, "");
    assert_eq!(whose("u1", "k1").await, "calls per day of the user `u1`");
    assert_eq!(whose("u2", "k1").await, "");
    assert_eq!(whose("u3", "k1").await, "calls per day of the key `k1`");
    assert_eq!(whose("u3", "k2").await, "");
    assert_eq!(whose("u4", "k2").await, "calls per day of the tool `echo`");
}

#[tokio::test]
async fn what_models_cost_is_counted_and_none_begins_after_that() {
    let day = CallQuota { cost_per_day: Some(2.0), ..CallQuota::default() };
    let engine = engine(CallQuotas { tenant: day, ..CallQuotas::default() });
    let ask = || CallRequest::new("ask", json!({})).context(whose("a", None));
    assert!(engine.call(ask()).await.is_success());
    assert!(engine.call(ask()).await.is_success());
    assert_eq!(kind(&engine.call(ask()).await), ErrorKind::QuotaExceeded);
    assert_eq!(kind(&engine.call(echo("a", None)).await), ErrorKind::QuotaExceeded);
    let used = engine.quota_uses();
    assert_eq!((used.len(), used[0].2.cost), (1, 2.0));
    // Another process begins with what was used here.
    let other = self::engine(CallQuotas { tenant: day, ..CallQuotas::default() });
    other.set_quota_uses(&used);
    assert_eq!(kind(&other.call(ask()).await), ErrorKind::QuotaExceeded);
}
