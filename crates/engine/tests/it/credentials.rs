//! Credential stores: precedence, when they are asked, and that no secret leaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use windlass::{
    Agent, Behaviour, BoxFuture, Call, CallRequest, Caller, CancellationToken, Content, Context,
    CredentialSource, Engine, Error, ErrorKind, Executor, FilledBy, Lang, Output, Parameter,
    RetryPolicy, Secret, TenantId, ToolBuilder, ToolName, ToolSpec,
};

use crate::support::{kind, only_record, records};

/// What must show nowhere.
const CANARY: &str = "canary-7f3a9c";

/// A store with a credential `work` and an unnamed one.
#[derive(Clone, Default)]
struct Vault {
    asked: Arc<AtomicUsize>,
    slow: bool,
}

impl CredentialSource for Vault {
    fn secrets<'a>(
        &'a self,
        tool: &'a ToolSpec,
        caller: &'a Caller,
        credential: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<(String, Secret)>, Error>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            assert_eq!(tool.provider.as_deref(), Some("github"));
            if self.slow {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            match (caller.tenant.as_str(), credential) {
                ("poor", _) => Ok(Vec::new()),
                (_, None) => Ok(vec![
                    ("token".into(), CANARY.into()),
                    ("host".into(), "https://api.github.example".into()),
                ]),
                (_, Some("work")) => Ok(vec![("token".into(), "work-token-1".into())]),
                (_, Some(name)) => Err(Error::new(
                    ErrorKind::CredentialInvalid,
                    format!("there is no credential `{name}`"),
                )),
            }
        })
    }
}

/// Does with its token what its arguments say.
struct Leaky;

impl Executor for Leaky {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let token = call.secret("token").map_or("none", Secret::expose);
            let text = format!("sent with {token}");
            call.emitter().emit(Content::json(json!({"progress": text, token: 1})));
            match call.argument("how").and_then(serde_json::Value::as_str).unwrap_or_default() {
                "fail" => Err(Error::new(ErrorKind::Network, text.clone())
                    .with_feedback(format!("use {token}"))
                    .with_source(std::io::Error::other(text))),
                "panic" => panic!("{text}"),
                "length" => Ok(Output::json(json!({"length": token.len(), "host": call
                    .secret("host")
                    .is_some()}))),
                _ => Ok(Output::json(json!({"text": text, token: [token]}))
                    .with_metadata("token", token)),
            }
        })
    }
}

fn leaky(provider: Option<&str>) -> ToolBuilder {
    let mut spec = ToolSpec::new(ToolName::new("leaky").unwrap());
    spec.provider = provider.map(str::to_owned);
    spec.behaviour = Behaviour::READ_ONLY;
    spec.input = json!({"type": "object", "properties": {"how": {"type": "string"}, "token": {}}});
    spec.parameters.insert(
        "token".to_owned(),
        Parameter { filled_by: FilledBy::Secret, required: true, ..Parameter::default() },
    );
    ToolBuilder::new(spec, Arc::new(Leaky))
}

fn engine(vault: &Vault) -> Engine {
    Engine::builder().tool(leaky(Some("github"))).credentials(vault.clone()).build().unwrap()
}

fn how(how: &str) -> CallRequest {
    CallRequest::new("leaky", json!({"how": how})).retry(RetryPolicy {
        attempts: 2,
        backoff: Duration::from_millis(1),
        ..RetryPolicy::default()
    })
}

#[tokio::test(start_paused = true)]
async fn a_secret_shows_nowhere() {
    for way in ["succeed", "fail", "panic"] {
        let engine = engine(&Vault::default());
        let mut events = engine.events();
        let result = engine.call(how(way)).await;
        assert_eq!(result.is_success(), way == "succeed");
        let mut shown = vec![
            result.to_json(Lang::En).to_string(),
            result.to_text(Lang::Zh),
            format!("{result:?}"),
            serde_json::to_string(&only_record(&engine).await).unwrap(),
        ];
        if way == "succeed" {
            let output = result.output().unwrap();
            let hidden = json!({"text": "sent with [hidden]", "[hidden]": ["[hidden]"]});
            assert_eq!(output.value().unwrap(), &hidden);
        }
        loop {
            let event = events.next().await.unwrap();
            shown.push(serde_json::to_string(&event).unwrap());
            if ["execution_completed", "execution_failed"].contains(&event.body.name()) {
                break;
            }
        }
        assert!(shown.iter().any(|text| text.contains("execution_progress")), "{shown:?}");
        assert_eq!(shown.iter().any(|text| text.contains("execution_retried")), way == "fail");
        for text in shown {
            assert!(!text.contains(CANARY), "{way}: {text}");
        }
    }
}

