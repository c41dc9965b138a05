//! The arguments of `ls`, and their help.

use std::ffi::OsString;

use clap::Args;

use super::login::LoginArguments;

pub(crate) const LS_HELP: &str = "\
Entries are sorted by the bytes of their names; a directory ends in a slash, and -R lists it after
the one that holds it, with paths below LOCATION. Characters that would confuse a terminal are
escaped; --json has the bytes. A host is listed through its SFTP server, so it needs no hakobu.

The long form has the mode, owner, group, size in bytes and modification time. Over SFTP, owners are
numbers. Symbolic links are not followed, except LOCATION itself.

Examples:
  hakobu ls -l host:/data
  hakobu ls sftp://user@host:2222/upload
  hakobu ls -R --json host:/data | jq -r 'select(.kind == \"file\") | .path'

Exit codes: 0 listed, 1 failed, 2 wrong usage, 3 some directories could not be listed, 130
interrupted.";

/// The arguments of `ls`.
#[derive(Debug, Args)]
pub struct LsArguments {
    /// A directory or file: a path, host:path, ssh://host:port/path or sftp://host/path
    #[arg(value_name = "LOCATION", default_value = ".")]
    pub location: OsString,

    /// List mode, owner, group, size and modification time as well
    #[arg(short = 'l', long)]
    pub long: bool,

    /// List the directories below LOCATION, too
    #[arg(short = 'R', long)]
    pub recursive: bool,

    /// Print a JSON object for each entry
    #[arg(long)]
    pub json: bool,

    /// The login on the other machine.
    #[command(flatten)]
    pub login: LoginArguments,
}
