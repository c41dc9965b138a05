//! The commands `serve` and `fleet` as a user types them: a control plane of its own, and everything through its interface.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod questions;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hakobu_fleet::client::FleetClient;
use hakobu_fleet::key_file::SealingKeys;
use hakobu_fleet::secret_bytes::SecretBytes;
use hakobu_testkit::immutable::ImmutableDirectory;
use hakobu_testkit::sshd::no_root;
use serde_json::Value;
use tempfile::TempDir;

const HAKOBU: &str = env!("CARGO_BIN_EXE_hakobu");

/// A control plane on a port of its own.
struct ServedFleet {
    folder: Rc<TempDir>,
    process: Child,
    url: String,
    token: String,
}

fn hakobu(folder: &Path) -> Command {
    let mut command = Command::new(HAKOBU);
    for name in ["LC_ALL", "LC_MESSAGES", "LANG", "HAKOBU_FLEET_URL", "HAKOBU_FLEET_TOKEN"] {
        command.env_remove(name);
    }
    // As on a machine without certificates of authorities: on loopback nothing needs them.
    command.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent");
    command.env("HAKOBU_SETTINGS", "none").env("HAKOBU_STATE", folder.join("state")).current_dir(folder);
    command
}

impl ServedFleet {
    fn start() -> Self {
        Self::start_in(Rc::new(tempfile::tempdir().unwrap()), &["--data", "data"])
    }

    /// Starts one with arguments.
    fn start_in(folder: Rc<TempDir>, arguments: &[&str]) -> Self {
        let mut process = hakobu(folder.path())
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("token="))).unwrap();
        // Further notices have to go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        let url = line.split_once("http").unwrap().1.split("/#").next().unwrap();
        let token = line.split_once("token=").unwrap().1.split(' ').next().unwrap().to_owned();
        Self { url: format!("http{url}"), token, folder, process }
    }

    fn fleet_with(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = hakobu(self.folder.path())
            .arg("fleet")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Runs a command of the fleet; returns its exit code, standard output and standard error.
    fn fleet(&self, line: &str) -> (i32, String, String) {
        let output = self.fleet_with(&line.split(' ').collect::<Vec<_>>(), "");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    fn done(&self, line: &str) -> String {
        let (code, shown, failed) = self.fleet(line);
        assert_eq!(code, 0, "{line}: {shown}{failed}");
        shown
    }

    fn sign_in(&self) {
        let signed_in = self.fleet_with(&["login", &self.url], &self.token);
        assert_eq!(signed_in.status.code(), Some(0), "{signed_in:?}");
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.done(line)).unwrap()
    }
}

impl Drop for ServedFleet {
    fn drop(&mut self) {
        let _has_ended = self.process.kill();
        let _has_ended = self.process.wait();
    }
}

#[test]
fn a_relationship_is_made_run_and_watched() {
    let served = ServedFleet::start();
    let folder = served.folder.path();
    fs::create_dir_all(folder.join("a/below")).unwrap();
    fs::write(folder.join("a/below/file"), "content").unwrap();
    fs::write(folder.join("a/\u{904b}"), "more").unwrap();
    let (code, _, failed) = served.fleet("run list");
    assert!(code == 2 && failed.contains("hakobu fleet login URL"), "{failed}");
    let (code, _, failed) = served.fleet(&format!("run list --server {}", served.url));
    let remedy = format!("use hakobu fleet login {}, --token-file FILE, or HAKOBU_FLEET_TOKEN", served.url);
    assert!(code == 2 && failed.contains(&remedy) && !failed.contains("Bearer"), "{failed}");
    let nothing = served.fleet_with(&["login", &served.url], "\n");
    let said = String::from_utf8_lossy(&nothing.stderr);
    assert!(nothing.status.code() == Some(2) && said.contains("hakobu serve shows one"), "{said}");
    let login = || served.fleet_with(&["login", &served.url], &format!("{}\n", served.token));
    assert_eq!(login().status.code(), Some(0));
    let again = login();
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("valid once"));
    let (source, target) = (folder.join("a/"), folder.join("b"));
    let (source, target) = (source.to_str().unwrap(), target.to_str().unwrap());
    let added = served.done(&format!(
        "relationships add home --group local --time-zone Asia/Tokyo --schedule=@daily --json -- copy --preserve=no-owner {source} {target}"
    ));
    let added: Value = serde_json::from_str(&added).unwrap();
    assert_eq!(added["relationship"]["request"]["arguments"], serde_json::json!(["--preserve=no-owner"]));
    assert!(added["next_start_ms"].is_u64(), "{added}");
    let watched = served.done("run start home --watch");
    assert!(watched.contains("complete after"), "{watched}");
    assert_eq!(fs::read_to_string(folder.join("b/below/file")).unwrap(), "content");
    let run = served.json("run list --json");
    assert_eq!((&run["relationship_name"], &run["state"]), (&Value::from("home"), &Value::from("complete")));
    assert_eq!(served.json("run report 1")["outcome"], "complete");
    assert!(served.done("run show 1").contains("--preserve=no-owner"));
    assert!(served.done("relationships list").contains("home"));
    let changed = served.done("relationships change home --limit-rate 20M --rename house");
    assert!(changed.contains("20.0 MB/s") && changed.contains("house"), "{changed}");
    let again = served.done(&format!("run start --group local --watch -- sync --delete {source} {target}"));
    assert!(again.contains("complete after"), "{again}");
    assert!(served.done("run compare 2 1").contains("only run 2 has: --delete"));
    assert!(served.done("audit").contains("relationship.change"));
    served.done("relationships remove house");
    let (code, _, failed) = served.fleet("relationships show house");
    assert_eq!(code, 1, "{failed}");
}

