//! What can go wrong with a call.
//!
//! An [`Error`] keeps two texts apart: the *message* is for the operator and
//! may name hosts, files and causes; the *feedback* is what a model may read
//! and says what to do next. [`ErrorKind`] is the one table from which every
//! surface takes its own name for the same thing.

mod kind;
pub(crate) mod phrase;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use kind::{ErrorKind, KindInfo};

use crate::call::content::Facts;
use crate::value::text::{Lang, Text};

/// How many violations one error reports.
pub(crate) const MAX_VIOLATIONS: usize = 32;
const MAX_VIOLATION_TEXT: usize = 500;
/// The longest message and feedback of a call.
const MAX_TEXT: usize = 8 * 1024;

/// Why a call, a definition or a request to the engine failed.
#[derive(Clone)]
pub struct Error(Arc<ErrorInner>);

#[derive(Clone)]
struct ErrorInner {
    kind: ErrorKind,
    message: String,
    feedback: Option<Text>,
    violations: Vec<Violation>,
    retry_after: Option<Duration>,
    metadata: Facts,
    effect: Effect,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What is known of what a failed call has done.
#[derive(Clone, Copy, PartialEq)]
enum Effect {
    Unsaid,
    /// It failed before anything could be done.
    Nothing,
    /// It may have done what it was to do.
    Possible,
}

impl Error {
    /// An error of a kind. The message is lowercase, without a full stop, and
    /// says what failed and which one.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(ErrorInner {
            kind,
            message: message.into(),
            feedback: None,
            violations: Vec::new(),
            retry_after: None,
            metadata: Facts::default(),
            effect: Effect::Unsaid,
            source: None,
        }))
    }

    /// A tool's own failure: what an `Err` of a Rust function becomes. The
    /// model may read the message.
    pub fn tool(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::ToolError, message)
    }

    /// Invalid arguments, with everything that is wrong with them (of a very
    /// long list, the beginning).
    pub fn invalid_arguments(mut violations: Vec<Violation>) -> Self {
        violations.truncate(MAX_VIOLATIONS);
        for violation in &mut violations {
            for text in [&mut violation.path, &mut violation.expected, &mut violation.got] {
                cut(text, MAX_VIOLATION_TEXT);
            }
        }
        let message = violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("; ");
        let mut error = Self::new(ErrorKind::InvalidArguments, message);
        error.inner().violations = violations;
        error
    }

    /// The same error with a text of its own for the model, instead of the
    /// kind's default: one for all languages, or one for each.
    #[must_use]
    pub fn with_feedback(mut self, feedback: impl Into<Text>) -> Self {
        self.inner().feedback = Some(feedback.into());
        self
    }

    /// The same error with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.inner().source = Some(Arc::new(source));
        self
    }

    /// The same error with the time after which another try makes sense.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.inner().retry_after = Some(after);
        self
    }

    /// The same error with a fact about the run, for people and programs, not
    /// for the model.
    #[must_use]
    pub fn with_metadata(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.inner().metadata.insert(key, value);
        self
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The text for operators.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The text for models, in a language.
    pub fn feedback(&self, lang: Lang) -> String {
        match &self.0.feedback {
            Some(text) => text.get(lang).to_owned(),
            None if lang == Lang::Zh && !self.0.violations.is_empty() => {
                self.0.kind.feedback(lang, &self.explain(lang))
            }
            None => self.0.kind.feedback(lang, &self.0.message),
        }
    }

    /// What went wrong, for people, in a language as far as it is Windlass that
    /// says it. Unlike the message, it can stand alone.
    pub fn explain(&self, lang: Lang) -> String {
        match (self.0.violations.as_slice(), lang) {
            ([], _) | (_, Lang::En) => self.0.kind.explain(&self.0.message, lang),
            (violations, Lang::Zh) => {
                let told: Vec<String> =
                    violations.iter().map(|violation| violation.describe(lang)).collect();
                told.join("; ")
            }
        }
    }

    /// The text for models that came with the error, in place of the kind's.
    pub(crate) fn own_feedback(&self) -> Option<&Text> {
        self.0.feedback.as_ref()
    }

    /// Says that nothing was done: the other side was never asked. Without it, a
    /// model is told that a call which must not simply be repeated may have
    /// taken effect.
    #[must_use]
    pub fn nothing_done(mut self) -> Self {
        self.inner().effect = Effect::Nothing;
        self
    }

    /// Whether the call may have taken effect although it failed. Then it is not
    /// to be repeated before somebody has looked.
    pub fn may_have_acted(&self) -> bool {
        self.0.effect == Effect::Possible
    }

    /// The same error of a call that had begun and must not simply be repeated:
    /// the model reads that it may have taken effect, and what to do.
    pub(crate) fn after_begin(mut self) -> Self {
        let ErrorInner { kind, message, feedback, effect, .. } = &*self.0;
        let kind = *kind;
        if *effect == Effect::Nothing {
            return self;
        }
        // That a server cannot be reached is what its own text says of a
        // connection that broke off, too.
        let own = feedback.as_ref().filter(|_| kind != ErrorKind::Network);
        let text = |lang| kind.begun(lang, message, own.map(|own| own.get(lang)));
        let (Some(english), Some(chinese)) = (text(Lang::En), text(Lang::Zh)) else { return self };
        let inner = self.inner();
        inner.feedback = Some(Text::both(english, chinese));
        if kind != ErrorKind::ToolError {
            (inner.effect, inner.retry_after) = (Effect::Possible, None);
        }
        self
    }

    /// What is wrong with the arguments, for [`ErrorKind::InvalidArguments`].
    pub fn violations(&self) -> &[Violation] {
        &self.0.violations
    }

    /// When another try makes sense, where the other side said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Facts about the run, as an output has them.
    pub fn metadata(&self) -> &Facts {
        &self.0.metadata
    }

    pub(crate) fn metadata_mut(&mut self) -> Option<&mut Map<String, Value>> {
        if self.0.metadata.is_empty() { None } else { self.inner().metadata.as_map_mut() }
    }

    /// Whether the same call may succeed later. Whether it is *safe* to repeat
    /// depends on the tool; one that may have taken effect is not.
    pub fn is_retryable(&self) -> bool {
        self.0.kind.info().retryable && !self.may_have_acted()
    }

    /// The same error with texts of a bounded size: a tool may have put its
    /// whole input into them.
    pub(crate) fn bounded(mut self) -> Self {
        if self.0.message.len() > MAX_TEXT || self.0.feedback.is_some() {
            let inner = self.inner();
            let feedback = inner.feedback.iter_mut().flat_map(Text::texts_mut);
            feedback.chain([&mut inner.message]).for_each(|text| cut(text, MAX_TEXT));
        }
        self
    }

    /// Changes all texts; stops where that fails. A cause has a text, too, but
    /// it cannot be changed: where `change` would, the cause goes.
    pub(crate) fn rewrite<E>(
        &mut self,
        mut change: impl FnMut(&mut String) -> Result<(), E>,
    ) -> Result<(), E> {
        let inner = self.inner();
        change(&mut inner.message)?;
        inner.feedback.iter_mut().flat_map(Text::texts_mut).try_for_each(&mut change)?;
        for violation in &mut inner.violations {
            for text in [&mut violation.path, &mut violation.expected, &mut violation.got] {
                change(text)?;
            }
        }
        let mut cause = inner.source.as_deref().map(|cause| cause as &(dyn StdError + 'static));
        let mut changed = false;
        while let Some(error) = cause {
            let shown = format!("{error} {error:?}");
            let mut text = shown.clone();
            change(&mut text)?;
            changed |= text != shown;
            cause = error.source();
        }
        if changed {
            inner.source = None;
        }
        Ok(())
    }

    fn inner(&mut self) -> &mut ErrorInner {
        Arc::make_mut(&mut self.0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.name(), self.0.message)?;
        self.0.source.as_ref().map_or(Ok(()), |source| write!(f, ": {source}"))
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// Cuts a text between two characters.
fn cut(text: &mut String, max_bytes: usize) {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes));
        text.push('…');
    }
}

/// One thing that is wrong with the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// Where, as a JSON pointer: `/filters/0/name`; empty for the whole.
    pub path: String,
    /// What the schema wants there.
    pub expected: String,
    /// What came, shortened; `hidden` where the value must not be shown.
    pub got: String,
}

impl Violation {
    /// The violation in a language.
    pub fn describe(&self, lang: Lang) -> String {
        let place = |whole: &'static str| match self.path.as_str() {
            "" => whole.to_owned(),
            path => path.to_owned(),
        };
        match lang {
            Lang::En => self.to_string(),
            Lang::Zh => format!(
                "{}: 应为{}, 实为{}",
                place("参数"),
                phrase::chinese(&self.expected),
                phrase::chinese(&self.got)
            ),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() { "arguments" } else { &self.path };
        write!(f, "{place}: expected {}, got {}", self.expected, self.got)
    }
}
