//! What each foreign flag means here.

/// How a command line with the flag is put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagFix {
    /// Leave the flag out.
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
    /// Whether the flag has a value.
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
    flag("not needed: trees, links, modes, times and, as root, owners are copied anyway", FlagFix::Drop);
const PROGRESS: ForeignFlag = flag(
    "not needed: progress is shown on a terminal, and run again an interrupted copy leaves alone what is complete",
    FlagFix::Drop,
);
/// The answer to those who ask for compression as elsewhere.
pub const COMPRESS: ForeignFlag = flag(
    "not needed: content is compressed where the line is what limits (--compress zstd: everywhere)",
    FlagFix::Drop,
);
const CHECKSUM: ForeignFlag = flag(
    "comparing by content is --compare digest; what is copied is always checked on the way",
    FlagFix::Write("--compare=digest"),
);
/// The answer to a copy that is to delete.
pub const DELETE_WORDS: &str = "copy never deletes; hakobu sync --delete does, after everything else has succeeded, and \
                                before it with --delete-during";
const FORCE: ForeignFlag = flag(
    "there is none: what stands in the way is said, with what to do; a disk with content is overwritten with --confirm ID",
    FlagFix::None,
);
const DELETE_LAST: ForeignFlag =
    flag("--delete removes after everything else has succeeded", FlagFix::Write("--delete"));
const DELETE_FIRST: ForeignFlag =
    flag("removing before anything is brought over is --delete-during", FlagFix::Write("--delete-during"));
const FILTER: ForeignFlag = valued(
    "rules are --exclude, --include and --filter-file, of which the last that matches decides",
    FlagFix::None,
);
const LIMIT: ForeignFlag =
    valued("a limit of the rate is --bwlimit with a unit, of bytes: --bwlimit 1M is 8 Mbit/s", FlagFix::None);
const EXTRAS: ForeignFlag = flag(
    "not needed: hard links, access lists, extended attributes and holes are kept anyway (--preserve says what not)",
    FlagFix::Drop,
);
const TIMES: ForeignFlag = flag("times of access and of creation are not kept", FlagFix::None);
const POLICY: ForeignFlag =
    flag("not in this version: what differs in size or time is brought up to date", FlagFix::None);
const INTERACTIVE: ForeignFlag = flag(
    "nothing is asked; -n lists what would be done (for an ssh key: --ssh 'ssh -i FILE')",
    FlagFix::None,
);
const IN_PLACE: ForeignFlag = flag("it is spelled --in-place, and is for sync", FlagFix::Write("--in-place"));
const DELTA: ForeignFlag = flag(
    "not needed: under sync only what differs in a large file is sent to another machine",
    FlagFix::Drop,
);
const ACCOUNTS: ForeignFlag = valued(
    "owners are kept by number, or by name with --by-name; --preserve no-owner leaves them out; other mappings are not in this version",
    FlagFix::None,
);
const SNAPSHOT: ForeignFlag = valued(
    "not in this version: link the last state aside with cp -al, then synchronise; files that changed become new ones",
    FlagFix::None,
);
const UNLESS: ForeignFlag = flag("modes and times are always kept", FlagFix::None);
const SAFE_LINKS: ForeignFlag = flag("links are copied as they are, and never followed", FlagFix::None);
const LOG: ForeignFlag =
    valued("--report FILE writes a report, --json events; a job keeps a log of its own", FlagFix::None);
const PATIENCE: ForeignFlag =
    valued("not in this version; --detach makes it a job that hakobu jobs pause stops", FlagFix::None);
const DAEMON: ForeignFlag =
    valued("hakobu reaches other machines by ssh only; one port for the data is --data-port", FlagFix::None);
const WHOLE: ForeignFlag = flag("not needed: whatever is fastest is found out", FlagFix::Drop);
const SPECIAL: ForeignFlag = flag(
    "not needed: named pipes and, as root, device nodes are kept (from another machine with --allow devices)",
    FlagFix::Drop,
);
const FOLLOW: ForeignFlag =
    flag("following links is not in this version; `link/` follows the one you name", FlagFix::None);
