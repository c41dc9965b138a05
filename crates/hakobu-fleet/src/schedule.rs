//! The schedule of a relationship: when its runs start, and when they must not move anything.
//!
//! The clock is given. A start that could not be made at its time, because of a blackout, an earlier run that still went on,
//! or a control plane that was away, is *missed*: then it is made once afterwards, or not at all.
//!
//! A fixed time that the clocks skip is the moment at which they go forward, and one that comes twice is the first of both.
//! A line with `*` or steps in minute or hour counts real time instead: nothing in the gap, and both passes of the overlap.

mod blackout;
mod cron_line;
#[cfg(test)]
#[path = "schedule/schedule_tests.rs"]
mod tests;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::Moment;
use crate::setting_error::SettingError;
use blackout::DailyWindow;
pub use blackout::{BLACKOUT_DAYS_MAX, BlackoutWindow, WindowDay};
pub use cron_line::CRON_BYTES_MAX;
use cron_line::CronLine;

/// The version of the form.
pub const SCHEDULE_VERSION: u8 = 1;
/// The maximum number of blackout windows.
pub const BLACKOUTS_MAX: usize = 64;
/// The maximum number of starts of a preview.
pub const PREVIEW_STARTS_MAX: usize = 100;
/// The time for which a start is not late yet: a control plane that restarts, or a standby that takes over, misses nothing.
pub const START_GRACE_MS: u64 = 60_000;
/// The moment from which a new schedule must start some time: 2024, a leap year.
const CHECK_FROM_S: i64 = 1_704_067_200;
/// The number of windows that are joined to one, and of starts that are looked at for one outside of them.
const STEPS_MAX: usize = 4_000;

/// The rule for starts that were missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissedStart {
    /// However many were missed, one run starts as soon as it may.
    #[default]
    RunOnce,
    /// The next regular start is the next run.
    Skip,
}

/// A schedule as written and kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSetting {
    /// The version of the form, which is 1.
    pub version: u8,
    /// A line of cron with five fields.
    pub cron: String,
    /// The name of a time zone as in IANA's list.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// The times at which nothing moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blackouts: Vec<BlackoutWindow>,
    /// The rule for missed starts.
    #[serde(default)]
    pub missed: MissedStart,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// A schedule that was checked.
#[derive(Clone, Debug)]
pub struct Schedule {
    cron: CronLine,
    zone: TimeZone,
    zone_name: String,
    windows: Vec<DailyWindow>,
    missed: MissedStart,
}

/// The state of the blackouts at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlackoutPhase {
    /// True if nothing may move.
    pub is_blackout: bool,
    /// The moment of the next change; `None` if there is none within sight.
    pub until: Option<Moment>,
}

/// The decision about the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartDecision {
    /// Start one now, for this planned start. Everything until now is then dealt with.
    Start(Moment),
    /// Starts were missed, the last one at this moment, and are left out. Everything until now is then dealt with.
    LeaveOut(Moment),
    /// The start for the first moment is due, and has to wait. Ask again at the second one; with `None`, when the run in progress
    /// has ended.
    Delay(Moment, Option<Moment>),
    /// Nothing is due. Ask again at this moment; with `None`, when the schedule has changed.
    Wait(Option<Moment>),
}

impl Schedule {
    /// Reads and checks a schedule.
    ///
    /// # Errors
    /// The field at fault.
    pub fn parse(json: &str) -> Result<Self, SettingError> {
        Self::new(&serde_json::from_str(json).map_err(|error| SettingError::json(&error))?)
    }

    /// Checks a schedule.
    ///
    /// # Errors
    /// The field at fault.
    pub fn new(setting: &ScheduleSetting) -> Result<Self, SettingError> {
        if setting.version != SCHEDULE_VERSION {
            let words = format!("{} is of a later version of the program; this one knows 1", setting.version);
            return Err(SettingError::new("version", words));
        }
        let cron = CronLine::parse(&setting.cron)?;
        let zone = zone(&setting.time_zone)?;
        if setting.blackouts.len() > BLACKOUTS_MAX {
            let words =
                format!("there are {}, at most {BLACKOUTS_MAX} are possible", setting.blackouts.len());
            return Err(SettingError::new("blackouts", words));
        }
        let window = |(index, window): (usize, &BlackoutWindow)| {
            DailyWindow::new(window).map_err(|error| error.within(&format!("blackouts[{index}]")))
        };
        let windows = setting.blackouts.iter().enumerate().map(window).collect::<Result<Vec<_>, _>>()?;
        let (zone_name, missed) = (setting.time_zone.clone(), setting.missed);
        let schedule = Self { cron, zone, zone_name, windows, missed };
        schedule.check_starts()?;
        Ok(schedule)
    }

    /// Checks that there are starts, apart from what dates do to them.
    fn check_starts(&self) -> Result<(), SettingError> {
        let never = |field, words| Err(SettingError::new(field, words));
        let Ok(from) = Timestamp::from_second(CHECK_FROM_S) else { return Ok(()) };
        let from = from.to_zoned(self.zone.clone());
        if self.cron.next_from(&from).is_none() {
            return never("cron", "the line never comes due: no month has such a day");
        }
        let windows = self.windows.iter().filter(|window| window.is_weekly()).cloned().collect();
        let weekly = Self { windows, ..self.clone() };
        match weekly.start_from(from) {
            Some(_) => Ok(()),
            None => never("blackouts", "they leave no time at which a run could start"),
        }
    }

