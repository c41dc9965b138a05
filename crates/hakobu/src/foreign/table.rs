//! What each foreign flag means here.

/// How a command line with the flag is put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
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
    flag("not needed: trees, links, modes, times and, as root, owners are copied anyway", Fix::Drop);
const PROGRESS: Foreign = flag(
    "not needed: progress is shown on a terminal, and run again an interrupted copy leaves alone what is complete",
    Fix::Drop,
);
/// The answer to those who ask for compression as elsewhere.
pub const COMPRESS: Foreign = flag(
    "not needed: content is compressed where the line is what limits (--compress zstd: everywhere)",
    Fix::Drop,
);
const CHECKSUM: Foreign = flag(
    "comparing by content is --compare digest; what is copied is always checked on the way",
    Fix::Write("--compare=digest"),
);
/// The answer to a copy that is to delete.
pub const DELETE_WORDS: &str = "copy never deletes; hakobu sync --delete does, after everything else has succeeded, and \
                                before it with --delete-during";
const FORCE: Foreign = flag(
    "there is none: what stands in the way is said, with what to do; a disk with content is overwritten with --confirm ID",
    Fix::None,
);
const DELETE_LAST: Foreign =
    flag("--delete removes after everything else has succeeded", Fix::Write("--delete"));
const DELETE_FIRST: Foreign =
    flag("removing before anything is brought over is --delete-during", Fix::Write("--delete-during"));
const FILTER: Foreign = valued(
    "rules are --exclude, --include and --filter-file, of which the last that matches decides",
    Fix::None,
);
const LIMIT: Foreign =
    valued("a limit of the rate is --bwlimit with a unit, of bytes: --bwlimit 1M is 8 Mbit/s", Fix::None);
const EXTRAS: Foreign = flag(
    "not needed: hard links, access lists, extended attributes and holes are kept anyway (--preserve says what not)",
    Fix::Drop,
);
const TIMES: Foreign = flag("times of access and of creation are not kept", Fix::None);
const POLICY: Foreign =
    flag("not in this version: what differs in size or time is brought up to date", Fix::None);
const INTERACTIVE: Foreign =
    flag("nothing is asked; -n lists what would be done (for an ssh key: --ssh 'ssh -i FILE')", Fix::None);
const IN_PLACE: Foreign = flag("it is spelled --in-place, and is for sync", Fix::Write("--in-place"));
const DELTA: Foreign =
    flag("not needed: under sync only what differs in a large file is sent to another machine", Fix::Drop);
const ACCOUNTS: Foreign = valued(
    "owners are kept by number, or by name with --by-name; --preserve no-owner leaves them out; other mappings are not in this version",
    Fix::None,
);
const SNAPSHOT: Foreign = valued(
    "not in this version: link the last state aside with cp -al, then synchronise; files that changed become new ones",
    Fix::None,
);
const UNLESS: Foreign = flag("modes and times are always kept", Fix::None);
const SAFE_LINKS: Foreign = flag("links are copied as they are, and never followed", Fix::None);
const LOG: Foreign =
    valued("the format is fixed: --itemize and --log-file FILE list the changes, --json events", Fix::None);
const ITEMIZE: Foreign = flag("it is spelled --itemize", Fix::Write("--itemize"));
const PATIENCE: Foreign =
    valued("not in this version; --detach makes it a job that hakobu jobs pause stops", Fix::None);
const DAEMON: Foreign =
    valued("hakobu reaches other machines by ssh only; one port for the data is --data-port", Fix::None);
const WHOLE: Foreign = flag("not needed: whatever is fastest is found out", Fix::Drop);
const SPECIAL: Foreign = flag(
    "not needed: named pipes and, as root, device nodes are kept (from another machine with --allow devices)",
    Fix::Drop,
);
const FOLLOW: Foreign =
    flag("following links is not in this version; `link/` follows the one you name", Fix::None);
const RELATIVE: Foreign = flag("write the directory you want in TARGET", Fix::None);
const BACKUP: Foreign = flag("backups of what is replaced are not in this version", Fix::None);
const HUMAN: Foreign = flag("not needed: sizes are printed for people", Fix::Drop);
const NOT_HERE: Foreign = flag("hakobu has no such mode", Fix::None);

/// The answer to a flag of one letter that scp and rsync understand differently, as rsync does.
pub fn find_short_of_rsync(letter: char, value: Option<&str>) -> Option<Foreign> {
    Some(match letter {
        'B' => valued("not needed: the size of blocks is found out", Fix::Drop),
        'C' => {
            flag("what version control leaves aside is left out by --exclude and --filter-file", Fix::None)
        }
        'F' => flag("rules are --exclude, --include and --filter-file", Fix::None),
        'J' | 'O' => UNLESS,
        'T' => valued("drafts lie beside what they become", Fix::None),
        'd' => NOT_HERE,
        'f' => FILTER,
        'i' => ITEMIZE,
        'm' => flag("not in this version: directories are made", Fix::None),
        'y' => POLICY,
        _ => return find_short(letter, value),
    })
}

