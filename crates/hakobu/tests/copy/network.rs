//! Closed network paths: failing logins, unreachable data ports, hosts that cannot reach each other.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::{Duration, Instant};

use hakobu_testkit::sshd::{Sshd, SshdOptions, no_root};

use crate::program::*;

#[test]
fn ssh_has_its_own_words_for_logins_that_fail() {
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("source"), 1000);
    let target = place.path().join("target");
    let copy = || Copy::new().to(&host).arg(&source);

    copy().arg("no-such-host.invalid:/x").run_to(1).says(&[
        "no-such-host.invalid",
        "ssh could not log in to no-such-host.invalid",
        " no-such-host.invalid` has to work first",
    ]);
    copy()
        .arg(format!("ssh://127.0.0.1:1{}", target.display()))
        .run_to(1)
        .says(&["onnection refused", "127.0.0.1"]);
    copy()
        .arg(format!("no-such-user@throwaway:{}", target.display()))
        .run_to(1)
        .says(&["ermission denied", "throwaway"]);

    let known = fs::read_to_string(host.sshd.known_hosts()).unwrap();
    fs::write(host.sshd.known_hosts(), "").unwrap();
    copy().arg(host.at(&target)).run_to(1).says(&["Host key verification failed", "throwaway"]);
    let (place_of_key, _) = known.split_once(' ').unwrap();
    let other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    fs::write(host.sshd.known_hosts(), format!("{place_of_key} {other}\n")).unwrap();
    copy().arg(host.at(&target)).run_to(1).says(&["HOST IDENTIFICATION HAS CHANGED", "ssh could not log in"]);

    let ran = Copy::new().options("--ssh no-such-program").arg(&source).arg("host:/x").run_to(1);
    ran.says(&["no-such-program", "see what --ssh or HAKOBU_SSH names"]);
    assert!(!target.exists());
}

/// Starts a host that only ssh can reach, because it has a network of its own that leads nowhere.
fn island() -> Host {
    let host = Host::up();
    let server = host.sshd.client_config().with_file_name("sshd_config");
    let config = fs::read_to_string(host.sshd.client_config()).unwrap();
    let way = format!("  ProxyCommand unshare -n /usr/sbin/sshd -i -f {} -E /dev/null\n", server.display());
    fs::write(host.sshd.client_config(), config + &way).unwrap();
    host
}

#[test]
fn a_data_port_that_is_closed_is_named_with_its_direction() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), island());
    let source = tree(&place.path().join("source"));
    let target = place.path().join("target");
    for typed in [[contents(&source), host.at(&target)], [contents(host.at(&source)), target.clone().into()]]
    {
        let began = Instant::now();
        let options = "--transport agent --data-address 192.0.2.1 --data-port 7777";
        let ran = Copy::new().to(&host).options(options).args(&typed).run_to(1);
        ran.says(&[
            "no data connection could be opened",
            "from this machine to throwaway at 192.0.2.1 port 7777",
            "from throwaway to this machine at ",
            "open TCP port 7777",
            "--data-address",
        ]);
        // Each of the two attempts ends after three seconds.
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        assert!(!target.exists());
    }
    // Without `--data-port`, the message recommends to choose a port.
    let copy = Copy::new().to(&host).options("--transport agent");
    let ran = copy.arg(contents(&source)).arg(host.at(&target)).run_to(1);
    ran.says(&["no data connection could be opened", "choose a port with --data-port N and open it"]);
    // A copy within the host needs no data connection.
    Copy::new().to(&host).arg(contents(host.at(&source))).arg(host.at(&target)).run_to(0);
    assert_same(&source, &target);
}

/// Three namespaces. The middle one reaches the other two, which cannot reach each other.
struct Star {
    names: [String; 3],
}

const MIDDLE: usize = 0;

impl Star {
    fn up() -> Self {
        let id = std::process::id();
        let star = Self { names: ["middle", "left", "right"].map(|name| format!("hakobutest-{id}-{name}")) };
        for name in &star.names {
            ip(&["netns", "add", name]);
            ip(&["-n", name, "link", "set", "lo", "up"]);
        }
        for (index, end) in [(1, "left"), (2, "right")] {
            let (middle, other) = (&star.names[MIDDLE], &star.names[index]);
            let (near, far) = (format!("to-{end}"), "uplink");
            ip(&["-n", middle, "link", "add", &near, "type", "veth", "peer", "name", far, "netns", other]);
            ip(&["-n", middle, "address", "add", &format!("{}/30", address(index, 1)), "dev", &near]);
            ip(&["-n", other, "address", "add", &format!("{}/30", address(index, 2)), "dev", far]);
            ip(&["-n", middle, "link", "set", &near, "up"]);
            ip(&["-n", other, "link", "set", far, "up"]);
        }
        star
    }

    fn server(&self, index: usize) -> Sshd {
        let options = SshdOptions {
            netns: Some(self.names[index].clone()),
            address: IpAddr::V4(address(index, 2)),
            path_dirs: vec![std::path::Path::new(HAKOBU).parent().unwrap().to_owned()],
            ..SshdOptions::default()
        };
        Sshd::start(&options).unwrap()
    }
}

impl Drop for Star {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

fn address(index: usize, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 214, index as u8, end)
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn hosts_that_do_not_reach_each_other_are_relayed_and_it_is_said() {
    if no_root() {
        return;
    }
    let star = Star::up();
    let place = place();
    let (left, right) = (star.server(1), star.server(2));
    // One ssh configuration knows both hosts under different names.
    let of = |server: &Sshd, name: &str| {
        fs::read_to_string(server.client_config()).unwrap().replace("Host throwaway", &format!("Host {name}"))
    };
    let config = place.path().join("ssh_config");
    fs::write(&config, of(&left, "left") + &of(&right, "right")).unwrap();
    let source = tree(&place.path().join("source"));
    file(&source.join("more"), 30_000_000);
    let target = place.path().join("target");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &star.names[MIDDLE], HAKOBU]);
    let began = Instant::now();
    let ran = Copy::by(command)
        .env("HAKOBU_SSH", format!("ssh -F {}", config.display()))
        .arg(format!("left:{}/", source.display()))
        .arg(format!("right:{}", target.display()))
        .run_to(0);
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_same(&source, &target);
    assert_eq!(ran.report["transport"], "agent, relayed");
    ran.says(&["neither host reaches the other", "the data passes through this machine, unread"]);
    let notice = ran.events.iter().find(|event| event["event"] == "notice").unwrap();
    assert!(notice["words"].as_str().unwrap().contains("from left to right at 10.214.2.2 port "), "{notice}");
    drop((left, right));
}
