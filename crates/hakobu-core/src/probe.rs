//! Measurements of machines, of places on them, and of the network path between them.
//!
//! They are taken on the machine concerned and judged on the user's machine, so they are sent over the wire. A peer may
//! send anything: all figures are integers, lists and texts have limits, and figures are read through methods that
//! return `None` for implausible values.

use std::time::Duration;

use crate::disk::shortened;
use crate::host::KernelName;

/// The maximum number of compressors reported per machine.
pub const COMPRESSORS_MAX: usize = 16;
/// The maximum number of steps reported per direction.
pub const STEPS_MAX: usize = 16;
/// The maximum number of remarks about one place.
pub const REMARKS_MAX: usize = 16;

/// The upper bound of a plausible rate in bytes per second: no memory is this fast.
const RATE_MAX: f64 = 1e13;
/// The maximum plausible duration of a probe.
const ELAPSED_MAX: Duration = Duration::from_secs(3600);
/// The maximum plausible duration of an operation.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// The maximum plausible number of entries in a tree.
const ENTRIES_MAX: u64 = 1 << 44;
/// The maximum plausible size of a tree in bytes.
const BYTES_MAX: u64 = 1 << 62;

/// The parameters for measuring a place that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadAsk {
    /// A file, directory or block device, with symbolic links resolved.
    pub path: Vec<u8>,
    /// True to keep the load low.
    pub gentle: bool,
    /// The number of threads that read at a time: as many as a copy has lanes.
    pub lanes: u16,
}

/// The parameters for measuring a place that is written to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteAsk {
    /// A directory, or a path in one that does not exist, with symbolic links resolved; or a block device.
    pub path: Vec<u8>,
    /// True if anything may be written.
    pub write: bool,
    /// True to keep the load low.
    pub gentle: bool,
    /// The number of threads that write at a time: as many as a copy has lanes.
    pub lanes: u16,
    /// The identity and contents of the block device that may be written to; empty if none may.
    pub device: Vec<u8>,
}

/// An amount of work with its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredWork {
    /// The number of items.
    pub count: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The elapsed time.
    pub elapsed_ns: u64,
    /// The processor time of all threads together.
    pub processor_ns: u64,
    /// The time in which threads were runnable but waited for a processor: others used it, or a control group throttled
    /// them.
    pub queued_ns: u64,
    /// The number of threads.
    pub threads: u16,
}

impl MeasuredWork {
    /// Returns bytes per second; `None` if that is implausible.
    pub fn bytes_per_second(&self) -> Option<f64> {
        sound_rate(self.bytes as f64 / self.elapsed()?.as_secs_f64())
    }

    /// Returns items per second; `None` if that is implausible.
    pub fn per_second(&self) -> Option<f64> {
        sound_rate(self.count as f64 / self.elapsed()?.as_secs_f64())
    }

    /// Returns seconds of processor time per byte; `None` if that is implausible.
    pub fn processor_seconds_per_byte(&self) -> Option<f64> {
        let seconds = self.processor_seconds()?;
        (self.bytes > 0).then(|| seconds / self.bytes as f64)
    }

    /// Returns seconds of processor time per item; `None` if that is implausible.
    pub fn processor_seconds_each(&self) -> Option<f64> {
        let seconds = self.processor_seconds()?;
        (self.count > 0).then(|| seconds / self.count as f64)
    }

    /// Returns seconds of thread time per item spent neither on a processor nor waiting for one, but waiting for a disk
    /// or a server. `None` if that is implausible.
    pub fn waiting_seconds_each(&self) -> Option<f64> {
        let all = self.elapsed()?.as_secs_f64() * f64::from(self.threads.max(1));
        let wanted = self.processor_seconds()? + Duration::from_nanos(self.queued_ns).as_secs_f64();
        (self.count > 0).then(|| (all - wanted).max(0.0) / self.count as f64)
    }

