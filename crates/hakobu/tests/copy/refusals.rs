//! Impossible requests are refused with a clear message, and nothing is changed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use hakobu_testkit::sshd::{Shell, SshdOptions, Sudo, User, no_root};

use crate::program::*;

#[test]
fn a_source_that_is_missing() {
    let (place, host) = (place(), Host::up());
    let (none, target) = (place.path().join("none"), place.path().join("target"));
    for typed in [
        [none.clone().into_os_string(), host.at(&target)],
        [host.at(&none), target.clone().into()],
        [host.at(&none), host.at_another(&target)],
        [contents(&none), target.clone().into()],
    ] {
        let ran = Copy::new().to(&host).args(&typed).run_to(1);
        let named = typed[0].to_str().unwrap().trim_end_matches('/').to_owned();
        ran.says(&[&format!("looking at the source {named}"), "no such file or directory"]);
        assert!(!target.exists());
    }
    // One of several sources is missing: nothing is copied.
    fs::write(place.path().join("there"), "x").unwrap();
    fs::create_dir(&target).unwrap();
    let ran = Copy::new().arg(place.path().join("there")).arg(&none).arg(&target).run_to(1);
    ran.says(&[none.to_str().unwrap()]);
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
}

#[test]
fn a_target_whose_parent_is_missing() {
    let (place, host) = (place(), Host::up());
    let source = tree(&place.path().join("source"));
    let target = place.path().join("no/such/target");
    for typed in [
        [contents(&source), host.at(&target)],
        [host.at(source.join("large")), target.clone().into()],
        [source.into_os_string(), target.clone().into()],
    ] {
        let ran = Copy::new().to(&host).args(&typed).run_to(1);
        ran.says(&["looking at the target", target.to_str().unwrap(), "create it first"]);
        assert!(!place.path().join("no").exists());
    }
}

/// Creates a directory that belongs to a user.
fn owned_by(user: &User) -> tempfile::TempDir {
    let place = place();
    std::os::unix::fs::chown(place.path(), Some(uid_of(user.name())), None).unwrap();
    place
}

#[test]
fn one_file_among_many_that_may_not_be_read() {
    if no_root() {
        return;
    }
    let user = User::create(Shell::Sh, &Sudo::Refused).unwrap();
    let (place, bin) = (owned_by(&user), place());
    install(HAKOBU, &bin.path().join("hakobu"));
    let host = Host::with(&SshdOptions {
        login: Some(user.name().to_owned()),
        path_dirs: vec![bin.path().to_owned()],
        ..SshdOptions::default()
    });
    let source = place.path().join("source");
    for index in 0..50 {
        fs::create_dir_all(source.join(format!("{}", index % 5))).unwrap();
        fs::write(source.join(format!("{}/file {index}", index % 5)), index.to_string()).unwrap();
    }
    file(&source.join("large"), 3_000_000);
    fs::create_dir(source.join("closed")).unwrap();
    fs::write(source.join("closed/inner"), "x").unwrap();
    for (name, mode) in [("3/file 13", 0o000), ("large", 0o600), ("closed", 0o700)] {
        fs::set_permissions(source.join(name), Permissions::from_mode(mode)).unwrap();
    }
    let local = place.path().join("local");
    let pulled = place.path().join("pulled");
    let hakobu = bin.path().join("hakobu");
    for (copy, target) in [
        (Copy::as_user(user.name(), &hakobu).arg(contents(&source)).arg(&local), &local),
        (Copy::new().to(&host).arg(contents(host.at(&source))).arg(&pulled), &pulled),
    ] {
        let ran = copy.run_to(3);
        assert_eq!(ran.report["outcome"], "partial");
        let mut failed: Vec<_> = ran.failures().into_iter().map(|(path, _)| path).collect();
        failed.sort();
        assert_eq!(failed, ["3/file 13", "closed", "large"], "{:#}", ran.report);
        assert!(
            ran.failures().iter().all(|(_, error)| error.contains("ermission denied")),
            "{:#}",
            ran.report
        );
        ran.says(&["failed: 3/file 13: ", "failed: closed: ", "failed: large: ", "3 failed"]);
        let failures = ran.report["failures"].as_array().unwrap();
        assert!(failures.iter().all(|failure| failure["at"].is_null()), "{:#}", ran.report);
        for index in (0..50).filter(|index| *index != 13) {
            let name = format!("{}/file {index}", index % 5);
            assert_eq!(fs::read_to_string(target.join(name)).unwrap(), index.to_string());
        }
        assert!(!target.join("large").exists() && !target.join("3/file 13").exists());
        assert!(drafts(target).is_empty());
    }
}

