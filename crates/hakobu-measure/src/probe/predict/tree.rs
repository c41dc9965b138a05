//! How long a tree takes: what each of its files costs, and what all its bytes do.

use hakobu_core::probe::{ReadFigures, TreeFigures, Work};

use super::costs::Costs;
use super::measured::Measured;
use super::moving::{Held, held, tuned_seconds};
use super::prediction::{Prediction, Stage, StageRate, TreePrediction, bounded, certain, slower};

/// What a copy does for each small file besides what was measured, in seconds of a processor, at each end: to compare two
/// listings, to pack, to keep count.
const SOURCE_WORK_SECONDS: f64 = 0.3e-6;
const TARGET_WORK_SECONDS: f64 = 1.5e-6;
/// And where it travels.
const TRAVEL_WORK_SECONDS: f64 = 0.5e-6;
/// The same of an entry that is left alone.
const LISTED_WORK_SECONDS: f64 = 1.4e-6;
/// A listing has to be of so many entries to tell a rate.
const LISTED_MIN: u64 = 1000;
/// Questions and answers of a copy besides those of the login: to look at both ends, to list a tree, level by level, and to
/// end.
const ROUND_TRIPS: f64 = 16.0;
/// What a file takes of a medium besides its bytes: the rest of its last block, its inode, its name, and these once more in a
/// journal.
const BESIDES_BYTES: f64 = 3072.0;
/// What listing an entry reads of a medium, once the system has forgotten it: its inode.
const INODE_BYTES: f64 = 256.0;

pub(super) fn tree(made: &Prediction, measured: &Measured<'_>, costs: &Costs) -> Option<TreePrediction> {
    let source = measured.source?;
    let tree = source.tree.as_ref().filter(|tree| tree.is_sound())?;
    let listing = Listing::of(measured, tree)?;
    let begin = measured.start.as_secs_f64() + measured.round_trip.as_secs_f64() * ROUND_TRIPS;
    let small = Small::of(measured, source, tree);

    // A run that finds nothing: both sides list at a time, and each entry is compared. It may well be another day, when the
    // target's memory holds other things.
    let compared = tree.entries() as f64 * LISTED_WORK_SECONDS;
    let work = costs.seconds(listing.source_processor + compared, listing.target_processor);
    let write = certain(made).find(|stage| stage.stage == Stage::TargetWrite);
    let read_again = write
        .filter(|_| !listing.is_of_target)
        .map_or(0.0, |write| tree.entries() as f64 * INODE_BYTES / write.bytes_per_second);
    let unchanged = listing.source.max(listing.target).max(work) + read_again;

    // The first copy. What was measured of small files has reading and writing their bytes in it.
    let small_bytes = tree.small_bytes as f64;
    let large_bytes = tree.bytes.saturating_sub(tree.small_bytes) as f64;
    let at_source = listing.source_processor
        + small.source_processor
        + small_bytes * costs.send
        + large_bytes * costs.source.unwrap_or(0.0);
    let at_target =
        small.target_processor + small_bytes * costs.receive + large_bytes * costs.target.unwrap_or(0.0);
    let before = certain(made).filter(|stage| stage.stage != Stage::TargetWrite).min_by(slower);
    let bytes = before.map_or(0.0, |before| {
        tree.bytes as f64 / before.bytes_per_second + tuned_seconds(measured, before, tree.bytes)
    });
    // Where both ends are in one process, a lane does one after the other.
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
        Some(write) => Written { measured, tree, write }.span(longest, limited_by),
        None => (longest, limited_by),
    };
    Some(TreePrediction {
        first: bounded(begin + first.0, first.1)?,
        unchanged: bounded(begin + unchanged, "listing")?,
        at_least: !tree.complete,
    })
}

/// What listing takes, in seconds: of the clock, and of the processors.
struct Listing {
    source: f64,
    source_processor: f64,
    /// Of the clock's, what no processor was wanted for.
    source_waiting: f64,
    target: f64,
    target_processor: f64,
    /// The target's was measured there.
    is_of_target: bool,
}

impl Listing {
    fn of(measured: &Measured<'_>, tree: &TreeFigures) -> Option<Self> {
        let entries = tree.entries() as f64;
        let wall = |scan: &Work| Some(entries / scan.per_second()?);
        let processor = |scan: &Work| scan.processor_seconds_each().map(|each| entries * each);
        let source = wall(&tree.scan)?;
        let source_processor = processor(&tree.scan).unwrap_or(0.0);
        let source_waiting = (source - source_processor).max(0.0);
        let there = measured.target.and_then(|target| target.tree.as_ref());
        let there = there.filter(|there| there.entries() >= LISTED_MIN && there.is_sound());
        let waiting =
            |work: &Work| Some(entries * work.waiting_seconds_each()? / f64::from(work.threads.max(1)));
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
            // Whatever is there will have been written a moment ago, so the processors' time is what it takes; unless a
            // server is asked for each.
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

/// What small files cost, all together.
struct Small {
    source_processor: f64,
    target_processor: f64,
    source_waiting: f64,
    target_waiting: f64,
}

impl Small {
    fn of(measured: &Measured<'_>, source: &ReadFigures, tree: &TreeFigures) -> Self {
        let (files, lanes) = (tree.small_files as f64, f64::from(measured.lanes()));
        let each = |work: Option<&Work>| work.and_then(Work::processor_seconds_each).unwrap_or(0.0) * files;
        let waiting =
            |work: Option<&Work>| work.and_then(Work::waiting_seconds_each).unwrap_or(0.0) * files / lanes;
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

/// A tree that goes to a medium.
struct Written<'a> {
    measured: &'a Measured<'a>,
    tree: &'a TreeFigures,
    write: &'a StageRate,
}

impl Written<'_> {
    /// How long it takes, and what most of that is, where all that comes before takes so long: what is held in memory
    /// until the end is written after that, and the rest meanwhile.
    fn span(&self, before: f64, limited_by: &'static str) -> (f64, &'static str) {
        let on_medium = self.tree.bytes as f64 + self.tree.files as f64 * BESIDES_BYTES;
        let is_large = self.tree.small_bytes < self.tree.bytes / 2;
        let held = match held(self.measured, is_large, self.tree.bytes) {
            Held::Bytes(held) if held >= self.tree.bytes => on_medium,
            Held::Bytes(held) => held as f64,
            Held::Seconds(seconds) => on_medium * (seconds / before.max(seconds)),
        };
        let rate = self.write.bytes_per_second;
        let (of_rest, of_all) = (before + held / rate, before * held / on_medium.max(1.0) + on_medium / rate);
        let is_most = on_medium / rate > before;
        (of_rest.max(of_all), if is_most { self.write.stage.name() } else { limited_by })
    }
}
