//! Chooses the compression level of a lane from how its time was spent.
//!
//! While sending waits for the network path, the processor is idle and may as well compress. A lane whose sending never
//! waits gains nothing from compression.

use hakobu_core::compression::{Compression, LevelChoice, Reason};

/// The levels that are tried, and their cost for text: nanoseconds per byte on one core of the machine that they were
/// measured on. Only their proportions matter, and for the first choice their magnitude.
const LEVELS: [(i8, f32); 6] = [(-5, 2.2), (-3, 2.4), (-1, 2.5), (1, 2.6), (2, 2.9), (3, 3.4)];

/// The network path is the bottleneck if sending waits for it for at least this share of the time.
const WAITS: f32 = 0.25;
/// It is no longer the bottleneck if sending waits for less than this share.
const SELDOM_WAITS: f32 = 0.08;
/// Compression does not start if the threads of both ends together use more than this much of a processor: they keep
/// each other waiting.
const BUSY_TOGETHER: f32 = 0.8;
/// Nor does it start if the peer waits for input for less than this share of its time.
const FAR_WAITS: f32 = 0.5;
/// The peer is the bottleneck if it waits for input for less than this share, or uses more than that share of a
/// processor.
const FAR_SELDOM_WAITS: f32 = 0.15;
const FAR_BUSY: f32 = 0.75;
/// The number of consecutive windows in which that must hold: in a single one, another process may have used the
/// processor or the disk.
const FAR_WINDOWS: u32 = 3;
/// Compression that takes less than this share of the lane's time is no burden.
const BURDEN: f32 = 0.15;
/// The share of the lane's time that the first level may take, as far as that can be predicted.
const FIRST_BURDEN: f32 = 0.25;
/// A higher level must reduce the data to at most this fraction.
const WORTH: f32 = 0.99;
/// The number of windows for which a failed attempt is not repeated. It doubles with each failure.
const REST_MIN: u32 = 10;
const REST_MAX: u32 = 640;
/// The number of windows without compression before the result is judged. The first ones still fill empty buffers,
/// which looks like speed.
const TRIAL: u32 = 3;
/// Compression returns if the rate without it is below this fraction of the rate with it.
const SLOWER: f64 = 0.97;

/// A lane's activity in the last fraction of a second, in shares of its time, 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Content sent in bytes per second, before compression.
    pub bytes_per_second: f64,
    /// Sending waited for the network path.
    pub blocked: f32,
    /// The thread used a processor or waited for one.
    pub processor: f32,
    /// The thread compressed.
    pub compressing: f32,
    /// The ratio of compressed to original size of what was compressed.
    pub shrank_to: Option<f32>,
    /// The peer's activity in the same time.
    pub far: Option<PeerThreadShares>,
}

/// The activity of the peer's thread, in shares of its time, 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerThreadShares {
    /// Waiting for input.
    pub input: f32,
    /// Using a processor, or waiting for one.
    pub processor: f32,
}

/// Chooses the level of one lane.
#[derive(Debug)]
pub(super) struct LevelPilot {
    rule: Compression,
    /// The index in [`LEVELS`] of the level in use.
    at: Option<usize>,
    /// A level to be compared with the one in use, and the window that gave reason to try it.
    candidate: Option<(usize, Window)>,
    /// A trial without compression, to see whether the lane is as fast.
    trial: Option<LevelTrial>,
    /// The windows for which no level is raised.
    rest: TrialPause,
    /// The windows for which compression is not switched off.
    rest_off: TrialPause,
    /// The number of consecutive windows in which the peer was the bottleneck.
    far_limited: u32,
    choices: u32,
}

#[derive(Clone, Copy, Debug)]
struct LevelTrial {
    level: usize,
    bytes_per_second: f64,
    windows: u32,
}

/// The number of windows for which something is not tried again: those left, and the last full number.
#[derive(Clone, Copy, Debug, Default)]
struct TrialPause {
    left: u32,
    last: u32,
}

impl TrialPause {
    /// Begins after a failure, twice as long as the last time.
    fn begin(&mut self) {
        self.last = (2 * self.last).clamp(REST_MIN, REST_MAX);
        self.left = self.last;
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }

