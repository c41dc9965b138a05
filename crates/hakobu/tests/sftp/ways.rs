//! SFTP in all directions, with several servers, and what is preserved.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use rustix::fs::{XattrFlags, setxattr};
use serde_json::Value;

use crate::program::*;
use crate::{assert_rsync_agrees, copy, old_server, server};

/// Copies a tree, and copies it again, which changes nothing.
#[track_caller]
fn there_and_again(
    host: &Host,
    typed: &[std::ffi::OsString; 2],
    source: &Path,
    target: &Path,
    more: &[&str],
) -> Value {
    let first = copy(host).args(typed).run_to(0);
    assert_rsync_agrees(source, target, more);
    assert!(drafts(target).is_empty());
    assert_eq!(first.report["transport"], "sftp");
    assert_eq!(first.report["verified"], "none");
    assert!(first.entries("created") > 300 && first.entries("updated") == 0, "{:#}", first.report);
    let second = copy(host).args(typed).run_to(0);
    assert_eq!(second.entries("created") + second.entries("updated") + second.entries("attributes_only"), 0);
    assert_eq!(second.entries("unchanged"), first.entries("scanned"));
    first.report
}

#[test]
fn a_tree_goes_there() {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    there_and_again(&host, &[contents(&source), host.at(&target)], &source, &target, &[]);
    assert!(host.agents().is_empty());
}

#[test]
fn a_tree_comes_here() {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    let typed = [contents(host.at(&source)), target.clone().into()];
    there_and_again(&host, &typed, &source, &target, &["--no-H"]);
    // SFTP does not show hard links, and that is reported.
    let again = copy(&host).arg(contents(host.at(&source))).arg(&target).run_to(0);
    assert!(again.err.contains("does not show") && again.err.contains("hard links"), "{}", again.err);
}

#[test]
fn a_tree_goes_from_server_to_server() {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    let typed = [contents(host.at(&source)), host.at_another(&target)];
    there_and_again(&host, &typed, &source, &target, &["--no-H"]);
}

#[test]
fn a_tree_stays_on_a_server() {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    there_and_again(&host, &[contents(host.at(&source)), host.at(&target)], &source, &target, &["--no-H"]);
    // A copy into itself is detected by its path.
    let within = copy(&host).args([host.at(&source), host.at(source.join("within"))]).run_to(6);
    assert!(within.err.contains("would contain itself"), "{}", within.err);
}

#[test]
fn the_oldest_servers_are_enough() {
    let (place, host) = (place(), old_server());
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    // The server cannot set times of links or create hard links.
    let kept = ["--no-H", "--omit-link-times"];
    let first = copy(&host).args([contents(&source), host.at(&target)]).run_to(0);
    assert_rsync_agrees(&source, &target, &kept);
    for lost in ["hard links", "stable storage", "in one step", "times of symbolic links"] {
        assert!(first.err.contains(lost), "{lost}: {}", first.err);
    }
    fs::write(source.join("large"), vec![7; 3_000_000]).unwrap();
    fs::write(source.join("empty file"), "not any more").unwrap();
    let second = copy(&host).args([contents(&source), host.at(&target)]).run_to(0);
    assert_rsync_agrees(&source, &target, &kept);
    assert!(drafts(&target).is_empty());
    assert!(second.entries("updated") >= 2, "{:#}", second.report);
    let back = place.path().join("back");
    copy(&host).args([contents(host.at(&source)), back.clone().into()]).run_to(0);
    assert_rsync_agrees(&source, &back, &["--no-H"]);
}

#[test]
fn a_large_file_goes_over_all_lanes_and_comes_back() {
    let (place, host) = (place(), server(&[]));
    let at = |name: &str| place.path().join(name);
    let source = file(&at("large"), 100_000_001);
    let pushed = copy(&host).options("--lanes 4").arg(&source).arg(host.at(at("there"))).run_to(0);
    assert!(fs::read(&source).unwrap() == fs::read(at("there")).unwrap());
    let digest = blake3_of(&source);
    assert_eq!(pushed.report["digest_blake3"], *digest);
    let pulled = copy(&host).options("--lanes 4").arg(host.at(&source)).arg(at("back")).run_to(0);
    assert!(fs::read(&source).unwrap() == fs::read(at("back")).unwrap());
    assert_eq!(pulled.report["digest_blake3"], *digest);
}

