//! Errors in words, with the next step. The one place where kinds become advice.

use hakobu_core::error::{Error, ErrorStep};
use hakobu_core::location::Location;
use hakobu_core::path::lossy;
use hakobu_core::report::{ReportError, ReportFailure};
use hakobu_core::request::CopyRequest;

use crate::messages;

/// The advice for a login whose key is restricted to a directory.
const RESTRICTED: &str = "the key that logs in there is restricted (hakobu agent --restrict in authorized_keys over there): \
                          use it for what it allows, or log in with another key";

/// The machines that a run has to do with, as far as advice depends on them.
#[derive(Clone, Debug, Default)]
pub struct Machines {
    /// The far ones, as they were typed: places there begin with one of these and a colon.
    pub far: Vec<String>,
    /// True if the agent runs under sudo already.
    pub sudo: bool,
    /// True if the command only inspects, so there is nothing to resume.
    pub only_looks: bool,
}

/// The machines that a request names.
pub(crate) fn machines(request: &CopyRequest) -> Machines {
    let ends = request.sources.iter().chain([&request.target]);
    let ends = ends.chain(request.pairs.iter().flat_map(|pair| [&pair.0, &pair.1]));
    let far = ends.filter_map(Location::ssh_host).map(|host| host.destination()).collect();
    Machines { far, sudo: request.sudo, only_looks: false }
}

/// An error that ends the program, and a hint for the user. It has to do with this machine.
pub fn error(error: &Error) -> String {
    let words = plain(&error.during, &lossy(&error.at), &error.detail);
    let advice = || advice(&ReportError::from(error), &Machines::default());
    with_hint(words, error.hint.as_deref().or_else(advice))
}

/// Formats an error for the standard error of an agent, which other programs write to as well.
pub fn agent_error(error: &Error) -> String {
    let words = report_error(&ReportError::from(error), &Machines::default());
    format!("hakobu: {}", words.strip_prefix(messages::ERROR).unwrap_or(&words).trim_start())
}

fn with_hint(words: String, hint: Option<&str>) -> String {
    match hint {
        Some(hint) => format!("{words}\n{}", messages::hint(&escaped_lines(hint))),
        None => words,
    }
}

/// The error that ended a run.
pub fn report_error(error: &ReportError, machines: &Machines) -> String {
    let words = plain(&error.during, &lossy(error.at.as_bytes()), &error.error);
    with_hint(words, advice(error, machines))
}

/// Returns advice on an error, if the error contains none itself.
pub fn advice(error: &ReportError, machines: &Machines) -> Option<&'static str> {
    match error.kind.as_str() {
        // No user and no sudo gets round a restricted key.
        "permission_denied" if error.step == ErrorStep::Restriction => Some(RESTRICTED),
        "permission_denied" => machines.permission(&error.at),
        // The message of the daemon tells how to make it writable.
        "read_only" if is_of_a_daemon(&error.at) => None,
        "connection_lost" | "timed_out" if machines.only_looks => {
            Some("check the network, then run the same command again")
        }
        // Not where it was foreseen: nothing was begun there.
        "no_space" if error.step == ErrorStep::Write => Some(
            "free space at the target or raise the quota, then run the same command again; until then what was begun \
             of a large file stays beside its place, as .hakobu.*, and may be removed",
        ),
        kind => next_step(kind),
    }
}

impl Machines {
    /// Returns advice for a denied access. sudo helps only on the remote host, and only if it is not in use yet.
    fn permission(&self, at: &str) -> Option<&'static str> {
        let is_far = |host: &String| at.strip_prefix(host).is_some_and(|rest| rest.starts_with(':'));
        match (self.far.iter().any(is_far), self.sudo) {
            (true, false) => Some(
                "log in as a user who may; where hakobu runs over there, --sudo gives it the rights of root",
            ),
            (true, true) => None,
            // A daemon's rights are those of its rsyncd.conf.
            (false, _) if is_of_a_daemon(at) => None,
            (false, _) => Some("run hakobu as a user who may"),
        }
    }
}

