//! Which level a lane compresses with, from what its time went to.
//!
//! As long as sending waits for the way, a processor that waits as well may as well compress. A lane whose sending
//! never waits has no use for it.

use hakobu_core::compression::{Choice, Compression, Reason};

/// The levels that are tried, and what they cost of text: nanoseconds for each byte on one core of the machine that
/// they were measured on. Only the proportions count, and for the first choice the magnitude.
const LEVELS: [(i8, f32); 6] = [(-5, 2.2), (-3, 2.4), (-1, 2.5), (1, 2.6), (2, 2.9), (3, 3.4)];

/// The way limits where sending waits for it for this share of the time.
const WAITS: f32 = 0.25;
/// It does not any more where sending waits for less than this.
const SELDOM_WAITS: f32 = 0.08;
/// Nothing is begun where the threads of both ends together want so much of a processor: they keep each other waiting.
const BUSY_TOGETHER: f32 = 0.8;
/// Nor where the far end waits for something to come for less than this share of its time.
const FAR_WAITS: f32 = 0.5;
/// The far end limits where it waits for less than this, or wants a processor for more than that.
const FAR_SELDOM_WAITS: f32 = 0.15;
const FAR_BUSY: f32 = 0.75;
/// In so many windows, one after another: in a single one somebody else may have had the processor, or the disk.
const FAR_WINDOWS: u32 = 3;
/// Compressing is no burden that takes less of the lane's time.
const BURDEN: f32 = 0.15;
/// The first level may take so much of it, as far as that can be foreseen.
const FIRST_BURDEN: f32 = 0.25;
/// A higher level has to leave so much less to send.
const WORTH: f32 = 0.99;
/// What did not go well is not tried again for so many windows, then for twice as many.
const REST_MIN: u32 = 10;
const REST_MAX: u32 = 640;
/// So many windows a lane is looked at without compression, before that is judged. The first of them still fills
/// buffers that were empty, which looks like speed.
const TRIAL: u32 = 3;
/// Without compression it has to be slower by this for it to come back.
const SLOWER: f64 = 0.97;

/// What the lane did in the last fraction of a second: shares of its time, 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Content that was sent, before compression.
    pub bytes_per_second: f64,
    /// Sending waited for the way.
    pub blocked: f32,
    /// The thread had a processor or waited for one.
    pub processor: f32,
    /// Compressing.
    pub compressing: f32,
    /// To what share of it content shrank, where it was compressed.
    pub shrank_to: Option<f32>,
    /// What the far end said of the same time.
    pub far: Option<FarShares>,
}

/// What the far end's thread did: shares of its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct FarShares {
    /// Waiting for something to come.
    pub input: f32,
    /// With a processor, or waiting for one.
    pub processor: f32,
}

/// Chooses the level of one lane.
#[derive(Debug)]
pub(super) struct Pilot {
    rule: Compression,
    /// The level at work, by its place in [`LEVELS`].
    at: Option<usize>,
    /// A level to be tried beside that at work, and the window that made it worth a try.
    candidate: Option<(usize, Window)>,
    /// Compression was left off to see whether it goes as fast without.
    trial: Option<Trial>,
    /// No level is raised for so many windows, nor was after the last time that it did not go well.
    rest: Rest,
    /// The same of leaving it off.
    rest_off: Rest,
    /// The far end limited in so many windows until now.
    far_limited: u32,
    choices: u32,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    level: usize,
    bytes_per_second: f64,
    windows: u32,
}

/// How long something is not tried again.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    left: u32,
    last: u32,
}

impl Rest {
    /// It did not go well.
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

impl Pilot {
    /// `at_once`: without waiting for what the way turns out to be.
    pub fn new(rule: Compression, at_once: bool) -> Self {
        // What compresses from the beginning begins in the middle.
        let begins = rule == Compression::Adapted || at_once && rule == Compression::Auto;
        let at = begins.then_some(LEVELS.len() / 2);
        let (rest, rest_off) = (Rest::default(), Rest::default());
        Self { rule, at, candidate: None, trial: None, rest, rest_off, far_limited: 0, choices: 0 }
    }

    /// What is chosen before anything is known, if it is worth telling.
    pub fn choose_at_once(&mut self) -> Option<Choice> {
        let level = self.level().filter(|_| self.rule == Compression::Auto)?;
        self.choices += 1;
        let (reason, blocked, shrank_to) = (Reason::LongWay, 0.0, None);
        Some(Choice { number: self.choices, level: Some(level), reason, blocked, shrank_to })
    }

    /// The level to compress with now, if any.
    pub fn level(&self) -> Option<i8> {
        match self.rule {
            Compression::Level(level) => Some(level),
            _ => self.at.map(|at| LEVELS[at].0),
        }
    }

    /// Whether anything is left to choose.
    pub fn adapts(&self) -> bool {
        matches!(self.rule, Compression::Auto | Compression::Adapted)
    }

    /// A level to compress the next content with as well, to see which leaves less of it.
    pub fn candidate(&self) -> Option<i8> {
        self.candidate.map(|(at, _)| LEVELS[at].0)
    }

    /// What came of that: how much each of the two left of the same content. Of other content nothing could be told.
    pub fn compare(&mut self, now_bytes: usize, candidate_bytes: usize) -> Option<Choice> {
        let (at, window) = self.candidate.take()?;
        if candidate_bytes as f32 > now_bytes as f32 * WORTH {
            self.rest.begin();
            return None;
        }
        self.choose(Some(at), Reason::WayLimits, &window)
    }

    /// Chooses anew. Gives the choice if it is another than before.
    pub fn judge(&mut self, window: &Window) -> Option<Choice> {
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

    fn choose(&mut self, at: Option<usize>, reason: Reason, window: &Window) -> Option<Choice> {
        if at == self.at {
            return None;
        }
        self.at = at;
        self.choices += 1;
        let (blocked, shrank_to) = (window.blocked, window.shrank_to);
        Some(Choice { number: self.choices, level: self.level(), reason, blocked, shrank_to })
    }

    /// The level to begin with, if the way is what limits.
    fn first(&self, window: &Window) -> Option<usize> {
        let far = window.far?;
        let way_limits = window.blocked >= WAITS
            && far.input >= FAR_WAITS
            && window.processor + far.processor <= BUSY_TOGETHER;
        if !way_limits || !self.rest.is_over() {
            return None;
        }
        // Half of it left to send makes twice as much of it to compress.
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
            // To decompress takes as long whatever the level is.
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
            self.trial = Some(Trial { level: at, bytes_per_second, windows: TRIAL });
        }
        self.rest.begin();
        Some((lower, Reason::ProcessorLimits))
    }

    /// Has the next level tried, if the time that is left over is enough for it.
    fn foresee_more(&mut self, at: usize, window: &Window) {
        let Some((_, cost)) = LEVELS.get(at + 1) else { return };
        let more = window.compressing * (cost / LEVELS[at].1 - 1.0);
        if self.rest.is_over() && window.shrank_to.is_some() && more <= window.blocked / 2.0 {
            self.candidate = Some((at + 1, *window));
        }
    }

    /// Whether it goes as well without compression as it did with it.
    fn judge_trial(&mut self, trial: Trial, window: &Window) -> Option<(Option<usize>, Reason)> {
        let windows = trial.windows - 1;
        if windows > 0 {
            self.trial = Some(Trial { windows, ..trial });
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
