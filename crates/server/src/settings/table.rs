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
    row!("tools_directory", tools_directory, "Where tool definitions are; folders in it are read, too. If nobody says, `tools` beside windlass.yaml.")
        .flag("--tools")
        .variable_too("WINDLASS_TOOLS")
        .paths(),
    row!("database", database, "Where records and all else are kept. If nobody says, `.windlass/windlass.db` beside windlass.yaml, or in the user's data.").flag("--database"),
    row!("auto_reload", auto_reload, "While serving: load definitions again when they change."),
    row!("reload_interval", reload_interval, "How often to look whether they did."),
    row!("watch_for_changes", watch_for_changes, "Also be told by the operating system at once."),
    row!(
        "strict_validation",
        engine.strict_validation,
        "Refuse unknown arguments, and those that would have to be repaired."
    ),
    row!("max_output_bytes", engine.max_output_bytes, "How much of a result a caller gets; the rest is kept."),
    row!("cache_entries", engine.cache_entries, "How many results of tools with `cache` are kept to be given again.")
        .or_none(),
    row!("breaker", engine.breaker, "Leave an upstream alone for a while that keeps failing."),
    row!("lang", lang, "The language of tool descriptions and of errors for models.").flag("--lang"),
    row!("max_concurrent", engine.limits.max_concurrent, "Calls at once.").limit(),
    row!("queue_size", engine.limits.queue_size, "Calls that may wait for their turn.")
        .limit()
        .or_none(),
    row!("default_timeout", engine.default_timeout, "How long a call may take whose tool does not say.").limit(),
    row!(
        "strategy",
        engine.limits.strategy,
        "Who comes next: the first, the highest priority, or nobody waits."
    )
    .limit(),
    row!("bucket_limits", engine.limits.bucket_limits, "Calls of a category at once.").limit().map(),
    row!("per_tenant", engine.limits.per_tenant, "Calls of a tenant at once.").limit(),
    row!("per_agent", engine.limits.per_agent, "Calls of an agent at once.").limit(),
    row!(
        "reserved_slots",
        engine.limits.reserved_slots,
        "Slots for tenants with less than their share; one of ten if nobody says."
    )
    .limit()
    .or_none(),
    row!("calls_per_second", engine.limits.calls_per_second, "Calls that begin in a second.").limit(),
    row!("ageing", engine.limits.ageing, "With `priority`: a call that waits gains a step each time.").limit(),
    row!("max_parallel", engine.max_parallel, "Calls of one batch at once.").limit(),
    row!("max_batch", engine.max_batch, "Calls in a batch; each one more gets an error.").limit(),
    row!("max_depth", engine.max_depth, "How deep tools may call tools.").limit().or_none(),
    row!("retry.attempts", engine.retry.attempts, "How often a call is tried that may be tried again.")
        .stands_for_section(),
    row!("retry.backoff", engine.retry.backoff, "How long to wait before the second attempt."),
    row!("retry.multiplier", engine.retry.multiplier, "How much longer to wait each time."),
    row!("retry.max_backoff", engine.retry.max_backoff, "How long to wait at the most."),
    row!("server.listen", server.listen, "Where `windlass serve` listens.")
        .flag("--listen")
        .variable_too("WINDLASS_LISTEN"),
    row!("server.hosts", server.http.hosts, "Names that it answers for, besides addresses and localhost."),
    row!("server.origins", server.http.origins, "Web pages that may use it, besides its own."),
    row!("server.tls_certificate", server.tls_certificate, "The certificate chain, in PEM form; with its key, it speaks TLS.")
        .flag("--tls-certificate"),
    row!("server.tls_key", server.tls_key, "The key of the certificate, in PEM form.").flag("--tls-key"),
    row!("server.without_tls", server.http.without_tls, "Speak plain HTTP also beyond this machine, because something in front has TLS. Pages of `server.hosts` are then of https.")
        .flag("--without-tls"),
    row!("server.max_body_bytes", server.http.max_body_bytes, "The largest request."),
    row!("server.max_connections", server.http.max_connections, "Connections at once; one more takes the place of one that is idle, or waits until another closes."),
    row!("server.max_connections_per_address", server.http.max_connections_per_address, "Connections of one address at once on which no key has been shown; a site of IPv6 (/64) is one address."),
    row!("server.max_connections_per_key", server.http.max_connections_per_key, "Connections that one key uses at once."),
    row!("server.trusted_proxies", server.http.trusted_proxies, "Networks of reverse proxies. They have no limit by address, and clients have the address that they name in X-Forwarded-For."),
    row!("server.max_requests", server.http.max_requests, "Requests at once, without those that wait; shared fairly by tenants and keys, one more is refused."),
    row!("server.max_waiting", server.http.max_waiting, "Requests that wait at once: long polls and streams; shared fairly by tenants and keys, one more is refused."),
    row!("server.max_failed_keys", server.http.max_failed_keys, "Keys that do not work, per address and minute; more are refused with 429. A key that works is let in all the same."),
    row!("server.max_mcp_sessions", server.http.max_mcp_sessions, "MCP sessions at once: half of them for a tenant, a tenth for a key. One more ends the one that was idle longest."),
    row!("server.header_timeout", server.http.header_timeout, "How long a client may take to send its first request, or the rest of one that it has begun."),
    row!("server.idle_timeout", server.http.idle_timeout, "How long a connection may be open without a request; pings are none."),
    row!("server.connection_timeout", server.http.connection_timeout, "How long a connection may be open; then it is told to end, and cut off soon after."),
    row!("server.body_timeout", server.http.body_timeout, "How long a client may take to send the body of a request."),
    row!("server.reader_timeout", server.http.reader_timeout, "How long a client may take nothing of an answer before it is cut off (send timeout)."),
    row!("server.drain", server.http.drain, "How long calls may go on when the server is told to end."),
    row!("server.approvals_expire", server.http.approvals_expire, "How long a call waits for a person before it is refused."),
    row!("server.tenant_commands", server.http.tenant_commands, "Let operators of every tenant add servers of tools that are commands. They run as this server does, and may read what it may read."),
    row!("server.events_linger", server.http.event_listener_ttl, "How long events are kept for a tenant after its last reader was seen."),
    row!("server.oauth_issuer", server.http.oauth.issuer, "The authorization server whose tokens `/mcp` takes, besides keys."),
    row!("server.oauth_audience", server.http.oauth.audience, "What such a token must be for; the address of `/mcp` if nobody says."),
    row!("server.oauth_tenant_claim", server.http.oauth.tenant_claim, "The claim of such a token that names its bearer's tenant; without it, all are of the default one."),
    row!("quotas.tools", quotas.tools, "Tools that a tenant may have, whichever way they come.").or_none(),
    row!("quotas.providers", quotas.providers, "Providers that a tenant may have.").or_none(),
    row!("quotas.document_bytes", quotas.document_bytes, "The size of all definitions and API documents of a tenant.").or_none(),
    row!("quotas.files", quotas.files, "Files that a tenant may have uploaded.").or_none(),
    row!("quotas.file_bytes", quotas.file_bytes, "The size of all of them.").or_none(),
    row!("quotas.credentials", quotas.credentials, "Credentials that a tenant may have.").or_none(),
    row!("quotas.approvals", quotas.approvals, "Calls of a tenant that may wait for a person.").or_none(),
    row!("quotas.conversations", quotas.conversations, "Conversations with agents that are kept for a tenant.").or_none(),
    row!("quotas.conversation_bytes", quotas.conversation_bytes, "The size of all of them.").or_none(),
    row!("quotas.consents", quotas.consents, "OAuth consents of a tenant that people have not answered yet.").or_none(),
    row!("quotas.api_keys", quotas.api_keys, "API keys of a tenant that work. As many that do not work any more stay in the list.").or_none(),
    row!("quotas.subscribers", quotas.subscribers, "Readers of events of a tenant at once.").or_none(),
    row!("quotas.runs", quotas.runs, "Runs of agents of a tenant at once.").or_none(),
    row!("quotas.calls_per_minute", quotas.calls_per_minute, "Calls of a tenant that begin in a minute.").or_none(),
    row!("quotas.calls_per_day", quotas.calls_per_day, "Calls of a tenant that begin in a day (UTC), on all servers.").or_none(),
    row!("quotas.cost_per_day", quotas.cost_per_day, "What models may cost a tenant in a day, in US dollars.").or_none(),
    row!("quotas.per_key.tools", quotas.per_key.tools, "Tools that a key may have made, whichever way they come.").or_none(),
    row!("quotas.per_key.providers", quotas.per_key.providers, "Providers that a key may have made.").or_none(),
    row!("quotas.per_key.document_bytes", quotas.per_key.document_bytes, "The size of all definitions and API documents that a key has made.").or_none(),
    row!("quotas.per_key.files", quotas.per_key.files, "Files that a key may have uploaded.").or_none(),
    row!("quotas.per_key.file_bytes", quotas.per_key.file_bytes, "The size of all of them.").or_none(),
    row!("quotas.per_key.credentials", quotas.per_key.credentials, "Credentials that a key may have stored.").or_none(),
    row!("quotas.per_key.conversations", quotas.per_key.conversations, "Conversations with agents that are kept for a key.").or_none(),
    row!("quotas.per_key.conversation_bytes", quotas.per_key.conversation_bytes, "The size of all of them.").or_none(),
    row!("quotas.per_key.consents", quotas.per_key.consents, "OAuth consents that calls of a key asked for and people have not answered yet.").or_none(),
    row!("quotas.per_key.subscribers", quotas.per_key.subscribers, "Readers of events of a key at once.").or_none(),
    row!("quotas.per_key.runs", quotas.per_key.runs, "Runs of agents of a key at once.").or_none(),
    row!("quotas.per_key.calls_per_minute", quotas.per_key.calls_per_minute, "Calls of a key that begin in a minute.").or_none(),
    row!("quotas.per_key.calls_per_day", quotas.per_key.calls_per_day, "Calls of a key that begin in a day.").or_none(),
    row!("quotas.per_key.cost_per_day", quotas.per_key.cost_per_day, "What models may cost for a key in a day.").or_none(),
    row!("quotas.per_user.calls_per_minute", quotas.per_user.calls_per_minute, "Calls for one user of a tenant that begin in a minute.").or_none(),
    row!("quotas.per_user.calls_per_day", quotas.per_user.calls_per_day, "Calls for one user that begin in a day.").or_none(),
    row!("quotas.per_user.cost_per_day", quotas.per_user.cost_per_day, "What models may cost for one user in a day.").or_none(),
    row!("quotas.per_tool.calls_per_minute", quotas.per_tool.calls_per_minute, "Calls of one tool by a tenant that begin in a minute.").or_none(),
    row!("quotas.per_tool.calls_per_day", quotas.per_tool.calls_per_day, "Calls of one tool by a tenant that begin in a day.").or_none(),
    row!("quotas.per_tool.cost_per_day", quotas.per_tool.cost_per_day, "What models may cost for one tool in a day.").or_none(),
    row!("outbound.allow", outbound.policy.allow, "What tools may reach although it is not on the open internet."),
    row!("outbound.deny", outbound.policy.deny, "Networks that tools must not reach, whatever else is allowed."),
    row!("outbound.proxy", outbound.policy.proxy, "A proxy for all requests of tools; those of the environment are ignored. Its password is not shown."),
    row!("outbound.connect_timeout", outbound.policy.connect_timeout, "How long it may take to reach the other side."),
    row!("outbound.read_timeout", outbound.policy.read_timeout, "How long the other side may be silent."),
    row!("outbound.total_timeout", outbound.policy.total_timeout, "How long a request may take in all."),
    row!("outbound.idle_timeout", outbound.policy.idle_timeout, "How long connections are kept for later."),
    row!("outbound.max_redirects", outbound.policy.max_redirects, "How many redirects are followed.").or_none(),
    row!("outbound.idle_per_host", outbound.policy.idle_per_host, "How many connections to one host are kept for later.").or_none(),
    row!("outbound.max_connections", outbound.policy.max_connections, "How many connections are open at once. A tenant alone has four of five; an idle one makes room."),
    row!("outbound.max_response_bytes", outbound.policy.max_response_bytes, "The largest body of an answer, decoded."),
    row!("outbound.max_header_bytes", outbound.policy.max_header_bytes, "The largest headers of an answer."),
    row!("outbound.ca_files", outbound.policy.ca_files, "Certificates that are trusted besides the system's, in PEM form.").paths(),
    row!("outbound.user_agent", outbound.policy.user_agent, "What requests call themselves."),
    row!("outbound.databases", outbound.databases, "Databases that definitions of `sql_query` may name. Not shown.").map(),
    row!("outbound.files.folder", outbound.files.folder, "The folder that the file tools work in; they are refused if nobody says."),
    row!("outbound.files.max_bytes", outbound.files.max_bytes, "The largest file that they read or write."),
    row!("models.providers", models.providers, "Providers of models besides anthropic, openai and gemini, or in their place; agents name their models provider/model. They may be reached wherever they are.").map(),
    row!("models.prices", models.prices, "What 1,000 tokens cost, by model; `default` is for all others, 0.003/0.015 if nobody says.").map(),
    row!("models.fallbacks", models.fallbacks, "Who is asked in place of a model that is overloaded; `default` is for all others. Claude falls back on claude-haiku-4-20250514 if nobody says.").map(),
    row!("models.retries", models.retries, "How often a model is asked again that was too busy.").or_none(),
    row!("models.share_keys", models.share_keys, "Let tenants besides `default` use the keys of models that are in the environment of the server. Otherwise each stores its own."),
    row!("models.read_timeout", models.read_timeout, "How long a model may be silent."),
    row!("search.embedding_model", search.embedding_model, "A model that tools are searched with besides words, written provider/model, such as openai/text-embedding-3-small. What tools say about themselves and what is searched for are sent to it. Off if nobody says."),
    row!("approvals.rules", approvals.rules, "Which calls are allowed, denied or asked about, by tool, provider, behaviour and arguments; the first rule that fits decides. They count for every tenant, before its own.").list(),
    row!("approvals.default", approvals.default, "What becomes of calls that no rule fits and whose tool says nothing, where a tenant has no rules of its own."),
    row!("approvals.four_eyes", server.http.four_eyes, "Nobody approves a call that they asked for themselves, by key or by the person that a key is bound to."),
    row!("records.keep", records.keep, "How many records are kept; beyond it the tenant with the most gives up its oldest. Those of calls with a key stay as long as the key."),
    row!("records.keep_keys", records.keep_keys, "How long an idempotency key keeps calls one; those of agents' runs a week longer."),
    row!("records.keep_outputs_bytes", records.keep_outputs_bytes, "The size of all results that are kept whole; the oldest go first, of the tenant that has the most."),
    row!("records.keep_events", records.keep_events, "How many events are kept for readers that come back."),
    row!("vault.key_file", key_file, "The file of the master key; `windlass.key` beside the database if nobody says. WINDLASS_MASTER_KEY wins over it."),
    row!("log.level", log.level, "How much a server logs: error, warn, info, debug, trace, or windlass=debug,warn. Where nobody says, -v is debug and -q is error.")
        .variable_too("WINDLASS_LOG"),
    row!("log.format", log.format, "How it logs; auto is for people on a terminal and JSON otherwise."),
    row!("telemetry.endpoint", telemetry.endpoint, "Where traces go, over OTLP/HTTP; none are made if nobody says."),
    row!("telemetry.service_name", telemetry.service_name, "What the server is called in traces."),
    row!("telemetry.sample_ratio", telemetry.sample_ratio, "Which part of the traces that begin here is sent. Those that begin elsewhere are sent if they are sampled there."),
    row!("telemetry.content", telemetry.content, "Put the arguments and results of calls into spans, as records have them. They may hold what people wrote."),
    row!("telemetry.headers", telemetry.headers, "Headers for the receiver of traces, such as its key. Not shown."),
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
