//! Awaits calls, shows their progress, and cancels them on Ctrl-C.

mod display;

use std::time::Duration;

use tokio::time::{Instant, interval_at, timeout};
use windlass::{CancellationToken, Engine};

use crate::cli::exit::{Exit, Failure};
use crate::cli::interrupt::Interrupts;
use display::Display;
pub(crate) use display::ProgressWatch;

/// What is over sooner needs no sign of life.
const PATIENCE: Duration = Duration::from_millis(300);
const FRAME: Duration = Duration::from_millis(100);
/// How long the records of what has ended may take when nobody waits for the
/// rest any more.
const LAST_RECORDS: Duration = Duration::from_secs(1);

/// Runs calls. The first interrupt cancels them; at the second nobody waits
/// for a tool that does not stop.
pub(crate) async fn follow<T, F>(
    engine: &Engine,
    work: impl FnOnce(Engine, CancellationToken) -> F,
    watch: ProgressWatch,
    interrupts: &mut Interrupts,
) -> Result<Followed<T>, Failure>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let token = CancellationToken::new();
    let mut events = engine.events();
    let mut display = Display::new(watch);
    // On a thread of its own, because a tool may compute without a pause.
    let mut running = tokio::spawn(work(engine.clone(), token.clone()));
    let mut frames = interval_at(Instant::now() + PATIENCE, FRAME);
    let ended = loop {
        tokio::select! {
            ended = &mut running => break ended,
            () = interrupts.next() => {
                if token.is_cancelled() {
                    display.clear();
                    // Should they not be kept in time, the failure says enough.
                    let _ = timeout(LAST_RECORDS, engine.records().flush()).await;
                    return Err(Failure::new(Exit::Cancelled, "stopped without waiting for the tool"));
                }
                token.cancel();
            }
            Some(event) = events.next(), if watch != ProgressWatch::Nothing => display.event(&event),
            _ = frames.tick(), if watch == ProgressWatch::Spinner => display.frame(),
        }
    };
    while let Ok(Some(event)) = timeout(Duration::ZERO, events.next()).await {
        display.event(&event);
    }
    display.clear();
    match ended {
        Ok(value) => Ok(Followed { value, cancelled: token.is_cancelled() }),
        Err(error) => Err(Failure::new(Exit::Failed, format!("the call was lost: {error}"))),
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Followed<T> {
    pub(crate) value: T,
    /// Whether an interrupt was received.
    pub(crate) cancelled: bool,
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;

    use serde_json::json;
    use windlass::{
        BoxFuture, Call, CallRequest, CallResult, Error, ErrorKind, Executor, Output, PageRequest,
        RecordFilter, Status, TenantId, ToolBuilder,
    };

    use super::*;

    /// Sends signals to its own process, then never ends.
    struct Interrupted {
        stops: bool,
    }

    impl Executor for Interrupted {
        fn execute<'a>(&'a self, _call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
            Box::pin(async move {
                let send = || {
                    let id = std::process::id().to_string();
                    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
                    assert!(sent.success());
                };
                send();
                if self.stops {
                    return std::future::pending().await;
                }
                // As a tool that computes and looks at nothing else.
                std::thread::sleep(Duration::from_millis(200));
                send();
                std::thread::sleep(Duration::from_secs(3));
                Ok(Output::default())
            })
        }
    }

    /// Waits without end.
    struct Endless;

    impl Executor for Endless {
        fn execute<'a>(&'a self, _call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
            Box::pin(std::future::pending())
        }
    }

    /// Calls the one tool.
    async fn call(
        engine: &Engine,
        request: CallRequest,
        mut interrupts: Interrupts,
    ) -> Result<CallResult, Failure> {
        let work =
            |engine: Engine, token| async move { engine.call(request.cancel_token(token)).await };
        follow(engine, work, ProgressWatch::Nothing, &mut interrupts)
            .await
            .map(|followed| followed.value)
    }

    fn engine(executor: impl Executor) -> Engine {
        let tool = ToolBuilder::native("slow", json!({}), Arc::new(executor));
        Engine::builder().tool(tool).build().unwrap()
    }

    #[test]
    fn a_call_that_takes_too_long_is_stopped_and_has_its_own_code() {
        let exit = crate::installation::block_on(async {
            let request = CallRequest::new("slow", json!({})).timeout(Duration::from_millis(20));
            let engine = engine(Endless);
            let result = call(&engine, request, Interrupts::none()).await?;
            Ok(result.error().map(|error| Exit::of(error.kind())))
        });
        assert_eq!(exit.unwrap(), Some(Exit::Timeout));
    }

    /// Both in one test: signals go to the whole process.
    #[cfg(unix)]
    #[test]
    fn an_interrupt_cancels_and_a_second_one_does_not_wait() {
        crate::installation::block_on(async {
            let engine = engine(Interrupted { stops: true });
            let request = CallRequest::new("slow", json!({}));
            let result = call(&engine, request, Interrupts::listen()?).await?;
            assert_eq!(result.error().map(Error::kind), Some(ErrorKind::Cancelled));
            let (tenant, filter) = (TenantId::default(), RecordFilter::default());
            let page = engine.records().query(&tenant, &filter, PageRequest::first(9)).await?;
            assert_eq!(page.records[0].status, Status::Cancelled);
            Ok(())
        })
        .unwrap();
        let began = std::time::Instant::now();
        let failure = crate::installation::block_on(async {
            let request = CallRequest::new("slow", json!({}));
            call(&engine(Interrupted { stops: false }), request, Interrupts::listen()?).await
        })
        .unwrap_err();
        assert_eq!(failure.exit, Exit::Cancelled);
        assert!(began.elapsed() < Duration::from_secs(2));
    }
}
