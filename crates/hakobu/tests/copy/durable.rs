//! Crashes of a machine, kills of a process and failures of a file system, and what the next run does about them.

use std::fs::{self, File, FileTimes};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hakobu_testkit::devices::{self, LoopDevice};
use hakobu_testkit::slow_fs::{FailingCall, SlowFs};
use hakobu_testkit::sshd::no_root;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::program::*;

const MIB: u64 = 1 << 20;
/// Slow enough that a run can be cut off in the middle.
const SLOWLY: &str = "--bwlimit 40M --lanes 2";

/// A file system on a disk that can be cut off, and a tree to copy to it.
struct Disk {
    kind: &'static str,
    place: TempDir,
    device: LoopDevice,
    mounted: Option<devices::Undo>,
}

impl Disk {
    fn new(kind: &'static str) -> Self {
        let place = place();
        let device = LoopDevice::new(900 * MIB).unwrap();
        devices::run(&format!("mkfs.{kind}"), &["-q"], device.path()).unwrap();
        for directory in ["mounted", "source"] {
            fs::create_dir(place.path().join(directory)).unwrap();
        }
        let mut disk = Self { kind, place, device, mounted: None };
        disk.mount();
        disk
    }

    fn mount(&mut self) {
        self.mounted = Some(devices::mount(self.device.path(), &self.at(), &[]).unwrap());
    }

    fn at(&self) -> PathBuf {
        self.place.path().join("mounted")
    }

    fn source(&self) -> PathBuf {
        self.place.path().join("source")
    }

    fn target(&self) -> PathBuf {
        self.at().join("target")
    }

    /// Creates small files, large ones with a hole at their end, and a last one that takes long.
    fn fill_source(&self) {
        for number in 0..200 {
            file(&self.source().join(format!("a small {number}")), 3000 + number);
        }
        for number in 0..8 {
            let path = file(&self.source().join(format!("b hole {number}")), 5 * MIB + number);
            File::options().write(true).open(path).unwrap().set_len(8 * MIB).unwrap();
        }
        file(&self.source().join("z last"), 300 * MIB);
    }

    fn copy(&self) -> Copy {
        Copy::new().arg(contents(self.source())).arg(self.target())
    }

    /// Starts a copy, calls `end` when all files but the last have their names, and kills the copy.
    fn begin(&self, end: impl FnOnce(&Self)) {
        let running = self.copy().options(SLOWLY).start();
        let names = || fs::read_dir(self.target()).map_or(0, Iterator::count);
        wait_until("names are there", Duration::from_secs(60), || {
            running.assert_unfinished();
            names() > 208 && self.target().join("b hole 7").exists()
        });
        end(self);
        running.signal(Signal::KILL);
        running.end();
    }

