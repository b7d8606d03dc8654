//! [`Driver`]: drives a run until it ends or waits.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, oneshot};
use windlass::{BoxFuture, Call, Content, Context, Error, ErrorKind, Lang, Tools, Usage};

use super::at::OpenedWait;
use super::frame::Frame;
use super::memo::Memo;
use super::undo::Undoable;
use super::walk::BlockEnd;
use super::writer::Writer;
use crate::graph::Node;
use crate::log::{
    Entry, Failure, Message, OpenWait, Recipient, RunEnd, RunHead, RunStatus, StepEnd, Wait, Wake,
};
use crate::plan::Plan;
use crate::step::Halt;

/// Until when a run stays in memory for a time that comes soon.
const SOON: Duration = Duration::from_secs(1);
/// How long entries wait to be written if nothing depends on them.
const TICK: Duration = Duration::from_millis(500);
/// How much of the time is left to write down that it is over.
const MARGIN: Duration = Duration::from_millis(250);

/// What one drive of a run shares with all its steps.
pub(crate) struct Drive<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) run: Arc<str>,
    pub(crate) tools: Tools,
    /// The context of its calls.
    pub(crate) context: Context,
    pub(crate) lang: Lang,
    pub(crate) writer: Writer,
    /// How many calls run at once.
    pub(crate) slots: Semaphore,
    pub(crate) limits_of_values: usize,
    call: &'a Call,
    memo: Mutex<Memo>,
    spent: Mutex<Spent>,
    waits: Mutex<BTreeMap<Arc<str>, OpenedWait>>,
    pub(crate) undoable: Mutex<Vec<Undoable>>,
    /// Steps that do something other than wait.
    busy: AtomicUsize,
    /// Whether steps that have not ended must not begin.
    replays: AtomicBool,
    failed_at: Mutex<Option<Arc<str>>>,
}

/// What a run has used.
#[derive(Default)]
struct Spent {
    steps: usize,
    bytes: usize,
    usage: Usage,
    calls: u64,
    ended: usize,
    handled: usize,
}

/// Counts a step that is not waiting, until it is dropped.
pub(crate) struct Busy<'a>(&'a AtomicUsize);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a drive ended.
pub(crate) enum DriveEnd {
    /// The run has ended.
    Ended {
        /// How.
        end: RunEnd,
        /// The number of failures that its steps handled.
        handled: usize,
    },
    /// It waits.
    Waiting(Vec<OpenWait>),
}

