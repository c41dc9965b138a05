//! The figures of the progress line: the rate over the last seconds, the time left, the bottleneck.

use std::collections::VecDeque;
use std::time::Duration;

use hakobu_core::counters::CounterTotals;
use hakobu_core::pace::time_words;
use hakobu_core::report::Bottleneck;
use hakobu_core::units::{format_bytes, format_rate};

use crate::language::Language;
use crate::translation::{localized, phrase};

/// The rate is that of this long.
const WINDOW: Duration = Duration::from_secs(5);

/// The progress samples of the last seconds.
#[derive(Debug, Default)]
pub struct RecentProgress {
    seen: VecDeque<ProgressSample>,
}

#[derive(Clone, Debug, Default)]
struct ProgressSample {
    at: Duration,
    written_bytes: u64,
    snapshot: CounterTotals,
}

/// The figures of one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressFigures {
    /// Bytes that are at the target, those that were there before among them.
    pub bytes_done: u64,
    /// Bytes on their way there. With those that are there they are all there are only when all have arrived.
    pub bytes_under_way: u64,
    /// Bytes found at the source so far.
    pub bytes_seen: u64,
    /// True if the scan is complete.
    pub scan_done: bool,
    /// Bytes per second lately.
    pub bytes_per_second: f64,
    /// Time left, once all is found and something moves.
    pub left: Option<Duration>,
    /// Entries that are dealt with.
    pub entries_done: u64,
    /// Entries found at the source so far.
    pub entries_seen: u64,
    /// Entries that failed.
    pub entries_failed: u64,
    /// The present bottleneck.
    pub bottleneck: Option<Bottleneck>,
    /// Until which second of the day nothing may go, in the pause of a timetable.
    pub paused_until_s: Option<u32>,
}

impl RecentProgress {
    /// Takes a snapshot at this time since the start.
    pub fn update(&mut self, at: Duration, snapshot: &CounterTotals) -> ProgressFigures {
        while self.seen.len() > 1 && self.seen.get(1).is_some_and(|next| next.at + WINDOW <= at) {
            self.seen.pop_front();
        }
        let arrived_bytes = snapshot.target_written_bytes.saturating_add(snapshot.bytes_kept);
        let written_bytes = arrived_bytes.saturating_add(under_way(snapshot, arrived_bytes));
        let now = ProgressSample { at, written_bytes, snapshot: snapshot.clone() };
        let first = ProgressSample::default();
        let before = self.seen.front().unwrap_or(&first);
        let seconds = at.saturating_sub(before.at).as_secs_f64();
        let moved = written_bytes.saturating_sub(before.written_bytes) as f64;
        let bytes_per_second = if seconds > 0.0 { moved / seconds } else { 0.0 };
        let bottleneck = Bottleneck::of(&snapshot.since(&before.snapshot));
        if snapshot.paused_until_s.is_some() {
            // The rate and the limit behind a pause are not those of the pause.
            self.seen.clear();
        }
        self.seen.push_back(now);
        let bytes_done =
            arrived_bytes.saturating_add(snapshot.bytes_unchanged).saturating_add(snapshot.bytes_resumed);
        let bytes_missing = snapshot.bytes_scanned.saturating_sub(bytes_done);
        let bytes_under_way = (written_bytes - arrived_bytes).min(bytes_missing.saturating_sub(1));
        let bytes_left = (bytes_missing - bytes_under_way) as f64;
        let known = snapshot.scan_done && bytes_per_second > 0.0 && snapshot.paused_until_s.is_none();
        let left = known.then(|| Duration::try_from_secs_f64(bytes_left / bytes_per_second).ok());
        let done = [
            snapshot.entries_created,
            snapshot.entries_updated,
            snapshot.entries_unchanged,
            snapshot.entries_attributes_only,
            snapshot.entries_skipped,
            snapshot.entries_failed,
        ];
        ProgressFigures {
            bytes_done,
            bytes_under_way,
            bytes_seen: snapshot.bytes_scanned,
            scan_done: snapshot.scan_done,
            bytes_per_second,
            left: left.flatten(),
            entries_done: done.iter().sum(),
            entries_seen: snapshot.entries_scanned,
            entries_failed: snapshot.entries_failed,
            bottleneck,
            paused_until_s: snapshot.paused_until_s,
        }
    }
}

