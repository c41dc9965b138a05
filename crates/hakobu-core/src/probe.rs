//! What a probe measures of machines, of places on them, and of the way between them, as figures.
//!
//! They are measured on the machine that has them and judged where the user is, so they cross the wire. A peer may say
//! anything: all are integers, lists and texts have limits, and whoever reads a figure asks for it by a method that gives
//! nothing where it makes no sense.

use std::time::Duration;

use crate::disk::shortened;
use crate::host::Name;

/// The most compressors of one machine that are told.
pub const COMPRESSORS_MAX: usize = 16;
/// The most steps of one direction that are told.
pub const STEPS_MAX: usize = 16;
/// The most remarks about one place.
pub const REMARKS_MAX: usize = 16;

/// No memory is as fast as this, in bytes a second.
const RATE_MAX: f64 = 1e13;
/// No probe lasts as long.
const ELAPSED_MAX: Duration = Duration::from_secs(3600);
/// No operation that is worth a word takes as long.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// No tree has as many entries.
const ENTRIES_MAX: u64 = 1 << 44;
/// No place holds as much.
const BYTES_MAX: u64 = 1 << 62;

/// What is to be measured of a place that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadAsk {
    /// A file, directory or block device, links resolved.
    pub path: Vec<u8>,
    /// With little load.
    pub gentle: bool,
    /// So many threads read at a time: as many as a copy has lanes.
    pub lanes: u16,
}

/// What is to be measured of a place that is written to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteAsk {
    /// A directory, or what does not exist in one, links resolved; or a block device.
    pub path: Vec<u8>,
    /// Whether anything may be written.
    pub write: bool,
    /// With little load.
    pub gentle: bool,
    /// So many threads write at a time: as many as a copy has lanes.
    pub lanes: u16,
    /// The identity of the block device that it is and that may be written to, with what it holds; empty where none may.
    pub device: Vec<u8>,
}

/// Some work, and what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// How many of what it consists of.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
    /// How long it took.
    pub elapsed_ns: u64,
    /// The time that its threads had a processor, all together.
    pub processor_ns: u64,
    /// The time that they wanted one and had none: others had it, or a control group held them back.
    pub queued_ns: u64,
    /// How many threads did it.
    pub threads: u16,
}

impl Work {
    /// Bytes a second; nothing where that makes no sense.
    pub fn bytes_per_second(&self) -> Option<f64> {
        sound_rate(self.bytes as f64 / self.elapsed()?.as_secs_f64())
    }

    /// How many a second; nothing where that makes no sense.
    pub fn per_second(&self) -> Option<f64> {
        sound_rate(self.count as f64 / self.elapsed()?.as_secs_f64())
    }

    /// Seconds of a processor for each byte; nothing where that makes no sense.
    pub fn processor_seconds_per_byte(&self) -> Option<f64> {
        let seconds = self.processor_seconds()?;
        (self.bytes > 0).then(|| seconds / self.bytes as f64)
    }

    /// Seconds of a processor for each of them; nothing where that makes no sense.
    pub fn processor_seconds_each(&self) -> Option<f64> {
        let seconds = self.processor_seconds()?;
        (self.count > 0).then(|| seconds / self.count as f64)
    }

    /// Seconds of its threads for each of them in which they wanted no processor: they waited for a disk or a server.
    /// Nothing where that makes no sense.
    pub fn waiting_seconds_each(&self) -> Option<f64> {
        let all = self.elapsed()?.as_secs_f64() * f64::from(self.threads.max(1));
        let wanted = self.processor_seconds()? + Duration::from_nanos(self.queued_ns).as_secs_f64();
        (self.count > 0).then(|| (all - wanted).max(0.0) / self.count as f64)
    }

    fn elapsed(&self) -> Option<Duration> {
        let elapsed = Duration::from_nanos(self.elapsed_ns);
        (elapsed > Duration::ZERO && elapsed <= ELAPSED_MAX).then_some(elapsed)
    }

