//! Data through ssh, if no port can be reached or the user asks for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hakobu_testkit::sshd::{Password, SshdOptions, no_root};
use rustix::process::Signal;

use crate::program::*;

/// Starts a host with these lines in the configuration of its server.
fn host(lines: &[&str]) -> Host {
    Host::with(&SshdOptions {
        path_dirs: vec![Path::new(HAKOBU).parent().unwrap().to_owned()],
        config_lines: lines.iter().map(|&line| line.to_owned()).collect(),
        ..SshdOptions::default()
    })
}

/// Creates a tree with a file that is larger than all buffers between the hosts.
fn large_tree(path: &Path) -> PathBuf {
    tree(path);
    file(&path.join("larger"), 150_000_001);
    path.to_owned()
}

/// Returns the ssh processes that use the configuration of this host.
fn ssh_processes(host: &Host) -> Vec<String> {
    let config = host.sshd.client_config().into_os_string().into_encoded_bytes();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let words = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let ours = all.map(words).filter(|words| words.split(|&byte| byte == 0).any(|word| word == config));
    ours.map(|words| String::from_utf8_lossy(&words).replace('\0', " ")).collect()
}

/// Returns the directories for the sockets of shared logins.
fn socket_directories(place: &Path) -> Vec<PathBuf> {
    fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Waits until nothing of a run is left: no process on either side and no socket.
#[track_caller]
fn assert_nothing_left(host: &Host, runtime: &Path) {
    let limit = Duration::from_secs(60);
    wait_until("no ssh process is left", limit, || ssh_processes(host).is_empty());
    host.wait_for_no_agent();
    let joined = || {
        host.sshd.processes().iter().any(|id| {
            fs::read(format!("/proc/{id}/cmdline"))
                .unwrap_or_default()
                .windows(6)
                .any(|part| part == b"--join")
        })
    };
    wait_until("no joined connection is left", limit, || !joined());
    assert_eq!(socket_directories(runtime), Vec::<PathBuf>::new());
}

/// Runs a copy that makes this many logins. To a machine that is too busy to answer within 20 ms, some lanes go
/// through the first login to save time. Then the copy is repeated.
#[track_caller]
fn with_logins(host: &Host, count: usize, target: &Path, copy: impl Fn() -> Copy) -> Ran {
    for _ in 0..5 {
        let before = host.logins();
        let ran = copy().crawl_until_logins(host, before + count);
        let logins = host.logins() - before;
        assert!(logins <= count, "{logins} logins: {}", ran.err);
        if logins == count || ran.code != Some(0) {
            return ran;
        }
        fs::remove_dir_all(target).unwrap();
    }
    panic!("never were there {count} logins");
}

#[test]
fn both_directions_go_through_ssh_when_asked() {
    let (place, runtime, host) = (place(), place(), host(&[]));
    let source = large_tree(&place.path().join("source"));
    for (name, typed) in [("push", true), ("pull", false)] {
        let target = place.path().join(name);
        let typed = match typed {
            true => [contents(&source), host.at(&target)],
            false => [contents(host.at(&source)), target.clone().into()],
        };
        let options = "--transport ssh --lanes 3 --why --verbose";
        let copy = || {
            let copy = Copy::new().to(&host).env("XDG_RUNTIME_DIR", runtime.path());
            copy.options(options).args(&typed)
        };
        // One login for the agent, and one for each lane. The first lane does not wait for the others.
        let ran = with_logins(&host, 4, &target, copy);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert_same(&source, &target);
        assert_eq!(ran.report["transport"], "ssh");
        assert!((2..=3).contains(&ran.report["lanes_max"].as_u64().unwrap()), "{:#}", ran.report);
        assert_eq!(ran.report["cipher"], "none");
        ran.says(&["the data goes through up to 3 ssh connections", "none within ssh", "transport: ssh"]);
        assert!(!ran.err.contains("would be faster"), "{}", ran.err);
        assert_nothing_left(&host, runtime.path());
    }
    // A typed cipher is used inside ssh as well.
    let options = "--transport ssh --lanes 20 --cipher aes-256-gcm";
    let target = place.path().join("typed");
    let ran = Copy::new().to(&host).options(options).arg(contents(&source)).arg(host.at(&target)).run_to(0);
    assert_same(&source, &target);
    assert_eq!(ran.report["cipher"], "aes-256-gcm");
    assert!(ran.report["lanes_max"].as_u64().unwrap() <= 10);
}

#[test]
fn other_verbs_and_a_second_pass_go_through_ssh_as_well() {
    let (place, host) = (place(), host(&[]));
    let source = tree(&place.path().join("source"));
    let target = place.path().join("target");
    let over =
        |copy: Copy| copy.to(&host).options("--transport ssh").arg(contents(&source)).arg(host.at(&target));
    over(Copy::new()).run_to(0);
    fs::write(target.join("only here"), "x").unwrap();
    over(Copy::sync().arg("--delete")).run_to(0);
    assert_same(&source, &target);
    over(Copy::verify()).run_to(0);
    fs::write(target.join("large"), "another").unwrap();
    over(Copy::verify()).run_to(4);
}

#[test]
fn two_far_hosts_are_joined_through_ssh() {
    let (place, runtime) = (place(), place());
    let source = large_tree(&place.path().join("source"));
    for lines in [&[][..], &["AllowTcpForwarding no"]] {
        let host = host(lines);
        let target = place.path().join(format!("target {}", lines.len()));
        let ran = Copy::new()
            .to(&host)
            .env("XDG_RUNTIME_DIR", runtime.path())
            .options("--transport ssh --lanes 2")
            .arg(contents(host.at(&source)))
            .arg(host.at_another(&target))
            .run_to(0);
        assert_same(&source, &target);
        assert_eq!(ran.report["transport"], "ssh, relayed");
        // This machine relays the data and must not be able to read it.
        assert_ne!(ran.report["cipher"], "none");
        assert!(!ran.err.contains("open failed"), "{lines:?}: {}", ran.err);
        assert_nothing_left(&host, runtime.path());
    }
}

#[test]
fn hardened_servers_are_no_obstacle() {
    let (place, runtime) = (place(), place());
    let source = large_tree(&place.path().join("source"));
    for (name, lines) in [
        ("one session each", &["MaxSessions 1"][..]),
        ("few that have not logged in", &["MaxStartups 3:100:3"]),
        ("no forwarding", &["AllowTcpForwarding no"]),
        ("nothing of it all", &["AllowTcpForwarding no", "MaxSessions 1", "MaxStartups 3:100:3"]),
    ] {
        let host = host(lines);
        for pull in [false, true] {
            let target = place.path().join(format!("{name} {pull}"));
            let typed = match pull {
                false => [contents(&source), host.at(&target)],
                true => [contents(host.at(&source)), target.clone().into()],
            };
            let mut tries = 0;
            loop {
                let before = host.logins();
                let copy = Copy::new().to(&host).env("XDG_RUNTIME_DIR", runtime.path());
                let copy = copy.options("--transport ssh --lanes 5").args(&typed);
                let ran = copy.crawl_until_logins(&host, before + 6);
                assert_eq!(ran.code, Some(0), "{name}: {}", ran.err);
                assert_same(&source, &target);
                assert_eq!(ran.report["transport"], "ssh", "{name}");
                assert!(!host.sshd.log().contains("MaxStartups"), "{name}: {}", host.sshd.log());
                assert_nothing_left(&host, runtime.path());
                fs::remove_dir_all(&target).unwrap();
                // To a machine that is too busy to answer within 20 ms, a connection or two go through the first
                // login to save time, or are refused with a message.
                let refused = ran.err.matches("open failed").count();
                let logins = host.logins() - before;
                if refused == 0 && logins >= 6 {
                    break;
                }
                tries += 1;
                assert!(
                    refused == 0 || refused <= 2 && lines.contains(&"MaxSessions 1"),
                    "{name}: {}",
                    ran.err
                );
                assert!(tries < 5, "{name}: {logins} logins, {}", ran.err);
            }
        }
    }
}

/// A host that only ssh can reach. Its network leads nowhere, and is another one for each connection unless they are
/// `together`.
struct Island {
    host: Host,
    network: Option<String>,
}

impl Island {
    fn up(together: bool) -> Self {
        let host = host(&[]);
        let server = host.sshd.client_config().with_file_name("sshd_config");
        let sshd = format!("/usr/sbin/sshd -i -f {} -E /dev/null", server.display());
        let network = together.then(|| format!("hakobutest-{}-island", std::process::id()));
        let way = match &network {
            Some(network) => {
                for words in [&["netns", "add", network][..], &["-n", network, "link", "set", "lo", "up"]] {
                    assert!(Command::new("ip").args(words).status().unwrap().success());
                }
                format!("ip netns exec {network} {sshd}")
            }
            None => format!("unshare -n sh -c 'ip link set lo up; exec {sshd}'"),
        };
        let config = fs::read_to_string(host.sshd.client_config()).unwrap();
        fs::write(host.sshd.client_config(), format!("{config}  ProxyCommand {way}\n")).unwrap();
        Self { host, network }
    }
}

impl Drop for Island {
    fn drop(&mut self) {
        if let Some(network) = &self.network {
            let _ = Command::new("ip").args(["netns", "delete", network]).status();
        }
    }
}

#[test]
fn a_port_that_nobody_reaches_is_no_end_and_it_is_said() {
    if no_root() {
        return;
    }
    let place = place();
    let source = large_tree(&place.path().join("source"));
    for together in [true, false] {
        let island = Island::up(together);
        let host = &island.host;
        for pull in [false, true] {
            let target = place.path().join(format!("{together} {pull}"));
            let typed = match pull {
                false => [contents(&source), host.at(&target)],
                true => [contents(host.at(&source)), target.clone().into()],
            };
            let ran = Copy::new().to(host).options("--lanes 2 --data-port 7777").args(&typed).run_to(0);
            assert_same(&source, &target);
            assert_eq!(ran.report["transport"], "ssh");
            let notices: Vec<_> = ran.events.iter().filter(|event| event["event"] == "notice").collect();
            let [notice] = &notices[..] else { panic!("{notices:?}") };
            for words in [
                "no data connection could be opened: from ",
                "; the data goes through up to 2 ssh connections instead; opening TCP port 7777 would be faster",
            ] {
                assert!(notice["words"].as_str().unwrap().contains(words), "{notice}");
            }
            host.wait_for_no_agent();
            wait_until("no ssh process is left", Duration::from_secs(60), || {
                ssh_processes(host).iter().all(|words| words.starts_with(HAKOBU))
            });
        }
    }
}

/// Prepares a copy by a user who is asked for a password.
fn asked(password: &Password, host: &Host) -> Copy {
    let options = "-o BatchMode=no -o PubkeyAuthentication=no -o PreferredAuthentications=password";
    let ssh = format!("{} {options} -l {}", host.sshd.ssh_command(), password.user().name());
    Copy::new()
        .env("HAKOBU_SSH", ssh)
        .env("SSH_ASKPASS", password.program())
        .env("SSH_ASKPASS_REQUIRE", "force")
}

#[test]
fn a_password_is_asked_for_once() {
    if no_root() {
        return;
    }
    let (place, runtime) = (place(), place());
    let source = tree(&place.path().join("source"));
    file(&source.join("larger"), 70_000_001);
    for lines in [&[][..], &["MaxSessions 1"], &["AllowTcpForwarding no"]] {
        let password = Password::create().unwrap();
        let host = host(&[&["PasswordAuthentication yes"], lines].concat());
        let target = password.user().home().join("target");
        let ran = asked(&password, &host)
            .env("XDG_RUNTIME_DIR", runtime.path())
            .options("--transport ssh --lanes 8")
            .arg(contents(&source))
            .arg(host.at(&target))
            .run();
        // Only root can preserve owners, and names that root created remain readable.
        assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.err);
        assert_eq!(fs::read(source.join("larger")).unwrap(), fs::read(target.join("larger")).unwrap());
        assert_eq!(ran.report["transport"], "ssh");
        assert_eq!((password.asked(), host.logins()), (1, 1), "{lines:?}: {}", ran.err);
        assert_nothing_left(&host, runtime.path());
    }
}

