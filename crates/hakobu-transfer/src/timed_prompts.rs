//! Measures the time that a person takes to answer questions.

use std::fmt;
use std::time::{Duration, Instant};

use hakobu_core::prompts::{Prompts, Secret};

/// Passes questions on, and adds up the time that the answers take.
pub struct TimedPrompts<'a> {
    prompts: &'a mut dyn Prompts,
    /// The time spent waiting for answers.
    pub waited: Duration,
}

impl<'a> TimedPrompts<'a> {
    /// Creates a wrapper that has not waited yet.
    pub fn new(prompts: &'a mut dyn Prompts) -> Self {
        Self { prompts, waited: Duration::ZERO }
    }

    fn timed<T>(&mut self, ask: impl FnOnce(&mut dyn Prompts) -> T) -> T {
        let asked = Instant::now();
        let answer = ask(&mut *self.prompts);
        self.waited += asked.elapsed();
        answer
    }
}

impl fmt::Debug for TimedPrompts<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TimedPrompts").field("waited", &self.waited).finish_non_exhaustive()
    }
}

impl Prompts for TimedPrompts<'_> {
    fn sudo_password(&mut self, host: &str, attempt: u32) -> Option<Secret> {
        self.timed(|prompts| prompts.sudo_password(host, attempt))
    }

    fn rsync_password(&mut self, whose: &str, attempt: u32) -> Option<Secret> {
        self.timed(|prompts| prompts.rsync_password(whose, attempt))
    }

    fn may_delete(&mut self, words: &str) -> Option<bool> {
        self.timed(|prompts| prompts.may_delete(words))
    }

    fn disk_id(&mut self, words: &str) -> Option<String> {
        self.timed(|prompts| prompts.disk_id(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Slow;

    impl Prompts for Slow {
        fn sudo_password(&mut self, _: &str, _: u32) -> Option<Secret> {
            None
        }

        fn disk_id(&mut self, words: &str) -> Option<String> {
            std::thread::sleep(Duration::from_millis(20));
            Some(words.to_owned())
        }
    }

    #[test]
    fn the_time_for_an_answer_is_added_up() {
        let mut slow = Slow;
        let mut timed = TimedPrompts::new(&mut slow);
        assert!(timed.waited.is_zero());
        for number in 1..3 {
            assert_eq!(timed.disk_id("ID").as_deref(), Some("ID"));
            assert!(timed.waited >= Duration::from_millis(20 * number));
        }
        assert!(timed.sudo_password("h", 1).is_none());
    }
}
