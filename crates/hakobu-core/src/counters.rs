//! Figures that lanes keep while they work, and the sums that others read.
//!
//! Each lane owns one block of counters in cache lines of its own, so counting costs a lane one
//! plain addition and no lane waits for another.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::compression::Compressed;

macro_rules! counters {
    ($( $(#[$doc:meta])* $name:ident ),* $(,)?) => {
        /// The counters of one lane.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct LaneCounters {
            $( $(#[$doc])* pub $name: Counter, )*
            /// Nanoseconds spent in each [`Stage`].
            pub stage_ns: [Counter; Stage::COUNT],
        }

        /// The sums of all lanes at one moment.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Snapshot {
            $( $(#[$doc])* pub $name: u64, )*
            /// Nanoseconds spent in each [`Stage`], summed over the lanes.
            pub stage_ns: [u64; Stage::COUNT],
            /// Whether the scan has ended, so that the totals are known.
            pub scan_done: bool,
            /// Whether the target is on another machine, so that [`Stage::Send`] is the way there.
            pub remote: bool,
            /// Nanoseconds that the source's file server took for one answer before the run, where there is one.
            pub source_answer_ns: Option<u64>,
            /// The same of the target's.
            pub target_answer_ns: Option<u64>,
            /// Until which second of the day nothing may go, in the pause of a timetable.
            pub paused_until_s: Option<u32>,
            /// Nanoseconds in such pauses, by the clock.
            pub paused_ns: u64,
            /// Bytes of the files that a plan would bring over: at most so many travel.
            pub planned_bytes: u64,
        }

        impl Snapshot {
            /// Adds the counters of one lane.
            pub fn add(&mut self, lane: &LaneCounters) {
                $( self.$name = self.$name.saturating_add(lane.$name.get()); )*
                for (sum, counter) in self.stage_ns.iter_mut().zip(&lane.stage_ns) {
                    *sum = sum.saturating_add(counter.get());
                }
            }

            /// What has been counted since an earlier moment of the same run.
            #[must_use]
            pub fn since(&self, earlier: &Snapshot) -> Snapshot {
                let mut lately = self.clone();
                $( lately.$name = self.$name.saturating_sub(earlier.$name); )*
                lately.paused_ns = self.paused_ns.saturating_sub(earlier.paused_ns);
                lately.planned_bytes = self.planned_bytes.saturating_sub(earlier.planned_bytes);
                for (now, before) in lately.stage_ns.iter_mut().zip(&earlier.stage_ns) {
                    *now = now.saturating_sub(*before);
                }
                lately
            }

            /// Adds the figures of another run of the same job.
            pub fn merge(&mut self, other: &Snapshot) {
                $( self.$name = self.$name.saturating_add(other.$name); )*
                self.paused_ns = self.paused_ns.saturating_add(other.paused_ns);
                self.planned_bytes = self.planned_bytes.saturating_add(other.planned_bytes);
                for (sum, more) in self.stage_ns.iter_mut().zip(&other.stage_ns) {
                    *sum = sum.saturating_add(*more);
                }
            }
        }
    };
}

counters! {
    /// Entries seen at the source.
    entries_scanned,
    /// Bytes of the regular files seen at the source.
    bytes_scanned,
    /// Entries that the target lacked and now has.
    entries_created,
    /// Entries whose content or kind was brought up to date.
    entries_updated,
    /// Entries that were equal on both sides and left alone.
    entries_unchanged,
    /// Bytes of regular files that were left alone.
    bytes_unchanged,
    /// Entries of which only attributes were changed.
    entries_attributes_only,
    /// Entries that both sides have and that differ, of a run that compares.
    entries_different,
    /// Files whose content was compared.
    entries_compared,
    /// Entries that only the target has, and that stay.
    entries_only_in_target,
    /// Entries seen at the target, of a run that counts or removes what only the target has.
    entries_in_target,
    /// Entries of the source that the target did not have when both were compared: a run makes at most so many.
    entries_absent,
    /// Entries of the target that were removed because the source lacks them.
    entries_deleted,
    /// Entries that wait for a directory in their place to be removed.
    entries_in_the_way,
    /// Entries left out on purpose: by rules, sockets, and those of a name that an earlier source has as well.
    entries_skipped,
    /// Entries that could not be copied.
    entries_failed,
    /// Bytes read from the source.
    source_read_bytes,
    /// Bytes of content that the target has acknowledged.
    target_written_bytes,
    /// Bytes of files that share their blocks with the source.
    cloned_bytes,
    /// Bytes of zeros and holes that did not travel.
    zeros_skipped_bytes,
    /// Bytes read back from the target, to be compared.
    target_read_bytes,
    /// Bytes of acknowledged chunks that were zeros, or that the target had.
    bytes_kept,
    /// Bytes that an earlier, interrupted run had brought over.
    bytes_resumed,
    /// Bytes of content that went over the network compressed.
    compressed_bytes,
    /// What they were compressed to.
    compressed_to_bytes,
    /// Nanoseconds in which the lanes' threads had a processor.
    near_processor_ns,
    /// Nanoseconds in which they waited for one.
    near_queued_ns,
    /// Nanoseconds of the threads that serve the lanes on another machine.
    far_ns,
    /// Those in which they waited for something to come.
    far_input_ns,
    /// Those in which they worked on the target.
    far_work_ns,
    /// Those in which they had a processor.
    far_processor_ns,
    /// Those in which they waited for one.
    far_queued_ns,
    /// Microseconds in which the connections there had something to send.
    way_busy_us,
    /// Those in which the far side's window held it back.
    way_window_us,
    /// Those in which the send buffer here held it back.
    way_buffer_us,
    /// Nanoseconds of [`Stage::Held`] in which operations were limited.
    held_by_operations_ns,
    /// Those in which reads at the source took too long.
    held_by_latency_ns,
    /// Small files, and pieces of large ones, that were read at the source.
    source_reads,
    /// How many answers of a file server that waits for, about.
    source_requests,
    /// Operations at the target, as they are counted where they are limited.
    target_operations,
    /// How many answers of a file server those wait for, about.
    target_requests,
}

impl Snapshot {
    /// Adds where the time of an earlier attempt at the same run went.
    pub fn add_times(&mut self, earlier: &Snapshot) {
        for (sum, more) in self.stage_ns.iter_mut().zip(&earlier.stage_ns) {
            *sum = sum.saturating_add(*more);
        }
        for (sum, more) in [
            (&mut self.near_processor_ns, earlier.near_processor_ns),
            (&mut self.near_queued_ns, earlier.near_queued_ns),
            (&mut self.far_ns, earlier.far_ns),
            (&mut self.far_input_ns, earlier.far_input_ns),
            (&mut self.far_work_ns, earlier.far_work_ns),
            (&mut self.far_processor_ns, earlier.far_processor_ns),
            (&mut self.far_queued_ns, earlier.far_queued_ns),
            (&mut self.way_busy_us, earlier.way_busy_us),
            (&mut self.way_window_us, earlier.way_window_us),
            (&mut self.way_buffer_us, earlier.way_buffer_us),
            (&mut self.held_by_operations_ns, earlier.held_by_operations_ns),
            (&mut self.held_by_latency_ns, earlier.held_by_latency_ns),
            (&mut self.source_reads, earlier.source_reads),
            (&mut self.source_requests, earlier.source_requests),
            (&mut self.target_operations, earlier.target_operations),
            (&mut self.target_requests, earlier.target_requests),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.source_answer_ns = self.source_answer_ns.or(earlier.source_answer_ns);
        self.target_answer_ns = self.target_answer_ns.or(earlier.target_answer_ns);
    }
}

/// One counter with one writer and any number of readers.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the owning lane calls this, so a load and a store are enough.
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Takes over a sum that is kept elsewhere. Only the owning lane calls this.
    pub fn set(&self, sum: u64) {
        self.0.store(sum, Relaxed);
    }

    /// The value so far.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The time of one thread, in nanoseconds since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// It had a processor.
    pub processor_ns: u64,
    /// It could have worked, and waited for a processor.
    pub queued_ns: u64,
}

/// The time of a lane's thread, but for what it took while there was nothing to do: many lanes that look for work now and
/// then would seem to keep those from working that have some.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkTime {
    sum: ThreadTime,
    /// What was seen last: of the thread, and of the stages but for idleness.
    seen: (ThreadTime, u64),
}

impl WorkTime {
    /// The sums so far. A thread has had no more time for work than the lane worked.
    pub fn take(&mut self, thread: ThreadTime, worked_ns: u64) -> ThreadTime {
        let (before, worked_before_ns) = std::mem::replace(&mut self.seen, (thread, worked_ns));
        let room_ns = worked_ns.saturating_sub(worked_before_ns);
        let processor_ns = thread.processor_ns.saturating_sub(before.processor_ns).min(room_ns);
        let queued_ns = thread.queued_ns.saturating_sub(before.queued_ns).min(room_ns - processor_ns);
        self.sum.processor_ns += processor_ns;
        self.sum.queued_ns += queued_ns;
        self.sum
    }
}

/// What a lane knows of the far end of its connection: all since the connection was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beyond {
    /// What the thread at the far end said last.
    pub far: FarTime,
    /// What the kernel here says of the connection.
    pub way: WayTime,
    /// What was compressed for it.
    pub compressed: Compressed,
}

/// What a thread that serves a connection did with its time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FarTime {
    /// Since the connection was made.
    pub all_ns: u64,
    /// Waiting for something to come.
    pub input_ns: u64,
    /// Working on the target.
    pub work_ns: u64,
    /// With a processor.
    pub processor_ns: u64,
    /// Waiting for one.
    pub queued_ns: u64,
}

/// What a connection did with its time, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayTime {
    /// There was something to send.
    pub busy_us: u64,
    /// The peer's window was full.
    pub window_us: u64,
    /// The send buffer was full.
    pub buffer_us: u64,
}

