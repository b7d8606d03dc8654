//! The table of settings. The keys of the file, the environment variables, the
//! flags, `windlass config` and the reference page are all generated from its rows.

use serde_json::Value as Json;

use super::raw::Raw;
use super::value::{SettingInput, SettingValue, form_of};

/// One setting.
pub(super) struct SettingRow {
    /// Its name, with its section before a dot.
    pub(super) name: &'static str,
    /// A description of the field.
    pub(super) about: &'static str,
    /// A flag that sets it.
    pub(super) flag: Option<&'static str>,
    /// A variable that sets it, besides the one of its own name.
    pub(super) short_variable: Option<&'static str>,
    /// Whether it may also stand under `concurrency` or `limits`.
    pub(super) is_limit: bool,
    /// Whether its section may be written as this one value.
    pub(super) stands_for_section: bool,
    /// Whether it takes names of the user's as keys.
    pub(super) is_map: bool,
    /// Whether what these keys take may have keys of its own again.
    pub(super) is_deep: bool,
    /// Whether it takes a list of things with keys of their own.
    pub(super) is_list: bool,
    /// Whether it takes several paths.
    pub(super) is_paths: bool,
    /// The least number that makes sense.
    pub(super) least: u64,
    /// What may be written.
    pub(super) form: fn(&Raw) -> &'static str,
    pub(super) set: fn(&mut Raw, &SettingInput<'_>) -> Result<(), String>,
    pub(super) show: fn(&Raw) -> Json,
}

impl SettingRow {
    /// Its key inside of its section.
    pub(super) fn key(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, key)| key)
    }

    /// Its section; none where it stands alone.
    pub(super) fn section(&self) -> Option<&'static str> {
        self.name.rsplit_once('.').map(|(section, _)| section)
    }

    /// The variable of its own name.
    pub(super) fn variable(&self) -> String {
        format!("WINDLASS_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    const fn variable_too(mut self, name: &'static str) -> Self {
        self.short_variable = Some(name);
        self
    }

    const fn limit(mut self) -> Self {
        self.is_limit = true;
        self
    }

    const fn stands_for_section(mut self) -> Self {
        self.stands_for_section = true;
        self
    }

    const fn map(mut self) -> Self {
        self.is_map = true;
        self
    }

    const fn deep_map(mut self) -> Self {
        self.is_map = true;
        self.is_deep = true;
        self
    }

    const fn list(mut self) -> Self {
        self.is_list = true;
        self
    }

    const fn paths(mut self) -> Self {
        self.is_paths = true;
        self
    }

    const fn or_none(mut self) -> Self {
        self.least = 0;
        self
    }
}

macro_rules! row {
    ($name:literal, $($field:ident).+, $about:literal) => {
        SettingRow {
            name: $name,
            about: $about,
            flag: None,
            short_variable: None,
            is_limit: false,
            stands_for_section: false,
            is_map: false,
            is_deep: false,
            is_list: false,
            is_paths: false,
            least: 1,
            form: |raw| form_of(&raw.$($field).+),
            set: |raw, given| {
                raw.$($field).+ = SettingValue::read(given)?;
                Ok(())
            },
            show: |raw| raw.$($field).+.show(),
        }
    };
}

