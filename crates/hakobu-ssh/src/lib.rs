//! An agent on a remote host, started by the user's own `ssh`.
//!
//! One connection does everything. It runs one command line ([`script`]) that becomes the agent if hakobu is installed
//! there, and otherwise asks for the program, checks it and runs it. The uploaded file has no name on the remote host
//! from before its first byte arrives: it is opened, removed, filled through the descriptor and run from it. So nothing
//! is left behind, however and whenever it ends.
//!
//! The agent begins with [`PREAMBLE`](hakobu_proto::control::PREAMBLE); anything that a login shell prints before it is skipped. After it, standard
//! input and output belong to the agent.

mod answer;
mod child;
mod command;
pub mod control_channel;
mod error;
pub mod login;
mod logins;
mod master;
pub mod peer_output;
mod prompt_watcher;
mod refusal;
mod script;
pub mod sessions;
mod settings;
mod shared_login;
pub mod ssh_channel;
mod ssh_output;
mod stale_sockets;
mod start;
mod unattended;
mod upload;

pub use child::SshChild;
pub use error::SshError;
pub use refusal::StartRefusal;
pub use settings::SshSettings;
pub use start::{AgentOrigin, OLDEST_KERNEL, RunningAgent, start};
pub use unattended::{UnattendedLogin, login};
pub use upload::{find_uploads, static_name};
