use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use hakobu_core::error::{Error, ErrorKind, ErrorStep};
use hakobu_core::report::Report;
use hakobu_endpoints::local::StateDirectory;
use tempfile::TempDir;

use super::folder::{PROGRESS_BYTES_MAX, RECORD_BYTES_MAX};
use super::*;

fn jobs() -> (TempDir, Jobs) {
    let place = tempfile::tempdir().unwrap();
    let jobs = Jobs::below(&StateDirectory::new(place.path().join("state"))).unwrap();
    (place, jobs)
}

fn record(folder: &JobFolder) -> JobRecord {
    let word = |text: &str| ArgumentWord(OsString::from(text));
    JobRecord {
        schema: JOB_SCHEMA.to_owned(),
        id: folder.id().as_str().to_owned(),
        created_at: "2026-01-02T03:04:05Z".to_owned(),
        argv: ["hakobu", "copy", "a b", "h:/c"].map(word).to_vec(),
        cwd: word("/"),
        environment: vec![("PATH".to_owned(), ArgumentWord(OsString::from_vec(b"/\xff".to_vec())))],
        sources: vec![word("a b")],
        target: word("h:/c"),
    }
}

fn report(kind: Option<ErrorKind>) -> Report {
    let mut report = Report::default();
    let error = kind.map(|kind| Error::new(kind, "copying", "as it happens"));
    report.conclude(&[], error.as_ref(), false);
    report.exit_code = report.outcome.exit_code();
    report
}

#[test]
fn a_record_is_read_back_byte_by_byte() {
    let (_place, jobs) = jobs();
    let folder = jobs.create().unwrap();
    let record = record(&folder);
    folder.write_record(&record).unwrap();
    assert_eq!(folder.record().unwrap(), record);
    let text = fs::read_to_string(folder.path().join("job.json")).unwrap();
    assert!(text.contains("\"a b\"") && text.contains("{\n        \"base64\": \"L/8=\""), "{text}");
}

#[test]
fn limits_are_kept_until_others_are_set() {
    let (_place, jobs) = jobs();
    let folder = jobs.create().unwrap();
    assert_eq!((folder.limits(), folder.limits_stamp()), (Ok(None), None));
    let of = |rate: &str| JobLimits {
        schema: LIMITS_SCHEMA.to_owned(),
        bwlimit: Some(rate.to_owned()),
        ..JobLimits::default()
    };
    folder.write_limits(&of("20M")).unwrap();
    let first = folder.limits_stamp();
    assert!(first.is_some());
    folder.write_limits(&of("08:00,20M 19:00,off")).unwrap();
    assert_ne!(folder.limits_stamp(), first);
    // The limits also apply to the next run.
    folder.begin(&folder.lock().unwrap()).unwrap();
    assert_eq!(folder.limits(), Ok(Some(of("08:00,20M 19:00,off"))));
    let path = folder.path().join("limits.json");
    let foreign = r#"{"schema":"hakobu.limits/9","set_at":""}"#.to_owned();
    for (bad, kind) in [
        ("{".to_owned(), ErrorKind::Corrupt),
        (foreign, ErrorKind::Unsupported),
        (" ".repeat(70_000), ErrorKind::Io),
    ] {
        fs::write(&path, bad).unwrap();
        assert_eq!(folder.limits().unwrap_err().kind, kind);
    }
}

#[test]
fn a_record_that_is_not_ours_is_not_run() {
    let (_place, jobs) = jobs();
    let folder = jobs.create().unwrap();
    let good = serde_json::to_string(&record(&folder)).unwrap();
    let path = folder.path().join("job.json");
    for (bad, kind) in [
        (good.replace("hakobu.job/1", "hakobu.job/9"), ErrorKind::Unsupported),
        (good.replace(folder.id().as_str(), "aaaaaaa"), ErrorKind::Unsupported),
        (good.replace("L/8=", "L/8"), ErrorKind::Corrupt),
        (good.replace("a b", "a\\u0000b"), ErrorKind::Corrupt),
        (good[..20].to_owned(), ErrorKind::Corrupt),
        (format!("{good}{}", " ".repeat(RECORD_BYTES_MAX as usize)), ErrorKind::Io),
    ] {
        fs::write(&path, bad).unwrap();
        assert_eq!(folder.record().unwrap_err().kind, kind);
    }
    fs::write(&path, format!("{good}{}", " ".repeat(RECORD_BYTES_MAX as usize - good.len()))).unwrap();
    folder.record().unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(folder.record().unwrap_err().kind, ErrorKind::NotFound);
    fs::write(folder.path().join("elsewhere"), &good).unwrap();
    symlink("elsewhere", &path).unwrap();
    folder.record().unwrap_err();
}

#[test]
fn what_others_may_open_is_refused() {
    let (_place, jobs) = jobs();
    let folder = jobs.create().unwrap();
    let mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(folder.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    for wrong in [0o770, 0o705, 0o701] {
        mode(wrong);
        let error = jobs.find(folder.id().as_str()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.detail.contains("chmod 700"), "{error}");
    }
    mode(0o700);
    jobs.open(folder.id()).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder.path(), Some(12345), None).unwrap();
        assert_eq!(jobs.open(folder.id()).unwrap_err().kind, ErrorKind::Refused);
    }
}

