//! Where things come from and where they land.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hakobu_testkit::sshd::no_root;

use crate::program::*;

/// Copies a tree and checks it, then again to see that nothing is done twice.
#[track_caller]
fn there_and_again(host: &Host, typed: &[OsString; 2], source: &Path, target: &Path) -> Ran {
    let copy = || Copy::new().to(host).args(typed);
    let first = copy().run_to(0);
    assert_same(source, target);
    assert!(drafts(target).is_empty());
    assert!(first.entries("created") > 300 && first.entries("updated") == 0, "{:#}", first.report);
    let second = copy().run_to(0);
    assert_same(source, target);
    assert_eq!(second.entries("created") + second.entries("updated") + second.entries("attributes_only"), 0);
    assert_eq!(second.entries("unchanged"), first.entries("scanned"));
    assert_eq!(second.report["bytes"]["target_written"], 0);
    first
}

#[test]
fn a_tree_stays_on_this_machine() {
    let (place, host) = (place(), Host::up());
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    let first = there_and_again(&host, &[contents(&source), target.clone().into()], &source, &target);
    assert_eq!(first.report["transport"], "local");
    assert!(first.report["cipher"].is_null());
}

#[test]
fn a_tree_is_pushed() {
    let (place, host) = (place(), Host::up());
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    let first = there_and_again(&host, &[contents(&source), host.at(&target)], &source, &target);
    assert_eq!(first.report["transport"], "agent");
    let wire = first.report["bytes"]["wire_sent"].as_u64().unwrap();
    assert!(wire > first.report["bytes"]["target_written"].as_u64().unwrap());
    host.wait_for_no_agent();
}

#[test]
fn a_tree_is_pulled() {
    let (place, host) = (place(), Host::up());
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    there_and_again(&host, &[contents(host.at(&source)), target.clone().into()], &source, &target);
    host.wait_for_no_agent();
}

#[test]
fn a_tree_goes_from_host_to_host() {
    let (place, host) = (place(), Host::up());
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    let typed = [contents(host.at(&source)), host.at_another(&target)];
    let first = there_and_again(&host, &typed, &source, &target);
    // The two met without this machine in between.
    assert_eq!(first.report["transport"], "agent");
    host.wait_for_no_agent();
}

#[test]
fn a_tree_stays_on_a_host() {
    let (place, host) = (place(), Host::up());
    let (source, target) = (tree(&place.path().join("source")), place.path().join("target"));
    there_and_again(&host, &[contents(host.at(&source)), host.at(&target)], &source, &target);
    host.wait_for_no_agent();
}

/// One file in all directions, with the digest that everybody computes.
#[test]
fn a_single_file_has_the_digest_that_b3sum_prints() {
    let (place, host) = (place(), Host::up());
    // Sizes around those of pieces, chunks and packs.
    for size in [0, 1, 131_073, 9_000_001] {
        let source = file(&place.path().join(format!("source {size}")), size);
        let digest = blake3::hash(&fs::read(&source).unwrap()).to_hex().to_string();
        let target = place.path().join("target");
        for typed in [
            [source.clone().into(), target.clone().into_os_string()],
            [source.clone().into(), host.at(&target)],
            [host.at(&source), target.clone().into()],
            [host.at(&source), host.at_another(&target)],
        ] {
            let _ = fs::remove_file(&target);
            let ran = Copy::new().to(&host).args(&typed).run_to(0);
            assert_same(&source, &target);
            assert_eq!(ran.report["digest_blake3"], *digest, "{typed:?}");
            assert_eq!(ran.report["verified"], "wire");
            assert_eq!(ran.entries("created"), 1);
            assert!(ran.err.contains(&format!("blake3 {digest}")), "{}", ran.err);
        }
        fs::remove_file(&source).unwrap();
    }
}

