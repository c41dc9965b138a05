//! Power cuts in the middle of a copy onto a disk.
//!
//! The machine is killed. Of the writes since the last flush of its disks, none or every second one survives, so
//! everything that the journal records as stable must have been flushed.

use std::process::Command;
use std::time::Duration;

use hakobu_testkit::sshd::no_root;
use hakobu_testkit::vm::{LoggedDisk, PowerCut, UnflushedFate, VmDisk};
use serde_json::Value;
use tempfile::TempDir;

use crate::*;

const LIMIT: Duration = Duration::from_secs(300);
const SIZE_BYTES: u64 = 192 * MIB;
const STATE_BYTES: u64 = 32 * MIB;
/// Slow enough that the copy takes several seconds.
const WRITE_BYTES_PER_SECOND: u64 = 20 << 20;
/// The layout of a journal.
const HEADER_BYTES: u64 = 128;
const RECORD_BYTES: u64 = 64;

/// Prints the length of the journal during the copy, and the report at the end.
const SCRIPT: &str = "
mount -t ext4 /dev/vdc /state
mkdir -p /state/hakobu
export HAKOBU_STATE=/state/hakobu
(while sleep 0.1; do for file in $(find /state/hakobu -type f); do
  case $(head -c 14 $file 2>/dev/null) in 'hakobu journal') echo \"hakobu-vm: journal $(wc -c <$file)\" ;; esac
done; done) &
step copy hakobu copy --retry-for 0s --confirm serial.TARGET --report /tmp/report /dev/vda /dev/vdb
kill $!
wait
step report cat /tmp/report
umount /state
";

struct Disks {
    machine: VmKind,
    _place: TempDir,
    source: PathBuf,
    target: PathBuf,
    state: PathBuf,
}

impl Disks {
    fn new() -> Self {
        let place = TempDir::with_prefix("hakobu-test.").unwrap();
        let source = random(place.path(), "source", SIZE_BYTES);
        let target = full_of(place.path(), "target", 0xaa, SIZE_BYTES);
        let state = full_of(place.path(), "state", 0, STATE_BYTES);
        let made = Command::new("mkfs.ext4").arg("-q").arg(&state).status().unwrap();
        assert!(made.success());
        Self { machine: machine(&[]), _place: place, source, target, state }
    }

    fn disks<'a>(&'a self, logged: Option<&'a [LoggedDisk; 2]>) -> [VmDisk<'a>; 3] {
        let target = VmDisk {
            write_bytes_per_second: logged.map(|_| WRITE_BYTES_PER_SECOND),
            logged: logged.map(|logged| &logged[0]),
            ..VmDisk::new(&self.target, "TARGET")
        };
        let state = VmDisk { logged: logged.map(|logged| &logged[1]), ..VmDisk::new(&self.state, "STATE") };
        [VmDisk::new(&self.source, "SOURCE"), target, state]
    }

    /// Runs the copy until its journal has so many records, and cuts the power.
    fn cut(&self, records: u64, unflushed: UnflushedFate) -> PowerCut {
        let logged = [&self.target, &self.state].map(|file| LoggedDisk::new(file).unwrap());
        let mut running = self.machine.start(&self.disks(Some(&logged)), SCRIPT, LIMIT).unwrap();
        running.wait_until(|output| journal_bytes(output) >= HEADER_BYTES + records * RECORD_BYTES).unwrap();
        // Directly after a flush there would be little to lose.
        std::thread::sleep(Duration::from_millis(500));
        let output = running.kill().unwrap();
        assert!(!output.contains("hakobu-vm: step copy"), "the copy had ended before the cut: {output}");
        let [target, _] = logged.map(|logged| logged.cut(unflushed).unwrap());
        target
    }
}

/// Returns the maximum length of a journal.
fn journal_bytes(output: &str) -> u64 {
    let lengths = output.lines().filter_map(|line| line.strip_prefix("hakobu-vm: journal "));
    lengths.filter_map(|length| length.trim().parse().ok()).max().unwrap_or(0)
}

#[test]
#[ignore = "long"]
fn long_a_copy_onto_a_disk_goes_on_after_power_cuts() {
    // Root installs the packages that this test needs.
    if no_root() {
        return;
    }
    let disks = Disks::new();
    for (records, unflushed) in [(3, UnflushedFate::Lost), (6, UnflushedFate::EverySecond)] {
        let cut = disks.cut(records, unflushed);
        assert!(cut.flushed > 0, "nothing was flushed: {cut:?}");
        assert!(!same(&disks.source, &disks.target), "something is left to do");
    }
    let output = disks.machine.start(&disks.disks(None), SCRIPT, LIMIT).unwrap().wait().unwrap();
    let copy = step(&output, "copy");
    assert_eq!(copy.code, 0, "{}", copy.output);
    let report: Value = serde_json::from_str(&step(&output, "report").output).unwrap();
    assert_eq!(report["resumed"], true, "{report:#}");
    // More of the source is read, because completed data is compared in samples.
    let written = report["bytes"]["target_written"].as_u64().unwrap();
    assert!(0 < written && written < SIZE_BYTES, "it began anew: {report:#}");
    assert!(same(&disks.source, &disks.target), "the target is another than the source");
}

fn same(one: &Path, other: &Path) -> bool {
    std::fs::read(one).unwrap() == std::fs::read(other).unwrap()
}
