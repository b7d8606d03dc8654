//! Describes the engine's settings for `-v`.

use windlass::{EngineSettings, LimitSettings, duration};

/// How many calls run at once, and what happens to one that fails.
pub(super) fn describe(engine: &EngineSettings) -> String {
    let retry = &engine.retry;
    let breaker = if engine.breaker.is_some() { "on" } else { "off" };
    format!(
        "limits: {}\nbatches: at most {} calls, {} at once; nested calls: {} deep\n\
         timeout: {}; attempts: {}, {} apart, times {}, at most {}\n\
         breaker: {breaker}; cached results: {}",
        limits(&engine.limits),
        engine.max_batch,
        engine.max_parallel,
        engine.max_depth,
        duration::format(engine.default_timeout),
        retry.attempts,
        duration::format(retry.backoff),
        retry.multiplier,
        duration::format(retry.max_backoff),
        engine.cache_entries,
    )
}

fn limits(limits: &LimitSettings) -> String {
    let mut words = vec![
        format!("{} calls at once", limits.max_concurrent),
        format!("{} may wait", limits.queue_size),
        super::value::strategy_name(limits.strategy).to_owned(),
    ];
    words.extend(limits.bucket_limits.iter().map(|(name, most)| format!("{name}: {most}")));
    words.extend(limits.per_tenant.map(|most| format!("{most} for each tenant")));
    words.extend(limits.per_agent.map(|most| format!("{most} for each agent")));
    words.extend(limits.reserved_slots.map(|kept| format!("{kept} kept for others")));
    words.extend(limits.calls_per_second.map(|most| format!("{most} a second")));
    words.join(", ")
}
