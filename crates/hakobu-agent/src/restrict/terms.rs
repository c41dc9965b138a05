//! What a login is held to, as its key says.

use std::path::PathBuf;

/// What a login is held to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The directory that it may use, with all that is beneath.
    pub path: PathBuf,
    /// Whether nothing may be written.
    pub read_only: bool,
    /// Whether the agent may connect to other machines.
    pub may_connect: bool,
}
