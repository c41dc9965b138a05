//! The arguments of `bench`, and their help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hakobu_core::units::parse_duration;

use crate::commands::shared::headings::{CONNECTION, DISKS, OUTPUT, PERFORMANCE};

/// The text below the help.
pub(crate) const HELP: &str = "\
Measures hakobu and the tools that are installed on both hosts: dd | ssh, scp, nc, mbuffer, rsync and tar | ssh, with \
several ciphers, compressors and block sizes, in both directions, started from either side. The data is random or \
text, and goes from memory to /dev/null, from memory to memory, or from disk to disk. Without HOST only this machine is measured. Tools \
that are missing are skipped and listed.

Runs are interleaved, and each figure is the median of the rounds. The time that the same command takes for one byte, \
login included, is measured, shown and subtracted. CPU time is that of all processes at both ends. Test data is created in /dev/shm and \
/var/tmp on both hosts and removed at the end.

hakobu's own runs use only these settings (see hakobu settings): ssh, agent, transport, data-address and data-port. The \
others are ignored and listed.

Each run logs in again without asking: HOST needs a key that works without a prompt. Runs that HOST starts by ssh are \
measured only if HOST can log in here.

Examples:
  hakobu bench host                            the main cases, in 2.5 minutes
  hakobu bench host --full --html bench.html   all cases, about 20 minutes, as HTML
  hakobu bench host --time-budget 5m --json >bench.json
  hakobu bench --scratch /mnt/disk             this machine alone, and this disk

Exit codes: 0 measured, 1 failed, 2 wrong usage, 3 some rows failed (each is named) or there was nothing to compare \
with, 6 refused, 130 interrupted.";

/// The arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    /// host, user@host or ssh://host:port; default: this machine only
    #[arg(value_name = "HOST")]
    pub host: Option<OsString>,

    /// Test all ciphers, block sizes and compressors
    #[arg(long, help_heading = PERFORMANCE)]
    pub full: bool,

    /// Approximate total time
    ///
    /// Default: 2m30s, with --full 20m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = PERFORMANCE)]
    pub time_budget: Option<Duration>,

    /// Directory for test data on this machine
    ///
    /// Default: /var/tmp
    #[arg(long, value_name = "DIR", help_heading = DISKS)]
    pub scratch: Option<PathBuf>,

    /// Directory for test data on HOST
    ///
    /// Default: /var/tmp
    #[arg(long, value_name = "DIR", help_heading = DISKS)]
    pub far_scratch: Option<String>,

    /// Address by which HOST logs in here
    ///
    /// host, user@host or ssh://host:port. Default: the address from which HOST sees this login come
    #[arg(long, value_name = "HOST", help_heading = CONNECTION)]
    pub back: Option<OsString>,

    /// Port for nc and mbuffer on both hosts
    ///
    /// Default: free ports
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = CONNECTION)]
    pub port: Option<u16>,

    /// ssh command, such as 'ssh -p 2222 -i key'
    ///
    /// Environment: HAKOBU_SSH
    #[arg(short = 'e', long, value_name = "COMMAND", help_heading = CONNECTION)]
    pub ssh: Option<OsString>,

    /// Path of hakobu on HOST
    ///
    /// Default: found in its PATH, otherwise uploaded next to the test data
    #[arg(long, value_name = "PATH", help_heading = CONNECTION)]
    pub agent: Option<PathBuf>,

    /// Settings file, or none (see hakobu settings)
    ///
    /// Environment: HAKOBU_SETTINGS
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    pub settings: Option<PathBuf>,

    /// Also write an HTML page with charts to this file
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub html: Option<PathBuf>,

    /// Also write the tables as Markdown to this file
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub markdown: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}
