//! Commands by which people see what the page shows: groups, locations as brokers see them, previews and forecasts.

use std::fs;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::ServedFleet;

/// Waits until the built-in broker is there.
fn wait_for_broker(served: &ServedFleet) {
    let began = Instant::now();
    while !served.done("brokers list").contains("built-in") {
        assert!(began.elapsed() < Duration::from_secs(60), "there is no broker");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Starts a control plane with a small tree to copy. Returns it with the words of a copy.
fn served() -> (ServedFleet, String) {
    let served = ServedFleet::start();
    served.sign_in();
    wait_for_broker(&served);
    let folder = served.folder.path();
    fs::create_dir_all(folder.join("a/below")).unwrap();
    fs::write(folder.join("a/below/file"), "content").unwrap();
    fs::write(folder.join("a/\u{904b}"), vec![7; 3000]).unwrap();
    let copy = format!("copy {}/ {}", folder.join("a").display(), folder.join("b").display());
    (served, copy)
}

#[test]
fn a_broker_lists_a_directory() {
    let (served, _) = served();
    let folder = served.folder.path().display().to_string();
    let shown = served.done(&format!("ls --group local {folder}/a"));
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("KIND") && lines.len() == 3, "{shown}");
    assert!(lines[1].starts_with("directory  -") && lines[1].ends_with("below"), "{shown}");
    assert!(lines[2].starts_with("file") && lines[2].contains("3.00 kB"), "{shown}");
    let view = served.json(&format!("ls --group local --json {folder}/a/below"));
    assert_eq!((&view["broker"], &view["state"]), (&json!("built-in"), &json!("done")));
    let entry = &view["result"]["entries"][0];
    assert_eq!((&entry["name"], &entry["size_bytes"]), (&json!("file"), &json!(7)), "{view:#}");
    // The group of a relationship is asked with its credentials.
    served.done("relationships add known --group local --credentials-file none -- copy /a /b");
    let (code, _, failed) = served.fleet(&format!("ls --relationship known {folder}/a"));
    assert!(code != 0 && failed.contains("reading the secret"), "{failed}");
    for (line, code, words) in [
        (format!("ls --group local {folder}/missing"), 1, "missing"),
        ("ls --group local relative".to_owned(), 2, "relative: write the whole path, from /"),
        ("ls --group local /a -- --agent=/tmp/x".to_owned(), 2, "--agent: a fleet runs no command"),
        ("ls /a".to_owned(), 2, "--group"),
        ("ls --relationship odd /a".to_owned(), 1, "there is none of this name"),
    ] {
        let (ended, shown, failed) = served.fleet(&line);
        assert!(ended == code && shown.is_empty() && failed.contains(words), "{line}: {ended} {failed}");
    }
    let (code, view, _) = served.fleet(&format!("ls --group local --json {folder}/missing"));
    let view: Value = serde_json::from_str(&view).unwrap();
    assert_eq!((code, &view["error"]["kind"]), (1, &json!("not_found")), "{view:#}");
}

#[test]
fn a_copy_is_tried_before_it_is_made() {
    let (served, copy) = served();
    let target = served.folder.path().join("b");
    served.done(&format!("relationships add home --group local -- {copy}"));
    for asked in ["home".to_owned(), format!("--group local -- {copy}")] {
        let shown = served.done(&format!("test {asked}"));
        let states: Vec<_> = shown.lines().map(|line| line.rsplit("  ").next().unwrap()).collect();
        assert_eq!(states, ["STATE", "reached", "made by a run"], "{shown}");
        let shown = served.done(&format!("preview {asked}"));
        assert!(shown.starts_with("CHANGE") && shown.contains("below/file"), "{shown}");
        assert!(shown.contains("3.01 kB") || shown.contains("3 007 B"), "the report follows: {shown}");
    }
    let planned = served.json("preview home --json");
    let report = &planned["result"]["report"];
    assert_eq!((&report["schema"], &report["dry_run"]), (&json!("hakobu.report/1"), &json!(true)));
    assert_eq!(planned["errand"], "preview");
    let predicted = served.done("probe home");
    assert!(predicted.contains("rate  ") && predicted.contains("first copy"), "{predicted}");
    let predicted = served.json("probe home --json");
    assert_eq!(predicted["result"]["report"]["schema"], "hakobu.probe/1", "{predicted:#}");
    let below = target.join("none/below");
    let source = served.folder.path().join("a");
    let shown =
        served.done(&format!("probe --group local -- copy {}/ {}", source.display(), below.display()));
    assert!(
        shown.starts_with("obstacle  ") && shown.contains("its parent directory does not exist"),
        "{shown}"
    );
    assert!(!target.exists(), "nothing was copied");
    // A copy that would fail is told from one that would not.
    let missing =
        format!("--group local -- copy {}/missing/ {}", served.folder.path().display(), target.display());
    let (code, shown, failed) = served.fleet(&format!("test {missing}"));
    assert!(code == 1 && shown.contains("not reached") && failed.contains("error:"), "{shown}{failed}");
    let (code, shown, failed) = served.fleet(&format!("preview {missing}"));
    assert!(code == 1 && shown.contains("missing"), "{shown}{failed}");
    assert_eq!(served.fleet("preview --group local -- copy -n /a /b").0, 2);
    assert_eq!(served.fleet("preview").0, 2);
    // It needs the role that makes relationships.
    let viewer = served.folder.path().join("token");
    fs::write(&viewer, served.done("tokens add visitor --role viewer")).unwrap();
    let (code, _, failed) = served.fleet(&format!("test home --token-file {}", viewer.display()));
    assert!(code != 0 && failed.contains("this needs the role admin"), "{failed}");
}

#[test]
fn groups_are_listed_with_limits_and_the_next_run_is_foretold() {
    let (served, copy) = served();
    served.done(&format!("relationships add home --group local -- {copy}"));
    served.done("relationships add far --group site-b -- copy /a/ /b");
    served.done("limits group local --rate 20M");
    let shown = served.done("groups list");
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("GROUP") && lines.len() == 3, "{shown}");
    assert!(lines[1].starts_with("local") && lines[1].ends_with("20.0 MB/s"), "{shown}");
    assert!(lines[2].starts_with("site-b  0") && lines[2].ends_with('-'), "{shown}");
    let listed = served.done("groups list --json");
    let first: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["name"], &first["brokers"], &first["relationships"]),
        (&json!("local"), &json!(1), &json!(1))
    );

    let forecast = || served.json("relationships forecast home --json");
    assert_eq!(forecast()["runs"], 0);
    assert!(served.done("relationships forecast home").contains("no run of it was complete yet"));
    served.done("run start home --watch");
    let first = forecast();
    let copied = json!(3007);
    assert_eq!((&first["runs"], &first["p50_bytes"], &first["p90_bytes"]), (&json!(1), &copied, &copied));
    let run = served.json("run show 1 --json");
    let took = run["ended_ms"].as_u64().unwrap() - run["started_ms"].as_u64().unwrap();
    assert_eq!((&first["p50_ms"], &first["p90_ms"]), (&json!(took), &json!(took)));
    // A change is what the next run has to do, not everything again.
    fs::write(served.folder.path().join("a/below/file"), "changed").unwrap();
    fs::write(served.folder.path().join("a/below/more"), "0123456789").unwrap();
    served.done("run start home --watch");
    served.done("run start home --watch");
    let next = forecast();
    let size = |name: &str| next[name].as_u64().unwrap();
    assert_eq!(next["runs"], 2, "the first is left out: {next}");
    assert!(size("p90_bytes") < 20 && size("p50_bytes") < size("p90_bytes"), "{next}");
    let shown = served.done("relationships forecast home");
    assert!(shown.contains("from runs   2") && shown.contains("P50 ") && shown.contains("P90 "), "{shown}");
    assert_eq!(served.fleet("relationships forecast odd").0, 1);
    assert!(served.done("run rates 1").starts_with("TIME"));
}