#[test]
fn a_second_factor_is_asked_for_once_and_no_server_is_provoked() {
    if no_root() {
        return;
    }
    let place = place();
    let source = file(&place.path().join("source"), 70_000_001);
    let factors = ["PasswordAuthentication yes", "AuthenticationMethods publickey,password"];
    for transport in ["ssh", "sftp"] {
        let (password, host) = (Password::create().unwrap(), host(&factors));
        let ssh = format!("{} -o BatchMode=no -l {}", host.sshd.ssh_command(), password.user().name());
        let target = password.user().home().join("target");
        let copy = Copy::new()
            .env("HAKOBU_SSH", ssh)
            .env("SSH_ASKPASS", password.program())
            .env("SSH_ASKPASS_REQUIRE", "force");
        let ran =
            copy.args(["--transport", transport, "--lanes", "6"]).arg(&source).arg(host.at(&target)).run();
        assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.err);
        assert_eq!(fs::read(&source).unwrap(), fs::read(&target).unwrap());
        assert_eq!((password.asked(), host.logins()), (1, 1), "{transport}: {}", ran.err);
        assert!(host.sshd.penalty_s() <= 5, "{transport}: {}", host.sshd.log());

        // With a key, no login is refused. A login that is in progress at the end is cut short.
        let host = self::host(&[]);
        let target = place.path().join(transport);
        let copy = Copy::new().to(&host).args(["--transport", transport, "--lanes", "6"]);
        copy.arg(&source).arg(host.at(&target)).run_to(0);
        let cut_short = host.sshd.ended_before_login();
        assert!(cut_short.len() <= 2, "{transport}: {}", host.sshd.log());
    }
}

