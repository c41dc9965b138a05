//! The far half: `hakobu agent`, started by the near one over ssh.

use std::io::{stdin, stdout};
use std::os::unix::ffi::OsStringExt;

use hakobu_agent::agent::{agent as serve, restricted_agent};
use hakobu_agent::join::{join, join_agent};
use hakobu_agent::restrict::{LoginRestrictions, OriginalCommand, Restriction, asked};
use hakobu_core::error::Result;

use crate::arguments::agent::AgentArguments;
use crate::exit;

/// Where a forced command finds what was asked for.
const ORIGINAL: &str = "SSH_ORIGINAL_COMMAND";

/// Serves on standard input and output until they end; or joins them to a port of this machine, where an agent listens.
pub fn agent(arguments: &AgentArguments) -> u8 {
    // An uploaded program has no path any more, and would be listed under a descriptor's number.
    let _ = rustix::thread::set_name(c"hakobu");
    // Modes are given in full; a mask of the login's would change them behind our back.
    rustix::process::umask(rustix::fs::Mode::empty());
    let ended = match (&arguments.restrict, arguments.join) {
        (Some(path), _) => restricted(&LoginRestrictions {
            path: path.clone(),
            read_only: arguments.read_only,
            may_connect: arguments.may_connect,
        }),
        (None, Some(port)) => join(port),
        (None, None) => serve(stdin(), stdout()),
    };
    match ended {
        Ok(()) => 0,
        Err(error) => exit::errors(&[error]),
    }
}

/// The same for a login that is held to one directory. What the other side wants is in what it would have run.
fn restricted(terms: &LoginRestrictions) -> Result<()> {
    let original = std::env::var_os(ORIGINAL).map(OsStringExt::into_vec);
    match asked(original.as_deref())? {
        OriginalCommand::Agent => restricted_agent(Restriction::enter(terms)?, stdin(), stdout()),
        OriginalCommand::Join { process, port } => join_agent(process, port),
        OriginalCommand::Nothing => Ok(()),
    }
}
