//! The arguments of `copy`, `sync` and `verify`, and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::filter::FilterArguments;
use super::login::LoginArguments;
use crate::limits::LimitArguments;

pub(crate) const COPY_HELP: &str = "\
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

pub(crate) const SYNC_HELP: &str = "\
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

pub(crate) const VERIFY_HELP: &str = "\
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

    /// List each entry that was created, updated or deleted, on standard output
    #[arg(long, help_heading = "What is said")]
    pub itemize: bool,

    /// Append changes, failures and notes to this file, each with the time
    #[arg(long, value_name = "FILE", help_heading = "What is said")]
    pub log_file: Option<PathBuf>,

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