const RELATIVE: ForeignFlag = flag("write the directory you want in TARGET", FlagFix::None);
const BACKUP: ForeignFlag = flag("backups of what is replaced are not in this version", FlagFix::None);
const HUMAN: ForeignFlag = flag("not needed: sizes are printed for people", FlagFix::Drop);
const NOT_HERE: ForeignFlag = flag("hakobu has no such mode", FlagFix::None);

/// The answer to a flag of one letter that scp and rsync understand differently, as rsync does.
pub fn find_short_of_rsync(letter: char, value: Option<&str>) -> Option<ForeignFlag> {
    Some(match letter {
        'B' => valued("not needed: the size of blocks is found out", FlagFix::Drop),
        'C' => flag(
            "what version control leaves aside is left out by --exclude and --filter-file",
            FlagFix::None,
        ),
        'F' => flag("rules are --exclude, --include and --filter-file", FlagFix::None),
        'J' | 'O' => UNLESS,
        'T' => valued("drafts lie beside what they become", FlagFix::None),
        'd' => NOT_HERE,
        'f' => FILTER,
        'i' => flag("-n lists what would be done, --json events tells what is", FlagFix::Drop),
        'm' => flag("not in this version: directories are made", FlagFix::None),
        'y' => POLICY,
        _ => return find_short(letter, value),
    })
}

/// The answer to a flag of one letter. `value` is what follows it; some letters mean different
/// things to scp and rsync, and what follows tells which tool was meant.
pub fn find_short(letter: char, value: Option<&str>) -> Option<ForeignFlag> {
    let digits =
        value.is_some_and(|value| value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty());
    let cipher = value.is_some_and(|value| {
        ["aes", "chacha", "arcfour", "3des", "blowfish"].iter().any(|name| value.starts_with(name))
    });
    Some(match letter {
        'P' | 'p' if digits => valued(
            "the port of ssh is written ssh://host:{}/path, or --ssh 'ssh -p {}'",
            FlagFix::Ssh("-p {}"),
        ),
        'P' => PROGRESS,
        'l' if digits => LIMIT,
        'c' if cipher => {
            valued("the cipher of the data is --cipher; auto takes the fastest sound one", FlagFix::Cipher)
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
            valued("options of ssh go with it: --ssh 'ssh -o {}'", FlagFix::Ssh("-o {}"))
        }
        'o' => ARCHIVE,
        'J' => valued("options of ssh go with it: --ssh 'ssh -J {}'", FlagFix::Ssh("-J {}")),
        'F' => valued("options of ssh go with it: --ssh 'ssh -F {}'", FlagFix::Ssh("-F {}")),
        '4' => flag("options of ssh go with it: --ssh 'ssh -4'", FlagFix::Ssh("-4")),
        '6' => flag("options of ssh go with it: --ssh 'ssh -6'", FlagFix::Ssh("-6")),
        'B' => flag("options of ssh go with it", FlagFix::Ssh("-o BatchMode=yes")),
        '3' | 'T' | 'O' | 's' => flag("not needed: the way is found out", FlagFix::Drop),
        'f' => flag("not needed: what differs is replaced", FlagFix::Drop),
        'd' | 'm' => NOT_HERE,
        _ => return None,
    })
}

