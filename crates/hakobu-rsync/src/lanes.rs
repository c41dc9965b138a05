//! The lanes: each runs one rsync after another, with a batch of the waiting files.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::entry::EntryKind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Event;
use hakobu_core::path::EntryPath;
use hakobu_core::units::{format_bytes, format_duration, format_rate};

use super::endpoints::RsyncEndpoints;
use super::lost_connections::LostConnectionMessages;
use super::options::{RsyncPurpose, limited_lanes};
use super::output::{ItemizedEntry, RsyncMessage};
use super::pace::{BatchPace, cannot_end_before};
use super::pool::{Batch, ChangeByRsync, FilePool, Share};
use super::record::RsyncRecord;
use super::remote_rsync::RemoteAccess;
use super::rsync_errors::Verdict;
use super::versions::{self, FileVersion};
use hakobu_core::request::LaneSetting as Asked;

/// The number of connections: the least and the most at first, and the limit later. The longer a connection takes to
/// start, the longer is the round trip and the less it carries: there is one for each [`A_LANE_FOR_EACH`] of that time.
const LANES_AT_FIRST: (usize, usize) = (8, 24);
const LANES_MOST: usize = 32;
const A_LANE_FOR_EACH: Duration = Duration::from_millis(10);
/// The interval of all checks.
const LOOK: Duration = Duration::from_millis(100);
/// The pause before an interrupted batch is repeated.
const PAUSE: Duration = Duration::from_millis(500);
/// The number of consecutive refusals after which a lane accepts that a daemon is full.
const FULL_MAX: u32 = 3;
/// The time after which the rate of a connection is known: for the size of batches, and for messages.
const RATE_KNOWN_AFTER: Duration = Duration::from_secs(1);
const RATE_TOLD_AFTER: Duration = Duration::from_secs(3);
/// The factor by which each sample loses weight at the next one, so that the rate covers about ten seconds.
const FADES: f64 = 0.99;

/// The state that the lanes of one run share.
pub(super) struct RsyncLanes<'a> {
    pub way: &'a RemoteAccess<'a>,
    pub ends: &'a RsyncEndpoints,
    pub pool: &'a FilePool,
    pub record: &'a RsyncRecord<'a>,
    /// The number of lanes that may work.
    wanted: AtomicUsize,
    /// The lanes that have not given up.
    alive: Mutex<BTreeSet<usize>>,
    working: AtomicUsize,
    connected: AtomicUsize,
    most_at_once: AtomicUsize,
    /// True once the remote side has refused more connections.
    is_full: AtomicBool,
    /// For each lane, the bytes of its current batch, and the path if it is a single file.
    at: Mutex<HashMap<usize, (u64, Option<EntryPath>)>>,
    /// The bytes that the kernel has counted.
    traffic: AtomicU64,
    rate: Mutex<f64>,
    cuts: Mutex<LostConnectionMessages>,
}

impl<'a> RsyncLanes<'a> {
    pub fn new(
        way: &'a RemoteAccess<'a>,
        ends: &'a RsyncEndpoints,
        pool: &'a FilePool,
        record: &'a RsyncRecord<'a>,
    ) -> Self {
        let (first, most) = Self::counts(way);
        Self {
            way,
            ends,
            pool,
            record,
            wanted: AtomicUsize::new(first),
            alive: Mutex::new((0..most).collect()),
            working: AtomicUsize::new(0),
            connected: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            at: Mutex::default(),
            traffic: AtomicU64::new(0),
            rate: Mutex::default(),
            cuts: Mutex::default(),
        }
    }

    /// Returns the number of lanes at first, and at most.
    pub fn counts(way: &RemoteAccess<'_>) -> (usize, usize) {
        if let Some(lanes) = limited_lanes(way.request) {
            return (lanes, lanes);
        }
        match way.request.lanes {
            Asked::Count(count) => (usize::from(count), usize::from(count)),
            Asked::Auto => (lanes_at_first(way.setup()), LANES_MOST),
        }
    }

