//! `hakobu bench` against a real OpenSSH server. The tests check what is run and what is left behind, and no figures.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hakobu_testkit::sshd::{Shell, SshdOptions, Sudo, User, no_root};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[path = "../report/html.rs"]
mod html;
#[path = "../program/mod.rs"]
mod program;
mod starters;

use program::*;

fn bench(host: Option<&Host>, arguments: &[&str]) -> Command {
    hakobu_sys::signal::heed_all().unwrap();
    let mut command = Command::new(HAKOBU);
    command.arg("bench").args(arguments).env("LC_ALL", "C").env_remove("HAKOBU_SSH");
    if let Some(host) = host {
        command.env("HAKOBU_SSH", host.sshd.ssh_command());
    }
    command
}

fn words(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Returns the scratch directories below these, of all users.
fn scratch_in(places: &[&Path]) -> Vec<String> {
    let entries = places.iter().flat_map(|place| std::fs::read_dir(place).into_iter().flatten().flatten());
    let names = entries.map(|entry| entry.path().display().to_string());
    names.filter(|name| name.contains("/hakobu-bench.")).collect()
}

/// Returns the files in memory that this process, or the host's shell, may have created.
fn of_process(id: u32) -> Vec<String> {
    let own = format!("/hakobu-bench.{id}.");
    scratch_in(&[Path::new("/dev/shm"), Path::new("/tmp")])
        .into_iter()
        .filter(|name| name.contains(&own))
        .collect()
}

#[test]
fn a_bench_over_ssh_measures_and_leaves_nothing() {
    if no_root() {
        return;
    }
    let host = Host::up();
    let place = place();
    let (here, there) = (
        place.path().join("it's a $here"),
        Path::new("/var/tmp").join(format!("a {}'s", std::process::id())),
    );
    std::fs::create_dir(&here).unwrap();
    std::fs::create_dir(&there).unwrap();
    let page = place.path().join("page.html");
    let mut command = bench(Some(&host), &["throwaway", "--json", "--time-budget", "25s"]);
    command.arg("--scratch").arg(&here).arg("--far-scratch").arg(&there).arg("--html").arg(&page);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    let output = child.wait_with_output().unwrap();
    let (out, err) = words(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let all: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&all["schema"], &all["host"]), (&"hakobu.bench/1".into(), &"throwaway".into()));
    let rows = all["rows"].as_array().unwrap();
    let of = |way: &str| {
        rows.iter().find(|row| row["case"]["way"] == way).unwrap_or_else(|| panic!("{way}: {out}"))
    };
    for way in ["hakobu", "dd"] {
        let row = of(way);
        assert_eq!(row["failed"], Value::Null, "{row:#}");
        assert!(
            row["wall_seconds"][0].as_f64().unwrap() > 0.0 && row["size_bytes"].as_u64().unwrap() > 1,
            "{row:#}"
        );
        assert!(row["cpu_seconds"]["here"].as_f64().is_some(), "{row:#}");
    }
    // The processes of the host include the session of its server.
    let there_names = of("dd")["processes"]["there"].as_array().unwrap();
    assert!(there_names.iter().any(|cost| cost["name"].as_str().unwrap().starts_with("sshd")), "{out}");
    assert!(
        of("dd")["command"].as_str().unwrap().starts_with("dd if=\"$SOURCE\" bs=64k status=none | ssh -F ")
    );
    let left_out = all["left_out"].to_string();
    assert!(
        left_out.contains("the time budget") && left_out.contains("is in memory; --scratch"),
        "{left_out}"
    );
    assert!(err.contains("looking at throwaway") && err.contains("scratch files are in"), "{err}");
    let text = html::text_of(&std::fs::read_to_string(&page).unwrap());
    assert!(text.contains("Command lines") && text.contains("dd | ssh"), "{text}");
    assert_eq!(scratch_in(&[&here, &there]), [""; 0]);
    assert_eq!(of_process(id), [""; 0]);
    std::fs::remove_dir(&there).unwrap();
}

