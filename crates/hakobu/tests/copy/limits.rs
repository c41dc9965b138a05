//! What limits a run is named rightly, one thing being made slow at a time.

use std::time::Duration;

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use hakobu_testkit::throttle::Throttle;

use crate::program::{Copy, HAKOBU, Host, Ran, file, place};

/// The verdict, with everything that it goes by.
fn limit(ran: &Ran) -> (String, String) {
    let found = &ran.report["bottleneck"];
    (found["stage"].as_str().unwrap_or_default().to_owned(), found.to_string())
}

fn long_line(rate_bits_per_second: u64) -> Link {
    let settings = LinkSettings { mtu: 9000, ..LinkSettings::with_rtt(Duration::from_millis(20)) };
    Link::up(LinkSettings { rate_bits_per_second: Some(rate_bits_per_second), ..settings }).unwrap()
}

#[test]
fn a_slow_line() {
    if no_root() {
        return;
    }
    let (link, place) = (long_line(100_000_000), place());
    let host = Host::behind(&link);
    let source = file(&place.path().join("source"), 30_000_000);
    let ran = Copy::across(&link).to(&host).arg(&source).arg(host.at(place.path().join("target"))).run_to(0);
    let (limit, why) = limit(&ran);
    assert_eq!(limit, "network", "{why}");
    ran.says(&["limited by: network ("]);
}

#[test]
fn a_window_that_is_too_small_for_the_way() {
    if no_root() {
        return;
    }
    let (link, place) = (long_line(1_000_000_000), place());
    link.far().set_parameter("ipv4/tcp_rmem", "4096 16384 65536").unwrap();
    let host = Host::behind(&link);
    let source = file(&place.path().join("source"), 40_000_000);
    let ran = Copy::across(&link).to(&host).arg(&source).arg(host.at(place.path().join("target"))).run_to(0);
    let (limit, why) = limit(&ran);
    assert_eq!(limit, "target's receive window", "{why}");
}

#[test]
fn processors_that_have_no_time() {
    if no_root() {
        return;
    }
    for (at_source, expected) in [(true, "source processor"), (false, "target processor")] {
        let (place, host) = (place(), Host::up());
        let source = file(&place.path().join("source"), 200_000_000);
        let throttle = Throttle::processor(20).unwrap();
        let copy = match at_source {
            true => Copy::by(throttle.command(HAKOBU)),
            false => Copy::new(),
        };
        if !at_source {
            throttle.add(host.sshd.id()).unwrap();
        }
        let ran = copy.to(&host).arg(&source).arg(host.at(place.path().join("target"))).run_to(0);
        let (limit, why) = limit(&ran);
        assert_eq!(limit, expected, "{why}");
    }
}
