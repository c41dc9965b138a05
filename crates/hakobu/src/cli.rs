//! What can be typed. Help, manual and completions come from these definitions.
//!
//! Options of later versions are here as well, hidden, so that they are refused by name.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{ArgAction, Args, Command, CommandFactory, Parser, Subcommand};
use hakobu_core::job::Mode;

mod make_data;

pub use self::make_data::{MakeData, MakeDiskArguments, MakeTreeArguments};
use crate::bench::{self, BenchArguments};
use crate::disks::{DISKS_HELP, DisksArguments};
use crate::doctor::{DOCTOR_HELP, DoctorArguments};
use crate::jobs::SET_HELP;
use crate::limits::LimitArguments;
use crate::login::LoginArguments;
use crate::probe::{self, ProbeArguments};
use crate::report::{self, ReportArguments};
use crate::rules::RuleArguments;
use crate::settings_file::{self, SETTINGS_HELP, SettingsArguments};

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
    #[command(after_help = SETTINGS_HELP, override_usage = settings_file::USAGE)]
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
        /// The job's ID, or how it begins.
        id: String,
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

const JOBS_HELP: &str = "\
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

const COPY_HELP: &str = "\
Files whose size and time are equal on both sides are left alone. Modes, times, links and, as root,
owners are kept. A file appears under its name only when it is complete.

Where things land: as with rsync. `dir` goes to TARGET/dir, `dir/` gives its contents to TARGET.
A file goes to TARGET, or into it if it is a directory or ends in a slash.

Examples:
  hakobu copy big.img host:/images/          push one file into a directory
  hakobu copy host:/srv/data .               pull a tree to ./data
  hakobu copy data/ host:/backup/data        the contents of data, not the directory itself
  hakobu copy one:/data two:/data            from host to host, not through this machine
  hakobu copy data ssh://me@host:2222/data   another user, another port
  hakobu copy -n data host:/backup           only say what would be done
  hakobu copy /dev/sdb host:/dev/sdc         a disk onto a disk: shows it, and asks for its ID
  hakobu copy /dev/sdb host:/images/sdb.img  a disk into an image; zeros become holes
  hakobu copy host:/dev/sdb - | zstd >s.zst  one file or disk to standard output
  zfs send p@s | hakobu copy - host:/b/p.zfs standard input into a file or onto a disk

Interrupted? Run it again: complete files stay, disks and files from 64 MiB go on where they were.

Exit codes: 0 done and stable at the target, 1 failed, 2 wrong usage, 3 partly done (some entries
failed, each is listed), 5 a source changed while it was read, 6 refused (it would destroy, another
run is under way, or --require cannot be met), 130 interrupted.";

const SYNC_HELP: &str = "\
Of a tree, what is missing or different is brought over as by `hakobu copy`. After that, and only if
nothing failed, what the source lacks is removed at the target: how much that is, with examples, is
shown and asked, or agreed to beforehand with --delete. More than half of the target's entries never
go unless --max-delete allows it. What is in the way of something of another kind goes as well.

Of a disk or a file, both sides read their own data and compare digests of pieces of 256 KiB; only
pieces that differ travel and are written. Each side is read once. A disk or file that is there is
changed in place: if the run is interrupted it is a mixture of old and new until the same command
has ended well. What is not there yet is made as `hakobu copy` makes it.

Examples:
  hakobu sync data/ host:/backup/data        make the tree equal; asks before it deletes
  hakobu sync --delete data/ host:/backup/data
  hakobu sync -n data/ host:/backup/data     only say what would be done
  hakobu sync /dev/sdb host:/dev/sdc         make the disk on host equal to this one
  hakobu sync /dev/vg0/data host:/img/data   keep an image of a volume up to date
  hakobu sync disk.img host:/dev/sdc --confirm ID

Exit codes are those of hakobu copy.";

const AGENT_HELP: &str = "\
With --restrict a key gives files of one directory, and nothing else: no shell, no other files, no
disks, no connections. On the far machine, in ~/.ssh/authorized_keys:

  restrict,command=\"hakobu agent --restrict /backup --read-only\" ssh-ed25519 AAAA... laptop