impl<'a> Drive<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        call: &'a Call,
        context: Context,
        lang: Lang,
        memo: Memo,
        writer: Writer,
        run: Arc<str>,
    ) -> Self {
        let replays = memo.undoing.is_some();
        let ended = memo.ends.len();
        let spent = Spent { steps: ended, ended, usage: memo.usage, ..Spent::default() };
        Self {
            plan,
            run,
            tools: call.tools(),
            context,
            lang,
            writer,
            slots: Semaphore::new(plan.limits.at_once),
            limits_of_values: plan.limits.value_bytes,
            call,
            memo: Mutex::new(memo),
            spent: Mutex::new(spent),
            waits: Mutex::default(),
            undoable: Mutex::default(),
            busy: AtomicUsize::new(0),
            replays: AtomicBool::new(replays),
            failed_at: Mutex::default(),
        }
    }

    pub(crate) fn memo<T>(&self, look: impl FnOnce(&Memo) -> T) -> T {
        look(&self.memo.lock())
    }

    /// The end of a step that the log has, and its order.
    pub(crate) fn ended(&self, place: &str) -> Option<(StepEnd, usize)> {
        let memo = self.memo.lock();
        memo.ends.get(place).map(|ended| (ended.end.clone(), ended.order))
    }

    /// Keeps the end of a step. Returns its order.
    pub(crate) fn end(&self, at: &super::At<'_>, end: StepEnd) -> usize {
        self.writer.add(at.entry(end));
        let mut spent = self.spent.lock();
        spent.ended += 1;
        spent.ended
    }

    /// Remembers that a step can be undone.
    pub(crate) fn may_undo(
        &self,
        node: &Arc<Node>,
        frame: &Arc<Frame>,
        order: usize,
        end: &StepEnd,
    ) {
        if node.policy.undo.is_some() && matches!(end, StepEnd::Succeeded { handled: None, .. }) {
            let (node, frame) = (Arc::clone(node), Arc::clone(frame));
            self.undoable.lock().push(Undoable { node, frame, order });
        }
    }

    pub(crate) fn only_replays(&self) -> bool {
        self.replays.load(Ordering::Relaxed)
    }

    pub(crate) fn busy(&self) -> Busy<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(&self.busy)
    }

    pub(crate) fn handled(&self) {
        self.spent.lock().handled += 1;
        *self.failed_at.lock() = None;
    }

    pub(crate) fn failed_at(&self, place: &Arc<str>) {
        self.failed_at.lock().get_or_insert_with(|| Arc::clone(place));
    }

    /// Whether the error says that another call drives the run.
    pub(crate) fn is_taken_over(&self, error: &Error) -> bool {
        *error.message() == *crate::store::taken_over(&self.run).message()
    }

    pub(crate) fn charge(&self, usage: Usage) {
        self.call.charge_nested(usage);
        self.spent.lock().usage += usage;
    }

    /// Refuses a call where the budget of the run is spent.
    pub(crate) fn check_budget(&self) -> Result<(), Error> {
        let mut spent = self.spent.lock();
        spent.calls += 1;
        let over = self.plan.budget.exceeded(spent.usage, spent.calls);
        match over {
            None => Ok(()),
            Some(what) => {
                let why = format!("the budget of the run is spent: {what}");
                Err(Error::new(ErrorKind::QuotaExceeded, why).nothing_done())
            }
        }
    }

    /// Counts a step that begins.
    pub(crate) fn count_step(&self, place: &str) -> Result<(), Error> {
        let most = self.plan.limits.steps_run;
        let mut spent = self.spent.lock();
        spent.steps += 1;
        if spent.steps > most {
            let why = format!("a run executes at most {most} steps; `{place}` would be one more");
            return Err(Error::new(ErrorKind::QuotaExceeded, why).nothing_done());
        }
        Ok(())
    }

    /// Counts the value of a step.
    pub(crate) fn count_bytes(&self, place: &str, value: &Value) -> Result<(), Halt> {
        let limits = &self.plan.limits;
        let bytes = size_of(value);
        let too_large = |what: &str, most: usize| {
            let why = format!(
                "{what} of the step `{place}` is {bytes} bytes of JSON, and {most} are allowed; \
                 keep less of it"
            );
            Err(Error::new(ErrorKind::InvalidOutput, why).into())
        };
        if bytes > limits.value_bytes {
            return too_large("the value", limits.value_bytes);
        }
        let mut spent = self.spent.lock();
        spent.bytes += bytes;
        if spent.bytes > limits.state_bytes {
            return too_large("the run, with the value", limits.state_bytes);
        }
        Ok(())
    }

    /// Reports an event of the run.
    pub(crate) fn tell(&self, event: &'static str, place: &str, about: impl FnOnce() -> Value) {
        self.call.emitter().emit_with(|| {
            let mut told = json!({"event": event, "run": self.run, "step": place});
            if let (Value::Object(told), Value::Object(about)) = (&mut told, about()) {
                told.extend(about);
            }
            Content::json(told)
        });
    }

    /// Waits until the step is woken.
    pub(crate) async fn wait(&self, place: Arc<str>, wait: Wait) -> Result<Wake, Halt> {
        let known = {
            let mut memo = self.memo.lock();
            if let Some(wake) = memo.wakes.get(&place) {
                return Ok(wake.clone());
            }
            memo.waits.remove(&place)
        };
        if self.only_replays() {
            return std::future::pending().await;
        }
        let open = match known {
            // As it was when it began to wait: the time does not begin anew.
            Some((wait, since)) => OpenWait { place: Arc::clone(&place), wait, since },
            None => {
                let since = Timestamp::now();
                self.writer.add(Entry::Waiting {
                    place: Arc::clone(&place),
                    wait: wait.clone(),
                    since,
                });
                OpenWait { place: Arc::clone(&place), wait, since }
            }
        };
        self.tell("waiting", &place, || json!({"wait": open.wait}));
        let (woken, wake) = oneshot::channel();
        self.waits.lock().insert(Arc::clone(&place), OpenedWait { open, woken });
        let busy = self.busy.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(busy > 0, "only a step that is counted waits");
        let wake = wake.await;
        self.busy.fetch_add(1, Ordering::Relaxed);
        wake.map_err(|_| Halt::Failed(Error::new(ErrorKind::Cancelled, "the wait was given up")))
    }

    /// Gives up the waits of a block.
    pub(crate) fn forget_waits(&self, prefix: &str) {
        self.waits.lock().retain(|place, _| !place.starts_with(prefix));
    }

    fn open_waits(&self) -> Vec<OpenWait> {
        self.waits.lock().values().map(|opened| opened.open.clone()).collect()
    }

    fn wake(&self, place: &Arc<str>, wake: Wake, message: Option<String>) {
        let Some(opened) = self.waits.lock().remove(place) else { return };
        {
            let mut memo = self.memo.lock();
            memo.wakes.insert(Arc::clone(place), wake.clone());
            memo.read.extend(message.clone());
        }
        let place = Arc::clone(place);
        self.writer.add(Entry::Woken { place, wake: wake.clone(), message });
        // The step may have been given up meanwhile.
        opened.woken.send(wake).ok();
    }

    /// Wakes the steps whose time has come. Returns whether there was one.
    fn wake_due(&self) -> bool {
        let now = Timestamp::now();
        let is_due = |open: &OpenWait| open.wait.until().is_some_and(|until| until <= now);
        let due: Vec<_> = self.open_waits().into_iter().filter(is_due).collect();
        due.iter().for_each(|open| self.wake(&open.place, Wake::Time, None));
        !due.is_empty()
    }

    /// Hands a message to the step that waits for it. Returns whether one did.
    fn deliver(&self, message: &Message) -> bool {
        if self.memo(|memo| memo.read.contains(&message.key)) {
            return false;
        }
        let waiting = self.open_waits();
        let found = waiting.iter().find(|open| match (&message.to, &open.wait) {
            (Recipient::Place(place), _) => open.place == *place,
            (Recipient::Signal(signal), Wait::Signal { name, .. }) => name == signal,
            (Recipient::Signal(_) | Recipient::Cancel, _) => false,
        });
        let Some(open) = found else { return false };
        self.wake(&open.place, message.wake.clone(), Some(message.key.clone()));
        true
    }

    /// Wakes the steps whose calls have ended. Returns whether there was one.
    async fn wake_decided(&self) -> Result<bool, Error> {
        let mut any = false;
        for open in self.open_waits() {
            if let Wait::Call { call } = open.wait
                && self.tools.record(call).await?.is_some()
            {
                self.wake(&open.place, Wake::Time, None);
                any = true;
            }
        }
        Ok(any)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.waits.lock().values().filter_map(|opened| opened.open.wait.until()).min()
    }
}

