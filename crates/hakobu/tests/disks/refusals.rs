//! Obstacles to writing to a disk, or to reading it, are reported before the first byte.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use hakobu_testkit::sshd::no_root;
use rustix::fs::{CWD, FileType, FlockOperation, Mode, mknodat};

use crate::bench::*;
use crate::program::*;

/// A source, and a disk that must not be touched.
struct Case {
    place: tempfile::TempDir,
    image: PathBuf,
    host: Host,
    turns: Cell<usize>,
}

impl Case {
    fn new() -> Self {
        let (place, host) = (place(), Host::up());
        let image = place.path().join("disk.img");
        fs::write(&image, content(5 * MIB, 1)).unwrap();
        Self { place, image, host, turns: Cell::new(0) }
    }

    fn disk(&self, name: &str) -> Disk {
        Disk::full_of(self.place.path(), name, 0xaa, 6 * MIB, 512)
    }

    /// Fails unless the copy is refused with these words and writes nothing: on one machine with `copy`, and
    /// alternately as a push with `sync` and as a pull with `copy`.
    #[track_caller]
    fn refused(&self, source: &Path, target: &Path, options: &[&str], words: &[&str]) {
        // The kernel writes to mounted file systems and to swap by itself, so these are not compared.
        let mut mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.push_str(&fs::read_to_string("/proc/swaps").unwrap());
        let still = || {
            let mounted = mounts.lines().any(|line| line.starts_with(&format!("{} ", target.display())));
            if mounted { None } else { fs::read(target).ok() }
        };
        let before = still();
        let turn = self.turns.get();
        self.turns.set(turn + 1);
        for way in [Way::Here, [Way::Push, Way::Pull][turn % 2]] {
            let verb = if way == Way::Push { Copy::sync() } else { Copy::new() };
            let ran = verb.to(&self.host).args(options).args(way.typed(&self.host, source, target)).run_to(6);
            assert_eq!(ran.report["outcome"], "refused");
            ran.says(words);
            // The error names the location as it was typed.
            let named = if way == Way::Push { self.host.at(target) } else { target.as_os_str().to_owned() };
            let source_named =
                if way == Way::Pull { self.host.at(source) } else { source.as_os_str().to_owned() };
            let at = ran.report["error"]["at"].as_str().unwrap();
            assert!(OsStr::new(at) == named || OsStr::new(at) == source_named, "{way:?} {at}");
            assert!(!ran.err.contains("done:"), "{}", ran.err);
        }
        assert!(still() == before, "something was written");
    }
}

#[test]
fn a_mounted_disk() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let mounted = Mounted::of_size(case.place.path(), "ext4", 8 * MIB);
    let target = mounted.disk.as_ref().unwrap();
    let words = ["is mounted at", mounted.at.to_str().unwrap(), "unmount it first (umount "];
    let id = target.id();
    case.refused(&case.image, &target.path, &["--confirm", &id], &words);
}

/// A file that is in use through one loop device is in use for all of them.
#[test]
fn a_disk_that_is_mounted_by_another_name() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let mounted = Mounted::of_size(case.place.path(), "ext4", 8 * MIB);
    let twin = Disk::attach(&mounted.disk.as_ref().unwrap().backing, 512, &[]);
    let words = ["is mounted at", mounted.at.to_str().unwrap()];
    let id = twin.id();
    let arguments = [OsStr::new("--confirm"), OsStr::new(&id), case.image.as_os_str(), twin.path.as_os_str()];
    Copy::new().args(arguments).run_to(6).says(&words);
}

#[test]
fn a_file_behind_a_loop_device_is_not_replaced() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let disk = case.disk("in use");
    let ran = Copy::new().arg(&case.image).arg(&disk.backing).run();
    assert!(matches!(ran.code, Some(3 | 6)), "{:?} {}", ran.code, ran.err);
    assert!(ran.err.contains("is behind the loop device"), "{}", ran.err);
    assert_bytes(&disk.bytes(), &vec![0xaa; 6 * MIB as usize]);
}

