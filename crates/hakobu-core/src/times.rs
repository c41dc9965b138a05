//! The times that a target can store, and when two times count as equal.

use crate::capabilities::Capabilities;
use crate::entry::FileTime;

const NANOSECONDS: i128 = 1_000_000_000;
const DAY_S: i64 = 86_400;
/// The days of each month in a year that is not a leap year.
const MONTHS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

impl Capabilities {
    /// Returns the closest time between the earliest and the latest one that can be stored.
    pub fn within_range(&self, time: FileTime) -> FileTime {
        let whole = |seconds| FileTime { seconds, nanoseconds: 0 };
        // Linux does not keep the fraction of the earliest and of the latest second.
        match time.seconds {
            seconds if seconds <= self.time_first_s => whole(self.time_first_s),
            seconds if seconds >= self.time_last_s => whole(self.time_last_s),
            _ => time,
        }
    }

    /// Returns true if a time can be stored exactly.
    pub fn holds_time(&self, time: FileTime) -> bool {
        let step_ns = i128::from(self.step_ns(time).max(1));
        self.keeps_times && self.within_range(time) == time && exact(time).rem_euclid(step_ns) == 0
    }

    /// Returns the closest time that can be stored, if the required rounding of fractions before 1970 is known.
    pub fn time_to_set(&self, time: FileTime) -> FileTime {
        let time = self.within_range(time);
        // Other fractions are rounded by the file system.
        if time.seconds >= 0 || self.time_step_before_1970_ns <= self.time_step_ns {
            return time;
        }
        let step_ns = self.time_step_before_1970_ns.min(1_000_000_000);
        FileTime { nanoseconds: time.nanoseconds - time.nanoseconds % step_ns, ..time }
    }

    fn step_ns(&self, time: FileTime) -> u32 {
        match time.seconds {
            ..0 => self.time_step_before_1970_ns.max(self.time_step_ns),
            _ => self.time_step_ns,
        }
    }

    /// Returns true if two times are equal as far as they can be stored. Rounding to steps, in either direction,
    /// changes a time by less than a step.
    pub fn same_time(&self, one: FileTime, other: FileTime) -> bool {
        // Nearly all entries have identical times, so this is the fast path.
        if one == other {
            return true;
        }
        let (one, other) = (self.within_range(one), self.within_range(other));
        exact(one).abs_diff(exact(other)) < u128::from(self.step_ns(one.min(other)))
    }
}

/// Returns the year, in UTC, of a time in seconds since 1970.
pub fn year_of(seconds: i64) -> i128 {
    const AVERAGE_YEAR_S: i128 = 31_556_952;
    let seconds = i128::from(seconds);
    let near = 1970 + seconds.div_euclid(AVERAGE_YEAR_S);
    if seconds < new_year_s(near) {
        return near - 1;
    }
    if seconds < new_year_s(near + 1) { near } else { near + 1 }
}

/// Returns the first second of a year in the Gregorian calendar.
fn new_year_s(year: i128) -> i128 {
    const DAYS_BEFORE_1970: i128 = 719_162;
    let before = year - 1;
    let leap_days = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    (before * 365 + leap_days - DAYS_BEFORE_1970) * 86_400
}