    /// Reports the number of lanes at first, and the reason.
    fn tell_counts(&self) {
        let (first, most) = Self::counts(self.way);
        let setup = format_duration(self.way.setup());
        let (least, highest) = LANES_AT_FIRST;
        let reason = match self.way.request.lanes {
            Asked::Count(_) => "as asked".to_owned(),
            Asked::Auto if limited_lanes(self.way.request).is_some() => {
                "each gets its share of the limit (--bwlimit)".to_owned()
            }
            Asked::Auto => format!(
                "an rsync with nothing to do takes {setup}: one for each {} ms, from {least} to {highest}",
                A_LANE_FOR_EACH.as_millis()
            ),
        };
        let choice = match first == most {
            true => format!("connections: {first}"),
            false => format!("connections: {first} at first, and up to {most} while more of them are faster"),
        };
        self.way.decided(&choice, reason);
    }

    /// Returns the most lanes that were connected at once.
    pub fn most_at_once(&self) -> u16 {
        u16::try_from(self.most_at_once.load(Relaxed)).unwrap_or(u16::MAX)
    }

    /// Runs lane number `index` until it ends.
    pub fn work(&self, index: usize) {
        if let Err(error) = self.try_work(index) {
            self.record.stop(error);
            self.pool.stop();
        }
        lock(&self.alive).remove(&index);
    }

