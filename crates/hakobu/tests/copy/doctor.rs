//! `hakobu doctor` on this machine, and over links with wrong settings at their ends.

use std::process::{Command, Output};
use std::time::Duration;

use hakobu_measure::doctor::{Hardware, NetworkKernel};
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use serde_json::Value;

use crate::program::*;

/// Correct settings, to replace those of the machine that runs the tests.
const RIGHT: [(&str, &str); 7] = [
    ("ipv4/tcp_rmem", "4096 131072 6291456"),
    ("ipv4/tcp_wmem", "4096 16384 4194304"),
    ("ipv4/tcp_moderate_rcvbuf", "1"),
    ("ipv4/tcp_adv_win_scale", "1"),
    ("ipv4/tcp_window_scaling", "1"),
    ("ipv4/tcp_sack", "1"),
    ("ipv4/tcp_timestamps", "1"),
];

/// Creates a link of 1 Gbit/s with correct settings at both ends.
fn link(round_trip_ms: u64) -> Link {
    let settings = LinkSettings {
        rate_bits_per_second: Some(1_000_000_000),
        mtu: 9000,
        ..LinkSettings::with_rtt(Duration::from_millis(round_trip_ms))
    };
    let link = Link::up(settings).unwrap();
    RIGHT.iter().for_each(|(name, value)| set(&link, name, value));
    link
}

fn set(link: &Link, name: &str, value: &str) {
    for end in [link.near(), link.far()] {
        end.set_parameter(name, value).unwrap();
    }
}

fn doctor(mut command: Command, arguments: &[&str]) -> Output {
    command.arg("doctor").args(arguments).env("LC_ALL", "C").output().unwrap()
}

/// Returns the findings of the doctor about the network between the ends of a link.
#[track_caller]
fn found(link: &Link, host: &Host) -> (Value, Vec<Value>) {
    let mut command = link.near().command(HAKOBU);
    command.env("HAKOBU_SSH", host.sshd.ssh_command());
    let output = doctor(command, &["--json", "throwaway"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&all["schema"], &all["host"]), (&"hakobu.doctor/1".into(), &"throwaway".into()));
    assert!(!all["unread"].to_string().contains("was not measured"), "{all:#}");
    let findings = all["findings"].as_array().unwrap();
    let of_tcp = |finding: &&Value| finding["id"].as_str().unwrap().starts_with("tcp-");
    (all["way"].clone(), findings.iter().filter(of_tcp).cloned().collect())
}

/// Fails unless both ends have this finding, and it predicts the rate of this many bytes per round trip.
#[track_caller]
fn assert_predicts(way: &Value, findings: &[Value], id: &str, under_way_bytes: f64) {
    let mut hosts: Vec<_> = findings.iter().map(|finding| finding["host"].as_str()).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, [None, Some("throwaway")], "{findings:#?}");
    let wanted = under_way_bytes / way["round_trip_seconds"].as_f64().unwrap();
    for finding in findings {
        assert_eq!((&finding["id"], &finding["severity"]), (&id.into(), &"limits".into()));
        let one = &finding["expected"]["one_connection"];
        let before = one["before_bytes_per_second"].as_f64().unwrap();
        assert!((before / wanted - 1.0).abs() < 0.001, "{before} is not {wanted}: {finding:#}");
        assert!(one["after_bytes_per_second"].as_f64().unwrap() > before, "{finding:#}");
    }
}

#[test]
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_small_receive_buffers_are_found_on_a_long_way() {
    if no_root() {
        return;
    }
    let link = link(100);
    let host = Host::behind(&link);
    // On a busy machine the round-trip time is measured too long, so the best of several runs counts.
    let looks = (0..3).map(|_| found(&link, &host));
    let (way, _) = looks.into_iter().find(|(_, findings)| findings.is_empty()).expect("a host that is right");
    assert_eq!((&way["lanes"], &way["measured"]), (&16.into(), &true.into()));
    set(&link, "ipv4/tcp_rmem", "4096 131072 1048576");
    // A busy machine may transfer less than the windows allow.
    let looks = (0..5).map(|_| found(&link, &host));
    let (way, findings) =
        looks.into_iter().find(|(_, findings)| !findings.is_empty()).expect("windows that are too small");
    assert!(way["round_trip_seconds"].as_f64().unwrap() >= 0.1, "{way}");
    assert_predicts(&way, &findings, "tcp-receive-buffer-small", 0.62 * 1_048_576.0);
    let command = "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 ";
    assert!(findings[0]["command"].as_str().unwrap().starts_with(command), "{findings:#?}");
    host.wait_for_no_agent();
}

#[test]
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_windows_without_scaling_are_found_on_a_way_of_4_ms() {
    if no_root() {
        return;
    }
    let link = link(4);
    set(&link, "ipv4/tcp_window_scaling", "0");
    let host = Host::behind(&link);
    let (way, findings) = found(&link, &host);
    assert_predicts(&way, &findings, "tcp-window-scaling-off", 65_535.0);
    // The capacity of the link was measured over more connections than a copy uses.
    let capacity = way["capacity_bytes_per_second"].as_u64();
    let after = findings[0]["expected"]["one_connection"]["after_bytes_per_second"].as_u64();
    assert!(capacity.is_none_or(|capacity| Some(capacity) >= after), "{way} {findings:#?}");
    // The measurement uses no file, so nothing is left however the doctor ends.
    let leftovers = std::fs::read_dir("/dev/shm").unwrap().flatten();
    let ours = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("hakobu-doctor.");
    assert_eq!(leftovers.map(|entry| entry.file_name()).find(ours), None);
}

