//! A machine that has an SFTP server and no agent: looking at places there, and opening it as an end of a copy. The
//! engine stays here.

mod look;
mod losses;
mod run;
mod side;

pub(crate) use run::{Ends, check, run};
pub use side::SftpSide;
