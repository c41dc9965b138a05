//! Different names of the same place, names of descriptors, unreliable inode numbers, and names that differ in case.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hakobu_testkit::sshd::no_root;

use crate::program::*;

/// A mount that is removed at the end of the test.
pub struct Mounted(PathBuf);

impl Mounted {
    pub fn bind(what: &Path, at: &Path) -> Self {
        fs::create_dir_all(at).unwrap();
        Self::new(&["--bind"], what, at)
    }

    fn new(options: &[&str], what: &Path, at: &Path) -> Self {
        assert!(Command::new("mount").args(options).arg(what).arg(at).status().unwrap().success());
        Self(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Returns all paths below a directory, and the content of files.
fn picture(root: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                directories.push(path.clone());
            }
            found.push((path.clone(), fs::read(&path).ok()));
        }
    }
    found.sort();
    found
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Runs a copy, and fails unless it is refused and changes nothing.
#[track_caller]
fn assert_refused(run: Copy, root: &Path) {
    let before = picture(root);
    run.run_to(6);
    assert_eq!(picture(root), before);
}

#[test]
fn a_bind_mount_is_the_place_it_shows() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let (big, bind) = (place.path().join("big"), place.path().join("bind"));
    write(&big.join("sub/file"), "source");
    write(&big.join("other"), "other");
    let _mounted = Mounted::bind(&big.join("sub"), &bind);
    let delete = "--delete --max-delete 100%";
    assert_refused(Copy::sync().options(delete).arg(contents(&bind)).arg(&big), place.path());
    assert_refused(Copy::new().arg(&big).arg(contents(&bind)), place.path());
    assert_refused(Copy::new().arg(contents(&big)).arg(bind.join("new")), place.path());
    assert_refused(Copy::new().arg(big.join("sub/file")).arg(bind.join("file")), place.path());
    // One of two sources would land on itself.
    let both = [bind.join("file"), big.join("other")];
    assert_refused(Copy::new().args(&both).arg(contents(big.join("sub"))), place.path());
    // The target is this machine under another name, with and without an agent.
    for transport in ["auto", "sftp"] {
        let to = || Copy::sync().to(&host).options(delete).options(&format!("--transport {transport}"));
        assert_refused(to().arg(contents(&bind)).arg(host.at(&big)), place.path());
        assert_refused(to().arg(host.at(contents(&bind))).arg(&big), place.path());
    }
    let two = Copy::sync().to(&host).options(delete).arg(host.at(contents(&bind))).arg(host.at_another(&big));
    assert_refused(two, place.path());
}

#[test]
fn a_mount_within_one_end_that_shows_the_other_is_left_alone() {
    if no_root() {
        return;
    }
    for (what, at) in [
        // By a mount, the source contains a part of the target or the whole target, or the reverse.
        ("backup/export", "srv/export"),
        ("", "srv/all"),
        ("srv/a", "backup/m"),
        ("", "backup/m"),
    ] {
        let place = place();
        let root = place.path();
        let (srv, backup) = (root.join("srv"), root.join("backup"));
        write(&srv.join("a/file"), "source");
        write(&backup.join("export/deep/file"), "target");
        write(&backup.join("old"), "old");
        let _mounted = Mounted::bind(&root.join(what), &root.join(at));
        let sync = |rule: &str| {
            let run = Copy::sync().options("--delete --max-delete 100%").options(rule);
            run.arg(contents(&srv)).arg(contents(&backup))
        };
        let exported = fs::read(backup.join("export/deep/file")).unwrap();
        assert_refused(sync(""), root);
        // If a rule may exclude the place, the check happens during the run.
        sync("--exclude nothing").run_to(6);
        assert_eq!(fs::read(srv.join("a/file")).unwrap(), b"source", "{what} at {at}");
        assert_eq!(fs::read(backup.join("export/deep/file")).unwrap(), exported, "{what} at {at}");
        assert!(backup.join("old").exists(), "nothing is deleted after failures");
        let rule = format!("--exclude /{}", Path::new(at).file_name().unwrap().display());
        sync(&rule).run_to(0);
        assert_eq!(fs::read(srv.join("a/file")).unwrap(), b"source", "{what} at {at}");
    }
}

