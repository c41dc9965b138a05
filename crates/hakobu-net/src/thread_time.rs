//! Measures the time of one thread.

use hakobu_core::counters::ThreadTime;

/// Returns the times of the calling thread. Zeros on a kernel that does not count them (`CONFIG_SCHED_INFO`).
pub fn thread_time() -> ThreadTime {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut numbers = counted.split_ascii_whitespace().map(|number| number.parse().unwrap_or(0));
    ThreadTime {
        processor_ns: numbers.next().unwrap_or_default(),
        queued_ns: numbers.next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_has_a_processor() {
        let before = thread_time();
        let mut sum = 0_u64;
        while thread_time().processor_ns <= before.processor_ns {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(thread_time().queued_ns >= before.queued_ns);
    }
}
