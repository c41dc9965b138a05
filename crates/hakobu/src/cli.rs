//! What can be typed. Help, manual and completions come from these definitions.
//!
//! Options of later versions are here as well, hidden, so that they are refused by name.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Command, Parser, Subcommand};

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
    /// Make TARGET equal to SOURCE, sending only what differs (one disk or file in this version)
    #[command(after_help = SYNC_HELP)]
    Sync(Box<CopyArguments>),
    /// Compare both sides, read where they are, and list what differs; writes nothing (one disk or file)
    #[command(after_help = VERIFY_HELP)]
    Verify(Box<CopyArguments>),
    /// Serve the other side (started over ssh)
    #[command(hide = true)]
    Agent,
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

Interrupted? Run the same command again: complete files are not sent again.

Exit codes: 0 done and stable at the target, 1 failed, 2 wrong usage, 3 partly done (some entries
failed, each is listed), 5 a source changed while it was read, 6 refused (it would destroy, another
run is under way, or --require cannot be met), 130 interrupted.";

const SYNC_HELP: &str = "\
Both sides read their own data and compare digests of pieces of 256 KiB; only pieces that differ
travel and are written. Each side is read once. A disk or file that is there is changed in place: if
the run is interrupted it is a mixture of old and new until the same command has ended well. What is not
there yet is made as `hakobu copy` makes it. Trees come with a later version.

Examples:
  hakobu sync /dev/sdb host:/dev/sdc         make the disk on host equal to this one
  hakobu sync /dev/vg0/data host:/img/data   keep an image of a volume up to date
  hakobu sync disk.img host:/dev/sdc --confirm ID

Exit codes are those of hakobu copy.";

const VERIFY_HELP: &str = "\
Both sides read their own data; only digests travel. TARGET may be larger than SOURCE if it is a disk: as
many bytes as SOURCE has are compared. Trees come with a later version.

Examples:
  hakobu verify /dev/sdb host:/dev/sdc
  hakobu verify disk.img host:/images/disk.img

Exit codes: 0 equal, 1 failed, 2 wrong usage, 4 there are differences (listed), 5 the source changed
while it was read, 6 refused, 130 interrupted.";

/// The arguments of `copy`, `sync` and `verify`.
#[derive(Debug, Args)]
pub struct CopyArguments {
    /// A path, host:path or ssh://host:port/path; several are possible
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<OsString>,

    /// Where it goes: a path, host:path or ssh://host:port/path
    #[arg(value_name = "TARGET")]
    pub target: OsString,

    /// Only say what would be done
    #[arg(short = 'n', long)]
    pub dry_run: bool,

    /// wire: check local copies too, by reading; medium: read back from the disk what was written, of one
    /// disk or file; none: check nothing [default: check what travels]
    #[arg(long, value_name = "HOW", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["none", "wire", "medium"]))]
    pub verify: Option<String>,

    /// The disk to overwrite, by its ID: no question is asked (see hakobu disks)
    #[arg(long, value_name = "ID", help_heading = "Disks")]
    pub confirm: Vec<String>,

    /// Read a disk that is in use; what is written meanwhile may be copied half
    #[arg(long, help_heading = "Disks")]
    pub live: bool,

    /// stop, or skip: go on behind what cannot be read, with zeros in its place, and list it
    #[arg(long, value_name = "HOW", default_value = "stop", help_heading = "Disks",
        hide_possible_values = true, value_parser = PossibleValuesParser::new(["stop", "skip"]))]
    pub on_read_error: String,

    /// Forget what an interrupted run has brought over, and begin anew
    #[arg(long)]
    pub restart: bool,

    /// Fail rather than lose: xattr, acl, hardlinks, holes, owner, setid
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub require: Vec<String>,

    /// none: do not wait until everything is on stable storage
    #[arg(long, value_name = "none", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["none"]))]
    pub durable: Option<String>,

    /// Try again for so long after the connection is lost
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub retry_for: String,

    /// The ssh to log in with, its options included: 'ssh -p 2222 -i key' [env: HAKOBU_SSH]
    #[arg(short = 'e', long, value_name = "COMMAND", help_heading = "The way there")]
    pub ssh: Option<OsString>,

    /// The hakobu on the other machine [default: found on its PATH, else uploaded for this run]
    #[arg(long, value_name = "PATH", help_heading = "The way there")]
    pub agent: Option<PathBuf>,

    /// Run the other side under sudo
    #[arg(long, help_heading = "The way there")]
    pub sudo: bool,

    /// The other machine's address for data, where it is not that of the login
    #[arg(long, value_name = "ADDR", help_heading = "The way there")]
    pub data_address: Option<String>,

    /// One port for all data connections, to be opened in a firewall [default: any free one]
    #[arg(long, value_name = "N", help_heading = "The way there",
        value_parser = clap::value_parser!(u16).range(1..))]
    pub data_port: Option<u16>,

    /// How many lanes move data: a number, or auto
    #[arg(long, value_name = "N", default_value = "auto", help_heading = "The way there")]
    pub lanes: String,

    /// auto, aes-128-gcm, aes-256-gcm, chacha20-poly1305; none only on a network you trust
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = "The way there",
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(
            ["auto", "aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "none"]))]
    pub cipher: String,

    /// auto, agent
    #[arg(long, value_name = "WAY", default_value = "auto", help_heading = "The way there",
        hide = true, value_parser = PossibleValuesParser::new(
            now_and_later(&["auto", "agent"], &["ssh", "sftp", "rsync"])))]
    pub transport: String,

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

    /// Not in this version, unless it is none
    #[arg(long, value_name = "HOW", hide = true)]
    pub compress: Option<String>,

    /// Not in this version
    #[arg(long, value_name = "RATE", hide = true)]
    pub bwlimit: Option<String>,

    /// Not in this version
    #[arg(long, value_name = "SIZE", hide = true)]
    pub memory: Option<String>,
}

/// The values of an option: those that work, and those of later versions, which are refused by name
/// and offered nowhere.
fn now_and_later(now: &[&'static str], later: &[&'static str]) -> Vec<PossibleValue> {
    let hidden = later.iter().map(|name| PossibleValue::new(*name).hide(true));
    now.iter().copied().map(PossibleValue::new).chain(hidden).collect()
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
