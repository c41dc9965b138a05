//! Shared parts of endpoints: lanes that complete at once, lanes of futures, their buffers, byte ranges of drafts, and the use of a
//! grant.

pub(crate) mod allowance;
pub(crate) mod buffers;
pub(crate) mod flag_waker;
pub(crate) mod future_lane;
pub mod granted;
pub mod immediate;
pub(crate) mod range_set;
pub(crate) mod time_steps;
