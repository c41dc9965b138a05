//! The restrictions of a login, as its key specifies.

use std::path::PathBuf;

/// The restrictions of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRestrictions {
    /// The directory that it may use, with everything beneath.
    pub path: PathBuf,
    /// True if nothing may be written.
    pub read_only: bool,
    /// True if the agent may connect to other hosts.
    pub may_connect: bool,
}
