//! The verbs of `jobs`, their arguments and their help.

use clap::Subcommand;

use crate::limits::LimitArguments;

pub(crate) const JOBS_HELP: &str = "\
A job is what `hakobu copy --detach` has started, or sync or verify. It needs no terminal, and its
record, log and report are kept until they are forgotten. Runs without --detach leave no record.

States: running, paused (by hakobu jobs pause), interrupted (killed, no login or connection for
longer than --retry-for, or the machine was restarted: it can be resumed), done, failed.

Examples:
  hakobu copy /srv/data host:/backup --detach
  hakobu jobs                                 all of them, with their progress
  hakobu jobs attach k3                       the one whose ID begins with k3
  hakobu jobs set k3 --bwlimit 20M            from now on no faster than that
  hakobu jobs unit | sudo tee /etc/systemd/system/hakobu-jobs.service";

/// What stands below the help.
pub(crate) const SET_HELP: &str = "\
A job that runs goes by them within a second, wherever its data is read, and says so in its log.
They are kept for its later runs, in the place of what it was started with; off takes one away, and
what is not named stays as it is. Where rsync moves data a rate can be set for the next run only.

Examples:
  hakobu jobs set k3 --bwlimit 20M
  hakobu jobs set k3 --bwlimit \"08:00,20M 19:00,off\" --iops-limit 500
  hakobu jobs set k3 --bwlimit off

Exit codes: 0 set, 1 failed, 2 wrong usage, or it is done.";

/// What to do with jobs.
#[derive(Debug, Subcommand)]
pub enum JobsVerb {
    /// List them all
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show all of one, and the end of its log
    Show {
        /// The job's ID, or how it begins.
        id: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Watch one until it ends, with its exit code; Ctrl-C leaves it running
    Attach {
        /// The job's ID, or how it begins [default: the only one that runs, or the only one]
        id: Option<String>,
    },
    /// Stop one; what is done is kept, and it stays stopped until it is resumed
    Pause {
        /// The job's ID, or how it begins.
        id: String,
    },
    /// Go on with one that has ended before it was done
    Resume {
        /// The job's ID, or how it begins.
        #[arg(required_unless_present = "all")]
        id: Option<String>,
        /// All that were interrupted: not those that were paused, are done or have failed
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
    /// Hold one to other limits, also while it runs
    #[command(after_help = SET_HELP)]
    Set {
        /// The job's ID, or how it begins.
        id: String,
        /// Which ones; off takes one away.
        #[command(flatten)]
        limits: LimitArguments,
    },
    /// Remove the record of one that does not run; data is not touched
    Forget {
        /// The job's ID, or how it begins; several are possible.
        #[arg(required_unless_present = "done")]
        ids: Vec<String>,
        /// All that are done
        #[arg(long)]
        done: bool,
    },
    /// Print a systemd unit that resumes interrupted jobs when the machine starts
    Unit {
        /// A unit of your own rather than the system's
        #[arg(long)]
        user: bool,
    },
    /// Run one (started by the others)
    #[command(hide = true)]
    Run {
        /// The job's ID.
        id: String,
    },
}