impl ProgressFigures {
    /// One line for a terminal, the most important first, since a narrow one cuts it off.
    pub fn line(&self, language: Language) -> String {
        let mut parts = Vec::new();
        let bytes_moved = self.bytes_done.saturating_add(self.bytes_under_way);
        let seen = format_bytes(self.bytes_seen);
        if self.scan_done && self.bytes_seen > 0 {
            let share = bytes_moved.min(self.bytes_seen) as f64 / self.bytes_seen as f64;
            // Rounded down: 100 % means complete.
            parts.push(format!("{:3.0} %", (share * 100.0).floor()));
        }
        let moved = format_bytes(bytes_moved);
        parts.push(match self.scan_done {
            true => localized!(language, "{} of {}", moved, seen),
            false => localized!(language, "{} of at least {}", moved, seen),
        });
        if self.paused_until_s.is_none() {
            parts.push(format_rate(self.bytes_per_second));
        }
        parts.extend(self.left.map(|left| localized!(language, "{} left", language.duration(left))));
        parts.extend(match self.paused_until_s {
            Some(until_s) => Some(localized!(language, "paused until {}", time_words(until_s))),
            None => self.bottleneck.as_ref().map(|limit| {
                let stage = phrase(language, &limit.stage);
                localized!(language, "limit: {} {} %", stage, format!("{:.0}", limit.share * 100.0))
            }),
        });
        if self.entries_seen > 1 {
            let (done, seen) = (language.count(self.entries_done), language.count(self.entries_seen));
            parts.push(localized!(language, "{}/{} entries", done, seen));
        }
        if self.entries_failed > 0 {
            parts.push(localized!(language, "{} failed", language.count(self.entries_failed)));
        }
        parts.join("  ")
    }
}