Whoever has the key uses hakobu copy, sync, verify and digest as ever: hakobu copy host:/backup/a .
Paths that do not begin with a slash count from the directory. The agent checks every request, and
has the kernel lock it in (landlock, Linux 6.2 or later); where that cannot be had it does not start.";

const EXPLAIN_HELP: &str = "\
Rules are as in .gitignore: the last one that matches decides, a pattern with a slash in it is
relative to SOURCE, one that ends in a slash is for directories, and nothing takes part within a
directory that is left out. sync removes nothing that a rule leaves out.

Examples:
  hakobu explain build/x.o data --exclude '*.o'
  hakobu explain notes/a.txt data --filter-file rules --newer-than 7d

Exit codes: 0 it takes part; 3 it is left out by a rule, by a limit such as --newer-than, or since
--files-from does not list it; 1 failed, as where there is no such entry; 2 wrong usage.";

const VERIFY_HELP: &str = "\
Both sides read their own data; only digests travel. Of a tree names, kinds, permissions, owners,
times, extended attributes and content are compared, and each difference is a line on standard
output. `dir` is compared with TARGET/dir, `dir/` with TARGET, as hakobu copy would place it. Of a
disk as many bytes are compared as SOURCE has; TARGET may be larger. Of a single file the same is
compared as of a file in a tree; of a disk or a stream only the content.

Examples:
  hakobu verify data/ host:/srv/data
  hakobu verify data/ host:/srv/data --sample 5%   read 5 % of the files, and all names
  hakobu verify /dev/sdb host:/dev/sdc

Exit codes: 0 equal, 1 failed, 2 wrong usage, 3 some of it could not be compared (listed), 4 there
are differences (listed), 5 the source changed while it was read, 6 refused, 130 interrupted.";

const DIGEST_HELP: &str = "\
The data is read on the machine where it is, a disk past the page cache, on all cores for BLAKE3;
only digests travel. A link that is named is followed. Of a tree each file has a line, as b3sum
prints it, with its path on that machine and in no particular order; `b3sum --check` reads it there,
but for names that are not UTF-8.

Examples:
  hakobu digest disk.img                     what b3sum disk.img prints
  hakobu digest host:/dev/sdb                of a disk, read on host
  hakobu digest --algorithm sha256 host:/images/disk.img

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 parts could not be read (--on-read-error skip), 5 it
changed while it was read, 6 refused (it is in use), 130 interrupted.";

/// The arguments of `digest`.
#[derive(Debug, Args)]
pub struct DigestArguments {
    /// A file, tree or block device: a path, host:path or ssh://host:port/path
    #[arg(value_name = "LOCATION")]
    pub location: OsString,

    /// blake3, sha256
    #[arg(long, value_name = "NAME", default_value = "blake3", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["blake3", "sha256"]))]
    pub algorithm: String,

    /// Read a disk that is in use; what is written meanwhile may be in it or not
    #[arg(long)]
    pub live: bool,

    /// stop, or skip: take zeros for what cannot be read, and list it
    #[arg(long, value_name = "HOW", default_value = "stop", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["stop", "skip"]))]
    pub on_read_error: String,

    /// Print JSON objects instead of lines
    #[arg(long)]
    pub json: bool,

    /// The login on the other machine.
    #[command(flatten)]
    pub login: LoginArguments,
}

/// The arguments of `copy`, `sync` and `verify`.
#[derive(Debug, Args)]
pub struct CopyArguments {
    /// A path, host:path, ssh://host:port/path or rsync://host/module/path; one or more
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<OsString>,

    /// Where it goes, in the same terms
    #[arg(required = true, value_name = "TARGET")]
    pub target: Option<OsString>,

    /// Only say what would be done
    #[arg(short = 'n', long)]
    pub dry_run: bool,

    /// Go on without this terminal, as a job that can be paused and resumed (see hakobu jobs)
    #[arg(long, conflicts_with_all = ["dry_run", "json"])]
    pub detach: bool,

