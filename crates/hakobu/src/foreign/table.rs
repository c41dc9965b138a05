//! What each foreign flag means here.

/// How a command line with the flag is put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Leave the flag out: it asks for what happens anyway.
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
pub struct Foreign {
    /// Whether the flag has a value.
    pub takes_value: bool,
    /// The answer; `{}` is the flag's value.
    pub words: &'static str,
    /// How to put it right.
    pub fix: Fix,
}

const fn flag(words: &'static str, fix: Fix) -> Foreign {
    Foreign { takes_value: false, words, fix }
}

const fn valued(words: &'static str, fix: Fix) -> Foreign {
    Foreign { takes_value: true, words, fix }
}

const ARCHIVE: Foreign =
    flag("directories, links, modes, times and, as root, owners are always copied", Fix::Accept);
const PROGRESS: Foreign = flag(
    "progress is always shown on a terminal, and an interrupted copy resumes when it is run again",
    Fix::Accept,
);
/// The answer to those who ask for compression as elsewhere.
pub const COMPRESS: Foreign =
    flag("data is compressed when the network is the bottleneck (--compress zstd: always)", Fix::Accept);
const CHECKSUM: Foreign = flag(
    "comparing by content is --compare digest; data is always verified on the way",
    Fix::Write("--compare=digest"),
);
/// The answer to a copy that is to delete.
pub const DELETE_WORDS: &str = "copy never deletes; hakobu sync --delete does, after everything else has succeeded \
                                (--delete-during: before)";
const FORCE: Foreign = flag(
    "there is no such option: errors name the remedy; --confirm ID overwrites a disk with content",
    Fix::None,
);
const DELETE_LAST: Foreign =
    flag("--delete deletes after everything else has succeeded", Fix::Write("--delete"));
const DELETE_FIRST: Foreign =
    flag("deleting before anything is copied is --delete-during", Fix::Write("--delete-during"));
const FILTER: Foreign =
    valued("filter rules are --exclude, --include and --filter-file; the last matching rule wins", Fix::None);
const LIMIT: Foreign = valued(
    "the rate limit is --bwlimit, in bytes per second with a unit: --bwlimit 1M is 8 Mbit/s",
    Fix::None,
);
const EXTRAS: Foreign = flag(
    "hard links, ACLs, extended attributes and holes are always preserved (--preserve no-… leaves one out)",
    Fix::Accept,
);
const TIMES: Foreign = flag("access and creation times are not preserved", Fix::None);
const POLICY: Foreign =
    flag("not in this version: every file whose size or time differs is updated", Fix::None);
const INTERACTIVE: Foreign = flag(
    "there is no interactive mode, -n shows what would be done; for an ssh key use --ssh 'ssh -i FILE'",
    Fix::None,
);
const IN_PLACE: Foreign = flag("the option is --in-place", Fix::Write("--in-place"));
const DELTA: Foreign = flag("sync sends only the changed parts of large files to another host", Fix::Accept);
const ACCOUNTS: Foreign = valued(
    "owners are preserved by number, or by name with --by-name; --preserve no-owner leaves them out; other mappings are not in this version",
    Fix::None,
);
const SNAPSHOT: Foreign = valued(
    "not in this version: link the last state aside with cp -al, then run hakobu sync; changed files become new files",
    Fix::None,
);
const UNLESS: Foreign = flag("modes and times are always preserved", Fix::None);
const SAFE_LINKS: Foreign = flag("symbolic links are copied as links, and never followed", Fix::None);
const LOG: Foreign =
    valued("--report FILE writes a report, --json prints events; a job keeps a log", Fix::None);
const PATIENCE: Foreign =
    valued("not in this version; start a job with --detach and stop it with hakobu jobs pause", Fix::None);
const DAEMON: Foreign =
    valued("hakobu reaches other hosts by ssh; a single port for the data is --data-port", Fix::None);
const WHOLE: Foreign = flag("hakobu finds out what is fastest", Fix::Accept);
const SPECIAL: Foreign = flag(
    "named pipes and, as root, device nodes are copied (from another host with --allow devices)",
    Fix::Accept,
);
const FOLLOW: Foreign =
    flag("following symbolic links is not in this version; `link/` follows the one you name", Fix::None);
