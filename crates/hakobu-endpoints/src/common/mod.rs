//! Shared parts of endpoints: lanes that complete at once, their buffers, byte ranges of drafts, and the use of a
//! grant.

pub(crate) mod allowance;
pub(crate) mod buffers;
pub mod granted;
pub mod immediate;
pub(crate) mod range_set;
pub(crate) mod time_steps;
