//! Extended attributes, times and hard links at the limits of file systems. Everything that can be preserved is,
//! losses are reported in every run, and unreadable attributes are never taken for missing ones.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hakobu_testkit::sshd::no_root;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, setxattr, utimensat};

use crate::program::*;

/// A file system in a file, made with options and mounted.
pub struct Disk {
    place: tempfile::TempDir,
    device: Option<String>,
}

impl Disk {
    pub fn new(make: &[&str]) -> Self {
        let place = place();
        let (image, at) = (place.path().join("image"), place.path().join("at"));
        fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
        fs::create_dir(&at).unwrap();
        let mut mkfs = Command::new(make[0]);
        mkfs.args(&make[1..]).arg(&image).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(mkfs.status().unwrap().success(), "{make:?}");
        let mut disk = Self { place, device: None };
        let program = match make[0] {
            "mkfs.ntfs" => "ntfs-3g",
            "mkfs.exfat" => "mount.exfat-fuse",
            _ => {
                let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at).status();
                assert!(mounted.unwrap().success(), "mounting {make:?}");
                return disk;
            }
        };
        let device = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().unwrap();
        let device = String::from_utf8(device.stdout).unwrap().trim().to_owned();
        let mut mount = Command::new(program);
        if program == "ntfs-3g" {
            mount.args(["-o", "permissions"]);
        }
        let mounted = mount.arg(&device).arg(&at).stderr(Stdio::null()).stdout(Stdio::null()).status();
        disk.device = Some(device);
        assert!(mounted.unwrap().success(), "mounting by {program}");
        disk
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.place.path().join("at").join(name)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.at("")).status();
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").arg("-d").arg(device).status();
        }
    }
}

