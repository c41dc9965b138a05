//! The limits of a job change while it runs, on whichever host its engine is, and then persist.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use hakobu_testkit::rsyncd::{Module, Rsyncd};
use hakobu_testkit::sshd::no_root;
use serde_json::Value;

use crate::jobs::{Desk, LIMIT};
use crate::program::*;

fn desk() -> Desk {
    let mut desk = Desk::here();
    desk.host = Some(Host::up());
    desk
}

/// Sets limits; returns standard error.
#[track_caller]
fn set(desk: &Desk, id: &str, options: &[&str]) -> String {
    let (code, out, err) = desk.run(&[&["jobs", "set", id], options].concat());
    assert_eq!(code, 0, "{out}{err}");
    err
}

#[track_caller]
fn wait_for_end(desk: &Desk, id: &str) {
    wait_until("the job is done", LIMIT, || desk.state_of(id) == "done");
}

#[test]
fn a_new_limit_reaches_the_engine_wherever_it_is() {
    if no_root() {
        return;
    }
    let desk = desk();
    let host = desk.host.as_ref().unwrap();
    let source = file(&desk.path("source"), 3_000_000);
    let ways = [
        ("push", source.clone().into_os_string(), host.at(desk.path("push")), "auto"),
        ("pull", host.at(&source), desk.path("pull").into_os_string(), "auto"),
        ("between", host.at(&source), host.at_another(desk.path("between")), "auto"),
        ("sftp", source.clone().into_os_string(), host.at(desk.path("sftp")), "sftp"),
    ];
    for (name, from, to, transport) in ways {
        let limit = OsStr::new("--bwlimit");
        let transport = ["--transport", transport].map(OsStr::new);
        let id = desk.detach(&[limit, OsStr::new(in_a_pause()), transport[0], transport[1], &from, &to]);
        assert_eq!(desk.state_of(&id), "running", "{name}");
        let said = set(&desk, &id, &["--bwlimit", "00:00,off 23:59,500M"]);
        assert!(said.contains("from now on: no limit from 00:00, at most 500 MB/s"), "{said}");
        wait_for_end(&desk, &id);
        assert!(fs::read(&source).unwrap() == fs::read(desk.path(name)).unwrap(), "{name}");
        let log = desk.attach_to(&id, 0);
        assert!(log.contains("paused until ") && log.contains("from now on: no limit from 00:00"), "{log}");
        let shown = desk.shown(&id);
        assert_eq!(shown["limits"]["bwlimit"], "00:00,off 23:59,500M", "{shown:#}");
        // A job that has ended accepts no limits.
        let (code, _, err) = desk.run(&["jobs", "set", &id, "--bwlimit", "1M"]);
        assert!(code == 2 && err.contains("it has ended already: done"), "{err}");
    }
}

/// A job that only compares has no rate to limit, and leaves nothing at the target.
#[test]
fn a_job_of_verify_takes_no_rate_and_is_forgotten_without_advice() {
    let desk = Desk::here();
    for name in ["one", "two"] {
        fs::write(desk.path(name), name).unwrap();
    }
    let (code, out, err) = desk.run(&["verify", "--detach", "one", "two"]);
    assert_eq!(code, 0, "{out}{err}");
    let id = out.trim_end();
    desk.attach_to(id, 4);
    for limits in [&["--bwlimit", "1M"][..], &["--bwlimit", "off", "--iops-limit", "9"]] {
        let (code, _, err) = desk.run(&[&["jobs", "set", id], limits].concat());
        assert!(code == 2 && err.contains("no effect on hakobu verify"), "{err}");
    }
    assert!(desk.shown(id)["limits"].is_null());
    set(&desk, id, &["--iops-limit", "100"]);
    let (code, _, err) = desk.run(&["jobs", "forget", id]);
    assert!(code == 0 && err == format!("job {id} is forgotten\n"), "{err}");
}

#[test]
fn what_was_set_holds_in_later_runs() {
    if no_root() {
        return;
    }
    let desk = desk();
    let source = file(&desk.path("source"), 3_000_000);
    let far = desk.host.as_ref().unwrap().at(desk.path("target"));
    let id = desk.detach(&[OsStr::new("--bwlimit"), OsStr::new("10k"), source.as_os_str(), &far]);
    set(&desk, &id, &["--iops-limit", "100", "--source-p99", "250"]);
    set(&desk, &id, &["--bwlimit", in_a_pause()]);
    let log = |words: &str| desk.shown(&id)["log"].to_string().contains(words);
    let both =
        "100 operations a second at each end (--iops-limit), 99 % of reads at the source within 250 ms";
    wait_until("it is held", LIMIT, || log("from now on: ") && log("note: paused until ") && log(both));
    desk.jobs(&format!("pause {id}"));
    assert!(desk.jobs(&format!("show {id}")).0.contains(", instead of those in the command, set at "));
    desk.jobs(&format!("resume {id}"));
    let pauses = || desk.shown(&id)["log"].to_string().matches("note: paused until ").count();
    wait_until("it is held again", LIMIT, || pauses() >= 2);
    assert!(!desk.path("target").exists());
    desk.jobs(&format!("pause {id}"));
    let said = set(&desk, &id, &["--bwlimit", "off", "--iops-limit", "off", "--source-p99", "off"]);
    assert!(said.contains("from its next run on: no limits"), "{said}");
    desk.jobs(&format!("resume {id}"));
    wait_for_end(&desk, &id);
    assert_same(&source, &desk.path("target"));
}

