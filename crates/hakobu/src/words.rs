//! Errors in words, with the next step. The one place where kinds become advice.

use hakobu_core::error::{Error, ErrorStep};
use hakobu_core::location::Location;
use hakobu_core::path::lossy;
use hakobu_core::report::{ReportError, ReportFailure};
use hakobu_core::request::CopyRequest;
use hakobu_core::store_name::is_object_scheme;

use crate::language::Language;
use crate::messages;
use crate::translation;

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
pub fn error(error: &Error, language: Language) -> String {
    let words = plain(&error.during, &lossy(&error.at), &error.detail, language);
    let advice = || advice(&ReportError::from(error), &Machines::default());
    with_hint(words, error.hint.as_deref().or_else(advice), language)
}

/// Formats an error for the standard error of an agent, which other programs write to as well.
pub fn agent_error(error: &Error) -> String {
    let words = report_error(&ReportError::from(error), &Machines::default(), Language::En);
    format!("hakobu: {}", words.strip_prefix(messages::ERROR).unwrap_or(&words).trim_start())
}

fn with_hint(words: String, hint: Option<&str>, language: Language) -> String {
    let Some(hint) = hint.map(escaped_lines) else { return words };
    let hint = messages::labelled(language, messages::HINT, &translation::text(language, &hint));
    format!("{words}\n{hint}")
}

/// The error that ended a run.
pub fn report_error(error: &ReportError, machines: &Machines, language: Language) -> String {
    let words = plain(&error.during, &lossy(error.at.as_bytes()), &error.error, language);
    with_hint(words, advice(error, machines), language)
}

/// Returns advice on an error, if the error contains none itself.
pub fn advice(error: &ReportError, machines: &Machines) -> Option<&'static str> {
    match error.kind.as_str() {
        // No user and no sudo gets round a restricted key.
        "permission_denied" if error.step == ErrorStep::Restriction => Some(RESTRICTED),
        "permission_denied" => machines.permission(&error.at),
        // What was expected is said with the error.
        "protocol" if is_of_a_store(&error.at) => None,
        "connection_lost" | "timed_out" if is_of_a_store(&error.at) && machines.only_looks => {
            Some("check the endpoint and the network, then run the same command again")
        }
        "connection_lost" | "timed_out" if is_of_a_store(&error.at) => Some(
            "check the endpoint and the network, then run the same command again: complete files are not sent again; \
             --retry-for 10m keeps trying",
        ),
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
            // The rights are those of the credentials, of which the message tells more.
            (false, _) if is_of_a_store(at) => None,
            (false, _) => Some("run hakobu as a user who may"),
        }
    }
}

/// Returns true if this is a location of an rsync daemon.
fn is_of_a_daemon(at: &str) -> bool {
    at.starts_with("rsync://") || at.contains("::")
}

/// Returns true if this is a location of an object store.
fn is_of_a_store(at: &str) -> bool {
    at.split_once("://").is_some_and(|(scheme, _)| is_object_scheme(scheme))
}

/// One entry that failed, in one line.
pub fn failure(path: &[u8], error: &Error, language: Language) -> String {
    failed_line(&lossy(path), &error.during, &lossy(&error.at), &error.reason(), language)
}

/// One entry that failed, from a report.
pub fn report_failure(failure: &ReportFailure, language: Language) -> String {
    let at = failure.at.as_deref().unwrap_or_default();
    let path = lossy(failure.path.as_bytes());
    failed_line(&path, &failure.during, &lossy(at.as_bytes()), &failure.error, language)
}

/// `at` is the place at the target; empty if it failed at the source.
fn failed_line(path: &str, during: &str, at: &str, detail: &str, language: Language) -> String {
    // The top has no name of its own, and of some failures it is not known whose they are.
    let path = if path.is_empty() { "." } else { path };
    let (during, detail) = (lossy(during.as_bytes()), lossy(detail.as_bytes()));
    let words = match language {
        Language::En => {
            // "looking at" and the like lead to the place by themselves.
            let at = match (at.is_empty(), during.ends_with(" at") || during.ends_with(" in")) {
                (true, false) => String::new(),
                (true, true) => " it".to_owned(),
                (false, false) => format!(" at {at}"),
                (false, true) => format!(" {at}"),
            };
            format!("{path}: {during}{at}: {detail}")
        }
        Language::Ja => {
            let (step, detail) = (translation::step(language, &during), translation::text(language, &detail));
            let parts = [path, step, at, &detail];
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
        }
    };
    messages::labelled(language, messages::FAILED, &words)
}

