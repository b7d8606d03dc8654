//! Servers that share a database: membership, recovery after a crash, and the state
//! that they keep in step.

pub(crate) mod background;
pub(crate) mod membership;
pub(crate) mod recovery;
pub(crate) mod registrations;