#[test]
fn what_is_no_copy_and_would_overwrite_all_the_same() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let (one, other) = (case.disk("one"), case.disk("other"));
    // A disk as the file of a report.
    let ran = Command::new(HAKOBU)
        .arg("copy")
        .arg("--report")
        .arg(&one.path)
        .arg(&case.image)
        .arg("/dev/null")
        .output();
    let ran = ran.unwrap();
    let words = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(6), "{words}");
    assert!(words.contains("it is a disk, and a report would overwrite it"), "{words}");
    // A disk that is the source of one pair and the target of another.
    let pairs = case.place.path().join("pairs");
    let line = |from: &Path, to: &Path| format!("{} {}\n", from.display(), to.display());
    let third = case.disk("third");
    fs::write(&pairs, line(&one.path, &other.path) + &line(&other.path, &third.path)).unwrap();
    let refused = |lines: String, host: Option<&Host>, words: &str| {
        fs::write(&pairs, lines).unwrap();
        let copy = Copy::new().arg("--pairs").arg(&pairs);
        let copy = if let Some(host) = host { copy.to(host) } else { copy };
        copy.run_to(6).says(&[words]);
    };
    let across = line(&one.path, &other.path) + &line(&other.path, &third.path);
    refused(across, None, "another pair reads this disk");
    // The refusal holds if the targets are on another host that is in fact this machine.
    let host = Host::up();
    let far = |path: &Path| PathBuf::from(host.at(path));
    let across = line(&one.path, &far(&other.path)) + &line(&other.path, &far(&third.path));
    refused(across, Some(&host), "another pair reads this disk");
    // Two loop devices of one file are one disk.
    let twice = Disk::attach(&third.backing, 512, &[]);
    let both = line(&one.path, &third.path) + &line(&other.path, &twice.path);
    refused(both, None, "another pair writes to this disk");
    // A comparison may read a disk twice.
    fs::write(&pairs, line(&one.path, &other.path) + &line(&other.path, &third.path)).unwrap();
    Copy::verify().arg("--pairs").arg(&pairs).run_to(0);
    // A file cannot be copied into the directory of devices.
    Copy::new().arg(&case.image).arg("/dev/").run_to(6);
    assert!(!Path::new("/dev/disk.img").exists());
    for disk in [&one, &other, &third] {
        assert_bytes(&disk.bytes(), &vec![0xaa; 6 * MIB as usize]);
    }
}

/// A dry run does not freeze the source.
#[test]
fn a_dry_run_runs_no_commands() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let disk = case.disk("target");
    let mark = case.place.path().join("mark");
    let command = format!("touch {}", mark.display());
    let options = ["-n", "--passes", "2", "--before-last-pass", &command, "--after-last-pass", &command];
    Copy::sync().args(options).arg(&case.image).arg(&disk.path).run_to(0);
    assert!(!mark.exists());
}

/// The source is not frozen for a copy that is refused, even if only the first pass is.
#[test]
fn a_refusal_comes_before_anything_is_held_still() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let disk = case.disk("target");
    make_file_system("ext4", &disk.path);
    let before = disk.bytes();
    let mark = case.place.path().join("mark");
    let command = format!("touch {}", mark.display());
    let passes = |id: &str| {
        let options = ["--passes", "1", "--before-last-pass", &command, "--after-last-pass", "true"];
        let sync = Copy::sync().args(options);
        let sync = if id.is_empty() { sync } else { sync.args(["--confirm", id]) };
        sync.arg(&case.image).arg(&disk.path)
    };
    for (id, words) in [("", "holds data: ext4"), ("made.another", "the confirmed device is made.another")] {
        passes(id).run_to(6).says(&[words]);
        assert!(!mark.exists(), "{id:?}");
    }
    assert_bytes(&disk.bytes(), &before);
    passes(&disk.id()).run_to(0);
    assert!(mark.exists());
}

