//! The Model Context Protocol, from both sides: the servers whose tools this
//! engine runs, and this engine as a server.

mod notebook;
mod upstream;

pub(crate) use notebook::KeptNotebook;
pub(crate) use upstream::Upstream;
