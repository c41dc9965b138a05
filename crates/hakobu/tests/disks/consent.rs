//! The consent of the user: the question on a terminal, and a path that changes meanwhile.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::bench::*;
use crate::program::*;

/// Runs a copy on a terminal, types `typed`, and returns the exit code and the output.
fn typed_at_terminal(host: &Host, arguments: &[&OsStr], typed: &str) -> (Option<i32>, String) {
    let mut child = terminal(host, HAKOBU, arguments).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{typed}").unwrap();
    let output = child.wait_with_output().unwrap();
    drop(input);
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_id_that_is_typed_decides() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let image = place.path().join("disk.img");
    fs::write(&image, content(5 * MIB, 1)).unwrap();
    let target = Disk::full_of(place.path(), "disk", 0xaa, 6 * MIB, 512);
    make_file_system("ext4", &target.path);
    let before = target.bytes();
    let id = target.id();
    for (typed, code) in [("yes", 6), ("", 6), (&id[..id.len() - 1], 6), (&id[..], 0)] {
        let to = if code == 0 { host.at(&target.path) } else { target.as_typed() };
        let arguments: [&OsStr; 2] = [image.as_os_str(), &to];
        let (ended, shown) = typed_at_terminal(&host, &arguments, typed);
        assert_eq!(ended, Some(code), "{typed:?} {shown}");
        for words in ["will be overwritten:", &id, "holds ext4", "type its ID to go on: "] {
            assert!(shown.contains(words), "{typed:?} {words} {shown}");
        }
        if code == 6 {
            assert!(shown.contains("that is not the ID of the disk; nothing was written"), "{shown}");
            assert_bytes(&target.bytes(), &before);
        }
    }
    assert_bytes(&target.bytes()[..5 * MIB as usize], &content(5 * MIB, 1));
}

#[test]
fn a_dry_run_only_says_what_would_be_asked() {
    if no_root() {
        return;
    }
    let place = place();
    let image = place.path().join("disk.img");
    fs::write(&image, content(5 * MIB, 1)).unwrap();
    let target = Disk::full_of(place.path(), "disk", 0xaa, 6 * MIB, 512);
    make_file_system("ext4", &target.path);
    let before = target.bytes();
    let ran = Copy::new().arg("-n").arg(&image).arg(&target.path).run_to(0);
    ran.says(&["will be overwritten", &target.id(), "holds ext4", "its ID is asked for"]);
    assert_bytes(&target.bytes(), &before);
    assert!(target.remembered().is_empty());
}

#[test]
fn of_several_pairs_all_that_is_refused_is_said_at_once() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let image = place.path().join("disk.img");
    fs::write(&image, content(5 * MIB, 1)).unwrap();
    let disk = |name: &str, mib: u64| Disk::full_of(place.path(), name, 0xaa, mib * MIB, 512);
    let [first, small, third, empty] =
        [disk("first", 6), disk("small", 4), disk("third", 6), disk("empty", 6)];
    [&first, &third].into_iter().for_each(|disk| make_file_system("ext4", &disk.path));
    let all = [&first, &small, &third, &empty];
    let before = all.map(Disk::bytes);
    let pairs = place.path().join("pairs");
    let write = |disks: &[&Disk]| {
        let line = |disk: &&Disk| format!("{} {}\n", image.display(), disk.path.display());
        fs::write(&pairs, disks.iter().map(line).collect::<String>()).unwrap();
    };
    let copy = || Copy::new().arg("--pairs").arg(&pairs);
    write(&all);
    copy().run_to(6).says(&["3 of 4 are refused:", "take a larger one", &first.id(), &third.id()]);
    let ran = copy().arg("--confirm").arg(first.id()).run_to(6);
    ran.says(&["2 of 4 are refused:", "take a larger one", &third.id()]);
    // After a "no", no further question is asked.
    let rest = [&first, &third, &empty];
    write(&rest);
    let arguments: [&OsStr; 2] = ["--pairs".as_ref(), pairs.as_os_str()];
    let (ended, shown) = typed_at_terminal(&host, &arguments, &format!("{}\nno", first.id()));
    assert_eq!(ended, Some(6), "{shown}");
    assert_eq!(shown.matches("type its ID to go on: ").count(), 2, "{shown}");
    for (disk, before) in all.iter().zip(&before) {
        assert_bytes(&disk.bytes(), before);
    }
    copy().arg("--confirm").arg(first.id()).arg("--confirm").arg(third.id()).run_to(0);
    for disk in rest {
        assert_bytes(&disk.bytes()[..5 * MIB as usize], &content(5 * MIB, 1));
    }
}

/// Two disks, and a link with a round-trip time so long that the target can be replaced between the inspection and
/// the first write.
struct Swap {
    place: tempfile::TempDir,
    // The fields are dropped in this order: the host's processes must end before their network is removed.
    host: Host,
    link: Link,
    agreed: Disk,
    other: Disk,
    image: PathBuf,
}

