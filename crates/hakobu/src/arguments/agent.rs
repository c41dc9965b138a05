//! The arguments of `agent`, and their help.

use std::path::PathBuf;

use clap::Args;

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
