//! Waits for a call, shows that it goes on, and cancels it when asked to.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tokio::time::{Instant, interval_at, timeout};
use windlass::{CallRequest, CallResult, CancellationToken, Engine, Event, EventBody};

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupts;
use crate::output::{self, Screen};

/// A call that is over sooner needs no sign of life.
const PATIENCE: Duration = Duration::from_millis(300);
const FRAME: Duration = Duration::from_millis(100);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Room for the tool's own words beside the spinner.
const MAX_WORDS: usize = 60;

/// What is shown while a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    Nothing,
    /// A line that moves.
    Spinner,
    /// Every event on a line.
    Events,
    /// Every event as a line of JSON.
    JsonEvents,
}

impl Watch {
    pub(super) fn choose(progress: bool, screen: &Screen) -> Self {
        match (progress, screen.json) {
            (true, true) => Self::JsonEvents,
            (true, false) => Self::Events,
            (false, _) if !screen.quiet && io::stderr().is_terminal() => Self::Spinner,
            (false, _) => Self::Nothing,
        }
    }
}

/// Runs a call. The first interrupt cancels it; at the second nobody waits for
/// a tool that does not stop.
pub(super) async fn follow(
    engine: &Engine,
    request: CallRequest,
    watch: Watch,
    mut interrupts: Interrupts,
) -> Result<CallResult, Failure> {
    let token = CancellationToken::new();
    let request = request.cancel_token(token.clone());
    let mut events = engine.events();
    let mut display = Display::new(watch);
    let engine = engine.clone();
    // On a thread of its own, because a tool may compute without a pause.
    let mut running = tokio::spawn(async move { engine.call(request).await });
    let mut frames = interval_at(Instant::now() + PATIENCE, FRAME);
    let ended = loop {
        tokio::select! {
            ended = &mut running => break ended,
            () = interrupts.next() => {
                if token.is_cancelled() {
                    display.clear();
                    return Err(Failure::new(Exit::Cancelled, "stopped without waiting for the tool"));
                }
                token.cancel();
            }
            Some(event) = events.next(), if watch != Watch::Nothing => display.event(&event),
            _ = frames.tick(), if watch == Watch::Spinner => display.frame(),
        }
    };
    while let Ok(Some(event)) = timeout(Duration::ZERO, events.next()).await {
        display.event(&event);
    }
    display.clear();
    ended.map_err(|error| Failure::new(Exit::Failed, format!("the call was lost: {error}")))
}

/// Writes to stderr; whether anybody reads it does not matter to the call.
struct Display {
    watch: Watch,
    began: Instant,
    shown: usize,
    name: String,
    words: String,
}

impl Display {
    fn new(watch: Watch) -> Self {
        let (name, words) = Default::default();
        Self { watch, began: Instant::now(), shown: 0, name, words }
    }

    fn event(&mut self, event: &Event) {
        match self.watch {
            Watch::Nothing => {}
            Watch::Spinner => self.remember(event),
            Watch::Events => {
                let at = self.began.elapsed().as_secs_f64();
                let words = output::one_line(&describe(&event.body));
                let _ = writeln!(io::stderr(), "{at:>8.3}s {} {words}", event.body.name());
            }
            Watch::JsonEvents => {
                if let Ok(line) = serde_json::to_string(event) {
                    let _ = writeln!(io::stderr(), "{line}");
                }
            }
        }
    }

    fn remember(&mut self, event: &Event) {
        if let Some(call) = event.body.call() {
            self.name = output::one_line(&call.tool_name);
        }
        if let EventBody::ExecutionProgress { progress, .. } = &event.body {
            let words = output::one_line(&progress.to_text());
            self.words = words.chars().take(MAX_WORDS).collect();
        }
    }

    fn frame(&mut self) {
        let frame = FRAMES[self.shown % FRAMES.len()];
        self.shown += 1;
        let seconds = self.began.elapsed().as_secs_f64();
        let mut err = io::stderr().lock();
        let _ = write!(err, "\r{frame} {} {seconds:.1} s  {}\x1b[K", self.name, self.words);
        let _ = err.flush();
    }

    fn clear(&self) {
        if self.watch == Watch::Spinner && self.shown > 0 {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn describe(body: &EventBody) -> String {
    match body {
        EventBody::ExecutionProgress { progress, .. } => progress.to_text(),
        EventBody::ExecutionFailed { error, status, .. } => format!("{status}: {error}"),
        EventBody::ExecutionStarted { call } => format!("{} {}", call.tool_name, call.call_id),
        EventBody::ExecutionCompleted { execution_time, .. } => {
            output::spent(Duration::from_secs_f64(*execution_time))
        }
        EventBody::Missed { count } => format!("{count} events"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;

    use serde_json::json;
    use windlass::{
        BoxFuture, Call, Error, ErrorKind, Executor, Output, PageRequest, RecordFilter, Status,
        TenantId, ToolBuilder,
    };

    use super::super::show::{View, show};
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

    fn engine(executor: impl Executor) -> Engine {
        let tool = ToolBuilder::native("slow", json!({}), Arc::new(executor));
        Engine::builder().tool(tool).build().unwrap()
    }

    #[test]
    fn a_call_that_takes_too_long_is_stopped_and_has_its_own_code() {
        let exit = crate::wiring::block_on(async {
            let request = CallRequest::new("slow", json!({})).timeout(Duration::from_millis(20));
            let engine = engine(Endless);
            let result = follow(&engine, request, Watch::Nothing, Interrupts::none()).await?;
            let screen = Screen { json: false, quiet: true, verbose: false };
            let view = View { lang: windlass::Lang::En, raw: false, kept: false };
            show(&result, &view, screen)
        });
        assert_eq!(exit.unwrap(), Exit::Timeout);
    }

    /// Both in one test: signals go to the whole process.
    #[cfg(unix)]
    #[test]
    fn an_interrupt_cancels_and_a_second_one_does_not_wait() {
        crate::wiring::block_on(async {
            let engine = engine(Interrupted { stops: true });
            let request = CallRequest::new("slow", json!({}));
            let interrupts = Interrupts::listen()?;
            let result = follow(&engine, request, Watch::Nothing, interrupts).await?;
            assert_eq!(result.error().map(Error::kind), Some(ErrorKind::Cancelled));
            let (tenant, filter) = (TenantId::default(), RecordFilter::default());
            let page = engine.records().query(&tenant, &filter, PageRequest::first(9)).await?;
            assert_eq!(page.records[0].status, Status::Cancelled);
            Ok(())
        })
        .unwrap();
        let began = std::time::Instant::now();
        let failure = crate::wiring::block_on(async {
            let request = CallRequest::new("slow", json!({}));
            follow(
                &engine(Interrupted { stops: false }),
                request,
                Watch::Nothing,
                Interrupts::listen()?,
            )
            .await
        })
        .unwrap_err();
        assert_eq!(failure.exit, Exit::Cancelled);
        assert!(began.elapsed() < Duration::from_secs(2));
    }
}