/// The size of a value as JSON, roughly.
fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size_of(item) + 1).sum::<usize>() + 2,
        Value::Object(map) => {
            map.iter().map(|(key, item)| key.len() + size_of(item) + 4).sum::<usize>() + 2
        }
    }
}

/// Drives one run.
pub(crate) struct Driver<'a> {
    pub(crate) drive: Drive<'a>,
    /// Told when a message for the run has come.
    pub(crate) mail: Arc<Notify>,
    pub(crate) frame: Arc<Frame>,
    pub(crate) began: Instant,
    /// The time that it ran before.
    pub(crate) ran_before: Duration,
}

/// Why the steps stopped.
enum Stopped<T> {
    Ended(T),
    /// All of them wait.
    Idle,
    Cancelled(Option<String>),
    Overdue,
}

impl Driver<'_> {
    /// Drives the run to its end, or until it waits.
    pub(crate) async fn run(&self) -> Result<DriveEnd, Error> {
        let drive = &self.drive;
        if let Some(end) = drive.memo(|memo| memo.finished.clone()) {
            return self.finish(end).await;
        }
        if let Some(end) = drive.memo(|memo| memo.undoing.clone()) {
            // Only to know what there is to undo.
            self.until_idle(self.steps()).await?;
            drive.replays.store(false, Ordering::Relaxed);
            return self.undo(end).await;
        }
        let end = match self.until_idle(self.steps()).await? {
            Stopped::Idle => return self.park().await,
            Stopped::Ended(Ok(end)) => self.value(end),
            Stopped::Ended(Err(Halt::Returned(value))) => self.returned(value),
            Stopped::Ended(Err(Halt::Skipped)) => RunEnd::Succeeded { value: Arc::default() },
            Stopped::Ended(Err(Halt::Failed(error))) if drive.is_taken_over(&error) => {
                return Err(error);
            }
            Stopped::Ended(Err(Halt::Failed(error))) => self.failed(&error),
            Stopped::Cancelled(who) => RunEnd::Cancelled { who },
            Stopped::Overdue => {
                let timeout = windlass::duration::format(drive.plan.timeout);
                let why = format!("the workflow ran longer than {timeout}");
                let end = self.failed(&Error::new(ErrorKind::Timeout, why));
                if drive.can_undo() {
                    return self.undo_later(end).await;
                }
                end
            }
        };
        match end {
            RunEnd::Failed { .. } if drive.can_undo() => {
                drive.writer.add(Entry::Undoing { end: end.clone() });
                self.undo(end).await
            }
            end => self.finish(end).await,
        }
    }

    fn steps(&self) -> BoxFuture<'_, Result<BlockEnd, Halt>> {
        self.drive.walk(&self.drive.plan.graph, Arc::clone(&self.frame))
    }

    /// What the run returns.
    fn value(&self, end: BlockEnd) -> RunEnd {
        match self.drive.plan.returned(&self.frame, end.value) {
            Ok(value) => self.returned(value),
            Err(error) => self.failed(&error),
        }
    }

    fn returned(&self, value: Arc<Value>) -> RunEnd {
        match self.drive.plan.check(&value) {
            Ok(()) => RunEnd::Succeeded { value },
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &Error) -> RunEnd {
        let place = self.drive.failed_at.lock().clone();
        RunEnd::Failed { place, error: Failure::of(error) }
    }

    /// Runs steps until they have ended or all of them wait.
    async fn until_idle<T>(&self, mut steps: BoxFuture<'_, T>) -> Result<Stopped<T>, Error> {
        let drive = &self.drive;
        let deadline = drive.call.deadline().checked_sub(MARGIN).unwrap_or(self.began);
        // Whether it is known that all steps wait, and was decided to stay.
        let mut stays = false;
        loop {
            let due = drive.next_due().map(|due| {
                let left = Timestamp::now().duration_until(due);
                Duration::try_from(left).unwrap_or_default()
            });
            let polled = poll_fn(|cx| match steps.as_mut().poll(cx) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending if drive.busy.load(Ordering::Relaxed) > 0 => {
                    stays = false;
                    Poll::Pending
                }
                Poll::Pending if stays => Poll::Pending,
                Poll::Pending => Poll::Ready(None),
            });
            tokio::select! {
                biased;
                ended = polled => match ended {
                    Some(ended) => return Ok(Stopped::Ended(ended)),
                    None => match self.idle().await? {
                        Idle::Stop(stopped) => return Ok(stopped),
                        Idle::Woke => {}
                        Idle::Stay => stays = true,
                    },
                },
                () = self.mail.notified() => {
                    stays = false;
                    if let Some(Mail::Cancel(who)) = self.read_mail().await? {
                        return Ok(Stopped::Cancelled(who));
                    }
                }
                () = tokio::time::sleep(due.unwrap_or_default()), if due.is_some() => {
                    stays = false;
                    drive.wake_due();
                }
                () = tokio::time::sleep(TICK) => {
                    if drive.writer.is_behind() {
                        drive.writer.flush().await?;
                    }
                }
                () = tokio::time::sleep_until(deadline.into()) => return Ok(Stopped::Overdue),
            }
        }
    }

    /// What to do when all steps wait.
    async fn idle<T>(&self) -> Result<Idle<T>, Error> {
        let drive = &self.drive;
        if drive.only_replays() {
            return Ok(Idle::Stop(Stopped::Idle));
        }
        if drive.wake_due() || drive.wake_decided().await? {
            return Ok(Idle::Woke);
        }
        match self.read_mail().await? {
            Some(Mail::Cancel(who)) => return Ok(Idle::Stop(Stopped::Cancelled(who))),
            Some(Mail::Woke) => return Ok(Idle::Woke),
            None => {}
        }
        let soon = Timestamp::now() + SOON;
        match drive.next_due() {
            Some(due) if due <= soon => Ok(Idle::Stay),
            _ => Ok(Idle::Stop(Stopped::Idle)),
        }
    }

    /// Reads the messages of the run.
    async fn read_mail(&self) -> Result<Option<Mail>, Error> {
        let drive = &self.drive;
        let tenant = &drive.context.caller().tenant;
        let messages = drive.writer.store().messages(tenant, &drive.run).await?;
        let mut woke = None;
        for message in &messages {
            match (&message.to, &message.wake) {
                (Recipient::Cancel, wake) => {
                    let who = match wake {
                        Wake::Message { who, .. } => who.clone(),
                        Wake::Time | Wake::Run { .. } => None,
                    };
                    return Ok(Some(Mail::Cancel(who)));
                }
                _ if drive.deliver(message) => woke = Some(Mail::Woke),
                _ => {}
            }
        }
        Ok(woke)
    }

    fn ran(&self) -> Duration {
        self.ran_before + self.began.elapsed()
    }

    /// Writes down that the run waits.
    async fn park(&self) -> Result<DriveEnd, Error> {
        let drive = &self.drive;
        let waits = drive.open_waits();
        self.update(|head| {
            head.status = RunStatus::Waiting;
            head.owner = None;
            head.waits.clone_from(&waits);
        })
        .await?;
        Ok(DriveEnd::Waiting(waits))
    }

    async fn update(&self, change: impl Fn(&mut RunHead)) -> Result<(), Error> {
        let (ran, usage) = (self.ran(), self.drive.spent.lock().usage);
        self.drive
            .writer
            .update(|head| {
                head.ran_ms = u64::try_from(ran.as_millis()).unwrap_or(u64::MAX);
                head.usage = usage;
                change(head);
            })
            .await
    }

    /// Runs the `undo` steps, then ends the run.
    async fn undo(&self, end: RunEnd) -> Result<DriveEnd, Error> {
        self.drive.writer.flush().await?;
        match self.until_idle(Box::pin(self.drive.undo_all())).await? {
            Stopped::Ended(undone) => undone?,
            Stopped::Idle => return self.park().await,
            // Somebody has to look after it; the records say what was undone.
            Stopped::Cancelled(_) | Stopped::Overdue => {}
        }
        self.finish(end).await
    }

    /// Leaves the `undo` steps to another drive, which has time for them.
    async fn undo_later(&self, end: RunEnd) -> Result<DriveEnd, Error> {
        self.drive.writer.add(Entry::Undoing { end });
        self.update(|head| head.owner = None).await?;
        Ok(DriveEnd::Waiting(Vec::new()))
    }

    async fn finish(&self, end: RunEnd) -> Result<DriveEnd, Error> {
        let drive = &self.drive;
        if drive.memo(|memo| memo.finished.is_none()) {
            drive.writer.add(Entry::Finished { end: end.clone() });
        }
        self.update(|head| {
            head.status = end.status();
            head.owner = None;
            head.ended_at = Some(Timestamp::now());
            head.waits.clear();
            head.end = Some(end.clone());
        })
        .await?;
        let handled = drive.spent.lock().handled;
        Ok(DriveEnd::Ended { end, handled })
    }
}

/// What the messages of a run brought.
enum Mail {
    Woke,
    Cancel(Option<String>),
}

/// What follows from all steps waiting.
enum Idle<T> {
    Stop(Stopped<T>),
    Woke,
    Stay,
}
