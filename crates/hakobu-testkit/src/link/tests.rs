//! Tests with real links. They require root and fail without it, unless `HAKOBU_NO_ROOT=1` says that root is not
//! available.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::tcp_congestion;

use super::{Link, LinkError, LinkSettings, Namespace};

/// Returns true if this run does without root, as the environment says.
fn without_root() -> bool {
    if std::env::var_os("HAKOBU_NO_ROOT").is_some_and(|value| value == "1") {
        eprintln!("not run: HAKOBU_NO_ROOT=1, and an emulated link takes root");
        return true;
    }
    false
}

fn ping(from: &Namespace, to: &Namespace, count: u32) -> Output {
    let address = to.address().to_string();
    from.command("ping")
        .args(["-n", "-i", "0.05", "-W", "1", "-c", &count.to_string()])
        .arg(address)
        .output()
        .expect("ping (iputils) is installed")
}

/// Returns the round-trip times of the answers, in milliseconds.
fn times_ms(output: &Output) -> Vec<f64> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| line.split_once("time=")?.1.split(' ').next()?.parse().ok()).collect()
}

fn path_of(namespace: &Namespace) -> PathBuf {
    Path::new("/run/netns").join(namespace.name())
}

#[test]
fn ping_takes_at_least_the_delay() {
    if without_root() {
        return;
    }
    let link = Link::up(LinkSettings::with_rtt(Duration::from_millis(60))).unwrap();
    let output = ping(link.near(), link.far(), 3);
    assert!(output.status.success(), "{output:?}");
    let times = times_ms(&output);
    assert_eq!(times.len(), 3, "{output:?}");
    // `ping` uses its own clock and rounds to three digits.
    assert!(times.iter().all(|time| *time >= 59.9), "{times:?}");
    // A packet is counted a moment after it was forwarded, and `ping` may have ended by then.
    let counted = |link: &Link| {
        let counters = link.counters();
        counters.near_to_far.forwarded_packets.min(counters.far_to_near.forwarded_packets)
    };
    let deadline = Instant::now() + Duration::from_secs(5);
    while counted(&link) < 3 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(counted(&link) >= 3);
}

#[test]
fn full_loss_and_cuts_stop_packets() {
    if without_root() {
        return;
    }
    let quick = LinkSettings::default();
    let link = Link::up(quick).unwrap();
    let answers = || times_ms(&ping(link.near(), link.far(), 2)).len();
    assert_eq!(answers(), 2);

    link.cut();
    assert_eq!(answers(), 0);
    assert_eq!(link.counters().near_to_far.cut_packets, 2);
    link.mend();
    assert_eq!(answers(), 2);

    let lossy = LinkSettings { loss: 1.0, ..quick };
    link.change(lossy).unwrap();
    assert_eq!(answers(), 0);
    assert_eq!(link.counters().near_to_far.lost_packets, 2);
    link.change(quick).unwrap();
    assert_eq!(answers(), 2);

    let other = LinkSettings { mtu: 9000, ..quick };
    assert!(matches!(link.change(other), Err(LinkError::Settings(_))));
}

/// Opens a connection from the near to the far end, and returns both of its ends.
fn connect(link: &Link) -> (TcpStream, TcpStream) {
    let address = (link.far().address(), 0);
    let listener = link.far().run(|| TcpListener::bind(address)).unwrap().unwrap();
    let target = listener.local_addr().unwrap();
    let near = link.near().run(|| TcpStream::connect(target)).unwrap().unwrap();
    (near, listener.accept().unwrap().0)
}

/// Sends `data` from the near to the far end, and returns what arrives there.
fn through_tcp(link: &Link, data: &[u8]) -> Vec<u8> {
    let (mut near, mut far) = connect(link);
    thread::scope(|scope| {
        scope.spawn(move || near.write_all(data).unwrap());
        let mut arrived = Vec::new();
        far.read_to_end(&mut arrived).unwrap();
        arrived
    })
}