/// Returns true if this is a location of an rsync daemon.
fn is_of_a_daemon(at: &str) -> bool {
    at.starts_with("rsync://") || at.contains("::")
}

/// One entry that failed, in one line.
pub fn failure(path: &[u8], error: &Error) -> String {
    failed_line(&lossy(path), &error.during, &lossy(&error.at), &error.reason())
}

/// One entry that failed, from a report.
pub fn report_failure(failure: &ReportFailure) -> String {
    let at = failure.at.as_deref().unwrap_or_default();
    failed_line(&lossy(failure.path.as_bytes()), &failure.during, &lossy(at.as_bytes()), &failure.error)
}

/// `at` is the place at the target; empty if it failed at the source.
fn failed_line(path: &str, during: &str, at: &str, detail: &str) -> String {
    // "looking at" and the like lead to the place by themselves.
    let at = match (at.is_empty(), during.ends_with(" at") || during.ends_with(" in")) {
        (true, false) => String::new(),
        (true, true) => " it".to_owned(),
        (false, false) => format!(" at {at}"),
        (false, true) => format!(" {at}"),
    };
    // The top has no name of its own, and of some failures it is not known whose they are.
    let path = if path.is_empty() { "." } else { path };
    format!("failed: {path}: {}{at}: {}", lossy(during.as_bytes()), lossy(detail.as_bytes()))
}

fn plain(during: &str, place: &str, detail: &str) -> String {
    let mut words = messages::error(&lossy(during.as_bytes()));
    if !place.is_empty() {
        words.push(' ');
        words.push_str(place);
    }
    if !detail.is_empty() {
        words.push_str(": ");
        words.push_str(&escaped_lines(detail).replace('\n', "\n  "));
    }
    words
}

/// Returns advice on errors of this kind, if the error contains none itself.
fn next_step(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "connection_lost" | "timed_out" => {
            "check the network, then run the same command again: complete files are not sent again; \
             --retry-for 10m keeps trying"
        }
        "corrupt" => "run the same command again; if it happens again, check memory, disks and network cards",
        "locked" => {
            "wait for the other run, or end it; one whose connection was lost ends by itself within three minutes; hakobu jobs \
             lists those without a terminal"
        }
        "no_inodes" => "free inodes at the target (many small files use them up), then run it again",
        "no_space" => "free space at the target or raise the quota, then run the same command again",
        "protocol" => "see that both sides run the same version: hakobu --version",
        "read_only" => "mount the target's file system for writing",
        "requirement" => "leave --require out to accept the loss; it is counted at the end",
        "source_changed" | "source_vanished" => "run the same command again when the source is quiet",
        _ => return None,
    })
}

/// The maximum number of notes of a run that are printed, and the maximum length of each, because a peer may send any number.
const NOTES_MAX: u64 = 500;
const NOTE_CHARS_MAX: usize = 4000;

/// A note in one line, printable. `said`: how many were said before; nothing where that was enough.
pub fn note(said: u64, prefix: &str, words: &str) -> Option<String> {
    match said.cmp(&NOTES_MAX) {
        std::cmp::Ordering::Less => {
            let mut chars = words.chars();
            let cut: String = chars.by_ref().take(NOTE_CHARS_MAX).collect();
            let rest = if chars.next().is_some() { " \u{2026}" } else { "" };
            Some(format!("{prefix}: {}{rest}", lossy(cut.as_bytes())))
        }
        std::cmp::Ordering::Equal => Some(format!("{prefix}: \u{2026} further notes are suppressed")),
        std::cmp::Ordering::Greater => None,
    }
}

