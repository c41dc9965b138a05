//! Limits the wait for a disk that does not answer.

use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The maximum time for inspecting a disk. A disk that has spun down needs seconds to start.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Runs each piece of work on a thread of its own. Returns `None` for those that do not finish within `patience`. Their
/// threads keep waiting for their disks until the process ends.
pub fn all_within<T: Send + 'static>(
    patience: Duration,
    works: Vec<impl FnOnce() -> T + Send + 'static>,
) -> Vec<Option<T>> {
    let (sender, receiver) = mpsc::channel();
    let mut results: Vec<Option<T>> = works.iter().map(|_| None).collect();
    let until = Instant::now() + patience;
    for (index, work) in works.into_iter().enumerate() {
        let sender = sender.clone();
        let started = std::thread::Builder::new().name("disk".into()).spawn(move || {
            // The receiver may be gone already.
            let _ = sender.send((index, work()));
        });
        // Without a thread, the disk counts as not answering.
        drop(started);
    }
    drop(sender);
    while let Ok((index, result)) = receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
        results[index] = Some(result);
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_does_not_answer_does_not_hold_up_the_others() {
        let (_never, held) = mpsc::channel::<()>();
        let held = std::sync::Arc::new(std::sync::Mutex::new(held));
        let works: Vec<_> = (0..3)
            .map(|number| {
                let held = held.clone();
                move || {
                    if number == 1 {
                        let _ = held.lock().unwrap().recv();
                    }
                    number
                }
            })
            .collect();
        assert_eq!(all_within(Duration::from_millis(300), works), [Some(0), None, Some(2)]);
        assert!(all_within(Duration::ZERO, Vec::<fn() -> u8>::new()).is_empty());
    }
}
