//! A host with an SFTP server and no agent: examines paths there, and opens it as an endpoint of a copy. The engine
//! runs on this host.

mod host;
mod look;
mod side;

pub use host::WAY_OUT;
pub use side::SftpSide;