    /// wire: check local copies too, by reading; medium: read back from the disk what was written, of one
    /// disk or file; none: check nothing [default: check what travels]
    #[arg(long, value_name = "HOW", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["none", "wire", "medium"]))]
    pub verify: Option<String>,

    /// The disk to overwrite, by its ID (see hakobu disks): nothing is asked; once for each
    #[arg(long, value_name = "ID", help_heading = "Disks")]
    pub confirm: Vec<String>,

    /// Read a disk in use; what is written meanwhile may be copied half
    #[arg(long, help_heading = "Disks")]
    pub live: bool,

    /// Several disks or files: a file with SOURCE and TARGET on each line
    #[arg(long, value_name = "FILE", help_heading = "Disks", conflicts_with_all = ["sources", "target"])]
    pub pairs: Option<PathBuf>,

    /// This many passes over a disk in use, the last one after --before-last-pass (sync)
    #[arg(long, value_name = "N", help_heading = "Disks",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub passes: Option<u32>,

    /// Passes until the last one will be shorter than this (sync)
    #[arg(long, value_name = "DURATION", help_heading = "Disks")]
    pub until_under: Option<String>,

    /// Run this here before the last pass, to hold the source still: 'fsfreeze -f /data'
    #[arg(long, value_name = "COMMAND", help_heading = "Disks")]
    pub before_last_pass: Option<String>,

    /// Run this here after the last pass, however it ended: 'fsfreeze -u /data'
    #[arg(long, value_name = "COMMAND", help_heading = "Disks")]
    pub after_last_pass: Option<String>,

