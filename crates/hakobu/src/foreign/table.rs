//! The foreign flags and their equivalents in hakobu.

/// How a command line with the flag is put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagFix {
    /// Leave the flag out: it asks for the default behaviour.
    Accept,
    /// Leave the flag out, once the user agrees.
    Drop,
    /// Give this to ssh; `{}` is the flag's value.
    Ssh(&'static str),
    /// Write this option with the flag's value.
    Option(&'static str),
    /// Write this in its place.
    Write(&'static str),
    /// Write `--cipher` with our name for the value.
    Cipher,
    /// It cannot be had.
    None,
}

/// A flag of another tool.
#[derive(Clone, Copy, Debug)]
pub struct ForeignFlag {
    /// True if the flag takes a value.
    pub takes_value: bool,
    /// The answer; `{}` is the flag's value.
    pub words: &'static str,
    /// How to put it right.
    pub fix: FlagFix,
}

const fn flag(words: &'static str, fix: FlagFix) -> ForeignFlag {
    ForeignFlag { takes_value: false, words, fix }
}

const fn valued(words: &'static str, fix: FlagFix) -> ForeignFlag {
    ForeignFlag { takes_value: true, words, fix }
}

const ARCHIVE: ForeignFlag =
    flag("directories, links, modes, times and, as root, owners are always copied", FlagFix::Accept);
const PROGRESS: ForeignFlag = flag(
    "progress is always shown on a terminal, and an interrupted copy resumes when it is run again",
    FlagFix::Accept,
);
/// The answer to those who ask for compression as elsewhere.
pub const COMPRESS: ForeignFlag =
    flag("data is compressed when the network is the bottleneck (--compress zstd: always)", FlagFix::Accept);
const CHECKSUM: ForeignFlag = flag(
    "comparing by content is --compare digest; data is always verified on the way",
    FlagFix::Write("--compare=digest"),
);
/// The answer to a copy that is to delete.
pub const DELETE_WORDS: &str = "copy never deletes; hakobu sync --delete does, after everything else has succeeded \
                                (--delete-during: before)";
const FORCE: ForeignFlag = flag(
    "there is no such option: errors name the remedy; --confirm ID overwrites a disk with content",
    FlagFix::None,
);
const DELETE_LAST: ForeignFlag =
    flag("--delete deletes after everything else has succeeded", FlagFix::Write("--delete"));
const DELETE_FIRST: ForeignFlag =
    flag("deleting before anything is copied is --delete-during", FlagFix::Write("--delete-during"));
const FILTER: ForeignFlag = valued(
    "filter rules are --exclude, --include and --filter-file; the last matching rule wins",
    FlagFix::None,
);
const LIMIT: ForeignFlag = valued(
    "the rate limit is --bwlimit, in bytes per second with a unit: --bwlimit 1M is 8 Mbit/s",
    FlagFix::None,
);
const EXTRAS: ForeignFlag = flag(
    "hard links, ACLs, extended attributes and holes are always preserved (--preserve no-… leaves one out)",
    FlagFix::Accept,
);
const TIMES: ForeignFlag = flag("access and creation times are not preserved", FlagFix::None);
const POLICY: ForeignFlag =
    flag("not in this version: every file whose size or time differs is updated", FlagFix::None);
const INTERACTIVE: ForeignFlag = flag(
    "the list of changes is --itemize, an ssh key is --ssh 'ssh -i FILE'; hakobu asks about deletions and disks only",
    FlagFix::None,
);
const IN_PLACE: ForeignFlag = flag("the option is --in-place", FlagFix::Write("--in-place"));
const DELTA: ForeignFlag =
    flag("sync sends only the changed parts of large files to another host", FlagFix::Accept);
const ACCOUNTS: ForeignFlag = valued(
    "owners are preserved by number, or by name with --by-name; --preserve no-owner leaves them out; other mappings are not in this version",
    FlagFix::None,
);
const SNAPSHOT: ForeignFlag = valued(
    "not in this version: link the last state aside with cp -al, then run hakobu sync; changed files become new files",
    FlagFix::None,
);
const UNLESS: ForeignFlag = flag("modes and times are always preserved", FlagFix::None);
const SAFE_LINKS: ForeignFlag = flag("symbolic links are copied as links, and never followed", FlagFix::None);
const LOG: ForeignFlag = valued(
    "the format is fixed: --itemize and --log-file FILE list the changes, --json prints events",
    FlagFix::None,
);
const ITEMIZE: ForeignFlag = flag("it is spelled --itemize", FlagFix::Write("--itemize"));
const PATIENCE: ForeignFlag = valued(
    "not in this version; start a job with --detach and stop it with hakobu jobs pause",
    FlagFix::None,
);
const DAEMON: ForeignFlag =
    valued("hakobu reaches other hosts by ssh; a single port for the data is --data-port", FlagFix::None);
const WHOLE: ForeignFlag = flag("copy always sends whole files", FlagFix::Accept);
const FASTEST: ForeignFlag = flag("hakobu finds out what is fastest", FlagFix::Accept);
const NUMBERS: ForeignFlag = flag("owners are preserved by number (--by-name: by name)", FlagFix::Accept);
const STATISTICS: ForeignFlag =
    flag("the figures are in the summary, and all of them in the file of --report", FlagFix::Accept);
const DRAFTS: ForeignFlag = valued(
    "an incomplete file is kept beside the file that it becomes; from 64 MiB on, the same command resumes it",
    FlagFix::Accept,
);
const DELAY: ForeignFlag =
    flag("not in this version: each file gets its name as soon as it is complete", FlagFix::Drop);
const SHALLOW: ForeignFlag = flag(
    "directories are copied with what is in them; --exclude '/*/*' copies only the first level",
    FlagFix::None,
);
const EMPTY_DIRECTORIES: ForeignFlag =
    flag("not in this version: directories are always created", FlagFix::None);
const BLOCK_SIZE: ForeignFlag = valued("hakobu chooses the block size", FlagFix::Accept);
const VERSION_CONTROL: ForeignFlag =
    flag("to exclude what version control ignores, use --filter-file .gitignore", FlagFix::None);
const REMOTE_OPTION: ForeignFlag = valued(
    "options hold for both sides; --sudo runs the remote side as root, --agent PATH names hakobu there",
    FlagFix::None,
);
const OWNERS: ForeignFlag =
    flag("owner and group are left out by --preserve no-owner", FlagFix::Write("--preserve=no-owner"));
const DEVICE_CONTENT: ForeignFlag = flag(
    "a block device that you name as SOURCE or TARGET is copied by content, without an option",
    FlagFix::Drop,
);
const BATCH: ForeignFlag = valued("not in this version: a run cannot be recorded in a file", FlagFix::None);
const SPECIAL: ForeignFlag = flag(
    "named pipes and, as root, device nodes are copied (from another host with --allow devices)",
    FlagFix::Accept,
);
const FOLLOW: ForeignFlag =
    flag("following symbolic links is not in this version; `link/` follows the one you name", FlagFix::None);
const RELATIVE: ForeignFlag = flag("name the directory you want in TARGET", FlagFix::None);
const BACKUP: ForeignFlag = flag("keeping backups of replaced files is not in this version", FlagFix::None);
/// The answer to `-h` among flags of rsync.
pub const HUMAN: ForeignFlag = flag("sizes are always printed with units", FlagFix::Accept);
const LANES: ForeignFlag =
    valued("the number of parallel connections is --lanes", FlagFix::Option("--lanes"));
const RESUME: ForeignFlag =
    flag("an interrupted copy resumes when the same command is run again", FlagFix::Accept);
const OVERWRITE: ForeignFlag = flag("files that differ are always replaced", FlagFix::Accept);
const YES: ForeignFlag =
    flag("questions are answered in advance: --delete for deletions, --confirm ID for disks", FlagFix::None);
const IDENTITY: ForeignFlag = valued("an ssh key is passed to ssh: --ssh 'ssh -i {}'", FlagFix::Ssh("-i {}"));
const FROM_NUL: ForeignFlag = flag("NUL-separated paths are recognised", FlagFix::Accept);
const APPEND: ForeignFlag =
    flag("if a file has grown, sync sends only its end, and checks all of it", FlagFix::Drop);
const NOT_HERE: ForeignFlag = flag("hakobu has no such mode", FlagFix::None);

fn is_number(value: Option<&str>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns true if this looks like the file of an ssh key.
fn is_key(value: Option<&str>) -> bool {
    let Some(value) = value.filter(|value| !value.contains(':')) else { return false };
    let name = value.rsplit('/').next().unwrap_or_default();
    value.contains(".ssh/") || name.starts_with("id_") || name.ends_with(".pem")
}

/// The answer to a flag of one letter that scp and rsync understand differently, as rsync does.
pub fn find_short_of_rsync(letter: char, value: Option<&str>) -> Option<ForeignFlag> {
    Some(match letter {
        'B' => BLOCK_SIZE,
        'C' => VERSION_CONTROL,
        'F' => flag("filter rules are --exclude, --include and --filter-file", FlagFix::None),
        'J' | 'O' => UNLESS,
        'T' if !is_number(value) => valued("temporary files are created next to their target", FlagFix::None),
        'f' => FILTER,
        'i' if !is_key(value) => ITEMIZE,
        'y' => POLICY,
        _ => return find_short(letter, value),
    })
}

/// The answer to a flag of one letter. `value` is what follows it; some letters mean different
/// things to scp and rsync, and what follows tells which tool was meant.
pub fn find_short(letter: char, value: Option<&str>) -> Option<ForeignFlag> {
    let digits = is_number(value);
    let cipher = value.is_some_and(|value| {
        ["aes", "chacha", "arcfour", "3des", "blowfish"].iter().any(|name| value.starts_with(name))
    });
    Some(match letter {
        'P' | 'p' if digits => {
            valued("the ssh port is given as ssh://host:{}/path, or --ssh 'ssh -p {}'", FlagFix::Ssh("-p {}"))
        }
        'P' => PROGRESS,
        'j' | 'T' if digits => LANES,
        'i' if is_key(value) => IDENTITY,
        'y' => YES,
        'l' if digits => LIMIT,
        'c' if cipher => {
            valued("the cipher is --cipher; auto chooses the fastest secure one", FlagFix::Cipher)
        }
        'c' => CHECKSUM,
        'a' | 'r' | 'p' | 'l' | 't' | 'g' => ARCHIVE,
        'z' | 'C' => COMPRESS,
        'u' | 'I' => POLICY,
        'H' | 'A' | 'X' | 'S' | 'E' => EXTRAS,
        'L' | 'k' | 'K' => FOLLOW,
        'D' => SPECIAL,
        'U' | 'N' => TIMES,
        'R' => RELATIVE,
        'b' => BACKUP,
        'W' => WHOLE,
        'i' => INTERACTIVE,
        'o' if value.is_some_and(|value| value.contains('=')) => {
            valued("ssh options are given as --ssh 'ssh -o {}'", FlagFix::Ssh("-o {}"))
        }
        'o' => ARCHIVE,
        'J' => valued("ssh options are given as --ssh 'ssh -J {}'", FlagFix::Ssh("-J {}")),
        'F' => valued("ssh options are given as --ssh 'ssh -F {}'", FlagFix::Ssh("-F {}")),
        '4' => flag("ssh options are given as --ssh 'ssh -4'", FlagFix::Ssh("-4")),
        '6' => flag("ssh options are given as --ssh 'ssh -6'", FlagFix::Ssh("-6")),
        'B' => {
            flag("ssh options are given as --ssh 'ssh -o BatchMode=yes'", FlagFix::Ssh("-o BatchMode=yes"))
        }
        '0' => FROM_NUL,
        '3' | 'T' | 'O' | 's' => flag("hakobu chooses how to connect the hosts", FlagFix::Accept),
        'f' => OVERWRITE,
        'd' => SHALLOW,
        'm' => EMPTY_DIRECTORIES,
        'M' => REMOTE_OPTION,
        _ => return None,
    })
}

/// The answer to a flag that is a word, with its dashes.
pub fn find_long(verb: &str, name: &str) -> Option<ForeignFlag> {
    let removes = verb == "sync";
    Some(match name {
        "--del" | "--delete-delay" | "--delete-after" if removes => DELETE_LAST,
        "--delete-before" if removes => DELETE_FIRST,
        "--delete-excluded" if removes => flag("excluded entries are never deleted", FlagFix::None),
        "--force" if removes => {
            flag("entries of another kind in the way are deleted with the others", FlagFix::Accept)
        }
        "--ignore-errors" => flag("after a failure nothing is deleted", FlagFix::None),
        "--remove-source-files" => flag("nothing is ever deleted at the source", FlagFix::None),
        "--archive" | "--recursive" | "--times" | "--perms" | "--owner" | "--group" | "--links"
        | "--no-dereference" => ARCHIVE,
        "--numeric-ids" => NUMBERS,
        "--progress" | "--partial" => PROGRESS,
        "--stats" => STATISTICS,
        "--append" | "--append-verify" => APPEND,
        "--resume" | "--continue" => RESUME,
        "--overwrite" | "--clobber" => OVERWRITE,
        "--yes" | "--assume-yes" => YES,
        "--jobs" | "--parallel" | "--threads" | "--transfers" | "--connections" | "--streams" => LANES,
        "--identity" => IDENTITY,
        "--info" => ForeignFlag { takes_value: true, ..PROGRESS },
        "--partial-dir" => DRAFTS,
        "--human-readable" => HUMAN,
        "--checksum" => CHECKSUM,
        "--force" => FORCE,
        "--exclude-from" => valued(
            "rules are read from a file with --filter-file FILE, in .gitignore syntax",
            FlagFix::Option("--filter-file"),
        ),
        "--filter" | "--include-from" => FILTER,
        "--from0" => FROM_NUL,
        "--delete-missing-args" => {
            flag("sync --delete with --files-from deletes listed paths that the source lacks", FlagFix::None)
        }
        "--ignore-missing-args" => flag(
            "not in this version: a path missing at the source is a failure (exit code 3)",
            FlagFix::None,
        ),
        "--modify-window" => valued(
            "hakobu finds out how exactly each side keeps times, and compares them so exactly",
            FlagFix::Drop,
        ),
        "--compress-level" | "--zl" => valued("a fixed level is --compress zstd:LEVEL", FlagFix::None),
        "--compress-choice" | "--zc" => valued("the choice is --compress auto, zstd or none", FlagFix::None),
        "--no-owner" | "--no-group" | "--no-o" | "--no-g" => OWNERS,
        "--copy-devices" | "--write-devices" => DEVICE_CONTENT,
        "--dirs" => SHALLOW,
        "--remote-option" => REMOTE_OPTION,
        "--block-size" => BLOCK_SIZE,
        "--cvs-exclude" => VERSION_CONTROL,
        "--write-batch" | "--read-batch" | "--only-write-batch" => BATCH,
        "--rsh" => valued("the option is --ssh, or -e", FlagFix::Option("--ssh")),
        "--rsync-path" => valued("the path of hakobu on the other host is --agent PATH", FlagFix::None),
        "--port" => valued(
            "the ssh port is given as ssh://host:{}/path, that of an rsync daemon as rsync://host:{}/module; a single port \
             for the data is --data-port {}",
            FlagFix::None,
        ),
        "--timeout" | "--contimeout" => {
            valued("a lost connection is detected; --retry-for sets how long to retry", FlagFix::Accept)
        }
        "--update" | "--existing" | "--ignore-existing" | "--size-only" | "--ignore-times"
        | "--no-clobber" => POLICY,
        "--whole-file" => WHOLE,
        "--reflink" | "--inc-recursive" | "--no-inc-recursive" => FASTEST,
        "--inplace" if removes => IN_PLACE,
        "--inplace" => {
            flag("updating files in place is hakobu sync --in-place; copy replaces files", FlagFix::None)
        }
        "--no-whole-file" => DELTA,
        "--fuzzy" => POLICY,
        "--chown" | "--usermap" | "--groupmap" => ACCOUNTS,
        "--chmod" => valued("modes are always preserved", FlagFix::None),
        "--no-perms" | "--no-times" | "--omit-dir-times" | "--omit-link-times" => UNLESS,
        "--link-dest" | "--copy-dest" | "--compare-dest" => SNAPSHOT,
        "--safe-links" | "--copy-unsafe-links" | "--munge-links" => SAFE_LINKS,
        "--delay-updates" => DELAY,
        "--fsync" => flag("everything is on stable storage at the end", FlagFix::Accept),
        "--fake-super" => flag("not in this version; --sudo runs the other side as root", FlagFix::None),
        "--iconv" => valued("names are bytes and are not converted", FlagFix::None),
        "--log-file-format" | "--out-format" => LOG,
        "--stop-after" | "--stop-at" | "--time-limit" => PATIENCE,
        "--address" => DAEMON,
        "--prune-empty-dirs" => EMPTY_DIRECTORIES,
        "--hard-links" | "--acls" | "--xattrs" | "--sparse" => EXTRAS,
        "--atimes" | "--crtimes" | "--open-noatime" => TIMES,
        "--devices" | "--specials" => SPECIAL,
        "--copy-links" | "--dereference" | "--keep-dirlinks" | "--copy-dirlinks" => FOLLOW,
        "--relative" | "--parents" => RELATIVE,
        "--mkpath" => {
            flag("create the parent directory of TARGET first; TARGET itself is created", FlagFix::None)
        }
        "--backup" => BACKUP,
        "--backup-dir" | "--suffix" => ForeignFlag { takes_value: true, ..BACKUP },
        "--temp-dir" => valued("temporary files are created next to their target", FlagFix::None),
        "--bwlimit-kbps" => LIMIT,
        "--itemize-changes" => ITEMIZE,
        "--interactive" => INTERACTIVE,
        "--list-only" => flag("-n lists what would be done", FlagFix::None),
        "--daemon" | "--server" | "--sender" => NOT_HERE,
        _ => return None,
    })
}
