//! API documents become tools, and tools become requests.

mod corpus;
mod documents;
mod generate;
mod judge;
mod support;
mod upstream;
mod wire;