#[test]
fn the_state_follows_from_lock_report_and_wish() {
    let (_place, jobs) = jobs();
    let folder = jobs.create().unwrap();
    let state = || folder.state().0;
    assert_eq!(state(), JobState::Interrupted);
    let lock = folder.lock().unwrap();
    assert_eq!(state(), JobState::Running);
    assert_eq!(folder.lock().unwrap_err().kind, ErrorKind::Locked);
    for (kind, expected) in [
        (None, JobState::Done),
        (Some(ErrorKind::NoSpace), JobState::Failed),
        (Some(ErrorKind::Cancelled), JobState::Interrupted),
        (Some(ErrorKind::ConnectionLost), JobState::Interrupted),
    ] {
        folder.write_report(&report(kind)).unwrap();
        assert_eq!((JobState::of(true, false, None), state()), (JobState::Running, JobState::Running));
        assert_eq!(JobState::of(false, false, jobs_ended(&folder).as_ref()), expected, "{kind:?}");
    }
    let mut no_login = report(Some(ErrorKind::Io));
    no_login.error.as_mut().unwrap().step = ErrorStep::Login;
    folder.write_report(&no_login).unwrap();
    assert_eq!(JobState::of(false, false, jobs_ended(&folder).as_ref()), JobState::Interrupted);
    folder.pause().unwrap();
    drop(lock);
    assert_eq!(state(), JobState::Paused);
    // A new run does not see the state of the last one.
    let lock = folder.lock().unwrap();
    folder.begin(&lock).unwrap();
    assert!(!folder.is_paused() && folder.report().is_none());
    drop(lock);
    assert_eq!(state(), JobState::Interrupted);
    fs::write(folder.path().join("report.json"), "{\"outcome\": \"odd\"}").unwrap();
    assert_eq!(state(), JobState::Failed);
    fs::write(folder.path().join("report.json"), "{\"outcome\": \"done\", \"exit_code\": 0, \"new\": 1}")
        .unwrap();
    assert_eq!(state(), JobState::Done);
}

#[test]
fn a_long_report_is_not_taken_into_memory() {
    let (_place, jobs) = jobs();
    let folder = jobs.create().unwrap();
    let path = folder.path().join("report.json");
    let line = format!("{{\"path\": \"{}\"}},\n", "x".repeat(1 << 20));
    let report = format!(
        "{{\"outcome\": \"done\", \"exit_code\": 0, \"failures\": [{}1], \"bytes_done\": 7}}",
        line.repeat(70)
    );
    fs::write(&path, &report).unwrap();
    let (state, ended) = folder.state();
    assert_eq!((state, ended.unwrap().bytes_done), (JobState::Done, 7));
    assert_eq!(folder.report().unwrap()["too_long_to_show"], true);
    // A file of any length costs nothing, and is reported.
    fs::File::options().write(true).open(&path).unwrap().set_len(3 << 30).unwrap();
    let (state, ended) = folder.state();
    assert!(ended.unwrap().error.unwrap().error.contains("3221225472 bytes"));
    assert_eq!(state, JobState::Failed);
}

fn jobs_ended(folder: &JobFolder) -> Option<EndedReport> {
    serde_json::from_value(folder.report()?).ok()
}

#[test]
fn jobs_are_found_by_how_their_ids_begin() {
    let (_place, jobs) = jobs();
    let (one, two) = (jobs.create().unwrap(), jobs.create().unwrap());
    let mut ids = [one.id(), two.id()];
    ids.sort();
    assert_eq!(jobs.ids().unwrap(), ids);
    assert_eq!(jobs.find(one.id().as_str()).unwrap().id(), one.id());
    let same = one.id().as_str().bytes().zip(two.id().as_str().bytes()).take_while(|(a, b)| a == b).count();
    assert_eq!(jobs.find(&one.id().as_str()[..=same]).unwrap().id(), one.id());
    for wrong in ["", "0", "../jobs", &format!("{}a", one.id())] {
        assert_eq!(jobs.find(wrong).unwrap_err().kind, ErrorKind::Usage);
    }
    if same > 0 {
        assert!(jobs.find(&one.id().as_str()[..same]).unwrap_err().detail.contains("several"));
    }
    let lock = one.lock().unwrap();
    assert_eq!(jobs.forget(&one).unwrap_err().kind, ErrorKind::Locked);
    drop(lock);
    assert_eq!(jobs.forget(&one).unwrap(), JobState::Interrupted);
    assert_eq!(jobs.ids().unwrap(), [two.id()]);
}

#[test]
fn log_and_progress() {
    let (_place, jobs) = jobs();
    let folder = jobs.create().unwrap();
    folder.append_to_log().unwrap().write_all(b"one\n").unwrap();
    folder.append_to_log().unwrap().write_all(b"two\n").unwrap();
    let log = |back| {
        let mut text = String::new();
        folder.read_log(back).unwrap().read_to_string(&mut text).unwrap();
        text
    };
    assert_eq!((log(4).as_str(), log(1000).as_str()), ("two\n", "one\ntwo\n"));
    assert_eq!(folder.progress(), None);
    folder.write_progress("10 %");
    folder.write_progress("20 %");
    assert_eq!(folder.progress().as_deref(), Some("20 %"));
    folder.write_progress(&"x".repeat(PROGRESS_BYTES_MAX as usize + 1));
    assert_eq!(folder.progress(), None);
}

#[test]
fn consent_is_kept_where_the_parser_finds_it() {
    let (_place, jobs) = jobs();
    let mut record = record(&jobs.create().unwrap());
    record.confirm("made.1");
    record.confirm("made.1");
    let expected = ["hakobu", "copy", "--confirm", "made.1", "a b", "h:/c"];
    assert_eq!(record.arguments(), expected.map(OsStr::new));
}

#[test]
fn what_began_anew_goes_on_from_then() {
    let (_place, jobs) = jobs();
    let mut record = record(&jobs.create().unwrap());
    let typed = ["hakobu", "copy", "--restart", "a", "--", "--restart", "b"];
    record.argv = typed.map(|word| ArgumentWord(OsString::from(word))).to_vec();
    record.go_on();
    assert_eq!(record.arguments(), ["hakobu", "copy", "a", "--", "--restart", "b"].map(OsStr::new));
}