/// The answer to a flag that is a word, with its dashes.
pub fn find_long(verb: &str, name: &str) -> Option<ForeignFlag> {
    let removes = verb == "sync";
    Some(match name {
        "--del" | "--delete-delay" | "--delete-after" if removes => DELETE_LAST,
        "--delete-before" if removes => DELETE_FIRST,
        "--delete-excluded" if removes => flag("what a rule leaves out is never removed", FlagFix::None),
        "--force" if removes => {
            flag("not needed: what is in the way of another kind goes with the others", FlagFix::Drop)
        }
        "--ignore-errors" => flag("after a failure nothing is removed", FlagFix::None),
        "--remove-source-files" => flag("nothing is ever removed at the source", FlagFix::None),
        "--archive" | "--recursive" | "--times" | "--perms" | "--owner" | "--group" | "--links"
        | "--numeric-ids" | "--no-dereference" => ARCHIVE,
        "--progress" | "--partial" | "--append" | "--append-verify" | "--stats" => PROGRESS,
        "--info" => ForeignFlag { takes_value: true, ..PROGRESS },
        "--partial-dir" => ForeignFlag { takes_value: true, ..PROGRESS },
        "--human-readable" => HUMAN,
        "--checksum" => CHECKSUM,
        "--force" => FORCE,
        "--exclude-from" => valued(
            "rules from a file are --filter-file FILE, as .gitignore is one",
            FlagFix::Option("--filter-file"),
        ),
        "--filter" | "--include-from" => FILTER,
        "--from0" => flag("not needed: paths that end in NUL are recognised", FlagFix::Drop),
        "--rsh" => valued("it is spelled --ssh, or -e", FlagFix::Option("--ssh")),
        "--rsync-path" => valued("the program on the other machine is --agent PATH", FlagFix::None),
        "--port" => valued(
            "the port of ssh is written ssh://host:{}/path, that of an rsync daemon rsync://host:{}/module; one port for \
             the data is --data-port {}",
            FlagFix::None,
        ),
        "--timeout" | "--contimeout" => valued(
            "not needed: a lost connection is noticed; --retry-for says how long to try",
            FlagFix::Drop,
        ),
        "--update" | "--existing" | "--ignore-existing" | "--size-only" | "--ignore-times"
        | "--no-clobber" => POLICY,
        "--whole-file" | "--reflink" | "--inc-recursive" | "--no-inc-recursive" => WHOLE,
        "--inplace" => IN_PLACE,
        "--no-whole-file" => DELTA,
        "--fuzzy" => POLICY,
        "--chown" | "--usermap" | "--groupmap" => ACCOUNTS,
        "--chmod" => valued("modes are kept as they are", FlagFix::None),
        "--no-perms" | "--no-times" | "--omit-dir-times" | "--omit-link-times" => UNLESS,
        "--link-dest" | "--copy-dest" | "--compare-dest" => SNAPSHOT,
        "--safe-links" | "--copy-unsafe-links" | "--munge-links" => SAFE_LINKS,
        "--delay-updates" => WHOLE,
        "--fsync" => flag("not needed: all is on stable storage at the end", FlagFix::Drop),
        "--fake-super" => flag("not in this version; --sudo runs the far side as root", FlagFix::None),
        "--iconv" => valued("names are bytes and stay as they are", FlagFix::None),
        "--log-file" | "--out-format" => LOG,
        "--stop-after" | "--stop-at" | "--time-limit" => PATIENCE,
        "--address" => DAEMON,
        "--prune-empty-dirs" => flag("not in this version: directories are made", FlagFix::None),
        "--hard-links" | "--acls" | "--xattrs" | "--sparse" => EXTRAS,
        "--atimes" | "--crtimes" | "--open-noatime" => TIMES,
        "--devices" | "--specials" => SPECIAL,
        "--copy-links" | "--dereference" | "--keep-dirlinks" | "--copy-dirlinks" => FOLLOW,
        "--relative" | "--parents" => RELATIVE,
        "--mkpath" => flag("create the target's parent first; TARGET itself is created", FlagFix::None),
        "--backup" => BACKUP,
        "--backup-dir" | "--suffix" => ForeignFlag { takes_value: true, ..BACKUP },
        "--temp-dir" => valued("drafts lie beside what they become", FlagFix::None),
        "--bwlimit-kbps" => LIMIT,
        "--itemize-changes" | "--interactive" => INTERACTIVE,
        "--list-only" => flag("-n lists what would be done", FlagFix::None),
        "--daemon" | "--server" | "--sender" => NOT_HERE,
        _ => return None,
    })
}
