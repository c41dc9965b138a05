//! The end that starts a transfer: this machine, or the host, which logs in here or connects to a port here.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use hakobu_testkit::sshd::{Sshd, SshdOptions, no_root};
use hakobu_testkit::throttle::Throttle;
use serde_json::Value;
use tempfile::TempDir;

use super::program::*;
use super::words;

/// The tools that a bench needs. With only these, few transports can be measured, which saves time.
const TOOLS: [&str; 28] = [
    "sh", "dd", "awk", "cat", "chmod", "cut", "df", "env", "grep", "head", "id", "install", "ln", "ls",
    "mkdir", "mktemp", "printf", "readlink", "rm", "rmdir", "sed", "sleep", "stat", "sync", "tail", "tr",
    "uname", "mbuffer",
];

/// Creates a directory with these tools, to be used as the only directory of PATH.
fn path_of(place: &Path, name: &str, without: &[&str]) -> PathBuf {
    let directory = place.join(name);
    std::fs::create_dir(&directory).unwrap();
    for tool in TOOLS.iter().filter(|tool| !without.contains(tool)) {
        let found = ["/usr/bin", "/bin", "/usr/sbin"].map(|at| Path::new(at).join(tool));
        if let Some(found) = found.iter().find(|path| path.exists()) {
            symlink(found, directory.join(tool)).unwrap();
        }
    }
    directory
}

fn script(path: &Path, lines: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Creates an ssh for the bench that knows the server of this machine.
fn ssh_to(server: &Sshd, in_directory: &Path) {
    let config = server.client_config();
    script(&in_directory.join("ssh"), &format!("exec /usr/bin/ssh -F {} \"$@\"", config.display()));
}

fn rows(all: &Value) -> &[Value] {
    all["rows"].as_array().unwrap()
}

/// Returns the row for random data, from memory to nothing, without options.
fn row<'a>(all: &'a Value, way: &str, direction: &str, starter: &str) -> &'a Value {
    let is_it = |row: &&Value| {
        let case = &row["case"];
        (&case["way"], &case["direction"], &case["starter"])
            == (&way.into(), &direction.into(), &starter.into())
            && (&case["content"], &case["cipher"]) == (&"random".into(), &Value::Null)
            && (&case["ends"], &case["block_bytes"]) == (&"memory_to_nothing".into(), &65536.into())
    };
    rows(all).iter().find(is_it).unwrap_or_else(|| panic!("{way} {direction} {starter}: {all:#}"))
}

/// Runs a printed command, with a target whose content can be compared.
fn type_again(command: &str, place: &TempDir, number: usize) {
    let source = file(&place.path().join(format!("source{number}")), 300_000 + number as u64);
    let target = place.path().join(format!("target{number}"));
    let at = command.rfind("/dev/null").unwrap();
    let at = command.find("of=/dev/null").map_or(at, |found| found + 3);
    let typed = format!("{}$TARGET{}", &command[..at], &command[at + "/dev/null".len()..]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &typed]).env("SOURCE", &source).env("TARGET", &target).env_remove("HAKOBU_SSH");
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{typed}\n{}", words(&output).1);
    assert!(std::fs::read(&source).unwrap() == std::fs::read(&target).unwrap(), "{typed}");
}

