//! The verbs of `jobs`, their arguments and their help.

use clap::Subcommand;

use crate::commands::shared::headings::OUTPUT;
use crate::commands::shared::limits::LimitArguments;

pub(crate) const JOBS_HELP: &str = "\
A job is a run started with --detach by copy, sync or verify. It needs no terminal; its record, log and report are \
kept until they are removed. Runs without --detach leave no record.

States: running, paused (by hakobu jobs pause), interrupted (killed, offline for longer than --retry-for, or the \
machine was restarted: it can be resumed), done, failed.

Examples:
  hakobu copy /srv/data host:/backup --detach
  hakobu jobs                                 list all, with their progress
  hakobu jobs attach k3                       the job whose ID begins with k3
  hakobu jobs set k3 --bwlimit 20M            limit its rate from now on
  hakobu jobs unit | sudo tee /etc/systemd/system/hakobu-jobs.service";

/// The text below the help.
pub(crate) const SET_HELP: &str = "\
A running job applies the limits within a second, on whichever host reads the data, and logs them. They also hold for \
its later runs, in place of those it was started with; off removes a limit, and limits that are not named stay as \
they are. With the rsync transport, a new rate takes effect only when the job next \
starts. A job of hakobu verify takes no --bwlimit, as it sends only digests.

Examples:
  hakobu jobs set k3 --bwlimit 20M
  hakobu jobs set k3 --bwlimit \"08:00,20M 19:00,off\" --iops-limit 500
  hakobu jobs set k3 --bwlimit off

Exit codes: 0 set, 1 failed, 2 wrong usage, or the job is done.";

/// The actions on jobs.
#[derive(Debug, Subcommand)]
pub enum JobsVerb {
    /// List all jobs
    List {
        /// Print JSON
        #[arg(long, help_heading = OUTPUT)]
        json: bool,
    },
    /// Show a job's details and the end of its log
    Show {
        /// ID of the job, or its first letters
        id: String,
        /// Print JSON
        #[arg(long, help_heading = OUTPUT)]
        json: bool,
    },
    /// Follow a job until it ends and exit with its code; Ctrl-C leaves it running
    Attach {
        /// ID of the job, or its first letters; default: the only running job, or the only job
        id: Option<String>,
    },
    /// Stop a job until it is resumed; completed work is kept
    Pause {
        /// ID of the job, or its first letters
        id: String,
    },
    /// Resume an unfinished job
    Resume {
        /// ID of the job, or its first letters
        #[arg(required_unless_present = "all")]
        id: Option<String>,
        /// Resume all interrupted jobs
        ///
        /// Jobs that were paused or have failed stay as they are
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
    /// Change a job's limits, also while it runs
    #[command(after_help = SET_HELP)]
    Set {
        /// ID of the job, or its first letters
        id: String,
        /// Which ones; off takes one away.
        #[command(flatten)]
        limits: LimitArguments,
    },
    /// Remove the record of a job that is not running; data is not touched
    ///
    /// If its target is a bucket, uploads that it has not finished are aborted, so that the store no longer charges for them
    Forget {
        /// IDs of the jobs, or their first letters
        #[arg(required_unless_present = "done")]
        ids: Vec<String>,
        /// Remove all jobs that are done
        #[arg(long)]
        done: bool,
    },
    /// Print a systemd unit that resumes interrupted jobs when the machine starts
    Unit {
        /// Print a unit for your user instead of the system
        #[arg(long)]
        user: bool,
    },
    /// Run a job (started by the others)
    #[command(hide = true)]
    Run {
        /// The job's ID.
        id: String,
    },
}