    /// Shuts the file system down. Nothing that is not on the disk yet gets there any more.
    fn cut(&self) {
        let output = Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(self.at()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn mount_again(&mut self) {
        self.mounted = None;
        self.mount();
    }

    /// Returns the names of large files whose content is wrong under their final names.
    fn lies(&self) -> Vec<String> {
        let names = fs::read_dir(self.target()).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap()).filter(|name| name.starts_with("b "));
        names.filter(|name| !same(&self.source().join(name), &self.target().join(name))).collect()
    }
}

fn same(one: &Path, other: &Path) -> bool {
    let read = |path: &Path| {
        let mut bytes = Vec::new();
        File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    };
    read(one) == read(other)
}

/// Changes a byte of a file, and restores its modification time.
fn change_hidden(path: &Path, at: u64) {
    let modified = path.metadata().unwrap().modified().unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    file.set_times(FileTimes::new().set_modified(modified)).unwrap();
}

/// After a power cut, files under their final names have their content, and the next run copies the lost ones.
#[test]
fn after_a_power_cut_nothing_looks_complete_that_is_not() {
    if no_root() {
        return;
    }
    for kind in ["ext4", "xfs"] {
        let mut disk = Disk::new(kind);
        disk.fill_source();
        disk.begin(Disk::cut);
        disk.mount_again();
        assert_eq!(disk.lies(), Vec::<String>::new(), "{}", disk.kind);
        disk.copy().run_to(0);
        assert_same(&disk.source(), &disk.target());
        assert_eq!(drafts(&disk.at()), Vec::<PathBuf>::new());
    }
}

/// After a power cut, a file that was being replaced has either the old or the new content.
#[test]
fn after_a_power_cut_a_file_that_is_replaced_is_the_old_or_the_new_one() {
    if no_root() {
        return;
    }
    for kind in ["ext4", "xfs"] {
        let mut disk = Disk::new(kind);
        disk.fill_source();
        fs::create_dir(disk.target()).unwrap();
        let names: Vec<_> =
            fs::read_dir(disk.source()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let old = |size: u64| vec![b'x'; size as usize];
        for name in names.iter().filter(|name| *name != "z last") {
            let size = disk.source().join(name).metadata().unwrap().len();
            fs::write(disk.target().join(name), old(size)).unwrap();
        }
        rustix::fs::sync();
        disk.begin(|disk| {
            let hole = disk.target().join("b hole 7");
            wait_until("the last is replaced", Duration::from_secs(60), || {
                same(&disk.source().join("b hole 7"), &hole)
            });
            disk.cut();
        });
        disk.mount_again();
        for name in names.iter().filter(|name| *name != "z last") {
            let (source, target) = (disk.source().join(name), disk.target().join(name));
            let size = source.metadata().unwrap().len();
            let is_old = fs::read(&target).unwrap() == old(size);
            assert!(is_old || same(&source, &target), "{kind}: {name:?} is neither");
        }
        disk.copy().run_to(0);
        assert_same(&disk.source(), &disk.target());
    }
}

/// The mark of a run shows if the machine was restarted, or the file system mounted again, before the run ended. Only
/// then are contents compared.
#[test]
fn what_a_run_wrote_before_its_machine_ended_is_compared() {
    if no_root() {
        return;
    }
    let mut disk = Disk::new("ext4");
    disk.fill_source();
    disk.begin(|_| {});
    let lies = ["a small 3", "b hole 2"].map(|name| disk.target().join(name));
    lies.iter().for_each(|path| change_hidden(path, 100));
    rustix::fs::sync();
    // Without a restart nothing was lost, and no content is read.
    disk.copy().options("--dry-run").run_to(0);
    assert!(lies.iter().all(|path| !same(path, &disk.source().join(path.file_name().unwrap()))));
    disk.mount_again();
    // A run of another job compares its own file, but the mark of the first job remains.
    let other = Copy::new().arg(disk.source().join("a small 3")).arg(disk.target()).run_to(0);
    assert_eq!(other.entries("updated"), 1, "{:#}", other.report);
    let ran = disk.copy().run_to(0);
    assert_eq!(ran.entries("updated"), 1, "{:#}", ran.report);
    assert_same(&disk.source(), &disk.target());
    assert_eq!(drafts(&disk.at()), Vec::<PathBuf>::new());
    // The mark is gone, and contents are not compared any more.
    change_hidden(&lies[0], 100);
    assert_eq!(disk.copy().run_to(0).entries("updated"), 0);
}

/// A source that was rewritten between two runs, with the same size and modification time, is never mixed with its
/// old content.
#[test]
fn nothing_is_gone_on_with_that_was_rewritten_under_the_same_time() {
    if no_root() {
        return;
    }
    let host = Host::up();
    for (from_there, to_there, options) in [
        (false, false, ""),
        (false, true, ""),
        (true, false, ""),
        (true, false, "--transport sftp"),
        (false, true, "--transport sftp"),
    ] {
        let place = place();
        let source = file(&place.path().join("source"), 150 * MIB);
        let target = place.path().join("target");
        let end = |path: &Path, there: bool| match there {
            true => host.at(path),
            false => path.as_os_str().to_owned(),
        };
        let copy = || {
            let copy = Copy::new().to(&host).options(options);
            copy.arg(end(&source, from_there)).arg(end(&target, to_there))
        };
        let running = copy().options("--bwlimit 40M").start();
        wait_until("something is there", Duration::from_secs(60), || {
            running.assert_unfinished();
            drafts(place.path()).iter().any(|draft| draft.metadata().is_ok_and(|it| it.size() > 60 * MIB))
        });
        running.signal(Signal::KILL);
        running.end();
        host.wait_for_no_agent();
        change_hidden(&source, 5 * MIB);
        copy().run_to(0);
        assert!(same(&source, &target), "{from_there} {to_there} {options}");
        assert_eq!(drafts(place.path()), Vec::<PathBuf>::new());
    }
}

/// A file that is changed twice within one step of the file system's clock is copied twice.
#[test]
fn a_file_that_is_changed_again_at_once_is_seen_to_be() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let (source, near, far) =
        (place.path().join("source"), place.path().join("near"), place.path().join("far"));
    fs::create_dir(&source).unwrap();
    let path = source.join("file");
    for round in 0..4 {
        for content in [format!("one {round}"), format!("two {round}")] {
            fs::write(&path, &content).unwrap();
            Copy::new().arg(contents(&source)).arg(&near).run_to(0);
            assert_eq!(fs::read_to_string(near.join("file")).unwrap(), content);
        }
        for content in [format!("one {round}"), format!("two {round}")] {
            fs::write(&path, &content).unwrap();
            let copy = Copy::new().to(&host).options("--transport sftp");
            copy.arg(contents(&source)).arg(host.at(&far)).run_to(0);
            assert_eq!(fs::read_to_string(far.join("file")).unwrap(), content);
        }
    }
    let pulled = place.path().join("pulled");
    for content in ["three", "four!"] {
        fs::write(&path, content).unwrap();
        let copy = Copy::new().to(&host).options("--transport sftp");
        copy.arg(host.at(contents(&source))).arg(&pulled).run_to(0);
        assert_eq!(fs::read_to_string(pulled.join("file")).unwrap(), content);
    }
}

/// An error that only closing or flushing a file reports is a failure of that file.
#[test]
fn errors_at_close_and_of_flushes_count() {
    if no_root() {
        return;
    }
    for fails in [FailingCall::Close, FailingCall::Sync] {
        let place = place();
        let (source, back, at) =
            (place.path().join("source"), place.path().join("back"), place.path().join("at"));
        [&source, &back, &at].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        file(&source.join("large"), MIB);
        file(&source.join("small"), 100);
        let _mounted = SlowFs::mount_failing(&at, &back, Duration::ZERO, Some(fails)).unwrap();
        let ran = Copy::new().arg(contents(&source)).arg(at.join("target")).run_to(3);
        let mut failed: Vec<_> = ran.failures().into_iter().map(|(path, _)| path).collect();
        failed.sort();
        assert_eq!(failed, ["large", "small"], "{:#}", ran.report);
        assert_eq!(fs::read_dir(back.join("target")).unwrap().count(), 0, "{fails:?}");
    }
}

/// The next run removes the drafts of a killed run, over SFTP as well as with an agent.
#[test]
fn what_a_killed_run_left_is_removed_by_the_next_whichever_way_it_takes() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source).unwrap();
    file(&source.join("file"), 150 * MIB);
    // Not the other way round: an SFTP server cannot tell an agent's drafts from files in use.
    for next in ["", "--transport sftp"] {
        let first = "--transport sftp";
        let _ = fs::remove_dir_all(&target);
        let copy = |options: &str| {
            let copy = Copy::new().to(&host).options(options);
            copy.arg(source.join("file")).arg(host.at(target.join("file")))
        };
        fs::create_dir(&target).unwrap();
        let running = copy(first).options("--bwlimit 40M").start();
        wait_until("a draft is there", Duration::from_secs(60), || {
            running.assert_unfinished();
            drafts(&target).iter().any(|draft| draft.metadata().is_ok_and(|it| it.size() > 10 * MIB))
        });
        running.signal(Signal::KILL);
        running.end();
        host.wait_for_no_agent();
        assert!(!drafts(&target).is_empty());
        copy(next).run_to(0);
        assert_eq!(drafts(&target), Vec::<PathBuf>::new(), "{next}");
        assert!(same(&source.join("file"), &target.join("file")));
    }
    // Copying the tree is another job, which cannot use the draft of the file.
    fs::remove_dir_all(&target).unwrap();
    fs::create_dir(&target).unwrap();
    let running =
        Copy::new().options("--bwlimit 40M").arg(source.join("file")).arg(target.join("file")).start();
    wait_until("a draft is there", Duration::from_secs(60), || {
        running.assert_unfinished();
        drafts(&target).len() == 2
    });
    // The draft stays while its own run is active.
    let tree = || Copy::new().arg(contents(&source)).arg(&target).options("--exclude file");
    tree().run_to(0);
    assert_eq!(drafts(&target).len(), 2);
    running.signal(Signal::KILL);
    running.end();
    tree().run_to(0);
    assert_eq!(drafts(&target), Vec::<PathBuf>::new());
    let [source, target] = [&source, &target].map(|path| path.metadata().unwrap().modified().unwrap());
    assert_eq!(source, target, "the directory has its own time");
}

