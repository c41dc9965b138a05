//! Finds the best settings of `dd` for a pipeline, or the best number for another tool: each is tried once, on less data,
//! before the rounds.

use anyhow::Result;
use serde::Serialize;

use super::rows::BenchMethod;
use super::runs::{Lines, MethodFailure, MethodTiming};

/// The block sizes to try. A pipe returns less than a block at a time, so a `dd` that reads from one gets `fullblock`
/// in the method's own line.
const BLOCKS: [&str; 3] = ["64k", "512k", "4M"];

/// The result of a pipeline with one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DdTrial {
    /// The block size, and where `dd` bypasses the page cache; or the number.
    pub settings: String,
    pub seconds: f64,
}

/// A setting of the `dd` of each host in a pipeline.
#[derive(Debug, Clone, Copy)]
struct DdSetting {
    block: &'static str,
    direct_in: bool,
    direct_out: bool,
}

impl DdSetting {
    fn all() -> impl Iterator<Item = Self> {
        let directs = [(false, false), (true, false), (false, true), (true, true)];
        BLOCKS.into_iter().flat_map(move |block| {
            directs.into_iter().map(move |(direct_in, direct_out)| Self { block, direct_in, direct_out })
        })
    }

    /// Returns a method's line with this setting in its placeholders.
    fn put_into(self, line: &str) -> String {
        let word = |direct: bool, word: &'static str| if direct { word } else { "" };
        let line = line.replace("{bs}", self.block);
        let line = line.replace("{in}", word(self.direct_in, " iflag=direct"));
        line.replace("{out}", word(self.direct_out, " oflag=direct"))
    }

    fn words(self) -> String {
        self.put_into("bs={bs}{in}{out}")
    }
}

/// Returns a method's command lines with each of its settings, and the words for that.
fn settings(method: &BenchMethod) -> Vec<(Lines, String)> {
    let lines =
        |put: &dyn Fn(&str) -> String| Lines { local: put(method.local), remote: method.remote.map(put) };
    if method.tuned {
        let setting = |setting: DdSetting| (lines(&|line| setting.put_into(line)), setting.words());
        return DdSetting::all().map(setting).collect();
    }
    let count = |count: &u16| (lines(&|line| line.replace("{n}", &count.to_string())), count.to_string());
    method.counts.iter().map(count).collect()
}

/// Runs a method with each setting. Returns the command lines with the fastest one and the results of all.
///
/// # Errors
/// Returns an error if the user interrupts or the method works with none of the settings.
pub fn tune(
    method: &BenchMethod,
    mut run: impl FnMut(&Lines) -> Result<MethodTiming, MethodFailure>,
) -> Result<(Lines, Vec<DdTrial>), MethodFailure> {
    let mut tried = Vec::new();
    let mut best: Option<(f64, Lines)> = None;
    let mut failed = None;
    for (lines, words) in settings(method) {
        let seconds = match run(&lines) {
            Ok(timing) => timing.seconds,
            Err(MethodFailure::Interrupted) => return Err(MethodFailure::Interrupted),
            Err(error) => {
                failed = Some(error);
                continue;
            }
        };
        tried.push(DdTrial { settings: words, seconds: (seconds * 1e3).round() / 1e3 });
        if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
            best = Some((seconds, lines));
        }
    }
    match (best, failed) {
        (Some((_, lines)), _) => Ok((lines, tried)),
        (None, Some(failure)) => Err(failure),
        (None, None) => Err(MethodFailure::Failed("there are no settings".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::runs::RunCounters;
    use super::*;

    const METHOD: BenchMethod =
        BenchMethod::new("w", "dd", "dd if=a bs={bs}{in} | nc").remote("nc | dd of=b bs={bs}{out}").tuned();

    fn timing(seconds: f64) -> MethodTiming {
        MethodTiming { seconds, counted: RunCounters::default() }
    }

    #[test]
    fn the_fastest_setting_is_taken_and_one_that_fails_is_not() {
        let mut count = 0;
        let (lines, tried) = tune(&METHOD, |lines| {
            count += 1;
            match (lines.local.contains("bs=512k iflag=direct"), count) {
                (_, 1) => Err(MethodFailure::Failed("no".to_owned())),
                (fast, _) => Ok(timing(if fast { 0.5 - f64::from(count) / 100.0 } else { 1.0 })),
            }
        })
        .unwrap();
        assert_eq!(lines.local, "dd if=a bs=512k iflag=direct | nc");
        assert_eq!(lines.remote.as_deref(), Some("nc | dd of=b bs=512k oflag=direct"));
        assert_eq!((count, tried.len()), (12, 11));
        assert_eq!(tried[0].settings, "bs=64k iflag=direct");
    }

    #[test]
    fn a_number_is_put_into_its_place() {
        let method = BenchMethod::new("r", "rclone", "rclone --transfers {n}").counting(&[4, 16]);
        let (lines, tried) = tune(&method, |lines| Ok(timing(lines.local.len() as f64))).unwrap();
        assert_eq!((lines.local.as_str(), tried.len()), ("rclone --transfers 4", 2));
    }

    #[test]
    fn where_nothing_works_the_method_has_failed() {
        let outcome = tune(&METHOD, |_| Err(MethodFailure::Failed("no".to_owned())));
        assert!(matches!(outcome, Err(MethodFailure::Failed(why)) if why == "no"));
    }
}
