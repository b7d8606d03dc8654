//! Nothing to call: the examples are the programs in `src/bin`.
//!
//! This library exists so that the Rust in the guides which need more than the
//! engine (a store, executors) is compiled and run as documentation tests.

#[cfg(doctest)]
mod doctests {
    #[doc = include_str!("../../docs/guides/define-tools-in-yaml.md")]
    struct DefineToolsInYaml;

    #[doc = include_str!("../../docs/guides/records-and-events.md")]
    struct RecordsAndEvents;
}
