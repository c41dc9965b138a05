//! Handles files that were changed a moment ago. Until the clock behind file times makes its next step, a further
//! change may leave the same time, and with the same size the next run would not detect it. So a file is read only when
//! its time is older than one step. A file that changes all the time gets a time at the target that it never had.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hakobu_core::entry::{EntryMetadata, FileTime};
use rustix::time::{ClockId, clock_getres, clock_gettime};

const NS_IN_S: i128 = 1_000_000_000;

/// The granularity of file times at both ends of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeSteps {
    /// The coarsest known granularity of both ends, in nanoseconds.
    step_ns: Arc<AtomicU32>,
    /// The maximum clock difference of the source's machine in nanoseconds, if that is another machine.
    margin_ns: u32,
}

impl TimeSteps {
    /// Creates the steps of a source whose times come from another machine's clock.
    pub(crate) fn of_another_machine(step_ns: u32, margin_ns: u32) -> Self {
        Self { step_ns: Arc::new(AtomicU32::new(step_ns)), margin_ns }
    }

    /// Adds the granularity of the other end.
    pub(crate) fn meet(&self, step_ns: u32) {
        self.step_ns.fetch_max(step_ns, Ordering::Relaxed);
    }

    /// Waits until no later change can leave the file's current time. Does not wait for times far from now.
    pub(crate) fn wait(&self, version: &EntryMetadata) {
        // The clock behind file times lags by up to a tick, so one sleep may not be enough.
        while let Some(left) = self.left(version, now_ns()) {
            std::thread::sleep(left);
        }
    }

    /// Returns true if a change from now on may leave the file's current time.
    pub(crate) fn may_repeat(&self, version: &EntryMetadata) -> bool {
        self.may_repeat_at(version, Self::moment())
    }

    /// Returns true if a change from an earlier moment on may leave the file's time.
    pub(crate) fn may_repeat_at(&self, version: &EntryMetadata, moment_ns: i128) -> bool {
        self.left(version, moment_ns).is_some()
    }

    /// Returns the current time of the clock behind file times, in nanoseconds.
    pub(crate) fn moment() -> i128 {
        now_ns()
    }

    /// Returns a time which shows that the content does not belong to the file's time.
    pub(crate) fn never(&self, time: FileTime) -> FileTime {
        let steps_s = 2 * i64::from(self.step_ns.load(Ordering::Relaxed).div_ceil(NS_IN_S as u32).max(1));
        FileTime { seconds: time.seconds.saturating_sub(steps_s), ..time }
    }

    /// Returns the time for which a file time may still repeat.
    fn left(&self, version: &EntryMetadata, now_ns: i128) -> Option<Duration> {
        let margin = i128::from(self.margin_ns);
        let step =
            i128::from(self.step_ns.load(Ordering::Relaxed)).max(step_of(version.mtime)).max(tick_ns());
        let of_mtime = left(version.mtime, step + margin, now_ns);
        // Not all sources report the time of the last inode change.
        let of_ctime = left(version.ctime, tick_ns(), now_ns);
        let longest = of_mtime.max(of_ctime).filter(|left| *left > 0)?;
        u64::try_from(longest).ok().map(Duration::from_nanos)
    }
}

fn left(time: FileTime, step: i128, now_ns: i128) -> Option<i128> {
    let at = i128::from(time.seconds) * NS_IN_S + i128::from(time.nanoseconds);
    ((at - step..at + step).contains(&now_ns)).then(|| at + step - now_ns)
}

/// Returns the granularity that a time suggests, in nanoseconds. Some file systems keep only whole or even seconds.
fn step_of(time: FileTime) -> i128 {
    match (time.nanoseconds, time.seconds % 2) {
        (0, 0) => 2 * NS_IN_S,
        (0, _) => NS_IN_S,
        (fraction, _) if fraction % 10_000_000 == 0 => NS_IN_S / 100,
        _ => 0,
    }
}

/// Returns the step of the clock behind file times, in nanoseconds. The clock stands still between two kernel ticks.
fn tick_ns() -> i128 {
    static TICK: OnceLock<i128> = OnceLock::new();
    *TICK.get_or_init(|| {
        let tick = clock_getres(ClockId::RealtimeCoarse);
        i128::from(tick.tv_nsec).clamp(1_000_000, NS_IN_S)
    })
}

fn now_ns() -> i128 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    i128::from(now.tv_sec) * NS_IN_S + i128::from(now.tv_nsec)
}

#[cfg(test)]
mod tests {
    use hakobu_core::entry::EntryKind;

    use super::*;

    fn file(ns_ago: i128) -> EntryMetadata {
        let at = now_ns() - ns_ago;
        let mtime = FileTime { seconds: (at / NS_IN_S) as i64, nanoseconds: (at % NS_IN_S) as u32 | 1 };
        EntryMetadata { mtime, ..EntryMetadata::new(EntryKind::File) }
    }

    #[test]
    fn what_changed_within_a_step_is_waited_for_and_nothing_else() {
        let steps = TimeSteps::default();
        let fresh = file(0);
        assert!(steps.may_repeat(&fresh));
        steps.wait(&fresh);
        assert!(!steps.may_repeat(&fresh));
        let earlier = file(500_000_000);
        assert!(!steps.may_repeat(&earlier));
        // The other end keeps whole seconds only.
        steps.meet(1_000_000_000);
        assert!(steps.may_repeat(&earlier) && !steps.may_repeat(&file(1_100_000_000)));
        let began = std::time::Instant::now();
        steps.wait(&earlier);
        assert!(!steps.may_repeat(&earlier) && began.elapsed() >= Duration::from_millis(300));
        assert!(!steps.may_repeat(&file(-3_600_000_000_000)), "a time to come is not that of a change");
        assert!(steps.never(earlier.mtime).seconds < earlier.mtime.seconds - 1);
    }

    #[test]
    fn a_whole_second_may_be_all_that_is_kept() {
        let steps = TimeSteps::default();
        let mut whole = file(900_000_000);
        whole.mtime.nanoseconds = 0;
        assert_eq!(step_of(FileTime { seconds: 4, nanoseconds: 0 }), 2 * NS_IN_S);
        assert_eq!(step_of(FileTime { seconds: -3, nanoseconds: 0 }), NS_IN_S);
        assert_eq!(step_of(FileTime { seconds: 4, nanoseconds: 30_000_000 }), NS_IN_S / 100);
        let now = i128::from(whole.mtime.seconds) * NS_IN_S + 1;
        assert!(steps.left(&whole, now).is_some_and(|left| left >= Duration::from_millis(999)));
        assert_eq!(steps.left(&whole, now + 2 * NS_IN_S), None);
    }

    #[test]
    fn the_time_of_a_change_of_the_inode_counts_by_ticks() {
        let steps = TimeSteps::default();
        let fresh = file(0);
        let moved =
            EntryMetadata { ctime: fresh.mtime, mtime: FileTime { seconds: 1, nanoseconds: 1 }, ..fresh };
        assert!(steps.may_repeat(&moved));
        steps.wait(&moved);
        assert!(!steps.may_repeat(&moved));
    }
}