/// Returns the times of a directory and of its entries.
fn trace(directory: &Path) -> Vec<(PathBuf, i64, i64, i64, i64)> {
    let of = |path: PathBuf| {
        let found = path.symlink_metadata().unwrap();
        (path, found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
    };
    let entries = fs::read_dir(directory).unwrap().map(|entry| of(entry.unwrap().path()));
    let mut all: Vec<_> = entries.chain([of(directory.to_owned())]).collect();
    all.sort();
    all
}

/// They create no test files and no marks, and remove no drafts.
#[test]
fn a_plan_and_a_verification_write_nothing() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let at = |name: &str| place.path().join(name);
    ["source", "back", "mounted", "plain"].into_iter().for_each(|name| fs::create_dir(at(name)).unwrap());
    let _mounted = SlowFs::mount(&at("mounted"), &at("back"), Duration::ZERO).unwrap();
    file(&at("source").join("large"), MIB);
    file(&at("source").join("small"), 100);
    for (target, back) in [("mounted", "back"), ("plain", "plain")] {
        Copy::new().arg(contents(at("source"))).arg(at(target)).run_to(0);
        assert_eq!(drafts(&at(back)), Vec::<PathBuf>::new(), "{target}");
    }
    file(&at("source").join("new"), 100);
    fs::write(at("source").join("small"), "changed").unwrap();
    for (target, back) in [("mounted", "back"), ("plain", "plain")] {
        let before = trace(&at(back));
        for there in [false, true] {
            let place = if there { host.at(at(target)) } else { at(target).into_os_string() };
            let with = |copy: Copy| copy.to(&host).arg(contents(at("source"))).arg(&place);
            for options in ["-n", "-n --compare digest"] {
                let planned = with(Copy::new()).options(options).run_to(0);
                assert_eq!((planned.entries("created"), planned.entries("updated")), (1, 1), "{options}");
                assert_eq!(trace(&at(back)), before, "{target} {there} {options}");
            }
            with(Copy::sync()).options("-n --delete").run_to(0);
            with(Copy::verify()).run_to(4);
            assert_eq!(trace(&at(back)), before, "{target} {there}");
        }
    }
}

