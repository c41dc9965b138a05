//! Interprets rsync's exit code and its messages on standard error.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::path::lossy;

use super::output::unescaped;

/// The operation of errors that belong to no particular entry.
pub(super) const RUNNING: &str = "talking to";
/// The operation of a failure for which rsync does not name the side.
const COPYING: &str = "copying";
/// The error for a module that cannot be listed.
const WRITE_ONLY: &str = "the module can only be written to, and neither listed nor read";
/// The most lines of standard error that are kept of one rsync.
pub(super) const LINES_MAX: usize = 10_000;

/// The text after the name of a file whose checksum was wrong twice.
const UNVERIFIED: &[u8] = b" failed verification -- update ";

/// The text after the name of a file that was written with another mode; the exit code is 0 then.
const MODE_NOT_SET: &[u8] = b"; mode not set";

/// The result of one rsync.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It succeeded.
    Done,
    /// Some entries failed: the path as rsync named it, and the error.
    Partly(Vec<(Vec<u8>, Error)>),
    /// It, or the remote side, does not accept this option.
    OptionRefused(String),
    /// The daemon accepts no more connections at present.
    Full(Option<u32>),
    /// The daemon rejects the user or the password.
    AuthFailed(Error),
    /// The connection was lost, or the process was killed.
    Lost(Error),
    /// An error that further attempts cannot avoid.
    Fatal(Error),
}

impl Verdict {
    /// Adds the remote endpoint to errors that concern the whole run.
    pub fn at(self, far: &[u8]) -> Self {
        match self {
            Self::AuthFailed(error) => Self::AuthFailed(error.at(far)),
            Self::Lost(error) => Self::Lost(error.at(far)),
            Self::Fatal(error) => Self::Fatal(error.at(far)),
            Self::Done | Self::Partly(_) | Self::OptionRefused(_) | Self::Full(_) => self,
        }
    }
}

/// Interprets the end of an rsync by its status and its lines of standard error.
pub(super) fn verdict(status: ExitStatus, lines: &[Vec<u8>]) -> Verdict {
    let texts: Vec<String> = lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    let Some(code) = status.code() else {
        let signal = status.signal().unwrap_or(0);
        return lost(format!("rsync was ended by signal {signal}"));
    };
    if code == 0 {
        // Some versions report only in this way that a mode could not be set.
        let not_set = |line: &&Vec<u8>| line.ends_with(MODE_NOT_SET);
        let failed: Vec<_> = lines.iter().filter(not_set).filter_map(|line| failure(line)).collect();
        return if failed.is_empty() { Verdict::Done } else { Verdict::Partly(failed) };
    }
    let words = last_words(&texts, code);
    // These lines contain names, and thus any text.
    if let 23..=25 = code {
        return Verdict::Partly(failures_of_some(lines, words));
    }
    if let Some(verdict) = texts.iter().find_map(|text| of_the_daemon(text)) {
        return verdict;
    }
    if let Some(option) = texts.iter().find_map(|text| refused_option(text)) {
        return Verdict::OptionRefused(option);
    }
    match code {
        10 | 12 | 20 | 30 | 35 | 255 => match no_space(&texts) {
            Some(error) => Verdict::Fatal(error),
            None => lost(words),
        },
        _ => {
            let kind = texts.iter().find_map(|text| os_error(text)).map_or(ErrorKind::Io, |error| error.kind);
            let next = match kind {
                ErrorKind::PermissionDenied => {
                    "; whoever runs rsync there (uid in rsyncd.conf) may not write to it"
                }
                ErrorKind::NotFound => "; create the directory that is to hold it first",
                _ => "",
            };
            Verdict::Fatal(Error::new(kind, RUNNING, words + next))
        }
    }
}