fn blake3_of(file: &Path) -> String {
    let ran = Command::new(HAKOBU).args(["digest"]).arg(file).output().unwrap();
    String::from_utf8(ran.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn holes_stay_holes() {
    let (place, host) = (place(), server(&[]));
    let at = |name: &str| place.path().join(name);
    let holes = fs::File::create(at("holes")).unwrap();
    holes.set_len(50_000_000).unwrap();
    // Each piece has one block of data, and is a hole otherwise.
    for piece in 0..20 {
        std::os::unix::fs::FileExt::write_at(&holes, b"x", 1_000_000 + (piece << 18)).unwrap();
    }
    copy(&host).arg(at("holes")).arg(host.at(at("there"))).run_to(0);
    let there = fs::metadata(at("there")).unwrap();
    assert!(there.size() == 50_000_000 && there.blocks() * 512 < 200_000, "{} blocks", there.blocks());
    assert!(fs::read(at("holes")).unwrap() == fs::read(at("there")).unwrap());
}

#[test]
fn what_goes_to_nowhere_goes_over_the_way() {
    if no_root() {
        return;
    }
    const BYTES: u64 = 9_000_000;
    let link = Link::up(LinkSettings::with_rtt(Duration::ZERO)).unwrap();
    let (place, host) = (place(), Host::behind(&link));
    let source = file(&place.path().join("a"), BYTES);
    let before = fs::metadata("/dev/null").unwrap();
    let sent = || link.counters().near_to_far.forwarded_bytes;
    let had = sent();
    let ran = Copy::across(&link).to(&host).options("--transport sftp").arg(&source);
    let ran = ran.arg(host.at("/dev/null")).run_to(0);
    assert!(sent() - had > BYTES, "{} of {BYTES}", sent() - had);
    assert_eq!(ran.report["bytes"]["source_read"], BYTES);
    let after = fs::metadata("/dev/null").unwrap();
    assert_eq!((before.ino(), before.mode(), before.rdev()), (after.ino(), after.mode(), after.rdev()));
}

#[test]
fn a_stream_goes_there() {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (file(&place.path().join("a"), 9_000_000), place.path().join("b"));
    let mut command = Command::new(HAKOBU);
    command.args(["copy", "--transport", "sftp", "-"]).arg(host.at(&target));
    command.env("HAKOBU_SSH", host.sshd.ssh_command());
    let ran = command.stdin(fs::File::open(&source).unwrap()).stderr(Stdio::inherit()).status().unwrap();
    assert!(ran.success());
    assert!(fs::read(&source).unwrap() == fs::read(&target).unwrap());
}

#[test]
fn sync_removes_and_verify_reads_back() {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    let typed = [contents(&source), host.at(&target)];
    copy(&host).args(&typed).run_to(0);
    fs::create_dir_all(target.join("more/deep")).unwrap();
    fs::write(target.join("more/deep/x"), "x").unwrap();
    let draft = String::from_utf8(hakobu_core::path::draft_name(b"any")).unwrap();
    fs::write(target.join("more").join(draft), "of a run that was killed").unwrap();
    fs::set_permissions(source.join("large"), fs::Permissions::from_mode(0o640)).unwrap();
    let synced = Copy::sync().to(&host).options("--transport sftp --delete").args(&typed).run_to(0);
    assert_rsync_agrees(&source, &target, &[]);
    assert_eq!((synced.entries("deleted"), synced.entries("attributes_only")), (3, 1), "{:#}", synced.report);
    assert!(!target.join("more").exists());
    let verify = || Copy::verify().to(&host).options("--transport sftp").args(&typed);
    verify().run_to(0);
    // A large and a small file with equal size and time, but other content.
    for name in ["large", "empty file"] {
        let times = fs::metadata(target.join(name)).unwrap().modified().unwrap();
        let mut bytes = fs::read(target.join(name)).unwrap();
        match bytes.first_mut() {
            Some(first) => *first ^= 1,
            None => continue,
        }
        fs::write(target.join(name), bytes).unwrap();
        fs::File::options().write(true).open(target.join(name)).unwrap().set_modified(times).unwrap();
    }
    let found = verify().run_to(4);
    assert_eq!(found.entries("different"), 1, "{:#}", found.report);
    let compared = Copy::sync().to(&host).options("--transport sftp --compare digest").args(&typed).run_to(0);
    assert_eq!(compared.entries("updated"), 1);
    verify().run_to(0);
}

#[test]
fn what_is_removed_gives_nobody_the_rights_that_a_list_withheld() {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir_all(source.join("within")).unwrap();
    fs::create_dir(source.join("bare")).unwrap();
    // An access control list, version 2: owner, a named user, group, mask, others. Only the owner may do anything
    // that all others may not.
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, may, id) in
        [(1_u16, 7_u16, u32::MAX), (2, 0, 1), (4, 5, u32::MAX), (16, 5, u32::MAX), (32, 5, u32::MAX)]
    {
        list.extend([tag.to_le_bytes(), may.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    for directory in [&source, &source.join("within")] {
        setxattr(directory, "system.posix_acl_access", &list, XattrFlags::empty()).unwrap();
    }
    let typed = [contents(&source), host.at(&target)];
    let modes =
        || ["", "within", "bare"].map(|name| fs::metadata(target.join(name)).unwrap().mode() & 0o7777);
    copy(&host).args(&typed).run_to(0);
    let before = modes();
    assert_eq!(before[..2], [0o700, 0o700]);
    for directory in ["", "within", "bare"] {
        fs::write(target.join(directory).join("more"), "more").unwrap();
    }
    let synced =
        || Copy::sync().to(&host).options("--transport sftp --delete --max-delete 3").args(&typed).run_to(0);
    assert_eq!((synced().entries("deleted"), modes()), (3, before));
    assert_eq!((synced().entries("unchanged"), modes()), (3, before));
}

/// The server does not show hard links: while one name is compared, other names of the file change its time.
#[test]
fn names_of_one_file_are_compared_while_it_gets_another_time() {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source).unwrap();
    let sizes = [0, 100, 300_000, 2_000_000];
    for (number, size_bytes) in sizes.iter().enumerate() {
        let first = source.join(format!("{number}"));
        file(&first, *size_bytes);
        // This takes several requests.
        if !no_root() {
            std::os::unix::fs::chown(&first, Some(1000), Some(0)).unwrap();
        }
        fs::set_permissions(&first, fs::Permissions::from_mode(0o4430)).unwrap();
        for name in 0..4 {
            fs::hard_link(source.join(format!("{number}")), source.join(format!("{number}.{name}"))).unwrap();
        }
    }
    let typed = [contents(&source), host.at(&target)];
    copy(&host).args(&typed).run_to(0);
    for (number, _) in sizes.iter().enumerate() {
        let later = std::time::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
        fs::File::options()
            .write(true)
            .open(source.join(format!("{number}")))
            .unwrap()
            .set_modified(later)
            .unwrap();
    }
    let ran = copy(&host).args(["--compare", "digest"]).args(&typed).run_to(0);
    assert_eq!(ran.entries("updated"), 0, "{:#}", ran.report);
    assert_rsync_agrees(&source, &target, &[]);
}

/// Size and time of a symbolic link may be those of another one.
#[test]
fn a_symbolic_link_is_compared_by_its_text() {
    let (place, host) = (place(), server(&[]));
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    let link = |name: &str, text: &str| {
        let _ = fs::remove_file(source.join(name));
        std::os::unix::fs::symlink(text, source.join(name)).unwrap();
        let touched = Command::new("touch").args(["-h", "-d", "2020-01-01"]).arg(source.join(name)).status();
        assert!(touched.unwrap().success());
    };
    ["link", "stays"].iter().for_each(|name| link(name, "aaaa"));
    let typed = [
        [contents(&source), host.at(place.path().join("pushed"))],
        [contents(host.at(&source)), place.path().join("pulled").into()],
    ];
    let updated = || typed.each_ref().map(|typed| copy(&host).args(typed).run_to(0).entries("updated"));
    updated();
    link("link", "bbbb");
    assert_eq!(updated(), [1; 2]);
    for there in ["pushed", "pulled"] {
        assert_eq!(fs::read_link(place.path().join(there).join("link")).unwrap(), Path::new("bbbb"));
    }
    assert_eq!(updated(), [0; 2]);
}

#[test]
fn a_single_file_that_is_cut_is_told() {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    for (size_bytes, is_bytes) in
        [(3_000_000, [0, 1, 1 << 20, 2_999_999]), (5 << 20, [0, 1, 1 << 20, 4 << 20])]
    {
        fs::write(&source, vec![7; size_bytes]).unwrap();
        for bytes in is_bytes {
            fs::write(&target, vec![7; bytes]).unwrap();
            let verify = Copy::verify().to(&host).options("--transport sftp");
            let ran = verify.args(&[source.clone().into(), host.at(&target)]).run_to(4);
            assert_eq!(ran.entries("different"), 1, "{size_bytes} {bytes}: {:#}", ran.report);
        }
    }
}

#[test]
fn the_scheme_asks_for_it() {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (file(&place.path().join("a"), 100_000), place.path().join("b"));
    let mut typed = std::ffi::OsString::from("sftp://throwaway");
    typed.push(&target);
    let ran = Copy::new().to(&host).arg(&source).arg(&typed).run_to(0);
    assert_eq!(ran.report["transport"], "sftp");
    assert!(fs::read(&source).unwrap() == fs::read(&target).unwrap());
    let mut digest = Command::new(HAKOBU);
    digest.arg("digest").arg(&typed).env("HAKOBU_SSH", host.sshd.ssh_command());
    let said = String::from_utf8(digest.output().unwrap().stdout).unwrap();
    assert!(said.starts_with(&blake3_of(&source)), "{said}");
}

#[test]
fn a_short_run_does_not_log_in_for_nothing() {
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("a"), 1000);
    let target = place.path().join("target");
    for (transport, logins) in [("sftp", 1), ("ssh", 2)] {
        let before = host.logins();
        let copy = Copy::new().to(&host).options(&format!("--transport {transport} --lanes 8"));
        copy.arg(&source).arg(host.at(&target)).run_to(0);
        // On a busy machine the file may wait so long for its lane that another lane is opened.
        let logins = logins..=logins + 1;
        assert!(logins.contains(&(host.logins() - before)), "{transport}: {}", host.sshd.log());
        fs::remove_file(&target).unwrap();
    }
}
