//! A directory on an SFTP server: [`SftpSource`] reads trees, [`SftpTarget`] writes below one root within a grant.
//!
//! The engine stays on this machine, and each lane has its own connection with many pending requests. Metadata that the
//! protocol cannot express is lost, and the capabilities say so: fractions of a second, extended attributes, device
//! nodes and pipes, inodes of hard links. docs/design/0007 gives the reasons for this design.

mod access;
mod capabilities;
mod connection;
#[cfg(test)]
mod hostile_tests;
mod list;
mod look;
mod outgoing;
mod permits;
mod queue;
mod reading;
mod requests;
mod server;
mod site;
mod source;
mod target_side;
#[cfg(test)]
mod tests;
mod wire;

pub use access::{Access, Connect};
pub use connection::Channel;
pub use look::SftpLook;
pub use server::Abilities;
pub use source::SftpSource;
pub use target_side::{SftpTarget, SftpTargetOptions};
#[doc(hidden)]
pub use wire::fuzz_reply;