#[test]
fn a_target_that_may_not_be_written() {
    if no_root() {
        return;
    }
    let user = User::create(Shell::Sh, &Sudo::Refused).unwrap();
    let (place, bin) = (place(), place());
    install(HAKOBU, &bin.path().join("hakobu"));
    let host = Host::with(&SshdOptions {
        login: Some(user.name().to_owned()),
        path_dirs: vec![bin.path().to_owned()],
        ..SshdOptions::default()
    });
    let source = file(&place.path().join("source"), 5000);
    let closed = place.path().join("closed");
    fs::create_dir(&closed).unwrap();
    let ran = Copy::new().to(&host).arg(&source).arg(host.at(closed.join("target"))).run_to(1);
    let there = host.at(closed.join("target")).into_string().unwrap();
    ran.says(&[&format!("failed: source: making the file at {there}: permission denied")]);
    let failure = &ran.report["failures"][0];
    assert_eq!((&failure["path"], &failure["at"]), (&"source".into(), &there.into()));
    assert_eq!(fs::read_dir(&closed).unwrap().count(), 0);

    // A directory that cannot be entered.
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    let ran = Copy::new().to(&host).arg(&source).arg(host.at(closed.join("target"))).run_to(1);
    ran.says(&["target throwaway:", "ermission denied", "--sudo"]);

    // On this machine, `--sudo` is no remedy.
    let hakobu = bin.path().join("hakobu");
    let ran = Copy::as_user(user.name(), &hakobu).arg(closed.join("source")).arg("/tmp").run_to(1);
    ran.says(&["looking at the source /", "ermission denied", "run hakobu as a user who may"]);
    assert!(!ran.err.contains("--sudo"), "{}", ran.err);
}

#[test]
fn a_directory_where_a_file_should_go_and_the_reverse() {
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    fs::create_dir_all(source.join("directory")).unwrap();
    for name in ["file", "directory/inner", "other"] {
        fs::write(source.join(name), name).unwrap();
    }
    file(&source.join("large"), 3_000_000);
    for remote in [false, true] {
        let target = place.path().join(format!("target {remote}"));
        for name in ["file", "large"] {
            fs::create_dir_all(target.join(name).join("full")).unwrap();
        }
        fs::write(target.join("directory"), "a file").unwrap();
        let typed = if remote { host.at(&target) } else { target.clone().into() };
        let ran = Copy::new().to(&host).arg(contents(&source)).arg(&typed).run_to(3);
        assert_eq!(ran.failures().len(), 3, "{:#}", ran.report);
        let there = typed.to_str().unwrap();
        ran.says(&[
            &format!("failed: file: copying at {there}/file: the target has a directory where the source has a file"),
            &format!("failed: directory: copying at {there}/directory: the target has a file where the source has a"),
            "failed: large: ",
        ]);
        assert_same(&source.join("other"), &target.join("other"));
        assert_eq!(fs::read_to_string(target.join("directory")).unwrap(), "a file");
        assert!(target.join("file/full").exists() && target.join("large/full").exists());

        // A typed path behaves alike: a directory cannot replace a file.
        let file = target.join("other");
        let typed = if remote { host.at(&file) } else { file.clone().into() };
        let ran = Copy::new().to(&host).arg(contents(&source)).arg(typed).run_to(1);
        ran.says(&[
            file.to_str().unwrap(),
            "the source is a directory, and this is none; name another target",
        ]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "other");
    }
}

