//! Limits the messages about lost connections: one at intervals, and not for each lane and each attempt.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

/// The interval between messages with the same reason, and the most reasons that are distinguished.
const TOLD_EACH: Duration = Duration::from_secs(10);
const REASONS_MAX: usize = 8;

/// The messages about lost connections. Each lane meets the same problem, and again at each attempt.
#[derive(Debug, Default)]
pub(super) struct LostConnectionMessages {
    /// For each reason, the time of the last message and the number of losses since.
    reasons: HashMap<String, (Instant, u32)>,
}

impl LostConnectionMessages {
    /// Records a lost connection. Returns the message, unless the last one was recent.
    pub fn news(&mut self, now: Instant, reason: &str) -> Option<String> {
        let more = match self.count(now, reason)? {
            0 => String::new(),
            unsaid => format!(", and {unsaid} more since the last message"),
        };
        Some(format!("connection lost{more} ({reason}); its files are copied again"))
    }

    /// Records a loss. Returns the number of losses since the last message if another is due.
    fn count(&mut self, now: Instant, reason: &str) -> Option<u32> {
        // Beyond the limit, all other reasons count as one.
        let is_new = !self.reasons.contains_key(reason);
        let key = if is_new && self.reasons.len() + 1 >= REASONS_MAX { "" } else { reason };
        match self.reasons.entry(key.to_owned()) {
            Entry::Vacant(vacant) => {
                vacant.insert((now, 0));
                Some(0)
            }
            Entry::Occupied(mut known) => {
                let (told, unsaid) = known.get_mut();
                if now.saturating_duration_since(*told) < TOLD_EACH {
                    *unsaid += 1;
                    return None;
                }
                *told = now;
                Some(std::mem::take(unsaid))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once_in_a_while_with_the_count_of_those_between() {
        let mut cuts = LostConnectionMessages::default();
        let start = Instant::now();
        let mut at = |seconds, reason: &str| cuts.count(start + Duration::from_secs(seconds), reason);
        assert_eq!(at(0, "reset"), Some(0));
        assert_eq!((at(0, "reset"), at(1, "reset"), at(1, "timeout")), (None, None, Some(0)));
        assert_eq!((at(9, "timeout"), at(10, "reset"), at(11, "reset")), (None, Some(2), None));
        // Reasons that always differ do not cause more messages.
        let told = (0..1000).filter(|number| at(12, &number.to_string()).is_some()).count();
        assert!(told <= REASONS_MAX, "{told}");
    }

    #[test]
    fn the_first_is_told_as_it_is_and_a_later_one_with_the_count() {
        let (mut cuts, start) = (LostConnectionMessages::default(), Instant::now());
        let words = cuts.news(start, "reset").unwrap();
        assert_eq!(words, "connection lost (reset); its files are copied again");
        assert_eq!(cuts.news(start, "reset"), None);
        let later = cuts.news(start + TOLD_EACH, "reset").unwrap();
        assert!(later.starts_with("connection lost, and 1 more since the last message (reset)"), "{later}");
    }
}
