//! Tests of the kinds of entries, of changes, and of attributes that cannot be kept.

use std::ffi::OsString;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use hakobu_testkit::sshd::no_root;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mkfifoat, mknodat, setxattr};

use crate::digest::blake3_of;
use crate::program::*;

/// A source tree, a target that is empty at first, and a host.
struct Pair {
    place: tempfile::TempDir,
    host: Host,
    source: PathBuf,
    target: PathBuf,
}

impl Pair {
    fn of(make: impl FnOnce(&Path)) -> Self {
        let (place, host) = (place(), Host::up());
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        fs::create_dir(&source).unwrap();
        make(&source);
        Self { place, host, source, target }
    }

    fn copy(&self) -> Copy {
        Copy::new().to(&self.host).arg(contents(&self.source)).arg(self.host.at(&self.target))
    }
}

#[test]
fn only_what_differs_is_sent() {
    let pair = Pair::of(|source| {
        for name in ["a", "b", "c", "sub/d", "sub/e"] {
            fs::create_dir_all(source.join(name).parent().unwrap()).unwrap();
            file(&source.join(name), 2000);
        }
        file(&source.join("large"), 2_000_000);
    });
    pair.copy().run_to(0);

    // Other content of the same size, an hour later.
    let later = SystemTime::now() + Duration::from_secs(3600);
    fs::write(pair.source.join("b"), [1; 2000]).unwrap();
    File::options().write(true).open(pair.source.join("b")).unwrap().set_modified(later).unwrap();
    let ran = pair.copy().run_to(0);
    assert_same(&pair.source, &pair.target);
    assert_eq!((ran.entries("updated"), ran.entries("created")), (1, 0), "{:#}", ran.report);
    assert_eq!(ran.report["bytes"]["target_written"], 2000);

    // Only the modes differ: of a small file, a large file and a directory.
    for name in ["sub/e", "large", "sub"] {
        fs::set_permissions(pair.source.join(name), Permissions::from_mode(0o750)).unwrap();
    }
    let before = fs::metadata(pair.target.join("large")).unwrap();
    let ran = pair.copy().run_to(0);
    assert_same(&pair.source, &pair.target);
    assert_eq!((ran.entries("attributes_only"), ran.entries("updated")), (3, 0), "{:#}", ran.report);
    assert_eq!(ran.report["bytes"]["target_written"], 0);
    assert_eq!(before.ino(), fs::metadata(pair.target.join("large")).unwrap().ino());

    // Only the time of a directory differs, at the source and then at the target.
    let past =
        FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789));
    File::open(pair.source.join("sub")).unwrap().set_times(past).unwrap();
    pair.copy().run_to(0);
    assert_same(&pair.source, &pair.target);
    File::open(&pair.target).unwrap().set_times(past).unwrap();
    pair.copy().run_to(0);
    assert_same(&pair.source, &pair.target);

    // Entries that only the target has stay, and are counted.
    fs::write(pair.target.join("extra"), "x").unwrap();
    let ran = pair.copy().run_to(0);
    assert_eq!(ran.entries("only_in_target"), 1);
    assert!(pair.target.join("extra").exists());
}

#[test]
fn a_link_in_the_way_is_replaced_and_never_written_through() {
    let pair = Pair::of(|source| {
        fs::create_dir(source.join("directory")).unwrap();
        fs::write(source.join("directory/file"), "new").unwrap();
        fs::write(source.join("file"), "new").unwrap();
        file(&source.join("large"), 2_000_000);
        symlink("file", source.join("link")).unwrap();
    });
    let outside = pair.place.path().join("outside");
    fs::create_dir_all(outside.join("directory")).unwrap();
    fs::write(outside.join("file"), "old").unwrap();
    fs::create_dir(&pair.target).unwrap();
    for name in ["directory", "file"] {
        symlink(outside.join(name), pair.target.join(name)).unwrap();
    }
    symlink(outside.join("file"), pair.target.join("large")).unwrap();
    fs::write(pair.target.join("link"), "a file").unwrap();
    pair.copy().run_to(0);
    assert_same(&pair.source, &pair.target);
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "old");
    assert_eq!(fs::read_dir(outside.join("directory")).unwrap().count(), 0);
}