#[test]
fn a_login_shell_that_is_csh_is_no_obstacle() {
    if no_root() {
        return;
    }
    let user = User::create(Shell::Csh, &Sudo::Refused).unwrap();
    let host = Host::with(&SshdOptions { login: Some(user.name().to_owned()), ..SshdOptions::default() });
    let far = user.home().join("it's \"far\" !1");
    std::fs::create_dir(&far).unwrap();
    assert!(Command::new("chown").arg(user.name()).arg(&far).status().unwrap().success());
    let mut command =
        bench(Some(&host), &["throwaway", "--json", "--time-budget", "45s", "--scratch", "/var/tmp"]);
    let output = command.arg("--far-scratch").arg(&far).output().unwrap();
    let (out, err) = words(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let all: Value = serde_json::from_str(&out).unwrap();
    let rows = all["rows"].as_array().unwrap();
    assert!(rows.len() > 2 && rows.iter().all(|row| row["failed"].is_null()), "{out}");
    assert_eq!(std::fs::read_dir(&far).unwrap().count(), 0);
}

#[test]
fn this_machine_alone_is_measured_without_a_host() {
    let place = place();
    let mut command = bench(None, &["--time-budget", "15s"]);
    let output = command.arg("--scratch").arg(place.path()).output().unwrap();
    let (out, err) = words(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    for part in [
        "hakobu bench: this machine\n",
        "the winner, random data, memory to nothing: ",
        "  cp ",
        "Left out",
        "is in memory",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert_eq!(scratch_in(&[place.path()]), [""; 0]);
}

#[test]
fn limits_of_settings_files_are_named_and_not_measured() {
    let place = place();
    let settings = place.path().join("settings");
    std::fs::write(&settings, "bwlimit = \"01:00,pause 13:00,10k\"\nlanes = 2\ndata-port = 5000\n").unwrap();
    let mut command = bench(None, &["--time-budget", "8s", "--json", "--scratch"]);
    let output = command.arg(place.path()).arg("--settings").arg(&settings).output().unwrap();
    let (out, err) = words(&output);
    // On a busy machine there may be no time for other rows.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{out}{err}");
    let all: Value = serde_json::from_str(&out).unwrap();
    // If the rows obeyed the settings, they would pause until they are killed.
    let rows = all["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["case"]["way"] == "hakobu").unwrap();
    assert!(row["failed"].is_null() && row["bytes_per_second"].as_f64().unwrap() > 0.0, "{row:#}");
    let place_of = |line: u32| format!("{}:{line}", settings.display());
    let left = all["settings"]["not_obeyed"].as_array().unwrap();
    let named = |said: &Value| (said["keyword"].as_str().unwrap().to_owned(), said["place"].clone());
    let left: Vec<_> = left.iter().map(named).collect();
    assert_eq!(left, [("lanes".into(), place_of(2).into()), ("bwlimit".into(), place_of(1).into())]);
    assert_eq!(all["settings"]["obeyed"][0]["keyword"], "data-port");
    assert!(err.contains(&format!("bwlimit 01:00,pause 13:00,10k ({})", place_of(1))), "{err}");
}

#[test]
fn a_mistake_in_a_settings_file_ends_it_before_anything_runs() {
    let place = place();
    let settings = place.path().join("settings");
    std::fs::write(&settings, "cipher = 'auto'\nbwlimit = 'fast'\n").unwrap();
    for host in [None, Some("nowhere.invalid")] {
        let mut command = bench(None, &["--settings"]);
        let output = command.arg(&settings).args(host).output().unwrap();
        let (out, err) = words(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{err}");
        assert!(
            err.contains(&format!("{}:2:12", settings.display())) && !err.contains("looking at"),
            "{err}"
        );
    }
}

#[test]
fn an_interruption_ends_it_and_leaves_nothing_here_or_there() {
    if no_root() {
        return;
    }
    let host = Host::up();
    let mark = Path::new("/var/tmp").join(format!("hakobu-bench-test.{}", std::process::id()));
    std::fs::create_dir(&mark).unwrap();
    let mut command = bench(Some(&host), &["throwaway", "--full", "--scratch"]);
    command.arg(&mark).arg("--far-scratch").arg(&mark).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let id = child.id();
    // Scratch files exist at both ends.
    wait_until("scratch files at both ends", Duration::from_secs(60), || {
        scratch_in(&[&mark]).len() == 2 && !of_process(id).is_empty()
    });
    std::thread::sleep(Duration::from_secs(1));
    kill_process(Pid::from_raw(id as i32).unwrap(), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let (_, err) = words(&output);
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("interrupted"), "{err}");
    wait_until("nothing is left", Duration::from_secs(60), || {
        scratch_in(&[&mark]).is_empty() && of_process(id).is_empty()
    });
    std::fs::remove_dir(&mark).unwrap();
}

#[test]
fn a_second_interruption_leaves_nothing_either_nor_does_a_kill() {
    if no_root() {
        return;
    }
    let host = Host::up();
    for (number, signals) in [[Signal::INT, Signal::INT].as_slice(), &[Signal::KILL]].iter().enumerate() {
        let mark = Path::new("/var/tmp").join(format!("hakobu-bench-test.{}.{number}", std::process::id()));
        std::fs::create_dir(&mark).unwrap();
        let mut command = bench(Some(&host), &["throwaway", "--full", "--scratch"]);
        command.arg(&mark).arg("--far-scratch").arg(&mark).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let id = child.id();
        let (mut said, mut err) = (BufReader::new(child.stderr.take().unwrap()), String::new());
        while !err.contains("go in the end") {
            assert!(said.read_line(&mut err).unwrap() > 0, "{err}");
        }
        std::thread::sleep(Duration::from_secs(1));
        assert!(scratch_in(&[&mark]).len() == 2 && !of_process(id).is_empty());
        // The second signal comes while the program cleans up, and ends it.
        for signal in *signals {
            let _ = kill_process(Pid::from_raw(id as i32).unwrap(), *signal);
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait().unwrap();
        wait_until("nothing is left", Duration::from_secs(60), || {
            scratch_in(&[&mark]).is_empty() && of_process(id).is_empty()
        });
        std::fs::remove_dir(&mark).unwrap();
    }
}

#[test]
fn a_host_that_goes_away_ends_it_with_words() {
    if no_root() {
        return;
    }
    let host = Host::up();
    let mut command = bench(Some(&host), &["throwaway", "--full"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    let (mut said, mut err) = (BufReader::new(child.stderr.take().unwrap()), String::new());
    while !err.contains("go in the end") {
        assert!(said.read_line(&mut err).unwrap() > 0, "{err}");
    }
    std::thread::sleep(Duration::from_secs(1));
    drop(host);
    let output = child.wait_with_output().unwrap();
    said.read_to_string(&mut err).unwrap();
    let (out, _) = words(&output);
    assert!(matches!(output.status.code(), Some(1 | 3)), "{:?} {out}{err}", output.status);
    assert!(err.contains("throwaway") && (err.contains("was lost") || err.contains("refused")), "{err}");
    assert_eq!(of_process(id), [""; 0]);
    // The files of the host's shell are removed although it was killed.
    let (_, told) = err.split_once("on throwaway in ").unwrap();
    let (places, _) = told.split_once(", and go in the end").unwrap();
    for path in places.split(" and ").map(Path::new) {
        assert!(path.starts_with("/dev/shm") || path.starts_with("/var/tmp"), "{}", path.display());
        wait_until("nothing is left over there", Duration::from_secs(60), || !path.exists());
    }
}

#[test]
fn too_short_a_time_is_refused_before_anything_is_made() {
    let place = place();
    for arguments in [
        ["nowhere.invalid", "--time-budget", "1s", "--scratch"].as_slice(),
        &["--time-budget", "1s", "--scratch"],
    ] {
        let output = bench(None, arguments).arg(place.path()).output().unwrap();
        let (out, err) = words(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{err}");
        assert!(
            err.contains("--time-budget") && err.contains(" s at least") && !err.contains("looking at"),
            "{err}"
        );
    }
}

#[test]
fn what_cannot_be_is_an_error_in_words() {
    let fails = |arguments: &[&str], ssh: &str, part: &str| {
        let output = bench(None, arguments).args(["-e", ssh]).output().unwrap();
        let (out, err) = words(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains(part) && !err.contains("os error"), "{part}: {err}");
    };
    fails(&["nowhere.invalid"], "ssh", "logging in to nowhere.invalid");
    fails(&["nowhere"], "dbclient", "bench takes OpenSSH's ssh");
    fails(&["--scratch", "/proc"], "ssh", "no scratch directory can be made in /proc: ");
    fails(&["--scratch", "/no/such"], "ssh", "no such file or directory; name another place with --scratch");
    let refused = bench(None, &["--html", "/dev/hakobu-typo.html"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(6), "{}", words(&refused).1);
    // A page that cannot be written is detected first, and none is left if nothing was measured.
    let place = place();
    let page = place.path().join("page.html");
    for (file, part) in [(page.clone(), "logging in to"), (page.join("no"), "writing to")] {
        let output = bench(None, &["nowhere.invalid", "--html"]).arg(file).output().unwrap();
        assert!(output.status.code() == Some(1) && words(&output).1.contains(part), "{}", words(&output).1);
    }
    assert!(!page.exists());
}