#[test]
fn what_failed_is_tried_again_and_removals_are_made_up_for() {
    if no_root() {
        return;
    }
    let served = ServedFleet::start();
    served.sign_in();
    let folder = served.folder.path();
    let (source, target) = (folder.join("a"), folder.join("b"));
    for directory in ["a/d", "a/e", "b/e", "b/extra"] {
        fs::create_dir_all(folder.join(directory)).unwrap();
    }
    for file in ["a/d/one", "a/e/two", "a/other", "b/extra/three"] {
        fs::write(folder.join(file), file).unwrap();
    }
    let directory = ImmutableDirectory::new(&target.join("e")).unwrap();
    let extra = ImmutableDirectory::new(&target.join("extra")).unwrap();
    let places = format!("{}/ {}", source.display(), target.display());
    let (code, shown, failed) =
        served.fleet(&format!("run start --group local --watch -- sync --delete --max-delete 100% {places}"));
    assert_eq!(code, 3, "{shown}{failed}");
    let failures = served.done("run failures 1");
    assert!(failures.contains("e/two") && !failures.contains("extra"), "{failures}");
    let shown = served.done("run show 1");
    assert!(
        shown.contains("copy (done), links (nothing to do), removal (skipped, because entries failed)"),
        "{shown}"
    );
    let phases = served.json("run show 1 --json")["phases"].clone();
    assert_eq!(
        phases[2],
        serde_json::json!({"phase": "removal", "state": "skipped", "reason": "entries_failed"})
    );
    assert_eq!(served.json("run report 1")["phases"], phases);
    let retry = |run: u32, units: u64, state: &str| {
        served.done(&format!("run retry {}", run - 1));
        let ended = || served.json(&format!("run show {run} --json"));
        while ended()["state"] == "running" {
            std::thread::sleep(Duration::from_millis(50));
        }
        let ended = ended();
        assert_eq!((&ended["state"], &ended["units"]["added"]), (&state.into(), &units.into()), "{ended}");
        ended["counters"]["entries_scanned"].as_u64().unwrap()
    };
    drop(directory);
    // The second unit removes, which was due in the first run.
    assert_eq!(retry(2, 2, "partial"), 2);
    assert!(served.done("run failures 2").contains("extra/three"));
    assert!(target.join("e/two").exists() && target.join("extra/three").exists());
    drop(extra);
    retry(3, 2, "complete");
    assert!(served.done("run show 3").contains("removal (done)"));
    assert!(!target.join("extra").exists());
}

