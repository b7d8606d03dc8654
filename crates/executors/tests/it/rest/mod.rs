//! API documents become tools, and tools become requests.

mod choices;
mod corpus;
mod documents;
mod generate;
mod hostile;
mod judge;
mod keys;
mod prism;
mod support;
mod upstream;
mod wire;
