//! Everything about an entry is copied. rsync and a manifest of standard tools check that.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hakobu_testkit::sshd::no_root;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chown, makedev, mknodat,
    setxattr, utimensat,
};

use crate::program::*;

/// A script that prints the output of `find`, `getfattr`, `getfacl` and `b3sum` for a tree in a comparable form.
const MANIFEST: &str = r#"
cd "$1" || exit 1
export LC_ALL=C
echo '# entries'
find . ! -type s -printf '%y %m %U %G %T@ %p -> %l\0' | sort -z | tr '\0\n' '\n?'
echo '# sizes'
find . -type f -printf '%s %p\0' | sort -z | tr '\0\n' '\n?'
echo '# device nodes'
find . '(' -type b -o -type c ')' -exec stat -c '%t %T %n' '{}' + | sort
echo '# names of one inode'
find . ! -type d ! -type s -links +1 -printf '%i %p\0' | sort -z -k 2 |
  awk -v RS='\0' '{ i = $1; sub(/^[0-9]+ /, ""); gsub(/\n/, "?"); if (!(i in n)) n[i] = ++c; print n[i], $0 }'
echo '# attributes'
find . ! -type s -print0 | sort -z | xargs -0 -r getfattr -h -d -m - -e hex -- 2>/dev/null |
  grep -v -e '^# file' -e '^trusted.SGI_ACL_'
echo '# access lists'
find . '(' -type f -o -type d ')' -print0 | sort -z | xargs -0 -r getfacl -n -- 2>/dev/null | grep -v '^# file'
echo '# content'
find . -type f -print0 | sort -z | xargs -0 -r b3sum -- 
"#;

fn manifest(of: &Path) -> String {
    let made = Command::new("bash").args(["-c", MANIFEST, "manifest"]).arg(of).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8_lossy(&made.stdout).into_owned()
}

#[track_caller]
pub(super) fn assert_equal(source: &Path, target: &Path) {
    let (source, target) = (manifest(source), manifest(target));
    assert!(source.matches('\n').count() > 50, "the manifest of a tree with much in it");
    for (one, other) in source.lines().zip(target.lines()) {
        assert_eq!(one, other);
    }
    assert_eq!(source.len(), target.len());
}

