//! The far half: `hakobu agent`, started by the near one over ssh.

use std::io::{stdin, stdout};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Args;
use hakobu_agent::agent::{agent as serve, restricted_agent};
use hakobu_agent::join::{join, join_agent};
use hakobu_agent::restrict::{Asked, Restriction, Terms, asked};
use hakobu_core::error::Result;

use crate::exit;

pub(crate) const AGENT_HELP: &str = "\
With --restrict a key gives files of one directory, and nothing else: no shell, no other files, no
disks, no connections. On the far machine, in ~/.ssh/authorized_keys:

  restrict,command=\"hakobu agent --restrict /backup --read-only\" ssh-ed25519 AAAA... laptop

Whoever has the key uses hakobu copy, sync, verify and digest as ever: hakobu copy host:/backup/a .
Paths that do not begin with a slash count from the directory. The agent checks every request, and
has the kernel lock it in (landlock, Linux 6.2 or later); where that cannot be had it does not start.";

/// The arguments of `agent`.
#[derive(Debug, Default, Args)]
pub struct AgentArguments {
    /// For authorized_keys: only what is beneath this directory may be used
    #[arg(long, value_name = "PATH", conflicts_with = "join")]
    pub restrict: Option<PathBuf>,

    /// With --restrict: nothing may be written
    #[arg(long, requires = "restrict")]
    pub read_only: bool,

    /// With --restrict: connections to other machines may be made
    #[arg(long, requires = "restrict")]
    pub may_connect: bool,

    /// Join standard input and output to a port of this machine instead.
    #[arg(long, value_name = "PORT", hide = true)]
    pub join: Option<u16>,
}

/// Where a forced command finds what was asked for.
const ORIGINAL: &str = "SSH_ORIGINAL_COMMAND";

/// Serves on standard input and output until they end; or joins them to a port of this machine, where an agent listens.
pub fn agent(arguments: &AgentArguments) -> u8 {
    // An uploaded program has no path any more, and would be listed under a descriptor's number.
    let _ = rustix::thread::set_name(c"hakobu");
    // Modes are given in full; a mask of the login's would change them behind our back.
    rustix::process::umask(rustix::fs::Mode::empty());
    let ended = match (&arguments.restrict, arguments.join) {
        (Some(path), _) => restricted(&Terms {
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
fn restricted(terms: &Terms) -> Result<()> {
    let original = std::env::var_os(ORIGINAL).map(OsStringExt::into_vec);
    match asked(original.as_deref())? {
        Asked::Agent => restricted_agent(Restriction::enter(terms)?, stdin(), stdout()),
        Asked::Join { process, port } => join_agent(process, port),
        Asked::Nothing => Ok(()),
    }
}