#[test]
fn a_killed_run_leaves_nothing_whichever_side_it_was() {
    let (place, runtime, host) = (place(), place(), host(&[]));
    let source = file(&place.path().join("source"), 2_000_000_000);
    for pull in [false, true] {
        for (what, signal) in [("near", Signal::KILL), ("near", Signal::INT), ("agent", Signal::KILL)] {
            let target = place.path().join("target");
            let typed = match pull {
                false => [source.clone().into_os_string(), host.at(&target)],
                true => [host.at(&source), target.clone().into_os_string()],
            };
            let mut running = Copy::by(stopped())
                .to(&host)
                .env("XDG_RUNTIME_DIR", runtime.path())
                .options("--transport ssh --retry-for 0s")
                .args(&typed)
                .start_group();
            running.crawl_until_under_way();
            match what {
                "near" => running.signal(signal),
                _ => host
                    .agents()
                    .into_iter()
                    .for_each(|id| rustix::process::kill_process(id, signal).unwrap()),
            }
            rustix::process::kill_process(running.id(), Signal::CONT).unwrap();
            let ran = running.end();
            let expected = match (what, signal) {
                ("near", Signal::INT) => Some(130),
                ("near", _) => None,
                _ => Some(1),
            };
            assert_eq!(ran.code, expected, "{what} {pull}: {}", ran.err);
            if expected.is_none() {
                // On such a slow link a login takes long, and one in progress leaves an empty directory for a moment.
                wait_until("no ssh process is left", Duration::from_secs(60), || {
                    ssh_processes(&host).is_empty()
                });
                socket_directories(runtime.path()).iter().for_each(|left| fs::remove_dir_all(left).unwrap());
            }
            assert_nothing_left(&host, runtime.path());
            assert!(!target.exists());
        }
    }
}
