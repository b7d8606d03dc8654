//! Small checked types that the rest of the crate is written in: names, texts,
//! durations, secrets, ids of traces. Each can be read without knowing what a
//! call is.

pub(crate) mod clock;
pub mod duration;
pub(crate) mod fingerprint;
pub(crate) mod name;
pub(crate) mod pointer;
pub(crate) mod secret;
pub(crate) mod text;
pub(crate) mod trace;
pub(crate) mod usage;
