//! The arguments of `copy`, `sync` and `verify`, and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::shared::filter::FilterArguments;
use crate::commands::shared::headings::{CONNECTION, DELETION, DISKS, OUTPUT, PERFORMANCE, STORES, TRANSFER};
use crate::commands::shared::limits::LimitArguments;
use crate::commands::shared::login::LoginArguments;
use crate::commands::shared::store::{ObjectArguments, StoreArguments};

pub(crate) const COPY_HELP: &str = "\
Files whose size and modification time are equal on both sides are skipped. Modes, times, links and, as root, owners are \
preserved. A file appears under its final name only when it is complete.

Paths are interpreted as rsync does: `dir` is copied to TARGET/dir, `dir/` copies its contents into TARGET. A file is copied \
to TARGET, or into it if TARGET is a directory or ends in a slash.

Examples:
  hakobu copy big.img host:/images/          push one file into a directory
  hakobu copy host:/srv/data .               pull a tree to ./data
  hakobu copy data/ host:/backup/data        the contents of data, not data itself
  hakobu copy one:/data two:/data            between two hosts, directly if possible
  hakobu copy data ssh://me@host:2222/data   another user, another port
  hakobu copy -n data host:/backup           dry run
  hakobu copy /dev/sdb host:/dev/sdc         disk to disk: asks for the target's ID
  hakobu copy /dev/sdb host:/images/sdb.img  disk to image; zeros become holes
  hakobu copy host:/dev/sdb - | zstd >s.zst  one file or disk to standard output
  zfs send p@s | hakobu copy - host:/b/p.zfs standard input to a file or disk
  hakobu copy data/ s3://bucket/data         to S3, with the credentials of aws

If a copy is interrupted, run the same command again: complete files are skipped, and disks and files of 64 MiB or more \
resume where they stopped.

Exit codes: 0 complete and on stable storage, 1 failed, 2 wrong usage, 3 some entries failed (listed), 5 a source changed \
while it was read, 6 refused (it would destroy data, cannot fit, is not allowed or already runs), 130 \
interrupted.";

pub(crate) const SYNC_HELP: &str = "\
For a tree, missing and changed entries are copied as by `hakobu copy`. Then, and only if nothing failed, entries that SOURCE \
does not have are deleted from TARGET: hakobu shows how many there are, with examples, and asks; --delete and --delete-during answer in advance. \
If more than half of TARGET's entries would be deleted, none is, unless --max-delete allows it. A directory where a file must go is \
deleted under the same rules. A file where a directory must go is replaced without asking.

For a disk or a single file, both sides read their own data and compare digests of 256 KiB blocks; only blocks that differ \
are sent and written. Each side is read once. An existing disk or file is changed in place: if the run is interrupted, it \
holds a mix of old and new data until the same command completes.

Examples:
  hakobu sync data/ host:/backup/data        make the tree identical; asks to delete
  hakobu sync --delete data/ host:/backup/data
  hakobu sync -n data/ host:/backup/data     dry run
  hakobu sync /dev/sdb host:/dev/sdc         make the remote disk identical
  hakobu sync /dev/vg0/data host:/img/data   update an image of a volume
  hakobu sync disk.img host:/dev/sdc --confirm ID

Exit codes: those of `hakobu copy`.";

pub(crate) const VERIFY_HELP: &str = "\
Both sides read their own data; only digests are sent. For a tree, names, kinds, permissions, owners, times, extended \
attributes and content are compared, and each difference is one line on standard output. As with `hakobu copy`, `dir` is \
compared with TARGET/dir, `dir/` with TARGET. For a disk, as many bytes are compared as SOURCE has; TARGET may be larger. A \
single file is compared like a file in a tree. Of a disk, only the content is compared.

Examples:
  hakobu verify data/ host:/srv/data
  hakobu verify data/ host:/srv/data --sample 5%   content of 5 % of the files
  hakobu verify /dev/sdb host:/dev/sdc

Exit codes: 0 equal, 1 failed, 2 wrong usage, 3 some entries could not be compared (listed), 4 differences found (listed), 5 \
the source changed while it was read, 6 refused, 130 interrupted.";

/// The arguments of `copy`, `sync` and `verify`.
#[derive(Debug, Args)]
pub struct CopyArguments {
    /// Path, host:path, ssh://host:port/path, sftp://host/path, rsync://host/module/path, s3://bucket/path, az://container/path or gs://bucket/path
    // Without an index, the order in which arguments are described would decide which is which.
    #[arg(required = true, value_name = "SOURCE", index = 1)]
    pub sources: Vec<OsString>,