/// Returns a time as RFC 3339 in UTC, with nanoseconds. The year has as many digits as it needs.
pub fn rfc3339(time: FileTime) -> String {
    let year = year_of(time.seconds);
    let is_leap = new_year_s(year + 1) - new_year_s(year) == 366 * i128::from(DAY_S);
    let since_new_year = i128::from(time.seconds) - new_year_s(year);
    let (mut day, second) = (since_new_year as i64 / DAY_S, since_new_year as i64 % DAY_S);
    let mut month = 0;
    for (index, days) in MONTHS.into_iter().enumerate() {
        let days = days + i64::from(index == 1 && is_leap);
        month = index + 1;
        if day < days {
            break;
        }
        day -= days;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{:09}Z", day + 1, time.nanoseconds)
}

/// Returns the time that a text in the format of RFC 3339 stands for; `None` if it is no such text. Digits after the
/// ninth of a fraction are dropped.
pub fn from_rfc3339(text: &str) -> Option<FileTime> {
    let (date, rest) = text.split_at_checked(10)?;
    let (clock, rest) = rest.strip_prefix(['T', 't', ' '])?.split_at_checked(8)?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    if !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let new_year = i64::try_from(new_year_s(i128::from(year))).ok()?;
    let is_leap = new_year_s(i128::from(year) + 1) - i128::from(new_year) == 366 * i128::from(DAY_S);
    let days = |index: usize| MONTHS[index] + i64::from(index == 1 && is_leap);
    let month = month as usize - 1;
    if !(1..=days(month)).contains(&day) {
        return None;
    }
    let (nanoseconds, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (fraction, zone) = rest.split_at(digits);
            (fraction_ns(fraction)?, zone)
        }
        None => (0, rest),
    };
    let east_s = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => 0,
        (sign @ ("+" | "-"), offset) => {
            let [hours, minutes] = numbers(offset, ':', [2, 2])?;
            let offset_s = (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
            if sign == "+" { offset_s } else { -offset_s }
        }
        _ => return None,
    };
    let day = (0..month).map(days).sum::<i64>() + day - 1;
    let seconds = new_year + day * DAY_S + hour * 3600 + minute * 60 + second - east_s;
    Some(FileTime { seconds, nanoseconds })
}

/// Returns the nanoseconds of a fraction of a second, given its digits.
pub fn fraction_ns(digits: &str) -> Option<u32> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((0..9).fold(0, |ns, index| {
        ns * 10 + digits.as_bytes().get(index).map_or(0, |digit| u32::from(digit - b'0'))
    }))
}

/// Returns numbers with these counts of digits.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        let fits = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = if fits { part.parse().ok()? } else { return None };
    }
    parts.next().is_none().then_some(numbers)
}