const RELATIVE: Foreign = flag("name the directory you want in TARGET", Fix::None);
const BACKUP: Foreign = flag("keeping backups of replaced files is not in this version", Fix::None);
/// The answer to `-h` among flags of rsync.
pub const HUMAN: Foreign = flag("sizes are always printed with units", Fix::Accept);
const LANES: Foreign = valued("the number of parallel connections is --lanes", Fix::Option("--lanes"));
const RESUME: Foreign = flag("an interrupted copy resumes when the same command is run again", Fix::Accept);
const OVERWRITE: Foreign = flag("files that differ are always replaced", Fix::Accept);
const YES: Foreign =
    flag("questions are answered in advance: --delete for deletions, --confirm ID for disks", Fix::None);
const IDENTITY: Foreign = valued("an ssh key is passed to ssh: --ssh 'ssh -i {}'", Fix::Ssh("-i {}"));
const APPEND: Foreign =
    flag("not needed: if a file has grown, sync sends only its end, and checks all of it", Fix::Drop);
const NOT_HERE: Foreign = flag("hakobu has no such mode", Fix::None);

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
pub fn find_short_of_rsync(letter: char, value: Option<&str>) -> Option<Foreign> {
    Some(match letter {
        'B' => valued("hakobu chooses the block size", Fix::Accept),
        'C' => flag("to exclude what version control ignores, use --filter-file .gitignore", Fix::None),
        'F' => flag("filter rules are --exclude, --include and --filter-file", Fix::None),
        'J' | 'O' => UNLESS,
        'T' if !is_number(value) => valued("temporary files are created next to their target", Fix::None),
        'd' => NOT_HERE,
        'f' => FILTER,
        'i' if !is_key(value) => flag("-n lists what would be done, --json what is done", Fix::Drop),
        'm' => flag("not in this version: directories are always created", Fix::None),
        _ => return find_short(letter, value),
    })
}

/// The answer to a flag of one letter. `value` is what follows it; some letters mean different
/// things to scp and rsync, and what follows tells which tool was meant.
pub fn find_short(letter: char, value: Option<&str>) -> Option<Foreign> {
    let digits = is_number(value);
    let cipher = value.is_some_and(|value| {
        ["aes", "chacha", "arcfour", "3des", "blowfish"].iter().any(|name| value.starts_with(name))
    });
    Some(match letter {
        'P' | 'p' if digits => {
            valued("the ssh port is given as ssh://host:{}/path, or --ssh 'ssh -p {}'", Fix::Ssh("-p {}"))
        }
        'P' => PROGRESS,
        'j' | 'T' if digits => LANES,
        'i' if is_key(value) => IDENTITY,
        'y' => YES,
        'l' if digits => LIMIT,
        'c' if cipher => valued("the cipher is --cipher; auto chooses the fastest secure one", Fix::Cipher),
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
            valued("ssh options are given as --ssh 'ssh -o {}'", Fix::Ssh("-o {}"))
        }
        'o' => ARCHIVE,
        'J' => valued("ssh options are given as --ssh 'ssh -J {}'", Fix::Ssh("-J {}")),
        'F' => valued("ssh options are given as --ssh 'ssh -F {}'", Fix::Ssh("-F {}")),
        '4' => flag("ssh options are given as --ssh 'ssh -4'", Fix::Ssh("-4")),
        '6' => flag("ssh options are given as --ssh 'ssh -6'", Fix::Ssh("-6")),
        'B' => flag("ssh options are given as --ssh 'ssh -o BatchMode=yes'", Fix::Ssh("-o BatchMode=yes")),
        '3' | 'T' | 'O' | 's' => flag("hakobu chooses how to connect the hosts", Fix::Accept),
        'f' => OVERWRITE,
        'd' | 'm' => NOT_HERE,
        _ => return None,
    })
}

