//! API documents become tools, and tools become requests.

mod choices;
mod corpus;
mod documents;
mod exact;
mod generate;
mod hostile;
mod judge;
mod keys;
mod prism;
mod quirks;
mod support;
mod upstream;
mod wire;