/// Runs a command line, split at blanks, at the near end.
#[track_caller]
fn at_near(link: &Link, line: &str) {
    let mut words = line.split(' ');
    let status = link.near().command(words.next().unwrap()).args(words).status().unwrap();
    assert!(status.success(), "{line}");
}

/// The name of the network device at an end of a link.
const DEVICE: &str = "hakobu0";

#[test]
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_a_queue_that_holds_what_leaves_is_found_and_foretells_what_a_copy_gets() {
    if no_root() {
        return;
    }
    let link = link(1);
    let host = Host::behind(&link);
    at_near(&link, &format!("tc qdisc replace dev {DEVICE} root tbf rate 80mbit burst 64k limit 500k"));
    let mut command = link.near().command(HAKOBU);
    command.env("HAKOBU_SSH", host.sshd.ssh_command());
    let output = doctor(command, &["--json", "--lanes", "5", "throwaway"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["way"]["lanes"], 5, "{all:#}");
    let findings = all["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["id"] == "queue-shapes").expect("a queue that holds");
    assert_eq!((&found["host"], &found["severity"]), (&Value::Null, &"limits".into()));
    let change = &found["expected"]["hakobu"];
    let before = change["before_bytes_per_second"].as_f64().unwrap();
    assert!((9.5e6..10e6).contains(&before), "{found:#}");
    // Neither end knows the speed of its device.
    assert_eq!(change["after_bytes_per_second"], Value::Null);
    assert_eq!(found["command"], format!("tc qdisc del dev {DEVICE} root"));
    at_near(&link, found["command"].as_str().unwrap());
}

#[test]
fn the_kernel_is_asked_for_the_way_out_and_for_what_waits_there() {
    if no_root() {
        return;
    }
    let link = Link::up(LinkSettings::with_rtt(Duration::ZERO)).unwrap();
    for line in [
        "ip link add west type veth peer name west-peer",
        "ip link add east type veth peer name east-peer",
        "ip address add 10.77.0.1/24 dev west",
        "ip address add 10.78.0.1/24 dev east",
        "ip link set west up",
        "ip link set west-peer up",
        "ip link set east up",
        "ip link set east-peer up",
        "ip route add default via 10.77.0.2",
        // Routes by the target, and by the source address, which a connection has only after the route was chosen.
        "ip rule add to 203.0.113.0/24 lookup 77",
        "ip route add default via 10.78.0.2 table 77",
        "ip rule add from 10.77.0.1 to 192.0.2.128/25 lookup 78",
        "ip route add 192.0.2.0/24 dev east table 78",
        "tc qdisc add dev west root handle 1: htb default 10",
        "tc class add dev west parent 1: classid 1:10 htb rate 1mbit ceil 80mbit",
        "tc qdisc add dev west parent 1:10 pfifo limit 7",
        "tc qdisc add dev east root tbf rate 40gbit burst 1m limit 1m",
    ] {
        at_near(&link, line);
    }
    let (ways, queues) = link
        .near()
        .run(|| {
            let way = |address: &str| {
                let way = NetworkKernel.way_out(address.parse().unwrap()).unwrap();
                (way.device.shown(), way.routed)
            };
            let ways = ["192.0.2.1", "203.0.113.5", "192.0.2.200", "10.78.0.9"].map(way);
            (
                ways,
                [NetworkKernel.queues("west"), NetworkKernel.queues("east"), NetworkKernel.queues("no-such")],
            )
        })
        .unwrap();
    let wanted = [("west", true), ("east", true), ("east", false), ("east", false)];
    assert_eq!(ways, wanted.map(|(device, routed)| (device.to_owned(), routed)));
    let [of_a, of_c, of_none] = queues;
    let htb = of_a.iter().find(|queue| queue.is_root).unwrap();
    assert_eq!((htb.kind.shown(), htb.bytes_per_second), ("htb".to_owned(), Some(10_000_000)));
    let pfifo = of_a.iter().find(|queue| !queue.is_root).unwrap();
    assert_eq!((pfifo.kind.shown(), pfifo.packets_max), ("pfifo".to_owned(), Some(7)));
    // The value exceeds 32 bits.
    assert_eq!(of_c[0].bytes_per_second, Some(5_000_000_000));
    assert_eq!(of_none, []);
}

#[test]
fn what_only_root_may_read_is_named_and_the_rest_is_judged() {
    if no_root() {
        return;
    }
    let place = place();
    let (program, secret) = (place.path().join("hakobu"), place.path().join("secret"));
    install(HAKOBU, &program);
    std::fs::write(&secret, "MaxStartups 1\n").unwrap();
    // The test has a namespace of its own, so that the machine's ssh server is left alone.
    let doctor_of_nobody = |mode: &str| {
        let script = format!(
            "mount --bind {secret} /etc/ssh/sshd_config && chmod {mode} {secret} && \
             exec setpriv --reuid=65534 --regid=65534 --clear-groups {program} \"$@\"",
            secret = secret.display(),
            program = program.display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh"]);
        let output = doctor(command, &[]);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{out}{err}");
        out.into_owned()
    };
    let out = doctor_of_nobody("600");
    let words = "not read:\n  this machine: /etc/ssh/sshd_config: this login may not read it (root may)\n";
    assert!(out.contains(words) && !out.contains("MaxStartups"), "{out}");
    // Only root can read the host keys, but everybody can read the configuration.
    let out = doctor_of_nobody("644");
    assert!(out.contains("sshd has MaxStartups 1:30:1") && !out.contains("sshd_config: "), "{out}");
}

#[test]
fn a_host_that_cannot_be_reached_is_an_error() {
    let output = doctor(Command::new(HAKOBU), &["-e", "false", "nowhere"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("starting the agent on nowhere"));
}