/// All settings, in the order in which they are explained.
pub(super) static ROWS: &[SettingRow] = &[
    row!("tools_directory", tools_directory, "The folder of tool definitions; subfolders are read, too. By default `tools` beside windlass.yaml.")
        .flag("--tools")
        .variable_too("WINDLASS_TOOLS")
        .paths(),
    row!("database", database, "The database of records and everything else. By default `.windlass/windlass.db` beside windlass.yaml, or in the user's data folder.").flag("--database"),
    row!("auto_reload", auto_reload, "Hot reload: a server loads definitions again when they change."),
    row!("reload_interval", reload_interval, "The interval of polling for changes."),
    row!("watch_for_changes", watch_for_changes, "Use file notifications of the operating system besides polling."),
    row!(
        "strict_validation",
        engine.strict_validation,
        "Refuse unknown arguments, and those that would have to be repaired."
    ),
    row!("max_output_bytes", engine.max_output_bytes, "Results are truncated to this size for the caller; the full output is stored."),
    row!("cache_entries", engine.cache_entries, "Entries of the result cache, for tools with `cache`.")
        .or_none(),
    row!("breaker", engine.breaker, "Circuit breaker for failing upstreams."),
    row!("lang", lang, "The language of tool descriptions and of errors for models.").flag("--lang"),
    row!("max_concurrent", engine.limits.max_concurrent, "Concurrency limit of the server.").limit(),
    row!("queue_size", engine.limits.queue_size, "Maximum length of the queue of calls.")
        .limit()
        .or_none(),
    row!("default_timeout", engine.default_timeout, "Timeout of calls whose tool has none.").limit(),
    row!(
        "strategy",
        engine.limits.strategy,
        "Who comes next: the first, the highest priority, or nobody waits."
    )
    .limit(),
    row!("bucket_limits", engine.limits.bucket_limits, "Concurrency limits by category.").limit().map(),
    row!("per_tenant", engine.limits.per_tenant, "Concurrency limit of a tenant.").limit(),
    row!("per_agent", engine.limits.per_agent, "Concurrency limit of an agent.").limit(),
    row!(
        "reserved_slots",
        engine.limits.reserved_slots,
        "Slots for tenants with less than their share; one of ten if nobody says."
    )
    .limit()
    .or_none(),
    row!("calls_per_second", engine.limits.calls_per_second, "Rate limit: calls that may begin in a second.").limit(),
    row!("ageing", engine.limits.ageing, "With `priority`: a waiting call gains one step of priority in this time, against starvation.").limit(),
    row!("max_parallel", engine.max_parallel, "Concurrency limit of one batch.").limit(),
    row!("max_batch", engine.max_batch, "Maximum number of calls in a batch; each further one gets an error.").limit(),
    row!("max_depth", engine.max_depth, "Maximum depth of nested calls.").limit().or_none(),
    row!("retry.attempts", engine.retry.attempts, "Attempts of a call that may be retried.")
        .stands_for_section(),
    row!("retry.backoff", engine.retry.backoff, "The backoff before the second attempt."),
    row!("retry.multiplier", engine.retry.multiplier, "The factor by which the backoff grows."),
    row!("retry.max_backoff", engine.retry.max_backoff, "The longest backoff."),
    row!("server.listen", server.listen, "The address that `windlass serve` listens on.")
        .flag("--listen")
        .variable_too("WINDLASS_LISTEN"),
    row!("server.hosts", server.http.hosts, "Host names that it accepts besides IP addresses and localhost (protects against DNS rebinding)."),
    row!("server.origins", server.http.origins, "Origins of web pages that may use it, besides its own (CORS)."),
    row!("server.tls_certificate", server.tls_certificate, "The TLS certificate chain, in PEM form; needs its key.")
        .flag("--tls-certificate"),
    row!("server.tls_key", server.tls_key, "The key of the certificate, in PEM form.").flag("--tls-key"),
    row!("server.without_tls", server.http.without_tls, "Accept plain HTTP from other machines, because a reverse proxy terminates TLS. Pages of `server.hosts` are then https origins.")
        .flag("--without-tls"),
    row!("server.max_body_bytes", server.http.max_body_bytes, "The largest body of a request."),
    row!("server.max_connections", server.http.max_connections, "Maximum number of connections; one more replaces an idle one, or waits until another closes."),
    row!("server.max_connections_per_address", server.http.max_connections_per_address, "Maximum number of unauthenticated connections of one address; an IPv6 /64 network counts as one address."),
    row!("server.max_connections_per_key", server.http.max_connections_per_key, "Maximum number of connections of one key."),
    row!("server.trusted_proxies", server.http.trusted_proxies, "Networks of reverse proxies. They have no limit by address, and the client's address is taken from X-Forwarded-For."),
    row!("server.max_requests", server.http.max_requests, "Maximum number of concurrent requests, without waiting ones; shared fairly by tenants and keys, and rejected beyond (load shedding)."),
    row!("server.max_waiting", server.http.max_waiting, "Maximum number of waiting requests (long polls and streams); shared fairly by tenants and keys, and rejected beyond."),
    row!("server.max_failed_keys", server.http.max_failed_keys, "Rate limit of failed authentications per address and minute, answered with 429 beyond. Valid keys are always accepted."),
    row!("server.max_mcp_sessions", server.http.max_mcp_sessions, "Maximum number of MCP sessions: half of them for a tenant, a tenth for a key. One more ends the longest idle one."),
    row!("server.header_timeout", server.http.header_timeout, "Header timeout: time for a client to send its first request, or the rest of one that has begun (against slow-loris)."),
    row!("server.idle_timeout", server.http.idle_timeout, "Idle timeout of a connection without a request; pings do not count."),
    row!("server.connection_timeout", server.http.connection_timeout, "Maximum age of a connection; then it is asked to close, and closed soon after."),
    row!("server.body_timeout", server.http.body_timeout, "Body timeout: time for a client to send the body of a request."),
    row!("server.reader_timeout", server.http.reader_timeout, "Send timeout: a client that reads nothing of its answer for this long is disconnected."),
    row!("server.drain", server.http.drain, "Graceful shutdown: time for running calls to finish."),
    row!("server.approvals_expire", server.http.approvals_expire, "How long a call waits for an approval before it is denied."),
    row!("server.tenant_commands", server.http.tenant_commands, "Let operators of every tenant add MCP servers that are commands. They run with the privileges of this server, and can read whatever it can read."),
    row!("server.events_linger", server.http.event_listener_ttl, "TTL of a tenant's listener lease: events are stored for this long after its last subscriber."),
    row!("server.oauth_issuer", server.http.oauth.issuer, "The OAuth issuer whose access tokens `/mcp` accepts, besides keys."),
    row!("server.oauth_audience", server.http.oauth.audience, "The audience that such a token must have; the URL of `/mcp` by default."),
    row!("server.oauth_tenant_claim", server.http.oauth.tenant_claim, "The claim of such a token that names the tenant; without it, all belong to the default one."),
    row!("workflows.steps", workflows.steps, "Steps in the definition of a workflow."),
    row!("workflows.depth", workflows.depth, "Nesting of blocks in the definition of a workflow."),
    row!("workflows.steps_run", workflows.steps_run, "Steps that a run of a workflow executes."),
    row!("workflows.map_items", workflows.map_items, "Items of a `map`."),
    row!("workflows.map_at_once", workflows.map_at_once, "Items of a `map` that run at once, unless it says `at_once`."),
    row!("workflows.at_once", workflows.at_once, "Calls of a run at once."),
    row!("workflows.rounds", workflows.rounds, "Rounds of a `loop`."),
    row!("workflows.value_bytes", workflows.value_bytes, "The size of the value of a step."),
    row!("workflows.state_bytes", workflows.state_bytes, "The size of all values of a run."),
    row!("workflows.expression_steps", workflows.expression_steps, "Steps of evaluating the expressions of a step."),
    row!("workflows.expression_bytes", workflows.expression_bytes, "Bytes that the expressions of a step make."),
    row!("workflows.template_fuel", workflows.template_fuel, "Instructions of a template."),
    row!("workflows.template_bytes", workflows.template_bytes, "The size of what a template writes."),
    row!("workflows.waiting", workflows.waiting, "How long a run waits for a person or a signal, unless its step says so."),
    row!("workflows.open_runs", workflows.open_runs, "Runs of a tenant that have not ended."),
    row!("workflows.signals", workflows.signals, "Messages that a run may have."),
    row!("workflows.undo", workflows.undo, "`undo` steps that a failed run executes."),
    row!("quotas.tools", quotas.tools, "Tools of a tenant, however they were added.").or_none(),
    row!("quotas.providers", quotas.providers, "Providers that a tenant may have.").or_none(),
    row!("quotas.document_bytes", quotas.document_bytes, "The size of all definitions and API documents of a tenant.").or_none(),
    row!("quotas.files", quotas.files, "Files that a tenant may have uploaded.").or_none(),
    row!("quotas.file_bytes", quotas.file_bytes, "The size of all of them.").or_none(),
    row!("quotas.credentials", quotas.credentials, "Credentials that a tenant may have.").or_none(),
    row!("quotas.approvals", quotas.approvals, "Calls of a tenant that wait for an approval.").or_none(),
    row!("quotas.conversations", quotas.conversations, "Conversations with agents that are kept for a tenant.").or_none(),
    row!("quotas.conversation_bytes", quotas.conversation_bytes, "The size of all of them.").or_none(),
    row!("quotas.consents", quotas.consents, "Pending OAuth consents of a tenant.").or_none(),
    row!("quotas.api_keys", quotas.api_keys, "Valid API keys of a tenant. As many revoked or expired ones stay in the list.").or_none(),
    row!("quotas.subscribers", quotas.subscribers, "Concurrent event subscribers of a tenant.").or_none(),
    row!("quotas.runs", quotas.runs, "Concurrent agent runs of a tenant.").or_none(),
    row!("quotas.calls_per_minute", quotas.calls_per_minute, "Calls of a tenant that begin in a minute.").or_none(),
    row!("quotas.calls_per_day", quotas.calls_per_day, "Calls of a tenant that begin in a day (UTC), on all servers.").or_none(),
    row!("quotas.cost_per_day", quotas.cost_per_day, "What models may cost a tenant in a day, in US dollars.").or_none(),
    row!("quotas.tenants", tenant_quotas, "Quotas of single tenants, in place of those of all: each of this section, also those of their keys, users and tools.").deep_map(),
    row!("quotas.per_key.tools", quotas.per_key.tools, "Tools that a key may create, however they are added.").or_none(),
    row!("quotas.per_key.providers", quotas.per_key.providers, "Providers that a key may have made.").or_none(),
    row!("quotas.per_key.document_bytes", quotas.per_key.document_bytes, "The size of all definitions and API documents that a key has made.").or_none(),
    row!("quotas.per_key.files", quotas.per_key.files, "Files that a key may have uploaded.").or_none(),
    row!("quotas.per_key.file_bytes", quotas.per_key.file_bytes, "The size of all of them.").or_none(),
    row!("quotas.per_key.credentials", quotas.per_key.credentials, "Credentials that a key may have stored.").or_none(),
    row!("quotas.per_key.conversations", quotas.per_key.conversations, "Conversations with agents that are kept for a key.").or_none(),
    row!("quotas.per_key.conversation_bytes", quotas.per_key.conversation_bytes, "The size of all of them.").or_none(),
    row!("quotas.per_key.consents", quotas.per_key.consents, "Pending OAuth consents that calls of a key asked for.").or_none(),
    row!("quotas.per_key.subscribers", quotas.per_key.subscribers, "Concurrent event subscribers of a key.").or_none(),
    row!("quotas.per_key.runs", quotas.per_key.runs, "Concurrent agent runs of a key.").or_none(),
    row!("quotas.per_key.calls_per_minute", quotas.per_key.calls_per_minute, "Calls of a key that begin in a minute.").or_none(),
    row!("quotas.per_key.calls_per_day", quotas.per_key.calls_per_day, "Calls of a key that begin in a day.").or_none(),
    row!("quotas.per_key.cost_per_day", quotas.per_key.cost_per_day, "What models may cost for a key in a day.").or_none(),
    row!("quotas.per_user.calls_per_minute", quotas.per_user.calls_per_minute, "Calls for one user of a tenant that begin in a minute.").or_none(),
    row!("quotas.per_user.calls_per_day", quotas.per_user.calls_per_day, "Calls for one user that begin in a day.").or_none(),
    row!("quotas.per_user.cost_per_day", quotas.per_user.cost_per_day, "What models may cost for one user in a day.").or_none(),
    row!("quotas.per_tool.calls_per_minute", quotas.per_tool.calls_per_minute, "Calls of one tool by a tenant that begin in a minute.").or_none(),
    row!("quotas.per_tool.calls_per_day", quotas.per_tool.calls_per_day, "Calls of one tool by a tenant that begin in a day.").or_none(),
    row!("quotas.per_tool.cost_per_day", quotas.per_tool.cost_per_day, "What models may cost for one tool in a day.").or_none(),
    row!("outbound.allow", outbound.policy.allow, "Private networks and hosts that tools may reach (exceptions to the SSRF guard)."),
    row!("outbound.deny", outbound.policy.deny, "Networks that tools must not reach, whatever else is allowed."),
    row!("outbound.proxy", outbound.policy.proxy, "A proxy for all requests of tools; those of the environment are ignored. Its password is not shown."),
    row!("outbound.connect_timeout", outbound.policy.connect_timeout, "Connect timeout."),
    row!("outbound.read_timeout", outbound.policy.read_timeout, "Read timeout."),
    row!("outbound.total_timeout", outbound.policy.total_timeout, "Total timeout of a request."),
    row!("outbound.idle_timeout", outbound.policy.idle_timeout, "Idle timeout of pooled connections."),
    row!("outbound.max_redirects", outbound.policy.max_redirects, "Maximum number of redirects.").or_none(),
    row!("outbound.idle_per_host", outbound.policy.idle_per_host, "Pooled idle connections per host.").or_none(),
    row!("outbound.max_connections", outbound.policy.max_connections, "Maximum number of open connections. A single tenant may have four of five; idle ones are closed to make room."),
    row!("outbound.max_response_bytes", outbound.policy.max_response_bytes, "The largest body of a response, decoded."),
    row!("outbound.max_header_bytes", outbound.policy.max_header_bytes, "The largest headers of a response."),
    row!("outbound.ca_files", outbound.policy.ca_files, "Certificates that are trusted besides the system's, in PEM form.").paths(),
    row!("outbound.user_agent", outbound.policy.user_agent, "The User-Agent header."),
    row!("outbound.databases", outbound.databases, "Databases that definitions of `sql_query` may name. Not shown.").map(),
    row!("outbound.files.folder", outbound.files.folder, "The root folder of the file tools; without it they fail."),
    row!("outbound.files.max_bytes", outbound.files.max_bytes, "The largest file that they read or write."),
    row!("models.providers", models.providers, "Providers of models besides anthropic, openai and gemini, or in their place; agents name their models provider/model. They may be reached wherever they are.").map(),
    row!("models.prices", models.prices, "Prices of 1,000 tokens, by model; `default` is for all others, 0.003/0.015 unless set.").map(),
    row!("models.fallbacks", models.fallbacks, "Fallback models for overloaded ones; `default` is for all others. By default Claude falls back to claude-haiku-4-20250514.").map(),
    row!("models.retries", models.retries, "Retries of a request to an overloaded model.").or_none(),
    row!("models.share_keys", models.share_keys, "Let tenants besides `default` use the keys of models that are in the environment of the server. Otherwise each stores its own."),
    row!("models.read_timeout", models.read_timeout, "Read timeout of a model's response."),
    row!("search.embedding_model", search.embedding_model, "An embedding model for semantic tool search, written provider/model, such as openai/text-embedding-3-small. Descriptions of tools and search queries are sent to it. Off by default."),
    row!("approvals.rules", approvals.rules, "Approval rules: which calls are allowed, denied, or need a person, by tool, provider, behaviour and arguments; the first match decides. They apply to every tenant, before its own.").list(),
    row!("approvals.default", approvals.default, "The verdict on calls without a matching rule or a policy of their tool, for tenants without rules of their own."),
    row!("approvals.four_eyes", server.http.four_eyes, "Four-eyes principle: nobody may approve a call that they requested, by the same key or by a key of the same user."),
    row!("records.keep", records.keep, "Retention: how many records are kept; beyond it the oldest of the tenant with the most are deleted. Records with an idempotency key stay as long as the key."),
    row!("records.keep_keys", records.keep_keys, "TTL of idempotency keys; those of agents' runs stay a week longer."),
    row!("records.keep_outputs_bytes", records.keep_outputs_bytes, "Total size of stored full outputs; beyond it the oldest of the tenant with the most are deleted."),
    row!("records.keep_events", records.keep_events, "Retention: how many events are stored for subscribers that reconnect; beyond it the oldest of the tenant with the most are deleted."),
    row!("vault.key_file", key_file, "The master key file; by default `windlass.key` beside the database. WINDLASS_MASTER_KEY overrides it."),
    row!("log.level", log.level, "The log level of a server: error, warn, info, debug, trace, or by module such as windlass=debug,warn. Unless set, -v is debug and -q is error.")
        .variable_too("WINDLASS_LOG"),
    row!("log.format", log.format, "The log format; auto is text on a terminal and JSON otherwise."),
    row!("telemetry.endpoint", telemetry.endpoint, "The OTLP/HTTP endpoint of the trace collector; without it there are no traces."),
    row!("telemetry.service_name", telemetry.service_name, "The service name in traces."),
    row!("telemetry.sample_ratio", telemetry.sample_ratio, "The sampling ratio of traces that begin here. Others are sent if their parent is sampled."),
    row!("telemetry.content", telemetry.content, "Include arguments and results of calls in spans, redacted as in records. They may contain personal data."),
    row!("telemetry.headers", telemetry.headers, "Headers for the trace collector, such as its API key. Not shown."),
];

/// The setting of this name.
pub(super) fn find(name: &str) -> Option<&'static SettingRow> {
    ROWS.iter().find(|row| row.name == name)
}

/// The sections that have settings, in order.
pub(super) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&'static str> = ROWS.iter().filter_map(SettingRow::section).collect();
    sections.dedup();
    sections
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_variables_are_unique_and_every_row_is_explained() {
        let mut seen = HashSet::new();
        for row in ROWS {
            let short = row.short_variable.map(str::to_owned);
            for name in [row.name.to_owned(), row.variable()].into_iter().chain(short) {
                assert!(seen.insert(name.clone()), "{name} twice");
            }
            assert!(
                row.about.ends_with('.') && !(row.form)(&Raw::default()).is_empty(),
                "{}",
                row.name
            );
        }
        let sections = sections();
        assert_eq!(sections.iter().collect::<HashSet<_>>().len(), sections.len(), "in one piece");
    }
}
