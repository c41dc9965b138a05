//! hakobu tries other numbers of lanes during a run, unless the user fixed it.

use std::time::Duration;

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;

use crate::program::{Copy, Host, Ran, file, place};

/// Creates a link that gives each connection the same small share, so that more of them carry more.
fn shared_line() -> Link {
    Link::up(LinkSettings {
        mtu: 9000,
        rate_bits_per_second: Some(400_000_000),
        connection_rate_bits_per_second: Some(12_000_000),
        ..LinkSettings::with_rtt(Duration::from_millis(2))
    })
    .unwrap()
}

fn is_tried(ran: &Ran) -> bool {
    ran.err.lines().any(|line| line.starts_with("why: lanes: ") && line.contains(" instead of 2: "))
}

#[test]
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_more_lanes_where_they_carry_more() {
    if no_root() {
        return;
    }
    for pull in [false, true] {
        let (link, place) = (shared_line(), place());
        let host = Host::behind(&link);
        let source = file(&place.path().join("source"), 40_000_000);
        let (far, target) = (place.path().join("far"), place.path().join("target"));
        let copy = Copy::across(&link).to(&host).args(["--why", "--lanes", "auto"]);
        let ran = match pull {
            false => copy.arg(&source).arg(host.at(&target)).run_to(0),
            true => {
                std::fs::rename(&source, &far).unwrap();
                copy.arg(host.at(&far)).arg(&target).run_to(0)
            }
        };
        assert!(is_tried(&ran), "{}", ran.err);
        assert!(ran.report["lanes_max"].as_u64().is_some_and(|lanes| lanes > 2), "{}", ran.report);
        assert_eq!(std::fs::metadata(&target).unwrap().len(), 40_000_000);
    }
}

#[test]
fn as_many_lanes_as_were_asked_for() {
    if no_root() {
        return;
    }
    let (link, place) = (shared_line(), place());
    let host = Host::behind(&link);
    let source = file(&place.path().join("source"), 15_000_000);
    let copy = Copy::across(&link).to(&host).args(["--why", "--lanes", "2"]);
    let ran = copy.arg(&source).arg(host.at(place.path().join("target"))).run_to(0);
    assert!(!is_tried(&ran) && ran.report["lanes_max"] == 2, "{}", ran.err);
}
