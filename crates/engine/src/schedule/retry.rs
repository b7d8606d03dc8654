//! Retries with exponential backoff and jitter.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::tool::ToolSpec;

/// Retry policy of a call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// Maximum number of attempts; 1 means no retry.
    pub attempts: u32,
    /// Maximum backoff before the second attempt.
    #[serde(with = "crate::value::duration::required")]
    pub backoff: Duration,
    /// Growth factor of the maximum backoff per attempt.
    pub multiplier: f64,
    /// Upper bound of the backoff, except for what the upstream asks for.
    #[serde(with = "crate::value::duration::required")]
    pub max_backoff: Duration,
}

impl Default for RetryPolicy {
    /// Three attempts, one second, doubled each time.
    fn default() -> Self {
        Self {
            attempts: 3,
            backoff: Duration::from_secs(1),
            multiplier: 2.0,
            max_backoff: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// Maximum number of attempts that a definition or a caller may ask for.
    pub const MAX_ATTEMPTS: u32 = 100;

    /// A single attempt.
    pub const ONCE: Self =
        Self { attempts: 1, backoff: Duration::ZERO, multiplier: 1.0, max_backoff: Duration::ZERO };

    /// The policy of a call: its own, else its tool's, else the engine's, which
    /// only applies to tools that are safe to repeat. A caller that asks for
    /// `attempts` declares that the call may be repeated; the backoff stays
    /// that of the tool.
    pub(crate) fn of(
        call: Option<&Self>,
        attempts: Option<u32>,
        tool: &ToolSpec,
        engine: &Self,
    ) -> Self {
        let own = call.or(tool.retry.as_ref());
        match attempts {
            Some(attempts) => Self { attempts, ..*own.unwrap_or(engine) },
            None if tool.behaviour.may_be_repeated() => *own.unwrap_or(engine),
            None => *own.unwrap_or(&Self::ONCE),
        }
    }

    /// Backoff after the attempt with this number (from 1) failed with this
    /// error; `None` without a further attempt. `chance` is between 0 and 1:
    /// full jitter, so that calls that failed together do not retry together
    /// (thundering herd).
    pub(crate) fn wait(&self, attempt: u32, error: &Error, chance: f64) -> Option<Duration> {
        if attempt >= self.attempts || !error.is_retryable() {
            return None;
        }
        let grown = self.backoff.as_secs_f64() * self.multiplier.max(1.0).powi(attempt as i32 - 1);
        let longest = grown.min(self.max_backoff.as_secs_f64());
        let spread = Duration::from_secs_f64(longest * chance.clamp(0.0, 1.0));
        Some(spread.max(error.retry_after().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::value::name::ToolName;

    fn failure(kind: ErrorKind) -> Error {
        Error::new(kind, "x")
    }

    #[test]
    fn waits_double_and_are_spread() {
        let policy = RetryPolicy { attempts: 10, ..RetryPolicy::default() };
        let error = failure(ErrorKind::Network);
        let longest: Vec<f64> = (1..10)
            .filter_map(|attempt| policy.wait(attempt, &error, 1.0))
            .map(|wait| wait.as_secs_f64())
            .collect();
        assert_eq!(longest, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0]);
        assert_eq!(policy.wait(1, &error, 0.0), Some(Duration::ZERO));
        assert_eq!(policy.wait(2, &error, 0.25), Some(Duration::from_millis(500)));
        assert_eq!(policy.wait(10, &error, 1.0), None);
    }

    #[test]
    fn the_other_side_is_obeyed() {
        let busy = failure(ErrorKind::RateLimited).with_retry_after(Duration::from_secs(70));
        assert_eq!(RetryPolicy::default().wait(1, &busy, 0.5), Some(Duration::from_secs(70)));
    }

    /// Network errors, timeouts, 429 and 5xx are retried; 400, 401, 403 and 404
    /// never.
    #[test]
    fn only_what_may_pass_is_tried_again() {
        let policy = RetryPolicy::default();
        let tried = |kind| policy.wait(1, &failure(kind), 1.0).is_some();
        for kind in [
            ErrorKind::Network,
            ErrorKind::Timeout,
            ErrorKind::RateLimited,
            ErrorKind::UpstreamFailed,
        ] {
            assert!(tried(kind), "{kind}");
        }
        for kind in [
            ErrorKind::InvalidArguments,
            ErrorKind::UpstreamRejected,
            ErrorKind::CredentialInvalid,
            ErrorKind::Denied,
            ErrorKind::NotFound,
            ErrorKind::ToolError,
            ErrorKind::Panicked,
            ErrorKind::Cancelled,
        ] {
            assert!(!tried(kind), "{kind}");
        }
    }

    #[test]
    fn only_what_is_safe_to_repeat_is_tried_again_unasked() {
        let engine = RetryPolicy::default();
        let attempts = |change: &dyn Fn(&mut ToolSpec), call: Option<&RetryPolicy>| {
            let mut spec = ToolSpec::new(ToolName::new("t").unwrap());
            change(&mut spec);
            RetryPolicy::of(call, None, &spec, &engine).attempts
        };
        assert_eq!(attempts(&|_| {}, None), 1);
        assert_eq!(attempts(&|spec| spec.behaviour.read_only = true, None), 3);
        assert_eq!(attempts(&|spec| spec.behaviour.idempotent = true, None), 3);
        let five = RetryPolicy { attempts: 5, ..engine };
        assert_eq!(attempts(&|spec| spec.retry = Some(five), None), 5);
        let two = RetryPolicy { attempts: 2, ..engine };
        assert_eq!(attempts(&|spec| spec.retry = Some(five), Some(&two)), 2);
    }

    /// Asking for a number of attempts keeps the tool's own backoff.
    #[test]
    fn a_caller_who_asks_for_attempts_keeps_the_waits_of_the_tool() {
        let engine = RetryPolicy::default();
        let own = RetryPolicy { attempts: 2, backoff: Duration::from_millis(5), ..engine };
        let mut spec = ToolSpec::new(ToolName::new("t").unwrap());
        assert_eq!(RetryPolicy::of(None, Some(7), &spec, &engine).backoff, engine.backoff);
        spec.retry = Some(own);
        let policy = RetryPolicy::of(None, Some(7), &spec, &engine);
        assert_eq!((policy.attempts, policy.backoff), (7, own.backoff));
    }
}
