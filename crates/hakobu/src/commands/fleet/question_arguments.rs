//! The arguments of questions to brokers: `ls`, `test`, `preview`, `probe`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::commands::shared::headings::FLEET;

/// The text below the help.
pub(crate) const PREVIEW_HELP: &str = "\
Examples:
  hakobu fleet preview home
  hakobu fleet preview --group site-a -- sync --delete /srv/data/ s3://bucket/data

Exit codes: those of hakobu copy --dry-run.";

/// The credentials with which brokers reach locations.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = FLEET)]
pub struct CredentialArguments {
    /// File with credentials, on the brokers
    #[arg(long, value_name = "PATH")]
    pub credentials_file: Vec<String>,
    /// Variable with credentials, on the brokers
    #[arg(long, value_name = "NAME")]
    pub credentials_variable: Vec<String>,
    /// File with credentials here, to be sealed
    ///
    /// It has lines of NAME=VALUE, and is on this machine. The control plane seals them
    #[arg(long, value_name = "FILE")]
    pub credentials_secret: Vec<PathBuf>,
}

/// The arguments of `fleet ls`.
#[derive(Debug, Args)]
#[command(next_help_heading = FLEET)]
pub struct BrowseArguments {
    /// Directory or file, as in sources and targets of a run
    #[arg(value_name = "LOCATION")]
    pub location: OsString,
    /// Group whose brokers are asked
    #[arg(long, value_name = "NAME", required_unless_present = "relationship")]
    pub group: Option<String>,
    /// Relationship whose credentials are used
    ///
    /// Its group is asked, unless another one is named
    #[arg(long, value_name = "NAME")]
    pub relationship: Option<String>,
    /// Use the credentials of targets
    #[arg(long)]
    pub as_target: bool,
    /// The credentials.
    #[command(flatten)]
    pub credentials: CredentialArguments,
    /// Options for reaching a store, behind --
    #[arg(last = true, value_name = "OPTION")]
    pub options: Vec<String>,
}

/// The arguments of `fleet test`, `preview` and `probe`.
#[derive(Debug, Args)]
#[command(next_help_heading = FLEET)]
pub struct TrialArguments {
    /// Name of a relationship
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    pub name: Option<String>,
    /// Group of brokers, for a command
    #[arg(long, value_name = "NAME", requires = "command")]
    pub group: Option<String>,
    /// The credentials.
    #[command(flatten)]
    pub credentials: CredentialArguments,
    /// Command of a run, behind --
    #[arg(last = true, value_name = "COMMAND", requires = "group")]
    pub command: Vec<OsString>,
}
