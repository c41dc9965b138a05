//! How many threads there may be.

/// As many threads as the machine has cores.
#[must_use]
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