    /// Target, in the same form
    #[arg(required = true, value_name = "TARGET", index = 2)]
    pub target: Option<OsString>,

    /// Show what would be done, change nothing
    #[arg(short = 'n', long, help_heading = TRANSFER)]
    pub dry_run: bool,

    /// Run in the background, see hakobu jobs
    #[arg(long, help_heading = TRANSFER, conflicts_with = "json")]
    pub detach: bool,

    /// Choose the verification: wire, medium, none
    ///
    /// `wire` verifies everything that is copied; `medium` also reads back what was written (one file or disk only); `none`
    /// verifies nothing. Default: as `wire`; but where a local copy of a large file can be a reflink (btrfs, XFS), or an
    /// object store copies by itself, nothing is read or verified here
    #[arg(long, value_name = "HOW", hide_possible_values = true, help_heading = TRANSFER,
        value_parser = PossibleValuesParser::new(["none", "wire", "medium"]))]
    pub verify: Option<String>,

    /// Compare by: times (size and time), digest (content)
    #[arg(long, value_name = "HOW", default_value = "times", hide_possible_values = true, help_heading = TRANSFER,
        value_parser = PossibleValuesParser::new(["times", "digest"]))]
    pub compare: String,

    /// Compare the content of a random sample, such as 5%
    ///
    /// Names and attributes are always compared
    #[arg(long, value_name = "PERCENT", help_heading = TRANSFER)]
    pub sample: Option<String>,

    /// Read all content, also where a store keeps its digest
    ///
    /// Otherwise such a digest is compared instead, if the store's own checksum proves that the content has not changed
    /// since
    #[arg(long, help_heading = TRANSFER)]
    pub full: bool,

    /// Discard the state of an interrupted run and start over
    #[arg(long, help_heading = TRANSFER)]
    pub restart: bool,

    /// How long to retry after a lost connection
    ///
    /// Default: 30s, with --detach 1h
    #[arg(long, value_name = "DURATION", help_heading = TRANSFER)]
    pub retry_for: Option<String>,

    /// Update changed files in place
    ///
    /// This needs no extra space. A target file with several hard links is replaced by a new file. If the run is interrupted,
    /// the file is half updated
    #[arg(long, help_heading = TRANSFER, conflicts_with = "whole_file")]
    pub in_place: bool,

    /// In a tree, send all of a large file that changed, not only the changed blocks
    #[arg(short = 'W', long, help_heading = TRANSFER)]
    pub whole_file: bool,

    /// Attributes to preserve or not: no-owner, no-acl, no-xattr, no-hardlinks, selinux
    ///
    /// What is not named keeps its default: owner, acl, xattr and hardlinks are preserved, selinux is not. Mode and times
    /// always are
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = TRANSFER)]
    pub preserve: Vec<String>,

    /// Map owner and group by name; keep the number if the target lacks the name
    #[arg(long, help_heading = TRANSFER)]
    pub by_name: bool,

    /// Also accept these from another host: setuid, devices
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true, help_heading = TRANSFER,
        value_parser = PossibleValuesParser::new(["setuid", "devices"]))]
    pub allow: Vec<String>,

    /// Fail instead of dropping any of: xattr, acl, hardlinks, holes, owner, setid, flags, times
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = TRANSFER)]
    pub require: Vec<String>,

    /// none: do not wait until the data is on stable storage
    #[arg(long, value_name = "none", hide_possible_values = true, help_heading = TRANSFER,
        value_parser = PossibleValuesParser::new(["none"]))]
    pub durable: Option<String>,

    /// Which entries take part.
    #[command(flatten)]
    pub filter: FilterArguments,

    /// Delete extra entries at the target without asking
    #[arg(long, help_heading = DELETION)]
    pub delete: bool,

    /// Delete first, without asking, before anything is copied
    #[arg(long, help_heading = DELETION)]
    pub delete_during: bool,

    /// Largest number (N) or share (N%) of entries to delete
    ///
    /// If more would be deleted, nothing is. Default: 50%
    #[arg(long, value_name = "N", help_heading = DELETION)]
    pub max_delete: Option<String>,

    /// The login on the other machine.
    #[command(flatten)]
    pub login: LoginArguments,

    /// Address of the other host for data, if it is not that of the login
    #[arg(long, value_name = "ADDR", help_heading = CONNECTION)]
    pub data_address: Option<String>,

    /// TCP port for data, to be opened in the firewall
    ///
    /// Default: any free port
    #[arg(long, value_name = "N", help_heading = CONNECTION,
        value_parser = clap::value_parser!(u16).range(1..))]
    pub data_port: Option<u16>,

    /// How to transfer: auto, agent, ssh, sftp, rsync
    ///
    /// `agent` uses data connections on open ports; `ssh` sends the data through ssh
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = CONNECTION,
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["auto", "agent", "ssh", "sftp", "rsync"]))]
    pub transport: String,

    /// Cipher: auto, aes-128-gcm, aes-256-gcm, chacha20-poly1305, none
    ///
    /// Use none only on a network you trust
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = CONNECTION,
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(
            ["auto", "aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "none"]))]
    pub cipher: String,

    /// File with the password for an rsync daemon
    ///
    /// Environment: RSYNC_PASSWORD, the password itself
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    pub password_file: Option<PathBuf>,

    /// Number of parallel connections, or auto
    #[arg(long, value_name = "N", default_value = "auto", help_heading = PERFORMANCE)]
    pub lanes: String,

    /// Compression: auto, none, zstd, zstd:LEVEL
    ///
    /// `auto` compresses when the network is the bottleneck
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = PERFORMANCE)]
    pub compress: String,

    /// The limits of the run.
    #[command(flatten)]
    pub limits: LimitArguments,

    /// Run at the lowest CPU and I/O priority on all hosts
    #[arg(long, help_heading = PERFORMANCE)]
    pub nice: bool,

    /// ID of the disk to overwrite (see hakobu disks)
    ///
    /// Nothing is asked. Repeat it for several disks
    #[arg(long, value_name = "ID", help_heading = DISKS)]
    pub confirm: Vec<String>,

    /// Read a disk in use; the copy may be inconsistent
    #[arg(long, help_heading = DISKS)]
    pub live: bool,

    /// Read pairs of SOURCE and TARGET from FILE, one pair a line
    ///
    /// They take the place of the arguments. Quote a name that contains spaces; lines that begin with # are comments
    #[arg(long, value_name = "FILE", help_heading = DISKS, conflicts_with_all = ["sources", "target"])]
    pub pairs: Option<PathBuf>,

    /// If the source cannot be read: stop, or skip
    ///
    /// `skip` fills unreadable areas with zeros, lists them and continues
    #[arg(long, value_name = "HOW", default_value = "stop", help_heading = DISKS,
        hide_possible_values = true, value_parser = PossibleValuesParser::new(["stop", "skip"]))]
    pub on_read_error: String,

    /// Copy a disk in use in N passes, the last one after --before-last-pass
    #[arg(long, value_name = "N", help_heading = DISKS,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub passes: Option<u32>,

    /// Repeat passes until the next is expected to take less than this; it is then the last
    #[arg(long, value_name = "DURATION", help_heading = DISKS)]
    pub until_under: Option<String>,

    /// Run this command here before the last pass, to freeze the source: 'fsfreeze -f /data'
    #[arg(long, value_name = "COMMAND", help_heading = DISKS)]
    pub before_last_pass: Option<String>,

    /// Run this command here after the last pass, whatever its result: 'fsfreeze -u /data'
    #[arg(long, value_name = "COMMAND", help_heading = DISKS)]
    pub after_last_pass: Option<String>,

    /// The options for reaching object stores.
    #[command(flatten)]
    pub store: StoreArguments,

    /// Profile for the source, if the target has another one
    ///
    /// --profile is then that of the target
    #[arg(long, value_name = "NAME", help_heading = STORES)]
    pub source_profile: Option<String>,

    /// The options for objects that are written.
    #[command(flatten)]
    pub objects: ObjectArguments,

    /// Write a JSON report to this file
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub report: Option<PathBuf>,

    /// List each created, updated and deleted entry on standard output
    #[arg(long, help_heading = OUTPUT)]
    pub itemize: bool,

    /// Append changes, failures and notes to this file, with times
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub log_file: Option<PathBuf>,

    /// Print events as JSON, one object per line
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// Explain each decision with its figures
    #[arg(long, help_heading = OUTPUT)]
    pub why: bool,

    /// Print more details in the summary
    #[arg(short, long, help_heading = OUTPUT, conflicts_with = "quiet", overrides_with = "verbose")]
    pub verbose: bool,

    /// Print errors only
    #[arg(short, long, help_heading = OUTPUT, overrides_with = "quiet")]
    pub quiet: bool,

    /// Not in this version
    #[arg(long, value_name = "SIZE", hide = true)]
    pub memory: Option<String>,
}
