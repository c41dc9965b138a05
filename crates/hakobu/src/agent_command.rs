//! The far half: `hakobu agent`, started by the near one over ssh.

use std::io::{stdin, stdout};

use crate::exit;

/// Serves on standard input and output until they end.
pub fn agent() -> u8 {
    // An uploaded program has no path any more, and would be listed under a descriptor's number.
    let _ = rustix::thread::set_name(c"hakobu");
    // Modes are given in full; a mask of the login's would change them behind our back.
    rustix::process::umask(rustix::fs::Mode::empty());
    match hakobu_agent::agent::agent(stdin(), stdout()) {
        Ok(()) => 0,
        Err(error) => exit::errors(&[error]),
    }
}
