//! The evidence that a run leaves in its report: machines, differences and times.

use std::process::Command;

use serde_json::{Value, json};

use crate::program::*;

fn uname(option: &str) -> String {
    let said = Command::new("uname").arg(option).output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

/// Returns this machine as a report describes it.
fn machine(name: Option<&str>, address: Option<&str>) -> Value {
    json!({
        "name": name,
        "host": uname("-n"),
        "address": address,
        "system": format!("Linux {} {}", uname("-r"), uname("-m")),
        "hakobu": env!("CARGO_PKG_VERSION"),
    })
}

#[test]
fn the_report_and_its_pages_name_the_machines() {
    let host = Host::up();
    let place = place();
    let from = file(&place.path().join("file"), 1000);
    let near = machine(None, Some("127.0.0.1"));
    let far = machine(Some("throwaway"), Some("127.0.0.1"));
    let unknown = json!({"name": "throwaway", "host": null, "address": null, "system": null, "hakobu": null});
    let alone = machine(None, None);
    let ways = [
        ("", from.clone().into(), host.at(place.path().join("pushed")), [&near, &near, &far]),
        ("", host.at(&from), place.path().join("pulled").into(), [&near, &far, &near]),
        ("", from.clone().into(), place.path().join("here").into(), [&alone, &alone, &alone]),
        (
            "--transport sftp",
            from.clone().into(),
            host.at(place.path().join("put")),
            [&alone, &alone, &unknown],
        ),
    ];
    for (options, source, target, [controller, of_source, of_target]) in ways {
        let ran = Copy::new().to(&host).options(options).args([&source, &target]).run_to(0);
        let expected = json!({"controller": controller, "source": of_source, "target": of_target});
        assert_eq!(ran.report["machines"], expected, "{source:?} {target:?}");
        let started = ran.events.iter().find(|event| event["event"] == "started").unwrap();
        assert_eq!(started["machines"], expected);
    }
    let report = place.path().join("report.json");
    let mut copy = Command::new(HAKOBU);
    copy.args(["copy", "--report"]).arg(&report).arg(&from).arg(host.at(place.path().join("again")));
    copy.env("HAKOBU_SSH", host.sshd.ssh_command()).env("HAKOBU_SETTINGS", "none");
    assert!(copy.status().unwrap().success());
    for format in ["text", "markdown", "html"] {
        let mut command = Command::new(HAKOBU);
        let shown = command.args(["report", "--format", format]).arg(&report).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        for expected in ["Machines", &uname("-n"), "127.0.0.1", "throwaway", &uname("-r")] {
            assert!(shown.contains(expected), "{format}: no {expected} in\n{shown}");
        }
    }
    // A run that is refused before it connects still reports where it was started.
    let ran = Copy::new().args(["/no/such", "/no/place"]).run_to(1);
    assert_eq!(ran.report["machines"], json!({"controller": alone, "source": null, "target": null}));
}

#[test]
fn a_comparison_names_both_values() {
    use std::os::unix::fs::PermissionsExt;
    let host = Host::up();
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    std::fs::create_dir_all(source.join("kind")).unwrap();
    std::fs::create_dir(&target).unwrap();
    for directory in [&source, &target] {
        for name in ["mode", "size", "time"] {
            let path = file(&directory.join(name), 10);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
    }
    file(&target.join("kind"), 10);
    std::fs::write(target.join("size"), "now longer than before").unwrap();
    std::fs::set_permissions(target.join("mode"), std::fs::Permissions::from_mode(0o600)).unwrap();
    for (path, time) in [("mode", "2020-02-29T01:02:03Z"), ("size", "2020-02-29T01:02:03Z")] {
        for directory in [&source, &target] {
            let touched =
                Command::new("touch").args(["-d", time]).arg(directory.join(path)).status().unwrap();
            assert!(touched.success());
        }
    }
    for (directory, time) in [(&source, "2020-02-29T01:02:03.5Z"), (&target, "1969-12-31T23:59:59Z")] {
        let touched = Command::new("touch").args(["-d", time]).arg(directory.join("time")).status().unwrap();
        assert!(touched.success());
    }
    let expected = [
        ("kind", "kind", "directory", "file"),
        ("mode", "mode", "0644", "0600"),
        ("size", "size", "10", "22"),
        ("time", "time", "2020-02-29T01:02:03.500000000Z", "1969-12-31T23:59:59.000000000Z"),
    ];
    for typed in [[contents(&source), target.clone().into()], [contents(&source), host.at(&target)]] {
        let ran = Copy::verify().to(&host).args(&typed).run_to(4);
        let events: Vec<_> = ran.events.iter().filter(|event| event["event"] == "difference").collect();
        let listed = ran.report["differences"].as_array().unwrap();
        for (path, what, source_value, target_value) in expected {
            let is_it = |found: &Value| {
                let fields = ["path", "what", "source_value", "target_value"];
                fields.map(|field| found[field].as_str())
                    == [path, what, source_value, target_value].map(Some)
            };
            assert!(events.iter().any(|event| is_it(event)), "{path}: {events:#?}");
            assert!(listed.iter().any(is_it), "{path}: {listed:#?}");
        }
    }
    let mut command = Command::new(HAKOBU);
    let said = command.arg("verify").arg(contents(&source)).arg(&target).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    for line in [
        "differs: kind: kind directory != file\n",
        "differs: mode: mode 0644 != 0600\n",
        "differs: size: size 10 != 22\n",
        "differs: time: modification time 2020-02-29T01:02:03.500000000Z != 1969-12-31T23:59:59.000000000Z\n",
    ] {
        assert!(said.contains(line), "no {line} in {said}");
    }
}

#[test]
fn the_time_for_which_the_source_was_held_still_is_told() {
    let place = place();
    let (source, target) = (file(&place.path().join("source"), 5_000_000), place.path().join("target"));
    Copy::new().arg(&source).arg(&target).run_to(0);
    let sync = |options: &[&str]| Copy::sync().options("--passes 1").args(options).arg(&source).arg(&target);
    let ran = sync(&["--before-last-pass", "sleep 0.2", "--after-last-pass", "sleep 0.3"]).run_to(0);
    assert!(ran.report["seconds"]["held_still"].as_f64().unwrap() >= 0.5, "{:#}", ran.report["seconds"]);
    ran.says(&[
        "note: freezing the source: sleep 0.2",
        "note: thawing the source: sleep 0.3",
        "the source was frozen for ",
    ]);
    let notices: Vec<_> = ran.events.iter().filter(|event| event["event"] == "notice").collect();
    assert_eq!(notices.len(), 2, "{notices:#?}");
    // The source was not frozen, or the command to freeze it failed.
    for options in [&[][..], &["--before-last-pass", "false"]] {
        let ran = sync(options).run();
        assert!(ran.report["seconds"]["held_still"].is_null(), "{options:?} {:#}", ran.report["seconds"]);
        assert!(!ran.err.contains("frozen for"), "{}", ran.err);
    }
}

#[test]
fn a_report_to_standard_output_is_all_that_is_there() {
    let place = place();
    let source = file(&place.path().join("source"), 1000);
    let mut command = Command::new(HAKOBU);
    command.args(["copy", "-v", "--itemize", "--report", "-"]).arg(&source).arg(place.path().join("target"));
    let ran = command.env("HAKOBU_SETTINGS", "none").output().unwrap();
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&report["outcome"], &report["entries"]["created"]), (&"done".into(), &1.into()));
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.contains("done: 1 created") && said.contains("create     target\n"), "{said}");
}

#[test]
fn the_summary_counts_directories_and_names_sockets() {
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    std::fs::create_dir_all(source.join("one/two")).unwrap();
    file(&source.join("one/file"), 10);
    let _socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
    let ran = Copy::sync().arg(contents(&source)).arg(&target).run_to(0);
    assert_eq!((ran.entries("created"), ran.entries("directories_created")), (4, 3), "{:#}", ran.report);
    ran.says(&["done: 4 created (3 directories), 0 updated, 0 unchanged, 1 skipped (1 socket)\n"]);
    file(&target.join("gone"), 10);
    std::fs::create_dir(source.join("three")).unwrap();
    let ran = Copy::sync().options("--delete").arg(contents(&source)).arg(&target).run_to(0);
    ran.says(&["done: 1 created (1 directory), 0 updated, 4 unchanged, 1 deleted, 1 skipped (1 socket)\n"]);
    let ran = Copy::verify().arg(contents(&source)).arg(&target).run_to(0);
    ran.says(&["done: 5 equal, 1 skipped (1 socket)\n"]);
}
