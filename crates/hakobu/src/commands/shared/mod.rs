//! Options that several commands have, and their meaning.

pub mod files_from;
pub mod filter;
pub(crate) mod findings;
pub(crate) mod headings;
pub(crate) mod lanes;
pub mod limits;
pub mod login;
pub(crate) mod looking;
pub mod nats;
pub(crate) mod process_log;
pub mod rules;
pub mod store;
