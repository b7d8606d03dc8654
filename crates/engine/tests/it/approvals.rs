//! Approvals: each call that needs one is asked for once, runs once, and is recorded
//! once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::{
    Approval, ApprovalRules, Approvals, Batch, Behaviour, BoxFuture, Call, CallRequest, Caller,
    Context, Decision, Engine, Error, ErrorKind, JsonSchema, Kind, Lang, Preset, Status,
    Subscription, SuspendedCall, TenantId, ToolBuilder, Tools, Verdict, tool,
};

use crate::support::{kind, only_record, records};

/// Decides by rules, and keeps what waits in memory as JSON.
#[derive(Clone, Default)]
struct Desk {
    rules: ApprovalRules,
    kept: Arc<Mutex<Vec<String>>>,
    decided: Arc<AtomicUsize>,
    broken: bool,
    slow: bool,
}

impl Desk {
    fn new(rules: Value) -> Self {
        Self { rules: serde_json::from_value(rules).unwrap(), ..Self::default() }
    }

    /// Asks for every call of `pay`.
    fn for_payments() -> Self {
        Self::new(json!({"rules": [{"tool": "pay", "then": "ask", "reason": "it moves money"}]}))
    }

    /// The only call that waits.
    fn take(&self) -> SuspendedCall {
        let kept = std::mem::take(&mut *self.kept.lock());
        assert_eq!(kept.len(), 1, "{kept:?}");
        serde_json::from_str(&kept[0]).unwrap()
    }
}

impl Approvals for Desk {
    fn decide(&self, call: &Call) -> Decision {
        self.decided.fetch_add(1, Ordering::SeqCst);
        self.rules.decide(call)
    }

    fn suspend(&self, call: SuspendedCall) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            if self.slow {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            assert!(!call.reason.contains("panic"), "as it was told");
            if self.broken {
                return Err(Error::new(ErrorKind::StorageUnavailable, "no desk"));
            }
            self.kept.lock().push(serde_json::to_string(&call).unwrap());
            Ok(())
        })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Payment {
    amount: f64,
    #[serde(default = "nobody")]
    to: String,
    account: Option<String>,
}

fn nobody() -> String {
    "nobody".to_owned()
}

/// Counts what is paid.
fn pay(paid: &Arc<AtomicUsize>) -> ToolBuilder {
    let paid = Arc::clone(paid);
    ToolBuilder::from_fn("pay", move |payment: Payment| {
        let number = paid.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let account = payment.account.unwrap_or_default();
            format!("payment {number}: {} to {} from {account}", payment.amount, payment.to)
        }
    })
    .preset("account", Preset::value("hush-account"))
}

fn look() -> ToolBuilder {
    ToolBuilder::from_fn("look", |_: Value| async { "seen" }).behaviour(Behaviour::READ_ONLY)
}

fn engine(desk: &Desk, paid: &Arc<AtomicUsize>) -> Engine {
    Engine::builder().tool(pay(paid)).tool(look()).approvals(desk.clone()).build().unwrap()
}

fn payment(amount: f64) -> CallRequest {
    CallRequest::new("pay", json!({"amount": amount})).call_ref("toolu_1")
}

