//! The arguments of `bench`, and their help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hakobu_core::units::parse_duration;

/// What stands below the help.
pub(crate) const HELP: &str = "\
The tools that are installed on both machines are measured beside hakobu: dd | ssh, scp, nc,
mbuffer, rsync and tar | ssh, with ciphers, compressors, sizes of blocks, both directions, started
here and there, random data and text, from memory to nothing, to memory, and from disk to disk.
Without HOST: this machine alone. What is missing is left out, and listed.

Runs take turns, and the median of the rounds counts; the same command on one byte, with its logins,
is taken off and told. Processor time is that of every process at both ends. Nothing is kept: data
is made in /dev/shm and /var/tmp, here and there, and removed in the end.

Of settings files (see hakobu settings) hakobu's rows obey what leads to HOST: ssh, agent,
transport, data-address and data-port. Limits and fixed choices are not obeyed, and are named.

Each run logs in anew and nobody is asked: HOST needs a key that works without a question. What HOST
starts by ssh is measured only where it can log in here as well.

Examples:
  hakobu bench host                            a sensible part, in 2.5 minutes
  hakobu bench host --full --html bench.html   every one, in about twenty, as a page with charts
  hakobu bench host --time-budget 5m --json >bench.json
  hakobu bench --scratch /mnt/disk             this machine alone, and this disk

Exit codes: 0 measured, 1 failed, 2 wrong usage, 3 some rows failed (each is named) or
there was nothing to compare with, 6 refused, 130 interrupted.";

/// The arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    /// host, user@host or ssh://host:port [default: only this machine]
    #[arg(value_name = "HOST")]
    pub host: Option<OsString>,

    /// Every one of what can be varied, not only a part
    #[arg(long)]
    pub full: bool,

    /// About how long it takes in all [default: 2m30s, with --full 20m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub time_budget: Option<Duration>,

    /// Where data is made on a disk of this machine [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,

    /// The same on HOST
    #[arg(long, value_name = "DIR")]
    pub far_scratch: Option<String>,

    /// This machine as HOST logs in to it: host, user@host or ssh://host:port [default: the address it sees]
    #[arg(long, value_name = "HOST")]
    pub back: Option<OsString>,

    /// The port for nc and mbuffer, on HOST and here [default: free ones]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// The ssh to log in with, its options included: 'ssh -p 2222 -i key' [env: HAKOBU_SSH]
    #[arg(short = 'e', long, value_name = "COMMAND")]
    pub ssh: Option<OsString>,

    /// The hakobu on HOST [default: found on its PATH, else put beside the data]
    #[arg(long, value_name = "PATH")]
    pub agent: Option<PathBuf>,

    /// Settings of hosts from here; or none (see hakobu settings) [env: HAKOBU_SETTINGS]
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,

    /// Write a page with charts to this file as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the tables as Markdown to this file as well
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,

    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,
}
