//! A line of cron: five fields, or a name such as `@daily`.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Zoned;

use crate::setting_error::SettingError;

/// The maximum length of a line in bytes.
pub const CRON_BYTES_MAX: usize = 256;
/// The field of the schedule that has the line.
const FIELD: &str = "cron";
const NAMES: [&str; 6] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@hourly"];
const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The rules of one field.
struct CronField {
    name: &'static str,
    /// The values, for people.
    values: &'static str,
    /// The characters besides digits.
    characters: &'static [u8],
    /// The words besides numbers.
    words: &'static [&'static str],
}

const FIELDS: [CronField; 5] = [
    CronField { name: "minute", values: "0 to 59", characters: b"*/,-", words: &[] },
    CronField { name: "hour", values: "0 to 23", characters: b"*/,-", words: &[] },
    CronField { name: "day of the month", values: "1 to 31, or L", characters: b"*/,-?LW", words: &[] },
    CronField { name: "month", values: "1 to 12, or JAN to DEC", characters: b"*/,-", words: &MONTHS },
    CronField {
        name: "day of the week",
        values: "0 to 7, or SUN to SAT",
        characters: b"*/,-?#L+",
        words: &DAYS,
    },
];

/// A line that was checked.
#[derive(Clone)]
pub(super) struct CronLine(Cron);

impl std::fmt::Debug for CronLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CronLine").field(&self.0.as_str()).finish()
    }
}

impl CronLine {
    /// Parses a line.
    ///
    /// # Errors
    /// The field at fault, by its column.
    pub(super) fn parse(text: &str) -> Result<Self, SettingError> {
        let whole = |words: String| SettingError::new(FIELD, words);
        if text.len() > CRON_BYTES_MAX {
            return Err(whole(format!(
                "the line has {} bytes, at most {CRON_BYTES_MAX} are possible",
                text.len()
            )));
        }
        let line = text.trim();
        if line.starts_with('@') {
            let is_known = NAMES.iter().any(|name| name.eq_ignore_ascii_case(line));
            let unknown = || whole(format!("{line:?} is not known: {} are", NAMES.join(", ")));
            return if is_known { parsed(line).ok_or_else(unknown) } else { Err(unknown()) };
        }
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if fields.len() != FIELDS.len() {
            let names = "minute, hour, day of the month, month and day of the week";
            let words = format!("the line has {} fields instead of five: {names}", fields.len());
            return Err(whole(words));
        }
        for (index, (field, rules)) in fields.iter().zip(&FIELDS).enumerate() {
            let start = field.as_ptr() as usize - text.as_ptr() as usize;
            let column = text.get(..start).unwrap_or_default().chars().count() + 1;
            let alone: Vec<&str> =
                (0..FIELDS.len()).map(|other| if other == index { *field } else { "*" }).collect();
            if !rules.allow(field) || parsed(&alone.join(" ")).is_none() {
                let words = format!(
                    "{field:?} is no {}: {} are possible, with lists (1,3), ranges (1-5) and steps (*/2)",
                    rules.name, rules.values
                );
                return Err(SettingError::at_column(FIELD, column, words));
            }
        }
        parsed(line).ok_or_else(|| whole(format!("{line:?} cannot be read")))
    }

    /// Returns the first start after a time.
    pub(super) fn next_after(&self, time: &Zoned) -> Option<Zoned> {
        self.0.find_next_occurrence(time, false).ok()
    }

    /// Returns the first start at a time or after it.
    pub(super) fn next_from(&self, time: &Zoned) -> Option<Zoned> {
        self.0.find_next_occurrence(time, true).ok()
    }

    /// Returns the last start at a time or before it.
    pub(super) fn last_until(&self, time: &Zoned) -> Option<Zoned> {
        self.0.find_previous_occurrence(time, true).ok()
    }

    /// Describes the line in English.
    pub(super) fn words(&self) -> String {
        let words = self.0.describe();
        words.trim_end_matches('.').to_owned()
    }
}

fn parsed(line: &str) -> Option<CronLine> {
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    parser.parse(line).ok().map(CronLine)
}

impl CronField {
    /// Checks characters and words. The library would take the name of a month for a number anywhere.
    fn allow(&self, text: &str) -> bool {
        let mut rest = text.to_ascii_uppercase();
        for word in self.words {
            rest = rest.replace(word, "0");
        }
        let has_empty_part = rest.split([',', '-', '/']).any(str::is_empty);
        !has_empty_part && rest.bytes().all(|byte| byte.is_ascii_digit() || self.characters.contains(&byte))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_cron_are_read() {
        for line in [
            "30 2 * * *",
            "*/15 * * * *",
            "0 22 * * mon-fri",
            "0 0 1,15 * *",
            "0 3 L * *",
            "0 3 * JAN,jul SUN#1",
            "  5 4\t* * 7 ",
            "@daily",
            "@HOURLY",
        ] {
            assert!(CronLine::parse(line).is_ok(), "{line}: {:?}", CronLine::parse(line).err());
        }
    }

    #[test]
    fn an_error_has_the_column_of_its_field() {
        for (line, column, words) in [
            ("60 2 * * *", Some(1), "is no minute: 0 to 59"),
            ("30 24 * * *", Some(4), "is no hour"),
            ("30  24 * * *", Some(5), "is no hour"),
            ("30 2 32 * *", Some(6), "is no day of the month"),
            ("30 2 * 13 *", Some(8), "is no month: 1 to 12"),
            ("30 2 * * 8", Some(10), "is no day of the week"),
            ("30 2 * * MONDAY", Some(10), "is no day of the week"),
            ("MON 2 * * *", Some(1), "is no minute"),
            ("30 2 * MON *", Some(8), "is no month"),
            ("5-1 2 * * *", Some(1), "is no minute"),
            ("*/0 2 * * *", Some(1), "is no minute"),
            ("1,,2 2 * * *", Some(1), "is no minute"),
            ("", None, "0 fields instead of five"),
            ("30 2 * *", None, "4 fields"),
            ("0 30 2 * * *", None, "6 fields"),
            ("@fortnightly", None, "@daily"),
            ("30 2 * * \u{ff11}", Some(10), "is no day of the week"),
        ] {
            let error = CronLine::parse(line).expect_err(line);
            assert_eq!((error.field.as_str(), error.column), ("cron", column), "{line}: {error}");
            assert!(error.words.contains(words), "{line}: {error}");
        }
        let long = format!("{} 2 * * *", "1,".repeat(CRON_BYTES_MAX));
        assert!(CronLine::parse(&long).unwrap_err().words.contains("at most 256"));
        let longest = format!("{}1 2 * * *", "1,".repeat((CRON_BYTES_MAX - 9) / 2));
        assert!(CronLine::parse(&longest).is_ok());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[ -~]{0,40}", cron in "[0-9*/,LW#+? A-Z@-]{0,40}") {
            let _ = CronLine::parse(&text);
            let _ = CronLine::parse(&cron);
        }
    }
}