async fn names(events: &mut Subscription, count: usize) -> Vec<&'static str> {
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(events.next().await.unwrap().body.name());
    }
    names
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_runs_once_approved_and_is_recorded_then() {
    let (desk, paid) = (Desk::for_payments(), Arc::default());
    let engine = engine(&desk, &paid);
    let mut events = engine.events();
    let caller = Caller { user: Some("ada".into()), ..Caller::default() };
    let context = Context::new(caller).variable("locale", "de");
    let asked = engine.call(payment(0.1).context(context).priority(3)).await;
    assert_eq!(kind(&asked), ErrorKind::ApprovalRequired);
    assert!(asked.to_text(Lang::En).contains("A person has been asked"), "{asked:?}");
    assert!(asked.to_text(Lang::En).contains("it moves money"));
    assert!(asked.to_text(Lang::Zh).contains("需要人工批准"));
    assert_eq!(records(&engine).await.len(), 0, "it has not ended");
    assert_eq!(engine.limit_metrics().current_concurrent, 0);
    assert_eq!(engine.calls_under_way(), 0);

    let suspended = desk.take();
    assert_eq!(suspended.id, asked.id);
    assert_eq!(suspended.arguments, json!({"amount": 0.1, "to": "nobody"}));
    assert_eq!((suspended.priority, suspended.call_ref.as_deref()), (3, Some("toolu_1")));
    assert_eq!(suspended.variables["locale"], "de");
    assert!(suspended.is_genuine());
    let verdict = Verdict::approve("grace").comment("fine");
    let result = engine.resume(suspended.clone(), verdict.clone()).await;
    assert_eq!(result.to_text(Lang::En), "payment 1: 0.1 to nobody from hush-account");
    assert_eq!((result.id, result.created_at), (asked.id, asked.created_at));
    assert_eq!(result.call_ref.as_deref(), Some("toolu_1"));
    let record = only_record(&engine).await;
    assert_eq!((record.id, record.status, record.attempts), (asked.id, Status::Succeeded, 1));
    assert_eq!(record.caller.user.as_deref(), Some("ada"));
    assert_eq!(record.details.unwrap().approval, Some(verdict.clone()));
    assert_eq!(desk.decided.load(Ordering::SeqCst), 1, "an approved call is not asked about");
    assert_eq!(
        names(&mut events, 4).await,
        ["approval_requested", "approval_decided", "execution_started", "execution_completed"]
    );
    // Once more changes nothing.
    let again = engine.resume(suspended, verdict).await;
    assert_eq!(again.to_text(Lang::En), result.to_text(Lang::En));
    assert_eq!((paid.load(Ordering::SeqCst), records(&engine).await.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_has_one_record_and_tells_the_model_why() {
    let (desk, paid) = (Desk::for_payments(), Arc::default());
    let engine = engine(&desk, &paid);
    let mut events = engine.events();
    let asked = engine.call(payment(9.0)).await;
    let verdict = Verdict::refuse("grace").comment("that is too much");
    let result = engine.resume(desk.take(), verdict).await;
    assert_eq!((kind(&result), result.id), (ErrorKind::Denied, asked.id));
    let text = result.to_text(Lang::En);
    assert!(text.contains("that is too much") && !text.contains("grace"), "{text}");
    let record = only_record(&engine).await;
    assert_eq!((record.id, record.status), (asked.id, Status::Refused));
    assert_eq!(record.details.unwrap().approval.unwrap().by.as_deref(), Some("grace"));
    assert_eq!(paid.load(Ordering::SeqCst), 0);
    assert_eq!(
        names(&mut events, 3).await,
        ["approval_requested", "approval_decided", "execution_failed"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_wants_any_more_is_cancelled_and_was_not_decided() {
    let (desk, paid) = (Desk::for_payments(), Arc::default());
    let engine = engine(&desk, &paid);
    let mut events = engine.events();
    let asked = engine.call(payment(9.0)).await;
    let suspended = desk.take();
    let result = engine.withdraw(suspended.clone()).await;
    assert_eq!((kind(&result), result.id), (ErrorKind::Cancelled, asked.id));
    let record = only_record(&engine).await;
    assert_eq!((record.status, record.created_at), (Status::Cancelled, asked.created_at));
    assert!(record.details.is_none_or(|details| details.approval.is_none()));
    assert_eq!(names(&mut events, 2).await, ["approval_requested", "execution_failed"]);
    // Nobody can approve it later.
    let late = engine.resume(suspended, Verdict::approve("grace")).await;
    assert_eq!((kind(&late), paid.load(Ordering::SeqCst)), (ErrorKind::Cancelled, 0));
}

#[tokio::test(start_paused = true)]
async fn rules_allow_deny_and_ask() {
    let desk = Desk::new(json!({
        "rules": [
            {"tool": "pay", "arguments": [{"pointer": "/to", "matches": "^evil"}], "then": "deny",
             "reason": "not to them"},
            {"tool": "p*", "behaviour": ["read_only"], "then": "deny"},
            {"tool": "pay", "arguments": [{"pointer": "/amount", "equals": 1.0}], "then": "allow"},
            {"behaviour": ["not_read_only", "not_idempotent"], "then": "ask"},
        ],
    }));
    let paid = Arc::default();
    let engine = engine(&desk, &paid);
    let evil = CallRequest::new("pay", json!({"amount": 1.0, "to": "evil corp"}));
    let denied = engine.call(evil).await;
    assert_eq!(kind(&denied), ErrorKind::Denied);
    assert!(denied.to_text(Lang::En).contains("not to them"));
    assert_eq!(only_record(&engine).await.status, Status::Refused);
    assert!(engine.call(payment(1.0)).await.is_success());
    assert_eq!(kind(&engine.call(payment(2.0)).await), ErrorKind::ApprovalRequired);
    assert_eq!(desk.take().reason, "rule 4 for calls of `pay`");
    assert!(engine.call(CallRequest::new("look", json!({}))).await.is_success());
    // Arguments are checked before anybody is asked.
    let decided = desk.decided.load(Ordering::SeqCst);
    let invalid = engine.call(CallRequest::new("pay", json!({"amount": "lots"}))).await;
    assert_eq!(kind(&invalid), ErrorKind::InvalidArguments);
    assert_eq!(desk.decided.load(Ordering::SeqCst), decided);
}

#[tokio::test(start_paused = true)]
async fn a_tools_own_word_counts_where_no_rule_fits() {
    let paid = Arc::default();
    let ask = || pay(&paid).approval(Approval::Ask);
    // Nobody can be asked, so nothing runs.
    let alone = Engine::builder().tool(ask()).build().unwrap();
    let denied = alone.call(payment(1.0)).await;
    assert_eq!(kind(&denied), ErrorKind::Denied);
    assert!(denied.to_text(Lang::En).contains("nobody can be asked"), "{denied:?}");
    let desk = Desk::default();
    let engine = Engine::builder().tool(ask()).approvals(desk.clone()).build().unwrap();
    assert_eq!(kind(&engine.call(payment(1.0)).await), ErrorKind::ApprovalRequired);
    assert_eq!(desk.take().reason, "the tool `pay` asks for it");
    let rules = json!({"rules": [{"tool": "pay", "then": "allow"}]});
    let allowing = Engine::builder().tool(ask()).approvals(Desk::new(rules)).build().unwrap();
    assert!(allowing.call(payment(1.0)).await.is_success());
    let never = Engine::builder().tool(look().approval(Approval::Deny)).build().unwrap();
    let denied = never.call(CallRequest::new("look", json!({}))).await;
    assert_eq!(kind(&denied), ErrorKind::Denied);
    assert_eq!(paid.load(Ordering::SeqCst), 1);
}

#[test]
fn definitions_say_it_too() {
    let text = "name: t\ndescription: x\napproval: ask";
    let tools = windlass::definition::parse("t.yaml", text).unwrap();
    assert_eq!(tools[0].spec.approval, Some(Approval::Ask));
    let errors = windlass::definition::parse("t.yaml", "name: t\napproval: aks").unwrap_err();
    assert!(errors[0].to_string().contains("use one of allow, deny, ask"), "{errors:?}");
}

#[tokio::test(start_paused = true)]
async fn another_process_may_resume_it() {
    let (desk, paid) = (Desk::for_payments(), Arc::default());
    let asked = engine(&desk, &paid).call(payment(1.0 / 3.0)).await;
    let suspended = desk.take();
    let later = engine(&desk, &paid);
    let result = later.resume(suspended, Verdict::approve("grace")).await;
    assert!(result.is_success(), "{result:?}");
    assert_eq!(only_record(&later).await.id, asked.id);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_approved_does_not_run() {
    let (desk, paid) = (Desk::for_payments(), Arc::default());
    let engine = engine(&desk, &paid);
    let change: [fn(&mut SuspendedCall); 4] = [
        |call| call.arguments["amount"] = json!(1000),
        |call| call.tool_name = "look".into(),
        |call| call.caller.user = Some("mallory".into()),
        |call| call.caller.tenant = TenantId::new("other"),
    ];
    for change in change {
        engine.call(payment(1.0)).await;
        let mut suspended = desk.take();
        change(&mut suspended);
        let result = engine.resume(suspended, Verdict::approve("grace")).await;
        assert_eq!(kind(&result), ErrorKind::Denied);
        assert!(result.to_text(Lang::En).contains("not those that a person was asked about"));
    }
    assert_eq!(paid.load(Ordering::SeqCst), 0);
    assert!(records(&engine).await.iter().all(|record| record.status == Status::Refused));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_changed_meanwhile_is_an_error() {
    let (desk, paid) = (Desk::for_payments(), Arc::default());
    let engine = engine(&desk, &paid);
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 2] = [
        (|input| input["properties"]["currency"] = json!({"default": "EUR"}), "ask for the call"),
        (|input| input["required"] = json!(["amount", "iban"]), "/iban"),
    ];
    for (change, said) in changes {
        engine.registry().replace(pay(&paid)).unwrap();
        engine.call(payment(1.0)).await;
        engine.registry().replace(pay(&paid).with(|spec| change(&mut spec.input))).unwrap();
        let result = engine.resume(desk.take(), Verdict::approve("grace")).await;
        assert_eq!(kind(&result), ErrorKind::InvalidArguments);
        let text = result.to_text(Lang::En);
        assert!(text.contains("has changed since") && text.contains(said), "{text}");
    }
    engine.registry().replace(pay(&paid)).unwrap();
    engine.call(payment(1.0)).await;
    engine.registry().unregister("pay").unwrap();
    let result = engine.resume(desk.take(), Verdict::approve("grace")).await;
    assert_eq!(kind(&result), ErrorKind::ToolNotFound);
    assert_eq!((paid.load(Ordering::SeqCst), records(&engine).await.len()), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn siblings_in_a_batch_run_once_and_in_order() {
    let (desk, paid) = (Desk::for_payments(), Arc::default());
    let looked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&looked);
    let engine = engine(&desk, &paid);
    let look = ToolBuilder::from_fn("look", move |_: Value| {
        count.fetch_add(1, Ordering::SeqCst);
        async { "seen" }
    });
    engine.registry().replace(look).unwrap();
    let look = || CallRequest::new("look", json!({}));
    let batch = Batch::new([look(), payment(1.0), look()]);
    let id = batch.id();
    let results = engine.call_batch(batch).await;
    assert!(results[0].is_success() && results[2].is_success());
    assert_eq!(kind(&results[1]), ErrorKind::ApprovalRequired);
    assert_eq!(records(&engine).await.len(), 2);
    let suspended = desk.take();
    assert_eq!((suspended.id, suspended.batch_id), (results[1].id, Some(id)));
    assert!(engine.resume(suspended, Verdict::approve("grace")).await.is_success());
    assert_eq!((looked.load(Ordering::SeqCst), paid.load(Ordering::SeqCst)), (2, 1));
    assert_eq!(records(&engine).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn calls_with_one_key_take_effect_once() {
    let (desk, paid) = (Desk::for_payments(), Arc::default());
    let engine = engine(&desk, &paid);
    let keyed = || payment(5.0).idempotency_key("k");
    engine.call(keyed()).await;
    let first = desk.take();
    assert_eq!(first.idempotency_key.as_deref(), Some("k"));
    engine.call(keyed()).await;
    let second = desk.take();
    assert_eq!(first.fingerprint, second.fingerprint, "so a desk can tell that it is the same");
    let one = engine.resume(first, Verdict::approve("grace")).await;
    let two = engine.resume(second, Verdict::approve("grace")).await;
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    assert_eq!(two.same_as, Some(one.id));
    assert_eq!(one.to_text(Lang::En), two.to_text(Lang::En));
    assert_eq!(records(&engine).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_changes_nothing() {
    let desk = Desk { slow: true, ..Desk::for_payments() };
    let paid = Arc::default();
    let engine = engine(&desk, &paid);
    let gone = tokio::time::timeout(Duration::from_millis(500), engine.call(payment(1.0))).await;
    assert!(gone.is_err());
    engine.finish().await;
    assert_eq!(records(&engine).await.len(), 0, "it waits, and has not ended");
    let suspended = desk.take();
    let id = suspended.id;
    // Nor does whoever resumes it have to stay.
    let resume = engine.resume(suspended, Verdict::approve("grace"));
    assert!(tokio::time::timeout(Duration::from_millis(1), resume).await.is_err());
    engine.finish().await;
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    assert_eq!(only_record(&engine).await.id, id);
}

#[tokio::test(start_paused = true)]
async fn a_desk_that_fails_fails_the_call() {
    let broken = Desk { broken: true, ..Desk::for_payments() };
    let panicking = Desk::new(json!({"rules": [{"then": "ask", "reason": "panic"}]}));
    let slow = Desk { slow: true, ..Desk::for_payments() };
    for (desk, expected) in [
        (broken, ErrorKind::StorageUnavailable),
        (panicking, ErrorKind::Panicked),
        (slow, ErrorKind::Timeout),
    ] {
        let paid = Arc::default();
        let engine = engine(&desk, &paid);
        let result = engine.call(payment(1.0).timeout(Duration::from_millis(100))).await;
        assert_eq!(kind(&result), expected);
        assert_eq!(only_record(&engine).await.id, result.id);
    }
}

#[tokio::test(start_paused = true)]
async fn two_who_resume_a_call_run_it_once() {
    let (desk, paid) = (Desk::for_payments(), Arc::default());
    let engine = engine(&desk, &paid);
    engine.call(payment(1.0)).await;
    let suspended = desk.take();
    let (one, two) = tokio::join!(
        engine.resume(suspended.clone(), Verdict::approve("grace")),
        engine.resume(suspended, Verdict::approve("alan"))
    );
    assert!(one.is_success() != two.is_success());
    assert_eq!((paid.load(Ordering::SeqCst), records(&engine).await.len()), (1, 1));
}

/// Pays through another tool.
#[tool]
async fn shop(tools: Tools) -> Result<String, Error> {
    Ok(tools.call(payment(3.0)).await?.to_text(Lang::En))
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_waits_and_its_parent_hears_so() {
    let (desk, paid) = (Desk::for_payments(), Arc::default());
    let engine = engine(&desk, &paid);
    engine.registry().register(shop::tool()).unwrap();
    let parent = engine.call(CallRequest::new("shop", json!({}))).await;
    assert!(parent.to_text(Lang::En).contains("A person has been asked"), "{parent:?}");
    let suspended = desk.take();
    assert_eq!((suspended.caller.parent, suspended.depth), (Some(parent.id), 1));
    let child = engine.resume(suspended, Verdict::approve("grace")).await;
    assert!(child.is_success());
    let record = engine.records().get(&TenantId::default(), child.id).await.unwrap().unwrap();
    assert_eq!(record.caller.parent, Some(parent.id));
}

#[tokio::test(start_paused = true)]
async fn what_was_not_kept_can_be_put_back() {
    let desk = Desk::for_payments();
    let pay = ToolBuilder::from_fn("pay", |_: Value| async { "paid" }).with(|spec| {
        let secret = windlass::Parameter {
            filled_by: windlass::FilledBy::Secret,
            required: true,
            ..windlass::Parameter::default()
        };
        spec.parameters.insert("token".to_owned(), secret);
    });
    let engine = Engine::builder().tool(pay).approvals(desk.clone()).build().unwrap();
    let context = Context::default().secret("token", "canary-1234");
    let request = || CallRequest::new("pay", json!({})).context(context.clone());
    engine.call(request()).await;
    assert!(!desk.kept.lock()[0].contains("canary"));
    let without = engine.resume(desk.take(), Verdict::approve("grace")).await;
    assert_eq!(kind(&without), ErrorKind::CredentialInvalid);
    engine.call(request()).await;
    let back = |context: Context| context.secret("token", "canary-1234");
    let result = engine.resume_with(desk.take(), Verdict::approve("grace"), back).await;
    assert!(result.is_success(), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn leaving_out_what_the_other_side_assumes_gets_around_no_rule() {
    let currency = |then: &str| {
        let test = json!({"pointer": "/currency", "equals": "EUR"});
        json!({"tool": "transfer", "arguments": [test], "then": then})
    };
    for (rules, expected) in [
        (json!({"rules": [currency("deny")]}), Some(ErrorKind::Denied)),
        (json!({"rules": [currency("ask")]}), Some(ErrorKind::ApprovalRequired)),
        // What another side claims allows nothing.
        (json!({"rules": [currency("allow")], "default": "deny"}), Some(ErrorKind::Denied)),
        (json!({"rules": []}), None),
    ] {
        let transfer =
            ToolBuilder::from_fn("transfer", |given: Value| async move { given }).with(|spec| {
                spec.kind = Kind::Mcp;
                spec.input = json!({"type": "object", "properties": {
                    "currency": {"type": "string", "default": "EUR"},
                    "amount": {"type": "number"}}});
            });
        let engine = Engine::builder().approvals(Desk::new(rules)).tool(transfer).build().unwrap();
        let result = engine.call(CallRequest::new("transfer", json!({"amount": 1}))).await;
        assert_eq!(result.error().map(Error::kind), expected);
        if expected.is_none() {
            assert_eq!(*only_record(&engine).await.arguments, json!({"amount": 1}));
        }
    }
}