#[tokio::test]
async fn the_calls_own_secret_is_hidden_without_a_store_too() {
    let engine = Engine::builder().tool(leaky(None)).build().unwrap();
    let context = Context::default().secret("token", CANARY);
    let result = engine.call(how("succeed").context(context)).await;
    assert!(result.is_success());
    assert!(!result.to_text(Lang::En).contains(CANARY));
    // A short one is not: it would hide ordinary words.
    let context = Context::default().secret("token", "abc");
    let result = engine.call(how("succeed").context(context)).await;
    assert!(result.to_text(Lang::En).contains("sent with abc"));
}

#[tokio::test]
async fn call_before_agent_before_store() {
    let vault = Vault::default();
    let engine = engine(&vault);
    let length = async |request: CallRequest| {
        let result = engine.call(request).await;
        assert!(result.is_success(), "{result:?}");
        let value = result.output().unwrap().value().cloned().unwrap();
        (value["length"].as_u64().unwrap(), value["host"].as_bool().unwrap())
    };
    let mut agent = Agent::new("a", "a");
    agent.secrets.insert("token".to_owned(), "7 chars".into());
    let agents = Context::default().agent(Arc::new(agent));
    assert_eq!(length(how("length")).await, (13, true));
    assert_eq!(length(how("length").credential("work")).await, (12, false));
    assert_eq!(length(how("length").context(agents.clone())).await, (7, true));
    let both = agents.secret("token", "8 chars!");
    assert_eq!(length(how("length").context(both)).await, (8, true));
    assert_eq!(vault.asked.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let vault = Vault::default();
    let engine = engine(&vault);
    let poor = Caller { tenant: TenantId::new("poor"), ..Caller::default() };
    let result = engine.call(how("length").context(Context::new(poor.clone()))).await;
    assert_eq!(kind(&result), ErrorKind::CredentialInvalid);
    assert_eq!(
        result.error().unwrap().message(),
        "the provider `github` needs a credential, but its `token` is not set; add a credential \
         with this field for `github`, or give the secret with the call"
    );
    let named = how("length").credential("work").context(Context::new(poor));
    let result = engine.call(named).await;
    assert_eq!(
        result.error().unwrap().message(),
        "the credential `work` of the provider `github` has no `token`; add it there, or choose \
         another credential"
    );
    let result = engine.call(how("length").credential("wrok")).await;
    assert_eq!(result.error().unwrap().message(), "there is no credential `wrok`");
    // Bad arguments are found before anybody is asked.
    let asked = vault.asked.load(Ordering::SeqCst);
    let bad = CallRequest::new("leaky", json!({"how": ["x"]}));
    assert_eq!(kind(&engine.call(bad).await), ErrorKind::InvalidArguments);
    assert_eq!(vault.asked.load(Ordering::SeqCst), asked);

    // Without a provider nobody is asked; without a store nothing is chosen.
    let alone = Engine::builder().tool(leaky(None)).credentials(vault.clone()).build().unwrap();
    assert_eq!(kind(&alone.call(how("length")).await), ErrorKind::CredentialInvalid);
    assert_eq!(vault.asked.load(Ordering::SeqCst), asked);
    let storeless = Engine::builder().tool(leaky(Some("github"))).build().unwrap();
    let context = Context::default().secret("token", "a-token");
    let chosen = how("length").credential("work").context(context);
    let result = storeless.call(chosen).await;
    assert!(result.error().unwrap().message().contains("no store"), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_takes_the_calls_time() {
    let engine = engine(&Vault { slow: true, ..Vault::default() });
    let start = tokio::time::Instant::now();
    let result = engine.call(how("length").timeout(Duration::from_secs(2))).await;
    assert_eq!((kind(&result), start.elapsed().as_secs()), (ErrorKind::Timeout, 2));
    assert_eq!(engine.limit_metrics().total_acquired, 0, "no slot is held meanwhile");
    let token = CancellationToken::new();
    let call = engine.call(how("length").cancel_token(token.clone()));
    let (result, ()) = tokio::join!(call, async { token.cancel() });
    assert_eq!(kind(&result), ErrorKind::Cancelled);
    assert_eq!(records(&engine).await.len(), 2);
}

#[tokio::test]
async fn a_cached_result_is_not_given_for_another_credential() {
    let vault = Vault::default();
    let cached = leaky(Some("github")).cache(Duration::from_secs(60));
    let engine = Engine::builder().tool(cached).credentials(vault).build().unwrap();
    let first = engine.call(how("length")).await;
    assert_eq!(engine.call(how("length")).await.same_as, Some(first.id));
    let other = engine.call(how("length").credential("work")).await;
    assert_eq!(other.same_as, None);
}