/// Returns the failures if rsync reports that there were some, at least one. A line that is not understood is a failure
/// without a path.
fn failures_of_some(lines: &[Vec<u8>], words: String) -> Vec<(Vec<u8>, Error)> {
    let of_line = |line: &Vec<u8>| {
        let is_error = line.starts_with(b"rsync: ") || line.starts_with(b"ERROR: ");
        let is_news = is_error && !is_of_the_connection(&String::from_utf8_lossy(line));
        failure(line)
            .or_else(|| is_news.then(|| (Vec::new(), Error::new(ErrorKind::Io, COPYING, lossy(line)))))
    };
    let mut failures: Vec<_> = lines.iter().filter_map(of_line).collect();
    if failures.is_empty() {
        failures.push((Vec::new(), Error::new(ErrorKind::Io, COPYING, words)));
    }
    failures
}

/// Returns the failures of single entries in these lines.
pub(super) fn failures(lines: &[Vec<u8>]) -> Vec<(Vec<u8>, Error)> {
    lines.iter().filter_map(|line| failure(line)).collect()
}

/// Returns true if the remote side reported that the requested path does not exist.
pub(super) fn is_absence(lines: &[Vec<u8>]) -> bool {
    let says_so = |text: &str| {
        text.starts_with("rsync: [sender] change_dir ") || text.starts_with("rsync: [sender] link_stat ")
    };
    lines.iter().any(|line| says_so(&String::from_utf8_lossy(line)))
}

fn lost(words: String) -> Verdict {
    Verdict::Lost(Error::new(ErrorKind::ConnectionLost, RUNNING, words))
}

/// Interprets a daemon's message about itself.
fn of_the_daemon(text: &str) -> Option<Verdict> {
    let fatal = |kind, words: &str| Some(Verdict::Fatal(Error::new(kind, RUNNING, words)));
    if let Some(said) = text.strip_prefix("@ERROR: ") {
        if let Some(rest) = said.strip_prefix("max connections (") {
            return Some(Verdict::Full(rest.split(')').next().and_then(|count| count.parse().ok())));
        }
        if said.starts_with("auth failed") {
            let words = format!("the daemon says: {}", lossy(said.as_bytes()));
            return Some(Verdict::AuthFailed(Error::new(ErrorKind::PermissionDenied, RUNNING, words)));
        }
        let kind = match () {
            () if said.starts_with("Unknown module") => ErrorKind::NotFound,
            () if said.starts_with("access denied") => ErrorKind::PermissionDenied,
            () => ErrorKind::Io,
        };
        let words = match kind {
            ErrorKind::NotFound => format!(
                "the daemon says: {}; its name stands behind the host: rsync://host/module",
                lossy(said.as_bytes())
            ),
            _ => format!("the daemon says: {}", lossy(said.as_bytes())),
        };
        return fatal(kind, &words);
    }
    match text {
        "ERROR: module is read only" => {
            fatal(ErrorKind::ReadOnly, "the module is read only (read only = no in rsyncd.conf lets write)")
        }
        "ERROR: module is write only" => fatal(ErrorKind::WriteOnly, WRITE_ONLY),
        _ => None,
    }
}

/// Returns the long name of an option that was refused: `--hard-links`.
fn refused_option(text: &str) -> Option<String> {
    let text = text.strip_prefix("rsync: ")?;
    if let Some((_, option)) =
        text.split_once("The server is configured to refuse ").filter(|(before, _)| is_role(before))
    {
        return Some(option.split([' ', '=']).next().unwrap_or(option).to_owned());
    }
    if let Some((before, _)) = text.split_once(": unknown option") {
        let option = before.rsplit(' ').next().unwrap_or(before);
        return Some(option.split('=').next().unwrap_or(option).to_owned());
    }
    let lacks = |what: &str| text.starts_with(what) && text.contains(" not supported on this ");
    match () {
        () if lacks("ACLs are") => Some("--acls".to_owned()),
        () if lacks("extended attributes are") => Some("--xattrs".to_owned()),
        () if lacks("hard links are") => Some("--hard-links".to_owned()),
        () => None,
    }
}