/// The answer to a flag of one letter. `value` is what follows it; some letters mean different
/// things to scp and rsync, and what follows tells which tool was meant.
pub fn find_short(letter: char, value: Option<&str>) -> Option<Foreign> {
    let digits =
        value.is_some_and(|value| value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty());
    let cipher = value.is_some_and(|value| {
        ["aes", "chacha", "arcfour", "3des", "blowfish"].iter().any(|name| value.starts_with(name))
    });
    Some(match letter {
        'P' | 'p' if digits => {
            valued("the port of ssh is written ssh://host:{}/path, or --ssh 'ssh -p {}'", Fix::Ssh("-p {}"))
        }
        'P' => PROGRESS,
        'l' if digits => LIMIT,
        'c' if cipher => {
            valued("the cipher of the data is --cipher; auto takes the fastest sound one", Fix::Cipher)
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
            valued("options of ssh go with it: --ssh 'ssh -o {}'", Fix::Ssh("-o {}"))
        }
        'o' => ARCHIVE,
        'J' => valued("options of ssh go with it: --ssh 'ssh -J {}'", Fix::Ssh("-J {}")),
        'F' => valued("options of ssh go with it: --ssh 'ssh -F {}'", Fix::Ssh("-F {}")),
        '4' => flag("options of ssh go with it: --ssh 'ssh -4'", Fix::Ssh("-4")),
        '6' => flag("options of ssh go with it: --ssh 'ssh -6'", Fix::Ssh("-6")),
        'B' => flag("options of ssh go with it", Fix::Ssh("-o BatchMode=yes")),
        '3' | 'T' | 'O' | 's' => flag("not needed: the way is found out", Fix::Drop),
        'f' => flag("not needed: what differs is replaced", Fix::Drop),
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
        "--delete-excluded" if removes => flag("what a rule leaves out is never removed", Fix::None),
        "--force" if removes => {
            flag("not needed: what is in the way of another kind goes with the others", Fix::Drop)
        }
        "--ignore-errors" => flag("after a failure nothing is removed", Fix::None),
        "--remove-source-files" => flag("nothing is ever removed at the source", Fix::None),
        "--archive" | "--recursive" | "--times" | "--perms" | "--owner" | "--group" | "--links"
        | "--numeric-ids" | "--no-dereference" => ARCHIVE,
        "--progress" | "--partial" | "--append" | "--append-verify" | "--stats" => PROGRESS,
        "--info" => Foreign { takes_value: true, ..PROGRESS },
        "--partial-dir" => Foreign { takes_value: true, ..PROGRESS },
        "--human-readable" => HUMAN,
        "--checksum" => CHECKSUM,
        "--force" => FORCE,
        "--exclude-from" => valued(
            "rules from a file are --filter-file FILE, as .gitignore is one",
            Fix::Option("--filter-file"),
        ),
        "--filter" | "--include-from" => FILTER,
        "--from0" => flag("not needed: paths that end in NUL are recognised", Fix::Drop),
        "--rsh" => valued("it is spelled --ssh, or -e", Fix::Option("--ssh")),
        "--rsync-path" => valued("the program on the other machine is --agent PATH", Fix::None),
        "--port" => valued(
            "the port of ssh is written ssh://host:{}/path, that of an rsync daemon rsync://host:{}/module; one port for \
             the data is --data-port {}",
            Fix::None,
        ),
        "--timeout" | "--contimeout" => {
            valued("not needed: a lost connection is noticed; --retry-for says how long to try", Fix::Drop)
        }
        "--update" | "--existing" | "--ignore-existing" | "--size-only" | "--ignore-times"
        | "--no-clobber" => POLICY,
        "--whole-file" | "--reflink" | "--inc-recursive" | "--no-inc-recursive" => WHOLE,
        "--inplace" => IN_PLACE,
        "--no-whole-file" => DELTA,
        "--fuzzy" => POLICY,
        "--chown" | "--usermap" | "--groupmap" => ACCOUNTS,
        "--chmod" => valued("modes are kept as they are", Fix::None),
        "--no-perms" | "--no-times" | "--omit-dir-times" | "--omit-link-times" => UNLESS,
        "--link-dest" | "--copy-dest" | "--compare-dest" => SNAPSHOT,
        "--safe-links" | "--copy-unsafe-links" | "--munge-links" => SAFE_LINKS,
        "--delay-updates" => WHOLE,
        "--fsync" => flag("not needed: all is on stable storage at the end", Fix::Drop),
        "--fake-super" => flag("not in this version; --sudo runs the far side as root", Fix::None),
        "--iconv" => valued("names are bytes and stay as they are", Fix::None),
        "--log-file-format" | "--out-format" => LOG,
        "--stop-after" | "--stop-at" | "--time-limit" => PATIENCE,
        "--address" => DAEMON,
        "--prune-empty-dirs" => flag("not in this version: directories are made", Fix::None),
        "--hard-links" | "--acls" | "--xattrs" | "--sparse" => EXTRAS,
        "--atimes" | "--crtimes" | "--open-noatime" => TIMES,
        "--devices" | "--specials" => SPECIAL,
        "--copy-links" | "--dereference" | "--keep-dirlinks" | "--copy-dirlinks" => FOLLOW,
        "--relative" | "--parents" => RELATIVE,
        "--mkpath" => flag("create the target's parent first; TARGET itself is created", Fix::None),
        "--backup" => BACKUP,
        "--backup-dir" | "--suffix" => Foreign { takes_value: true, ..BACKUP },
        "--temp-dir" => valued("drafts lie beside what they become", Fix::None),
        "--bwlimit-kbps" => LIMIT,
        "--itemize-changes" => ITEMIZE,
        "--interactive" => INTERACTIVE,
        "--list-only" => flag("-n lists what would be done", Fix::None),
        "--daemon" | "--server" | "--sender" => NOT_HERE,
        _ => return None,
    })
}