#[test]
fn a_full_target_ends_a_run_with_the_cause() {
    if no_root() {
        return;
    }
    let served = ServedFleet::start();
    served.sign_in();
    let (source, target) = (served.folder.path().join("a"), served.folder.path().join("b"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&target).unwrap();
    // Their sizes fit, but not what they take up.
    (0..1000).for_each(|file| fs::write(source.join(file.to_string()), "x").unwrap());
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(&target).status();
    assert!(mount.unwrap().success());
    let places = format!("{}/ {}", source.display(), target.display());
    let (code, shown, failed) = served.fleet(&format!("run start --group local --watch -- copy {places}"));
    assert!(Command::new("umount").arg("-l").arg(&target).status().unwrap().success());
    assert!(code == 1 && failed.contains("no space left on device"), "{code} {shown}{failed}");
    assert!(served.done("run show 1").contains("no space left on device"));
}

#[test]
fn wrong_requests_have_the_exit_codes_of_other_commands() {
    let served = ServedFleet::start();
    served.sign_in();
    let add = |command: &str| served.fleet(&format!("relationships add x --group local -- {command}"));
    for (command, words) in [
        ("copy --files-from /etc/shadow /a /b", "--files-from: the file would be one of the broker's"),
        ("sync --agent /tmp/x /a /b", "--agent: a fleet runs no command"),
        ("copy a /b", "a: write the whole path, from /"),
        ("verify /a /b", "it is neither copy nor sync"),
        ("sync /a /b", "hint: add --delete, and --max-delete as a limit"),
        ("copy --frob /a /b", "--frob"),
    ] {
        let (code, _, failed) = add(command);
        assert!(code == 2 && failed.contains(words), "{command}: {failed}");
    }
    assert_eq!(add("copy /a /b").0, 0);
    assert_eq!(add("copy /a /b").0, 6);
    assert_eq!(served.fleet("relationships show nothing").0, 1);
    assert_eq!(served.fleet("run show 77").0, 1);
    assert_eq!(served.fleet("run frob 77").0, 2);
    let (code, _, failed) = served.fleet("run start x --watch");
    assert_eq!(code, 1, "the source is not there: {failed}");
    let viewer = served.done("tokens add visitor --role viewer --valid-for 1h");
    let file = served.folder.path().join("token");
    fs::write(&file, viewer).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(served.fleet(&format!("run list --token-file {file}")).0, 0);
    let (code, _, failed) = served.fleet(&format!("run cancel 1 --token-file {file}"));
    assert!(code != 0 && failed.contains("this needs the role operator"), "{failed}");
    let (code, _, failed) =
        served.fleet(&format!("run list --token-file {file} --server http://127.0.0.1:1"));
    assert!(code == 1 && failed.contains("hakobu serve"), "{failed}");
    // The token of a login is for its server alone.
    let (code, _, failed) = served.fleet("run list --server http://127.0.0.1:1");
    assert!(code == 2 && failed.contains("there is no token for it"), "{failed}");
    assert_eq!(served.fleet("run list --server http://fleet.example").0, 2);
}

#[test]
fn limits_of_endpoints_are_set_and_listed() {
    let served = ServedFleet::start();
    served.sign_in();
    assert_eq!(served.done("limits endpoint nas:"), "no limits\n");
    served.done("limits endpoint nas:/ --rate 20M --operations 500");
    served.done("limits endpoint s3://bucket/a/ --brokers 2");
    served.done("limits endpoint nas: --operations 0");
    assert_eq!(served.done("limits endpoint nas:"), "20.0 MB/s\n");
    let listed = served.done("limits endpoints");
    let lines: Vec<Vec<_>> =
        listed.lines().map(|line| line.split("  ").filter(|cell| !cell.is_empty()).collect()).collect();
    assert_eq!(lines[1][0].trim(), "nas:", "{listed}");
    assert_eq!((lines[2][0].trim(), lines[2][2].trim()), ("s3://bucket/a", "2 brokers"), "{listed}");
    served.done("limits endpoint nas: --rate off");
    assert_eq!(served.json("limits endpoints --json")["location"], "s3://bucket/a");
    let (code, _, failed) = served.fleet("limits endpoint srv --rate 20M");
    assert!(code == 2 && failed.contains("write the whole path"), "{failed}");
}

#[test]
fn the_end_of_a_run_is_foretold_from_the_one_before() {
    let served = ServedFleet::start();
    let login = served.fleet_with(&["login", &served.url], &format!("{}\n", served.token));
    assert_eq!(login.status.code(), Some(0));
    let folder = served.folder.path();
    for directory in 0..40 {
        let place = folder.join(format!("a/d{directory}"));
        fs::create_dir_all(&place).unwrap();
        (0..40).for_each(|file| fs::write(place.join(format!("f{file}")), [7; 10_000]).unwrap());
    }
    let (source, target) = (folder.join("a/"), folder.join("b"));
    let (source, target) = (source.display(), target.display());
    served.done(&format!("relationships add home --group local -- copy {source} {target}"));
    assert!(served.done("run start home --watch").contains("complete after"));
    if !no_root() {
        // A run that tries something again says nothing about the size of the tree.
        let directory = ImmutableDirectory::new(&folder.join("b/d39")).unwrap();
        fs::write(folder.join("a/d39/new"), "new").unwrap();
        assert_eq!(served.fleet("run start home --watch").0, 3);
        drop(directory);
        let retry = served.done("run retry 2").trim().to_owned();
        let ended = |run: &str| served.json(&format!("run show {run} --json"))["state"] != "running";
        while !ended(&retry) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    // A quarter has changed, and nothing of the rest is copied again.
    for directory in 0..10 {
        let path = |file: usize| folder.join(format!("a/d{directory}/f{file}"));
        (0..40).for_each(|file| fs::write(path(file), [8; 10_001]).unwrap());
    }
    served.done("limits group local --rate 400K");
    let run = served.done("run start home").trim().to_owned();
    let (mut foretold, mut states, mut shown) = (Vec::new(), 0, String::new());
    let ended_ms = loop {
        let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let view = served.json(&format!("run show {run} --json"));
        if let Some(ended) = view["ended_ms"].as_u64() {
            assert_eq!(view["state"], "complete", "{view}");
            break ended;
        }
        states += 1;
        let forecast = &view["progress"]["forecast"];
        if forecast.is_object() {
            let time = |name: &str| forecast[name].as_u64().unwrap();
            let done = forecast["done"].as_f64().unwrap();
            assert!(time("p50_ms") <= time("p90_ms") && (0.0..=1.0).contains(&done), "{forecast}");
            foretold.push((u64::try_from(now_ms).unwrap(), time("p50_ms"), done));
            if shown.is_empty() {
                shown = served.done(&format!("run show {run}"));
                assert!(shown.contains(", ends P50 20") && shown.contains(", P90 20"), "{shown}");
                let rates = served.done(&format!("run rates {run}"));
                assert!(rates.contains("ENTRIES/S") && rates.lines().count() > 5, "{rates}");
            }
        }
        assert!(states < 2000, "it does not end: {view}");
        std::thread::sleep(Duration::from_millis(100));
    };
    println!("ended {ended_ms}: {foretold:?}");
    assert!(foretold.len() > 5, "{foretold:?}");
    assert!(foretold[0].2 < 0.95, "{foretold:?}");
    // Halfway it is right but for some seconds.
    let (now_ms, p50_ms, _) = foretold[foretold.len() / 2];
    assert!(p50_ms.abs_diff(ended_ms) < 10_000 && p50_ms >= now_ms - 2000, "{ended_ms}: {foretold:?}");
}

#[test]
fn figures_are_the_same_wherever_they_are_shown() {
    let served = ServedFleet::start();
    served.sign_in();
    let folder = served.folder.path();
    for directory in 0..5 {
        fs::create_dir_all(folder.join(format!("a/d{directory}"))).unwrap();
        (0..80)
            .for_each(|file| fs::write(folder.join(format!("a/d{directory}/f{file}")), [7; 2000]).unwrap());
    }
    let (source, target) = (folder.join("a/"), folder.join("b"));
    let places = format!("{} {}", source.display(), target.display());
    let show = |run: u32| served.json(&format!("run show {run} --json"));
    let until = |what: &str, run: u32, holds: &dyn Fn(&Value) -> bool| {
        let began = std::time::Instant::now();
        loop {
            let view = show(run);
            if holds(&view) {
                return view;
            }
            assert!(began.elapsed() < std::time::Duration::from_secs(60), "{what}: {view:#}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    };
    let number = |value: &Value| value.as_u64().unwrap();

    // A run that is cancelled in the middle of its first unit tells what was done.
    served.done("limits group local --operations 100");
    served.done(&format!("run start --group local -- copy {places}"));
    until("entries are done", 1, &|view| number(&view["figures"]["entries_done"]) > 10);
    served.done("run cancel 1");
    let cancelled = show(1);
    let figures = cancelled["figures"].clone();
    assert_eq!((&cancelled["state"], number(&cancelled["units"]["committed"])), (&"cancelled".into(), 0));
    assert!(number(&figures["entries_done"]) > 10, "{cancelled:#}");
    assert!(number(&figures["entries_found"]) >= number(&figures["entries_done"]), "{figures}");
    assert_eq!(served.json("run report 1")["figures"], figures);
    assert_eq!(served.json("run list --json")["figures"], figures);

    // Each figure is one, while a run compares as well.
    served.done("limits group local --operations 0");
    served.done(&format!("run start --group local --watch -- copy {places}"));
    served.done("limits group local --operations 100");
    served.done(&format!("run start --group local --verify -- copy {places}"));
    let is_fast = |view: &Value| {
        ["entries", "bytes"].iter().all(|what| number(&view["progress"][format!("{what}_per_second")]) > 0)
    };
    let compared = until("it compares", 3, &|view| view["phase"] == "verify" && is_fast(view));
    assert_eq!(
        (number(&compared["figures"]["entries_done"]), number(&compared["figures"]["entries_found"])),
        (406, 406)
    );
    served.done("limits group local --operations 0");
    let ended = until("it ends", 3, &|view| view["state"] == "complete");
    assert_eq!(ended["figures"], compared["figures"], "{ended:#}");
    let listed = served.done("run list --count 1");
    assert!(listed.contains("  406  ") && listed.contains("  0 B  "), "{listed}");
    assert!(served.done("run show 3").contains(": 406 entries, 0 B\n"));
}

#[test]
fn a_group_without_brokers_is_told_of() {
    let served = ServedFleet::start();
    served.sign_in();
    let (code, _, warned) = served.fleet("relationships add far --group site-b -- copy /a/ /b");
    assert_eq!(code, 0);
    assert!(
        warned.contains("warning: no broker of the group site-b is connected; runs wait until one is"),
        "{warned}"
    );
    let (code, _, warned) = served.fleet("relationships add near --group local -- copy /a/ /c");
    assert!(code == 0 && warned.is_empty(), "{warned}");
    let (code, _, warned) = served.fleet("run start far");
    assert!(code == 0 && warned.contains("no broker of the group site-b is connected"), "{warned}");
    let words = "a broker of the group site-b; none is connected";
    let shown = served.done("run show 1");
    assert!(shown.contains(&format!("waiting for   {words}")), "{shown}");
    let run = served.json("run show 1 --json");
    assert_eq!(
        (&run["waiting_for"]["kind"], &run["waiting_for"]["message"]),
        (&"no_broker".into(), &words.into())
    );
    served.done("run cancel 1");
    assert!(served.json("run show 1 --json")["waiting_for"].is_null());
}

/// Returns all texts of this name in a JSON document.
fn texts<'a>(value: &'a Value, name: &str) -> Vec<&'a str> {
    let own = value.get(name).and_then(Value::as_str);
    let below: Vec<&Value> = match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    own.into_iter().chain(below.into_iter().flat_map(|value| texts(value, name))).collect()
}

/// Returns the words of a query of Prometheus.
fn query_words(query: &str) -> Vec<&str> {
    query.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).collect()
}

#[test]
fn the_dashboard_shows_metrics_and_labels_that_there_are() {
    let dashboard = include_str!("../../../../contrib/grafana/hakobu-fleet.json");
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36 && dashboard["id"].is_null());
    assert!(dashboard["title"].is_string() && dashboard["uid"].is_string() && dashboard["time"].is_object());
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let source = variables.iter().find(|variable| variable["name"] == "datasource").unwrap();
    assert_eq!((&source["type"], &source["query"]), (&Value::from("datasource"), &Value::from("prometheus")));
    let panels = dashboard["panels"].as_array().unwrap();
    let mut numbers: Vec<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert!(panels.len() > 10 && numbers.len() == panels.len());
    for panel in panels {
        let targets = panel["targets"].as_array().unwrap();
        assert!(panel["gridPos"].is_object() && panel["type"].is_string() && !targets.is_empty(), "{panel}");
        for part in targets.iter().chain([panel]) {
            assert_eq!(part["datasource"]["uid"], "${datasource}", "{part}");
        }
    }

    let served = ServedFleet::start();
    let login = served.fleet_with(&["login", &served.url], &format!("{}\n", served.token));
    assert_eq!(login.status.code(), Some(0));
    let token = served.json("tokens add --role viewer --json grafana")["secret"].as_str().unwrap().to_owned();
    let client = FleetClient::new(&served.url, SecretBytes::new(token.into_bytes()), None).unwrap();
    // A run that is under way while the metrics are read.
    let folder = served.folder.path();
    fs::create_dir(folder.join("a")).unwrap();
    (0..50).for_each(|file| fs::write(folder.join(format!("a/f{file}")), [7; 50_000]).unwrap());
    let (source, target) = (folder.join("a/"), folder.join("b"));
    let (source, target) = (source.display(), target.display());
    served.done(&format!("relationships add slow --group local --limit-rate 20K -- copy {source} {target}"));
    served.done("run start slow");
    let began = Instant::now();
    let metrics = loop {
        let metrics = String::from_utf8(client.get_bytes("/metrics").unwrap()).unwrap();
        if metrics.contains("\nhakobu_fleet_bytes_per_second{") {
            break metrics;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{metrics}");
    };
    let queries = texts(&dashboard, "expr").into_iter().chain(texts(&dashboard, "definition"));
    let mut shown = 0;
    for query in queries {
        let words = query_words(query);
        let names: Vec<_> = words.iter().filter(|word| word.starts_with("hakobu_")).collect();
        assert!(!names.is_empty(), "{query}");
        for name in names {
            shown += 1;
            let ends = [' ', '{'];
            let is_of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(ends));
            let series = metrics.lines().find(is_of);
            let series = series.unwrap_or_else(|| panic!("there is no {name}:\n{metrics}"));
            for label in ["group", "state", "class"].iter().filter(|label| words.contains(label)) {
                assert!(series.contains(&format!("{label}=\"")), "{query}: {series}");
            }
        }
    }
    assert!(shown > 15, "queries are found");
}

#[test]
fn a_ledger_is_named_by_a_url_without_a_password_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    for (ledger, words) in [
        ("postgress://joe@db/fleet", "no URL that begins with postgres://"),
        ("ledger", "a ledger in a folder needs --data FOLDER alone"),
        ("postgres://joe:sesame@127.0.0.1/fleet", "the URL holds a password"),
        ("postgres://joe@127.0.0.1/fleet?password=sesame", "PGPASSFILE"),
    ] {
        let mut command = hakobu(folder.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", "data", "--ledger", ledger]);
        let refused = command.output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(words), "{ledger}: {said}");
        assert!(!said.contains("sesame"), "{said}");
        let made: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert!(made.is_empty(), "{ledger}: {made:?}");
    }
}