fn plain(during: &str, place: &str, detail: &str, language: Language) -> String {
    let during = lossy(during.as_bytes());
    let mut words = messages::labelled(language, messages::ERROR, translation::step(language, &during));
    if !place.is_empty() {
        // A Japanese step is a noun, to which no place belongs.
        words.push_str(language.say(" ", ": "));
        words.push_str(place);
    }
    if !detail.is_empty() {
        words.push_str(": ");
        words.push_str(&translation::text(language, &escaped_lines(detail)).replace('\n', "\n  "));
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
pub fn note(said: u64, words: &str, language: Language) -> Option<String> {
    let words = match said.cmp(&NOTES_MAX) {
        std::cmp::Ordering::Less => {
            let mut chars = words.chars();
            let cut: String = chars.by_ref().take(NOTE_CHARS_MAX).collect();
            let rest = if chars.next().is_some() { " \u{2026}" } else { "" };
            format!("{}{rest}", translation::text(language, &lossy(cut.as_bytes())))
        }
        std::cmp::Ordering::Equal => translation::phrase(language, "\u{2026} further notes are suppressed"),
        std::cmp::Ordering::Greater => return None,
    };
    Some(messages::labelled(language, messages::NOTE, &words))
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

    const EN: Language = Language::En;
    const JA: Language = Language::Ja;

    #[test]
    fn an_error_says_what_to_do() {
        let lost = Error::new(ErrorKind::ConnectionLost, "sending to", "broken pipe").at("h\x1b[2J");
        let words = error(&lost, EN);
        assert!(words.starts_with("error: sending to h\\u{1b}[2J: broken pipe\nhint: "), "{words}");
        assert_eq!(words, report_error(&ReportError::from(&lost), &Machines::default(), EN));
        assert!(words.contains("--retry-for"), "{words}");
        // Verbs that only inspect have no such option.
        let looking = Machines { only_looks: true, ..Machines::default() };
        let words = report_error(&ReportError::from(&lost), &looking, EN);
        assert!(words.ends_with("hint: check the network, then run the same command again"), "{words}");
    }

    #[test]
    fn sudo_is_advised_for_the_far_side_only_and_once() {
        let said = |at: &str, sudo| {
            let error = Error::new(ErrorKind::PermissionDenied, "looking at the source", "no").at(at);
            let machines = Machines { far: vec!["h".into(), "me@i".into()], sudo, ..Machines::default() };
            report_error(&ReportError::from(&error), &machines, EN)
        };
        assert!(said("h:/x", false).contains("--sudo") && said("me@i:x", false).contains("--sudo"));
        assert!(said("/x", false).ends_with("hint: run hakobu as a user who may"));
        assert!(!said("hx:/x", false).contains("--sudo"));
        assert!(!said("s3://bucket/x", false).contains("hint: "));
        assert!(!said("h:/x", true).contains("what to do"));
    }

    #[test]
    fn a_restricted_key_is_no_matter_of_sudo() {
        let refused = "this login may only use what is beneath /backup";
        let error = Error::new(ErrorKind::PermissionDenied, "looking at the source", refused);
        let error = error.in_step(ErrorStep::Restriction).at("h:/etc");
        let machines = Machines { far: vec!["h".into()], ..Machines::default() };
        let words = report_error(&ReportError::from(&error), &machines, EN);
        assert!(words.contains("hint: the key that logs in there is restricted"), "{words}");
        assert!(!words.contains("--sudo"), "{words}");
    }

    #[test]
    fn the_other_sides_words_stay_lines_but_cannot_move_the_cursor() {
        let told = Error::new(ErrorKind::Io, "starting ssh", "Host key changed!\n\x1b[31mbeware\r");
        assert_eq!(error(&told, EN), "error: starting ssh: Host key changed!\n  \\u{1b}[31mbeware\\r");
        assert_eq!(failure(b"a\nb", &told, EN).lines().count(), 1);
    }

    #[test]
    fn notes_are_cut_and_come_to_an_end() {
        assert_eq!(note(0, "a\u{1b}b", EN), Some("note: a\\u{1b}b".to_owned()));
        assert!(note(0, &"x".repeat(1 << 20), EN).is_some_and(|line| line.len() < 5000));
        let mut all = (0..10_000).filter_map(|said| note(said, "x", EN));
        assert_eq!(all.next_back().as_deref(), Some("note: \u{2026} further notes are suppressed"));
        assert_eq!((0..10_000).filter_map(|said| note(said, "x", EN)).count() as u64, NOTES_MAX + 1);
    }

    #[test]
    fn a_failure_at_the_target_names_the_place_there() {
        let failed = |at: &str| {
            let error = Error::new(ErrorKind::Io, "making the file", "no").at(at);
            let failed = Failure { path: b"x".to_vec(), error };
            let line = failure(&failed.path, &failed.error, EN);
            assert_eq!(line, report_failure(&ReportFailure::from(&failed), EN));
            line
        };
        assert_eq!(failed("h:/t\x07/x"), "failed: x: making the file at h:/t\\u{7}/x: no");
        assert_eq!(failed(""), "failed: x: making the file: no");
        let error = Error::new(ErrorKind::PermissionDenied, "looking at", "no");
        let said = |error: &Error| failure(b"x", error, EN);
        assert_eq!(said(&error.clone().at("/t/x")), "failed: x: looking at /t/x: no");
        assert_eq!(said(&error), "failed: x: looking at it: no");
    }

    #[test]
    fn a_translated_error_keeps_its_place() {
        let denied = Error::new(ErrorKind::PermissionDenied, "creating the directory", "permission denied");
        let denied = denied.at("reading: permission denied\x1b");
        assert_eq!(
            error(&denied, JA),
            "エラー: ディレクトリの作成: reading: permission denied\\u{1b}: アクセス権がない\n\
             ヒント: アクセス権のあるユーザーで hakobu を実行する"
        );
        assert_eq!(
            failure(b"it is closed; reading: permission denied", &denied, JA),
            "失敗: it is closed; reading: permission denied: ディレクトリの作成: \
             reading: permission denied\\u{1b}: アクセス権がない"
        );
        let unknown = Error::new(ErrorKind::Io, "frobbing", "odd: it is closed").at("x");
        assert_eq!(error(&unknown, JA), "エラー: frobbing: x: odd: 閉じている");
        assert_eq!(failure(b"", &Error::new(ErrorKind::Io, "reading", "odd"), JA), "失敗: .: 読み取り: odd");
    }
}