impl LaneCounters {
    /// The time of all stages, but for idleness.
    pub fn worked_ns(&self) -> u64 {
        let all: u64 = self.stage_ns.iter().map(Counter::get).sum();
        all - self.stage_ns[Stage::Idle as usize].get()
    }

    /// Takes over what is measured elsewhere.
    pub fn set_times(&self, near: ThreadTime, Beyond { far, way, compressed }: Beyond) {
        // What is sent is compressed on the way out, so sending has counted it as its own.
        let [send, compress] = [Stage::Send, Stage::Compress].map(|stage| &self.stage_ns[stage as usize]);
        let more = compressed.time_ns.saturating_sub(compress.get()).min(send.get());
        send.set(send.get() - more);
        compress.add(more);
        for (counter, sum) in [
            (&self.near_processor_ns, near.processor_ns),
            (&self.near_queued_ns, near.queued_ns),
            (&self.far_ns, far.all_ns),
            (&self.far_input_ns, far.input_ns),
            (&self.far_work_ns, far.work_ns),
            (&self.far_processor_ns, far.processor_ns),
            (&self.far_queued_ns, far.queued_ns),
            (&self.way_busy_us, way.busy_us),
            (&self.way_window_us, way.window_us),
            (&self.way_buffer_us, way.buffer_us),
            (&self.compressed_bytes, compressed.content_bytes),
            (&self.compressed_to_bytes, compressed.sent_bytes),
        ] {
            counter.set(sum);
        }
    }
}