#[test]
fn a_broker_tells_what_it_reaches() {
    let folder = Rc::new(tempfile::tempdir().unwrap());
    let place = folder.path().display().to_string();
    let served =
        ServedFleet::start_in(folder, &["--data", "data", "--reaches", &place, "--reaches", "s3://backup"]);
    served.sign_in();
    wait_for_broker(&served);
    let reaches = format!("{place}, s3://backup");
    for list in ["brokers list", "groups list"] {
        let shown = served.done(list);
        assert!(shown.contains("REACHES") && shown.contains(&reaches), "{shown}");
    }
    assert_eq!(served.json("brokers list --json")["reaches"], json!([place, "s3://backup"]));
    let group = served.json("groups list --json");
    assert_eq!(
        (&group["reaches"], &group["reaches_everything"]),
        (&json!([place, "s3://backup"]), &json!(false))
    );
    let add = |name: &str, words: &str| {
        served.fleet(&format!("relationships add {name} --group local -- copy {words}"))
    };
    let (code, _, warned) = add("near", &format!("{place}/a/ s3://backup/x"));
    assert!(code == 0 && warned.is_empty(), "{warned}");
    let (code, _, warned) = add("far", &format!("{place}/a/ /elsewhere/x"));
    let words = "warning: no broker of the group local that is connected reaches /elsewhere/x; runs wait until one does";
    assert!(code == 0 && warned.contains(words), "{warned}");
    let (code, _, warned) = served.fleet("run start far");
    assert!(code == 0 && warned.contains(words), "{warned}");
    let shown = served.done("run show 1");
    assert!(shown.contains("waiting for   a broker of the group local that reaches /elsewhere/x"), "{shown}");
    assert_eq!(served.json("run show 1 --json")["waiting_for"]["kind"], "unreachable");
    served.done("run cancel 1");
    let (code, _, failed) = served.fleet("test far");
    assert!(code != 0 && failed.contains("that is connected reaches /elsewhere/x"), "{failed}");
    assert!(served.done(&format!("ls --group local {place}")).contains("data"));
}