#[test]
fn tables_are_in_japanese_where_the_locale_is() {
    let served = ServedFleet::start();
    served.sign_in();
    served.done("relationships add home --group local -- copy /nowhere/ /b");
    assert_ne!(served.fleet("run start home --watch").0, 0);
    let japanese = |line: &str| {
        let mut command = hakobu(served.folder.path());
        let output = command.arg("fleet").args(line.split(' ')).env("LANG", "ja_JP.UTF-8").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for (line, words) in [
        ("brokers list", ["ブローカー", "最終報告", "built-in"]),
        ("relationships list", ["コピー元", "次回の開始", "失敗"]),
        ("run list", ["転送設定", "データ量", "失敗"]),
        ("run show 1", ["フェーズ", "最後のエラー", "失敗"]),
        ("relationships show home", ["グループ", "次回の開始", "失敗"]),
        ("tokens list", ["ロール", "最終使用", "admin"]),
        ("audit", ["実行者", "対象", "relationship.create"]),
        ("groups list", ["ブローカー", "転送設定", "local"]),
        ("relationships forecast home", ["完了", "実行", "まだない"]),
        ("ls --group local /dev", ["種類", "最終変更", "null"]),
    ] {
        let shown = japanese(line);
        assert!(words.iter().all(|word| shown.contains(word)), "{line}: {shown}");
    }
    // Programs read the same in every language.
    assert!(japanese("run list --json").contains("\"state\":\"failed\""));
}

#[test]
fn whoever_signs_in_owns_what_they_add() {
    let served = ServedFleet::start();
    let folder = served.folder.path();
    let login = |more: &[&str], token: &str| {
        let mut child = hakobu(folder)
            .args(["fleet", "login", &served.url])
            .args(more)
            .env_remove("SUDO_USER")
            .env("LOGNAME", "mina")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may have ended already.
        let _is_refused = child.stdin.take().unwrap().write_all(token.as_bytes());
        child.wait_with_output().unwrap()
    };
    let owner = |name: &str| {
        served.done(&format!("relationships add {name} --group local -- copy /a /b"));
        served.json(&format!("relationships show {name} --json"))["relationship"]["owner"].clone()
    };
    assert!(login(&[], &served.token).status.success());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(owner("first"), format!("mina@{host}"));
    let admin = served.done("tokens add other --role admin");
    assert!(login(&["--as", "Backup team"], &admin).status.success());
    assert_eq!(owner("second"), "Backup team");
    assert!(served.done("audit").lines().any(|line| line.contains("Backup team") && line.contains("second")));
    let unnamed = login(&["--as", " "], &admin);
    let said = String::from_utf8_lossy(&unnamed.stderr);
    assert!(unnamed.status.code() == Some(2) && said.contains("the name is empty"), "{said}");
}

/// Takes a connection within so long, and returns it with its request.
fn request_at(listener: &TcpListener, limit: Duration) -> Option<(TcpStream, String)> {
    let ends = Instant::now() + limit;
    listener.set_nonblocking(true).unwrap();
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) if Instant::now() < ends => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => return None,
        }
    };
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut request = Vec::new();
    while !String::from_utf8_lossy(&request).contains("\"version\":1") {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "it ends early: {}", String::from_utf8_lossy(&request));
        request.extend(&bytes[..read]);
    }
    Some((stream, String::from_utf8_lossy(&request).into_owned()))
}

