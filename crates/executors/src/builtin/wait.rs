//! `wait`: sleeps. Useful to try out timeouts, cancellation and full queues.

use std::time::{Duration, Instant};

use serde_json::json;
use windlass::{BoxFuture, Call, Error, ErrorKind, Output};

const STEP: Duration = Duration::from_secs(1);

/// Sleeps for `seconds`, and reports progress every second.
pub(super) fn run(call: &Call) -> BoxFuture<'_, Result<Output, Error>> {
    Box::pin(async move {
        let seconds = call.argument("seconds").and_then(serde_json::Value::as_f64);
        let wanted = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let Some(wanted) = wanted else {
            let why = "`seconds` must be a number that is not negative";
            return Err(Error::new(ErrorKind::InvalidArguments, why));
        };
        let emitter = call.emitter();
        let start = Instant::now();
        let mut left = wanted;
        while !left.is_zero() {
            let step = left.min(STEP);
            tokio::time::sleep(step).await;
            left -= step;
            emitter.emit(format!(
                "{:.0} of {} s",
                (wanted - left).as_secs_f64(),
                wanted.as_secs_f64()
            ));
        }
        let waited = start.elapsed().as_secs_f64();
        let text = match wanted.as_secs_f64() {
            1.0 => "Waited 1 second.".to_owned(),
            seconds => format!("Waited {seconds} seconds."),
        };
        Ok(Output::text(text).with_structured(json!({"waited_seconds": waited})))
    })
}
