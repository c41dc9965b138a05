//! Predicts the duration of copying a tree from the cost of each file and of all bytes.

use hakobu_core::probe::{MeasuredWork, ReadFigures, TreeFigures};

use super::costs::Costs;
use super::measured::Measurements;
use super::moving::{RateLimitCause, held, tuned_seconds};
use super::prediction::{Prediction, StageRate, TransferStage, TreePrediction, bounded, certain, slower};

/// The processor seconds of a copy for each small file at each end, in addition to the measured work: comparing two
/// listings, packing, bookkeeping.
const SOURCE_WORK_SECONDS: f64 = 0.3e-6;
const TARGET_WORK_SECONDS: f64 = 1.5e-6;
/// The additional processor seconds for each small file that is sent between processes.
const TRAVEL_WORK_SECONDS: f64 = 0.5e-6;
/// The processor seconds for each unchanged entry.
const LISTED_WORK_SECONDS: f64 = 1.4e-6;
/// The minimum number of entries in a listing for a usable rate.
const LISTED_MIN: u64 = 1000;
/// The number of round trips of a copy in addition to the login: to inspect both ends, to list a tree level by level,
/// and to finish.
const ROUND_TRIPS: f64 = 16.0;
/// The bytes that a file takes on a medium besides its content: the rest of its last block, its inode and its name,
/// and these again in a journal.
const BESIDES_BYTES: f64 = 3072.0;
/// The bytes that listing an entry reads from a medium, once it has dropped out of the cache: its inode.
const INODE_BYTES: f64 = 256.0;

pub(super) fn tree(made: &Prediction, measured: &Measurements<'_>, costs: &Costs) -> Option<TreePrediction> {
    let source = measured.source?;
    let tree = source.tree.as_ref().filter(|tree| tree.is_sound())?;
    let listing = ListingCost::of(measured, tree)?;
    let begin = measured.start.as_secs_f64() + measured.round_trip.as_secs_f64() * ROUND_TRIPS;
    let small = SmallFileCost::of(measured, source, tree);

    // A run without changes: both sides list at the same time, and each entry is compared. It may run much later,
    // when the target's memory holds other data.
    let compared = tree.entries() as f64 * LISTED_WORK_SECONDS;
    let work = costs.seconds(listing.source_processor + compared, listing.target_processor);
    let write = certain(made).find(|stage| stage.stage == TransferStage::TargetWrite);
    let read_again = write
        .filter(|_| !listing.is_of_target)
        .map_or(0.0, |write| tree.entries() as f64 * INODE_BYTES / write.bytes_per_second);
    let unchanged = listing.source.max(listing.target).max(work) + read_again;

    // The first copy. The measurements of small files include reading and writing their bytes.
    let small_bytes = tree.small_bytes as f64;
    let large_bytes = tree.bytes.saturating_sub(tree.small_bytes) as f64;
    let at_source = listing.source_processor
        + small.source_processor
        + small_bytes * costs.send
        + large_bytes * costs.source.unwrap_or(0.0);
    let at_target =
        small.target_processor + small_bytes * costs.receive + large_bytes * costs.target.unwrap_or(0.0);
    let before = certain(made).filter(|stage| stage.stage != TransferStage::TargetWrite).min_by(slower);
    let bytes = before.map_or(0.0, |before| {
        tree.bytes as f64 / before.bytes_per_second + tuned_seconds(measured, before, tree.bytes)
    });
    // If both ends are in one process, a lane handles one after the other.
    let (read, made_small) = match measured.apart {
        true => (small.source_waiting, small.target_waiting),
        false if small.source_waiting > small.target_waiting => {
            (small.source_waiting + small.target_waiting, 0.0)
        }
        false => (0.0, small.source_waiting + small.target_waiting),
    };
    let parts = [
        ("cost of each file", costs.seconds(at_source, at_target)),
        ("listing", listing.source),
        ("opening and reading small files", read + listing.source_waiting),
        ("making small files", made_small),
        (before.map_or("bytes", |before| before.stage.name()), bytes),
    ];
    let (limited_by, longest) = parts.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let first = match write {
        Some(write) => TreeWriteCost { measured, tree, write }.span(longest, limited_by),
        None => (longest, limited_by),
    };
    Some(TreePrediction {
        first: bounded(begin + first.0, first.1)?,
        unchanged: bounded(begin + unchanged, "listing")?,
        at_least: !tree.complete,
    })
}