#[test]
fn bytes_pass_intact() {
    if without_root() {
        return;
    }
    let data: Vec<u8> =
        (0..8_000_000_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let shaped = LinkSettings {
        rate_bits_per_second: Some(200_000_000),
        loss: 0.002,
        queue_bytes: Some(200_000),
        ..LinkSettings::with_rtt(Duration::from_millis(10))
    };
    let free = LinkSettings { mtu: 9000, ..LinkSettings::default() };
    for settings in [shaped, free] {
        let link = Link::up(settings).unwrap();
        assert!(through_tcp(&link, &data) == data, "damaged: {settings:?}");
        let counters = link.counters();
        assert!(counters.near_to_far.forwarded_bytes >= 8_000_000);
        assert_eq!(counters.near_to_far.refused_packets, 0, "{counters:?}");
        assert_eq!(counters.near_to_far.lost_packets > 0, settings.loss > 0.0);
    }
}

/// Only a lower bound of the time is tested: the queue delays a burst, and never lets it pass early.
#[test]
fn the_rate_is_not_exceeded() {
    if without_root() {
        return;
    }
    let link =
        Link::up(LinkSettings { rate_bits_per_second: Some(40_000_000), ..LinkSettings::default() }).unwrap();
    let data = vec![7; 1_000_000]; // 200 ms
    let start = std::time::Instant::now();
    assert_eq!(through_tcp(&link, &data).len(), data.len());
    let passed = start.elapsed();
    assert!(passed >= Duration::from_millis(200), "{passed:?}");
}

/// Only a lower bound of the time is tested: no more data can have been sent by then.
#[test]
fn each_connection_is_held_to_its_rate_in_both_directions() {
    if without_root() {
        return;
    }
    let link = Link::up(LinkSettings {
        connection_rate_bits_per_second: Some(20_000_000),
        ..LinkSettings::with_rtt(Duration::from_millis(4))
    })
    .unwrap();
    let data = vec![7; 1_000_000]; // 400 ms
    let least = Duration::from_millis(400);
    let times: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> = (0..4)
            .map(|number| {
                let (near, far) = connect(&link);
                let (mut from, mut to) = if number % 2 == 0 { (near, far) } else { (far, near) };
                let data = &data;
                let start = Instant::now();
                scope.spawn(move || from.write_all(data).unwrap());
                scope.spawn(move || {
                    let mut arrived = Vec::new();
                    to.read_to_end(&mut arrived).unwrap();
                    assert!(arrived == *data, "damaged");
                    start.elapsed()
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert!(times.iter().all(|time| *time >= least), "{times:?}");
    let counters = link.counters();
    assert!(counters.near_to_far.forwarded_bytes >= 2_000_000, "{counters:?}");
    assert!(counters.far_to_near.forwarded_bytes >= 2_000_000, "{counters:?}");
}

/// At the lowest rate a packet would take half a second.
#[test]
fn what_is_no_connection_is_not_held_to_its_rate() {
    if without_root() {
        return;
    }
    let slow = LinkSettings {
        connection_rate_bits_per_second: Some(1000),
        ..LinkSettings::with_rtt(Duration::from_millis(4))
    };
    let link = Link::up(slow).unwrap();
    let pings = ping(link.near(), link.far(), 20);
    assert_eq!(times_ms(&pings).len(), 20, "{pings:?}");
    // The rate limit of connections can be removed.
    link.change(LinkSettings { connection_rate_bits_per_second: None, ..slow }).unwrap();
    assert_eq!(through_tcp(&link, &[7; 100_000]).len(), 100_000);
}

#[test]
fn two_links_at_once_are_apart() {
    if without_root() {
        return;
    }
    let one = Link::up(LinkSettings::default()).unwrap();
    let two = Link::up(LinkSettings::default()).unwrap();
    assert_ne!(one.near().name(), two.near().name());
    assert_ne!(one.near().address(), two.near().address());
    one.cut();
    assert!(!ping(one.near(), one.far(), 1).status.success());
    assert!(ping(two.near(), two.far(), 1).status.success());
    let loopback = two.far().command("ping").args(["-c", "1", "127.0.0.1"]).output();
    assert!(loopback.unwrap().status.success());
}

#[test]
fn congestion_control_is_set_for_one_end() {
    if without_root() {
        return;
    }
    let link = Link::up(LinkSettings::default()).unwrap();
    let used = |stream: &TcpStream| tcp_congestion(stream).unwrap();
    let (near, far) = connect(&link);
    let given = used(&near);
    let other = if given == "reno" { "cubic" } else { "reno" };
    assert_eq!(used(&far), given);

    // The accepting end, which has no other influence on the connection.
    link.far().set_congestion_control(other).unwrap();
    let (near, far) = connect(&link);
    assert_eq!((used(&near), used(&far)), (given, other.to_owned()));
    let missing = link.near().set_congestion_control("no-such");
    assert!(matches!(missing, Err(LinkError::Tool { .. })), "{missing:?}");
}

#[test]
fn parameters_are_set_for_one_end() {
    if without_root() {
        return;
    }
    let parameter = "ipv4/tcp_wmem";
    let link = Link::up(LinkSettings::default()).unwrap();
    let read = |namespace: &Namespace| {
        let path = format!("/proc/sys/net/{parameter}");
        let output = namespace.command("cat").arg(path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let value = "4096 17000 5000000";
    link.near().set_parameter(parameter, value).unwrap();
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(read(link.near())), value);
    assert_ne!(words(read(link.far())), value);
    assert!(link.near().set_parameter("ipv4/no_such", "1").is_err());
}

#[test]
fn nothing_is_left_after_drop() {
    if without_root() {
        return;
    }
    let link = Link::up(LinkSettings::default()).unwrap();
    let paths = [path_of(link.near()), path_of(link.far())];
    assert!(paths.iter().all(|path| path.exists()));
    let mut left = link.far().command("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
    // It runs inside the namespace once `ip` has become `sleep`.
    let image = format!("/proc/{}/comm", left.id());
    while std::fs::read_to_string(&image).unwrap().trim() != "sleep" {
        thread::yield_now();
    }
    drop(link);
    assert!(!paths.iter().any(|path| path.exists()));
    assert!(!left.wait().unwrap().success(), "the process inside was ended");
}

#[test]
fn nothing_is_left_after_a_panic() {
    if without_root() {
        return;
    }
    let mut paths = Vec::new();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let link = Link::up(LinkSettings::with_rtt(Duration::from_millis(20))).unwrap();
        paths = vec![path_of(link.near()), path_of(link.far())];
        assert!(paths.iter().all(|path| path.exists()));
        panic!("on purpose");
    }));
    assert!(result.is_err());
    assert_eq!(paths.len(), 2);
    assert!(!paths.iter().any(|path| path.exists()));
}

/// Process IDs are below 2^22, so no process has this one.
#[test]
fn namespaces_of_the_dead_are_swept() {
    if without_root() {
        return;
    }
    let stale = "hakobu-4194999-0-near";
    let add = std::process::Command::new("ip").args(["netns", "add", stale]).status();
    assert!(add.expect("ip is installed").success());
    let _link = Link::up(LinkSettings::default()).unwrap();
    assert!(!Path::new("/run/netns").join(stale).exists());
}
