//! The command `agent`: the hakobu process on the other host, which the controller starts over ssh.

use std::io::{stdin, stdout};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Args;
use hakobu_agent::agent::{agent as serve, restricted_agent};
use hakobu_agent::join::{join, join_agent};
use hakobu_agent::restrict::{LoginRestrictions, OriginalCommand, Restriction, asked};
use hakobu_core::error::Result;

use crate::commands::shared::headings::CONNECTION;
use crate::{exit, output, words};

pub(crate) const AGENT_HELP: &str = "\
With --restrict, an ssh key gives access to the files of one directory and to nothing else: no shell, no other files, \
no disks, no connections. On the remote host, in ~/.ssh/authorized_keys:

  restrict,command=\"hakobu agent --restrict /backup --read-only\" ssh-ed25519 AAAA... laptop

The owner of the key uses hakobu copy, sync, verify and digest as usual: hakobu copy host:/backup/a . Paths without a \
leading slash are relative to the directory. The agent checks every request and is confined by the kernel (landlock, \
Linux 6.2 or later); it does not start where that is not available.";

/// The arguments of `agent`.
#[derive(Debug, Default, Args)]
pub struct AgentArguments {
    /// For authorized_keys: allow only this directory
    #[arg(long, value_name = "PATH", conflicts_with = "join", help_heading = CONNECTION)]
    pub restrict: Option<PathBuf>,

    /// With --restrict: allow reading only
    #[arg(long, requires = "restrict", help_heading = CONNECTION)]
    pub read_only: bool,

    /// With --restrict: allow connections to other hosts
    #[arg(long, requires = "restrict", help_heading = CONNECTION)]
    pub may_connect: bool,

    /// Join standard input and output to a port of this machine instead.
    #[arg(long, value_name = "PORT", hide = true)]
    pub join: Option<u16>,
}

/// The variable in which sshd passes the typed command to a forced one.
const ORIGINAL: &str = "SSH_ORIGINAL_COMMAND";

/// Serves a controller on standard input and output until they end, or connects them to the port of an agent on this
/// machine.
pub fn agent(arguments: &AgentArguments) -> u8 {
    // An uploaded program has no path, so process lists would show the number of a descriptor.
    let _ = rustix::thread::set_name(c"hakobu");
    // The agent sets modes explicitly. The login's umask must not change them.
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
        Err(error) => {
            output::tell(&words::agent_error(&error));
            exit::code_of(error.kind)
        }
    }
}

/// Serves a login that is restricted to one directory. sshd passes the controller's command in a variable.
fn restricted(terms: &LoginRestrictions) -> Result<()> {
    let original = std::env::var_os(ORIGINAL).map(OsStringExt::into_vec);
    match asked(original.as_deref())? {
        OriginalCommand::Agent => restricted_agent(Restriction::enter(terms)?, stdin(), stdout()),
        OriginalCommand::Join { process, port } => join_agent(process, port),
        OriginalCommand::Nothing => Ok(()),
    }
}