/// A source in use needs `--live` or a command that freezes it, and that command has to work.
#[test]
fn a_source_that_is_written_to_in_the_last_pass() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let mounted = Mounted::of_size(case.place.path(), "ext4", 64 * MIB);
    let source = &mounted.disk.as_ref().unwrap().path;
    fs::write(mounted.at.join("file"), content(20 * MIB, 2)).unwrap();
    let image = case.place.path().join("new.img");
    let passes = |options: &[&str]| Copy::sync().args(options).arg(source).arg(&image);
    passes(&["--passes", "2"]).run_to(6).says(&["is mounted for writing", "--live"]);
    passes(&["--passes", "2", "--live"]).run_to(0).says(&["the copy may mix old and new"]);
    let at = mounted.at.display();
    let (freeze, thaw) = (format!("fsfreeze -f '{at}'"), format!("fsfreeze -u '{at}'"));
    let still = ["--before-last-pass", &freeze, "--after-last-pass", &thaw];
    for count in ["1", "2"] {
        passes(&[&["--passes", count][..], &still].concat()).run_to(0);
        // The copy has the state of the frozen file system, so that nothing has to be repaired.
        tool("e2fsck", [OsStr::new("-fn"), image.as_os_str()]);
    }
    // A command that does not freeze the source, to which a thread keeps writing.
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let file = fs::File::create(mounted.at.join("more")).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, b"more", 0).unwrap();
                file.sync_all().unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let ran = passes(&["--passes", "2", "--bwlimit", "20M", "--before-last-pass", "true"]).run();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(ran.code, Some(5), "{}", ran.err);
        ran.says(&["were written to the source during the last pass"]);
    });
}

/// Ctrl-C does not interrupt the command that freezes the source, and the command that thaws it is run.
#[test]
fn what_is_held_for_the_last_pass_is_let_go() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let disk = case.disk("target");
    let held = case.place.path().join("held");
    let hold = format!("touch {0}; sleep 1; echo all >> {0}", held.display());
    let release = format!("grep -q all {0} && rm {0}", held.display());
    let options = ["--passes", "1", "--before-last-pass", &hold, "--after-last-pass", &release];
    let running = Copy::sync().args(options).arg(&case.image).arg(&disk.path).start();
    wait_until("it is held", std::time::Duration::from_secs(30), || held.exists());
    // Further signals change nothing.
    for _ in 0..3 {
        running.signal(rustix::process::Signal::INT);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let ran = running.end();
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    assert!(!held.exists(), "{}", ran.err);
    ran.says(&["--after-last-pass runs first"]);
    assert_bytes(&disk.bytes(), &vec![0xaa; 6 * MIB as usize]);
}

#[test]
fn swap_space_in_use() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let target = case.disk("swap");
    tool("mkswap", [&target.path]);
    tool("swapon", [&target.path]);
    let id = target.id();
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let words = ["is swap space in use", "swapoff ", target.path.to_str().unwrap()];
        case.refused(&case.image, &target.path, &["--confirm", &id], &words);
        let source = target.path.as_path();
        case.refused(source, &case.place.path().join("new.img"), &[], &["is swap space in use", "--live"]);
    }));
    tool("swapoff", [&target.path]);
    refused.unwrap();
}

#[test]
fn a_disk_behind_a_loop_device() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let target = case.disk("below");
    let above = Disk::attach(&target.path, 512, &[]);
    let words = ["is behind the loop device", above.path.to_str().unwrap(), "losetup -d"];
    case.refused(&case.image, &target.path, &[], &words);
}

#[test]
fn a_disk_that_takes_no_writes() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let backing = case.place.path().join("read-only");
    fs::write(&backing, vec![0xaa; 6 * MIB as usize]).unwrap();
    let target = Disk::attach(&backing, 512, &["--read-only"]);
    case.refused(&case.image, &target.path, &[], &["takes no writes", "blockdev --setrw"]);
}

#[test]
fn a_disk_that_is_too_small() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let target = Disk::full_of(case.place.path(), "small", 0xaa, 5 * MIB - 512, 512);
    let words = ["5242368 bytes", "512 B less than the 5242880 of the source", "take a larger one"];
    case.refused(&case.image, &target.path, &[], &words);
    let empty = case.place.path().join("empty");
    fs::write(&empty, "").unwrap();
    let none = Disk::attach(&empty, 512, &[]);
    case.refused(&case.image, &none.path, &[], &["there is no medium in it"]);
    case.refused(&none.path, &case.place.path().join("new.img"), &[], &["there is no medium in it"]);
}