    fn elapsed(&self) -> Option<Duration> {
        let elapsed = Duration::from_nanos(self.elapsed_ns);
        (elapsed > Duration::ZERO && elapsed <= ELAPSED_MAX).then_some(elapsed)
    }

    /// Returns the processor time in seconds, unless it exceeds the threads' total time (with a margin).
    fn processor_seconds(&self) -> Option<f64> {
        let (elapsed, threads) = (self.elapsed()?.as_secs_f64(), f64::from(self.threads.clamp(1, 1024)));
        let seconds = Duration::from_nanos(self.processor_ns).as_secs_f64();
        (seconds > 0.0 && seconds <= elapsed * threads * 1.5).then_some(seconds)
    }
}

/// Returns the rate if it is plausible for any machine.
pub fn sound_rate(rate: f64) -> Option<f64> {
    (rate.is_finite() && rate > 0.0 && rate < RATE_MAX).then_some(rate)
}

/// Returns the latency if it is plausible for an operation.
pub fn sound_latency(latency_ns: Option<u64>) -> Option<Duration> {
    latency_ns.map(Duration::from_nanos).filter(|time| *time > Duration::ZERO && *time <= LATENCY_MAX)
}

/// The speed of one core of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFigures {
    /// The boot ID, which is the same for two processes on one machine; empty if unknown.
    pub boot_id: KernelName,
    /// The number of processors that the process may use.
    pub processors: u16,
    /// The processor quota of the control groups in thousandths of a processor; `None` if there is none.
    pub quota_permille: Option<u32>,
    /// Bytes copied in memory per second.
    pub copied_bytes_per_second: u64,
    /// Bytes hashed with BLAKE3 per second.
    pub hashed_bytes_per_second: u64,
    /// The compressors, the fastest first.
    pub compressors: Vec<CompressorFigures>,
}

impl MachineFigures {
    /// Returns the number of processors to count on.
    pub fn usable_processors(&self) -> f64 {
        let all = f64::from(self.processors.clamp(1, 4096));
        self.quota().map_or(all, |quota| quota.min(all))
    }

    /// Returns the processor quota of the control groups, in processors.
    pub fn quota(&self) -> Option<f64> {
        self.quota_permille.filter(|permille| *permille > 0).map(|permille| f64::from(permille) / 1000.0)
    }
}

/// The speed and ratio of one compressor on text, on one core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompressorFigures {
    /// The name and level.
    pub name: KernelName,
    /// Input bytes per second.
    pub bytes_per_second: u64,
    /// Output bytes per thousand input bytes.
    pub packed_permille: u32,
}

/// The method by which content was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadHow {
    /// It was not read.
    #[default]
    Unread,
    /// From the disk, after its pages had been dropped from memory.
    Dropped,
    /// Bypassing the page cache.
    Direct,
    /// From memory: its pages could not be dropped, as in a file system in memory.
    Memory,
}

/// The measurements of a place that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadFigures {
    /// The size of the file or device in bytes; 0 for a directory.
    pub size_bytes: u64,
    /// The bytes of the file that are not holes; 0 if unknown, as for a device.
    pub allocated_bytes: u64,
    /// The method by which its content was read.
    pub how: ReadHow,
    /// Sequential reads of large files.
    pub content: Option<MeasuredWork>,
    /// The share of pages that were in memory before, in thousandths.
    pub cached_permille: Option<u16>,
    /// The time to read a page at a random offset.
    pub latency_ns: Option<u64>,
    /// The contents of a directory.
    pub tree: Option<TreeFigures>,
    /// Small files, each opened, read and closed.
    pub small: Option<MeasuredWork>,
    /// The number of files and directories that could not be opened for lack of permission.
    pub denied: u64,
    /// Further remarks.
    pub remarks: Vec<String>,
}

impl ReadFigures {
    /// Adds a remark, if there is room.
    pub fn remark(&mut self, words: &str) {
        push(&mut self.remarks, words);
    }

