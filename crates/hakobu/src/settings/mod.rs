//! The requests that arguments stand for. Every value is checked, every option that this version lacks is refused, and all
//! that is wrong is said at once.

mod attributes;
mod copy;
mod digest;
mod disks;
mod doctor;
mod filter;
mod findings;
mod lanes;
mod login;
mod ls;
mod probe;

pub use self::copy::request;
pub use self::digest::digest_request;
pub use self::disks::disks_request;
pub use self::doctor::doctor_request;
pub use self::filter::filter;
pub(crate) use self::login::{agent, host, ssh};
pub use self::ls::ls_request;
pub use self::probe::probe_request;

#[cfg(test)]
mod tests;