    /// stop, or skip: go on behind what cannot be read, with zeros in its place, and list it
    #[arg(long, value_name = "HOW", default_value = "stop", help_heading = "Disks",
        hide_possible_values = true, value_parser = PossibleValuesParser::new(["stop", "skip"]))]
    pub on_read_error: String,

    /// Which entries take part.
    #[command(flatten)]
    pub filter: FilterArguments,

    /// Remove what the source lacks without a question (sync)
    #[arg(long, help_heading = "Deletion")]
    pub delete: bool,

    /// Remove it before anything is brought over, not after everything has been (sync)
    #[arg(long, help_heading = "Deletion")]
    pub delete_during: bool,

    /// Remove so many entries at most, 1000 or 20%; if there are more, none [default: 50%] (sync)
    #[arg(long, value_name = "N", help_heading = "Deletion")]
    pub max_delete: Option<String>,

    /// Forget what an interrupted run has brought over, and begin anew
    #[arg(long)]
    pub restart: bool,

    /// Do not lose: xattr, acl, hardlinks, holes, owner, setid, flags, times
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub require: Vec<String>,

    /// times: files of one size and time are equal; digest: only those of one content, read on both sides
    #[arg(long, value_name = "HOW", default_value = "times", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["times", "digest"]))]
    pub compare: String,

    /// Write what differs into files where they lie; links and room are kept, an interruption leaves a mixture
    #[arg(long, help_heading = "What is sent", conflicts_with = "whole_file")]
    pub in_place: bool,

    /// Send all of a large file that changed, not only what differs
    #[arg(long, help_heading = "What is sent")]
    pub whole_file: bool,

    /// Compare the content of so many files only, 5%, and all names and attributes
    #[arg(long, value_name = "PERCENT", help_heading = "What is compared")]
    pub sample: Option<String>,

    /// What to keep besides content, mode and times, or with no- in front what not: owner, acl, xattr, hardlinks;
    /// selinux only if it is named [default: all but selinux]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub preserve: Vec<String>,

    /// Owner and group by name, where the target has it, not by number
    #[arg(long)]
    pub by_name: bool,

    /// From another machine, keep or compare these too: setuid, devices
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["setuid", "devices"]))]
    pub allow: Vec<String>,

    /// none: do not wait until everything is on stable storage
    #[arg(long, value_name = "none", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["none"]))]
    pub durable: Option<String>,

    /// Let other processes go first, on all machines
    #[arg(long)]
    pub nice: bool,

    /// Try again for so long after the connection is lost [default: 30s, with --detach 1h]
    #[arg(long, value_name = "DURATION")]
    pub retry_for: Option<String>,

    /// The login on the other machine.
    #[command(flatten)]
    pub login: LoginArguments,

    /// The other machine's address for data, where it is not that of the login
    #[arg(long, value_name = "ADDR", help_heading = "The way there")]
    pub data_address: Option<String>,

    /// One port for data, to be opened in a firewall [default: any free one]
    #[arg(long, value_name = "N", help_heading = "The way there",
        value_parser = clap::value_parser!(u16).range(1..))]
    pub data_port: Option<u16>,

    /// How many lanes move data: a number, or auto
    #[arg(long, value_name = "N", default_value = "auto", help_heading = "The way there")]
    pub lanes: String,

    /// What the run is held to.
    #[command(flatten)]
    pub limits: LimitArguments,

    /// auto, aes-128-gcm, aes-256-gcm, chacha20-poly1305; none only on a network you trust
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = "The way there",
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(
            ["auto", "aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "none"]))]
    pub cipher: String,

    /// auto (where the line limits), none, zstd, zstd:LEVEL
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "The way there")]
    pub compress: String,

    /// auto, agent (by open ports), ssh, sftp, rsync
    #[arg(long, value_name = "WAY", default_value = "auto", help_heading = "The way there",
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["auto", "agent", "ssh", "sftp", "rsync"]))]
    pub transport: String,

    /// The password of an rsync daemon; or RSYNC_PASSWORD
    #[arg(long, value_name = "FILE", help_heading = "The way there", hide = true)]
    pub password_file: Option<PathBuf>,

    /// Write a report, one JSON object, to this file
    #[arg(long, value_name = "FILE", help_heading = "What is said")]
    pub report: Option<PathBuf>,

    /// Events as JSON on standard output, one object a line
    #[arg(long, help_heading = "What is said")]
    pub json: bool,

    /// Say why each decision was made, with its figures
    #[arg(long, help_heading = "What is said")]
    pub why: bool,

    /// Say more at the end
    #[arg(short, long, help_heading = "What is said", conflicts_with = "quiet")]
    pub verbose: bool,

    /// Say nothing but errors
    #[arg(short, long, help_heading = "What is said")]
    pub quiet: bool,

    /// Not in this version
    #[arg(long, value_name = "SIZE", hide = true)]
    pub memory: Option<String>,
}

/// Which entries take part.
#[derive(Debug, Default, Args)]
pub struct FilterArguments {
    /// Rules.
    #[command(flatten)]
    pub rules: RuleArguments,

    /// Only the paths in this file, relative to SOURCE, a line or a NUL behind each; what is not there fails
    #[arg(long, value_name = "FILE", help_heading = "What takes part")]
    pub files_from: Option<PathBuf>,

    /// Only files changed since then: 7d ago, or 2026-11-01
    #[arg(long, value_name = "WHEN", help_heading = "What takes part")]
    pub newer_than: Option<String>,

    /// Only files not changed since then
    #[arg(long, value_name = "WHEN", help_heading = "What takes part")]
    pub older_than: Option<String>,

    /// Only files of this size or more
    #[arg(long, value_name = "SIZE", help_heading = "What takes part")]
    pub min_size: Option<String>,

    /// Only files of this size or less
    #[arg(long, value_name = "SIZE", help_heading = "What takes part")]
    pub max_size: Option<String>,

    /// Make directories on which other file systems are mounted, but do not look into them
    #[arg(short = 'x', long, help_heading = "What takes part")]
    pub one_file_system: bool,
}

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// An entry of the tree, below SOURCE
    #[arg(value_name = "PATH")]
    pub path: OsString,

    /// The tree, on this machine
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,

    /// Which entries take part.
    #[command(flatten)]
    pub filter: FilterArguments,
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
const OF_WRITING: [&str; 7] =
    ["confirm", "restart", "verify", "durable", "require", "on_read_error", "compare"];
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
