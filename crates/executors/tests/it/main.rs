//! Kinds of tools that need something outside of this process.

#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers are part of the tests")]

mod mcp;
