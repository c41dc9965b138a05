//! The verbs of the program, and what can be typed behind each. Help, manual and completions come from these definitions.

use std::ffi::OsString;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, CommandFactory, Parser, Subcommand};
use hakobu_core::job::Mode;

use crate::color::{COLOR_CHOICES, STYLES};
use crate::commands::agent::{AGENT_HELP, AgentArguments};
use crate::commands::bench::arguments::{BenchArguments, HELP as BENCH_HELP};
use crate::commands::broker::arguments::{BROKER_HELP, BrokerArguments};
use crate::commands::complete::CompleteArguments;
use crate::commands::copy::arguments::{COPY_HELP, CopyArguments, SYNC_HELP, VERIFY_HELP};
use crate::commands::digest::{DIGEST_HELP, DigestArguments};
use crate::commands::disks::{DISKS_HELP, DisksArguments};
use crate::commands::doctor::{DOCTOR_HELP, DoctorArguments};
use crate::commands::explain::{EXPLAIN_HELP, ExplainArguments};
use crate::commands::fleet::arguments::{FLEET_HELP, FleetArguments};
use crate::commands::jobs::{JOBS_HELP, JobsVerb};
use crate::commands::ls::{LS_HELP, LsArguments};
use crate::commands::make_data::MakeData;
use crate::commands::probe::arguments::{HELP as PROBE_HELP, ProbeArguments};
use crate::commands::report::{self, ReportArguments};
use crate::commands::serve::arguments::{SERVE_HELP, ServeArguments};
use crate::commands::settings::arguments::{SETTINGS_HELP, SettingsArguments, USAGE};
use crate::commands::shared::headings::OUTPUT;
use crate::commands::shared::login::LoginArguments;
use crate::commands::shared::store::StoreArguments;
use crate::version;

/// Moves disks, files and trees between machines
#[derive(Debug, Parser)]
#[command(
    name = "hakobu",
    bin_name = "hakobu",
    version,
    long_version = version::long(),
    arg_required_else_help = true,
    disable_help_subcommand = true,
    disable_help_flag = true,
    disable_version_flag = true,
    max_term_width = 100,
    styles = STYLES,
    after_help = PROGRAM_HELP
)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub verb: Verb,

    /// When to use colors: auto, always, never
    #[arg(long, global = true, display_order = 1000, value_name = "WHEN", hide_possible_values = true, help_heading = OUTPUT,
        value_parser = PossibleValuesParser::new(COLOR_CHOICES))]
    pub color: Option<String>,

    /// Print help (--help: all options)
    #[arg(short, long, global = true, display_order = 1001, action = ArgAction::HelpShort, help_heading = OUTPUT)]
    pub help: Option<bool>,

    /// Print version (--version: commit, protocol, features)
    #[arg(short = 'V', long, display_order = 1002, action = ArgAction::Version, help_heading = OUTPUT)]
    pub version: Option<bool>,
}

/// The text below the help of the program.
const PROGRAM_HELP: &str = "\
`hakobu COMMAND -h` lists the common options of a command, `hakobu COMMAND --help` all options, most with examples. `hakobu man \
COMMAND | man -l -` shows its manual page.