    /// Returns the next moment after another at which a run starts if nothing delays it: a start within a blackout is
    /// missed.
    pub fn next_start(&self, after: Moment) -> Option<Moment> {
        // Sub-second parts would count as before the second.
        let after = self.local(after)?;
        self.start_from(self.cron.next_after(&after)?).and_then(|start| moment(&start))
    }

    /// Returns the next moment after another for which a start is planned, whatever delays it.
    pub fn next_planned(&self, after: Moment) -> Option<Moment> {
        self.cron.next_after(&self.local(after)?).and_then(|planned| moment(&planned))
    }

    /// Returns the next starts after a moment, at most [`PREVIEW_STARTS_MAX`].
    pub fn preview(&self, after: Moment, count: usize) -> Vec<Moment> {
        let next = |before: &Moment| self.next_start(*before);
        std::iter::successors(self.next_start(after), next).take(count.min(PREVIEW_STARTS_MAX)).collect()
    }

    /// Returns the blackout state at a moment, and when it changes.
    pub fn blackout_at(&self, now: Moment) -> BlackoutPhase {
        let Some(now) = self.local(now) else { return BlackoutPhase { is_blackout: false, until: None } };
        let (end, is_blackout) = (self.blackout_end(&now), self.is_blackout(&now));
        let until = match is_blackout {
            true => end,
            false => self.windows.iter().filter_map(|window| window.next_start(&now)).min(),
        };
        BlackoutPhase { is_blackout, until: until.as_ref().and_then(moment) }
    }

    /// Decides about the next run. `dealt_with` is the moment until which starts have been dealt with: that of the last
    /// decision to start or to leave out, or that at which the schedule was set.
    pub fn decide(&self, dealt_with: Moment, now: Moment, is_running: bool) -> StartDecision {
        let next = || StartDecision::Wait(self.next_planned(now));
        let Some(local) = self.local(now) else { return next() };
        let last = self.cron.last_until(&local).and_then(|last| moment(&last));
        let Some(planned) = last.filter(|last| *last > dealt_with) else { return next() };
        let is_late = now.get().saturating_sub(planned.get()) > START_GRACE_MS;
        let blackout = self.blackout_at(now);
        let is_missed = is_running || blackout.is_blackout || is_late;
        match self.missed {
            MissedStart::Skip if is_missed => StartDecision::LeaveOut(planned),
            MissedStart::RunOnce if is_running => StartDecision::Delay(planned, None),
            MissedStart::RunOnce if blackout.is_blackout => StartDecision::Delay(planned, blackout.until),
            _ => StartDecision::Start(planned),
        }
    }

    /// Describes the schedule in English.
    pub fn words(&self) -> String {
        let mut words = format!("{} ({})", self.cron.words(), self.zone_name);
        if !self.windows.is_empty() {
            let windows: Vec<_> = self.windows.iter().map(DailyWindow::words).collect();
            words.push_str(&format!("; nothing moves {}", windows.join(", and ")));
        }
        words.push_str(match self.missed {
            MissedStart::RunOnce => "; after missed starts, one run starts as soon as it may",
            MissedStart::Skip => "; missed starts are left out",
        });
        words
    }

    /// Returns the first start at a planned start or after it.
    fn start_from(&self, planned: Zoned) -> Option<Zoned> {
        let mut planned = planned;
        for _ in 0..STEPS_MAX {
            if !self.is_blackout(&planned) {
                return Some(planned);
            }
            let end = self.blackout_end(&planned)?;
            match self.missed {
                MissedStart::RunOnce => return Some(end),
                MissedStart::Skip => planned = self.cron.next_from(&end)?,
            }
        }
        None
    }

    fn is_blackout(&self, now: &Zoned) -> bool {
        self.windows.iter().any(|window| window.end_at(now).is_some())
    }

    /// Returns the end of the blackout at a time, with all windows that follow each other without a gap; `None` if there
    /// is no end within sight.
    fn blackout_end(&self, now: &Zoned) -> Option<Zoned> {
        let mut end = now.clone();
        for _ in 0..STEPS_MAX {
            match self.windows.iter().filter_map(|window| window.end_at(&end)).max() {
                Some(later) => end = later,
                None => return Some(end),
            }
        }
        None
    }

    fn local(&self, moment: Moment) -> Option<Zoned> {
        let milliseconds = i64::try_from(moment.get()).ok()?;
        Timestamp::from_millisecond(milliseconds).ok().map(|stamp| stamp.to_zoned(self.zone.clone()))
    }
}

fn moment(time: &Zoned) -> Option<Moment> {
    Moment::new(u64::try_from(time.timestamp().as_millisecond()).ok()?).ok()
}

fn zone(name: &str) -> Result<TimeZone, SettingError> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    let is_name = !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte));
    let found = is_name.then(|| TimeZone::get(name).ok()).flatten();
    found.ok_or_else(|| {
        let words = format!(
            "{name:?} is not in this machine's list of time zones: use a name such as Europe/Berlin, or install tzdata"
        );
        SettingError::new("time_zone", words)
    })
}
