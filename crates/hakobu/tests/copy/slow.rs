//! File systems on which each operation takes a while, as they do when they are mounted over a network.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hakobu_testkit::slow_fs::SlowFs;
use hakobu_testkit::sshd::no_root;

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