/// Returns true for the text that may be between rsync's name and its message: nothing, or its role.
fn is_role(text: &str) -> bool {
    text.is_empty() || (text.starts_with('[') && text.ends_with("] "))
}

/// Returns rsync's last messages of substance, without those that only report that there were others.
fn last_words(texts: &[String], code: i32) -> String {
    let is_summary = |text: &str| text.starts_with("rsync error: ") || text.starts_with("rsync warning: ");
    let only_says_that = |text: &&String| {
        is_summary(text)
            || text.contains("read error: Connection reset")
            || text.starts_with("rsync: ") && text.contains("connection unexpectedly closed")
    };
    let told = texts.iter().rfind(|text| !only_says_that(text));
    let told = told
        .or_else(|| texts.iter().rfind(|text| !is_summary(text)))
        .or_else(|| texts.last())
        .map(|text| lossy(text.as_bytes()));
    match told {
        Some(words) => format!("{words} (exit code {code} of rsync)"),
        None => format!("it ended with exit code {code}"),
    }
}

/// Returns the error if a device or quota was full, which ends the run.
fn no_space(texts: &[String]) -> Option<Error> {
    texts.iter().find_map(|text| os_error(text)).filter(|error| error.kind == ErrorKind::NoSpace)
}

/// Parses the system's error at the end of a line: `: Permission denied (13)`.
fn os_error(text: &str) -> Option<Error> {
    let (before, number) = text.trim_end().strip_suffix(')')?.rsplit_once(" (")?;
    let number: i32 = number.parse().ok()?;
    before.contains(": ").then(|| Error::io(RUNNING, &std::io::Error::from_raw_os_error(number)))
}

/// Returns true for a line that only reports that the other side has gone.
fn is_of_the_connection(text: &str) -> bool {
    text.strip_prefix("rsync: ").is_some_and(|said| {
        let said = said.split_once("] ").filter(|_| said.starts_with('[')).map_or(said, |(_, said)| said);
        said.starts_with("read error:") || said.starts_with("write error:")
    })
}

/// Parses a line about one entry. Returns the path that it names, and the error.
fn failure(line: &[u8]) -> Option<(Vec<u8>, Error)> {
    let text = String::from_utf8_lossy(line);
    // rsync itself retries what it warns about.
    let is_of_all =
        ["rsync error: ", "rsync warning: ", "WARNING: "].iter().any(|head| text.starts_with(head));
    if is_of_all || is_of_the_connection(&text) {
        return None;
    }
    if let Some(rest) = line.strip_prefix(b"filename overflows max-path len by ") {
        let name = rest.splitn(2, |byte| *byte == b':').nth(1)?.trim_ascii_start();
        let words = "its path is too long for rsync";
        return Some((unescaped(name), Error::new(ErrorKind::Unsupported, "listing", words)));
    }
    if let Some(rest) = line.strip_prefix(b"ERROR: ") {
        let end = rest.windows(UNVERIFIED.len()).rposition(|part| part == UNVERIFIED)?;
        let words = "what arrived is not what was sent; copy it again";
        return Some((unescaped(&rest[..end]), Error::new(ErrorKind::Corrupt, "checking", words)));
    }
    if let Some(quoted) = line.strip_prefix(b"file has vanished: \"") {
        let end = quoted.iter().rposition(|byte| *byte == b'"')?;
        let words = "it was there when the directory was listed, and is gone";
        let error = Error::new(ErrorKind::SourceVanished, "reading", words);
        return Some((unescaped(&quoted[..end]), error));
    }
    if let Some(name) = line.strip_prefix(b"could not make way for new ") {
        let name = name.splitn(2, |byte| *byte == b':').nth(1)?.trim_ascii_start();
        let words = "a directory that is not empty is in its place";
        return Some((unescaped(name), Error::new(ErrorKind::Conflict, "making way", words)));
    }
    if let Some(name) = line.strip_prefix(b"cannot delete non-empty directory: ") {
        let words = "it is not empty";
        return Some((unescaped(name), Error::new(ErrorKind::Conflict, "removing", words)));
    }
    let system = os_error(&text);
    let begin = line.iter().position(|byte| *byte == b'"');
    let end =
        line.iter().rposition(|byte| *byte == b'"').filter(|end| begin.is_some_and(|begin| *end > begin));
    let (Some(begin), Some(end)) = (begin, end) else {
        let of_all = |error| Error { during: COPYING.into(), detail: lossy(line), ..error };
        return system.map(|error| (Vec::new(), of_all(error)));
    };
    let before = text.split('"').next().unwrap_or_default().trim_end();
    let quoted = &line[begin + 1..end];
    let path = unescaped(if before.ends_with("xattr(") { before_attribute(quoted) } else { quoted });
    if line.ends_with(MODE_NOT_SET) {
        let words = "its mode was not set: the receiving rsync found no safe way to";
        return Some((path, Error::new(ErrorKind::PermissionDenied, "setting the mode", words)));
    }
    let step = before.rsplit("] ").next().unwrap_or(before).trim_end_matches('(').to_owned();
    let (kind, detail) = match system {
        Some(error) => (error.kind, error.reason()),
        None => (ErrorKind::Io, lossy(line)),
    };
    Some((path, Error { during: step.into(), ..Error::new(kind, "", detail) }))
}

