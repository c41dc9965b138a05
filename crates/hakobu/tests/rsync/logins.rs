//! Over ssh, the user is asked at most once, and the server is logged in to no more often than that helps.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use hakobu_testkit::sshd::{Password, SshdOptions, no_root};
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Bench, assert_nothing_to_do, wrapper};
use crate::program::{Copy, Host, file, wait_until};

fn host(lines: &[&str]) -> Host {
    let config_lines = lines.iter().map(|&line| line.to_owned()).collect();
    Host::with(&SshdOptions { config_lines, ..SshdOptions::default() })
}

/// A host that wants a key and a password.
fn host_with_two_factors(lines: &[&str]) -> Host {
    let factors = ["PasswordAuthentication yes", "AuthenticationMethods publickey,password"];
    host(&[&factors, lines].concat())
}

fn asked(password: &Password, host: &Host) -> Copy {
    let ssh = format!("{} -o BatchMode=no -l {}", host.sshd.ssh_command(), password.user().name());
    Copy::new()
        .env("HAKOBU_SSH", ssh)
        .env("SSH_ASKPASS", password.program())
        .env("SSH_ASKPASS_REQUIRE", "force")
        .options("--transport rsync --lanes 4")
}

/// Files of a few sizes, enough for several batches.
fn files(at: &Path) -> OsString {
    std::fs::create_dir(at).unwrap();
    for number in 0..40 {
        file(&at.join(format!("{number}")), 100_000 * (1 + number % 7));
    }
    let mut contents = at.as_os_str().to_owned();
    contents.push("/");
    contents
}

#[test]
fn a_second_factor_is_asked_for_once() {
    if no_root() {
        return;
    }
    let bench = Bench::new();
    let source = files(&bench.path("source"));
    for lines in [&[][..], &["MaxSessions 1"], &["MaxSessions 2", "MaxStartups 3:100:3"]] {
        let (password, host) = (Password::create().unwrap(), host_with_two_factors(lines));
        let target = password.user().home().join("target");
        let runtime = tempfile::tempdir().unwrap();
        let copy = || asked(&password, &host).env("XDG_RUNTIME_DIR", runtime.path());
        let ran = copy().arg(&source).arg(host.at(&target)).run_to(0);
        assert_eq!((password.asked(), host.logins()), (1, 1), "{lines:?}: {}", ran.err);
        assert!(host.sshd.penalty_s() <= 5, "{}", host.sshd.log());
        assert_eq!(ran.entries("created"), 40, "{}", ran.err);
        let back = bench.path("back");
        copy().arg(host.at(target.join(""))).arg(&back).run_to(0);
        assert_eq!((password.asked(), host.logins()), (2, 2));
        let (source, to_root) = (bench.path("source"), ["chown", "-R", "root:root"]);
        assert!(
            std::process::Command::new(to_root[0]).args(&to_root[1..]).arg(&back).status().unwrap().success()
        );
        assert_nothing_to_do(&source, &back);
        std::fs::remove_dir_all(back).unwrap();
        assert_eq!(std::fs::read_dir(runtime.path()).unwrap().count(), 0);
        wait_until("no ssh process is left", Duration::from_secs(60), || host.sshd.processes().is_empty());
    }
}

#[test]
fn where_nobody_is_asked_lanes_log_in_by_themselves() {
    if no_root() {
        return;
    }
    let (bench, host) = (Bench::new(), host(&[]));
    let source = files(&bench.path("source"));
    let ran = Copy::new()
        .to(&host)
        .options("--transport rsync --lanes 2 --why")
        .arg(source)
        .arg(host.at(bench.path("target")))
        .run_to(0);
    assert!(host.logins() >= 3 && host.sshd.ended_before_login().len() <= 2, "{}", host.sshd.log());
    let through_one = ran.events.iter().any(|event| event.to_string().contains("through the first login"));
    assert!(!through_one, "{}", ran.err);
    assert_nothing_to_do(&bench.path("source"), &bench.path("target"));
}

#[test]
fn a_login_that_is_lost_is_made_again() {
    if no_root() {
        return;
    }
    let (bench, password, host) = (Bench::new(), Password::create().unwrap(), host_with_two_factors(&[]));
    let source = bench.path("source");
    std::fs::create_dir(&source).unwrap();
    file(&source.join("large"), 100_000_000);
    let slow = wrapper(&bench.path("slow"), "set -- --bwlimit=30m \"$@\"");
    let target = password.user().home().join("target");
    let mut running =
        asked(&password, &host).env("PATH", slow).arg(source.join("")).arg(host.at(&target)).start();
    running.wait_until_under_way();
    for session in host.sshd.processes() {
        let _ = kill_process(Pid::from_raw(session as i32).unwrap(), Signal::KILL);
    }
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!((password.asked(), host.logins()), (2, 2), "{}", ran.err);
    assert_eq!(std::fs::metadata(target.join("large")).unwrap().len(), 100_000_000);
}

#[test]
fn a_killed_run_leaves_no_login() {
    if no_root() {
        return;
    }
    let (bench, password, host) = (Bench::new(), Password::create().unwrap(), host_with_two_factors(&[]));
    let source = files(&bench.path("source"));
    let target = password.user().home().join("target");
    let slow = wrapper(&bench.path("slow"), "set -- --bwlimit=300 \"$@\"");
    let mut running = asked(&password, &host).env("PATH", slow).arg(source).arg(host.at(&target)).start();
    running.wait_until_under_way();
    assert!(!host.sshd.processes().is_empty());
    running.signal(Signal::KILL);
    running.end();
    wait_until("no session is left", Duration::from_secs(60), || host.sshd.processes().is_empty());
}

#[test]
fn a_login_that_fails_says_so_and_nothing_else_is_tried() {
    let (bench, host) = (Bench::new(), host(&[]));
    let source = files(&bench.path("source"));
    let ssh = format!("{} -o PubkeyAuthentication=no", host.sshd.ssh_command());
    let ran = Copy::new()
        .env("HAKOBU_SSH", ssh)
        .options("--transport rsync")
        .arg(source)
        .arg(host.at(bench.path("target")))
        .run();
    ran.says(&["ssh could not log in to throwaway", "Permission denied"]);
    assert!(ran.code != Some(0) && host.logins() == 0, "{:?}", ran.code);
    assert_eq!(
        host.sshd.log().matches("Connection closed by authenticating user").count(),
        1,
        "{}",
        host.sshd.log()
    );
}