impl Swap {
    fn new() -> Self {
        let link = Link::up(LinkSettings { mtu: 9000, ..LinkSettings::with_rtt(Duration::from_millis(100)) });
        let (place, link) = (place(), link.unwrap());
        let host = Host::behind(&link);
        let agreed = Disk::full_of(place.path(), "agreed", 0xaa, 6 * MIB, 512);
        let other = Disk::full_of(place.path(), "other", 0xbb, 6 * MIB, 512);
        let image = place.path().join("disk.img");
        fs::write(&image, content(5 * MIB, 1)).unwrap();
        Self { place, host, link, agreed, other, image }
    }

    /// Pushes to a path, and calls `replace` as soon as the path was inspected.
    fn push(&self, copy: Copy, path: &Path, replace: impl FnOnce()) -> Ran {
        let running = copy.to(&self.host).arg(&self.image).arg(self.host.at(path)).start();
        let looked = || running.events().iter().any(|event| event["event"] == "started");
        wait_until("the target has been looked at", Duration::from_secs(30), looked);
        replace();
        running.end()
    }

    fn copy(&self) -> Copy {
        Copy::across(&self.link)
    }

    fn sync(&self) -> Copy {
        Copy::verb(self.link.near().command(HAKOBU), "sync")
    }
}

fn node(at: PathBuf, disk: &Disk) -> PathBuf {
    let number = disk.identity().number;
    let number = rustix::fs::makedev(number.major, number.minor);
    mknodat(CWD, &at, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, number).unwrap();
    at
}

#[test]
fn a_path_that_leads_elsewhere_meanwhile() {
    if no_root() {
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(a_node_becomes_another);
        scope.spawn(a_node_becomes_a_file);
        scope.spawn(a_link_leads_elsewhere);
        scope.spawn(an_image_becomes_a_link);
    });
}

fn a_node_becomes_another() {
    let swap = Swap::new();
    let path = node(swap.place.path().join("node"), &swap.agreed);
    let replacement = node(swap.place.path().join("replacement"), &swap.other);
    let ran = swap.push(swap.copy(), &path, || fs::rename(&replacement, &path).unwrap());
    assert_eq!(ran.code, Some(6), "{}", ran.err);
    ran.says(&["it is not the disk that was agreed on"]);
    assert!(swap.agreed.bytes().iter().all(|byte| *byte == 0xaa));
    assert!(swap.other.bytes().iter().all(|byte| *byte == 0xbb));
    assert!(swap.agreed.remembered().is_empty() && swap.other.remembered().is_empty());
}

fn a_node_becomes_a_file() {
    let swap = Swap::new();
    let path = node(swap.place.path().join("node"), &swap.agreed);
    let replacement = swap.place.path().join("replacement");
    fs::write(&replacement, "a file").unwrap();
    let ran = swap.push(swap.sync(), &path, || fs::rename(&replacement, &path).unwrap());
    assert_eq!(ran.code, Some(6), "{}", ran.err);
    ran.says(&["it is no block device any more"]);
    assert_eq!(fs::read(&path).unwrap(), b"a file");
    assert!(swap.agreed.bytes().iter().all(|byte| *byte == 0xaa));
}

/// The copy goes to the device to which the link led at the inspection.
fn a_link_leads_elsewhere() {
    let swap = Swap::new();
    let (path, replacement) = (swap.place.path().join("link"), swap.place.path().join("replacement"));
    std::os::unix::fs::symlink(&swap.agreed.path, &path).unwrap();
    std::os::unix::fs::symlink(&swap.other.path, &replacement).unwrap();
    let ran = swap.push(swap.copy(), &path, || fs::rename(&replacement, &path).unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_bytes(&swap.agreed.bytes()[..5 * MIB as usize], &content(5 * MIB, 1));
    assert!(swap.other.bytes().iter().all(|byte| *byte == 0xbb));
}

fn an_image_becomes_a_link() {
    let swap = Swap::new();
    let (path, replacement) = (swap.place.path().join("image"), swap.place.path().join("replacement"));
    for copy in [swap.sync(), swap.copy()] {
        fs::write(&path, content(5 * MIB, 2)).unwrap();
        std::os::unix::fs::symlink(&swap.other.path, &replacement).unwrap();
        let ran = swap.push(copy, &path, || fs::rename(&replacement, &path).unwrap());
        // `sync` would write in place and refuses the link; `copy` replaces it by a file.
        if ran.code == Some(0) {
            assert_bytes(&fs::read(&path).unwrap(), &content(5 * MIB, 1));
            assert!(fs::symlink_metadata(&path).unwrap().is_file());
        } else {
            assert_eq!(ran.code, Some(1), "{}", ran.err);
            ran.says(&["a symbolic link is in the way"]);
        }
        assert!(swap.other.bytes().iter().all(|byte| *byte == 0xbb));
        let _ = fs::remove_file(&path);
    }
    assert!(drafts(swap.place.path()).is_empty());
}
