//! Compiles and runs the Rust of the README, the concepts and the guides that
//! need this crate alone. The other guides are tested by the `windlass-examples` package.

#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../../README.zh-CN.md")]
struct ReadmeInChinese;

#[doc = include_str!("../../../docs/guides/embed-in-rust.md")]
struct EmbedInRust;

#[doc = include_str!("../../../docs/guides/hooks-and-injection.md")]
struct HooksAndInjection;

#[doc = include_str!("../../../docs/concepts/groups.md")]
struct Groups;

#[doc = include_str!("../../../docs/concepts/errors.md")]
struct Errors;