Exit codes: 0 complete and on stable storage, 1 failed, 2 wrong usage, 3 some entries failed, 4 differences found, 5 a source \
changed while it was read, 6 refused, 130 interrupted.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Copy what is missing or different; never delete
    #[command(after_help = COPY_HELP)]
    Copy(Box<CopyArguments>),
    /// Make TARGET identical to SOURCE (asks before deleting extra files)
    #[command(after_help = SYNC_HELP)]
    Sync(Box<CopyArguments>),
    /// Compare SOURCE and TARGET and list the differences; write nothing
    #[command(after_help = VERIFY_HELP)]
    Verify(Box<CopyArguments>),
    /// Print digests of files and disks, as b3sum or sha256sum do
    #[command(after_help = DIGEST_HELP)]
    Digest(Box<DigestArguments>),
    /// List a directory, here or on another host
    #[command(after_help = LS_HELP)]
    Ls(LsArguments),
    /// List the disks of a host: identity, content, what uses them
    #[command(after_help = DISKS_HELP)]
    Disks(DisksArguments),
    /// Predict how fast a copy will be and what will limit it
    #[command(after_help = PROBE_HELP)]
    Probe(ProbeArguments),
    /// Find settings of two hosts that hold transfers back
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArguments),
    /// Benchmark hakobu and the usual tools side by side
    #[command(after_help = BENCH_HELP)]
    Bench(Box<BenchArguments>),
    /// Manage background jobs: list, attach, pause, resume, ...
    #[command(after_help = JOBS_HELP, disable_help_subcommand = true)]
    Jobs {
        /// The action; without one, the jobs are listed.
        #[command(subcommand)]
        verb: Option<JobsVerb>,
    },
    /// Run a control plane for a fleet, with a page, an API and a broker
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArguments),
    /// Work on the runs of a control plane on another machine
    #[command(after_help = BROKER_HELP)]
    Broker(BrokerArguments),
    /// Ask a control plane: relationships, runs, brokers, limits, tokens
    #[command(after_help = FLEET_HELP, disable_help_subcommand = true)]
    Fleet(Box<FleetArguments>),
    /// Show a report written by --report as text, Markdown or HTML
    #[command(after_help = report::HELP)]
    Report(ReportArguments),
    /// Show which filter rule includes or excludes a path
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArguments),
    /// Show which options apply to a run, and where they are set
    #[command(after_help = SETTINGS_HELP, override_usage = USAGE)]
    Settings(SettingsArguments),
    /// Generate reproducible test data from a seed
    MakeData {
        /// The kind of data.
        #[command(subcommand)]
        kind: MakeData,
    },
    /// Serve the other side (started over ssh)
    #[command(hide = true, after_help = AGENT_HELP)]
    Agent(AgentArguments),
    /// Print the completion script for a shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        #[arg(hide_possible_values = true)]
        shell: clap_complete::Shell,
    },
    /// Print what a shell may complete (run by its script)
    #[command(hide = true)]
    Complete(CompleteArguments),
    /// Print a manual page
    Man {
        /// Command; without one, the page of hakobu
        #[arg(value_name = "COMMAND")]
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
            Self::Ls(typed) => Some(&mut typed.login),
            Self::Probe(typed) => Some(&mut typed.login),
            _ => None,
        }
    }

    /// Returns the options for reaching object stores of a command that has them.
    pub(crate) fn store(&mut self) -> Option<&mut StoreArguments> {
        match self {
            Self::Copy(typed) | Self::Sync(typed) | Self::Verify(typed) => Some(&mut typed.store),
            Self::Digest(typed) => Some(&mut typed.store),
            Self::Ls(typed) => Some(&mut typed.store),
            Self::Probe(typed) => Some(&mut typed.store),
            _ => None,
        }
    }
}

/// Returns the arguments and the mode of a command that copies or compares data.
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
const OF_WRITING: [&str; 16] = [
    "dry_run",
    "confirm",
    "restart",
    "verify",
    "durable",
    "require",
    "on_read_error",
    "compare",
    "bwlimit",
    "compress",
    "itemize",
    "password_file",
    "storage_class",
    "sse",
    "acl",
    "content_type",
];
/// Options for reaching object stores, which `-h` leaves to `--help`.
const OF_STORES: [&str; 6] =
    ["endpoint", "region", "profile", "no_sign_request", "request_payer", "addressing"];
/// Options that make sense for `verify` only.
const OF_VERIFY: [&str; 2] = ["sample", "full"];
/// Options that make no sense for `ls`, which lists through an SFTP server.
const OF_AGENTS: [&str; 2] = ["sudo", "agent"];

/// Options that `verify` shares with `copy`, described for a command that copies nothing: the name, the line of `-h`, and what
/// `--help` adds.
const VERIFY_WORDS: [(&str, &str, &str); 9] = [
    (
        "sources",
        "Path, host:path, ssh://host:port/path, sftp://host/path, s3://bucket/path, az://container/path or gs://bucket/path",
        "",
    ),
    (
        "preserve",
        "Attributes to compare or not: no-owner, no-acl, no-xattr, no-hardlinks, selinux",
        "What is not named keeps its default: owner, acl, xattr and hardlinks are compared, selinux is not. Mode and times always are",
    ),
    ("by_name", "Compare owner and group by name; by number if the target lacks the name", ""),
    ("allow", "Compare these as well if SOURCE is on another host: setuid, devices", ""),
    (
        "files_from",
        "Compare only the paths listed in FILE",
        "One path per line (or NUL-separated), relative to SOURCE; missing paths are errors",
    ),
    (
        "one_file_system",
        "Do not descend into other file systems",
        "Their mount points are compared, but not what is below them",
    ),
    (
        "transport",
        "How to reach the other host: auto, agent, ssh, sftp",
        "`agent` uses data connections on open ports; `ssh` sends the digests through ssh",
    ),
    (
        "live",
        "Read a disk in use, which may change meanwhile",
        "The comparison may show differences that do not last",
    ),
    ("log_file", "Append differences, failures and notes to this file, with times", ""),
];

/// Options that `explain` shares with `copy`, described as in [`VERIFY_WORDS`].
const EXPLAIN_WORDS: [(&str, &str, &str); 2] = [
    (
        "files_from",
        "Include only the paths listed in FILE",
        "One path per line (or NUL-separated), relative to SOURCE; directories include what is in them",
    ),
    ("one_file_system", "Exclude what is on other file systems", "Their mount points are included"),
];

