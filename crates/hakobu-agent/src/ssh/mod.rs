//! An agent on a far host, started by the user's own `ssh`.
//!
//! One connection does everything. It runs one line ([`script`]) that becomes the agent if hakobu is there, and else
//! asks for the program, checks it and runs it. What is uploaded has no name on the far side from before its first
//! byte arrives: the file is opened, removed, filled through the descriptor and run from it. So nothing is left
//! behind, however and whenever it ends.
//!
//! The agent begins with [`hakobu_proto::control::PREAMBLE`]; what a login shell prints before it is skipped. From there on standard input
//! and output are the agent's.

mod answer;
mod asking;
mod child;
mod command;
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
mod spoken;
mod start;
mod unattended;
mod upload;

pub use child::SshChild;
pub(crate) use command::{LOGGED_IN, with_nobody_to_ask};
pub use error::SshError;
pub use master::{Asks, Master};
pub use refusal::Refusal;
pub use settings::SshSettings;
pub use start::{OLDEST_KERNEL, Started, Way, start};
pub use unattended::{Login, login};
pub use upload::{find_uploads, static_name};