#[test]
fn layers_of_an_overlay_are_it() {
    if no_root() {
        return;
    }
    let place = place();
    let at = |name: &str| place.path().join(name);
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(at(name)).unwrap();
    }
    write(&at("lower/below"), "below");
    write(&at("upper/above"), "above");
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        at("lower").display(),
        at("upper").display(),
        at("work").display()
    );
    let _mounted = Mounted::new(&["-t", "overlay", "-o", &options], Path::new("overlay"), &at("merged"));
    for (source, target) in
        [("upper", "merged"), ("merged", "upper"), ("merged", "lower"), ("merged", "lower/new")]
    {
        assert_refused(Copy::new().arg(contents(at(source))).arg(at(target)), &at("upper"));
        assert_eq!(picture(&at("lower")).len(), 1);
    }
    // A lower layer is only read, so its files may be copied onto the merged directory.
    Copy::new().arg(contents(at("lower"))).arg(at("merged")).run_to(0);
}

#[test]
fn a_further_name_of_a_source_file_is_not_written_to_in_place() {
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    write(&source.join("a"), "of the source");
    write(&source.join("b"), "the new content of b, which is longer");
    fs::create_dir(&target).unwrap();
    fs::hard_link(source.join("a"), target.join("b")).unwrap();
    Copy::sync().options("--in-place").arg(contents(&source)).arg(&target).run_to(0);
    assert_eq!(fs::read(source.join("a")).unwrap(), b"of the source");
    assert_eq!(fs::read(target.join("b")).unwrap(), fs::read(source.join("b")).unwrap());
    // This holds as well if only the content differs. `a` is excluded, because it loses a name during the run and would
    // count as changed.
    for size_bytes in [1000, 3_000_000] {
        fs::write(source.join("a"), vec![1; size_bytes]).unwrap();
        fs::write(source.join("b"), vec![2; size_bytes]).unwrap();
        fs::remove_file(target.join("b")).unwrap();
        fs::hard_link(source.join("a"), target.join("b")).unwrap();
        let sync = Copy::sync().options("--in-place --compare digest --exclude /a");
        sync.arg(contents(&source)).arg(&target).run_to(0);
        assert!(fs::read(source.join("a")).unwrap() == vec![1; size_bytes], "{size_bytes}");
        assert!(fs::read(target.join("b")).unwrap() == vec![2; size_bytes], "{size_bytes}");
    }
    // Two names of one file, each named by itself.
    fs::hard_link(source.join("a"), source.join("c")).unwrap();
    for run in [Copy::new(), Copy::sync().options("--in-place")] {
        assert_refused(run.arg(source.join("a")).arg(source.join("c")), &source);
    }
}

#[test]
fn names_of_one_file_at_the_target_are_not_written_to_in_place() {
    // Another file system than the source's.
    let (place, other) = (place(), tempfile::tempdir().unwrap());
    let (source, target) = (place.path().join("source"), other.path().join("target"));
    assert_ne!(
        fs::metadata(place.path()).unwrap().dev(),
        fs::metadata(other.path()).unwrap().dev(),
        "the folder for temporary files is on another file system"
    );
    for size_bytes in [100, 3_000_000] {
        for options in ["--in-place --lanes 1", "--in-place --lanes 4", "--in-place --compare digest"] {
            fs::create_dir_all(&source).unwrap();
            fs::create_dir(&target).unwrap();
            let content = |name: &str| vec![name.as_bytes()[0]; size_bytes];
            // The target has the content of `same` already, under the inode whose other names are given.
            let names = ["a", "b", "same"];
            for name in names {
                fs::write(source.join(name), content(name)).unwrap();
            }
            fs::write(target.join("same"), content("same")).unwrap();
            let mtime = fs::metadata(source.join("same")).unwrap().modified().unwrap();
            fs::File::open(target.join("same")).unwrap().set_modified(mtime).unwrap();
            fs::hard_link(target.join("same"), target.join("a")).unwrap();
            fs::hard_link(target.join("same"), target.join("b")).unwrap();
            for name in ["a", "b"] {
                let later = mtime + Duration::from_secs(10);
                fs::File::open(source.join(name)).unwrap().set_modified(later).unwrap();
            }
            Copy::sync().options(options).arg(contents(&source)).arg(&target).run_to(0);
            for name in names {
                assert!(
                    fs::read(target.join(name)).unwrap() == content(name),
                    "{name}: {options} {size_bytes}"
                );
            }
            fs::remove_dir_all(&source).unwrap();
            fs::remove_dir_all(&target).unwrap();
        }
    }
}