#[test]
fn links_that_the_user_typed_are_followed_but_one_to_a_file_is_replaced() {
    let pair = Pair::of(|source| drop(fs::write(source.join("file"), "new")));
    let real = pair.place.path().join("real");
    fs::create_dir(&real).unwrap();
    fs::write(real.join("other"), "old").unwrap();
    symlink(&real, pair.place.path().join("to-directory")).unwrap();
    symlink(real.join("other"), pair.place.path().join("to-file")).unwrap();
    symlink(real.join("none"), pair.place.path().join("to-nothing")).unwrap();
    let copy = |target: &str| {
        let target = pair.host.at(pair.place.path().join(target));
        Copy::new().to(&pair.host).arg(pair.source.join("file")).arg(target).run_to(0);
    };
    copy("to-directory");
    assert_same(&pair.source.join("file"), &real.join("file"));
    for link in ["to-file", "to-nothing"] {
        copy(link);
        assert_same(&pair.source.join("file"), &pair.place.path().join(link));
    }
    assert_eq!(fs::read_to_string(real.join("other")).unwrap(), "old");
    assert!(!real.join("none").exists());
}

/// In each piece of the file only one block has data.
#[test]
fn holes_are_kept_as_fine_as_they_are() {
    let (place, host) = (place(), Host::up());
    let holey = |path: &Path, begin: u64| {
        let file = File::create(path).unwrap();
        file.set_len(20_000_001).unwrap();
        (0..60).for_each(|piece| file.write_all_at(b"something", begin + (piece << 18)).unwrap());
    };
    fs::create_dir(place.path().join("source")).unwrap();
    holey(&place.path().join("source/file"), 100_000);
    let source = place.path().join("source");
    let allocated = fs::metadata(source.join("file")).unwrap().blocks();
    let typed = |way: &str, target: &Path| match way {
        "push" => [contents(&source), host.at(target)],
        "pull" => [contents(host.at(&source)), target.into()],
        _ => [contents(&source), target.into()],
    };
    for way in ["here", "push", "pull"] {
        // `--verify medium` is possible for single files only.
        let (from, to) = (source.join("file"), place.path().join(format!("{way}.file")));
        let [from, to] = match way {
            "push" => [from.into(), host.at(&to)],
            "pull" => [host.at(&from), to.into()],
            _ => [from.into_os_string(), to.into()],
        };
        Copy::new().to(&host).options("--verify medium").args([from, to]).run_to(0);
        let copied = place.path().join(format!("{way}.file"));
        assert_eq!(fs::metadata(&copied).unwrap().blocks(), allocated, "{way}");
        assert!(fs::read(&copied).unwrap() == fs::read(source.join("file")).unwrap());
        for options in ["", "--whole-file"] {
            let target = place.path().join(format!("{way}.{options}"));
            let copy = |verb| {
                Copy::verb(Command::new(HAKOBU), verb).to(&host).options(options).args(typed(way, &target))
            };
            if options != "--whole-file" {
                copy("copy").run_to(0);
            } else {
                // The old file has data where the new one has holes.
                fs::create_dir(&target).unwrap();
                fs::write(target.join("file"), vec![7; 20_000_000]).unwrap();
                copy("sync").run_to(0);
            }
            assert_same(&source, &target);
            assert_eq!(fs::metadata(target.join("file")).unwrap().blocks(), allocated, "{way} {options}");
            if options.is_empty() {
                // Equal content is reused, and former data becomes zeros.
                holey(&source.join("file"), 60_000);
                copy("sync").run_to(0);
                assert_same(&source, &target);
                assert_eq!(fs::metadata(target.join("file")).unwrap().blocks(), allocated, "{way} again");
                holey(&source.join("file"), 100_000);
            }
        }
    }
}

