//! Servers that share a database: which there are, what they take over from one
//! that crashed, and what they tell each other.

pub(crate) mod background;
pub(crate) mod kept;
pub(crate) mod members;
pub(crate) mod recovery;