#[test]
fn a_notification_that_waits_outlasts_the_control_plane() {
    let served = ServedFleet::start();
    served.sign_in();
    let folder = served.folder.clone();
    let place = folder.path();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let setting = format!(r#"{{"version":1,"kinds":["run_complete"],"webhooks":[{{"url":"{url}"}}]}}"#);
    fs::write(place.join("notify"), setting).unwrap();
    fs::create_dir(place.join("a")).unwrap();
    fs::write(place.join("a/file"), "content").unwrap();
    let places = format!("{}/ {}", place.join("a").display(), place.join("b").display());
    served.done(&format!("relationships add home --group local --notify notify -- copy {places}"));
    assert!(served.done("run start home --watch").contains("complete after"));
    let (held, request) = request_at(&listener, Duration::from_secs(30)).unwrap();
    assert!(request.contains("\"id\":\"run-1\""), "{request}");
    // It is killed before that is answered.
    drop(served);
    drop(held);
    let served = ServedFleet::start_in(folder.clone(), &["--data", "data"]);
    let (mut stream, request) = request_at(&listener, Duration::from_secs(30)).expect("it is told again");
    assert!(request.contains("\"id\":\"run-1\""), "{request}");
    stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
    drop(stream);
    std::thread::sleep(Duration::from_secs(2));
    drop(served);
    let _served = ServedFleet::start_in(folder.clone(), &["--data", "data"]);
    assert!(request_at(&listener, Duration::from_secs(3)).is_none(), "it was told");
}

#[test]
fn a_ledger_is_led_with_its_keys_alone() {
    let served = ServedFleet::start();
    served.sign_in();
    let folder = served.folder.clone();
    let place = folder.path();
    fs::write(place.join("secret"), "AWS_ACCESS_KEY_ID=a\nAWS_SECRET_ACCESS_KEY=b\n").unwrap();
    served
        .done("relationships add media --group local --credentials-secret secret -- copy /srv/ s3://media/x");
    drop(served);
    let serve = |line: &str| {
        let output =
            hakobu(place).args(["serve", "--listen", "127.0.0.1:0"]).args(line.split(' ')).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    SealingKeys::create(&place.join("other")).unwrap();
    let (code, said) = serve("--data data --key-file other");
    assert!(
        code == 6 && said.contains("it was last led with the key") && said.contains("--key-file"),
        "{said}"
    );
    // A new key in front of the old one, which then is not enough.
    fs::copy(place.join("data/key"), place.join("old")).unwrap();
    assert_eq!(serve("--data data --rotate-key"), (0, String::new()));
    assert_eq!(fs::read_to_string(place.join("data/key")).unwrap().lines().count(), 2);
    drop(ServedFleet::start_in(folder.clone(), &["--data", "data"]));
    assert_eq!(serve("--data data --key-file old").0, 6);
    // A backup has no key, and goes on with any.
    assert_eq!(serve("--data data --backup copy"), (0, String::new()));
    let (code, said) = serve("--data new --restore copy");
    let id = fs::read_to_string(place.join("old")).unwrap().split(' ').nth(1).unwrap().to_owned();
    assert!(code == 0 && said.contains(&id) && said.contains("no backup has the key file"), "{said}");
    drop(ServedFleet::start_in(folder.clone(), &["--data", "new"]));
}

#[test]
fn bad_input_is_named_and_nothing_is_lost() {
    let served = ServedFleet::start();
    let folder = served.folder.path();
    assert_eq!(served.fleet_with(&["login", &served.url], &served.token).status.code(), Some(0));
    // A token that is none, one that nobody made, and one whose time is over.
    let short = served.done("tokens add visitor --role viewer --valid-for 1s");
    std::thread::sleep(Duration::from_millis(1500));
    let other = format!("{}A", &short.trim()[..51]);
    for (token, words) in [("sesame", "tokens begin with hkb_"), (&*other, "token"), (&*short, "has expired")]
    {
        fs::write(folder.join("token"), token).unwrap();
        let (code, shown, failed) = served.fleet("run list --token-file token");
        assert!(code == 1 && shown.is_empty() && failed.contains(words), "{words}: {failed}");
        assert!(failed.contains("hint: ask an admin for a new token"), "{failed}");
    }
    // A source that is gone.
    let at = |name: &str| folder.join(name).display().to_string();
    served.done(&format!("relationships add gone --group local -- copy {}/ {}", at("gone"), at("target")));
    let (code, _, failed) = served.fleet("run start gone --watch");
    assert!(code == 1 && failed.contains("gone/: no such file or directory"), "{failed}");
    let shown = served.done("run show 1");
    assert!(shown.contains("gone/: no such file or directory"), "{shown}");
    assert!(shown.contains("copy (not finished), links (not begun), directories (not begun)"), "{shown}");
    fs::create_dir(folder.join("gone")).unwrap();
    fs::write(folder.join("gone/file"), "content").unwrap();
    assert!(served.done("run start gone --watch").contains("complete after"));
    // Two relationships into one target, the second of them below the first.
    fs::create_dir(folder.join("many")).unwrap();
    fs::create_dir(folder.join("both")).unwrap();
    (0..200).for_each(|number| fs::write(folder.join(format!("many/{number}")), "content").unwrap());
    let add = |name: &str, more: &str, source: &str, target: &str| {
        served.done(&format!(
            "relationships add {name} --group local{more} -- copy {}/ {}",
            at(source),
            at(target)
        ))
    };
    add("many", " --limit-operations 2", "many", "both");
    add("below", "", "gone", "both/below");
    served.done("run start many");
    let (code, _, failed) = served.fleet("run start below");
    assert!(
        code == 6 && failed.contains("run 3 of the relationship \"many\" copies to this target"),
        "{failed}"
    );
    let (code, _, failed) = served.fleet("run start many");
    assert!(code == 6 && failed.contains("run 3 of this relationship is under way"), "{failed}");
    // Its relationship stays as long.
    let (code, _, failed) = served.fleet("relationships remove many");
    assert!(code == 6 && failed.contains("run 3 of this relationship is under way"), "{failed}");
    assert!(failed.contains("hint: wait until it has ended, or cancel it"), "{failed}");
    served.done("run cancel 3");
    served.done("relationships remove many");
    assert!(served.done("run start below --watch").contains("complete after"));
    // Another control plane with the same ledger.
    let second =
        hakobu(folder).args(["serve", "--listen", "127.0.0.1:0", "--data", "data"]).output().unwrap();
    let words = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.code() == Some(6) && words.contains("another control plane uses it"), "{words}");
}
