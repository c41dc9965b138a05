//! The commands `serve` and `fleet` as a user types them: a control plane of its own, and everything through its interface.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const HAKOBU: &str = env!("CARGO_BIN_EXE_hakobu");

/// A control plane on a port of its own.
struct ServedFleet {
    folder: TempDir,
    process: Child,
    url: String,
    token: String,
}

fn hakobu(folder: &Path) -> Command {
    let mut command = Command::new(HAKOBU);
    for name in ["LC_ALL", "LC_MESSAGES", "LANG", "HAKOBU_FLEET_URL", "HAKOBU_FLEET_TOKEN"] {
        command.env_remove(name);
    }
    command.env("HAKOBU_SETTINGS", "none").env("HAKOBU_STATE", folder.join("state")).current_dir(folder);
    command
}

impl ServedFleet {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut process = hakobu(folder.path())
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
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
    assert!(served.done("run compare 2 1").contains("option +--delete"));
    assert!(served.done("audit").contains("relationship.change"));
    served.done("relationships remove house");
    let (code, _, failed) = served.fleet("relationships show house");
    assert_eq!(code, 1, "{failed}");
}

#[test]
fn wrong_requests_have_the_exit_codes_of_other_commands() {
    let served = ServedFleet::start();
    let login = served.fleet_with(&["login", &served.url], &served.token);
    assert_eq!(login.status.code(), Some(0));
    let add = |command: &str| served.fleet(&format!("relationships add x --group local -- {command}"));
    for (command, words) in [
        ("copy --files-from /etc/shadow /a /b", "--files-from: the file would be one of the broker's"),
        ("sync --agent /tmp/x /a /b", "--agent: a fleet runs no command"),
        ("copy a /b", "a: write the whole path, from /"),
        ("verify /a /b", "it is neither copy nor sync"),
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
    let (code, _, failed) = served.fleet("run list --server http://127.0.0.1:1");
    assert!(code == 1 && failed.contains("hakobu serve"), "{failed}");
    assert_eq!(served.fleet("run list --server http://fleet.example").0, 2);
}

#[test]
fn bad_input_is_named_and_nothing_is_lost() {
    let served = ServedFleet::start();
    let folder = served.folder.path();
    assert_eq!(served.fleet_with(&["login", &served.url], &served.token).status.code(), Some(0));
    // A token that is none, one that nobody made, and one whose time is over.
    let short = served.done("tokens add visitor --role viewer --valid-for 1s");
    std::thread::sleep(std::time::Duration::from_millis(1500));
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
    assert!(served.done("run show 1").contains("gone/: no such file or directory"));
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
    assert!(code == 6 && failed.contains("another run copies to this target"), "{failed}");
    let (code, _, failed) = served.fleet("run start many");
    assert!(code == 6 && failed.contains("a run of this relationship is under way"), "{failed}");
    served.done("run cancel 3");
    assert!(served.done("run start below --watch").contains("complete after"));
    // Another control plane with the same ledger.
    let second =
        hakobu(folder).args(["serve", "--listen", "127.0.0.1:0", "--data", "data"]).output().unwrap();
    let words = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.code() == Some(6) && words.contains("another control plane uses it"), "{words}");
}
