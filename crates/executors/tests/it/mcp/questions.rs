//! Elicitation and sampling: a server's request reaches whoever made the call, and nobody
//! else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use windlass::{CallRequest, CallResult, Caller, Context, TenantId};
use windlass_executors::mcp::{Answers, Asker};

use super::Rig;
use super::played::server;

/// Somebody who can be asked, in a conversation of their own.
struct Person {
    caller: Caller,
    asker: Asker,
    asked: Arc<AtomicUsize>,
}

impl Person {
    fn new(tenant: &str, conversation: Option<&str>) -> Self {
        let asked = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&asked);
        let asker = Asker::new(json!({"elicitation": {}}), move |questions| {
            count.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                let answer = json!({"action": "accept", "content": {}});
                Ok(questions.into_keys().map(|key| (key, answer.clone())).collect::<Answers>())
            })
        });
        let caller = Caller {
            tenant: TenantId::new(tenant),
            conversation: conversation.map(Into::into),
            ..Caller::default()
        };
        Self { caller, asker, asked }
    }

    async fn call(&self, rig: &Rig, tool: &str, limit: Duration) -> CallResult {
        let context = Context::new(self.caller.clone()).object(self.asker.clone());
        let request = CallRequest::new(tool, json!({})).context(context).timeout(limit);
        rig.engine.call(request).await
    }

    async fn ask(&self, rig: &Rig) -> String {
        let result = self.call(rig, "s/ask", Duration::from_secs(20)).await;
        result.outcome.unwrap_or_else(|error| panic!("{error:?}")).to_text()
    }

    /// Calls something that is never answered, and gives up.
    async fn give_up(&self, rig: &Rig) {
        let stuck = self.call(rig, "s/never", Duration::from_millis(150)).await;
        assert!(stuck.error().is_some());
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_what_a_call_that_was_given_up_may_want_to_know() {
    let rig = Rig::new(&[("s", server("old"))]).await;
    let (ann, bob) = (Person::new("a", Some("1")), Person::new("b", Some("2")));
    ann.give_up(&rig).await;
    // The server may still work on it, and what it asks may be about it.
    let said = bob.ask(&rig).await;
    assert!(said.contains("cannot be told"), "{said}");
    assert_eq!((ann.asked(), bob.asked()), (0, 0));
    // Nobody needs the connection now, so it has begun anew.
    let said = bob.ask(&rig).await;
    assert!(said.contains("accept"), "{said}");
    assert_eq!((ann.asked(), bob.asked()), (0, 1));
    // Who gave up the other call may be asked about either.
    bob.give_up(&rig).await;
    assert!(bob.ask(&rig).await.contains("accept"));
    // Two of whom nobody knows the conversation may be two.
    let (eve, dan) = (Person::new("a", None), Person::new("a", None));
    eve.give_up(&rig).await;
    assert!(dan.ask(&rig).await.contains("cannot be told"));
    assert_eq!((eve.asked(), dan.asked()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_while_somebody_elses_request_is_open() {
    let rig = Rig::new(&[("s", server("old"))]).await;
    let (ann, bob) = (Person::new("a", Some("1")), Person::new("b", Some("2")));
    // A prompt, of which nobody hears anything until it is there.
    let own = rig.servers.get_for(&TenantId::default(), "s").unwrap();
    let prompt = tokio::spawn(async move {
        let _ = own.ask("prompts/get", &json!({"name": "p"}), None, None).await;
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let said = bob.ask(&rig).await;
    assert!(said.contains("cannot be told"), "{said}");
    prompt.abort();
    drop(prompt);
    // Two calls of one conversation are one person's.
    let rig = Rig::new(&[("s", server("old"))]).await;
    let other = ann.call(&rig, "s/never", Duration::from_secs(2));
    let (_, said) = tokio::join!(other, async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        ann.ask(&rig).await
    });
    assert!(said.contains("accept"), "{said}");
    assert_eq!((ann.asked(), bob.asked()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_take_turns_where_the_operator_says_so() {
    let mut turns = server("old");
    turns["one_at_a_time"] = json!(true);
    let rig = Rig::new(&[("s", turns), ("free", server("old"))]).await;
    for (name, waits) in [("s", true), ("free", false)] {
        let start = Instant::now();
        let stuck = CallRequest::new(format!("{name}/never"), json!({}));
        let stuck = rig.engine.call(stuck.timeout(Duration::from_millis(1_500)));
        let (_, quick) = tokio::join!(stuck, async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            rig.echo(name, "mine").await;
            start.elapsed()
        });
        assert_eq!(quick > Duration::from_millis(1_400), waits, "{name}: {quick:?}");
    }
}