    fn pass(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

impl LevelPilot {
    /// Creates a pilot. `at_once`: compression starts before the network path is known to be the bottleneck.
    pub fn new(rule: Compression, at_once: bool) -> Self {
        // If compression starts at once, it starts in the middle of the range.
        let begins = rule == Compression::Adapted || at_once && rule == Compression::Auto;
        let at = begins.then_some(LEVELS.len() / 2);
        let (rest, rest_off) = (TrialPause::default(), TrialPause::default());
        Self { rule, at, candidate: None, trial: None, rest, rest_off, far_limited: 0, choices: 0 }
    }

    /// Returns the choice made before any measurement, if it is worth reporting.
    pub fn choose_at_once(&mut self) -> Option<LevelChoice> {
        let level = self.level().filter(|_| self.rule == Compression::Auto)?;
        self.choices += 1;
        let (reason, blocked, shrank_to) = (Reason::LongWay, 0.0, None);
        Some(LevelChoice { number: self.choices, level: Some(level), reason, blocked, shrank_to })
    }

    /// Returns the level to compress with now, if any.
    pub fn level(&self) -> Option<i8> {
        match self.rule {
            Compression::Level(level) => Some(level),
            _ => self.at.map(|at| LEVELS[at].0),
        }
    }

    /// Returns true if the level may still change.
    pub fn adapts(&self) -> bool {
        matches!(self.rule, Compression::Auto | Compression::Adapted)
    }

    /// Returns a level to compress the next content with as well, to see which gives less data.
    pub fn candidate(&self) -> Option<i8> {
        self.candidate.map(|(at, _)| LEVELS[at].0)
    }

    /// Compares the results in bytes of the two levels on one content; sizes of different contents could not be
    /// compared. Returns the choice if the candidate is better.
    pub fn compare(&mut self, now_bytes: usize, candidate_bytes: usize) -> Option<LevelChoice> {
        let (at, window) = self.candidate.take()?;
        if candidate_bytes as f32 > now_bytes as f32 * WORTH {
            self.rest.begin();
            return None;
        }
        self.choose(Some(at), Reason::WayLimits, &window)
    }

    /// Judges a window. Returns the new choice if it differs from the last.
    pub fn judge(&mut self, window: &Window) -> Option<LevelChoice> {
        self.rest.pass();
        self.rest_off.pass();
        self.candidate = None;
        let (at, reason) = match (self.at, self.trial) {
            (None, Some(trial)) => self.judge_trial(trial, window)?,
            (None, None) => (Some(self.first(window)?), Reason::WayLimits),
            (Some(at), _) => self.judge_level(at, window)?,
        };
        self.choose(at, reason, window)
    }

    fn choose(&mut self, at: Option<usize>, reason: Reason, window: &Window) -> Option<LevelChoice> {
        if at == self.at {
            return None;
        }
        self.at = at;
        self.choices += 1;
        let (blocked, shrank_to) = (window.blocked, window.shrank_to);
        Some(LevelChoice { number: self.choices, level: self.level(), reason, blocked, shrank_to })
    }

    /// Returns the first level, if the network path is the bottleneck.
    fn first(&self, window: &Window) -> Option<usize> {
        let far = window.far?;
        let way_limits = window.blocked >= WAITS
            && far.input >= FAR_WAITS
            && window.processor + far.processor <= BUSY_TOGETHER;
        if !way_limits || !self.rest.is_over() {
            return None;
        }
        // If compression halves the data, the lane takes in twice as much content to compress.
        let burden = |cost: f32| 2.0 * window.bytes_per_second as f32 * cost * 1e-9;
        Some(LEVELS.iter().rposition(|(_, cost)| burden(*cost) <= FIRST_BURDEN).unwrap_or(0))
    }

    fn judge_level(&mut self, at: usize, window: &Window) -> Option<(Option<usize>, Reason)> {
        let lower = at.checked_sub(1).or((self.rule == Compression::Adapted).then_some(at));
        if window.far.is_some_and(|far| far.input < FAR_SELDOM_WAITS || far.processor > FAR_BUSY) {
            self.far_limited += 1;
            if self.far_limited < FAR_WINDOWS {
                return None;
            }
            self.far_limited = 0;
            self.rest.begin();
            // Decompression takes the same time at every level, so `Auto` stops compressing.
            let stays = lower.filter(|_| self.rule == Compression::Adapted);
            return Some((stays, Reason::FarEndLimits));
        }
        self.far_limited = 0;
        if window.blocked >= WAITS {
            self.foresee_more(at, window);
            return None;
        }
        if window.blocked >= SELDOM_WAITS || window.compressing < BURDEN {
            return None;
        }
        if lower.is_none() {
            if !self.rest_off.is_over() {
                return None;
            }
            let bytes_per_second = window.bytes_per_second;
            self.trial = Some(LevelTrial { level: at, bytes_per_second, windows: TRIAL });
        }
        self.rest.begin();
        Some((lower, Reason::ProcessorLimits))
    }

    /// Makes the next level the candidate if there is enough spare time for it.
    fn foresee_more(&mut self, at: usize, window: &Window) {
        let Some((_, cost)) = LEVELS.get(at + 1) else { return };
        let more = window.compressing * (cost / LEVELS[at].1 - 1.0);
        if self.rest.is_over() && window.shrank_to.is_some() && more <= window.blocked / 2.0 {
            self.candidate = Some((at + 1, *window));
        }
    }

    /// Restores the level if the lane is slower without compression.
    fn judge_trial(&mut self, trial: LevelTrial, window: &Window) -> Option<(Option<usize>, Reason)> {
        let windows = trial.windows - 1;
        if windows > 0 {
            self.trial = Some(LevelTrial { windows, ..trial });
            return None;
        }
        self.trial = None;
        if window.bytes_per_second >= trial.bytes_per_second * SLOWER {
            self.rest.begin();
            return None;
        }
        self.rest_off.begin();
        Some((Some(trial.level), Reason::SlowerWithout))
    }
}