/// The answer to a flag that is a word, with its dashes.
pub fn find_long(verb: &str, name: &str) -> Option<Foreign> {
    let removes = verb == "sync";
    Some(match name {
        "--del" | "--delete-delay" | "--delete-after" if removes => DELETE_LAST,
        "--delete-before" if removes => DELETE_FIRST,
        "--delete-excluded" if removes => flag("excluded entries are never deleted", Fix::None),
        "--force" if removes => {
            flag("entries of another kind in the way are deleted with the others", Fix::Accept)
        }
        "--ignore-errors" => flag("after a failure nothing is deleted", Fix::None),
        "--remove-source-files" => flag("nothing is ever deleted at the source", Fix::None),
        "--archive" | "--recursive" | "--times" | "--perms" | "--owner" | "--group" | "--links"
        | "--numeric-ids" | "--no-dereference" => ARCHIVE,
        "--progress" | "--partial" | "--stats" => PROGRESS,
        "--append" | "--append-verify" => APPEND,
        "--resume" | "--continue" => RESUME,
        "--overwrite" | "--clobber" => OVERWRITE,
        "--yes" | "--assume-yes" => YES,
        "--jobs" | "--parallel" | "--threads" | "--transfers" | "--connections" | "--streams" => LANES,
        "--identity" => IDENTITY,
        "--info" => Foreign { takes_value: true, ..PROGRESS },
        "--partial-dir" => Foreign { takes_value: true, ..PROGRESS },
        "--human-readable" => HUMAN,
        "--checksum" => CHECKSUM,
        "--force" => FORCE,
        "--exclude-from" => valued(
            "rules are read from a file with --filter-file FILE, in .gitignore syntax",
            Fix::Option("--filter-file"),
        ),
        "--filter" | "--include-from" => FILTER,
        "--from0" => flag("NUL-separated paths are recognised", Fix::Accept),
        "--rsh" => valued("the option is --ssh, or -e", Fix::Option("--ssh")),
        "--rsync-path" => valued("the path of hakobu on the other host is --agent PATH", Fix::None),
        "--port" => valued(
            "the ssh port is given as ssh://host:{}/path, that of an rsync daemon as rsync://host:{}/module; a single port \
             for the data is --data-port {}",
            Fix::None,
        ),
        "--timeout" | "--contimeout" => {
            valued("a lost connection is detected; --retry-for sets how long to retry", Fix::Accept)
        }
        "--update" | "--existing" | "--ignore-existing" | "--size-only" | "--ignore-times"
        | "--no-clobber" => POLICY,
        "--whole-file" | "--reflink" | "--inc-recursive" | "--no-inc-recursive" => WHOLE,
        "--inplace" if removes => IN_PLACE,
        "--inplace" => {
            flag("updating files in place is hakobu sync --in-place; copy replaces files", Fix::None)
        }
        "--no-whole-file" => DELTA,
        "--fuzzy" => POLICY,
        "--chown" | "--usermap" | "--groupmap" => ACCOUNTS,
        "--chmod" => valued("modes are always preserved", Fix::None),
        "--no-perms" | "--no-times" | "--omit-dir-times" | "--omit-link-times" => UNLESS,
        "--link-dest" | "--copy-dest" | "--compare-dest" => SNAPSHOT,
        "--safe-links" | "--copy-unsafe-links" | "--munge-links" => SAFE_LINKS,
        "--delay-updates" => WHOLE,
        "--fsync" => flag("everything is on stable storage at the end", Fix::Accept),
        "--fake-super" => flag("not in this version; --sudo runs the other side as root", Fix::None),
        "--iconv" => valued("names are bytes and are not converted", Fix::None),
        "--log-file" | "--out-format" => LOG,
        "--stop-after" | "--stop-at" | "--time-limit" => PATIENCE,
        "--address" => DAEMON,
        "--prune-empty-dirs" => flag("not in this version: directories are always created", Fix::None),
        "--hard-links" | "--acls" | "--xattrs" | "--sparse" => EXTRAS,
        "--atimes" | "--crtimes" | "--open-noatime" => TIMES,
        "--devices" | "--specials" => SPECIAL,
        "--copy-links" | "--dereference" | "--keep-dirlinks" | "--copy-dirlinks" => FOLLOW,
        "--relative" | "--parents" => RELATIVE,
        "--mkpath" => {
            flag("create the parent directory of TARGET first; TARGET itself is created", Fix::None)
        }
        "--backup" => BACKUP,
        "--backup-dir" | "--suffix" => Foreign { takes_value: true, ..BACKUP },
        "--temp-dir" => valued("temporary files are created next to their target", Fix::None),
        "--bwlimit-kbps" => LIMIT,
        "--itemize-changes" | "--interactive" => INTERACTIVE,
        "--list-only" => flag("-n lists what would be done", Fix::None),
        "--daemon" | "--server" | "--sender" => NOT_HERE,
        _ => return None,
    })
}
