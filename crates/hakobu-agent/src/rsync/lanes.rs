//! The lanes: each runs one rsync after the other, with a batch of the files that wait.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::entry::Kind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Event;
use hakobu_core::path::EntryPath;
use hakobu_core::units::{format_bytes, format_duration, format_rate};

use super::complaints::Verdict;
use super::cuts::Cuts;
use super::ends::Ends;
use super::options::{Purpose, limited_lanes};
use super::output::{Item, Said};
use super::pace::{Pace, cannot_end_before};
use super::pool::{Batch, Change, Pool, Share};
use super::record::Record;
use super::versions::{self, Version};
use super::way::Way;
use hakobu_core::request::Lanes as Asked;

/// How many connections there are at first, at least and at most, and in the end at most. The longer it takes to begin
/// with one, the farther away the other side is, and the less one of them carries: one for each so many milliseconds.
const LANES_AT_FIRST: (usize, usize) = (8, 24);
const LANES_MOST: usize = 32;
const A_LANE_FOR_EACH: Duration = Duration::from_millis(10);
/// The same where each is a login, of which sshd takes some at a time only.
const LANES_OVER_SSH: (usize, usize) = (4, 8);
/// How often everything is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// The pause before a batch that was cut off is done again.
const PAUSE: Duration = Duration::from_millis(500);
/// How often in a row a daemon may say that it is full before a lane believes it.
const FULL_MAX: u32 = 3;
/// The rate of a connection is known after this: for the size of batches, and for what people are told.
const RATE_KNOWN_AFTER: Duration = Duration::from_secs(1);
const RATE_TOLD_AFTER: Duration = Duration::from_secs(3);
/// What a look counts less at each later one, so that the rate is that of some ten seconds.
const FADES: f64 = 0.99;

/// What the lanes of one run share.
pub(super) struct Lanes<'a> {
    pub way: &'a Way<'a>,
    pub ends: &'a Ends,
    pub pool: &'a Pool,
    pub record: &'a Record<'a>,
    /// How many may work.
    wanted: AtomicUsize,
    /// Those that have not given up.
    alive: Mutex<BTreeSet<usize>>,
    working: AtomicUsize,
    connected: AtomicUsize,
    most_at_once: AtomicUsize,
    /// The far side has said that it takes no more.
    is_full: AtomicBool,
    /// The bytes of the batch that each is at, and the file if it is one only.
    at: Mutex<HashMap<usize, (u64, Option<EntryPath>)>>,
    /// The bytes that have passed, by the kernel's count.
    traffic: AtomicU64,
    rate: Mutex<f64>,
    cuts: Mutex<Cuts>,
}

