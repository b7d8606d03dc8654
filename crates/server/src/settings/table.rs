//! The one table of settings. What the file may say, which variables of the
//! environment and which flags are heard, what `windlass config` prints and
//! what the reference page explains: all of it follows from these rows.

use serde_json::Value as Json;

use super::raw::Raw;
use super::value::{Given, Value, form_of};

/// One setting.
pub(super) struct Row {
    /// Its name, with its section before a dot.
    pub(super) name: &'static str,
    /// What it is for.
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
    pub(super) set: fn(&mut Raw, &Given<'_>) -> Result<(), String>,
    pub(super) show: fn(&Raw) -> Json,
}

impl Row {
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
        Row {
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
                raw.$($field).+ = Value::read(given)?;
                Ok(())
            },
            show: |raw| raw.$($field).+.show(),
        }
    };
}

/// All settings, in the order in which they are explained.
pub(super) static ROWS: &[Row] = &[
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
    row!("server.max_body_bytes", server.http.max_body_bytes, "The largest request."),
    row!("server.max_connections", server.http.max_connections, "Connections at once; one more waits until another closes."),
    row!("server.max_requests", server.http.max_requests, "Requests at once; one more is refused."),
    row!("server.header_timeout", server.http.header_timeout, "How long a client may take to say what it wants."),
    row!("server.body_timeout", server.http.body_timeout, "How long a client may take to send the body of a request."),
    row!("server.reader_timeout", server.http.reader_timeout, "How long a reader of events may take nothing before it is cut off."),
    row!("server.drain", server.http.drain, "How long calls may go on when the server is told to end."),
    row!("server.approvals_expire", server.http.approvals_expire, "How long a call waits for a person before it is refused."),
    row!("server.tenant_commands", server.http.tenant_commands, "Let operators of every tenant add servers of tools that are commands. They run as this server does, and may read what it may read."),
    row!("server.events_linger", server.http.events_linger, "How long events are kept for a tenant after its last reader was seen."),
    row!("server.oauth_issuer", server.http.oauth.issuer, "The authorization server whose tokens `/mcp` takes, besides keys."),
    row!("server.oauth_audience", server.http.oauth.audience, "What such a token must be for; the address of `/mcp` if nobody says."),
    row!("server.oauth_tenant_claim", server.http.oauth.tenant_claim, "The claim of such a token that names its bearer's tenant; without it, all are of the default one."),
    row!("outbound.allow", outbound.policy.allow, "What tools may reach although it is not on the open internet."),
    row!("outbound.deny", outbound.policy.deny, "Networks that tools must not reach, whatever else is allowed."),
    row!("outbound.proxy", outbound.policy.proxy, "A proxy for all requests of tools; those of the environment are ignored. Its password is not shown."),
    row!("outbound.connect_timeout", outbound.policy.connect_timeout, "How long it may take to reach the other side."),
    row!("outbound.read_timeout", outbound.policy.read_timeout, "How long the other side may be silent."),
    row!("outbound.total_timeout", outbound.policy.total_timeout, "How long a request may take in all."),
    row!("outbound.idle_timeout", outbound.policy.idle_timeout, "How long connections are kept for later."),
    row!("outbound.max_redirects", outbound.policy.max_redirects, "How many redirects are followed.").or_none(),
    row!("outbound.idle_per_host", outbound.policy.idle_per_host, "How many connections to one host are kept for later.").or_none(),
    row!("outbound.max_connections", outbound.policy.max_connections, "How many connections are open at once."),
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
    row!("models.read_timeout", models.read_timeout, "How long a model may be silent."),
    row!("approvals.rules", approvals.rules, "Which calls are allowed, denied or asked about, by tool, provider, behaviour and arguments; the first rule that fits decides. They count for every tenant, before its own.").list(),
    row!("approvals.default", approvals.default, "What becomes of calls that no rule fits and whose tool says nothing, where a tenant has no rules of its own."),
    row!("records.keep", records.keep, "How many records are kept; beyond it the oldest go."),
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
    row!("telemetry.headers", telemetry.headers, "Headers for the receiver of traces, such as its key. Not shown."),
];

/// The setting of this name.
pub(super) fn find(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// The sections that have settings, in order.
pub(super) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&'static str> = ROWS.iter().filter_map(Row::section).collect();
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