#[test]
fn the_source_by_another_name() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let disk = case.disk("disk");
    let (node, link) = (case.place.path().join("node"), case.place.path().join("link"));
    make_node(&node, &disk);
    std::os::unix::fs::symlink(&disk.path, &link).unwrap();
    let second = Disk::attach(&disk.backing, 512, &[]);
    for name in [&disk.path, &node, &link, &second.path] {
        case.refused(&disk.path, name, &[], &["is the source itself"]);
        case.refused(name, &disk.path, &[], &["is the source itself"]);
    }
    // The file behind the loop device is the same disk.
    case.refused(&disk.backing, &disk.path, &[], &["is the source itself"]);
    // A loop device of a part of the file.
    let part = Disk::attach(&disk.backing, 512, &["--offset", "1048576", "--sizelimit", "1048576"]);
    case.refused(&part.path, &disk.path, &[], &["name another target"]);
    let above = Disk::attach(&disk.path, 512, &[]);
    case.refused(&disk.path, &above.path, &[], &["is a part of the source"]);
}

fn make_node(path: &Path, disk: &Disk) {
    let number = disk.identity().number;
    let number = rustix::fs::makedev(number.major, number.minor);
    mknodat(CWD, path, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, number).unwrap();
}

#[test]
fn a_disk_that_holds_data() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let target = case.disk("disk");
    make_file_system("ext4", &target.path);
    let id = target.id();
    let words = ["holds data: ext4", "All of it would be lost", "--confirm ", &id];
    case.refused(&case.image, &target.path, &[], &words);
    case.refused(
        &case.image,
        &target.path,
        &["--confirm", "made.0123456789abcdef"],
        &["the confirmed device is made.0123456789abcdef, but", &id],
    );
    let other = case.disk("other").id();
    case.refused(&case.image, &target.path, &["--confirm", &other], &["the confirmed device is", &other]);
    // The right ID may be one of several.
    Copy::new().args(["--confirm", &other, "--confirm", &id]).arg(&case.image).arg(&target.path).run_to(0);
    assert_bytes(&target.bytes()[..5 * MIB as usize], &content(5 * MIB, 1));
    assert!(target.remembered().is_empty());
    // A disk whose content is not recognised is overwritten without consent, unless the user confirmed another disk.
    let unknown = case.disk("unknown");
    case.refused(&case.image, &unknown.path, &["--confirm", &id], &["the confirmed device is"]);
    Copy::new().arg(&case.image).arg(&unknown.path).run_to(0);
}

#[test]
fn a_mistyped_name() {
    if no_root() {
        return;
    }
    let case = Case::new();
    for name in ["/dev/lopo0", "/dev/disk-by-mistake", "/dev/no-such/by-id/disk"] {
        let name = Path::new(name);
        case.refused(
            &case.image,
            name,
            &[],
            &["is no device, and what is written there would be a file in memory"],
        );
        assert!(!name.exists());
    }
    let disk = case.disk("disk");
    case.refused(&disk.path, Path::new("/dev/lopo0"), &[], &["look for the right name"]);
    let ran = Copy::new().arg("/dev/lopo0").arg(&disk.path).run_to(1);
    ran.says(&["no such file", "`hakobu disks` lists the disks that are there"]);
    // A file in `/dev/shm` is in the file system of the devices, but is an ordinary target.
    assert!(case.image.starts_with("/dev/shm"));
}

#[test]
fn sectors_of_another_size() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let source = case.disk("source");
    let target = Disk::full_of(case.place.path(), "target", 0xaa, 8 * MIB, 4096);
    // Without a partition table, the size of sectors does not matter.
    Copy::new().arg(&source.path).arg(&target.path).run_to(0);
    source.write_at(0, &table(1));
    let words = ["has sectors of 4096 bytes, the source has 512", "its partition table counts in them"];
    let id = target.id();
    case.refused(&source.path, &target.path, &["--confirm", &id], &words);
    // An image has no sectors of its own, but with sectors of 4096 bytes its partition would not fit.
    let image = case.place.path().join("new.img");
    Copy::new().arg(&source.path).arg(&image).run_to(0);
    case.refused(&image, &target.path, &["--confirm", &id], &words);
}

