//! The HTTP API, over real connections to the real program.
//!
//! Every response is validated against `/openapi.json`: a status, media type or property
//! that the document does not describe fails the test.

mod approvals;
mod audit;
mod audit_flood;
mod batches;
mod calls;
mod canary;
mod connections;
mod consent;
mod credentials;
mod described;
mod events;
mod files;
mod hostile;
mod imports;
mod matrix;
mod operating;
mod outgoing;
mod owners;
mod persons;
mod quotas;
mod retention;
mod secrets;
mod secrets_oauth;
mod server;
mod several;
mod slots;
mod tools;
mod transport;
mod turns;
mod wire;
mod workflows;

pub(crate) use server::{Server, WRITE, until};
pub(crate) use wire::{Answer, Client};