/// The file is larger than 4 GiB and has data beyond that. The target discards what is sent, and zeros are not sent.
#[test]
fn five_gib_go_to_null_with_the_right_digest() {
    let (place, host) = (place(), Host::up());
    let path = place.path().join("sparse");
    let source = File::create(&path).unwrap();
    source.set_len((5 << 30) + 1).unwrap();
    source.write_all_at(b"beyond the first four", (4 << 30) + 70_000).unwrap();
    let between = (0..6).map(|number| number * 900_000_000);
    between.for_each(|offset| source.write_all_at(b"something", offset).unwrap());
    let copy = || Copy::new().to(&host).arg(&path).arg(host.at("/dev/null"));
    let ran = copy().arg("--verify=wire").run_to(0);
    assert_eq!(ran.report["digest_blake3"], blake3_of(&path));
    let bytes = |ran: &Ran, name: &str| ran.report["bytes"][name].as_u64().unwrap();
    assert_eq!(bytes(&ran, "target_written"), 7 << 18, "{:#}", ran.report);
    assert_eq!(bytes(&ran, "target_written") + bytes(&ran, "zeros_skipped"), (5 << 30) + 1);
    assert_eq!(ran.lost("holes"), 0);

    // With holes of 1 GiB or more in all, no digest is taken unless it is asked for.
    let without = || {
        let ran = copy().run_to(0);
        assert_eq!(ran.report["digest_blake3"], serde_json::Value::Null);
        assert!(ran.report["digest_blake3_reason"].as_str().unwrap().contains("holes of 1 GiB"));
        bytes(&ran, "target_written") + bytes(&ran, "zeros_skipped")
    };
    assert_eq!(without(), (5 << 30) + 1);
    source.set_len(1 << 20).unwrap();
    source.set_len(5 << 30).unwrap();
    assert_eq!(without(), 5 << 30);
    source.set_len(1 << 30).unwrap();
    let ran = copy().run_to(0);
    assert_eq!(bytes(&ran, "target_written") + bytes(&ran, "zeros_skipped"), 1 << 30);
    assert_eq!(ran.report["digest_blake3"], blake3_of(&path));
    use std::os::unix::fs::FileTypeExt;
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

/// Creates a tree on a disk, because not every file system in memory has extended attributes.
fn tree_with_losses() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    for name in ["attribute", "list", "linked", "plain"] {
        fs::write(source.join(name), "content").unwrap();
    }
    file(&source.join("large linked"), 1_500_000);
    for name in ["linked", "large linked"] {
        fs::hard_link(source.join(name), source.join(format!("{name} twice"))).unwrap();
    }
    setxattr(source.join("attribute"), "user.colour", b"blue", XattrFlags::empty()).unwrap();
    // An access control list, version 2: owner, a named user, group, mask, others.
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, may, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 4, 1), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 4, u32::MAX)]
    {
        list.extend([tag.to_le_bytes(), may.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    setxattr(source.join("list"), "system.posix_acl_access", &list, XattrFlags::empty()).unwrap();
    File::create(source.join("holes")).unwrap().set_len(200_000).unwrap();
    // A large file is sent in chunks, and keeps its holes.
    File::create(source.join("large holes")).unwrap().set_len(30_000_000).unwrap();
    place
}

/// A file system without extended attributes, mounted.
struct Bare {
    place: tempfile::TempDir,
}

impl Bare {
    fn new() -> Self {
        let place = place();
        let mounted = Command::new("mount").args(["-t", "ramfs", "none"]).arg(place.path()).status().unwrap();
        assert!(mounted.success());
        Self { place }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.place.path()).status();
    }
}

#[test]
fn what_the_target_cannot_hold_is_counted_and_is_no_failure() {
    if no_root() {
        return;
    }
    let (place, bare, host) = (tree_with_losses(), Bare::new(), Host::up());
    let source = place.path().join("source");
    setxattr(&source, "user.colour", b"blue", XattrFlags::empty()).unwrap();
    for (name, remote) in [("pushed", true), ("here", false)] {
        let target = bare.at(name);
        let typed = if remote { host.at(&target) } else { target.clone().into_os_string() };
        let copy = || Copy::new().to(&host).arg(contents(&source)).arg(&typed);
        let planned = copy().arg("--dry-run").run_to(0);
        let ran = copy().run_to(0);
        for what in ["xattr", "acl", "hardlinks", "holes"] {
            assert_eq!(planned.lost(what), ran.lost(what), "{what}: {:#}", planned.report);
        }
        let lost = |what| ran.lost(what);
        // The directory and one file.
        assert_eq!(
            (lost("xattr"), lost("acl"), lost("hardlinks"), lost("holes")),
            (2, 1, 0, 0),
            "{:#}",
            ran.report
        );
        assert!(fs::metadata(target.join("large holes")).unwrap().blocks() * 512 < 1_000_000);
        assert_eq!(
            fs::metadata(target.join("linked")).unwrap().ino(),
            fs::metadata(target.join("linked twice")).unwrap().ino()
        );
        ran.says(&["not preserved: access control lists of 1 entry, such as list at the source"]);
        // A second run finds everything equal and reports the losses again.
        let again = copy().run_to(0);
        assert_eq!(again.entries("unchanged"), again.entries("scanned"));
        assert_eq!((again.lost("xattr"), again.lost("acl")), (2, 1), "{:#}", again.report);
        // A comparison reports them as well.
        let ran = Copy::verify().to(&host).arg(contents(&source)).arg(&typed).run_to(3);
        assert_eq!((ran.lost("xattr"), ran.lost("acl")), (2, 1), "{:#}", ran.report);
        assert!(ran.report["differences"].as_array().unwrap().is_empty(), "{:#}", ran.report);
        ran.says(&[
            "partly compared",
            "not compared: access control lists of 1 entry, such as list at the source",
        ]);
        for (what, failing) in [("acl", 1), ("hardlinks,holes", 0)] {
            let ran = copy().arg("--require").arg(what).run_to(if failing > 0 { 6 } else { 0 });
            assert_eq!(ran.failures().len(), failing, "{what}: {:#}", ran.report);
        }
        // If the target directory itself would lose an attribute, nothing in it is copied.
        let ran = copy().arg("--require").arg("xattr").run_to(6);
        assert_eq!(ran.failures().len(), 1, "{:#}", ran.report);
    }
    host.wait_for_no_agent();
}

#[test]
fn what_must_not_be_lost_is_refused() {
    if no_root() {
        return;
    }
    let (place, bare, host) = (tree_with_losses(), Bare::new(), Host::up());
    let source = place.path().join("source");
    file(&source.join("large attribute"), 3_000_000);
    setxattr(source.join("large attribute"), "user.colour", b"blue", XattrFlags::empty()).unwrap();
    for (what, failing) in
        [("xattr", 2), ("acl", 1), ("hardlinks,holes", 0), ("xattr,acl,hardlinks,holes", 3)]
    {
        for remote in [false, true] {
            let target = bare.at(&format!("{what} {remote}"));
            let typed = if remote { host.at(&target) } else { target.clone().into_os_string() };
            let copy = || Copy::new().to(&host).arg("--require").arg(what).arg(contents(&source)).arg(&typed);
            let code = if failing > 0 { 6 } else { 0 };
            // A dry run foresees it.
            let planned = copy().arg("-n").run_to(code);
            assert!(planned.failures().len() == failing && !target.exists(), "{:#}", planned.report);
            let ran = copy().run_to(code);
            assert_eq!(ran.failures().len(), failing, "{what} {remote}: {:#}", ran.report);
            if failing > 0 {
                ran.says(&["--require", "cannot be met"]);
            }
            assert_same(&source.join("plain"), &target.join("plain"));
            assert!(what != "xattr" || !target.join("attribute").exists());
            assert!(target.join("large holes").exists());
        }
    }
    host.wait_for_no_agent();
}

/// Kind, number, mode, owner and time of a special file.
fn node(path: &Path) -> (u32, u64, u32, i64, i64) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.mode(), found.rdev(), found.uid(), found.mtime(), found.mtime_nsec())
}