#[test]
fn a_source_that_is_mounted() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let mounted = Mounted::of_size(case.place.path(), "ext4", 8 * MIB);
    let source = &mounted.disk.as_ref().unwrap().path;
    let image = case.place.path().join("new.img");
    case.refused(source, &image, &[], &["is mounted for writing at", "--live"]);
    assert!(!image.exists());
    Copy::verify().arg(source).arg(&case.image).run_to(6).says(&["is mounted for writing at", "--live"]);
    let ran = Copy::new().arg("--live").arg(source).arg(&image).run_to(0);
    ran.says(&["the copy may mix old and new"]);
    tool("mount", [OsStr::new("-o"), OsStr::new("remount,ro"), mounted.at.as_os_str()]);
    Copy::new().arg(source).arg(&image).run_to(0);
    // The copy is that of the device, which lacks data that the file system still has in memory.
    assert_eq!(b3sum_of(&image, u64::MAX), b3sum_of(&mounted.disk.as_ref().unwrap().backing, u64::MAX));
}

/// A process that has a file or device open.
struct Holder(Child);

impl Holder {
    fn of(path: &Path, redirection: &str) -> Self {
        let line = format!("exec 3{redirection}\"$0\" && touch \"$1\" && exec sleep 600");
        let ready = path.file_name().unwrap().to_str().unwrap().to_owned();
        let ready = std::env::temp_dir().join(format!("hakobu-held.{}.{ready}", std::process::id()));
        let child = Command::new("sh").arg("-c").arg(line).arg(path).arg(&ready).spawn().unwrap();
        wait_until("it is open", Duration::from_secs(60), || ready.exists());
        fs::remove_file(ready).unwrap();
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_disk_that_a_process_writes_to() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let disk = case.disk("disk");
    {
        let holder = Holder::of(&disk.path, "<>");
        let id = holder.0.id().to_string();
        let words = ["is open for writing by process", &id, "end that first"];
        case.refused(&case.image, &disk.path, &[], &words);
        let image = case.place.path().join("new.img");
        case.refused(&disk.path, &image, &[], &["is open for writing by process", &id, "--live"]);
        Copy::new().arg("--live").arg(&disk.path).arg(&image).run_to(0).says(&["may mix old and new"]);
    }
    // A process that only reads is no obstacle.
    let _holder = Holder::of(&disk.path, "<");
    Copy::new().arg(&case.image).arg(&disk.path).run_to(0);
    Copy::new().arg(&disk.path).arg(case.place.path().join("new.img")).run_to(0);
}

#[test]
fn a_disk_that_is_locked() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let disk = case.disk("disk");
    let held = fs::File::open(&disk.path).unwrap();
    rustix::fs::flock(&held, FlockOperation::LockExclusive).unwrap();
    let before = fs::read(&disk.backing).unwrap();
    for way in [Way::Here, Way::Push] {
        let ran = Copy::new().to(&case.host).args(way.typed(&case.host, &case.image, &disk.path)).run_to(6);
        ran.says(&["another program holds its lock"]);
    }
    assert_eq!(fs::read(&disk.backing).unwrap(), before);
    drop(held);
    // A refused run leaves no mark or journal on the disk.
    Copy::new().arg(&case.image).arg(&disk.path).run_to(0);
    assert!(disk.remembered().is_empty());
}

/// A process that writes to the file behind a loop device writes to the disk, by whatever name it has opened the
/// file.
#[test]
fn a_loop_device_whose_file_is_written_to_is_in_use() {
    if no_root() {
        return;
    }
    let case = Case::new();
    let disk = case.disk("written");
    let id = disk.id();
    let hold = |how: &str, file: &Path| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 9{how}\"$1\"; echo ready; exec sleep 600"), "sh"]).arg(file);
        let mut holder = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = [0; 6];
        std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut line).unwrap();
        holder
    };
    let end = |mut holder: Child| {
        holder.kill().unwrap();
        holder.wait().unwrap();
    };
    let hard_link = case.place.path().join("another name");
    fs::hard_link(&disk.backing, &hard_link).unwrap();
    for file in [&disk.backing, &hard_link] {
        let holder = hold("<>", file);
        let words = ["is open for writing by process", &holder.id().to_string()];
        case.refused(&case.image, &disk.path, &["--confirm", &id], &words);
        end(holder);
    }
    // A process that only reads the file is no obstacle.
    let reader = hold("<", &disk.backing);
    Copy::new().args(["--confirm", &id]).arg(&case.image).arg(&disk.path).run_to(0);
    end(reader);
}
