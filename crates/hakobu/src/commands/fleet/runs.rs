//! `fleet run`: its arguments.

use std::ffi::OsString;

use clap::{Args, Subcommand};

/// The text below the help.
pub(crate) const START_HELP: &str = "\
Examples:
  hakobu fleet run start home --watch
  hakobu fleet run start --group site-a -- copy /srv/data backup:/srv";

/// The actions on runs.
#[derive(Debug, Subcommand)]
pub enum RunVerbs {
    /// Start a run of a relationship, or one of its own
    #[command(after_help = START_HELP)]
    Start(StartArguments),
    /// List runs, the latest first
    List {
        /// Only those of a relationship
        #[arg(long, value_name = "NAME")]
        relationship: Option<String>,
        /// Only those in these states: failed, partial, running, paused, cancelled, complete
        #[arg(long, value_name = "LIST")]
        state: Option<String>,
        /// Number of runs
        #[arg(long, value_name = "N", default_value_t = 50)]
        count: usize,
    },
    /// Show a run with its brokers
    Show {
        /// Number of the run
        id: u64,
    },
    /// Follow a run until it ends and exit with its code; Ctrl-C leaves it running
    Watch {
        /// Number of the run
        id: u64,
    },
    /// Cancel a run; what was copied stays
    Cancel {
        /// Number of the run
        id: u64,
    },
    /// Pause a run: brokers stop where they are
    Pause {
        /// Number of the run
        id: u64,
    },
    /// Let a paused run go on
    Resume {
        /// Number of the run
        id: u64,
    },
    /// Start a run of only what failed
    Retry {
        /// Number of the run
        id: u64,
    },
    /// Print the report of a run that has ended, as JSON
    Report {
        /// Number of the run
        id: u64,
    },
    /// List the entries that failed
    Failures {
        /// Number of the run
        id: u64,
        /// Only those of a kind, such as permission_denied
        #[arg(long, value_name = "KIND")]
        kind: Option<String>,
        /// Only those whose path begins like this
        #[arg(long, value_name = "PATH")]
        path: Option<String>,
        /// Number of failures
        #[arg(long, value_name = "N", default_value_t = 1000)]
        count: usize,
    },
    /// Compare two runs
    Compare {
        /// Number of the run
        id: u64,
        /// Number of the other run
        other: u64,
    },
}

/// The arguments of `fleet run start`.
#[derive(Debug, Args)]
pub struct StartArguments {
    /// Name of the relationship
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    pub name: Option<String>,
    /// Group of brokers, for a run of its own
    #[arg(long, value_name = "NAME", requires = "command")]
    pub group: Option<String>,
    /// Compare source and target at the end, for a run of its own
    #[arg(long, requires = "command")]
    pub verify: bool,
    /// Follow the run, as run watch does
    #[arg(long)]
    pub watch: bool,
    /// Command of a run of its own, behind --
    #[arg(last = true, value_name = "COMMAND", requires = "group")]
    pub command: Vec<OsString>,
}
