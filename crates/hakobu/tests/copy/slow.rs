//! File systems on which each operation takes a while, as they do when they are mounted over a network.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::slow_fs::SlowFs;
use hakobu_testkit::sshd::no_root;
use hakobu_testkit::sshfs::Sshfs;

use crate::program::*;

/// A directory, and a slow view of it.
struct Slow {
    backing: PathBuf,
    at: PathBuf,
    _mounted: SlowFs,
}

impl Slow {
    fn new(place: &std::path::Path, name: &str) -> Self {
        let (backing, at) = (place.join(name), place.join(format!("{name} from afar")));
        fs::create_dir(&backing).unwrap();
        fs::create_dir(&at).unwrap();
        let mounted = SlowFs::mount(&at, &backing, Duration::from_micros(200)).unwrap();
        Self { backing, at, _mounted: mounted }
    }
}

#[test]
fn trees_come_from_there_and_go_there() {
    if no_root() {
        return;
    }
    let place = place();
    let (source, target) = (Slow::new(place.path(), "source"), Slow::new(place.path(), "target"));
    fs::remove_dir(&source.backing).unwrap();
    tree(&source.backing);
    let typed = [contents(&source.at), target.at.clone().into()];
    let ran = Copy::new().options("--why").args(&typed).run_to(0);
    ran.says(&["why: lanes: 32: an end is on a network file system"]);
    assert_same(&source.backing, &target.backing);
    // The second run finds nothing to do, and a third removes what the source has no more.
    let again = Copy::sync().args(&typed).run_to(0);
    assert_eq!((again.entries("created"), again.entries("updated")), (0, 0), "{:#}", again.report);
    file(&target.backing.join("surplus"), 10);
    file(&source.backing.join("larger"), 9 << 20);
    let ran = Copy::sync().options("--delete").args(&typed).run_to(0);
    assert_eq!((ran.entries("deleted"), ran.entries("created")), (1, 1), "{:#}", ran.report);
    assert_same(&source.backing, &target.backing);
    Copy::verify().args(&typed).run_to(0);
}

/// A place for a server's directory and one to mount it at.
fn two_places(place: &std::path::Path) -> (PathBuf, PathBuf) {
    let (there, here) = (place.join("there"), place.join("here"));
    fs::create_dir(&there).unwrap();
    fs::create_dir(&here).unwrap();
    (there, here)
}

fn far_away(rtt_ms: u64, rate_bits_per_second: u64) -> Link {
    let settings = LinkSettings { mtu: 9000, ..LinkSettings::with_rtt(Duration::from_millis(rtt_ms)) };
    Link::up(LinkSettings { rate_bits_per_second: Some(rate_bits_per_second), ..settings }).unwrap()
}

#[test]
fn a_file_server_that_answers_late_is_what_limits() {
    if no_root() {
        return;
    }
    let (link, place) = (far_away(40, 1_000_000_000), place());
    let server = Host::behind(&link);
    let (there, here) = two_places(place.path());
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    for index in 0..8 {
        file(&source.join(index.to_string()), 3000 + index);
    }
    let _mounted = Sshfs::mount(&here, &server.sshd, &there, Some(link.near().name())).unwrap();
    let agent = Host::up();
    // To it: from here, and through an agent on a machine that has mounted it. Then from it.
    let to = Copy::new().options("--why").arg(contents(&source)).arg(here.join("tree"));
    let beyond =
        Copy::new().options("--why").to(&agent).arg(contents(&source)).arg(agent.at(here.join("beyond")));
    let from = Copy::new().options("--why").arg(contents(here.join("tree"))).arg(place.path().join("back"));
    for (copy, end) in [(to, "target"), (beyond, "target"), (from, "source")] {
        let ran = copy.run_to(0);
        let limit = &ran.report["bottleneck"];
        assert_eq!(limit["stage"], format!("latency of the {end}'s file server"), "{limit:#}");
        ran.says(&[&format!("limited by: latency of the {end}'s file server ("), " for each operation, "]);
        ran.says(&["why: lanes: 32: an end is on a network file system"]);
        // The link lets nothing come sooner.
        let milliseconds = |what: &str| limit["file_server"][what].as_f64().unwrap_or_default();
        assert!(milliseconds("answer_ms") >= 40.0 && milliseconds("operation_ms") >= 40.0, "{limit:#}");
    }
    // sshfs keeps no fractions of seconds.
    for index in 0..8 {
        let content = |tree: &std::path::Path| fs::read(tree.join(index.to_string())).unwrap();
        for copy in [there.join("tree"), there.join("beyond"), place.path().join("back")] {
            assert!(content(&source) == content(&copy), "{}/{index}", copy.display());
        }
    }
}

/// The same server, which answers soon, over a line that carries little.
#[test]
fn a_file_server_that_carries_little_is_told_from_that() {
    if no_root() {
        return;
    }
    let (link, place) = (far_away(1, 50_000_000), place());
    let server = Host::behind(&link);
    let (there, here) = two_places(place.path());
    let source = file(&there.join("large"), 16_000_000);
    let _mounted = Sshfs::mount(&here, &server.sshd, &there, Some(link.near().name())).unwrap();
    let ran = Copy::new().arg(here.join("large")).arg(place.path().join("copy")).run_to(0);
    let limit = &ran.report["bottleneck"];
    assert_eq!((&limit["stage"], &limit["file_server"]), (&"source read".into(), &serde_json::Value::Null));
    assert!(fs::read(source).unwrap() == fs::read(place.path().join("copy")).unwrap());
}