#[test]
fn named_pipes_are_kept_and_sockets_are_skipped() {
    let pair = Pair::of(|source| {
        fs::create_dir(source.join("sub")).unwrap();
        mkfifoat(CWD, source.join("sub/fifo"), Mode::from_raw_mode(0o600)).unwrap();
        fs::set_permissions(source.join("sub/fifo"), fs::Permissions::from_mode(0o642)).unwrap();
        fs::write(source.join("file"), "x").unwrap();
    });
    let _socket = UnixListener::bind(pair.source.join("socket")).unwrap();
    let (fifo, copied) = (pair.source.join("sub/fifo"), pair.target.join("sub/fifo"));
    let ran = pair.copy().run_to(0);
    assert_eq!((ran.entries("created"), ran.entries("skipped")), (4, 1), "{:#}", ran.report);
    assert_eq!(node(&copied), node(&fifo));
    let ran = pair.copy().run_to(0);
    assert_eq!((ran.entries("created"), ran.entries("unchanged")), (0, 4), "{:#}", ran.report);
    fs::set_permissions(&fifo, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(pair.copy().run_to(0).entries("attributes_only"), 1);
    assert_eq!(node(&copied), node(&fifo));
    // It replaces a file.
    fs::remove_file(&copied).unwrap();
    fs::write(&copied, "other").unwrap();
    assert_eq!(pair.copy().run_to(0).entries("updated"), 1);
    assert_eq!(node(&copied), node(&fifo));

    // A pipe that is named as a source stands for its content, which nobody writes here.
    let fifo = pair.place.path().join("fifo");
    mkfifoat(CWD, &fifo, Mode::from_raw_mode(0o600)).unwrap();
    let ran = Copy::new().to(&pair.host).arg(&fifo).arg(pair.host.at(&pair.target)).run();
    assert!(matches!(ran.code, Some(1..=3)), "{:?} {}", ran.code, ran.err);
    ran.says(&["fifo"]);
}

#[test]
fn device_nodes_need_leave_where_the_source_is_elsewhere() {
    if no_root() {
        return;
    }
    let pair = Pair::of(|source| {
        for (name, kind, number) in [
            ("null", FileType::CharacterDevice, makedev(1, 3)),
            ("disk", FileType::BlockDevice, makedev(4095, 1_048_575)),
        ] {
            mknodat(CWD, source.join(name), kind, Mode::from_raw_mode(0o600), number).unwrap();
            fs::set_permissions(source.join(name), fs::Permissions::from_mode(0o622)).unwrap();
        }
        fs::write(source.join("file"), "x").unwrap();
    });
    let same = |target: &Path| {
        for name in ["null", "disk"] {
            assert_eq!(node(&target.join(name)), node(&pair.source.join(name)), "{name}");
        }
    };
    // A local copy and a push need no option, because the source belongs to the user.
    pair.copy().run_to(0);
    same(&pair.target);
    assert_eq!(pair.copy().run_to(0).entries("unchanged"), 4);
    let pulled = pair.place.path().join("pulled");
    let pull = || Copy::new().to(&pair.host).arg(contents(pair.host.at(&pair.source))).arg(&pulled);
    let ran = pull().run_to(3);
    assert_eq!(ran.failures().len(), 2, "{:#}", ran.report);
    ran.says(&["--allow devices"]);
    assert!(pulled.join("file").exists() && !pulled.join("null").exists() && !pulled.join("disk").exists());
    pull().options("--allow devices").run_to(0);
    same(&pulled);
    // Another number is another device.
    fs::remove_file(pulled.join("null")).unwrap();
    mknodat(CWD, pulled.join("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, 5))
        .unwrap();
    assert_eq!(pull().options("--allow devices").run_to(0).entries("updated"), 1);
    same(&pulled);
}

/// Drafts of other runs are left alone. Their names contain a checksum, so that similar names are ordinary files.
#[test]
fn drafts_are_not_copied_and_names_like_theirs_are() {
    let draft = String::from_utf8(hakobu_core::path::draft_name(b"any")).unwrap();
    let others =
        [".hakobu.NOTES-2026-11-25 (copy).md", ".hakobu.abcdefghijklmnopqrstuvwxyz", ".hakobu.settings"];
    let pair = Pair::of(|source| {
        fs::write(source.join(&draft), "partial").unwrap();
        for name in others {
            fs::write(source.join(name), name).unwrap();
            fs::set_permissions(source.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
    });
    let report = pair.copy().run_to(0).report;
    let mut names: Vec<OsString> =
        fs::read_dir(&pair.target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, others);
    assert_eq!(report["entries"]["skipped"], 1, "{report:#}");
}
