//! The two languages, which of them the user wants, and how each writes numbers and times.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use hakobu_core::units::{format_count, format_duration, format_milliseconds};
use jiff::Timestamp;
use jiff::tz::{TimeZone, offset};

/// How times are written, but for their zone.
const TIME_FORMAT: &str = "%Y-%m-%d %H:%M:%S";
/// The variables that name the user's locale. The first that is not empty counts.
const LOCALE_VARIABLES: [&str; 3] = ["LC_ALL", "LC_MESSAGES", "LANG"];
/// The time zone of Japan, which has no summer time.
const JAPAN_HOURS: i8 = 9;

/// A language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Japanese.
    Ja,
}

impl Language {
    /// Returns the language of the user's locale.
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let locale =
            LOCALE_VARIABLES.iter().filter_map(|name| variable(name)).find(|locale| !locale.is_empty());
        locale.map_or(Self::En, |locale| Self::from_locale(locale.as_bytes()))
    }

    /// Returns the language of a locale such as `ja_JP.UTF-8`. Another charset than UTF-8 cannot be written, so its language
    /// is English.
    fn from_locale(locale: &[u8]) -> Self {
        let locale = locale.split(|&byte| byte == b'@').next().unwrap_or_default();
        let mut parts = locale.splitn(2, |&byte| byte == b'.');
        let name = parts.next().unwrap_or_default();
        let is_utf8 = parts.next().is_none_or(|charset| {
            charset.eq_ignore_ascii_case(b"UTF-8") || charset.eq_ignore_ascii_case(b"UTF8")
        });
        match name.split(|&byte| byte == b'_').next() {
            Some(b"ja") if is_utf8 => Self::Ja,
            _ => Self::En,
        }
    }

    /// Its name for programs.
    pub fn tag(self) -> &'static str {
        self.say("en", "ja")
    }

    /// One of the two that says the same.
    pub fn say<'a>(self, english: &'a str, japanese: &'a str) -> &'a str {
        match self {
            Self::En => english,
            Self::Ja => japanese,
        }
    }

    /// A number: `1 000` or `1,000`.
    pub fn count(self, count: u64) -> String {
        let grouped = format_count(count);
        match self {
            Self::En => grouped,
            Self::Ja => grouped.replace(' ', ","),
        }
    }

    /// A number of entries: `1 entry`, `2 entries`, `2 件`.
    pub fn entries(self, count: u64) -> String {
        let grouped = self.count(count);
        match (self, count) {
            (Self::En, 1) => format!("{grouped} entry"),
            (Self::En, _) => format!("{grouped} entries"),
            (Self::Ja, _) => format!("{grouped} 件"),
        }
    }

    /// A time span: `3 min 20 s`, `3 分 20 秒`.
    pub fn seconds(self, seconds: f64) -> String {
        self.duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }

    /// A time span, as [`Language::seconds`].
    pub fn duration(self, duration: Duration) -> String {
        self.time(format_duration(duration))
    }

    /// The time of one operation: `6.1 ms`, `6.1 ミリ秒`.
    pub fn milliseconds(self, milliseconds: f64) -> String {
        self.time(format_milliseconds(milliseconds))
    }

    fn time(self, words: String) -> String {
        if self == Self::En {
            return words;
        }
        let unit = |word| match word {
            "ms" => "ミリ秒",
            "s" => "秒",
            "min" => "分",
            "h" => "時間",
            "d" => "日",
            number => number,
        };
        words.split(' ').map(unit).collect::<Vec<_>>().join(" ")
    }

    /// A moment, given as RFC 3339. `None` if it is none.
    pub fn moment(self, text: &str) -> Option<String> {
        let moment: Timestamp = text.parse().ok()?;
        let in_utc = moment.to_zoned(TimeZone::UTC).strftime(TIME_FORMAT).to_string();
        Some(match self {
            Self::En => format!("{in_utc} UTC"),
            Self::Ja => {
                let japan = TimeZone::fixed(offset(JAPAN_HOURS));
                format!("{} JST({in_utc} UTC)", moment.to_zoned(japan).strftime(TIME_FORMAT))
            }
        })
    }

    /// A share of 0 to 1: `61 %`. What is none is shown as the nearest that is.
    pub fn share(self, share: f64) -> String {
        format!("{:.0}{}", clamped(share) * 100.0, self.say(" %", "%"))
    }
}

/// A share that is one, whatever a report says.
pub fn clamped(share: f64) -> f64 {
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_not_empty_names_the_language() {
        let language = |set: &[(&str, &str)]| {
            Language::from_variables(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            })
        };
        for locale in ["ja", "ja_JP", "ja_JP.UTF-8", "ja_JP.utf8", "ja.UTF-8", "ja_JP.UTF-8@x", "ja_JP@x"] {
            assert_eq!(language(&[("LANG", locale)]), Language::Ja, "{locale}");
        }
        for locale in
            ["", "C", "POSIX", "C.UTF-8", "en_US.UTF-8", "ja_JP.eucJP", "ja_JP.SJIS", "jam_JM", "x_ja"]
        {
            assert_eq!(language(&[("LANG", locale)]), Language::En, "{locale}");
        }
        let (japanese, neutral) = ("ja_JP.UTF-8", "C");
        assert_eq!(language(&[]), Language::En);
        assert_eq!(language(&[("LANG", japanese), ("LC_ALL", neutral)]), Language::En);
        assert_eq!(language(&[("LANG", neutral), ("LC_MESSAGES", japanese)]), Language::Ja);
        assert_eq!(language(&[("LC_ALL", japanese), ("LC_MESSAGES", neutral)]), Language::Ja);
        assert_eq!(language(&[("LC_ALL", ""), ("LC_MESSAGES", ""), ("LANG", japanese)]), Language::Ja);
    }

    #[test]
    fn each_language_has_its_own_way() {
        let (en, ja) = (Language::En, Language::Ja);
        assert_eq!((en.count(1_234_567), ja.count(1_234_567)), ("1 234 567".into(), "1,234,567".into()));
        assert_eq!((en.entries(1), ja.entries(2000)), ("1 entry".into(), "2,000 件".into()));
        assert_eq!((en.seconds(200.0), ja.seconds(200.0)), ("3 min 20 s".into(), "3 分 20 秒".into()));
        assert_eq!((en.seconds(f64::MAX), ja.seconds(-1.0)), ("0 ms".into(), "0 ミリ秒".into()));
        assert_eq!((en.milliseconds(6.1), ja.milliseconds(126.4)), ("6.1 ms".into(), "126 ミリ秒".into()));
        let moment = "2026-11-23T20:02:03.5Z";
        assert_eq!(en.moment(moment).unwrap(), "2026-11-23 20:02:03 UTC");
        assert_eq!(ja.moment(moment).unwrap(), "2026-11-24 05:02:03 JST(2026-11-23 20:02:03 UTC)");
        assert_eq!(en.moment("yesterday\x1b"), None);
        assert_eq!((en.share(0.614), ja.share(7e300)), ("61 %".into(), "100%".into()));
    }
}
