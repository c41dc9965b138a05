//! What endpoints share: lanes that complete at once, their buffers, what a draft has of its bytes, what is taken of a grant.

pub(crate) mod allowance;
pub mod at_once;
pub(crate) mod buffers;
pub(crate) mod cover;
pub mod granted;
pub(crate) mod time_steps;