/// Returns the paths at which a comparison found that a name is one of another file.
fn of_links(found: &Ran) -> Vec<String> {
    let differences = found.report["differences"].as_array().unwrap();
    let of_links = differences.iter().filter(|it| it["what"] == "links");
    of_links.map(|it| it["path"].as_str().unwrap().to_owned()).collect()
}

/// Makes a name a file of its own, with everything else as it was. `copied`: as `cp -p` and `mv` do.
fn separate(path: &Path, copied: bool) {
    let aside = path.with_extension("aside");
    let copy = |from: &Path, to: &Path| {
        assert!(Command::new("cp").arg("-p").args([from, to]).status().unwrap().success());
    };
    copy(path, &aside);
    if copied {
        fs::rename(&aside, path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
        copy(&aside, path);
        fs::remove_file(&aside).unwrap();
    }
}

/// Returns the names of each file below a directory, for files with several.
fn names_of_files(root: &Path) -> Vec<Vec<PathBuf>> {
    let mut files = std::collections::BTreeMap::<u64, Vec<PathBuf>>::new();
    for (path, _) in picture(root) {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if !metadata.is_dir() {
            files.entry(metadata.ino()).or_default().push(path.strip_prefix(root).unwrap().to_owned());
        }
    }
    let mut files: Vec<_> = files.into_values().filter(|names| names.len() > 1).collect();
    files.sort();
    files
}

/// Names of one file that become separate files at the source, or names of other files, do so at the target as well.
#[test]
fn names_that_became_files_of_their_own_are_no_longer_linked() {
    let host = Host::up();
    for (options, is_far) in [("", true), ("--in-place", false), ("--compare digest", false)] {
        let place = place();
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        let at = |name: &str| source.join(name);
        for size_bytes in [3000, 3_000_000] {
            fs::create_dir_all(at(&format!("{size_bytes}"))).unwrap();
            let at = |name: &str| at(&format!("{size_bytes}")).join(name);
            for (first, others) in
                [("a", vec!["b", "c"]), ("d", vec!["e"]), ("f", vec!["g"]), ("h", vec!["i"])]
            {
                file(&at(first), size_bytes);
                others.iter().for_each(|other| fs::hard_link(at(first), at(other)).unwrap());
            }
            fs::copy(at("f"), at("h")).unwrap();
            let time = fs::metadata(at("f")).unwrap().modified().unwrap();
            fs::File::options().write(true).open(at("h")).unwrap().set_modified(time).unwrap();
        }
        symlink("text", at("link")).unwrap();
        fs::hard_link(at("link"), at("same link")).unwrap();
        let there = if is_far { host.at(&target) } else { target.clone().into() };
        let typed = [contents(&source), there];
        Copy::sync().to(&host).args(&typed).run_to(0);
        assert_eq!(names_of_files(&source).len(), 9);
        assert_eq!(names_of_files(&source), names_of_files(&target));
        for size_bytes in [3000, 3_000_000] {
            let at = |name: &str| at(&format!("{size_bytes}")).join(name);
            separate(&at("b"), true);
            separate(&at("e"), false);
            // The names of two equal files are grouped in another way.
            fs::rename(at("g"), at("aside")).unwrap();
            fs::rename(at("i"), at("g")).unwrap();
            fs::rename(at("aside"), at("i")).unwrap();
        }
        let found = Copy::verify().to(&host).args(&typed).run_to(4);
        let of_links = of_links(&found);
        assert_eq!(of_links.len(), 2 * 4, "{of_links:?}");
        let planned = Copy::sync().to(&host).options(&format!("{options} --dry-run")).args(&typed).run_to(0);
        let ran = Copy::sync().to(&host).options(options).args(&typed).run_to(0);
        // A third name of the latter goes along with another one.
        assert_eq!(planned.entries("updated"), 2 * 5, "{:#}", planned.report);
        assert_eq!(ran.entries("updated"), 2 * 5, "{:#}", ran.report);
        assert_eq!(names_of_files(&source), names_of_files(&target), "{options} {is_far}");
        assert_same(&source, &target);
        let again = Copy::sync().to(&host).options(options).args(&typed).run_to(0);
        assert_eq!(again.entries("unchanged"), again.entries("scanned"), "{:#}", again.report);
        Copy::verify().to(&host).args(&typed).run_to(0);
    }
}

/// A snapshot made of hard links, as by `cp -al`, keeps what it shares with the target.
#[test]
fn names_outside_the_target_are_no_difference() {
    let place = place();
    let (source, target, snapshot) =
        (place.path().join("source"), place.path().join("target"), place.path().join("snapshot"));
    for name in ["a", "b", "c"] {
        write(&source.join(name), "content");
    }
    fs::hard_link(source.join("c"), source.join("d")).unwrap();
    let typed = [contents(&source), target.clone().into()];
    Copy::sync().args(&typed).run_to(0);
    assert!(Command::new("cp").arg("-al").args([&target, &snapshot]).status().unwrap().success());
    Copy::verify().args(&typed).run_to(0);
    let ran = Copy::sync().args(&typed).run_to(0);
    assert_eq!(ran.entries("unchanged"), ran.entries("scanned"), "{:#}", ran.report);
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    for name in ["a", "b", "c", "d"] {
        assert_eq!(inode(&target.join(name)), inode(&snapshot.join(name)));
    }
    // With `--preserve no-hardlinks` they are not compared at all.
    separate(&source.join("d"), true);
    let ran = Copy::sync().options("--preserve no-hardlinks").args(&typed).run_to(0);
    assert_eq!(ran.entries("updated"), 0, "{:#}", ran.report);
    assert_eq!(inode(&target.join("c")), inode(&target.join("d")));
    let ran = Copy::sync().args(&typed).run_to(0);
    assert_eq!(ran.entries("updated"), 1, "{:#}", ran.report);
    assert_ne!(inode(&target.join("c")), inode(&target.join("d")));
}

/// Size and time of a symbolic link may be those of another one.
#[test]
fn a_symbolic_link_is_compared_by_its_text() {
    let (place, host) = (place(), Host::up());
    let (source, target, pulled) =
        (place.path().join("source"), place.path().join("target"), place.path().join("pulled"));
    fs::create_dir(&source).unwrap();
    let link = |name: &str, text: &str| {
        let _ = fs::remove_file(source.join(name));
        symlink(text, source.join(name)).unwrap();
        let touched = Command::new("touch").args(["-h", "-d", "2020-01-01"]).arg(source.join(name)).status();
        assert!(touched.unwrap().success());
    };
    for number in 0..50 {
        link(&number.to_string(), "aaaa");
    }
    fs::hard_link(source.join("0"), source.join("0 too")).unwrap();
    let all = [
        [contents(&source), target.clone().into()],
        [contents(&source), host.at(place.path().join("pushed"))],
        [contents(host.at(&source)), pulled.clone().into()],
    ];
    let copy = |options: &str| {
        all.each_ref()
            .map(|typed| Copy::new().to(&host).options(options).args(typed).run_to(0).entries("updated"))
    };
    copy("");
    link("0", "bbbb");
    fs::remove_file(source.join("0 too")).unwrap();
    fs::hard_link(source.join("0"), source.join("0 too")).unwrap();
    link("49", "cccc");
    assert_eq!(copy("--dry-run"), [3; 3]);
    assert_eq!(copy(""), [3; 3]);
    for there in [target, place.path().join("pushed"), pulled] {
        for (name, text) in [("0", "bbbb"), ("0 too", "bbbb"), ("1", "aaaa"), ("49", "cccc")] {
            assert_eq!(fs::read_link(there.join(name)).unwrap(), Path::new(text), "{name}");
        }
        assert_eq!(names_of_files(&there), names_of_files(&source));
    }
    assert_eq!(copy(""), [0; 3]);
}

#[test]
fn a_link_to_a_disk_that_is_not_mounted_stays() {
    let (place, host) = (place(), Host::up());
    let (source, backup) = (place.path().join("source"), place.path().join("backup"));
    write(&source.join("file"), "content");
    symlink("/nowhere/disk", &backup).unwrap();
    let within = backup.join("photos");
    for typed in [contents(&backup), contents(contents(&backup)), within.clone().into(), contents(&within)] {
        for transport in ["auto", "sftp"] {
            for target in [typed.clone(), host.at(&typed)] {
                let run = Copy::new().to(&host);
                let run =
                    if target == typed { run } else { run.options(&format!("--transport {transport}")) };
                assert_eq!(run.arg(contents(&source)).arg(&target).run().code, Some(1), "{target:?}");
                assert_eq!(fs::read_link(&backup).unwrap(), Path::new("/nowhere/disk"), "{target:?}");
            }
        }
    }
}

/// Runs a line in a shell, which can open descriptors.
fn by_shell(directory: &Path, line: &str) -> Output {
    let mut shell = Command::new("bash");
    shell.args(["-c", line]).current_dir(directory).env("H", HAKOBU).env("HAKOBU_SETTINGS", "none");
    shell.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn names_of_descriptors_are_streams() {
    let place = place();
    write(&place.path().join("in"), "data");
    fs::create_dir(place.path().join("d")).unwrap();
    for (line, code, expected) in [
        ("$H copy -q <(printf data) out", 0, Some("data")),
        ("$H copy -q /dev/stdin out <in", 0, Some("data")),
        ("cat in | $H copy -q /dev/stdin out", 0, Some("data")),
        ("$H copy -q /dev/fd/7 out 7<in", 0, Some("data")),
        ("exec 7<in; $H copy -q /proc/$$/fd/7 out; exit $?", 0, Some("data")),
        // As with `cp`, the whole file is copied, even if a part was read before.
        ("(read -n 2; $H copy -q /dev/stdin out) <in", 0, Some("data")),
        ("$H copy -q /dev/fd/99 out", 1, None),
        ("$H copy -q /dev/fd/7 out 7<d", 2, None),
        ("$H copy -q - out <&-", 1, None),
        ("$H copy -q in /dev/stdout >out", 0, Some("data")),
        ("printf more >out; $H copy -q in /dev/stdout >>out", 0, Some("moredata")),
        ("$H copy -q in /proc/self/fd/7 7>out", 0, Some("data")),
        (
            "printf kept >out; $H copy -q in /dev/stderr 2>>out; rc=$?; head -c 4 out >o; mv o out; exit $rc",
            2,
            Some("kept"),
        ),
        ("printf kept >out; exec 7<>out; $H copy -q in /proc/$$/fd/7; exit $?", 2, Some("kept")),
        (
            "ln -s /dev/stdin l; $H copy -q l out <in; readlink out >o; rm l out; mv o out",
            0,
            Some("/dev/stdin\n"),
        ),
        ("$H digest in >/dev/full", 1, None),
        ("$H digest in >&-", 1, None),
        ("$H copy -q in - >&-", 1, None),
        ("$H copy --json in out >&-; rc=$?; rm -f out; exit $rc", 1, None),
        ("$H --version >&-", 1, None),
    ] {
        let ran = by_shell(place.path(), line);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{line}: {said}");
        let out = place.path().join("out");
        assert_eq!(fs::read_to_string(&out).ok().as_deref(), expected, "{line}: {said}");
        let _ = fs::remove_file(out);
    }
    assert!(fs::symlink_metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn pipes_and_devices_that_are_named_are_not_replaced() {
    let place = place();
    let source = file(&place.path().join("in"), 10);
    let pipe = place.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for target in [pipe.as_path(), Path::new("/dev/full"), Path::new("/dev/zero"), Path::new("/dev/tty")] {
        Copy::new().arg(&source).arg(target).run_to(2);
    }
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn of_two_sources_with_one_name_inside_the_second_fails() {
    let (place, host) = (place(), Host::up());
    for (source, content) in [("p", "first"), ("q", "second")] {
        write(&place.path().join(source).join("x/f"), content);
        write(&place.path().join(source).join("x").join(source), content);
    }
    let sources = ["p/x", "q/x"].map(|source| place.path().join(source));
    for transport in ["here", "auto", "sftp"] {
        let both = place.path().join(transport);
        fs::create_dir(&both).unwrap();
        let (run, target) = match transport {
            "here" => (Copy::new(), both.clone().into()),
            _ => (Copy::new().to(&host).options(&format!("--transport {transport}")), host.at(&both)),
        };
        let ran = run.args(&sources).arg(target).run_to(3);
        assert!(
            matches!(&ran.failures()[..], [(path, why)] if path == "x/f" && why.contains("earlier source"))
        );
        assert_eq!(fs::read(both.join("x/f")).unwrap(), b"first");
        assert_eq!(fs::read_dir(both.join("x")).unwrap().count(), 3);
    }
    // An excluded entry does not conflict with others.
    let run = Copy::new().options("--exclude f").args(&sources).arg(contents(place.path().join("ruled")));
    run.run_to(0);
}

/// mergerfs shows inode numbers of two file systems as if they were of one. Everything else is equal as well here.
#[test]
fn one_number_of_two_files_is_no_hard_link() {
    if no_root() {
        return;
    }
    let place = place();
    let at = |name: &str| place.path().join(name);
    let branches = ["one", "two"].map(|name| {
        let branch = Small::mount(&at(name), "size=1m");
        for (file, content) in [("", name), ("-long", "longer content")] {
            write(&at(name).join(format!("{name}{file}")), content);
            fs::hard_link(at(name).join(format!("{name}{file}")), at(name).join(format!("{name}{file}-too")))
                .unwrap();
        }
        branch
    });
    let time = fs::FileTimes::new()
        .set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000));
    for name in ["one/one", "two/two", "one/one-long", "two/two-long"] {
        fs::File::options().write(true).open(at(name)).unwrap().set_times(time).unwrap();
    }
    fs::create_dir(at("merged")).unwrap();
    let mut mergerfs = Command::new("mergerfs");
    mergerfs.args(["-o", "use_ino,inodecalc=passthrough"]);
    mergerfs.arg(format!("{}:{}", at("one").display(), at("two").display())).arg(at("merged"));
    let ran = mergerfs.output().unwrap_or_else(|error| panic!("{error}; install mergerfs"));
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let _merged = Mounted(at("merged"));
    let inode = |name: &str| fs::metadata(at("merged").join(name)).unwrap().ino();
    assert_eq!((inode("one"), inode("one-long")), (inode("two"), inode("two-long")), "the numbers lie");
    Copy::new().arg(contents(at("merged"))).arg(at("target")).run_to(0);
    let there = |name: &str| at("target").join(name);
    for name in ["one", "one-too", "two", "two-too"] {
        assert_eq!(fs::read_to_string(there(name)).unwrap(), name[..3], "{name}");
    }
    let inode = |name: &str| fs::metadata(there(name)).unwrap().ino();
    assert_eq!(inode("one"), inode("one-too"));
    let again = Copy::new().arg(contents(at("merged"))).arg(at("target")).run_to(0);
    assert_eq!((again.entries("created"), again.entries("updated")), (0, 0));
    Copy::verify().arg(contents(at("merged"))).arg(at("target")).run_to(0);
    drop(branches);
}

/// Hard links on FUSE are preserved, also for large files, after their content is compared. Large files with the same
/// inode number but other content are separate.
#[test]
fn names_of_one_large_file_on_fuse_are_linked() {
    if no_root() {
        return;
    }
    let place = place();
    let at = |name: &str| place.path().join(name);
    ["back", "mounted"].into_iter().for_each(|name| fs::create_dir(at(name)).unwrap());
    for (name, bytes) in [("small", 100), ("large", 300_000), ("larger", 5_000_000)] {
        file(&at("back").join(name), bytes);
        fs::hard_link(at("back").join(name), at("back").join(format!("{name}-too"))).unwrap();
    }
    let mut mergerfs = Command::new("mergerfs");
    mergerfs.args(["-o", "use_ino,inodecalc=passthrough"]).arg(at("back")).arg(at("mounted"));
    let ran = mergerfs.output().unwrap_or_else(|error| panic!("{error}; install mergerfs"));
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let _mounted = Mounted(at("mounted"));
    let inode = |name: &str| fs::metadata(at("target").join(name)).unwrap().ino();
    for created in [7, 0] {
        let ran = Copy::new().arg(contents(at("mounted"))).arg(at("target")).run_to(0);
        assert_eq!((ran.entries("created"), ran.lost("hardlinks")), (created, 0), "{:#}", ran.report);
        for name in ["small", "large", "larger"] {
            assert_eq!(inode(name), inode(&format!("{name}-too")), "{name}");
            assert_eq!(fs::read(at("back").join(name)).unwrap(), fs::read(at("target").join(name)).unwrap());
        }
    }
}

/// If a FUSE file system gives each name a number of its own, hard links are lost, and that is reported.
#[test]
fn links_that_a_file_system_does_not_show_are_lost_aloud() {
    if no_root() {
        return;
    }
    let place = place();
    let at = |name: &str| place.path().join(name);
    ["back", "mounted"].into_iter().for_each(|name| fs::create_dir(at(name)).unwrap());
    file(&at("back").join("large"), 300_000);
    fs::hard_link(at("back").join("large"), at("back").join("too")).unwrap();
    let mut mergerfs = Command::new("mergerfs");
    mergerfs.args(["-o", "inodecalc=path-hash"]).arg(at("back")).arg(at("mounted"));
    let ran = mergerfs.output().unwrap_or_else(|error| panic!("{error}; install mergerfs"));
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let _mounted = Mounted(at("mounted"));
    let inode = |name: &str| fs::metadata(at("mounted").join(name)).unwrap().ino();
    assert_ne!(inode("large"), inode("too"));
    let ran = Copy::new().arg(contents(at("mounted"))).arg(at("target")).run_to(0);
    assert_eq!(ran.lost("hardlinks"), 1, "{:#}", ran.report);
}

/// exFAT ignores case, and its driver invents inode numbers.
#[test]
fn a_name_in_another_case_is_taken_over() {
    if no_root() {
        return;
    }
    let place = place();
    let (image, at, source) =
        (place.path().join("image"), place.path().join("at"), place.path().join("source"));
    let mut made = fs::File::create(&image).unwrap();
    made.write_all(&[]).unwrap();
    made.set_len(32 << 20).unwrap();
    fs::create_dir(&at).unwrap();
    let run = |program: &str, arguments: &[&Path]| {
        let ran = Command::new(program).args(arguments).output();
        let ran = ran.unwrap_or_else(|error| panic!("{program}: {error}; install exfatprogs and exfat-fuse"));
        assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    run("mkfs.exfat", &[&image]);
    let device = run("losetup", &[Path::new("--show"), Path::new("-f"), &image]);
    let device = PathBuf::from(device.trim());
    run("mount.exfat-fuse", &[&device, &at]);
    let _mounted = Mounted(at.clone());
    // The loop device is detached together with the file system.
    run("losetup", &[Path::new("-d"), &device]);
    let target = at.join("target");
    write(&source.join("Dir/Inner"), "inner");
    write(&source.join("File"), "file");
    let names = |directory: &Path| {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let sync = || Copy::sync().options("--delete").arg(contents(&source)).arg(&target).run_to(0);
    sync();
    write(&target.join("dir/kept/../../extra"), "only here");
    for (old, new) in [("Dir/Inner", "Dir/INNER"), ("Dir", "dIR"), ("File", "file")] {
        fs::rename(source.join(old), source.join(new)).unwrap();
    }
    write(&source.join("file"), "another content");
    let inode = fs::metadata(source.join("file")).unwrap().ino();
    Copy::new().arg(contents(&source)).arg(&target).run_to(0);
    assert_eq!(names(&target), ["dIR", "extra", "file"]);
    assert_eq!(names(&target.join("dIR")), ["INNER", "kept"]);
    assert_eq!(fs::read(target.join("file")).unwrap(), b"another content");
    assert_eq!(fs::metadata(source.join("file")).unwrap().ino(), inode);
    let again = Copy::new().arg(contents(&source)).arg(&target).run_to(0);
    assert_eq!((again.entries("created"), again.entries("updated")), (0, 0));
    assert_eq!(names(&target), ["dIR", "extra", "file"]);
    // Two names that would be one entry.
    write(&source.join("FILE"), "x");
    let ran = Copy::new().arg(contents(&source)).arg(&target).run_to(3);
    assert!(matches!(&ran.failures()[..], [(path, _)] if path == "FILE"), "{:?}", ran.failures());
    assert_eq!(fs::read(target.join("file")).unwrap(), b"another content");
}