/// Returns the bytes that were read and not confirmed yet. Lanes confirm whole chunks of 4 MiB, which takes seconds on a slow
/// link. Bytes that are read twice must not count for more than that.
fn under_way(snapshot: &CounterTotals, arrived_bytes: u64) -> u64 {
    const MOST_BYTES: u64 = 128 << 20;
    let sent_bytes = snapshot.source_read_bytes.saturating_sub(snapshot.sampled_bytes);
    sent_bytes.saturating_sub(arrived_bytes).min(MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use hakobu_core::counters::LaneStage;

    use super::*;

    #[test]
    fn what_is_on_its_way_is_seen_but_is_not_all_there_is() {
        let mut snapshot = CounterTotals {
            scan_done: true,
            bytes_scanned: 10 << 20,
            source_read_bytes: 1 << 20,
            ..CounterTotals::default()
        };
        let mut progress = RecentProgress::default();
        let figures = progress.update(Duration::from_secs(1), &snapshot);
        assert_eq!((figures.bytes_done, figures.bytes_under_way), (0, 1 << 20));
        assert_eq!(figures.bytes_per_second, f64::from(1 << 20));
        assert!(
            figures.line(Language::En).starts_with(" 10 %  1.05 MB of 10.5 MB"),
            "{}",
            figures.line(Language::En)
        );
        snapshot.source_read_bytes = 10 << 20;
        let figures = progress.update(Duration::from_secs(2), &snapshot);
        assert_eq!((figures.bytes_done, figures.bytes_under_way), (0, (10 << 20) - 1));
        assert!(figures.line(Language::En).starts_with(" 99 %"), "{}", figures.line(Language::En));
        snapshot.target_written_bytes = 10 << 20;
        let figures = progress.update(Duration::from_secs(3), &snapshot);
        assert_eq!((figures.bytes_done, figures.bytes_under_way), (10 << 20, 0));
        // A file that grew, and parts that were read twice.
        snapshot.source_read_bytes = u64::MAX;
        snapshot.target_written_bytes = 11 << 20;
        let figures = progress.update(Duration::from_secs(4), &snapshot);
        assert_eq!((figures.bytes_done, figures.bytes_under_way), (11 << 20, 0));
    }

    #[test]
    fn what_is_read_to_check_an_earlier_run_is_not_on_its_way() {
        let mut snapshot = CounterTotals {
            scan_done: true,
            bytes_scanned: 157 << 20,
            bytes_resumed: 100 << 20,
            source_read_bytes: 100 << 20,
            sampled_bytes: 100 << 20,
            ..CounterTotals::default()
        };
        let figures = RecentProgress::default().update(Duration::from_secs(1), &snapshot);
        assert_eq!((figures.bytes_done, figures.bytes_under_way), (100 << 20, 0));
        assert_eq!((figures.bytes_per_second, figures.left), (0.0, None));
        snapshot.source_read_bytes += 4 << 20;
        let figures = RecentProgress::default().update(Duration::from_secs(2), &snapshot);
        assert_eq!(figures.bytes_under_way, 4 << 20);
    }

    fn at(seconds: u64, written: u64, scan_done: bool) -> (Duration, CounterTotals) {
        let mut snapshot = CounterTotals { scan_done, remote: true, ..CounterTotals::default() };
        snapshot.bytes_scanned = 10_000_000_000;
        snapshot.bytes_unchanged = 1_000_000_000;
        snapshot.target_written_bytes = written;
        snapshot.entries_scanned = 1_200;
        snapshot.entries_created = 300;
        snapshot.stage_ns[LaneStage::Send as usize] = seconds * 3;
        snapshot.stage_ns[LaneStage::Read as usize] = seconds;
        (Duration::from_secs(seconds), snapshot)
    }

    fn figures(progress: &mut RecentProgress, (at, snapshot): (Duration, CounterTotals)) -> ProgressFigures {
        progress.update(at, &snapshot)
    }

    #[test]
    fn the_line_says_rate_time_left_and_limit() {
        let mut progress = RecentProgress::default();
        figures(&mut progress, at(0, 0, true));
        let line = figures(&mut progress, at(2, 1_000_000_000, true)).line(Language::En);
        assert_eq!(
            line,
            " 20 %  2.00 GB of 10.0 GB  500 MB/s  16.0 s left  limit: send 75 %  300/1 200 entries"
        );
        let line = figures(&mut progress, at(3, 1_500_000_000, false)).line(Language::En);
        assert!(line.starts_with("2.50 GB of at least 10.0 GB  500 MB/s  limit: send 75 %  300/1"), "{line}");
    }

    #[test]
    fn the_line_is_in_the_language_of_the_user() {
        let mut progress = RecentProgress::default();
        figures(&mut progress, at(0, 0, true));
        let mut said = figures(&mut progress, at(2, 1_000_000_000, true));
        said.entries_failed = 1_000;
        assert_eq!(
            said.line(Language::Ja),
            " 20 %  2.00 GB / 10.0 GB  500 MB/s  残り 16.0 秒  ボトルネック: 暗号化と送信 75 %  300/1,200 件  失敗 1,000"
        );
        said.scan_done = false;
        assert!(
            said.line(Language::Ja).starts_with("2.00 GB / 10.0 GB 以上  "),
            "{}",
            said.line(Language::Ja)
        );
    }

    #[test]
    fn a_pause_is_said_and_has_no_time_left() {
        let mut progress = RecentProgress::default();
        figures(&mut progress, at(0, 0, true));
        let (when, mut snapshot) = at(2, 1_000_000_000, true);
        snapshot.paused_until_s = Some(13 * 3600 + 5 * 60);
        let line = progress.update(when, &snapshot).line(Language::En);
        assert_eq!(line, " 20 %  2.00 GB of 10.0 GB  paused until 13:05  300/1 200 entries");
        // Then it goes on as if it had begun there.
        let (when, snapshot) = at(3, 1_500_000_000, true);
        let line = progress.update(when, &snapshot).line(Language::En);
        assert!(line.starts_with(" 25 %  2.50 GB of 10.0 GB  500 MB/s"), "{line}");
    }

    #[test]
    fn the_rate_forgets_what_is_long_ago() {
        let mut progress = RecentProgress::default();
        for second in 0..20 {
            figures(&mut progress, at(second, 8_000_000_000, true));
        }
        let stalled = figures(&mut progress, at(20, 8_000_000_000, true));
        assert_eq!((stalled.bytes_per_second, stalled.left), (0.0, None));
        assert!(progress.seen.len() < 10);
    }

    #[test]
    fn figures_that_run_backwards_do_no_harm() {
        let mut progress = RecentProgress::default();
        figures(&mut progress, at(5, 9_500_000_000, true));
        let figures = figures(&mut progress, at(4, 1, true));
        assert_eq!(figures.bytes_per_second, 0.0);
        assert!(!figures.line(Language::En).is_empty());
    }
}
