//! The torture harness: a hostile world played against the real program.

pub mod ground;