fn set(path: &Path, name: &str, value: &[u8]) {
    setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn access_list(path: &Path, of: &str) {
    assert!(Command::new("setfacl").args(["-m", of]).arg(path).status().unwrap().success());
}

/// Returns the attributes and modes below a directory, as the usual tools print them.
fn attributes(of: &Path) -> String {
    let script = "cd \"$1\" && find . -printf '%y %m %p\\n' | sort && find . -print0 | sort -z | \
                  xargs -0 getfattr -h -d -m - -e hex -- 2>&1 | grep -v SGI_ACL_";
    let told = Command::new("bash").args(["-c", script, "-"]).arg(of).output().unwrap();
    String::from_utf8(told.stdout).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn stamp(path: &Path, tv_sec: i64, tv_nsec: i64) {
    let time = Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Returns the counts of changes of a run.
fn changed(ran: &Ran) -> [u64; 3] {
    ["created", "updated", "failed"].map(|what| ran.entries(what))
}

#[test]
fn many_large_attributes_are_kept_and_their_access_list_with_them() {
    if no_root() {
        return;
    }
    let (disk, host) = (Disk::new(&["mkfs.xfs", "-q"]), Host::up());
    let source = disk.at("source");
    fs::create_dir(&source).unwrap();
    for (name, bytes) in [("small", 5), ("beside", 100_000), ("large", 400_000)] {
        let path = file(&source.join(name), bytes);
        (0..4).for_each(|index| set(&path, &format!("user.stream{index}"), &[b'y'; 40_000]));
        access_list(&path, "u:777:r,g::---");
    }
    set(&file(&source.join("most"), 9), "user.one", &[1; 65_536]);
    (0..45).for_each(|index| set(&source.join("most"), &format!("user.{index:03}"), &[2; 65_536]));
    (0..4).for_each(|index| set(&source, &format!("user.top{index}"), &[b'z'; 60_000]));
    set(&source.join("small"), &format!("user.{}", "n".repeat(250)), b"");
    for (index, (from, to)) in [(false, false), (false, true), (true, false)].into_iter().enumerate() {
        let target = disk.at(&format!("target{index}"));
        let typed = |path: &Path, far: bool| if far { host.at(path) } else { OsString::from(path) };
        let ends = [contents(typed(&source, from)), typed(&target, to)];
        let ran = Copy::new().to(&host).options("--require acl,xattr").args(&ends).run_to(0);
        assert_eq!(changed(&ran), [5, 0, 0], "{:#}", ran.report);
        assert_eq!(attributes(&source), attributes(&target), "{from} {to}");
        let again = Copy::sync().to(&host).args(&ends).run_to(0);
        assert_eq!((changed(&again), again.entries("attributes_only")), ([0; 3], 0));
        Copy::verify().to(&host).args(&ends).run_to(0);
        // A change of a single attribute is detected.
        set(&target.join("most"), "user.044", &[3; 65_536]);
        assert_eq!(Copy::verify().to(&host).args(&ends).run_to(4).entries("different"), 1);
    }
    host.wait_for_no_agent();
}

#[test]
fn attributes_that_cannot_be_listed_fail_and_nothing_is_taken_away() {
    if no_root() {
        return;
    }
    let (disk, host) = (Disk::new(&["mkfs.xfs", "-q"]), Host::up());
    let source = disk.at("source");
    fs::create_dir_all(source.join("dir")).unwrap();
    file(&source.join("dir/in it"), 10);
    for name in ["small", "large"] {
        let path = file(&source.join(name), if name == "small" { 10 } else { 400_000 });
        access_list(&path, "u:1234:rw");
        set(&path, "user.important", b"precious");
    }
    let target = disk.at("target");
    let ends = [contents(&source), target.clone().into()];
    Copy::new().args(&ends).run_to(0);
    let before = attributes(&target);
    // The names exceed 64 KiB, so the kernel does not list them.
    for name in ["small", "large", "dir"] {
        (0..300).for_each(|index| set(&source.join(name), &format!("user.{}{index}", "n".repeat(240)), b"x"));
    }
    for far in [false, true] {
        let ends =
            [contents(if far { host.at(&source) } else { source.clone().into() }), target.clone().into()];
        for copy in [Copy::new(), Copy::sync(), Copy::new().options("--require xattr,acl"), Copy::verify()] {
            let ran = copy.to(&host).args(&ends).run_to(3);
            let failures = ran.failures();
            let failed: Vec<_> = failures.iter().map(|(path, _)| path.as_str()).collect();
            assert!(["small", "large", "dir"].iter().all(|name| failed.contains(name)), "{failures:?}");
            assert!(failures.iter().all(|(_, error)| error.contains("64 KiB")), "{failures:?}");
            assert_eq!(attributes(&target), before);
        }
    }
    // A new file that cannot have its attributes is not created; the entries in a directory are.
    let new = disk.at("new");
    Copy::new().args([contents(&source), new.clone().into()]).run_to(3);
    assert!(!new.join("small").exists() && !new.join("large").exists() && new.join("dir/in it").exists());
    assert_eq!(mode(&new.join("dir")) & 0o077, 0, "it stays closed");
    // If the target has attributes that cannot be listed, none is removed.
    let back = [contents(&target), source.clone().into()];
    Copy::sync().args(&back).run_to(3);
    Copy::verify().args(&back).run_to(3);
    let kept = Command::new("getfattr").args(["-n", "user.important"]).arg(source.join("small")).output();
    assert!(kept.unwrap().status.success());
    // Without extended attributes everything else is copied.
    let plain = disk.at("plain");
    Copy::new().options("--preserve no-xattr,no-acl").args([contents(&source), plain.into()]).run_to(0);
    host.wait_for_no_agent();
}

#[test]
fn what_an_inode_has_no_room_for_is_told_in_every_run() {
    if no_root() {
        return;
    }
    let (from, to) = (Disk::new(&["mkfs.xfs", "-q"]), Disk::new(&["mkfs.ext4", "-q"]));
    let (source, target) = (from.at("source"), to.at("target"));
    fs::create_dir(&source).unwrap();
    for (name, bytes) in [("small", 10), ("large", 400_000)] {
        let path = file(&source.join(name), bytes);
        set(&path, "user.long", &[7; 60_000]);
        set(&path, "user.short", b"x");
        access_list(&path, "u:1234:rw");
    }
    let ends = [contents(&source), target.clone().into()];
    for run in 0..3 {
        let ran = Copy::new().args(&ends).run_to(0);
        assert_eq!(changed(&ran), [if run == 0 { 3 } else { 0 }, 0, 0], "{:#}", ran.report);
        assert_eq!((ran.lost("xattr"), ran.lost("acl")), (2, 0), "{:#}", ran.report);
        assert_eq!(ran.report["losses"][0]["side"], "target");
    }
    assert!(attributes(&target).contains("user.short=0x78"));
    assert_eq!(Copy::verify().args(&ends).run_to(4).entries("different"), 2);
    Copy::new().options("--require xattr").args(&ends).run_to(6);
}

#[test]
fn without_its_access_list_nothing_becomes_wider() {
    if no_root() {
        return;
    }
    let disk = Disk::new(&["mkfs.ntfs", "-F", "-q", "-f"]);
    let memory = place();
    let (source, target) = (memory.path().join("source"), disk.at("target"));
    fs::create_dir_all(source.join("dir")).unwrap();
    for (name, bytes) in [("small", 10), ("large", 400_000), ("dir/in it", 10)] {
        let path = file(&source.join(name), bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
        access_list(&path, "u:777:r,u:778:---");
    }
    fs::set_permissions(source.join("dir"), fs::Permissions::from_mode(0o700)).unwrap();
    access_list(&source.join("dir"), "g:777:rwx");
    access_list(&source, "g:777:rwx");
    assert_eq!((mode(&source.join("small")), mode(&source.join("dir"))), (0o644, 0o770));
    let ends = [contents(&source), target.clone().into()];
    for _ in 0..2 {
        let ran = Copy::new().args(&ends).run_to(0);
        assert_eq!(ran.entries("attributes_only"), 0, "{:#}", ran.report);
        assert!(ran.lost("acl") >= 4, "{:#}", ran.report);
        let modes = ["small", "large", "dir", "dir/in it"].map(|name| mode(&target.join(name)));
        assert_eq!(modes, [0o600, 0o600, 0o700, 0o600]);
        assert_eq!((mode(&source), mode(&target)), (0o775, 0o755));
    }
}

#[test]
fn an_attribute_with_too_long_a_name_for_ntfs_is_told_and_the_file_is_there() {
    if no_root() {
        return;
    }
    let disk = Disk::new(&["mkfs.ntfs", "-F", "-q", "-f"]);
    let memory = place();
    let (source, target) = (memory.path().join("source"), disk.at("target"));
    fs::create_dir(&source).unwrap();
    for (name, bytes) in [("small", 10), ("large", 400_000)] {
        let path = file(&source.join(name), bytes);
        // ntfs-3g refuses both, for different reasons.
        for length in [240, 247] {
            set(&path, &format!("trusted.{}", "n".repeat(length)), b"too long");
        }
        set(&path, &format!("user.{}", "n".repeat(100)), b"not too long");
    }
    let ends = [contents(&source), target.clone().into()];
    for created in [3, 0] {
        let ran = Copy::new().args(&ends).run_to(0);
        assert_eq!((ran.entries("created"), ran.lost("xattr")), (created, 2), "{:#}", ran.report);
    }
    for name in ["small", "large"] {
        assert_eq!(fs::read(source.join(name)).unwrap(), fs::read(target.join(name)).unwrap());
        let mut value = [0; 20];
        let long = format!("user.{}", "n".repeat(100));
        assert_eq!(rustix::fs::getxattr(target.join(name), long.as_str(), &mut value[..]), Ok(12));
    }
}

#[test]
fn attributes_of_the_target_itself_are_planned_and_counted() {
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir_all(source.join("dir")).unwrap();
    file(&source.join("dir/file"), 10);
    let ends = [contents(&source), target.clone().into()];
    Copy::new().args(&ends).run_to(0);
    for sync in [false, true] {
        let run = |options: &str| {
            let run = if sync { Copy::sync().options("--delete") } else { Copy::new() };
            run.options(options).args(&ends).run_to(0)
        };
        fs::set_permissions(&target, fs::Permissions::from_mode(0o700)).unwrap();
        let plan = run("-n");
        assert_eq!((plan.entries("attributes_only"), mode(&target)), (1, 0o700), "{:#}", plan.report);
        assert_eq!(run("").entries("attributes_only"), 1);
        assert_eq!(mode(&target), mode(&source));
        let again = run("");
        assert_eq!(
            (again.entries("attributes_only"), again.entries("unchanged")),
            (0, 3),
            "{:#}",
            again.report
        );
    }
}

#[test]
fn what_a_parent_hands_down_is_not_added() {
    if no_root() {
        return;
    }
    let place = place();
    let (source, above) = (place.path().join("source"), place.path().join("above"));
    for directory in [source.join("dir"), above.clone()] {
        fs::create_dir_all(directory).unwrap();
    }
    for (name, bytes) in [("small", 10), ("large", 400_000), ("dir/in it", 10)] {
        let path = file(&source.join(name), bytes);
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
    }
    access_list(&above, "d:u:1234:rwx,d:g:1234:rwx");
    let ends = [contents(&source), above.join("target").into()];
    Copy::new().args(&ends).run_to(0);
    assert_eq!(attributes(&source), attributes(&above.join("target")));
    let again = Copy::new().args(&ends).run_to(0);
    assert_eq!(again.entries("attributes_only"), 0);
}

/// Times at the limits of what file systems can store.
const TIMES: [(&str, i64, i64); 8] = [
    ("now", 1_714_557_600, 123_456_789),
    ("odd", 1_000_000_001, 0),
    ("before", -2, 987_654_321),
    ("long before", -2_000_000_000, 500_000_000),
    ("1900", -2_200_000_000, 1),
    ("2039", 2_200_000_000, 750_000_000),
    ("2107", 4_350_000_000, 250_000_000),
    ("2400", 13_600_000_000, 999_999_999),
];

#[test]
fn times_that_a_file_system_cannot_hold_are_lost_once_and_for_all() {
    if no_root() {
        return;
    }
    let (memory, host) = (place(), Host::up());
    let source = memory.path().join("source");
    fs::create_dir(&source).unwrap();
    for (name, seconds, nanoseconds) in TIMES {
        stamp(&file(&source.join(name), 10), seconds, nanoseconds);
    }
    // The root counts as well. Its time can be stored everywhere.
    stamp(&source, 1_600_000_000, 0);
    for (make, lost, beyond) in [
        (&["mkfs.ext4", "-q"][..], 1, 1),
        (&["mkfs.ext4", "-q", "-I", "128"], 7, 4),
        (&["mkfs.xfs", "-q"], 1, 1),
        (&["mkfs.xfs", "-q", "-m", "bigtime=0"], 4, 4),
        (&["mkfs.btrfs", "-q"], 0, 0),
        (&["mkfs.ntfs", "-F", "-q", "-f"], 5, 0),
    ] {
        let disk = Disk::new(make);
        // The target is not known better over a connection.
        for far in [false, true].into_iter().take(if beyond == 4 { 2 } else { 1 }) {
            let target = disk.at(if far { "pushed" } else { "target" });
            let typed = if far { host.at(&target) } else { target.clone().into_os_string() };
            let ends = [contents(&source), typed];
            let exact = |ran: &Ran| ran.lost("times");
            let ran = Copy::new().to(&host).args(&ends).run_to(0);
            assert_eq!((changed(&ran), exact(&ran)), ([9, 0, 0], lost), "{make:?} {:#}", ran.report);
            for copy in [Copy::new(), Copy::sync(), Copy::new().options("--dry-run")] {
                let ran = copy.to(&host).args(&ends).run_to(0);
                assert_eq!((changed(&ran), exact(&ran)), ([0; 3], lost), "{make:?} {:#}", ran.report);
            }
            let verified = Copy::verify().to(&host).args(&ends).run_to(if beyond == 0 { 0 } else { 3 });
            let found = (verified.entries("different"), exact(&verified));
            assert_eq!(found, (0, beyond), "{make:?} {:#}", verified.report);
            let refused = if lost > 0 { 6 } else { 0 };
            Copy::new().to(&host).options("--require times").args(&ends).run_to(refused);
            // A larger difference is detected and copied.
            stamp(&target.join("odd"), 1_000_000_004, 0);
            assert_eq!(Copy::verify().to(&host).args(&ends).run_to(4).entries("different"), 1);
            let ran = Copy::new().to(&host).args(&ends).run_to(0);
            assert_eq!(changed(&ran), [0, 1, 0], "{make:?} {:#}", ran.report);
        }
        let left = fs::read_dir(disk.at(""))
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(".hakobu"));
        assert_eq!(left.count(), 0, "{make:?}");
    }
    host.wait_for_no_agent();
}

#[test]
fn a_program_behind_fuse_that_sets_both_times_or_none() {
    if no_root() {
        return;
    }
    let disk = Disk::new(&["mkfs.exfat"]);
    let memory = place();
    let (source, target) = (memory.path().join("source"), disk.at("target"));
    fs::create_dir(&source).unwrap();
    stamp(&file(&source.join("file"), 10), 1_600_000_001, 500_000_000);
    stamp(&source, 1_600_000_000, 0);
    let ends = [contents(&source), target.clone().into()];
    let ran = Copy::new().args(&ends).run_to(0);
    assert_eq!((changed(&ran), ran.lost("times")), ([2, 0, 0], 1), "{:#}", ran.report);
    assert_eq!(fs::metadata(target.join("file")).unwrap().mtime(), 1_600_000_001);
    assert_eq!(changed(&Copy::new().args(&ends).run_to(0)), [0; 3]);
    // As a source it has only whole seconds, so entries that were copied from it are not sent back.
    let ran = Copy::new().args([contents(&target), source.into()]).run_to(0);
    assert_eq!(changed(&ran), [0; 3], "{:#}", ran.report);
}

#[test]
fn more_names_than_a_file_may_have_become_files_and_stay() {
    if no_root() {
        return;
    }
    const NAMES: u64 = 65_003;
    let (memory, disk) = (place(), Disk::new(&["mkfs.ext4", "-q"]));
    let (source, target) = (memory.path().join("source"), disk.at("target"));
    fs::create_dir(&source).unwrap();
    let first = file(&source.join("0"), 10);
    (1..NAMES).for_each(|name| fs::hard_link(&first, source.join(name.to_string())).unwrap());
    let ends = [contents(&source), target.clone().into()];
    for run in 0..2 {
        let ran = Copy::new().args(&ends).run_to(0);
        assert_eq!(changed(&ran), [if run == 0 { NAMES + 1 } else { 0 }, 0, 0]);
        assert_eq!(ran.lost("hardlinks"), 3);
        assert_eq!(ran.report["losses"][0]["side"], "target");
    }
    let links = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().metadata().unwrap().nlink());
    assert_eq!(links.filter(|links| *links == 65_000).count(), 65_000);
    assert_eq!(Copy::verify().args(&ends).run_to(4).entries("different"), 3);
    Copy::new().options("--require hardlinks").args(&ends).run_to(6);
}

#[test]
fn where_files_have_one_name_links_are_told_as_lost() {
    if no_root() {
        return;
    }
    let (memory, disk) = (place(), Disk::new(&["mkfs.exfat"]));
    let (source, target) = (memory.path().join("source"), disk.at("target"));
    fs::create_dir(&source).unwrap();
    stamp(&file(&source.join("a"), 10), 1_600_000_000, 0);
    fs::hard_link(source.join("a"), source.join("b")).unwrap();
    let ends = [contents(&source), target.into()];
    for run in 0..2 {
        let ran = Copy::new().args(&ends).run_to(0);
        assert_eq!(changed(&ran), [if run == 0 { 3 } else { 0 }, 0, 0], "{:#}", ran.report);
        assert_eq!(ran.lost("hardlinks"), 2, "{:#}", ran.report);
    }
}

/// The kernel takes capabilities from a program whose owner changes.
#[test]
fn capabilities_outlast_a_change_of_the_owner_alone() {
    if no_root() {
        return;
    }
    const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source).unwrap();
    for (name, bytes) in [("small", 10), ("large", 400_000)] {
        let path = file(&source.join(name), bytes);
        std::os::unix::fs::chown(&path, Some(1234), Some(1234)).unwrap();
        set(&path, "security.capability", &CAPABILITY);
    }
    let ends = [contents(&source), target.clone().into()];
    Copy::new().options("--preserve no-owner").args(&ends).run_to(0);
    let ran = Copy::new().args(&ends).run_to(0);
    assert_eq!(ran.entries("attributes_only"), 2, "{:#}", ran.report);
    assert_eq!(attributes(&target).matches("security.capability").count(), 2, "{}", attributes(&target));
    assert_eq!(attributes(&source), attributes(&target));
}

#[test]
fn set_id_bits_without_their_owner_are_lost_and_are_no_difference() {
    if no_root() {
        return;
    }
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source).unwrap();
    let path = file(&source.join("program"), 10);
    std::os::unix::fs::chown(&path, Some(1234), Some(1234)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    let ends = [contents(&source), target.clone().into()];
    for copy in [Copy::new(), Copy::sync()] {
        let ran = copy.options("--preserve no-owner").args(&ends).run_to(0);
        assert_eq!((ran.lost("setid"), mode(&target.join("program"))), (1, 0o755), "{:#}", ran.report);
    }
    Copy::verify().options("--preserve no-owner").args(&ends).run_to(0);
    // A comparison that includes owners finds both differences.
    assert_eq!(Copy::verify().args(&ends).run_to(4).entries("different"), 1);
    fs::set_permissions(target.join("program"), fs::Permissions::from_mode(0o711)).unwrap();
    Copy::verify().options("--preserve no-owner").args(&ends).run_to(4);
}