impl<'a> Lanes<'a> {
    pub fn new(way: &'a Way<'a>, ends: &'a Ends, pool: &'a Pool, record: &'a Record<'a>) -> Self {
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

    /// How many lanes there are at first, and at most.
    pub fn counts(way: &Way<'_>) -> (usize, usize) {
        if let Some(lanes) = limited_lanes(way.request) {
            return (lanes, lanes);
        }
        match (way.request.lanes, way.remote.is_over_ssh()) {
            (Asked::Count(count), _) => (usize::from(count), usize::from(count)),
            (Asked::Auto, true) => LANES_OVER_SSH,
            (Asked::Auto, false) => (lanes_at_first(way.setup()), LANES_MOST),
        }
    }

    /// Says how many lanes there are at first, and why.
    fn tell_counts(&self) {
        let (first, most) = Self::counts(self.way);
        let setup = format_duration(self.way.setup());
        let (least, highest) = LANES_AT_FIRST;
        let reason = match (self.way.request.lanes, self.way.remote.is_over_ssh()) {
            (Asked::Count(_), _) => "as asked".to_owned(),
            (Asked::Auto, _) if limited_lanes(self.way.request).is_some() => {
                "each gets its share of the limit (--bwlimit)".to_owned()
            }
            (Asked::Auto, true) => {
                "each is a login or a session of one, of which a server takes some at a time".to_owned()
            }
            (Asked::Auto, false) => format!(
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

    /// The most that worked at once.
    pub fn most_at_once(&self) -> u16 {
        u16::try_from(self.most_at_once.load(Relaxed)).unwrap_or(u16::MAX)
    }

    /// The life of lane number `index`.
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
                Turn::Done => refused = 0,
                Turn::Lost(error) => self.lost(&error)?,
                Turn::Full(max) => {
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

    /// How many may work.
    fn wanted(&self) -> usize {
        self.wanted.load(Relaxed).min(self.way.lanes_max())
    }

    /// What is known of the lanes now.
    fn share(&self) -> Share {
        let left = |(index, (bytes, _)): (&usize, &(u64, _))| bytes.saturating_sub(self.moved_by(*index));
        Share {
            lanes: self.wanted(),
            bytes_per_second: *lock(&self.rate) as u64,
            setup: self.way.setup(),
            left_bytes: lock(&self.at).iter().map(left).collect(),
        }
    }

    /// What a lane has moved of its batch.
    fn moved_by(&self, index: usize) -> u64 {
        self.record.lanes.get(index).map_or(0, |lane| lane.load(Relaxed))
    }

    /// Waits until so many are wanted. False when there is nothing left to do.
    fn waits_for_its_turn(&self, index: usize) -> Result<bool> {
        // Not by its number: those before it may have given up.
        while living_before(&lock(&self.alive), index) >= self.wanted() {
            if self.pool.is_finished() || self.record.is_stopped() {
                return Ok(false);
            }
            self.way.pause(LOOK)?;
        }
        Ok(!self.record.is_stopped())
    }

    /// Brings over one batch.
    fn batch(&self, index: usize, mut batch: Batch) -> Result<Turn> {
        let before = self.versions(&batch);
        let order = self.ends.order_of(self.way, batch.paths());
        let alone = match &batch.files[..] {
            [one] => Some(one.path.clone()),
            _ => None,
        };
        lock(&self.at).insert(index, (batch.bytes(), alone));
        let (mut listed, mut counted) = (0, 0);
        let mut connected = None;
        let purpose = Purpose::Batch { holes: batch.files.iter().any(|file| file.may_have_holes) };
        let ran = self.way.run(purpose, &order, &mut |said| {
            if !matches!(said, Said::Traffic(_)) {
                connected.get_or_insert_with(|| Connected::new(self));
            }
            match said {
                Said::Item(item) => {
                    // An rsync without figures of progress says at least which files are done: those before this one,
                    // which it names when it begins with it.
                    self.moved(index, &mut batch, listed);
                    listed += if item.has_content { item.size_bytes } else { 0 };
                    self.note(&mut batch, item);
                }
                Said::Bytes(bytes) => self.moved(index, &mut batch, bytes),
                Said::Traffic(bytes) => {
                    self.traffic.fetch_add(bytes.saturating_sub(counted), Relaxed);
                    counted = bytes;
                }
                Said::Skipped(path) => self.skipped(path),
                Said::Deleted(_) | Said::NotEmpty(_) | Said::Unread(_) => {}
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
            Verdict::Full(max) => return Ok(self.again(index, batch, Turn::Full(max))),
            Verdict::Lost(error) => {
                batch.was_lost = true;
                return Ok(self.again(index, batch, Turn::Lost(error)));
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
        Ok(Turn::Done)
    }

    fn again(&self, index: usize, batch: Batch, turn: Turn) -> Turn {
        self.record.begin(index);
        self.pool.done(Some(batch));
        turn
    }

    /// What files of this machine are before or after they are sent.
    fn versions(&self, batch: &Batch) -> HashMap<EntryPath, Version> {
        match self.way.outward {
            true => versions::of(&self.ends.local, batch.paths()),
            false => HashMap::new(),
        }
    }

    /// So many bytes of a batch are moved. What an earlier attempt had moved as well is no progress, or one that always
    /// ends at the same place would be repeated for ever.
    fn moved(&self, index: usize, batch: &mut Batch, bytes: u64) {
        self.record.moved_at_least(index, bytes);
        if batch.is_further(bytes) {
            self.record.went_forward();
        }
    }

    /// Takes note of what was done with an entry.
    fn note(&self, batch: &mut Batch, item: Item) {
        let change = change_of(&item);
        if item.kind == Kind::Directory {
            // Its attributes are seen to in the end.
            if item.is_new {
                self.record.made(item.path);
            }
            return;
        }
        // What an earlier attempt brought over is found equal, or gets its attributes.
        if let Entry::Vacant(vacant) = batch.changes.entry(item.path) {
            vacant.insert(change);
            self.record.went_forward();
        }
    }

    fn skipped(&self, path: Vec<u8>) {
        let words = "the receiving rsync may not make devices";
        self.record.failure(path, Error::new(ErrorKind::Unsupported, "making the node", words));
    }

    /// A connection was lost: what was not complete is done again, unless nothing has gone forward for too long.
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

    /// The daemon is full: as many go on as it has let in.
    fn give_up(&self, max: Option<u32>) {
        let connected = self.most_at_once.load(Relaxed);
        let go_on = going_on(connected, max);
        self.wanted.fetch_min(go_on, Relaxed);
        if self.is_full.swap(true, Relaxed) {
            return;
        }
        let full = match (self.way.remote.is_over_ssh(), max) {
            (true, _) => "the server lets no more sessions into one login (MaxSessions)".to_owned(),
            (false, None) => "the daemon takes no more connections (max connections)".to_owned(),
            (false, Some(max)) => format!("the daemon takes no more connections (max connections of {max})"),
        };
        let words = match connected {
            0 => format!("{full}, and all are in use by others; one asks again until there is room"),
            _ => format!("{full}; going on with {go_on}"),
        };
        self.way.observer.event(Event::Notice { words });
    }

    /// Tells the figures, and decides how many lanes there are, until all is done.
    pub fn watch(&self, is_over: &AtomicBool) {
        let (first, most) = Self::counts(self.way);
        let mut pace = Pace::new(first, most, self.way.setup());
        let mut rate = Rate::default();
        let (began, mut told) = (Instant::now(), false);
        self.tell_counts();
        while !is_over.load(Relaxed) {
            std::thread::sleep(LOOK);
            let figures = self.record.snapshot();
            // Where the kernel does not count, or counts another program that has started rsync, what rsync tells has
            // to do.
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

    /// Says when a single file holds up everything.
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

/// How fast one lane is, with what it costs to begin.
#[derive(Debug, Default)]
struct Rate {
    bytes: f64,
    lane_seconds: f64,
    before: (Duration, u64),
}

impl Rate {
    /// So much had moved at this time, when so many worked.
    fn look(&mut self, time: Duration, moved_bytes: u64, working: usize) {
        let (then, bytes) = self.before;
        self.bytes = self.bytes * FADES + moved_bytes.saturating_sub(bytes) as f64;
        self.lane_seconds =
            self.lane_seconds * FADES + (time.saturating_sub(then)).as_secs_f64() * working as f64;
        self.before = (time, moved_bytes);
    }

    /// Bytes a second of one lane.
    fn of_one(&self) -> f64 {
        if self.lane_seconds > 0.0 { self.bytes / self.lane_seconds } else { 0.0 }
    }
}

/// How many connections to a daemon are worth a try, where it takes so long to begin with one.
fn lanes_at_first(setup: Duration) -> usize {
    let (least, most) = LANES_AT_FIRST;
    ((setup.as_millis() / A_LANE_FOR_EACH.as_millis()) as usize).clamp(least, most)
}

/// How many lanes go on once the far side is full. Those that it refuses work as well, as far as they can tell, so only
/// those count that were connected at one time; and others may have connections of the daemon's.
fn going_on(connected: usize, max: Option<u32>) -> usize {
    let max = max.and_then(|max| usize::try_from(max).ok()).unwrap_or(usize::MAX);
    connected.min(max).max(1)
}

/// How many lanes go before this one.
fn living_before(alive: &BTreeSet<usize>, index: usize) -> usize {
    alive.range(..index).count()
}

/// Counts a lane from its rsync's first word on; before, the daemon may refuse it.
struct Connected<'a>(&'a AtomicUsize);

impl<'a> Connected<'a> {
    fn new(lanes: &'a Lanes<'_>) -> Self {
        let now = lanes.connected.fetch_add(1, Relaxed) + 1;
        lanes.most_at_once.fetch_max(now, Relaxed);
        Self(&lanes.connected)
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// How a batch ended.
enum Turn {
    Done,
    Lost(Error),
    Full(Option<u32>),
}

/// What was done with an entry.
pub(super) fn change_of(item: &Item) -> Change {
    match (item.is_new, item.has_content || item.is_link) {
        (true, _) => Change::Created,
        (false, true) => Change::Updated,
        (false, false) => Change::Attributes,
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
        // One was let in a moment after another had ended.
        assert_eq!(going_on(3, Some(2)), 2);
        // The others are not ours.
        assert_eq!(going_on(1, Some(8)), 1);
        assert_eq!(going_on(3, None), 3);
        assert_eq!((going_on(0, Some(2)), going_on(0, Some(0))), (1, 1));
    }

    #[test]
    fn the_rate_of_one_is_that_of_those_that_work() {
        let mut rate = Rate::default();
        assert!(rate.of_one() < 1.0);
        // Two lanes for a second, then four, of 1000 bytes a second each.
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