fn exact(time: FileTime) -> i128 {
    i128::from(time.seconds) * NANOSECONDS + i128::from(time.nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanoseconds: u32) -> FileTime {
        FileTime { seconds, nanoseconds }
    }

    #[test]
    fn years_begin_in_their_first_second() {
        // The years printed by `date -u -d @SECONDS +%Y`.
        for (seconds, year) in [
            (0, 1970),
            (-1, 1969),
            (31_535_999, 1970),
            (31_536_000, 1971),
            (951_782_400, 2000),
            (978_307_199, 2000),
            (978_307_200, 2001),
            (i64::from(i32::MIN), 1901),
            (i64::from(i32::MAX), 2038),
            (4_102_444_799, 2099),
            (4_102_444_800, 2100),
            (i64::from(u32::MAX), 2106),
            (-62_135_596_800, 1),
        ] {
            assert_eq!(year_of(seconds), year, "{seconds}");
        }
        assert!(year_of(i64::MAX) > 292_000_000_000 && year_of(i64::MIN) < -292_000_000_000);
    }

    #[test]
    fn steps_are_counted_from_1970_in_both_directions() {
        let able = Capabilities { time_step_ns: 100, ..Capabilities::posix(true) };
        // The second time is half a microsecond before 1970.
        for (time, holds) in [(at(5, 300), true), (at(-1, 999_999_500), true), (at(-1, 999_999_550), false)] {
            assert_eq!(able.holds_time(time), holds, "{time:?}");
        }
        assert!(able.same_time(at(-1, 999_999_950), at(-1, 999_999_900)));
        assert!(able.same_time(at(-1, 999_999_950), at(0, 0)), "rounded up");
        assert!(!able.same_time(at(-1, 999_999_900), at(0, 0)), "a whole step");
        let seconds = Capabilities { time_step_ns: 2_000_000_000, ..able };
        assert!(seconds.holds_time(at(-4, 0)) && !seconds.holds_time(at(-3, 0)));
        assert!(seconds.same_time(at(-3, 5), at(-4, 0)) && !seconds.same_time(at(-2, 5), at(-4, 0)));
    }

    #[test]
    fn fractions_before_1970_are_left_out_where_they_are_not_kept_right() {
        let able = Capabilities {
            time_step_ns: 100,
            time_step_before_1970_ns: 1_000_000_000,
            ..Capabilities::posix(true)
        };
        assert_eq!(able.time_to_set(at(-2, 987_654_321)), at(-2, 0));
        assert_eq!(able.time_to_set(at(2, 987_654_321)), at(2, 987_654_321));
        assert!(able.same_time(at(-2, 987_654_321), at(-2, 0)) && !able.same_time(at(-2, 1), at(-3, 0)));
        assert!(able.holds_time(at(-2, 0)) && !able.holds_time(at(-2, 100)) && able.holds_time(at(2, 100)));
        let any = Capabilities::posix(true);
        assert_eq!(any.time_to_set(at(-2, 987_654_321)), at(-2, 987_654_321));
    }

    #[test]
    fn what_lies_outside_is_the_limit() {
        let (first, last) = (i64::from(i32::MIN), i64::from(i32::MAX));
        let able = Capabilities { time_first_s: first, time_last_s: last, ..Capabilities::posix(true) };
        assert!(
            able.same_time(at(last + 9, 5), at(last, 0)) && able.same_time(at(first - 9, 5), at(first, 0))
        );
        assert!(able.same_time(at(last, 7), at(last, 0)), "the last second has no fraction");
        assert!(!able.same_time(at(last + 9, 5), at(last - 1, 0)));
        assert!(!able.holds_time(at(last + 1, 0)) && able.holds_time(at(last, 0)));
        assert!(able.holds_time(at(first + 1, 1)) && !able.holds_time(at(first - 1, 1)));
        let any = Capabilities::posix(true);
        assert!(any.holds_time(at(1 << 40, 1)) && any.holds_time(at(-(1 << 40), 999_999_999)));
        assert!(!any.same_time(at(0, 0), at(-1, 999_999_999)));
    }

    #[test]
    fn times_are_written_as_calendars_have_them() {
        for (seconds, nanoseconds, expected) in [
            (0, 0, "1970-01-01T00:00:00.000000000Z"),
            (-1, 999_999_999, "1969-12-31T23:59:59.999999999Z"),
            (951_782_399, 1, "2000-02-28T23:59:59.000000001Z"),
            (951_782_400, 0, "2000-02-29T00:00:00.000000000Z"),
            (951_868_800, 0, "2000-03-01T00:00:00.000000000Z"),
            (1_798_761_599, 0, "2026-12-31T23:59:59.000000000Z"),
            (-2_203_891_201, 0, "1900-02-28T23:59:59.000000000Z"),
            (-2_203_891_200, 0, "1900-03-01T00:00:00.000000000Z"),
        ] {
            assert_eq!(rfc3339(at(seconds, nanoseconds)), expected);
            assert_eq!(from_rfc3339(expected), Some(at(seconds, nanoseconds)));
        }
        for seconds in [i64::MIN, i64::MAX] {
            assert!(rfc3339(at(seconds, 0)).ends_with('Z'));
        }
    }

    #[test]
    fn texts_of_times_are_read_with_their_offset() {
        for (text, expected) in [
            ("2026-01-02T03:04:05Z", at(1_767_323_045, 0)),
            ("2026-01-02t03:04:05.1z", at(1_767_323_045, 100_000_000)),
            ("2026-01-02 04:34:05.123456789987+01:30", at(1_767_323_045, 123_456_789)),
            ("2026-01-01T23:04:05-04:00", at(1_767_323_045, 0)),
            ("0000-01-01T00:00:00Z", at(-62_167_219_200, 0)),
            ("9999-12-31T23:59:59Z", at(253_402_300_799, 0)),
        ] {
            assert_eq!(from_rfc3339(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04Z",
            "2026-1-02T03:04:05Z",
            "2026-00-02T03:04:05Z",
            "2026-13-02T03:04:05Z",
            "2026-02-29T03:04:05Z",
            "2026-01-00T03:04:05Z",
            "2026-01-02T24:04:05Z",
            "2026-01-02T03:60:05Z",
            "2026-01-02T03:04:60Z",
            "2026-01-02T03:04:05+24:00",
            "2026-01-02T03:04:05+0100",
            "2026-01-02T03:04:05ZZ",
            "+026-01-02T03:04:05Z",
            "2026-01-0ü03:04:05Z",
            "12026-01-02T03:04:05Z",
        ] {
            assert_eq!(from_rfc3339(text), None, "{text}");
        }
    }
}
