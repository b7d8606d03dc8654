//! API documents become tools, and tools become requests.

mod corpus;
