//! Measures wall-clock and processor time, and limits the duration of work.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hakobu_core::probe::MeasuredWork;
use rustix::time::{ClockId, clock_gettime};

use crate::statistics::median;
use hakobu_net::thread_time::thread_time;

/// Returns the processor time of the calling thread.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanoseconds.unwrap_or(0))
}

/// The end of work: a deadline or a cancellation.
#[derive(Clone, Copy)]
pub(super) struct WorkEnd<'a> {
    end: Instant,
    cancel: &'a AtomicBool,
}

impl<'a> WorkEnd<'a> {
    pub fn after(limit: Duration, cancel: &'a AtomicBool) -> Self {
        Self { end: Instant::now() + limit, cancel }
    }

    pub fn is_over(&self) -> bool {
        self.cancel.load(Relaxed) || Instant::now() >= self.end
    }
}

/// Runs `work` on several threads. Each call returns the number of items and of bytes that it has processed.
pub(super) fn on_threads(threads: usize, work: impl Fn(usize) -> (u64, u64) + Sync) -> MeasuredWork {
    let began = Instant::now();
    let done: Vec<(u64, u64, Duration, u64)> = std::thread::scope(|scope| {
        let work = &work;
        let run = |index| {
            scope.spawn(move || {
                let (before, queued_ns) = (processor_time(), thread_time().queued_ns);
                let (count, bytes) = work(index);
                let processor = processor_time().saturating_sub(before);
                (count, bytes, processor, thread_time().queued_ns.saturating_sub(queued_ns))
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let elapsed_ns = began.elapsed().as_nanos() as u64;
    let mut all = MeasuredWork { elapsed_ns, threads: threads as u16, ..MeasuredWork::default() };
    for (count, bytes, processor, queued_ns) in done {
        all.count += count;
        all.bytes += bytes;
        all.processor_ns += processor.as_nanos() as u64;
        all.queued_ns += queued_ns;
    }
    all
}

/// Returns the median of several times in nanoseconds.
pub(super) fn median_ns(times: &[Duration]) -> Option<u64> {
    let times: Vec<f64> = times.iter().map(|time| time.as_nanos() as f64).collect();
    median(&times).map(|time| time as u64)
}
