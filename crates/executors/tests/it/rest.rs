//! REST: API documents become tools, and tools send requests.

mod choices;
mod corpus;
mod documents;
mod exact;
mod generate;
mod headers;
mod hostile;
mod judge;
mod keys;
mod prism;
mod quirks;
mod support;
mod upstream;
mod wire;
