//! Shared parts of endpoints: lanes that complete at once, their buffers, byte ranges of drafts, and the use of a
//! grant.

pub(crate) mod allowance;
pub mod at_once;
pub(crate) mod buffers;
pub(crate) mod cover;
pub mod granted;
pub(crate) mod time_steps;