    /// No thread has more than all of the time.
    fn processor_seconds(&self) -> Option<f64> {
        let (elapsed, threads) = (self.elapsed()?.as_secs_f64(), f64::from(self.threads.clamp(1, 1024)));
        let seconds = Duration::from_nanos(self.processor_ns).as_secs_f64();
        (seconds > 0.0 && seconds <= elapsed * threads * 1.5).then_some(seconds)
    }
}

/// A rate that some machine may have.
pub fn sound_rate(rate: f64) -> Option<f64> {
    (rate.is_finite() && rate > 0.0 && rate < RATE_MAX).then_some(rate)
}

/// A time that an operation may take.
pub fn sound_latency(latency_ns: Option<u64>) -> Option<Duration> {
    latency_ns.map(Duration::from_nanos).filter(|time| *time > Duration::ZERO && *time <= LATENCY_MAX)
}

/// What one core of a machine does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFigures {
    /// The same for two processes on one machine; empty where it is not known.
    pub boot_id: Name,
    /// Processors that the process may use.
    pub processors: u16,
    /// What control groups let it have of them at most, in thousandths of one; nothing where they do not.
    pub quota_permille: Option<u32>,
    /// Bytes a second that are copied in memory.
    pub copied_bytes_per_second: u64,
    /// Bytes a second of which BLAKE3 is taken.
    pub hashed_bytes_per_second: u64,
    /// What packs, the fastest first.
    pub compressors: Vec<CompressorFigures>,
}

impl MachineFigures {
    /// How many processors to count on.
    pub fn usable_processors(&self) -> f64 {
        let all = f64::from(self.processors.clamp(1, 4096));
        self.quota().map_or(all, |quota| quota.min(all))
    }

    /// What control groups let the process have at most, in processors.
    pub fn quota(&self) -> Option<f64> {
        self.quota_permille.filter(|permille| *permille > 0).map(|permille| f64::from(permille) / 1000.0)
    }
}

/// What one core packs of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompressorFigures {
    /// Its name and level.
    pub name: Name,
    /// Bytes a second that go in.
    pub bytes_per_second: u64,
    /// What comes out, of a thousand bytes.
    pub packed_permille: u32,
}

/// How content was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadHow {
    /// Not at all.
    #[default]
    Unread,
    /// After its pages had been dropped from memory.
    Dropped,
    /// Past the page cache.
    Direct,
    /// Out of memory: its pages could not be dropped, as in a file system in memory.
    Memory,
}

/// What was measured of a place that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadFigures {
    /// Bytes of the file or device; 0 of a directory.
    pub size_bytes: u64,
    /// Bytes of the file that are no holes; 0 where that is not known, as of a device.
    pub allocated_bytes: u64,
    /// How its content was read.
    pub how: ReadHow,
    /// Reading large files in order.
    pub content: Option<Work>,
    /// Of a thousand pages, so many were in memory before.
    pub cached_permille: Option<u16>,
    /// What reading a page at a random place takes.
    pub latency_ns: Option<u64>,
    /// What a directory holds.
    pub tree: Option<TreeFigures>,
    /// Small files, each opened, read and closed.
    pub small: Option<Work>,
    /// Files and directories that the user may not read, among those that were opened.
    pub denied: u64,
    /// What else there is to say.
    pub remarks: Vec<String>,
}

impl ReadFigures {
    /// Says one thing more, where there is room.
    pub fn remark(&mut self, words: &str) {
        push(&mut self.remarks, words);
    }

    /// What share of the content was in memory.
    pub fn cached_share(&self) -> f64 {
        f64::from(self.cached_permille.unwrap_or(0).min(1000)) / 1000.0
    }
}

/// What a directory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeFigures {
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Everything else.
    pub others: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes of the files that are no holes.
    pub allocated_bytes: u64,
    /// Files that travel in packs.
    pub small_files: u64,
    /// Bytes of these.
    pub small_bytes: u64,
    /// How long listing took, and the processors' time for it; counted are entries.
    pub scan: Work,
    /// Whether there was time to list all of it.
    pub complete: bool,
}

impl TreeFigures {
    /// All entries; no more than there can be.
    pub fn entries(&self) -> u64 {
        let all = self.files.saturating_add(self.directories).saturating_add(self.others);
        all.min(ENTRIES_MAX)
    }

