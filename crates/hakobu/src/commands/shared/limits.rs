//! The limits of a run: options that `copy` and `jobs set` share.

use clap::Args;
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::pace::{RateLimit, RunLimits};

use crate::commands::shared::headings::PERFORMANCE;

/// The value that removes a limit.
const OFF: &str = "off";
/// The largest latency limit, in milliseconds.
const LATENCY_MS_MAX: f64 = 60_000.0;
/// The smallest latency limit, which is the precision with which it is stored.
const LATENCY_MS_MIN: f64 = 0.001;

/// The limits of a run.
#[derive(Clone, Debug, Default, Args)]
pub struct LimitArguments {
    /// Limit the rate, such as 20M (bytes per second)
    ///
    /// A timetable is possible: "08:00,20M 19:00,off"
    #[arg(long, value_name = "RATE", help_heading = PERFORMANCE)]
    pub bwlimit: Option<String>,

    /// Limit the I/O operations per second at each end
    #[arg(long, value_name = "N", help_heading = PERFORMANCE)]
    pub iops_limit: Option<String>,

    /// Slow down while source reads are slower than MS
    ///
    /// That is, while more than 1 % of them take longer than MS milliseconds
    #[arg(long, value_name = "MS", help_heading = PERFORMANCE)]
    pub source_p99: Option<String>,
}

impl LimitArguments {
    /// Returns true if no limit was typed.
    pub fn is_empty(&self) -> bool {
        self.bwlimit.is_none() && self.iops_limit.is_none() && self.source_p99.is_none()
    }

    /// Returns the limits that the options stand for. A timetable starts at the present local time of day.
    ///
    /// # Errors
    /// `Usage` for each value that is wrong.
    pub fn read(&self) -> Result<RunLimits, Vec<Error>> {
        let mut errors = Vec::new();
        let mut wrong = |option: &str, words: String| {
            errors.push(Error::new(ErrorKind::Usage, "option", words).at(option));
        };
        let rate = self.bwlimit.as_deref().map(|text| RateLimit::parse(text, second_of_day()));
        let rate = rate.transpose().unwrap_or_else(|error| {
            wrong("--bwlimit", error.to_string());
            None
        });
        let operations = self.iops_limit.as_deref().map(operations).transpose().unwrap_or_else(|words| {
            wrong("--iops-limit", words);
            None
        });
        let latency = self.source_p99.as_deref().map(latency_us).transpose().unwrap_or_else(|words| {
            wrong("--source-p99", words);
            None
        });
        match errors.is_empty() {
            true => Ok(RunLimits {
                rate: rate.unwrap_or_default(),
                operations_per_second: operations.flatten(),
                source_p99_us: latency.flatten(),
            }),
            false => Err(errors),
        }
    }
}

/// Returns the second of the local day.
fn second_of_day() -> u32 {
    let now = jiff::Zoned::now();
    u32::from(now.hour().unsigned_abs()) * 3600
        + u32::from(now.minute().unsigned_abs()) * 60
        + u32::from(now.second().unsigned_abs())
}

fn operations(text: &str) -> Result<Option<u32>, String> {
    match text.parse() {
        _ if text == OFF => Ok(None),
        Ok(count @ 1..) => Ok(Some(count)),
        _ => Err("must be a number of operations per second, from 1 to 4294967295, or off".to_owned()),
    }
}

fn latency_us(text: &str) -> Result<Option<u64>, String> {
    let number = text.strip_suffix("ms").unwrap_or(text).trim_end();
    match number.parse::<f64>() {
        _ if text == OFF => Ok(None),
        Ok(ms) if (LATENCY_MS_MIN..=LATENCY_MS_MAX).contains(&ms) => Ok(Some((ms * 1000.0) as u64)),
        _ => Err("must be a time in milliseconds such as 20 or 0.5, up to 60000, or off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bwlimit: &str, iops_limit: &str, source_p99: &str) -> Result<RunLimits, Vec<Error>> {
        let value = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let [bwlimit, iops_limit, source_p99] = [bwlimit, iops_limit, source_p99].map(value);
        LimitArguments { bwlimit, iops_limit, source_p99 }.read()
    }

    #[test]
    fn limits_are_read_and_taken_away() {
        let limits = read("20M", "500", "20").unwrap();
        assert!(limits.rate.is_some());
        assert_eq!((limits.operations_per_second, limits.source_p99_us), (Some(500), Some(20_000)));
        assert_eq!(read("", "", "0.5ms").unwrap().source_p99_us, Some(500));
        assert!(!read("off", "off", "off").unwrap().is_some() && !read("", "", "").unwrap().is_some());
        assert!(LimitArguments::default().is_empty());
    }

    #[test]
    fn all_that_is_wrong_is_said() {
        let errors = read("5", "none", "NaN").unwrap_err();
        let at: Vec<_> = errors.iter().map(|error| String::from_utf8_lossy(&error.at).into_owned()).collect();
        assert_eq!(at, ["--bwlimit", "--iops-limit", "--source-p99"]);
        for (operations, latency) in [("0", ""), ("-1", ""), ("1.5", ""), ("", "0"), ("", "-3"), ("", "1e9")]
        {
            assert_eq!(read("", operations, latency).unwrap_err().len(), 1, "{operations} {latency}");
        }
    }
}
