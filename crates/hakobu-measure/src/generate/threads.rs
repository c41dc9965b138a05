//! The default number of threads.

/// Returns the number of cores of the machine.
#[must_use]
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
