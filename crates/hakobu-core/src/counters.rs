//! Counters that lanes update while they work, and their sums.
//!
//! Each lane owns one block of counters in cache lines of its own, so counting costs one plain addition and no lane
//! waits for another.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::compression::CompressionStats;

macro_rules! counters {
    ($( $(#[$doc:meta])* $name:ident ),* $(,)?) => {
        /// The counters of one lane.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct LaneCounters {
            $( $(#[$doc])* pub $name: Counter, )*
            /// Nanoseconds spent in each [`LaneStage`].
            pub stage_ns: [Counter; LaneStage::COUNT],
        }

        /// The sums of all lanes at one moment.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct CounterTotals {
            $( $(#[$doc])* pub $name: u64, )*
            /// Nanoseconds spent in each [`LaneStage`], summed over the lanes.
            pub stage_ns: [u64; LaneStage::COUNT],
            /// True if the scan has ended, so that the totals are known.
            pub scan_done: bool,
            /// True if the target is on another machine, so that [`LaneStage::Send`] includes the network.
            pub remote: bool,
            /// Nanoseconds that the source's file server took for one answer before the run, if there is a file server.
            pub source_answer_ns: Option<u64>,
            /// Nanoseconds that the target's file server took for one answer before the run, if there is a file server.
            pub target_answer_ns: Option<u64>,
            /// The second of the day at which the current pause of a timetable ends, if there is one.
            pub paused_until_s: Option<u32>,
            /// Nanoseconds of wall-clock time in such pauses.
            pub paused_ns: u64,
            /// Bytes of the files that a plan would copy: an upper bound of the transfer.
            pub planned_bytes: u64,
            /// Lanes that may work at this moment; 0 at the end of a run, and if the engine runs on another machine.
            pub lanes: u64,
        }

        impl CounterTotals {
            /// Adds the counters of one lane.
            pub fn add(&mut self, lane: &LaneCounters) {
                $( self.$name = self.$name.saturating_add(lane.$name.get()); )*
                for (sum, counter) in self.stage_ns.iter_mut().zip(&lane.stage_ns) {
                    *sum = sum.saturating_add(counter.get());
                }
            }

            /// Returns the difference to an earlier snapshot of the same run.
            #[must_use]
            pub fn since(&self, earlier: &CounterTotals) -> CounterTotals {
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
            pub fn merge(&mut self, other: &CounterTotals) {
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
    /// Entries created because the target lacked them.
    entries_created,
    /// Entries whose content or kind was updated.
    entries_updated,
    /// Entries that were equal on both sides and not touched.
    entries_unchanged,
    /// Bytes of regular files that were not touched.
    bytes_unchanged,
    /// Entries whose attributes only were changed.
    entries_attributes_only,
    /// Entries that both sides have and that differ, in a run that compares.
    entries_different,
    /// Files whose content was compared.
    entries_compared,
    /// Extra entries at the target that are kept.
    entries_only_in_target,
    /// Entries seen at the target, in a run that counts or removes extra entries.
    entries_in_target,
    /// Entries of the source that the target lacked when both were compared: an upper bound of those created.
    entries_absent,
    /// Entries of the target that were removed because the source lacks them.
    entries_deleted,
    /// Entries that wait for the removal of a directory in their place.
    entries_in_the_way,
    /// Entries left out on purpose: by rules, sockets, and those whose name an earlier source has as well.
    entries_skipped,
    /// Entries that could not be copied.
    entries_failed,
    /// Bytes read from the source.
    source_read_bytes,
    /// Bytes of content that the target has acknowledged.
    target_written_bytes,
    /// Bytes of files that share their blocks with the source.
    cloned_bytes,
    /// Bytes of zeros and holes that were not transferred.
    zeros_skipped_bytes,
    /// Bytes read back from the target for comparison.
    target_read_bytes,
    /// Bytes of acknowledged chunks that were zeros, or that the target already had.
    bytes_kept,
    /// Bytes that an earlier, interrupted run had copied.
    bytes_resumed,
    /// Bytes of content that were sent compressed, before compression.
    compressed_bytes,
    /// The size of that content after compression, in bytes.
    compressed_to_bytes,
    /// Nanoseconds in which the lanes' threads ran on a processor.
    near_processor_ns,
    /// Nanoseconds in which the lanes' threads waited for a processor.
    near_queued_ns,
    /// Nanoseconds of the threads that serve the lanes on the remote host.
    far_ns,
    /// Nanoseconds in which those threads waited for input.
    far_input_ns,
    /// Nanoseconds in which those threads worked on the target.
    far_work_ns,
    /// Nanoseconds in which those threads ran on a processor.
    far_processor_ns,
    /// Nanoseconds in which those threads waited for a processor.
    far_queued_ns,
    /// Microseconds in which the connections to the remote host had data to send.
    way_busy_us,
    /// Microseconds of those in which the peer's receive window was the limit.
    way_window_us,
    /// Microseconds of those in which the local send buffer was the limit.
    way_buffer_us,
    /// Nanoseconds of [`LaneStage::Held`] caused by the operation limit.
    held_by_operations_ns,
    /// Nanoseconds of [`LaneStage::Held`] caused by the source latency limit.
    held_by_latency_ns,
    /// Small files, and pieces of large ones, that were read at the source.
    source_reads,
    /// The approximate number of a file server's answers that those reads wait for.
    source_requests,
    /// Operations at the target, counted in the same way as for the operation limit.
    target_operations,
    /// The approximate number of a file server's answers that those operations wait for.
    target_requests,
    /// Bytes of those read from the source that only checked what an earlier run had copied.
    sampled_bytes,
    /// Directories among the entries created.
    directories_created,
    /// Sockets among the entries left out.
    sockets_skipped,
    /// Entries that were asked for by themselves, because the listings did not show whether they are equal.
    entries_examined,
}

impl CounterTotals {
    /// Adds the times of an earlier attempt at the same run.
    pub fn add_times(&mut self, earlier: &CounterTotals) {
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
    /// Adds to the counter. Only the owning lane calls this, so a load and a store are enough.
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Sets a sum that is maintained elsewhere. Only the owning lane calls this.
    pub fn set(&self, sum: u64) {
        self.0.store(sum, Relaxed);
    }

    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The time of one thread in nanoseconds since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// Time on a processor.
    pub processor_ns: u64,
    /// Time in which it was runnable but waited for a processor.
    pub queued_ns: u64,
}

/// The time of a lane's thread without the time spent idle. Otherwise many lanes that look for work now and then would
/// seem to slow down the lanes that have work.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkTime {
    sum: ThreadTime,
    /// The latest values: the thread's time, and the time of all stages except idling.
    seen: (ThreadTime, u64),
}

impl WorkTime {
    /// Returns the sums so far. A thread's time is limited to the time that the lane worked.
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

/// A lane's statistics about its connection and the remote host, since the connection was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RemoteStats {
    /// The latest report of the remote thread.
    pub far: FarTime,
    /// The local kernel's figures on the connection.
    pub way: WayTime,
    /// The statistics of compression.
    pub compressed: CompressionStats,
}

/// The time of a thread that serves a connection, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FarTime {
    /// Time since the connection was opened.
    pub all_ns: u64,
    /// Time waiting for input.
    pub input_ns: u64,
    /// Time working on the target.
    pub work_ns: u64,
    /// Time on a processor.
    pub processor_ns: u64,
    /// Time waiting for a processor.
    pub queued_ns: u64,
}

/// The time of a connection in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayTime {
    /// Time with data to send.
    pub busy_us: u64,
    /// Time in which the peer's window was full.
    pub window_us: u64,
    /// Time in which the send buffer was full.
    pub buffer_us: u64,
}

impl LaneCounters {
    /// Returns the time of all stages except idling.
    pub fn worked_ns(&self) -> u64 {
        let all: u64 = self.stage_ns.iter().map(Counter::get).sum();
        all - self.stage_ns[LaneStage::Idle as usize].get()
    }

    /// Sets the values that are measured elsewhere.
    pub fn set_times(&self, near: ThreadTime, RemoteStats { far, way, compressed }: RemoteStats) {
        // Compression happens while sending, so its time has been counted as sending.
        let [send, compress] =
            [LaneStage::Send, LaneStage::Compress].map(|stage| &self.stage_ns[stage as usize]);
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

/// The stages in which a lane spends its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum LaneStage {
    /// Listing the source and comparing.
    Scan = 0,
    /// Reading from the source.
    Read = 1,
    /// Hashing what was read.
    Hash = 2,
    /// Passing data to the target: writing to it, or encrypting and sending.
    Send = 3,
    /// Waiting for the target's answers.
    Wait = 4,
    /// Nothing to do.
    Idle = 5,
    /// The final flush to stable storage.
    Sync = 6,
    /// Waiting because of a requested limit.
    Held = 7,
    /// Compressing what is sent.
    Compress = 8,
}

impl LaneStage {
    /// The number of stages.
    pub const COUNT: usize = 9;
    /// All stages, in the order of their numbers.
    pub const ALL: [LaneStage; LaneStage::COUNT] = [
        LaneStage::Scan,
        LaneStage::Read,
        LaneStage::Hash,
        LaneStage::Send,
        LaneStage::Wait,
        LaneStage::Idle,
        LaneStage::Sync,
        LaneStage::Held,
        LaneStage::Compress,
    ];

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            LaneStage::Scan => "scan",
            LaneStage::Read => "source read",
            LaneStage::Hash => "hash",
            LaneStage::Send => "send",
            LaneStage::Wait => "target",
            LaneStage::Idle => "idle",
            LaneStage::Sync => "target sync",
            LaneStage::Held => "rate limit",
            LaneStage::Compress => "compress",
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
        lanes[1].stage_ns[LaneStage::Hash as usize].add(9);
        let mut sum = CounterTotals::default();
        lanes.iter().for_each(|lane| sum.add(lane));
        assert_eq!((sum.entries_created, sum.stage_ns[LaneStage::Hash as usize]), (7, 9));
        let once = sum.clone();
        sum.merge(&once);
        assert_eq!(sum.entries_created, 14);
        let lately = sum.since(&once);
        assert_eq!((lately.entries_created, lately.stage_ns[LaneStage::Hash as usize]), (7, 9));
    }

    #[test]
    fn compressing_is_no_part_of_sending() {
        let lane = LaneCounters::default();
        let times = |stage: LaneStage| lane.stage_ns[stage as usize].get();
        lane.stage_ns[LaneStage::Send as usize].add(100);
        let compressed = |time_ns| {
            let compressed = CompressionStats {
                time_ns,
                content_bytes: 50,
                sent_bytes: 20,
                ..CompressionStats::default()
            };
            RemoteStats { compressed, ..RemoteStats::default() }
        };
        lane.set_times(ThreadTime::default(), compressed(30));
        assert_eq!((times(LaneStage::Send), times(LaneStage::Compress)), (70, 30));
        lane.stage_ns[LaneStage::Send as usize].add(10);
        lane.set_times(ThreadTime::default(), compressed(35));
        assert_eq!((times(LaneStage::Send), times(LaneStage::Compress)), (75, 35));
        assert_eq!((lane.compressed_bytes.get(), lane.compressed_to_bytes.get()), (50, 20));
    }

    #[test]
    fn a_lane_without_work_takes_no_time_from_others() {
        let thread = |processor_ns, queued_ns| ThreadTime { processor_ns, queued_ns };
        let mut time = WorkTime::default();
        assert_eq!(time.take(thread(60, 20), 100), thread(60, 20));
        // It looked for work only, and then had some that used hardly any time.
        assert_eq!(time.take(thread(65, 25), 100), thread(60, 20));
        assert_eq!(time.take(thread(95, 105), 150), thread(90, 40));
        // The clocks are read one after the other, so they may disagree.
        assert_eq!(time.take(thread(90, 100), 140), thread(90, 40));
    }

    #[test]
    fn stages_are_numbered_as_listed() {
        for (number, stage) in LaneStage::ALL.iter().enumerate() {
            assert_eq!(*stage as usize, number);
        }
    }
}
