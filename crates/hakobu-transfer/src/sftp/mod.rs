//! A host with an SFTP server and no agent: examines paths there, and opens it as an endpoint of a copy. The engine
//! runs on this host.

mod endpoint;
mod host;
mod inspect;

pub use endpoint::SftpSide;
pub use host::WAY_OUT;