/// Returns the changes that rsync would make.
pub(super) fn rsync_finds(source: &Path, target: &Path) -> String {
    let mut rsync = Command::new("rsync");
    // XFS shows access control lists as further attributes.
    let twice = "--filter=-x trusted.SGI_ACL_*";
    rsync.args(["-aHAXn", "--delete", "--itemize-changes", twice]).arg(contents(source)).arg(target);
    let ran = rsync.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

pub(super) fn set(path: &Path, name: &str, value: &[u8]) {
    setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

pub(super) fn stamp(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 123_456_789 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

pub(super) fn access_list(path: &Path, of: &str) {
    let set = Command::new("setfacl").args(["-n", "-m", of]).arg(path).status().unwrap();
    assert!(set.success());
}

/// A file capability in version 2 of the kernel's format: binding to low ports.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Creates a tree with every kind of entry and attribute that a copy can miss.
pub(super) fn nasty(root: &Path) {
    tree(root);
    let at = |name: &str| root.join(name);
    for name in ["links/deep/deeper", "attributes", "special", "rights", "names"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    file(&at("links/small"), 3000);
    file(&at("links/large"), 700_000);
    symlink("small", at("links/symbolic")).unwrap();
    for name in ["small", "large", "symbolic"] {
        fs::hard_link(at("links").join(name), at("links/deep").join(name)).unwrap();
        fs::hard_link(at("links").join(name), at("links/deep/deeper").join(name)).unwrap();
    }
    for (index, name) in ["one", "two", "three", "four"].into_iter().enumerate() {
        let path = file(&at("attributes").join(name), 100 << (4 * index));
        set(&path, "user.empty", b"");
        set(&path, "user.bytes", &[0, 255, b'\n', index as u8]);
        set(&path, "user.long", &vec![index as u8; 2000]);
        set(&path, "trusted.hakobu", b"for root");
    }
    access_list(&at("attributes/one"), "u:1234:rw,g:4321:r");
    access_list(&at("attributes/two"), "u:1234:---");
    access_list(&at("attributes"), "u:1234:rwx");
    access_list(&at("attributes"), "d:u:77:rwx");
    set(&at("attributes"), "user.on.a.directory", b"x");
    for (name, kind) in
        [("pipe", FileType::Fifo), ("block", FileType::BlockDevice), ("char", FileType::CharacterDevice)]
    {
        let number = if kind == FileType::Fifo { 0 } else { makedev(7, 300) };
        mknodat(CWD, at("special").join(name), kind, Mode::from_raw_mode(0o640), number).unwrap();
    }
    fs::hard_link(at("special/pipe"), at("special/pipe too")).unwrap();
    for (name, mode) in [("setuid", 0o4755), ("setgid", 0o2711), ("sticky", 0o1644), ("able", 0o755)] {
        let path = file(&at("rights").join(name), 10);
        chown(&path, Some(Uid::from_raw(4242)), Some(Gid::from_raw(2424))).unwrap();
        let chmod = Command::new("chmod").arg(format!("{mode:o}")).arg(&path).status().unwrap();
        assert!(chmod.success());
    }
    set(&at("rights/able"), "security.capability", &CAPABILITY);
    let holes = fs::File::create(at("holes")).unwrap();
    holes.set_len(150_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&holes, b"x", 70_000).unwrap();
    // A name in UTF-8, Shift-JIS and EUC-JP.
    for name in [&b"\xe6\x97\xa5\xe6\x9c\xac"[..], b"\x93\xfa\x96\x7b", b"\xc6\xfc\xcb\xdc"] {
        file(&at("names").join(OsStr::from_bytes(name)), 50);
    }
    for name in ["attributes", "links/deep/deeper", "links/deep", "links", "special", "rights", "names", ""] {
        stamp(&at(name), 1_000_000_000);
    }
}

/// Makes changes of every kind that a second run has to find.
fn change(root: &Path) {
    change_alike(root);
    let at = |name: &str| root.join(name);
    fs::remove_file(at("large")).unwrap();
    fs::create_dir(at("large")).unwrap();
    file(&at("large/inside"), 10);
    fs::remove_dir_all(at("rights")).unwrap();
    file(&at("rights"), 10);
}

/// Makes changes after which no directory is in the place of another entry, or the other way round.
pub(super) fn change_alike(root: &Path) {
    let at = |name: &str| root.join(name);
    fs::remove_file(at("links/deep/small")).unwrap();
    file(&at("links/deep/small"), 3000);
    fs::hard_link(at("links/large"), at("names/large")).unwrap();
    set(&at("attributes/three"), "user.bytes", b"changed");
    rustix::fs::removexattr(at("attributes/four"), "user.long").unwrap();
    let removed = Command::new("setfacl").arg("-b").arg(at("attributes/one")).status().unwrap();
    assert!(removed.success());
    access_list(&at("names"), "d:u:77:rwx");
    fs::remove_file(at("special/block")).unwrap();
    mknodat(CWD, at("special/block"), FileType::BlockDevice, Mode::from_raw_mode(0o600), makedev(7, 301))
        .unwrap();
    fs::rename(at("names"), at("new names")).unwrap();
}

const SYNC: &str = "--delete --allow setuid,devices";

fn round(host: Option<&Host>, source: &Path, target: &Path, reverse: bool) {
    let typed = |way: usize| -> [OsString; 2] {
        match (way, host) {
            (1, Some(host)) => [contents(source), host.at(target)],
            (2, Some(host)) => [contents(host.at(source)), target.into()],
            _ => [contents(source), target.into()],
        }
    };
    let run = |way| {
        let sync = Copy::sync();
        let sync = if let Some(host) = host { sync.to(host) } else { sync };
        sync.options(SYNC).args(typed(way)).run_to(0)
    };
    for way in 0..if host.is_some() { 3 } else { 1 } {
        let _ = fs::remove_dir_all(source);
        let _ = fs::remove_dir_all(target);
        nasty(source);
        let ran = run(way);
        assert_eq!(ran.report["losses"].as_array().unwrap().len(), 0, "{:#}", ran.report);
        assert_equal(source, target);
        assert_eq!(rsync_finds(source, target), "");
        change(source);
        run(way);
        assert_equal(source, target);
        assert_eq!(rsync_finds(source, target), "");
        let again = run(way);
        let changed = ["created", "updated", "attributes_only", "deleted"].map(|what| again.entries(what));
        assert_eq!(changed, [0; 4], "{:#}", again.report);
        let verify = Copy::verify();
        let verify = if let Some(host) = host { verify.to(host) } else { verify };
        verify.options("--allow setuid").args(typed(way)).run_to(0);
    }
    if !reverse {
        return;
    }
    // In the other direction, hakobu finds a copy by rsync equal.
    fs::remove_dir_all(target).unwrap();
    let rsync = Command::new("rsync").args(["-aHAX"]).arg(contents(source)).arg(target).status().unwrap();
    assert!(rsync.success());
    let found = Copy::verify().args(typed(0)).run();
    let ran = run(0);
    let changed = ["created", "updated", "attributes_only", "deleted"].map(|what| ran.entries(what));
    assert_eq!(changed, [0; 4], "{:#}", found.report["differences"]);
}

#[test]
fn everything_comes_over_in_memory_and_between_machines() {
    if no_root() {
        return;
    }
    let host = Host::up();
    let place = place();
    round(Some(&host), &place.path().join("source"), &place.path().join("target"), true);
    host.wait_for_no_agent();
}

/// A file system in a file, mounted.
struct Mounted {
    place: tempfile::TempDir,
}

impl Mounted {
    fn new(kind: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let (image, at) = (place.path().join("image"), place.path().join("at"));
        fs::File::create(&image).unwrap().set_len(600 << 20).unwrap();
        fs::create_dir(&at).unwrap();
        let made = Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image).stdout(Stdio::null()).status();
        assert!(made.unwrap().success(), "mkfs.{kind}");
        let mounted = Command::new("mount").args(["-o", "loop", "-t", kind]).arg(&image).arg(&at).status();
        assert!(mounted.unwrap().success(), "mounting {kind}");
        Self { place }
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("at")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn everything_comes_over_on_the_usual_file_systems() {
    if no_root() {
        return;
    }
    let memory = place();
    let others: Vec<_> = ["ext4", "xfs", "btrfs"].map(|kind| (kind, Mounted::new(kind))).into();
    for (index, (kind, mounted)) in others.iter().enumerate() {
        println!("{kind}");
        // Copies from each file system to the next, so that each is a source and a target.
        let next = others.get(index + 1).map_or_else(|| memory.path().to_owned(), |(_, next)| next.path());
        // rsync spoils access control lists on XFS, which shows them as attributes as well, and some times on ext4.
        round(None, &mounted.path().join("source"), &next.join("target"), false);
        let _ = fs::remove_dir_all(mounted.path().join("source"));
    }
    round(None, &memory.path().join("source"), &others[0].1.path().join("target"), false);
}

#[test]
fn what_is_not_to_be_kept_is_left_alone() {
    if no_root() {
        return;
    }
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source).unwrap();
    let path = file(&source.join("a"), 100);
    fs::hard_link(&path, source.join("b")).unwrap();
    set(&path, "user.x", b"y");
    access_list(&path, "u:1234:r");
    chown(&path, Some(Uid::from_raw(4242)), None).unwrap();
    let ran = Copy::new()
        .options("--preserve no-owner,no-hardlinks,no-xattr,no-acl")
        .args([contents(&source), target.clone().into()])
        .run_to(0);
    assert_eq!(ran.report["losses"].as_array().unwrap().len(), 0, "{:#}", ran.report);
    let of = |tool: &str| {
        let output = Command::new(tool).args(["-n", "-d"]).arg("--").arg(target.join("a")).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(!of("getfacl").contains("1234"));
    let links = std::os::unix::fs::MetadataExt::nlink(&fs::metadata(target.join("a")).unwrap());
    assert_eq!(
        (links, std::os::unix::fs::MetadataExt::uid(&fs::metadata(target.join("a")).unwrap())),
        (1, 0)
    );
    let typed = [contents(&source), target.clone().into()];
    let ran = Copy::new().options("--preserve no-such-thing").args(&typed).run_to(2);
    ran.says(&["--preserve", "no-such-thing", "owner, acl, xattr"]);
    // A second run preserves everything and moves no data.
    let ran = Copy::new().args(&typed).run_to(0);
    assert_eq!(ran.report["bytes"]["target_written"], 0, "{:#}", ran.report);
    assert_equal_pair(&source, &target);
}

fn assert_equal_pair(source: &Path, target: &Path) {
    assert_eq!(manifest(source), manifest(target));
}

#[test]
fn a_pull_brings_no_rights_without_leave() {
    if no_root() {
        return;
    }
    let host = Host::up();
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source).unwrap();
    set(&file(&source.join("able"), 10), "security.capability", &CAPABILITY);
    set(&file(&source.join("trusted"), 10), "trusted.x", b"y");
    set(&file(&source.join("user"), 10), "user.x", b"y");
    let typed = [contents(host.at(&source)), target.clone().into()];
    let ran = Copy::new().to(&host).args(&typed).run_to(3);
    assert_eq!((ran.lost("setid"), ran.lost("xattr")), (1, 1), "{:#}", ran.report);
    assert!(manifest(&target).contains("user.x") && !manifest(&target).contains("trusted.x"));
    // An attribute that cannot be kept is reported in every run: for a tree, for one file, and by a comparison. (Of a file
    // that is named, only the content is compared.)
    let one = [host.at(source.join("able")), target.join("able").into_os_string()];
    for (again, typed, lost) in [
        (Copy::new(), &typed, (1, 1)),
        (Copy::sync(), &typed, (1, 1)),
        (Copy::new(), &one, (1, 0)),
        (Copy::verify(), &typed, (1, 1)),
    ] {
        let ran = again.to(&host).args(typed).run_to(3);
        assert_eq!((ran.lost("setid"), ran.lost("xattr")), lost, "{:#}", ran.report);
        assert_eq!((ran.entries("updated"), ran.entries("different")), (0, 0), "{:#}", ran.report);
    }
    let refused = Copy::new().to(&host).options("--require setid").args(&typed);
    fs::remove_dir_all(&target).unwrap();
    refused.run_to(6);
    Copy::new().to(&host).options("--allow setuid").args(&typed).run_to(0);
    assert_equal_pair(&source, &target);
    host.wait_for_no_agent();
}

#[test]
fn a_mount_point_is_made_and_not_looked_into() {
    if no_root() {
        return;
    }
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir_all(source.join("mounted")).unwrap();
    file(&source.join("here"), 10);
    let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(source.join("mounted")).status();
    assert!(mount.unwrap().success());
    file(&source.join("mounted/there"), 10);
    fs::create_dir_all(target.join("mounted")).unwrap();
    file(&target.join("mounted/old"), 10);
    let typed = [contents(&source), target.clone().into()];
    let ran = Copy::sync().options("-x --delete").args(&typed).run();
    let names = |directory: &str| fs::read_dir(target.join(directory)).unwrap().count();
    let found = (ran.code, names(""), names("mounted"), target.join("mounted/old").exists());
    let both = Copy::new().args(&typed).run();
    let umount = Command::new("umount").arg(source.join("mounted")).status();
    assert!(umount.unwrap().success());
    assert_eq!(found, (Some(0), 2, 1, true), "nothing in it is removed either");
    assert_eq!(both.code, Some(0));
    assert!(target.join("mounted/there").exists());
}

#[test]
fn only_listed_paths_come_over() {
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    for name in ["a/b/one", "a/b/two", "a/other", "c/three", "d"] {
        fs::create_dir_all(source.join(name).parent().unwrap()).unwrap();
        file(&source.join(name), 10);
    }
    let list = place.path().join("list");
    fs::write(&list, "a/b\n./c/three\nmissing\n").unwrap();
    let options = format!("--files-from {}", list.display());
    let ran = Copy::new().options(&options).args([contents(&source), target.clone().into()]).run_to(3);
    assert_eq!(ran.entries("failed"), 1);
    ran.says(&["missing: ", "--files-from lists it, but the source has no such entry"]);
    for (name, there) in
        [("a/b/one", true), ("a/b/two", true), ("c/three", true), ("a/other", false), ("d", false)]
    {
        assert_eq!(target.join(name).exists(), there, "{name}");
    }
    // An entry that is gone is deleted at the target if the user asks for it; otherwise it is reported as missing, also by a
    // plan and by a comparison.
    file(&target.join("missing"), 3);
    let ends = [contents(&source), target.clone().into()];
    for verb in ["sync", "sync --dry-run", "verify"] {
        let mut words = verb.split(' ');
        let mut command = Command::new(HAKOBU);
        command.arg(words.next().unwrap()).args(words).args(options.split(' ')).args(&ends);
        let output = command.env("HAKOBU_SETTINGS", "none").output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            matches!(output.status.code(), Some(3 | 4)) && err.contains("--files-from lists it"),
            "{err}"
        );
        assert_eq!(err.matches("--files-from lists it").count(), 1, "{err}");
        assert!(target.join("missing").exists(), "{err}");
    }
    let mut command = Command::new(HAKOBU);
    command.args(["sync", "--delete"]).args(options.split(' ')).args(&ends).env("HAKOBU_SETTINGS", "none");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!target.join("missing").exists() && target.join("c/three").exists());
}

#[test]
fn a_manifest_is_what_b3sum_reads() {
    if no_root() {
        return;
    }
    let host = Host::up();
    let place = place();
    let source = tree(&place.path().join("source"));
    file(&source.join("line\nend and \\"), 300_000);
    for location in [source.clone().into_os_string(), host.at(&source)] {
        let list = place.path().join("list");
        let mut digest = Command::new(HAKOBU);
        digest.arg("digest").arg(location).env("HAKOBU_SSH", host.sshd.ssh_command());
        let output = digest.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // `b3sum --check` cannot read names that are not UTF-8, not even in its own output.
        let lines = str::from_utf8(&output.stdout).unwrap().lines();
        let readable: Vec<_> = lines.filter(|line| !line.contains('\u{fffd}')).collect();
        assert!(readable.len() > 250, "{}", readable.len());
        fs::write(&list, readable.join("\n") + "\n").unwrap();
        let check = Command::new("b3sum").arg("--check").arg("--quiet").arg(&list).output().unwrap();
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
        let files = Command::new("find").arg(&source).args(["-type", "f", "-printf", "x"]).output().unwrap();
        assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), files.stdout.len());
    }
    host.wait_for_no_agent();
}