    fn try_work(&self, index: usize) -> Result<()> {
        let mut refused = 0;
        while self.waits_for_its_turn(index)? {
            let Some(batch) = self.pool.take(&|| self.share()) else { return Ok(()) };
            self.working.fetch_add(1, Relaxed);
            let ended = self.batch(index, batch);
            let others = self.working.fetch_sub(1, Relaxed) - 1;
            match ended? {
                BatchResult::Done => refused = 0,
                BatchResult::Lost(error) => self.lost(&error)?,
                BatchResult::Full(max) => {
                    refused += 1;
                    if others > 0 && refused >= FULL_MAX {
                        self.give_up(max);
                        return Ok(());
                    }
                    if self.record.stalled_for() > self.way.request.retry_for {
                        return Err(self.way.full(max));
                    }
                    self.way.pause(PAUSE)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the number of lanes that may work.
    fn wanted(&self) -> usize {
        self.wanted.load(Relaxed)
    }

    /// Returns the current state of the lanes.
    fn share(&self) -> Share {
        let left = |(index, (bytes, _)): (&usize, &(u64, _))| bytes.saturating_sub(self.moved_by(*index));
        Share {
            lanes: self.wanted(),
            bytes_per_second: *lock(&self.rate) as u64,
            setup: self.way.setup(),
            left_bytes: lock(&self.at).iter().map(left).collect(),
        }
    }

    /// Returns the bytes that a lane has moved of its batch.
    fn moved_by(&self, index: usize) -> u64 {
        self.record.lanes.get(index).map_or(0, |lane| lane.load(Relaxed))
    }

    /// Waits until this lane may work. Returns false if there is nothing left to do.
    fn waits_for_its_turn(&self, index: usize) -> Result<bool> {
        // The index alone is not enough: lanes before it may have given up.
        while living_before(&lock(&self.alive), index) >= self.wanted() {
            if self.pool.is_finished() || self.record.is_stopped() {
                return Ok(false);
            }
            self.way.pause(LOOK)?;
        }
        Ok(!self.record.is_stopped())
    }

    /// Copies one batch.
    fn batch(&self, index: usize, mut batch: Batch) -> Result<BatchResult> {
        let before = self.versions(&batch);
        let order = self.ends.order_of(self.way, batch.paths());
        let alone = match &batch.files[..] {
            [one] => Some(one.path.clone()),
            _ => None,
        };
        lock(&self.at).insert(index, (batch.bytes(), alone));
        let (mut listed, mut counted) = (0, 0);
        let mut connected = None;
        let purpose = RsyncPurpose::Batch { holes: batch.files.iter().any(|file| file.may_have_holes) };
        let ran = self.way.run(purpose, &order, &mut |said| {
            if !matches!(said, RsyncMessage::Traffic(_)) {
                connected.get_or_insert_with(|| ConnectedLanes::new(self));
            }
            match said {
                RsyncMessage::Item(item) => {
                    // An rsync without progress figures still reveals which files are done: those before the one that
                    // it names, because it names a file when it begins with it.
                    self.moved(index, &mut batch, listed);
                    listed += if item.has_content { item.size_bytes } else { 0 };
                    self.note(&mut batch, item);
                }
                RsyncMessage::Bytes(bytes) => self.moved(index, &mut batch, bytes),
                RsyncMessage::Traffic(bytes) => {
                    self.traffic.fetch_add(bytes.saturating_sub(counted), Relaxed);
                    counted = bytes;
                }
                RsyncMessage::Skipped(path) => self.skipped(path),
                RsyncMessage::Deleted(_) | RsyncMessage::NotEmpty(_) | RsyncMessage::Unread(_) => {}
            }
        });
        drop(connected);
        lock(&self.at).remove(&index);
        let verdict = match ran {
            Ok(verdict) => verdict,
            Err(error) => {
                self.pool.done(Some(batch));
                return Err(error);
            }
        };
        let failures = match verdict {
            Verdict::Done => Vec::new(),
            Verdict::Partly(failures) => failures,
            Verdict::Full(max) => return Ok(self.again(index, batch, BatchResult::Full(max))),
            Verdict::Lost(error) => {
                batch.was_lost = true;
                return Ok(self.again(index, batch, BatchResult::Lost(error)));
            }
            Verdict::AuthFailed(error) | Verdict::Fatal(error) => {
                self.pool.done(Some(batch));
                return Err(error);
            }
            Verdict::OptionRefused(name) => {
                self.pool.done(Some(batch));
                return Err(Error::new(ErrorKind::Unsupported, "agreeing on options", name));
            }
        };
        self.ends.failures(self.record, failures);
        for path in versions::changed(&before, &self.versions(&batch)) {
            let words = "it changed while it was copied";
            self.record
                .failure(path.as_bytes().to_vec(), Error::new(ErrorKind::SourceChanged, "reading", words));
        }
        self.record.batch(index, &batch);
        self.pool.done(None);
        Ok(BatchResult::Done)
    }

    fn again(&self, index: usize, batch: Batch, turn: BatchResult) -> BatchResult {
        self.record.begin(index);
        self.pool.done(Some(batch));
        turn
    }

    /// Returns the versions of local files before or after they are sent.
    fn versions(&self, batch: &Batch) -> HashMap<EntryPath, FileVersion> {
        match self.way.outward {
            true => versions::of(&self.ends.local, batch.paths()),
            false => HashMap::new(),
        }
    }

    /// Records that `bytes` of a batch are moved. Bytes that an earlier attempt had moved too are no progress;
    /// otherwise an attempt that always ends at the same place would be repeated forever.
    fn moved(&self, index: usize, batch: &mut Batch, bytes: u64) {
        self.record.moved_at_least(index, bytes);
        if batch.is_further(bytes) {
            self.record.went_forward();
        }
    }

    /// Records what was done with an entry.
    fn note(&self, batch: &mut Batch, item: ItemizedEntry) {
        let change = change_of(&item);
        if item.kind == EntryKind::Directory {
            // Its attributes are set at the end.
            if item.is_new {
                self.record.made(item.path);
            }
            return;
        }
        // A file that an earlier attempt copied is reported as unchanged, or gets its attributes.
        if let Entry::Vacant(vacant) = batch.changes.entry(item.path) {
            vacant.insert(change);
            self.record.went_forward();
        }
    }

    fn skipped(&self, path: Vec<u8>) {
        let words = "the receiving rsync may not make devices";
        self.record.failure(path, Error::new(ErrorKind::Unsupported, "making the node", words));
    }

    /// Handles a lost connection: the incomplete files are copied again, unless there was no progress for too long.
    fn lost(&self, error: &Error) -> Result<()> {
        if self.record.stalled_for() + PAUSE > self.way.request.retry_for {
            return Err(error.clone());
        }
        let news = lock(&self.cuts).news(Instant::now(), &error.to_string());
        if let Some(words) = news {
            self.way.observer.event(Event::Notice { words });
        }
        self.way.pause(PAUSE)
    }

    /// Reduces the lanes to the number that a full daemon has accepted.
    fn give_up(&self, max: Option<u32>) {
        let connected = self.most_at_once.load(Relaxed);
        let go_on = going_on(connected, max);
        self.wanted.fetch_min(go_on, Relaxed);
        if self.is_full.swap(true, Relaxed) {
            return;
        }
        let full = match max {
            None => "the daemon takes no more connections (max connections)".to_owned(),
            Some(max) => format!("the daemon takes no more connections (max connections of {max})"),
        };
        let words = match connected {
            0 => format!("{full}, and all are in use by others; hakobu asks again until one is free"),
            _ => format!("{full}; continuing with {go_on}"),
        };
        self.way.observer.event(Event::Notice { words });
    }

    /// Reports progress, and adjusts the number of lanes, until the run is over.
    pub fn watch(&self, is_over: &AtomicBool) {
        let (first, most) = Self::counts(self.way);
        let mut pace = BatchPace::new(first, most, self.way.setup());
        let mut rate = LaneRate::default();
        let (began, mut told) = (Instant::now(), false);
        self.tell_counts();
        while !is_over.load(Relaxed) {
            std::thread::sleep(LOOK);
            let figures = self.record.snapshot();
            // If the kernel does not count, or counts another program that has started rsync, use rsync's own figures.
            let moved = self.traffic.load(Relaxed).max(figures.target_written_bytes);
            self.way.observer.event(Event::Progress(Box::new(figures)));
            let working = self.working.load(Relaxed);
            let time = began.elapsed();
            rate.look(time, moved, working);
            if time > RATE_KNOWN_AFTER {
                *lock(&self.rate) = rate.of_one();
            }
            told = told
                || time > RATE_TOLD_AFTER
                    && working > 0
                    && self.tell_what_cannot_be_split(rate.of_one(), working);
            let can_grow =
                !self.is_full.load(Relaxed) && working >= self.wanted() && self.pool.waiting_bytes() > 0;
            if let Some((lanes, reason)) = pace.update(time, moved, can_grow) {
                self.wanted.store(lanes, Relaxed);
                self.way.decided(&format!("connections: {lanes}"), reason);
            }
        }
    }

    /// Reports when a single file delays the whole run.
    fn tell_what_cannot_be_split(&self, rate: f64, working: usize) -> bool {
        if !self.pool.scan_done() {
            return false;
        }
        let at = lock(&self.at);
        let left = |(index, (size, path)): (&usize, &(u64, Option<EntryPath>))| {
            Some((size.saturating_sub(self.moved_by(*index)), *size, path.clone()?))
        };
        let Some((left, size, path)) = at.iter().filter_map(left).max() else { return false };
        drop(at);
        let Some((time, rest)) = cannot_end_before(left, self.pool.waiting_bytes(), rate, working) else {
            return false;
        };
        let words = format!(
            "{path} ({}) goes over one connection at {} and cannot be split: the run cannot end before {} from now; \
             the rest takes about {}",
            format_bytes(size),
            format_rate(rate),
            format_duration(time),
            format_duration(rest)
        );
        self.way.observer.event(Event::Notice { words });
        true
    }
}

/// The rate of one lane, including the cost of starting.
#[derive(Debug, Default)]
struct LaneRate {
    bytes: f64,
    lane_seconds: f64,
    before: (Duration, u64),
}

impl LaneRate {
    /// Adds a sample: the bytes moved by this time, and the number of working lanes.
    fn look(&mut self, time: Duration, moved_bytes: u64, working: usize) {
        let (then, bytes) = self.before;
        self.bytes = self.bytes * FADES + moved_bytes.saturating_sub(bytes) as f64;
        self.lane_seconds =
            self.lane_seconds * FADES + (time.saturating_sub(then)).as_secs_f64() * working as f64;
        self.before = (time, moved_bytes);
    }

    /// Returns the rate of one lane in bytes per second.
    fn of_one(&self) -> f64 {
        if self.lane_seconds > 0.0 { self.bytes / self.lane_seconds } else { 0.0 }
    }
}

/// Returns the number of connections to a daemon to try at first, given the time one takes to start.
fn lanes_at_first(setup: Duration) -> usize {
    let (least, most) = LANES_AT_FIRST;
    ((setup.as_millis() / A_LANE_FOR_EACH.as_millis()) as usize).clamp(least, most)
}

/// Returns the number of lanes that continue once the remote side is full. Refused lanes also appear to work, so only
/// those count that were connected at one time. Others may also use connections of the daemon.
fn going_on(connected: usize, max: Option<u32>) -> usize {
    let max = max.and_then(|max| usize::try_from(max).ok()).unwrap_or(usize::MAX);
    connected.min(max).max(1)
}

/// Returns the number of living lanes before this one.
fn living_before(alive: &BTreeSet<usize>, index: usize) -> usize {
    alive.range(..index).count()
}

/// Counts a lane from its rsync's first output on; until then, the daemon may refuse it.
struct ConnectedLanes<'a>(&'a AtomicUsize);

impl<'a> ConnectedLanes<'a> {
    fn new(lanes: &'a RsyncLanes<'_>) -> Self {
        let now = lanes.connected.fetch_add(1, Relaxed) + 1;
        lanes.most_at_once.fetch_max(now, Relaxed);
        Self(&lanes.connected)
    }
}

impl Drop for ConnectedLanes<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The result of a batch.
enum BatchResult {
    Done,
    Lost(Error),
    Full(Option<u32>),
}

/// Returns what was done with an entry.
pub(super) fn change_of(item: &ItemizedEntry) -> ChangeByRsync {
    match (item.is_new, item.has_content || item.is_link) {
        (true, _) => ChangeByRsync::Created,
        (false, true) => ChangeByRsync::Updated,
        (false, false) => ChangeByRsync::Attributes,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farther_away_a_daemon_is_the_more_connections_there_are_at_first() {
        let at_first = |ms| lanes_at_first(Duration::from_millis(ms));
        assert_eq!([0, 30, 150, 270, 5000].map(at_first), [8, 8, 15, 24, 24]);
    }

    #[test]
    fn those_go_on_that_the_daemon_has_let_in() {
        assert_eq!(going_on(2, Some(2)), 2);
        // One was accepted a moment after another had ended.
        assert_eq!(going_on(3, Some(2)), 2);
        // The other connections are not ours.
        assert_eq!(going_on(1, Some(8)), 1);
        assert_eq!(going_on(3, None), 3);
        assert_eq!((going_on(0, Some(2)), going_on(0, Some(0))), (1, 1));
    }

    #[test]
    fn the_rate_of_one_is_that_of_those_that_work() {
        let mut rate = LaneRate::default();
        assert!(rate.of_one() < 1.0);
        // Two lanes for a second, then four, of 1000 bytes per second each.
        (1..=10).for_each(|tick| rate.look(Duration::from_millis(tick * 100), tick * 200, 2));
        (1..=10).for_each(|tick| rate.look(Duration::from_millis(1000 + tick * 100), 2000 + tick * 400, 4));
        assert!((990.0..1010.0).contains(&rate.of_one()), "{}", rate.of_one());
    }

    #[test]
    fn lanes_that_gave_up_are_not_waited_for() {
        // The daemon has room for two, and the last two were faster.
        let mut alive: BTreeSet<_> = (0..4).collect();
        let may_work = |alive: &BTreeSet<usize>| {
            alive.iter().copied().filter(|index| living_before(alive, *index) < 2).collect::<Vec<_>>()
        };
        assert_eq!(may_work(&alive), [0, 1]);
        alive.remove(&0);
        assert_eq!(may_work(&alive), [1, 2]);
        alive.remove(&1);
        assert_eq!(may_work(&alive), [2, 3]);
    }
}