/// The names below a directory, links and directories among them, in order.
fn names(root: &Path) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            found.push(entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

type Landing = (&'static [&'static str], &'static str, &'static [&'static str], &'static [&'static str]);

/// Typed sources and target, the entries that exist before, and those that exist afterwards.
const LANDINGS: [Landing; 13] = [
    (&["dir"], "new", &[], &["new", "new/dir", "new/dir/one"]),
    (&["dir/"], "new", &[], &["new", "new/one"]),
    (&["dir"], "there", &["there/"], &["there", "there/dir", "there/dir/one"]),
    (&["dir/"], "there", &["there/"], &["there", "there/one"]),
    (&["dir/."], "there/", &["there/"], &["there", "there/one"]),
    (&["file"], "new", &[], &["new"]),
    (&["file"], "new/", &[], &["new", "new/file"]),
    (&["file"], "there", &["there/"], &["there", "there/file"]),
    (&["file"], "old", &["old"], &["old"]),
    (&["link"], "new", &[], &["new"]),
    (&["link/"], "new", &[], &["new", "new/one"]),
    (&["file", "dir", "link"], "new", &[], &["new", "new/dir", "new/dir/one", "new/file", "new/link"]),
    (&["dir/", "more/"], "there", &["there/"], &["there", "there/one", "there/two"]),
];

#[test]
fn things_land_where_rsync_puts_them() {
    let (place, host) = (place(), Host::up());
    let from = place.path().join("from");
    for directory in ["dir", "more"] {
        fs::create_dir_all(from.join(directory)).unwrap();
    }
    for name in ["file", "dir/one", "more/two"] {
        fs::write(from.join(name), name).unwrap();
    }
    std::os::unix::fs::symlink("dir", from.join("link")).unwrap();
    for (index, (sources, target, before, after)) in LANDINGS.iter().enumerate() {
        for pull in [false, true] {
            let to = place.path().join(format!("to {index} {pull}"));
            fs::create_dir(&to).unwrap();
            for name in *before {
                match name.strip_suffix('/') {
                    Some(name) => fs::create_dir(to.join(name)).unwrap(),
                    None => fs::write(to.join(name), "old content").unwrap(),
                }
            }
            let typed = |at: &Path, name: &str| OsString::from(format!("{}/{name}", at.display()));
            let sources = sources.iter().map(|name| typed(&from, name));
            let sources: Vec<_> = sources.map(|path| if pull { host.at(path) } else { path }).collect();
            let target = typed(&to, target);
            Copy::new().to(&host).args(&sources).arg(target).run_to(0);
            assert_eq!(names(&to), *after, "{sources:?}");
        }
    }
}

/// As rsync: of files of one name that of the source named first is copied.
#[test]
fn sources_that_land_on_one_place_are_merged_and_the_first_wins() {
    let (place, host) = (place(), Host::up());
    let from = place.path().join("from");
    for (name, size) in [
        ("one/small", 10),
        ("one/sub/large", 2_000_000),
        ("two/small", 20),
        ("two/other", 30),
        ("two/sub/large", 3_000_000),
        ("two/sub/more", 40),
        ("small", 50),
    ] {
        fs::create_dir_all(from.join(name).parent().unwrap()).unwrap();
        file(&from.join(name), size);
    }
    let cases = [
        (&["one/", "two/", "small"][..], [("small", "one/small"), ("sub/large", "one/sub/large")]),
        (&["two/", "one/", "small"], [("small", "two/small"), ("sub/large", "two/sub/large")]),
        (&["small", "two/sub", "one/"], [("small", "small"), ("sub/large", "two/sub/large")]),
    ];
    for (number, (sources, expected)) in cases.iter().enumerate() {
        for way in ["local", "push", "pull"] {
            let to = place.path().join(format!("to {number} {way}"));
            let typed = |name: &&str| OsString::from(format!("{}/{name}", from.display()));
            let sources = sources.iter().map(typed);
            let sources: Vec<_> = sources.map(|it| if way == "pull" { host.at(it) } else { it }).collect();
            let target = if way == "push" { host.at(&to) } else { to.clone().into() };
            for round in 0..2 {
                // An entry that has the name of one from an earlier source is not copied, and is reported.
                let ran = Copy::new().to(&host).args(&sources).arg(&target).run_to(3);
                ran.says(&["an earlier source has an entry of this name"]);
                for (name, winner) in expected {
                    assert_same(&from.join(winner), &to.join(name));
                }
                let count = names(&to).len() as u64;
                let counted = ran.entries(if round == 0 { "created" } else { "unchanged" });
                assert!(counted == count || counted == count + 1, "{count}: {:#}", ran.report);
                let left_out = ran.entries("skipped") + ran.entries("failed");
                assert_eq!(ran.entries("scanned"), count + 1 + left_out, "{:#}", ran.report);
                assert_eq!((ran.entries("updated"), ran.entries("only_in_target")), (0, 0));
            }
        }
    }
}

#[test]
fn a_typed_name_may_be_any_bytes() {
    let (place, host) = (place(), Host::up());
    let name = OsStr::from_bytes(b"-\xff\xfe \n\x1b[2J'\"$(x)`*?:b");
    let source = file(&place.path().join(name), 3000);
    let other = OsStr::from_bytes(b"\xf0 target\\");
    for (typed, target) in [
        ([source.clone().into(), host.at(place.path().join(other))], place.path().join(other)),
        ([host.at(&source), contents(place.path().join("pulled"))], place.path().join("pulled").join(name)),
    ] {
        let ran = Copy::new().to(&host).args(&typed).run_to(0);
        assert_same(&source, &target);
        assert!(!ran.err.contains('\x1b'), "{}", ran.err);
        let end = if target.starts_with(place.path().join("pulled")) { "source" } else { "target" };
        assert!(ran.report[end]["typed"].as_str().unwrap().contains('\u{fffd}'));
        assert!(ran.report[end]["typed_base64"].is_string(), "{:#}", ran.report);
    }
}

#[test]
fn owners_are_kept_by_number_and_the_mask_changes_nothing() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    fs::create_dir_all(source.join("directory")).unwrap();
    for (name, owner) in [("a", 12_345), ("directory/b", 54_321)] {
        file(&source.join(name), 100);
        std::os::unix::fs::chown(source.join(name), Some(owner), Some(owner + 1)).unwrap();
    }
    file(&source.join("large"), 3_000_000);
    std::os::unix::fs::chown(source.join("large"), Some(7), Some(8)).unwrap();
    std::os::unix::fs::chown(source.join("directory"), Some(5), Some(6)).unwrap();
    for name in ["a", "large", "directory"] {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(source.join(name), fs::Permissions::from_mode(0o6777)).unwrap();
    }
    for (typed, name) in [(contents(&source), "local"), (contents(host.at(&source)), "pulled")] {
        let target = place.path().join(name);
        let mut masked = std::process::Command::new("sh");
        masked.args(["-c", "umask 077; exec \"$@\"", "sh", HAKOBU]);
        let code = if name == "pulled" { 3 } else { 0 };
        Copy::by(masked).to(&host).arg(typed).arg(&target).run_to(code);
        assert_same_but_root_mode(&source, &target, name);
    }
    let target = place.path().join("pushed");
    Copy::new().to(&host).arg(contents(&source)).arg(host.at(&target)).run_to(0);
    assert_same(&source, &target);
}

/// A stranger's files do not become setuid here.
fn assert_same_but_root_mode(source: &Path, target: &Path, name: &str) {
    use hakobu_testkit::tree_difference::{EntryDifference, compare};
    let differences = compare(source, target).unwrap();
    let allowed =
        |what: &EntryDifference| name == "pulled" && matches!(what, EntryDifference::Mode(0o6777, 0o777));
    assert!(differences.iter().all(|difference| allowed(&difference.what)), "{differences:#?}");
    assert_eq!(differences.is_empty(), name == "local", "{differences:#?}");
}