/// The source's user 4242 has the name that user 65534 has at the target; 4243 has none there, and 4244 none at all.
#[test]
fn owners_by_name_get_the_numbers_that_they_have_there() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let (source, fake) = (place.path().join("source"), place.path().join("bin"));
    fs::create_dir_all(source.join("dir")).unwrap();
    fs::create_dir(&fake).unwrap();
    let script = "#!/bin/sh\n\
        case $2 in\n\
        4242) echo nobody:x:4242:4242::/:/bin/sh;;\n\
        4243) echo no-such-user-anywhere:x:4243:4243::/:/bin/sh;;\n\
        *) exec /usr/bin/getent \"$@\";;\n\
        esac\n";
    fs::write(fake.join("getent"), script).unwrap();
    fs::set_permissions(fake.join("getent"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let owners = [("dir", 4242), ("dir/small", 4242), ("large", 4243), ("other", 4244), ("root", 0)];
    for (name, uid) in owners {
        let path = source.join(name);
        if name != "dir" {
            file(&path, if name == "large" { 400_000 } else { 10 });
        }
        chown(&path, Some(Uid::from_raw(uid)), None).unwrap();
    }
    let path = format!("{}:{}", fake.display(), std::env::var("PATH").unwrap());
    for remote in [false, true] {
        let target = place.path().join(format!("target {remote}"));
        let typed = if remote { host.at(&target) } else { target.clone().into_os_string() };
        let copy =
            || Copy::new().to(&host).env("PATH", &path).arg("--by-name").arg(contents(&source)).arg(&typed);
        copy().run_to(0);
        let uid = |name: &str| std::os::unix::fs::MetadataExt::uid(&fs::metadata(target.join(name)).unwrap());
        assert_eq!(owners.map(|(name, _)| uid(name)), [65534, 65534, 4243, 4244, 0]);
        let again = copy().run_to(0);
        assert_eq!((again.entries("created"), again.entries("attributes_only")), (0, 0));
    }
    host.wait_for_no_agent();
}