/// Control and deceptive characters escaped, but lines stay lines.
pub fn escaped_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| lossy(line.as_bytes())).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use hakobu_core::ErrorKind;
    use hakobu_core::event::Failure;

    use super::*;

    #[test]
    fn an_error_says_what_to_do() {
        let lost = Error::new(ErrorKind::ConnectionLost, "sending to", "broken pipe").at("h\x1b[2J");
        let words = error(&lost);
        assert!(words.starts_with("error: sending to h\\u{1b}[2J: broken pipe\nhint: "), "{words}");
        assert_eq!(words, report_error(&ReportError::from(&lost), &Machines::default()));
        assert!(words.contains("--retry-for"), "{words}");
        // Verbs that only inspect have no such option.
        let looking = Machines { only_looks: true, ..Machines::default() };
        let words = report_error(&ReportError::from(&lost), &looking);
        assert!(words.ends_with("hint: check the network, then run the same command again"), "{words}");
    }

    #[test]
    fn sudo_is_advised_for_the_far_side_only_and_once() {
        let said = |at: &str, sudo| {
            let error = Error::new(ErrorKind::PermissionDenied, "looking at the source", "no").at(at);
            let machines = Machines { far: vec!["h".into(), "me@i".into()], sudo, ..Machines::default() };
            report_error(&ReportError::from(&error), &machines)
        };
        assert!(said("h:/x", false).contains("--sudo") && said("me@i:x", false).contains("--sudo"));
        assert!(said("/x", false).ends_with("hint: run hakobu as a user who may"));
        assert!(!said("hx:/x", false).contains("--sudo"));
        assert!(!said("h:/x", true).contains("what to do"));
    }

    #[test]
    fn a_restricted_key_is_no_matter_of_sudo() {
        let refused = "this login may only use what is beneath /backup";
        let error = Error::new(ErrorKind::PermissionDenied, "looking at the source", refused);
        let error = error.in_step(ErrorStep::Restriction).at("h:/etc");
        let machines = Machines { far: vec!["h".into()], ..Machines::default() };
        let words = report_error(&ReportError::from(&error), &machines);
        assert!(words.contains("hint: the key that logs in there is restricted"), "{words}");
        assert!(!words.contains("--sudo"), "{words}");
    }

    #[test]
    fn the_other_sides_words_stay_lines_but_cannot_move_the_cursor() {
        let told = Error::new(ErrorKind::Io, "starting ssh", "Host key changed!\n\x1b[31mbeware\r");
        assert_eq!(error(&told), "error: starting ssh: Host key changed!\n  \\u{1b}[31mbeware\\r");
        assert_eq!(failure(b"a\nb", &told).lines().count(), 1);
    }

    #[test]
    fn notes_are_cut_and_come_to_an_end() {
        assert_eq!(note(0, "note", "a\u{1b}b"), Some("note: a\\u{1b}b".to_owned()));
        assert!(note(0, "note", &"x".repeat(1 << 20)).is_some_and(|line| line.len() < 5000));
        let mut all = (0..10_000).filter_map(|said| note(said, "note", "x"));
        assert_eq!(all.next_back().as_deref(), Some("note: \u{2026} further notes are suppressed"));
        assert_eq!((0..10_000).filter_map(|said| note(said, "note", "x")).count() as u64, NOTES_MAX + 1);
    }

    #[test]
    fn a_failure_at_the_target_names_the_place_there() {
        let failed = |at: &str| {
            let error = Error::new(ErrorKind::Io, "making the file", "no").at(at);
            let failed = Failure { path: b"x".to_vec(), error };
            assert_eq!(failure(&failed.path, &failed.error), report_failure(&ReportFailure::from(&failed)));
            failure(&failed.path, &failed.error)
        };
        assert_eq!(failed("h:/t\x07/x"), "failed: x: making the file at h:/t\\u{7}/x: no");
        assert_eq!(failed(""), "failed: x: making the file: no");
        let error = Error::new(ErrorKind::PermissionDenied, "looking at", "no");
        let said = |error: &Error| failure(b"x", error);
        assert_eq!(said(&error.clone().at("/t/x")), "failed: x: looking at /t/x: no");
        assert_eq!(said(&error), "failed: x: looking at it: no");
    }
}
