//! A directory on an SFTP server: [`SftpSource`] reads trees, [`SftpTarget`] writes below one root within a grant.
//!
//! The engine stays on this machine, and each lane has its own connection with many pending requests. Metadata that the
//! protocol cannot express is lost, and the capabilities say so: fractions of a second, extended attributes, device
//! nodes and pipes, inodes of hard links. docs/design/0007 gives the reasons for this design.

mod access;
mod capabilities;
mod connection;
mod handle_semaphore;
#[cfg(test)]
mod hostile_tests;
mod inspect;
mod list;
mod outgoing;
mod read_file;
mod requests;
mod server;
mod sftp_root;
mod source;
mod target_side;
#[cfg(test)]
mod tests;
mod wire;

pub use access::{Connect, SftpAccess};
pub use connection::Channel;
pub use inspect::SftpLook;
pub use server::ServerExtensions;
pub use source::SftpSource;
pub use target_side::{SftpTarget, SftpTargetOptions};
#[doc(hidden)]
pub use wire::fuzz_reply;