#[test]
fn limits_are_set_from_elsewhere_than_where_the_job_was_typed() {
    if no_root() {
        return;
    }
    let desk = desk();
    file(&desk.path("source"), 3_000_000);
    // Relative paths refer to the directory in which the command was typed.
    fs::write(desk.path("rules"), "iops-limit = 100\n").unwrap();
    fs::set_permissions(desk.path("rules"), fs::Permissions::from_mode(0o600)).unwrap();
    let far = desk.host.as_ref().unwrap().at(desk.path("target"));
    let options = ["--settings", "rules", "--bwlimit", in_a_pause(), "source"].map(OsStr::new);
    let id = desk.detach(&[&options[..], &[&far]].concat());
    let elsewhere = |arguments: &[&str]| {
        let output = desk.command().arg("jobs").args(arguments).current_dir("/").output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "{out}{err}");
        (out, err)
    };
    let (_, said) = elsewhere(&["set", &id, "--source-p99", "250"]);
    // Limits from the settings file apply in addition to typed ones and those of `jobs set`.
    let more = "at most 100 operations a second at each end (--iops-limit), 99 % of reads at the source within 250 ms \
                (--source-p99)";
    let (_, all) = said.trim_end().split_once("from now on: ").unwrap();
    let (all, now) = all.split_once("; at this time of day ").unwrap();
    assert!(
        all.contains("a pause from ") && all.ends_with(more) && now.starts_with("a pause until "),
        "{said}"
    );
    let (shown, _) = elsewhere(&["show", &id]);
    assert!(
        shown.contains(&format!("\nlimits     {all}, instead of those in the command, set at ")),
        "{shown}"
    );
    let log = |words: &str| desk.shown(&id)["log"].to_string().contains(words);
    wait_until("it is held", LIMIT, || log("from now on: ") && log("paused until "));
    elsewhere(&["set", &id, "--bwlimit", "off"]);
    wait_for_end(&desk, &id);
    let report = &desk.shown(&id)["report"]["limits"];
    let of = |index: usize, field: &str| report[index][field].clone();
    assert_eq!((of(0, "since_seconds"), of(0, "source_p99_ms")), (0.0.into(), Value::Null), "{report:#}");
    assert_eq!(
        (of(0, "operations_per_second"), of(1, "source_p99_ms")),
        (100.into(), 250.0.into()),
        "{report:#}"
    );
    assert!(of(0, "rate").as_str().unwrap().contains("a pause"), "{report:#}");
    assert_eq!((of(1, "words"), of(2, "rate")), (all.into(), Value::Null), "{report:#}");
    assert!(of(2, "since_seconds").as_f64() > of(1, "since_seconds").as_f64(), "{report:#}");
    assert_eq!(report.as_array().unwrap().len(), 3, "{report:#}");
}

#[test]
fn what_cannot_be_set_is_refused_in_words() {
    if no_root() {
        return;
    }
    let desk = desk();
    let source = file(&desk.path("source"), 3_000_000);
    let module = desk.path("module");
    fs::create_dir(&module).unwrap();
    let daemon = Rsyncd::start(&[Module { name: "m", path: &module, lines: "" }]).unwrap();
    let url = daemon.url("m/target");
    let id = desk.detach(&["--bwlimit".as_ref(), "20k".as_ref(), source.as_os_str(), url.as_ref()]);
    let refused = |options: &[&str], code: i32, words: &str| {
        let (found, _, err) = desk.run(&[&["jobs", "set", &id[..]], options].concat());
        assert!(found == code && err.contains(words), "{options:?}: {found} {err}");
    };
    refused(&[], 2, "no limit is given");
    refused(&["--bwlimit", "5"], 2, "--bwlimit: 5 has no unit");
    refused(&["--bwlimit", "08:00,20M 25:00,off"], 2, "at column 11");
    refused(&["--iops-limit", "0"], 2, "--iops-limit: must be a number");
    refused(&["--source-p99", "soon"], 2, "--source-p99: must be a time");
    // Its rsync processes have their share of the limit already.
    assert_eq!(desk.state_of(&id), "running");
    refused(&["--bwlimit", "50M"], 1, "rsync moves its data");
    desk.jobs(&format!("pause {id}"));
    refused(&["--iops-limit", "5"], 2, "--iops-limit is not possible where rsync moves the data");
    refused(&["--bwlimit", in_a_pause()], 2, "rsync knows no timetable");
    let said = set(&desk, &id, &["--bwlimit", "50M"]);
    assert!(said.contains("from its next run on: at most 50.0 MB/s"), "{said}");
    desk.jobs(&format!("resume {id}"));
    wait_for_end(&desk, &id);
    assert_same(&source, &module.join("target"));
    let (code, _, err) = desk.run(&["jobs", "set", "zzzz", "--bwlimit", "1M"]);
    assert!(code == 2 && err.contains("there is none"), "{err}");
}
