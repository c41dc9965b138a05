//! The verbs of the program, and what can be typed behind each. Help, manual and completions come from these definitions.

use std::ffi::OsString;

use clap::{ArgAction, Command, CommandFactory, Parser, Subcommand};
use hakobu_core::job::Mode;

use crate::arguments::agent::{AGENT_HELP, AgentArguments};
use crate::arguments::bench::{self, BenchArguments};
use crate::arguments::copy::{COPY_HELP, CopyArguments, SYNC_HELP, VERIFY_HELP};
use crate::arguments::digest::{DIGEST_HELP, DigestArguments};
use crate::arguments::disks::{DISKS_HELP, DisksArguments};
use crate::arguments::doctor::{DOCTOR_HELP, DoctorArguments};
use crate::arguments::explain::{EXPLAIN_HELP, ExplainArguments};
use crate::arguments::jobs::{JOBS_HELP, JobsVerb};
use crate::arguments::login::LoginArguments;
use crate::arguments::make_data::MakeData;
use crate::arguments::probe::{self, ProbeArguments};
use crate::arguments::report::{self, ReportArguments};
use crate::arguments::settings::{SETTINGS_HELP, SettingsArguments, USAGE};

/// Moves files and trees between machines, as fast as the hardware allows.
#[derive(Debug, Parser)]
#[command(
    name = "hakobu",
    bin_name = "hakobu",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = "hakobu copy --help has examples and all options."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Bring over what is missing or different; never deletes
    #[command(after_help = COPY_HELP)]
    Copy(Box<CopyArguments>),
    /// Make TARGET equal to SOURCE, and remove what SOURCE lacks once that is agreed to
    #[command(after_help = SYNC_HELP)]
    Sync(Box<CopyArguments>),
    /// Compare both sides, read where they are, and list what differs; writes nothing
    #[command(after_help = VERIFY_HELP)]
    Verify(Box<CopyArguments>),
    /// List the disks of a machine: what they are, what is on them, what uses them
    #[command(after_help = DISKS_HELP)]
    Disks(DisksArguments),
    /// Say which settings of this machine and another one hold transfers back, and what to do
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArguments),
    /// Measure machines, disks and the way, and predict what a copy will get and what will limit it
    #[command(after_help = probe::HELP)]
    Probe(ProbeArguments),
    /// Measure the usual tools and hakobu side by side, between this machine and another one
    #[command(after_help = bench::HELP)]
    Bench(Box<BenchArguments>),
    /// Print the digest of a file or disk, or of each file of a tree, as b3sum or sha256sum print it
    #[command(after_help = DIGEST_HELP)]
    Digest(Box<DigestArguments>),
    /// Show a report that --report has written: as text, Markdown or HTML, in English or Japanese
    #[command(after_help = report::HELP)]
    Report(ReportArguments),
    /// Say which filter rule decides about an entry
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArguments),
    /// Make test data that follows from a number: the content of a disk, or a tree
    MakeData {
        /// What.
        #[command(subcommand)]
        kind: MakeData,
    },
    /// Print the options that hold for a run or a host, and which settings file each comes from
    #[command(after_help = SETTINGS_HELP, override_usage = USAGE)]
    Settings(SettingsArguments),
    /// Runs that go on without a terminal: list, show, attach, pause, set, resume, forget
    #[command(after_help = JOBS_HELP, disable_help_subcommand = true)]
    Jobs {
        /// What to do; without it they are listed.
        #[command(subcommand)]
        verb: Option<JobsVerb>,
    },
    /// Serve the other side (started over ssh)
    #[command(hide = true, after_help = AGENT_HELP)]
    Agent(AgentArguments),
    /// Print the completions for a shell
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(hide = true)]
    Man {
        /// The verb; without one, the page of the program.
        verb: Option<String>,
    },
}

impl Verb {
    /// The login on another machine, of the verbs that may have one.
    pub(crate) fn login(&mut self) -> Option<&mut LoginArguments> {
        match self {
            Self::Copy(typed) | Self::Sync(typed) | Self::Verify(typed) => Some(&mut typed.login),
            Self::Disks(typed) => Some(&mut typed.login),
            Self::Doctor(typed) => Some(&mut typed.login),
            Self::Digest(typed) => Some(&mut typed.login),
            Self::Probe(typed) => Some(&mut typed.login),
            _ => None,
        }
    }
}

/// What brings data over, or compares it, and how.
pub(crate) fn moved_by(verb: Verb) -> Option<(Box<CopyArguments>, Mode)> {
    match verb {
        Verb::Copy(typed) => Some((typed, Mode::Copy)),
        Verb::Sync(typed) => Some((typed, Mode::Delta)),
        Verb::Verify(typed) => Some((typed, Mode::Compare)),
        _ => None,
    }
}

/// Options that make sense for `sync` only.
pub const OF_SYNC: [&str; 9] = [
    "passes",
    "until_under",
    "before_last_pass",
    "after_last_pass",
    "delete",
    "delete_during",
    "max_delete",
    "in_place",
    "whole_file",
];
/// Options that make no sense where nothing is written.
const OF_WRITING: [&str; 8] =
    ["confirm", "restart", "verify", "durable", "require", "on_read_error", "compare", "itemize"];
/// Options that make sense for `verify` only.
const OF_VERIFY: [&str; 1] = ["sample"];

/// All that can be typed. The verbs share their arguments; each shows those that are for it.
pub fn command() -> Command {
    let without = |options: &'static [&'static str]| {
        move |verb: Command| {
            options.iter().fold(verb, |verb, name| verb.mut_arg(name, |option| option.hide(true)))
        }
    };
    Cli::command()
        .mut_subcommand("copy", without(&OF_SYNC))
        .mut_subcommand("copy", without(&OF_VERIFY))
        .mut_subcommand("sync", without(&OF_VERIFY))
        .mut_subcommand("verify", without(&OF_SYNC))
        .mut_subcommand("verify", without(&OF_WRITING))
}

/// As [`command`], for a command line on which `--pairs` names all sources and targets.
pub fn command_for(arguments: &[OsString]) -> Command {
    let is_pairs = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"--pairs");
    if !arguments.iter().take_while(|argument| *argument != "--").any(is_pairs) {
        return command();
    }
    let without_places = |verb: Command| {
        verb.mut_arg("sources", |sources| sources.required(false).num_args(1).action(ArgAction::Set))
            .mut_arg("target", |target| target.required(false))
    };
    ["copy", "sync", "verify"]
        .into_iter()
        .fold(command(), |all, verb| all.mut_subcommand(verb, without_places))
}

/// The same command without what is hidden: what completions may offer.
pub fn offered(command: &Command) -> Command {
    let shown = Command::new(command.get_name().to_owned())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()))
        .subcommands(command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(offered))
        .disable_help_subcommand(true);
    match (command.get_about().cloned(), command.get_version().map(str::to_owned)) {
        (Some(about), Some(version)) => shown.about(about).version(version),
        (Some(about), None) => shown.about(about),
        _ => shown,
    }
}
