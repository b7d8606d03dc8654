//! Errors of calls, definitions and the engine.
//!
//! An [`Error`] has two separate texts: the *message* is for operators and may
//! name hosts, files and causes; the *feedback* is for the model and says what
//! to do next. [`ErrorKind`] is the one table that maps a failure to the names
//! of all surfaces.

mod kind;
pub(crate) mod phrase;

use std::borrow::Cow;
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

/// Maximum number of violations reported by an error.
pub(crate) const MAX_VIOLATIONS: usize = 32;
const MAX_VIOLATION_TEXT: usize = 500;
/// Maximum length of the message and feedback of a call.
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
    flaws: Vec<SettingFlaw>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// A mistake in a setting of a definition's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingFlaw {
    /// The setting; values within it by their keys and indices: `steps/a/with`.
    pub key: Cow<'static, str>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

/// What is known about the effect of a failed call.
#[derive(Clone, Copy, PartialEq)]
enum Effect {
    Unsaid,
    /// It failed before it could have an effect.
    Nothing,
    /// It may have taken effect.
    Possible,
}

impl Error {
    /// Creates an error. The message is lowercase, without a full stop, and
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
            flaws: Vec::new(),
            source: None,
        }))
    }

    /// A failure reported by the tool itself: what an `Err` of a Rust function
    /// becomes. The model may read the message.
    pub fn tool(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::ToolError, message)
    }

    /// Invalid arguments, with all violations (of a very long list, the first
    /// ones).
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

    /// A definition with these mistakes; loading reports each at its line.
    pub fn invalid_definition(flaws: Vec<SettingFlaw>) -> Self {
        let texts: Vec<String> =
            flaws.iter().map(|flaw| format!("{}: {}", flaw.key, flaw.message)).collect();
        let mut error = Self::new(ErrorKind::InvalidDefinition, texts.join("; "));
        error.inner().flaws = flaws;
        error
    }

    /// The mistakes in the settings of a definition, where they are known one
    /// by one.
    pub fn flaws(&self) -> &[SettingFlaw] {
        &self.0.flaws
    }

    /// Sets the feedback for the model, replacing the kind's default: one text
    /// for all languages, or one for each.
    #[must_use]
    pub fn with_feedback(mut self, feedback: impl Into<Text>) -> Self {
        self.inner().feedback = Some(feedback.into());
        self
    }

    /// Sets the source of the error.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.inner().source = Some(Arc::new(source));
        self
    }

    /// Sets the time after which a retry makes sense.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.inner().retry_after = Some(after);
        self
    }

    /// Adds metadata about the run, for people and programs, not for the model.
    #[must_use]
    pub fn with_metadata(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.inner().metadata.insert(key, value);
        self
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message for operators.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The feedback for models, in a language.
    pub fn feedback(&self, lang: Lang) -> String {
        match &self.0.feedback {
            Some(text) => text.get(lang).to_owned(),
            None if lang == Lang::Zh && !self.0.violations.is_empty() => {
                self.0.kind.feedback(lang, &self.explain(lang))
            }
            None => self.0.kind.feedback(lang, &self.0.message),
        }
    }

    /// Explanation for people, in a language as far as it is Windlass's own
    /// text. Unlike the message, it can stand alone.
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

    /// The feedback that was set explicitly, if any.
    pub(crate) fn own_feedback(&self) -> Option<&Text> {
        self.0.feedback.as_ref()
    }

    /// Marks the error as free of side effects: the upstream was never asked.
    /// Otherwise the model is told that a call which is not safe to repeat may
    /// have taken effect.
    #[must_use]
    pub fn nothing_done(mut self) -> Self {
        self.inner().effect = Effect::Nothing;
        self
    }

    /// Whether the call may have taken effect although it failed. Then it must
    /// not be repeated without checking first.
    pub fn may_have_acted(&self) -> bool {
        self.0.effect == Effect::Possible
    }

    /// Marks the error of a call that had begun and is not safe to repeat: the
    /// feedback then says that it may have taken effect, and what to do.
    pub(crate) fn after_begin(mut self) -> Self {
        let ErrorInner { kind, message, feedback, effect, .. } = &*self.0;
        let kind = *kind;
        if *effect == Effect::Nothing {
            return self;
        }
        // An upstream's own text about an unreachable server would be
        // misleading for a connection that broke off later.
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

    /// The violations, for [`ErrorKind::InvalidArguments`].
    pub fn violations(&self) -> &[Violation] {
        &self.0.violations
    }

    /// When a retry makes sense, if the upstream said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Metadata about the run.
    pub fn metadata(&self) -> &Facts {
        &self.0.metadata
    }

    pub(crate) fn metadata_mut(&mut self) -> Option<&mut Map<String, Value>> {
        if self.0.metadata.is_empty() { None } else { self.inner().metadata.as_map_mut() }
    }

    /// Whether the same call may succeed later. Whether it is *safe* to repeat
    /// depends on the tool; a call that may have taken effect is not.
    pub fn is_retryable(&self) -> bool {
        self.0.kind.info().retryable && !self.may_have_acted()
    }

    /// Truncates the texts: a tool may have put its whole input into them.
    pub(crate) fn bounded(mut self) -> Self {
        if self.0.message.len() > MAX_TEXT || self.0.feedback.is_some() {
            let inner = self.inner();
            let feedback = inner.feedback.iter_mut().flat_map(Text::texts_mut);
            feedback.chain([&mut inner.message]).for_each(|text| cut(text, MAX_TEXT));
        }
        self
    }

    /// Rewrites all texts; stops if that fails. The text of a source cannot be
    /// changed: if `change` would change it, the source is dropped.
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

/// Truncates a text at a character boundary.
fn cut(text: &mut String, max_bytes: usize) {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes));
        text.push('…');
    }
}

/// A violation of a tool's schema by its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// Location, as a JSON pointer: `/filters/0/name`; empty for the root.
    pub path: String,
    /// What the schema expects there.
    pub expected: String,
    /// The actual value, truncated; `hidden` if it must not be shown.
    pub got: String,
}

impl Violation {
    /// Describes the violation in a language.
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
