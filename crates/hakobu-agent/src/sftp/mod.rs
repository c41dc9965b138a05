//! A machine that has an SFTP server and no agent: looking at places there, and opening it as an end of a copy. The
//! engine stays here.

mod host;
mod look;
mod side;

pub(crate) use host::WAY_OUT;
pub use side::SftpSide;