#[test]
fn source_and_target_that_are_the_same_or_nested() {
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    fs::create_dir_all(source.join("inner")).unwrap();
    fs::write(source.join("file"), "content").unwrap();
    fs::hard_link(source.join("file"), place.path().join("hard")).unwrap();
    symlink("source", place.path().join("link")).unwrap();
    let link = place.path().join("link");
    let path = |name: &str| source.join(name).into_os_string();
    let cases = [
        (path("file"), path("file"), "are the same"),
        (path("file"), place.path().join("hard").into(), "are the same"),
        (path("file"), contents(&source), "are the same"),
        (path("file"), link.join("file").into(), "are the same"),
        (contents(&source), source.clone().into(), "are the same"),
        (contents(&source), link.clone().into(), "are the same"),
        (contents(&source), path("inner"), "would contain itself"),
        (contents(&source), path("new"), "would contain itself"),
        (source.clone().into(), path("inner"), "would contain itself"),
        (contents(&link), link.join("inner/new").into(), "would contain itself"),
        (contents(path("inner")), source.clone().into(), "a directory that holds"),
    ];
    let before = fs::metadata(source.join("file")).unwrap().modified().unwrap();
    for (from, to, words) in &cases {
        for typed in [
            [from.clone(), to.clone()],
            [from.clone(), host.at(to)],
            [host.at(from), to.clone()],
            [host.at(from), host.at(to)],
            [host.at(from), host.at_another(to)],
        ] {
            if words.contains("contain") && to.to_str().unwrap().ends_with("inner/new") {
                continue;
            }
            let ran = Copy::new().to(&host).args(&typed).run_to(6);
            ran.says(&[words]);
            assert_eq!(ran.report["outcome"], "refused", "{typed:?}");
        }
    }
    assert_eq!(fs::read_to_string(source.join("file")).unwrap(), "content");
    assert_eq!(fs::metadata(source.join("file")).unwrap().modified().unwrap(), before);
    assert!(!source.join("new").exists() && fs::read_dir(source.join("inner")).unwrap().count() == 0);
    nothing_else(place.path());
}

/// A directory whose name is a prefix of the other's is not its parent.
#[test]
fn names_that_begin_alike_are_apart() {
    let place = place();
    let source = tree(&place.path().join("data"));
    let target = place.path().join("data2");
    Copy::new().arg(contents(&source)).arg(&target).run_to(0);
    assert_same(&source, &target);
}

fn nothing_else(place: &Path) {
    assert!(drafts(place).is_empty());
}

#[test]
fn a_bit_that_a_stranger_may_not_set_when_it_must_be_kept() {
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("source"), 10);
    fs::set_permissions(&source, Permissions::from_mode(0o4755)).unwrap();
    let pull = |name: &str, options: &str, code| {
        Copy::new().to(&host).options(options).arg(host.at(&source)).arg(place.path().join(name)).run_to(code)
    };
    let ran = pull("kept out", "", 3);
    assert_eq!(ran.lost("setid"), 1);
    ran.says(&[
        "partly done: 1 created",
        "not preserved: set-ID bits or capabilities of 1 entry, such as kept out at the target: ",
        "--allow setuid",
    ]);
    // The next run changes nothing and reports the loss again.
    let again = pull("kept out", "", 3);
    assert_eq!((again.entries("unchanged"), again.lost("setid")), (1, 1), "{:#}", again.report);
    let mode = |name: &str| fs::metadata(place.path().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("kept out"), 0o755);
    let allowed = pull("kept out", "--allow setuid", 0);
    assert_eq!((allowed.entries("attributes_only"), allowed.lost("setid")), (1, 0), "{:#}", allowed.report);
    assert_eq!(mode("kept out"), 0o4755);
    pull("required", "--require setid", 6).says(&["--require setid is not met"]);
}
