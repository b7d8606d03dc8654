//! API documents become tools, and tools become requests.

mod corpus;
mod documents;
mod generate;
mod hostile;
mod judge;
mod prism;
mod support;
mod upstream;
mod wire;