/// Describes arguments of a command in other words.
fn described(command: Command, words: &[(&'static str, &'static str, &'static str)]) -> Command {
    // Unlike `mut_arg`, this keeps the order of the arguments.
    command.mut_args(|argument| {
        let own = words.iter().find(|(name, ..)| argument.get_id() == name);
        match own {
            None => argument,
            Some((_, line, "")) => argument.help(*line).long_help(None::<&str>),
            Some((_, line, more)) => argument.help(*line).long_help(format!("{line}\n\n{more}")),
        }
    })
}

/// Lets a command take a single source.
fn of_one_source(verb: Command) -> Command {
    verb.mut_arg("sources", |sources| sources.num_args(1).action(ArgAction::Set))
}

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
        .mut_subcommand("verify", |verify| described(verify, &VERIFY_WORDS))
        .mut_subcommand("explain", |explain| described(explain, &EXPLAIN_WORDS))
        .mut_subcommand("ls", without(&OF_AGENTS))
        .mut_subcommand("sync", of_one_source)
        .mut_subcommand("verify", of_one_source)
}

/// As [`command`], for one command line: `-h` shows the common options only, `--help` all of them, and `--pairs` names all
/// sources and targets.
pub fn command_for(arguments: &[OsString]) -> Command {
    let options = || arguments.iter().take_while(|argument| *argument != "--");
    let command =
        match options().any(|argument| argument == "-h") && !options().any(|argument| argument == "--help") {
            true => short_help(command()),
            false => full_help(command()),
        };
    let is_pairs = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"--pairs");
    if !options().any(is_pairs) {
        return command;
    }
    let without_places = |verb: Command| {
        verb.mut_arg("sources", |sources| sources.required(false).num_args(1).action(ArgAction::Set))
            .mut_arg("target", |target| target.required(false))
    };
    ["copy", "sync", "verify"].into_iter().fold(command, |all, verb| all.mut_subcommand(verb, without_places))
}

/// The options that `-h` shows, of verbs that have many.
const COMMON_OPTIONS: [&str; 25] = [
    "sources",
    "target",
    "dry_run",
    "detach",
    "verify",
    "compare",
    "sample",
    "exclude",
    "include",
    "files_from",
    "delete",
    "max_delete",
    "ssh",
    "sudo",
    "lanes",
    "bwlimit",
    "compress",
    "confirm",
    "live",
    "long",
    "recursive",
    "report",
    "json",
    "verbose",
    "quiet",
];

/// Shows the options that `-h` leaves out: full help and manual pages are made from what clap takes for the short help.
pub fn with_all_options(command: Command) -> Command {
    command.mut_args(|option| option.hide_short_help(false)).mut_subcommands(with_all_options)
}

/// The help of all verbs with all options, each described in full.
pub fn full_help(command: Command) -> Command {
    with_all_options(command).mut_args(described_in_full).mut_subcommands(full_help)
}

fn described_in_full(option: Arg) -> Arg {
    let Some(long) = option.get_long_help().map(ToString::to_string) else { return option };
    let sentences: Vec<_> = long.split("\n\n").map(|sentence| sentence.trim_end_matches('.')).collect();
    option.help(sentences.join(". "))
}

/// The help of all verbs on one screen: common options, one line for each.
pub fn short_help(command: Command) -> Command {
    let above = command.get_name().to_owned();
    let command = command.mut_subcommands(|verb| {
        let is_long = verb.get_arguments().any(|option| option.get_id() == "dry_run");
        let name = match verb.get_name() {
            name if above == "hakobu" => name.to_owned(),
            name => format!("{above} {name}"),
        };
        let verb = short_help(verb).mut_args(|option| {
            let is_common = COMMON_OPTIONS.contains(&option.get_id().as_str());
            let is_of_stores = OF_STORES.contains(&option.get_id().as_str());
            let is_hidden = option.is_hide_set() || (is_long && !is_common) || is_of_stores;
            let takes_values = option.get_action().takes_values();
            option.hide(is_hidden).hide_default_value(takes_values)
        });
        match verb.get_after_help().is_some() || is_long {
            true => verb.after_help(format!("See `hakobu {name} --help` for all options and examples.")),
            false => verb,
        }
    });
    command.mut_args(|option| option.help_heading(None::<&str>))
}

/// Returns the command without its hidden parts, for completions.
pub fn offered(command: &Command) -> Command {
    let shown = Command::new(command.get_name().to_owned())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()))
        .subcommands(command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(offered))
        .disable_help_subcommand(true)
        .disable_help_flag(true)
        .disable_version_flag(true);
    match (command.get_about().cloned(), command.get_version().map(str::to_owned)) {
        (Some(about), Some(version)) => shown.about(about).version(version),
        (Some(about), None) => shown.about(about),
        _ => shown,
    }
}