    /// Returns the share of the content that was in memory, 0 to 1.
    pub fn cached_share(&self) -> f64 {
        f64::from(self.cached_permille.unwrap_or(0).min(1000)) / 1000.0
    }
}

/// The contents of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeFigures {
    /// The number of files.
    pub files: u64,
    /// The number of directories.
    pub directories: u64,
    /// The number of all other entries.
    pub others: u64,
    /// The size of the files in bytes.
    pub bytes: u64,
    /// The bytes of the files that are not holes.
    pub allocated_bytes: u64,
    /// The number of files that would be sent in packs.
    pub small_files: u64,
    /// The size of these files in bytes.
    pub small_bytes: u64,
    /// The work of listing the tree; its items are entries.
    pub scan: MeasuredWork,
    /// True if there was enough time to list all of it.
    pub complete: bool,
}

impl TreeFigures {
    /// Returns the number of all entries, limited to a plausible maximum.
    pub fn entries(&self) -> u64 {
        let all = self.files.saturating_add(self.directories).saturating_add(self.others);
        all.min(ENTRIES_MAX)
    }

    /// Returns true if the figures are consistent and plausible.
    pub fn is_sound(&self) -> bool {
        self.bytes <= BYTES_MAX
            && self.files <= ENTRIES_MAX
            && self.small_files <= self.files
            && self.small_bytes <= self.bytes
    }
}

/// The result of a write test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteHow {
    /// It was not requested.
    #[default]
    NotAsked,
    /// An unnamed scratch file was written.
    Written,
    /// The file system is mounted read-only.
    ReadOnly,
    /// There is not enough space for a scratch file.
    NoRoom,
    /// It is a device, which was only read.
    Device,
    /// Nothing is stored there.
    Nowhere,
    /// It failed; a remark says why.
    Failed,
    /// It is a device, and its own contents were written back to it.
    WrittenBack,
    /// The user may not write there.
    Denied,
}

/// The measurements of a place that is written to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteFigures {
    /// The result of the write test.
    pub how: WriteHow,
    /// The directory that was measured, with symbolic links resolved: the place itself, or the nearest one above it;
    /// empty for a device.
    pub directory: Vec<u8>,
    /// Bytes available to this user.
    pub free_bytes: Option<u64>,
    /// The number of files and directories that can still be created, if the file system counts inodes.
    pub free_inodes: Option<u64>,
    /// True if files on this file system may share blocks, so that a copy within it takes no space.
    pub may_share: bool,
    /// Sequential writes until everything is on stable storage; for a device that was only read, the reads.
    pub content: Option<MeasuredWork>,
    /// The part of that work that went to memory, without waiting for stable storage.
    pub in_memory: Option<MeasuredWork>,
    /// The time to bring one small write to stable storage.
    pub latency_ns: Option<u64>,
    /// Small files, each created, written, and given its mode and times.
    pub small: Option<MeasuredWork>,
    /// Lookups of names that do not exist.
    pub lookups: Option<MeasuredWork>,
    /// The number of bytes that the system holds in memory before it starts to write them by itself.
    pub held_bytes: Option<u64>,
    /// The existing contents.
    pub tree: Option<TreeFigures>,
    /// Further remarks.
    pub remarks: Vec<String>,
}

impl WriteFigures {
    /// Returns true if it was written to, so that the figures are those of writing.
    pub fn is_of_writing(&self) -> bool {
        matches!(self.how, WriteHow::Written | WriteHow::WrittenBack)
    }

    /// Adds a remark, if there is room.
    pub fn remark(&mut self, words: &str) {
        push(&mut self.remarks, words);
    }
}

/// The measurements of the network path in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayFigures {
    /// The steps, with an increasing number of connections.
    pub steps: Vec<WayStep>,
    /// The shortest round-trip time seen by TCP, in microseconds; `None` if the connections do not use TCP.
    pub round_trip_us: Option<u32>,
    /// The largest packet that is sent unfragmented, in bytes.
    pub mtu_bytes: Option<u32>,
    /// True if the network was not saturated, so that it may carry more.
    pub at_least: bool,
}

