//! A machine that has an SFTP server and no agent: looking at places there, and opening it as an end of a copy. The
//! engine stays here.

mod host;
mod look;
mod side;

pub use side::SftpSide;
