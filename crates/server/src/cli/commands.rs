//! The commands: a module for each, with its arguments and its implementation.

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
mod time_argument;
pub(crate) mod tools;
pub(crate) mod workflow;
