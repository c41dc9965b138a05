//! The surroundings of a copy, and its result.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::engine::{DELETIONS_KEPT_MAX, RunSummary};
use crate::event::Observer;
use crate::losses::LossKind;
use crate::report::{ReportDisk, ReportMachines, UsedTransport};

use crate::live_limits::LiveLimits;
use crate::outages::Outages;
use crate::prompts::Prompts;

/// The parts of the surrounding program that a copy needs.
pub struct RunEnvironment<'a> {
    /// Asks the user for passwords.
    pub prompts: &'a mut dyn Prompts,
    /// Receives all events.
    pub observer: &'a dyn Observer,
    /// Stops the copy when it is set.
    pub cancel: Arc<AtomicBool>,
    /// The limits of the copy, which may change while it runs.
    pub limits: Arc<LiveLimits>,
}

/// The result of a copy.
#[derive(Clone, Debug, Default)]
pub struct Transfer {
    /// The engine's summary. Its `fatal` error may also be one of the steps before and after the engine.
    pub summary: RunSummary,
    /// The job's identity in hexadecimal, once it is known.
    pub job: Option<String>,
    /// The route of the data.
    pub transport: UsedTransport,
    /// The machines and stores that content passes, in order.
    pub route: Vec<String>,
    /// The cipher's name; `None` if no connection was made.
    pub cipher: Option<&'static str>,
    /// The resolved sources, with their host.
    pub sources: Vec<Vec<u8>>,
    /// The resolved target, with its host.
    pub target: Option<Vec<u8>>,
    /// The machines that took part, as far as the run came to know them.
    pub machines: ReportMachines,
    /// The disk of each source that is one, and that of the target.
    pub disks: (Vec<Option<ReportDisk>>, Option<ReportDisk>),
    /// The time from the start until both ends were ready for the first time.
    pub connect: Duration,
    /// The connection losses during the copy.
    pub outages: Outages,
    /// The bytes sent and received by the engine's side in all attempts; `None` if no connection was made, or if the
    /// engine's host was lost before it could report.
    pub wire_bytes: Option<(u64, u64)>,
    /// The peak memory in bytes of the process at the source and of the one at the target.
    pub peak_memory_bytes: (Option<u64>, Option<u64>),
    /// True if the target may have had more entries when the run began than are counted, because those that a lost
    /// attempt created could not be distinguished from them.
    pub target_may_have_more: bool,
    /// True if data was verified as it was written.
    pub verified: bool,
    /// True if set-ID bits and the like were left out because the user did not allow them.
    pub rights_withheld: bool,
    /// Each source with its target, if they were given in pairs.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The passes over a source in use, if there were any.
    pub passes: Vec<Pass>,
    /// The time for which the source was held still at most, if a command was given for that: from the start of the first
    /// command to the end of the second one or, without a second one, of the last pass.
    pub held_still: Option<Duration>,
}

/// One pass that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pass {
    /// The duration in seconds.
    pub seconds: f64,
    /// The number of bytes that had changed and were written.
    pub written_bytes: u64,
}

/// Adds the figures of earlier attempts. Entries that those have copied count as unchanged for the later ones. Bytes
/// that were sent again are counted again, and so is the time for them.
pub fn add_earlier(summary: &mut RunSummary, earlier: &RunSummary) {
    let (now, before) = (&mut summary.counters, &earlier.counters);
    // The figures come from another host, so the sums may be anything.
    let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
    for done in [before.entries_created, before.entries_updated, before.entries_attributes_only] {
        now.entries_unchanged = now.entries_unchanged.saturating_sub(done);
    }
    add(&mut now.entries_created, before.entries_created);
    add(&mut now.directories_created, before.directories_created);
    add(&mut now.entries_updated, before.entries_updated);
    add(&mut now.entries_attributes_only, before.entries_attributes_only);
    add(&mut now.entries_examined, before.entries_examined);
    add(&mut now.entries_deleted, before.entries_deleted);
    add(&mut now.source_read_bytes, before.source_read_bytes);
    add(&mut now.target_read_bytes, before.target_read_bytes);
    add(&mut now.target_written_bytes, before.target_written_bytes);
    add(&mut now.zeros_skipped_bytes, before.zeros_skipped_bytes);
    add(&mut now.bytes_kept, before.bytes_kept);
    add(&mut now.compressed_bytes, before.compressed_bytes);
    add(&mut now.compressed_to_bytes, before.compressed_to_bytes);
    let room = DELETIONS_KEPT_MAX.saturating_sub(earlier.deleted.len());
    summary.deleted.truncate(room);
    summary.deleted.splice(..0, earlier.deleted.iter().cloned());
    now.add_times(before);
    add(&mut summary.transfer_ns, earlier.transfer_ns);
    summary.levels.merge(earlier.levels);
    summary.requests.merge(&earlier.requests);
    summary.planned_requests.merge(&earlier.planned_requests);
    for loss in &earlier.losses {
        match summary.losses.iter_mut().find(|known| known.what == loss.what) {
            // These losses are counted for unchanged entries as well, so the later count includes the earlier one.
            Some(known) if !matches!(loss.what, LossKind::Acl | LossKind::Xattr) => {
                known.count = known.count.max(loss.count);
            }
            Some(known) => add(&mut known.count, loss.count),
            None => summary.losses.push(loss.clone()),
        }
    }
}