/// A user's file that has the name of a mark, but not its content, is copied like any other.
#[test]
fn a_users_file_with_the_name_of_a_mark_is_copied() {
    // The first of the names that marks have.
    const NAME: &str = ".hakobu.wt2iljbm3ke5lpkhxkt2lnlodp";
    let place = place();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source).unwrap();
    file(&source.join("other"), 3000);
    for content in ["a user's", ""] {
        fs::write(source.join(NAME), content).unwrap();
        Copy::new().arg(contents(&source)).arg(&target).run_to(0);
        assert_eq!(fs::read_to_string(target.join(NAME)).unwrap(), content);
        let again = Copy::new().arg(contents(&source)).arg(&target).run_to(0);
        assert_eq!((again.entries("created"), again.entries("updated")), (0, 0));
        Copy::verify().arg(contents(&source)).arg(&target).run_to(0);
    }
    fs::remove_file(source.join(NAME)).unwrap();
    Copy::sync().options("--delete --max-delete 100%").arg(contents(&source)).arg(&target).run_to(0);
    assert!(!target.join(NAME).exists());
    // A mark without content, as a crash leaves it, is removed by the first complete run.
    fs::write(target.join(NAME), [0; 128]).unwrap();
    fs::set_permissions(target.join(NAME), fs::Permissions::from_mode(0o600)).unwrap();
    Copy::new().arg(contents(&source)).arg(&target).run_to(0);
    assert_eq!(drafts(&target), Vec::<PathBuf>::new());
}
