//! One module a command: what it takes, and what it does.

pub(crate) mod agent;
pub(crate) mod audit;
pub(crate) mod batch;
pub(crate) mod call;
pub(crate) mod calls;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod credentials;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod login;
pub(crate) mod mcp;
pub(crate) mod providers;
pub(crate) mod serve;
pub(crate) mod stats;
pub(crate) mod tools;
mod when;
