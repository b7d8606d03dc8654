//! Nothing to call: the examples are the programs in `src/bin`.
//!
//! This library exists so that the Rust code in the READMEs, the guides and the
//! concepts is compiled and run as documentation tests: as code of a user of the
//! crates, with the dependencies that the guides name and no others.

#[cfg(doctest)]
mod doctests {
    #[doc = include_str!("../../README.md")]
    struct Readme;

    #[doc = include_str!("../../README.zh-CN.md")]
    struct ReadmeInChinese;

    #[doc = include_str!("../../docs/guides/embed-in-rust.md")]
    struct EmbedInRust;

    #[doc = include_str!("../../docs/guides/hooks-and-injection.md")]
    struct HooksAndInjection;

    #[doc = include_str!("../../docs/guides/define-tools-in-yaml.md")]
    struct DefineToolsInYaml;

    #[doc = include_str!("../../docs/guides/network-tools.md")]
    struct NetworkTools;

    #[doc = include_str!("../../docs/guides/records-and-events.md")]
    struct RecordsAndEvents;

    #[doc = include_str!("../../docs/guides/sub-agents.md")]
    struct SubAgents;

    #[doc = include_str!("../../docs/guides/turns.md")]
    struct Turns;

    #[doc = include_str!("../../docs/guides/agents.md")]
    struct Agents;

    #[doc = include_str!("../../docs/concepts/approvals.md")]
    struct Approvals;

    #[doc = include_str!("../../docs/concepts/tenants.md")]
    struct Tenants;

    #[doc = include_str!("../../docs/concepts/batches-and-limits.md")]
    struct BatchesAndLimits;

    #[doc = include_str!("../../docs/concepts/failures-and-retries.md")]
    struct FailuresAndRetries;

    #[doc = include_str!("../../docs/concepts/groups.md")]
    struct Groups;

    #[doc = include_str!("../../docs/concepts/errors.md")]
    struct Errors;
}