/// Where a lane spends its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Stage {
    /// Listing the source and comparing.
    Scan = 0,
    /// Reading from the source.
    Read = 1,
    /// Hashing what was read.
    Hash = 2,
    /// Handing data to the target: writing to it, or encrypting and sending.
    Send = 3,
    /// Waiting for the target's answers.
    Wait = 4,
    /// Nothing to do.
    Idle = 5,
    /// The final flush to stable storage.
    Sync = 6,
    /// Held back by a limit that was asked for.
    Held = 7,
    /// Compressing what is sent.
    Compress = 8,
}

impl Stage {
    /// The number of stages.
    pub const COUNT: usize = 9;
    /// All stages, in the order of their numbers.
    pub const ALL: [Stage; Stage::COUNT] = [
        Stage::Scan,
        Stage::Read,
        Stage::Hash,
        Stage::Send,
        Stage::Wait,
        Stage::Idle,
        Stage::Sync,
        Stage::Held,
        Stage::Compress,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Scan => "scan",
            Stage::Read => "source read",
            Stage::Hash => "hash",
            Stage::Send => "send",
            Stage::Wait => "target",
            Stage::Idle => "idle",
            Stage::Sync => "target sync",
            Stage::Held => "rate limit",
            Stage::Compress => "compress",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_sums_the_lanes() {
        let lanes = [LaneCounters::default(), LaneCounters::default()];
        lanes[0].entries_created.add(3);
        lanes[1].entries_created.add(4);
        lanes[1].stage_ns[Stage::Hash as usize].add(9);
        let mut sum = Snapshot::default();
        lanes.iter().for_each(|lane| sum.add(lane));
        assert_eq!((sum.entries_created, sum.stage_ns[Stage::Hash as usize]), (7, 9));
        let once = sum.clone();
        sum.merge(&once);
        assert_eq!(sum.entries_created, 14);
        let lately = sum.since(&once);
        assert_eq!((lately.entries_created, lately.stage_ns[Stage::Hash as usize]), (7, 9));
    }

    #[test]
    fn compressing_is_no_part_of_sending() {
        let lane = LaneCounters::default();
        let times = |stage: Stage| lane.stage_ns[stage as usize].get();
        lane.stage_ns[Stage::Send as usize].add(100);
        let compressed = |time_ns| {
            let compressed =
                Compressed { time_ns, content_bytes: 50, sent_bytes: 20, ..Compressed::default() };
            Beyond { compressed, ..Beyond::default() }
        };
        lane.set_times(ThreadTime::default(), compressed(30));
        assert_eq!((times(Stage::Send), times(Stage::Compress)), (70, 30));
        lane.stage_ns[Stage::Send as usize].add(10);
        lane.set_times(ThreadTime::default(), compressed(35));
        assert_eq!((times(Stage::Send), times(Stage::Compress)), (75, 35));
        assert_eq!((lane.compressed_bytes.get(), lane.compressed_to_bytes.get()), (50, 20));
    }

    #[test]
    fn a_lane_without_work_takes_no_time_from_others() {
        let thread = |processor_ns, queued_ns| ThreadTime { processor_ns, queued_ns };
        let mut time = WorkTime::default();
        assert_eq!(time.take(thread(60, 20), 100), thread(60, 20));
        // It only looked for work, then had some, and did hardly anything else.
        assert_eq!(time.take(thread(65, 25), 100), thread(60, 20));
        assert_eq!(time.take(thread(95, 105), 150), thread(90, 40));
        // Clocks are read one after the other.
        assert_eq!(time.take(thread(90, 100), 140), thread(90, 40));
    }

    #[test]
    fn stages_are_numbered_as_listed() {
        for (number, stage) in Stage::ALL.iter().enumerate() {
            assert_eq!(*stage as usize, number);
        }
    }
}
