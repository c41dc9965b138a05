//! A machine that has an SFTP server and no agent: looking at places there, and opening it as an end of a copy. The
//! engine stays here.

mod look;
mod run;
mod side;

pub(crate) use run::{Ends, run};
pub use side::SftpSide;
