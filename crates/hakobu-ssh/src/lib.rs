//! An agent on a remote host, started by the user's own `ssh`.
//!
//! One connection does everything. It runs one command line ([`script`]) that becomes the agent if hakobu is installed
//! there, and otherwise asks for the program, checks it and runs it. The uploaded file has no name on the remote host
//! from before its first byte arrives: it is opened, removed, filled through the descriptor and run from it. So nothing
//! is left behind, however and whenever it ends.
//!
//! The agent begins with [`PREAMBLE`]; anything that a login shell prints before it is skipped. After it, standard
//! input and output belong to the agent.

mod answer;
mod asking;
mod child;
mod command;
pub mod control_channel;
mod error;
mod left;
pub mod login;
mod logins;
mod master;
mod refusal;
mod said;
mod script;
pub mod sessions;
mod settings;
mod shared;
pub mod spoken;
pub mod ssh_channel;
mod start;
mod unattended;
mod upload;

pub use child::SshChild;
pub use command::{LOGGED_IN, with_nobody_to_ask};
pub use error::SshError;
pub use master::{Asks, Master};
pub use refusal::Refusal;
pub use settings::SshSettings;
pub use start::{OLDEST_KERNEL, Started, Way, start};
pub use unattended::{Login, login};
pub use upload::{find_uploads, static_name};