/// The cost of listing in seconds: wall-clock time and processor time.
struct ListingCost {
    source: f64,
    source_processor: f64,
    /// The part of the wall-clock time in which no processor was needed.
    source_waiting: f64,
    target: f64,
    target_processor: f64,
    /// True if the target's listing was measured on the target.
    is_of_target: bool,
}

impl ListingCost {
    fn of(measured: &Measurements<'_>, tree: &TreeFigures) -> Option<Self> {
        let entries = tree.entries() as f64;
        let wall = |scan: &MeasuredWork| Some(entries / scan.per_second()?);
        let processor = |scan: &MeasuredWork| scan.processor_seconds_each().map(|each| entries * each);
        let source = wall(&tree.scan)?;
        let source_processor = processor(&tree.scan).unwrap_or(0.0);
        let source_waiting = (source - source_processor).max(0.0);
        let there = measured.target.and_then(|target| target.tree.as_ref());
        let there = there.filter(|there| there.entries() >= LISTED_MIN && there.is_sound());
        let waiting = |work: &MeasuredWork| {
            Some(entries * work.waiting_seconds_each()? / f64::from(work.threads.max(1)))
        };
        let lookups = measured.target.and_then(|target| target.lookups.as_ref());
        Some(match there {
            Some(there) => Self {
                source,
                source_processor,
                source_waiting,
                target: wall(&there.scan)?,
                target_processor: processor(&there.scan).unwrap_or(source_processor),
                is_of_target: true,
            },
            // The entries of the target will have been written just before and are cached, so only processor time
            // counts, unless a server is asked for each entry.
            None => Self {
                source,
                source_processor,
                source_waiting,
                target: lookups.and_then(waiting).unwrap_or(0.0),
                target_processor: source_processor,
                is_of_target: false,
            },
        })
    }
}

/// The total cost of all small files in seconds.
struct SmallFileCost {
    source_processor: f64,
    target_processor: f64,
    source_waiting: f64,
    target_waiting: f64,
}

impl SmallFileCost {
    fn of(measured: &Measurements<'_>, source: &ReadFigures, tree: &TreeFigures) -> Self {
        let (files, lanes) = (tree.small_files as f64, f64::from(measured.lanes()));
        let each = |work: Option<&MeasuredWork>| {
            work.and_then(MeasuredWork::processor_seconds_each).unwrap_or(0.0) * files
        };
        let waiting = |work: Option<&MeasuredWork>| {
            work.and_then(MeasuredWork::waiting_seconds_each).unwrap_or(0.0) * files / lanes
        };
        let made = measured.target.and_then(|target| target.small.as_ref());
        let read = source.small.as_ref();
        let travel = if measured.apart { TRAVEL_WORK_SECONDS } else { 0.0 };
        Self {
            source_processor: each(read) + files * (SOURCE_WORK_SECONDS + travel),
            target_processor: each(made) + files * (TARGET_WORK_SECONDS + travel),
            source_waiting: waiting(read),
            target_waiting: waiting(made),
        }
    }
}

/// A tree that is written to a medium.
struct TreeWriteCost<'a> {
    measured: &'a Measurements<'a>,
    tree: &'a TreeFigures,
    write: &'a StageRate,
}

impl TreeWriteCost<'_> {
    /// Returns the duration and its main cause, if all stages before the medium take `before` seconds. Data that is
    /// held in memory until the end is written after that, the rest meanwhile.
    fn span(&self, before: f64, limited_by: &'static str) -> (f64, &'static str) {
        let on_medium = self.tree.bytes as f64 + self.tree.files as f64 * BESIDES_BYTES;
        let is_large = self.tree.small_bytes < self.tree.bytes / 2;
        let held = match held(self.measured, is_large, self.tree.bytes) {
            RateLimitCause::Bytes(held) if held >= self.tree.bytes => on_medium,
            RateLimitCause::Bytes(held) => held as f64,
            RateLimitCause::Seconds(seconds) => on_medium * (seconds / before.max(seconds)),
        };
        let rate = self.write.bytes_per_second;
        let (of_rest, of_all) = (before + held / rate, before * held / on_medium.max(1.0) + on_medium / rate);
        let is_most = on_medium / rate > before;
        (of_rest.max(of_all), if is_most { self.write.stage.name() } else { limited_by })
    }
}