/// Returns the path before an attribute's name: `path","user.x`, or `path" (in module),"user.x`.
fn before_attribute(quoted: &[u8]) -> &[u8] {
    let last = |of: &[u8], part: &[u8]| of.windows(part.len()).rposition(|found| found == part);
    let Some(end) = last(quoted, b",\"") else { return quoted };
    let path = &quoted[..end];
    let end = if path.ends_with(b")") { last(path, b"\" (in ") } else { path.len().checked_sub(1) };
    end.map_or(path, |end| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(code: i32, lines: &[&str]) -> Verdict {
        let lines: Vec<_> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        verdict(ExitStatus::from_raw(code << 8), &lines)
    }

    #[test]
    fn what_a_daemon_refuses_is_told_apart() {
        let full = judged(5, &["@ERROR: max connections (2) reached -- try again later", "rsync error: x"]);
        assert!(matches!(full, Verdict::Full(Some(2))));
        // The message of rsync 3.5.0 for a module with chroot.
        let not_set = "do_chmod: no symlink-safe chmod for \".np.5xYz1A\"; mode not set";
        let Verdict::Partly(failures) = judged(0, &[not_set]) else { panic!() };
        assert_eq!((&failures[0].0[..], &*failures[0].1.during), (&b".np.5xYz1A"[..], "setting the mode"));
        assert!(matches!(judged(0, &["a warning"]), Verdict::Done));
        assert!(matches!(judged(5, &["@ERROR: auth failed on module m"]), Verdict::AuthFailed(_)));
        let unknown = judged(5, &["@ERROR: Unknown module 'x'"]);
        assert!(matches!(unknown, Verdict::Fatal(error) if error.kind == ErrorKind::NotFound));
        let read_only = judged(1, &["ERROR: module is read only", "rsync error: syntax or usage error"]);
        assert!(matches!(read_only, Verdict::Fatal(error) if error.kind == ErrorKind::ReadOnly));
    }

    #[test]
    fn options_that_are_not_taken_are_named() {
        for (line, option) in [
            ("rsync: The server is configured to refuse --hard-links (-H)", "--hard-links"),
            ("rsync: on remote machine: --info=progress2: unknown option", "--info"),
            ("rsync: --outbuf=L: unknown option", "--outbuf"),
            ("rsync: ACLs are not supported on this server", "--acls"),
        ] {
            let verdict = judged(4, &[line]);
            assert!(
                matches!(&verdict, Verdict::OptionRefused(name) if name == option),
                "{line}: {verdict:?}"
            );
        }
    }

    #[test]
    fn lost_connections_may_be_tried_again_and_a_full_disk_may_not() {
        assert!(matches!(judged(12, &["rsync: connection unexpectedly closed"]), Verdict::Lost(_)));
        assert!(matches!(verdict(ExitStatus::from_raw(9), &[]), Verdict::Lost(_)));
        let full =
            judged(12, &["rsync: [receiver] write failed on \"a\" (in m): No space left on device (28)"]);
        assert!(matches!(full, Verdict::Fatal(error) if error.kind == ErrorKind::NoSpace));
    }

    #[test]
    fn a_partial_success_always_names_a_failure() {
        let read = |line: &str| {
            let Verdict::Partly(failures) = judged(23, &[line, "rsync error: some files (code 23)"]) else {
                panic!("{line}")
            };
            let [(path, error)] = &failures[..] else { panic!("{failures:?}") };
            (String::from_utf8(path.clone()).unwrap(), error.kind)
        };
        let long = read("filename overflows max-path len by 171: a: b/ddd");
        assert_eq!(long, ("a: b/ddd".to_owned(), ErrorKind::Unsupported));
        let bad = read("ERROR: a\"b failed verification -- update discarded.");
        assert_eq!(bad, ("a\"b".to_owned(), ErrorKind::Corrupt));
        assert_eq!(read("something of a\"b").0, "");
        for place in ["\"d/a\"", "\"/d/a\" (in mod)"] {
            let line = format!(
                "rsync: [generator] get_xattr_data: lgetxattr({place},\"user.x\",1) failed: Permission denied (13)"
            );
            let (path, kind) = read(&line);
            assert_eq!((path.trim_start_matches('/'), kind), ("d/a", ErrorKind::PermissionDenied));
        }
        let denied = read("rsync: cannot do it to a\"b: Permission denied (13)");
        assert_eq!(denied, (String::new(), ErrorKind::PermissionDenied));
        // A warning is not a failure, but the exit code reports one.
        let warned = "WARNING: a failed verification -- update discarded (will try again).";
        assert_eq!(read(warned), (String::new(), ErrorKind::Io));
        let Verdict::Partly(both) = judged(23, &["file has vanished: \"/a\"", "rsync: of another kind"])
        else {
            panic!()
        };
        assert_eq!(both.len(), 2);
    }

    #[test]
    fn names_of_files_are_no_words_of_a_daemon() {
        for name in [
            "The server is configured to refuse --perms",
            "x: unknown option",
            "remote command not found",
            "hard links are not supported on this server",
        ] {
            let line =
                format!("rsync: [sender] send_files failed to open \"/s/{name}\": Permission denied (13)");
            assert!(
                matches!(judged(23, &[&line]), Verdict::Partly(failures) if failures.len() == 1),
                "{name}"
            );
        }
        let name = "rsync: [sender] open \"The server is configured to refuse --perms\": No such file (2)";
        assert!(!matches!(judged(11, &[name]), Verdict::OptionRefused(_)));
    }

    #[test]
    fn failures_are_read_path_by_path() {
        let lines = [
            "rsync: [sender] send_files failed to open \"/s/a\\#012b\": Permission denied (13)",
            "file has vanished: \"/s/gone\"",
            "could not make way for new regular file: x/y",
            "rsync error: some files/attrs were not transferred (see previous errors) (code 23) at main.c(1)",
        ];
        let Verdict::Partly(failures) = judged(23, &lines) else { panic!() };
        let found: Vec<_> = failures.iter().map(|(path, error)| (&path[..], error.kind)).collect();
        let expected = [
            (&b"/s/a\nb"[..], ErrorKind::PermissionDenied),
            (b"/s/gone", ErrorKind::SourceVanished),
            (b"x/y", ErrorKind::Conflict),
        ];
        assert_eq!(found, expected);
        assert_eq!(failures[0].1.during, "send_files failed to open");
    }
}