#[test]
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_the_host_starts_and_hakobu_goes_with_the_agent_that_is_meant() {
    if no_root() {
        return;
    }
    let place = place();
    // These paths have to be quoted for a shell.
    let (here, there) = (place.path().join("it's my $place"), place.path().join("its \"programs\""));
    for directory in [&here, &there] {
        std::fs::create_dir(directory).unwrap();
        install(HAKOBU, &directory.join("hakobu"));
    }
    let (near_tools, far_tools) = (path_of(place.path(), "near", &[]), path_of(place.path(), "far", &[]));
    symlink("/usr/bin/ssh", near_tools.join("ssh")).unwrap();
    // This machine has a server of its own for logins from the host.
    let [host, back] = [(); 2].map(|()| {
        Sshd::start(&SshdOptions {
            config_lines: vec![format!("SetEnv PATH={}", far_tools.display())],
            ..SshdOptions::default()
        })
        .unwrap()
    });
    ssh_to(&back, &far_tools);
    let mut command = Command::new(here.join("hakobu"));
    command.args(["bench", "throwaway", "--json", "--back", "throwaway", "--time-budget", "50s", "--agent"]);
    command.arg(there.join("hakobu")).env("PATH", &near_tools).env("LC_ALL", "C");
    let output = command.env("HAKOBU_SSH", host.ssh_command()).output().unwrap();
    let (out, err) = words(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let all: Value = serde_json::from_str(&out).unwrap();
    let mut commands = Vec::new();
    for direction in ["to_host", "from_host"] {
        for starter in ["here", "there"] {
            let hakobu = row(&all, "hakobu", direction, starter);
            assert_eq!(
                (&hakobu["transport"], &hakobu["failed"]),
                (&"agent".into(), &Value::Null),
                "{hakobu:#}"
            );
            let label = if starter == "there" { "hakobu, started there" } else { "hakobu" };
            assert_eq!(hakobu["label"], label);
            let dd = row(&all, "dd", direction, starter);
            assert_eq!((&dd["transport"], &dd["failed"]), (&Value::Null, &Value::Null), "{dd:#}");
            commands.extend([hakobu, dd].map(|row| row["command"].as_str().unwrap().to_owned()));
        }
    }
    // The sshd of this machine served the transfer, so its processor time is in the row.
    let served = row(&all, "dd", "to_host", "there")["processes"]["here"].to_string();
    assert!(served.contains("\"sshd"), "{served}");
    if Path::new("/usr/bin/mbuffer").exists() {
        let mbuffer = row(&all, "mbuffer", "from_host", "there");
        assert_eq!((&mbuffer["failed"], &mbuffer["encrypted"]), (&Value::Null, &false.into()), "{mbuffer:#}");
        commands.push(mbuffer["command"].as_str().unwrap().to_owned());
    }
    let left_out = all["left_out"].as_array().unwrap();
    for tool in ["nc", "tar", "scp"] {
        let is_it = |out: &&Value| out["what"] == tool;
        let why = &left_out.iter().find(is_it).unwrap_or_else(|| panic!("{tool}: {left_out:#?}"))["why"];
        assert!(why.as_str().unwrap().starts_with("it is not installed"), "{why}");
    }
    // The printed commands can be typed in a shell with more tools.
    symlink("/bin/bash", far_tools.join("bash")).unwrap();
    for (number, command) in commands.iter().enumerate() {
        type_again(command, &place, number);
    }
}

#[test]
fn an_agent_that_is_not_there_is_said_before_anything_is_measured() {
    if no_root() {
        return;
    }
    let host = Host::up();
    let mut command = super::bench(Some(&host), &["throwaway", "--agent", "/no such/hakobu"]);
    let output = command.output().unwrap();
    let (out, err) = words(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("/no such/hakobu, which --agent names, is no program on throwaway"), "{err}");
}

/// The cause of a published observation: whenever the sshd of one host served, the rate halved. Here the host's sshd
/// gets a fifth of a processor after the login, and nothing else is throttled.
#[test]
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_a_throttled_sshd_is_what_an_asymmetry_is_explained_by() {
    if no_root() {
        return;
    }
    let place = place();
    let throttle = Throttle::processor(20).unwrap();
    let (near_tools, far_tools) =
        (path_of(place.path(), "near", &["mbuffer"]), path_of(place.path(), "far", &["mbuffer"]));
    symlink("/usr/bin/ssh", near_tools.join("ssh")).unwrap();
    // The login is not throttled, because it would take longer than the transfer.
    let session = place.path().join("session");
    script(
        &session,
        &format!(
            "echo $PPID >{}; PATH={}; export PATH; exec sh -c \"${{SSH_ORIGINAL_COMMAND:-sh}}\"",
            throttle.way_in().display(),
            far_tools.display()
        ),
    );
    let this = Sshd::start(&SshdOptions::default()).unwrap();
    ssh_to(&this, &far_tools);
    let force = format!("ForceCommand {}", session.display());
    let host = Sshd::start(&SshdOptions { config_lines: vec![force], ..SshdOptions::default() }).unwrap();
    install(HAKOBU, &place.path().join("hakobu"));
    // In less time the runs would be too short to show which process was busy, if the machine has other work. If
    // nothing was seen in either direction, a second attempt has longer runs.
    let explained = ["110s", "170s"].iter().any(|budget| {
        let mut command = Command::new(HAKOBU);
        command.args(["bench", "throwaway", "--json", "--back", "throwaway", "--time-budget", budget]);
        command.arg("--agent").arg(place.path().join("hakobu"));
        command.env("PATH", &near_tools).env("LC_ALL", "C");
        let output = command.env("HAKOBU_SSH", host.ssh_command()).output().unwrap();
        let (out, err) = words(&output);
        assert_eq!(output.status.code(), Some(0), "{out}{err}");
        explains_the_throttled_sshd(&serde_json::from_str(&out).unwrap())
    });
    assert!(explained, "nobody was seen to be busy");
    drop(host);
}

/// Returns true if a bench names the throttled sshd as the cause, in one direction or both. Panics if it names a wrong cause.
fn explains_the_throttled_sshd(all: &Value) -> bool {
    let asymmetries = all["asymmetries"].as_array().unwrap();
    let mut explained = Vec::new();
    for direction in ["to_host", "from_host"] {
        // A transfer that the throttled sshd serves is slow in both directions.
        let is_it = |found: &&Value| {
            let (slow, fast) = (&found["slow"], &found["fast"]);
            (&slow["way"], &slow["direction"], &slow["starter"])
                == (&"dd".into(), &direction.into(), &"here".into())
                && (&fast["direction"], &fast["starter"]) == (&direction.into(), &"there".into())
        };
        let found = asymmetries.iter().find(is_it).unwrap_or_else(|| panic!("{direction}: {all:#}"));
        let words = found["words"].as_str().unwrap();
        let says = |part: &str| assert!(words.contains(part), "{part}: {words}\n{:#}", all["rows"]);
        let Some(process) = found["process"].as_array() else {
            // On a busy machine a run may take little longer than its start, in which sshd waits for nothing, or than
            // the interval of the measurement. The bench has to say so then, and not that nothing was busy.
            if !words.contains("is not known: of the") {
                says("but sshd");
                says("on throwaway was kept waiting: it had no processor for");
            }
            continue;
        };
        assert!(process[0] == "there" && process[1].as_str().unwrap().starts_with("sshd"), "{found:#}");
        for part in [
            "What holds the slow one up is sshd",
            "on throwaway: it wanted to run for",
            "and was given a processor for",
            "with a whole processor",
        ] {
            says(part);
        }
        explained.push(words);
    }
    let both = "In the other direction it is the same: when the sshd of throwaway serves";
    assert!(explained.len() < 2 || explained.iter().all(|words| words.contains(both)), "{explained:#?}");
    !explained.is_empty()
}
