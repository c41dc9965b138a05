//! What a copy is given by the program around it, and what comes of it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::engine::Summary;
use crate::event::Observer;
use crate::losses::LossKind;
use crate::report::{ReportDisk, Route};

use crate::live_limits::LiveLimits;
use crate::outages::Outages;
use crate::prompts::Prompts;

/// What a copy needs from the program around it.
pub struct Surroundings<'a> {
    /// Asks the user for passwords.
    pub prompts: &'a mut dyn Prompts,
    /// Hears of everything.
    pub observer: &'a dyn Observer,
    /// Stops the copy when it is set.
    pub cancel: Arc<AtomicBool>,
    /// What it is held to, which may change meanwhile.
    pub limits: Arc<LiveLimits>,
}

/// What came of a copy.
#[derive(Clone, Debug, Default)]
pub struct Transfer {
    /// What the engine said; its `fatal` error also stands for everything before and after it.
    pub summary: Summary,
    /// The job's identity in hexadecimal, once it is known.
    pub job: Option<String>,
    /// How the data travelled.
    pub transport: Route,
    /// The cipher's name; none where no connection was made.
    pub cipher: Option<&'static str>,
    /// The sources as they were found, with their host.
    pub sources: Vec<Vec<u8>>,
    /// The target as it was found, with its host.
    pub target: Option<Vec<u8>>,
    /// Which disks the sources are, and which the target is.
    pub disks: (Vec<Option<ReportDisk>>, Option<ReportDisk>),
    /// From the start until both ends were ready for the first time.
    pub connect: Duration,
    /// How often the connection was lost meanwhile.
    pub outages: Outages,
    /// Bytes sent and received by the engine's side, of all attempts; none where no connection was
    /// made, or where the engine's machine was lost before it could tell.
    pub wire_bytes: Option<(u64, u64)>,
    /// The most memory of the process at the source and of the one at the target.
    pub peak_memory_bytes: (Option<u64>, Option<u64>),
    /// Whether the target may have had more entries when the run began than are counted: what an attempt that was lost has
    /// made could not be told from them.
    pub target_may_have_more: bool,
    /// Whether data was checked as it was written.
    pub verified: bool,
    /// Whether set-ID bits and the like were left out because the user did not allow them.
    pub rights_withheld: bool,
    /// Each source with its target, where several were given in pairs.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The passes over a source in use, if there were any.
    pub passes: Vec<Pass>,
}

/// One pass that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pass {
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Bytes that had changed, and were written.
    pub written_bytes: u64,
}

/// Adds what earlier attempts did: what they brought over is unchanged for the later ones. Bytes
/// that were sent again are counted again, as is the time that they took.
pub fn add_earlier(summary: &mut Summary, earlier: &Summary) {
    let (now, before) = (&mut summary.counters, &earlier.counters);
    // The figures come from another machine, so the sums may be anything.
    let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
    for done in [before.entries_created, before.entries_updated, before.entries_attributes_only] {
        now.entries_unchanged = now.entries_unchanged.saturating_sub(done);
    }
    add(&mut now.entries_created, before.entries_created);
    add(&mut now.entries_updated, before.entries_updated);
    add(&mut now.entries_attributes_only, before.entries_attributes_only);
    add(&mut now.entries_deleted, before.entries_deleted);
    add(&mut now.source_read_bytes, before.source_read_bytes);
    add(&mut now.target_read_bytes, before.target_read_bytes);
    add(&mut now.target_written_bytes, before.target_written_bytes);
    add(&mut now.zeros_skipped_bytes, before.zeros_skipped_bytes);
    add(&mut now.bytes_kept, before.bytes_kept);
    add(&mut now.compressed_bytes, before.compressed_bytes);
    add(&mut now.compressed_to_bytes, before.compressed_to_bytes);
    now.add_times(before);
    add(&mut summary.transfer_ns, earlier.transfer_ns);
    summary.levels.merge(earlier.levels);
    for loss in &earlier.losses {
        match summary.losses.iter_mut().find(|known| known.what == loss.what) {
            // These are counted of what was found equal as well.
            Some(known) if !matches!(loss.what, LossKind::Acl | LossKind::Xattr) => {
                known.count = known.count.max(loss.count);
            }
            Some(known) => add(&mut known.count, loss.count),
            None => summary.losses.push(loss.clone()),
        }
    }
}