/// The steady-state measurement of a number of simultaneous connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayStep {
    /// The number of connections.
    pub connections: u16,
    /// The data sent, with the time of the sending processors.
    pub sent: MeasuredWork,
    /// The time of the receiving processors.
    pub receiver_processor_ns: u64,
    /// The number of retransmitted segments.
    pub retransmits: u64,
}

impl WayFigures {
    /// Returns the step with the highest rate.
    pub fn best(&self) -> Option<&WayStep> {
        self.up_to(u16::MAX)
    }

    /// Returns the step with the highest rate among those with at most `connections` connections, or among those with
    /// the fewest connections if all have more.
    pub fn up_to(&self, connections: u16) -> Option<&WayStep> {
        let rate = |step: &&WayStep| step.sent.bytes_per_second();
        let sound = || self.steps.iter().filter(|step| step.connections > 0 && rate(step).is_some());
        let fewest = sound().map(|step| step.connections).min()?;
        sound()
            .filter(|step| step.connections <= connections.max(fewest))
            .max_by(|one, other| rate(one).partial_cmp(&rate(other)).unwrap_or(std::cmp::Ordering::Equal))
    }
}

fn push(remarks: &mut Vec<String>, words: &str) {
    if remarks.len() < REMARKS_MAX {
        remarks.push(shortened(words.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_make_no_sense_are_none() {
        let odd = [0, u64::MAX];
        for case in 0..8 {
            let [bytes, elapsed_ns, processor_ns] =
                [case & 1, case >> 1 & 1, case >> 2].map(|which| odd[which]);
            let work = MeasuredWork {
                count: bytes,
                bytes,
                elapsed_ns,
                processor_ns,
                queued_ns: 7,
                threads: u16::MAX,
            };
            assert_eq!((work.bytes_per_second(), work.per_second()), (None, None), "{work:?}");
            assert_eq!(work.processor_seconds_per_byte(), None, "{work:?}");
        }
        let work = MeasuredWork {
            count: 2,
            bytes: 1000,
            elapsed_ns: 1_000_000_000,
            processor_ns: 500_000_000,
            queued_ns: 300_000_000,
            threads: 1,
        };
        assert_eq!((work.bytes_per_second(), work.per_second()), (Some(1000.0), Some(2.0)));
        assert_eq!(work.processor_seconds_each(), Some(0.25));
        assert!((work.waiting_seconds_each().unwrap() - 0.1).abs() < 1e-9);
        let held = MeasuredWork { queued_ns: u64::MAX, ..work };
        assert_eq!(held.waiting_seconds_each(), Some(0.0));
        assert_eq!(sound_latency(Some(u64::MAX)), None);
        assert_eq!(sound_latency(Some(7)), Some(Duration::from_nanos(7)));
    }

    #[test]
    fn the_best_step_is_the_fastest_that_makes_sense() {
        let step = |connections, bytes| WayStep {
            connections,
            sent: MeasuredWork { bytes, elapsed_ns: 1_000_000_000, threads: 1, ..MeasuredWork::default() },
            ..WayStep::default()
        };
        let steps = vec![step(1, 100), step(2, 180), step(4, 170), step(8, u64::MAX), step(0, 999)];
        assert_eq!(WayFigures { steps, ..WayFigures::default() }.best().unwrap().connections, 2);
        assert_eq!(WayFigures::default().best(), None);
    }

    #[test]
    fn too_many_or_too_long_remarks_are_cut() {
        let mut figures = ReadFigures::default();
        (0..100).for_each(|_| figures.remark(&"x".repeat(10_000)));
        assert_eq!(figures.remarks.len(), REMARKS_MAX);
        assert!(figures.remarks.iter().all(|words| words.len() < 1000));
    }
}