    /// Whether the figures can be those of one tree.
    pub fn is_sound(&self) -> bool {
        self.bytes <= BYTES_MAX
            && self.files <= ENTRIES_MAX
            && self.small_files <= self.files
            && self.small_bytes <= self.bytes
    }
}

/// What became of writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteHow {
    /// It was not asked for.
    #[default]
    NotAsked,
    /// A scratch file without a name was written.
    Written,
    /// The file system is mounted for reading only.
    ReadOnly,
    /// There is too little room for a scratch file.
    NoRoom,
    /// It is a device, which was only read.
    Device,
    /// Nothing is kept there.
    Nowhere,
    /// It failed; a remark says why.
    Failed,
    /// It is a device, to which was written what it held.
    WrittenBack,
    /// This user may not write there.
    Denied,
}

/// What was measured of a place that is written to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteFigures {
    /// What became of writing.
    pub how: WriteHow,
    /// The directory that was measured, links resolved: the place itself, or the nearest above it; empty where it is a device.
    pub directory: Vec<u8>,
    /// Bytes free for this user.
    pub free_bytes: Option<u64>,
    /// Files and directories that there is still room for, where the file system counts them.
    pub free_inodes: Option<u64>,
    /// Whether it is a file system on which files may share blocks, so that a copy within it takes no room.
    pub may_share: bool,
    /// Writing in order until all is on stable storage; of a device that was only read, reading it.
    pub content: Option<Work>,
    /// The part of it that went to memory: without waiting for stable storage.
    pub in_memory: Option<Work>,
    /// What making one small write stable takes.
    pub latency_ns: Option<u64>,
    /// Small files, each made, written, and given its mode and times.
    pub small: Option<Work>,
    /// Asking for names that are not there.
    pub lookups: Option<Work>,
    /// So many bytes are held in memory before the system begins to write them by itself.
    pub held_bytes: Option<u64>,
    /// What is there already.
    pub tree: Option<TreeFigures>,
    /// What else there is to say.
    pub remarks: Vec<String>,
}

impl WriteFigures {
    /// Whether it was written to, so that the figures are those of writing.
    pub fn is_of_writing(&self) -> bool {
        matches!(self.how, WriteHow::Written | WriteHow::WrittenBack)
    }

    /// Says one thing more, where there is room.
    pub fn remark(&mut self, words: &str) {
        push(&mut self.remarks, words);
    }
}

/// What was measured of the way, in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayFigures {
    /// More and more connections.
    pub steps: Vec<WayStep>,
    /// The shortest round trip that TCP saw; nothing where the connections are none of TCP.
    pub round_trip_us: Option<u32>,
    /// The largest packet that is sent whole.
    pub mtu_bytes: Option<u32>,
    /// The line was not filled, so it may carry more.
    pub at_least: bool,
}

/// So many connections at a time, once they were up to speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayStep {
    /// How many.
    pub connections: u16,
    /// What was sent, with the time of the sending processors.
    pub sent: Work,
    /// The time of the receiving processors.
    pub receiver_processor_ns: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
}

impl WayFigures {
    /// The step that carried the most.
    pub fn best(&self) -> Option<&WayStep> {
        self.up_to(u16::MAX)
    }

    /// The step that carried the most, of those with no more connections; that with the fewest where all have more.
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
            let work =
                Work { count: bytes, bytes, elapsed_ns, processor_ns, queued_ns: 7, threads: u16::MAX };
            assert_eq!((work.bytes_per_second(), work.per_second()), (None, None), "{work:?}");
            assert_eq!(work.processor_seconds_per_byte(), None, "{work:?}");
        }
        let work = Work {
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
        let held = Work { queued_ns: u64::MAX, ..work };
        assert_eq!(held.waiting_seconds_each(), Some(0.0));
        assert_eq!(sound_latency(Some(u64::MAX)), None);
        assert_eq!(sound_latency(Some(7)), Some(Duration::from_nanos(7)));
    }

    #[test]
    fn the_best_step_is_the_fastest_that_makes_sense() {
        let step = |connections, bytes| WayStep {
            connections,
            sent: Work { bytes, elapsed_ns: 1_000_000_000, threads: 1, ..Work::default() },
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
