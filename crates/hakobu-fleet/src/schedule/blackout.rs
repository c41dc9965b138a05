//! Blackout windows: the times at which no run may move anything.

use jiff::Zoned;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::setting_error::SettingError;

/// The maximum number of days between the first and the last date of a window.
pub const BLACKOUT_DAYS_MAX: i32 = 366;
/// The number of days, from today, on which a window that comes back each week begins again.
const WEEK_DAYS: i32 = 8;

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowDay {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

impl WindowDay {
    fn weekday(self) -> Weekday {
        match self {
            Self::Mon => Weekday::Monday,
            Self::Tue => Weekday::Tuesday,
            Self::Wed => Weekday::Wednesday,
            Self::Thu => Weekday::Thursday,
            Self::Fri => Weekday::Friday,
            Self::Sat => Weekday::Saturday,
            Self::Sun => Weekday::Sunday,
        }
    }
}

/// A window, as written. Without times it takes whole days; without days and dates, it is every day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BlackoutWindow {
    /// The days of the week on which it begins; none for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<WindowDay>,
    /// The first date on which it begins, as `2026-12-24`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_date: Option<String>,
    /// The last date on which it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_date: Option<String>,
    /// The local time at which it begins, as `08:00`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The local time at which it ends. If it is not after `from`, it is on the next day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// A window that was checked.
#[derive(Clone, Debug)]
pub(super) struct DailyWindow {
    days: Vec<Weekday>,
    dates: Option<(Date, Date)>,
    times: Option<(Time, Time)>,
}

impl DailyWindow {
    /// Checks a window.
    ///
    /// # Errors
    /// The field at fault.
    pub(super) fn new(window: &BlackoutWindow) -> Result<Self, SettingError> {
        let pair = |names: [&str; 2], first: &Option<String>, last: &Option<String>| match (first, last) {
            (None, None) => Ok(None),
            (Some(first), Some(last)) => Ok(Some((first.clone(), last.clone()))),
            (None, Some(_)) => Err(SettingError::new(names[0], format!("{} has none: set both", names[1]))),
            (Some(_), None) => Err(SettingError::new(names[1], format!("{} has none: set both", names[0]))),
        };
        let times = match pair(["from", "to"], &window.from, &window.to)? {
            None => None,
            Some((from, to)) => Some((time("from", &from)?, time("to", &to)?)),
        };
        if times.is_some_and(|(from, to)| from == to) {
            return Err(SettingError::new("to", "is equal to from; for whole days, leave both out"));
        }
        let dates = match pair(["first_date", "last_date"], &window.first_date, &window.last_date)? {
            None => None,
            Some((first, last)) => Some((date("first_date", &first)?, date("last_date", &last)?)),
        };
        if let Some((first, last)) = dates {
            if last < first {
                return Err(SettingError::new("last_date", format!("{last} is before {first}")));
            }
            if days_between(first, last) >= BLACKOUT_DAYS_MAX {
                let words =
                    format!("is {BLACKOUT_DAYS_MAX} days or more after first_date; use several windows");
                return Err(SettingError::new("last_date", words));
            }
        }
        let days = window.days.iter().map(|day| day.weekday()).collect();
        Ok(Self { days, dates, times })
    }

    /// Returns true if it comes back each week.
    pub(super) fn is_weekly(&self) -> bool {
        self.dates.is_none()
    }

    /// Returns the end of the window that lasts at a time.
    pub(super) fn end_at(&self, now: &Zoned) -> Option<Zoned> {
        let today = now.date();
        let lasting = |day: Date| {
            let (start, end) = self.on(day, now.time_zone())?;
            (start <= *now && *now < end).then_some(end)
        };
        let before = today.yesterday().ok().and_then(lasting);
        before.into_iter().chain(lasting(today)).max()
    }

    /// Returns the beginning of the next window after a time.
    pub(super) fn next_start(&self, after: &Zoned) -> Option<Zoned> {
        let today = after.date();
        let (first, days) = match self.dates {
            None => (today, WEEK_DAYS),
            Some((first, last)) => {
                let first = first.max(today);
                (first, days_between(first, last) + 1)
            }
        };
        let mut day = first;
        for _ in 0..days {
            if let Some((start, _)) = self.on(day, after.time_zone()).filter(|(start, _)| start > after) {
                return Some(start);
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    /// Returns the window that begins on a day, if one does.
    fn on(&self, day: Date, zone: &TimeZone) -> Option<(Zoned, Zoned)> {
        let is_dated = self.dates.is_none_or(|(first, last)| first <= day && day <= last);
        if !is_dated || !self.days.is_empty() && !self.days.contains(&day.weekday()) {
            return None;
        }
        let (from, to) = self.times.unwrap_or((Time::midnight(), Time::midnight()));
        let last = if to > from { day } else { day.tomorrow().ok()? };
        Some((edge(day, from, zone, false)?, edge(last, to, zone, true)?))
    }

    /// Describes it in English: `Mon, Tue 08:00 to 18:00`.
    pub(super) fn words(&self) -> String {
        let day = |day: &Weekday| format!("{day:?}").chars().take(3).collect::<String>();
        let days = match self.days.is_empty() {
            true => "every day".to_owned(),
            false => self.days.iter().map(day).collect::<Vec<_>>().join(", "),
        };
        let times = self.times.map(|(from, to)| {
            format!(
                " {:02}:{:02} to {:02}:{:02}{}",
                from.hour(),
                from.minute(),
                to.hour(),
                to.minute(),
                if to <= from { " of the next day" } else { "" }
            )
        });
        let dates = self.dates.map(|(first, last)| match first == last {
            true => format!(" on {first}"),
            false => format!(" from {first} to {last}"),
        });
        format!("{days}{}{}", times.unwrap_or_default(), dates.unwrap_or_default())
    }
}

fn days_between(first: Date, last: Date) -> i32 {
    first.until(last).map_or(i32::MAX, |span| span.get_days())
}

/// Returns the moment of a local time. One that is skipped is that at which the clocks go forward. Of one that comes twice,
/// a window takes both: it begins with the first and ends with the second.
fn edge(day: Date, time: Time, zone: &TimeZone, is_end: bool) -> Option<Zoned> {
    let local = zone.to_ambiguous_zoned(day.to_datetime(time));
    match local.offset() {
        AmbiguousOffset::Unambiguous { .. } => local.compatible().ok(),
        AmbiguousOffset::Fold { .. } if is_end => local.later().ok(),
        AmbiguousOffset::Fold { .. } => local.earlier().ok(),
        AmbiguousOffset::Gap { .. } => {
            let before = local.earlier().ok()?.timestamp();
            let change = zone.following(before).next()?;
            Some(change.timestamp().to_zoned(zone.clone()))
        }
    }
}

fn time(field: &str, text: &str) -> Result<Time, SettingError> {
    let wrong = || SettingError::new(field, format!("{text:?} is no time of day from 00:00 to 23:59"));
    let (hour, minute) = text.split_once(':').ok_or_else(wrong)?;
    let number = |digits: &str| match digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse::<i8>().map_err(|_| wrong()),
        false => Err(wrong()),
    };
    Time::new(number(hour)?, number(minute)?, 0, 0).map_err(|_| wrong())
}

fn date(field: &str, text: &str) -> Result<Date, SettingError> {
    let wrong = || SettingError::new(field, format!("{text:?} is no date such as 2026-12-24"));
    // The parser would also take times behind the date.
    let date = text.parse::<Date>().map_err(|_| wrong())?;
    let is_usual = (1970..=4999).contains(&date.year()) && date.to_string() == text;
    is_usual.then_some(date).ok_or_else(wrong)
}
