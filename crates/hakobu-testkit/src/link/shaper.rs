//! Decides when a packet arrives at the other end, if at all. Has no clock: the time is passed in, in nanoseconds.

use std::time::Duration;

use super::settings::LinkSettings;
use crate::random::Random;

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketFate {
    /// It is delivered at this time.
    Due { at_ns: u64 },
    /// It is lost in transit.
    Lost,
    /// The queue has no room for it.
    QueueFull,
}

/// One direction of a link: a queue, a transmitter that sends one packet after another at the rate, and a wire with a
/// delay that loses packets.
#[derive(Debug)]
pub(super) struct Shaper {
    delay_ns: u64,
    jitter_ns: u64,
    rate_bits_per_second: Option<u64>,
    /// The share of the rate that crowding leaves.
    left: f64,
    queue_limit_bytes: u64,
    loss: f64,
    random: Random,
    /// The time at which the transmitter will have sent everything.
    free_at_ns: u64,
    /// The latest due time. Packets keep their order, even when the delay is reduced.
    last_due_ns: u64,
}

impl Shaper {
    pub(super) fn new(settings: &LinkSettings, seed: u64) -> Self {
        let mut shaper = Self {
            delay_ns: 0,
            jitter_ns: 0,
            rate_bits_per_second: None,
            left: 1.0,
            queue_limit_bytes: 0,
            loss: 0.0,
            random: Random::new(seed),
            free_at_ns: 0,
            last_due_ns: 0,
        };
        shaper.change(settings);
        shaper
    }

    /// Applies `settings` except the seed to future packets.
    pub(super) fn change(&mut self, settings: &LinkSettings) {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        (self.delay_ns, self.jitter_ns) = (nanoseconds(settings.one_way_delay), nanoseconds(settings.jitter));
        self.rate_bits_per_second = settings.rate_bits_per_second;
        self.queue_limit_bytes = settings.queue_limit_bytes();
        self.loss = settings.loss;
    }

    /// Sets the remaining share of the rate from now on.
    pub(super) fn leave(&mut self, left: f64) {
        self.left = left;
    }

    /// Decides the fate of a packet of `length` bytes that arrived at `now_ns`. A lost packet takes transmission
    /// time, a packet without room does not.
    pub(super) fn admit(&mut self, now_ns: u64, length: usize) -> PacketFate {
        let start_ns = self.free_at_ns.max(now_ns);
        let mut sent_at_ns = now_ns;
        if let Some(rate) = self.rate_bits_per_second {
            let rate = ((rate as f64 * self.left) as u64).max(1);
            let waiting_ns = start_ns - now_ns;
            let waiting_bytes = u128::from(waiting_ns) * u128::from(rate) / 8_000_000_000;
            let limit = u128::from(self.queue_limit_bytes);
            // An idle transmitter accepts any packet, however small the queue.
            if waiting_ns > 0 && waiting_bytes + length as u128 > limit {
                return PacketFate::QueueFull;
            }
            let bits = length as u128 * 8;
            let duration_ns = (bits * 1_000_000_000).div_ceil(u128::from(rate));
            sent_at_ns = start_ns.saturating_add(duration_ns as u64);
            self.free_at_ns = sent_at_ns;
        }
        if self.random.share() < self.loss {
            return PacketFate::Lost;
        }
        let longer_ns = match self.jitter_ns {
            0 => 0,
            jitter_ns => (self.random.share() * jitter_ns as f64) as u64,
        };
        let at_ns = sent_at_ns.saturating_add(self.delay_ns).saturating_add(longer_ns).max(self.last_due_ns);
        self.last_due_ns = at_ns;
        PacketFate::Due { at_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn settings() -> LinkSettings {
        LinkSettings {
            one_way_delay: Duration::from_millis(50),
            rate_bits_per_second: Some(8_000_000), // 1000 bytes a millisecond
            queue_bytes: Some(3000),
            ..LinkSettings::default()
        }
    }

    #[test]
    fn packets_are_sent_one_after_the_other() {
        let mut shaper = Shaper::new(&settings(), 1);
        let due = |ms| PacketFate::Due { at_ns: ms * MS };
        assert_eq!(shaper.admit(0, 1000), due(51));
        assert_eq!(shaper.admit(0, 2000), due(53));
        // The transmitter was idle for a while, which gives no credit.
        assert_eq!(shaper.admit(10 * MS, 1000), due(61));
    }

    #[test]
    fn a_full_queue_drops_and_takes_no_time() {
        let mut shaper = Shaper::new(&settings(), 1);
        for _ in 0..3 {
            assert!(matches!(shaper.admit(0, 1000), PacketFate::Due { .. }));
        }
        assert_eq!(shaper.admit(0, 1000), PacketFate::QueueFull);
        let later = shaper.admit(MS, 1000);
        assert_eq!(later, PacketFate::Due { at_ns: 54 * MS });
    }

    #[test]
    fn loss_follows_share_and_seed() {
        let fates = |loss, seed| {
            let settings = LinkSettings { loss, rate_bits_per_second: None, ..settings() };
            let mut shaper = Shaper::new(&settings, seed);
            (0..100_000).map(|now| shaper.admit(now, 100) == PacketFate::Lost).collect::<Vec<_>>()
        };
        let count = |fates: &[bool]| fates.iter().filter(|lost| **lost).count();
        assert_eq!(count(&fates(0.0, 1)), 0);
        assert_eq!(count(&fates(1.0, 1)), 100_000);
        let some = count(&fates(0.01, 1));
        assert!((800..1200).contains(&some), "{some} of 100000 at 1 %");
        assert_eq!(fates(0.01, 7), fates(0.01, 7));
        assert_ne!(fates(0.01, 7), fates(0.01, 8));
    }

    #[test]
    fn jitter_spreads_the_delay_and_keeps_the_order() {
        let jitter = Duration::from_millis(20);
        let mut shaper = Shaper::new(&LinkSettings { jitter, rate_bits_per_second: None, ..settings() }, 1);
        let delays: Vec<u64> = (0..1000)
            .map(|tick| match shaper.admit(tick * 100 * MS, 100) {
                PacketFate::Due { at_ns } => at_ns - tick * 100 * MS,
                fate => panic!("{fate:?}"),
            })
            .collect();
        assert!(delays.iter().all(|delay| (50 * MS..=70 * MS).contains(delay)));
        let above = delays.iter().filter(|delay| **delay > 60 * MS).count();
        assert!((400..600).contains(&above), "{above} of 1000");
        let due = |now_ns: u64, shaper: &mut Shaper| match shaper.admit(now_ns, 100) {
            PacketFate::Due { at_ns } => at_ns,
            fate => panic!("{fate:?}"),
        };
        let dense: Vec<u64> = (0..1000).map(|tick| due(1_000_000 * MS + tick, &mut shaper)).collect();
        assert!(dense.is_sorted());
    }

    #[test]
    fn what_is_left_of_the_rate_counts() {
        let mut shaper = Shaper::new(&settings(), 1);
        shaper.leave(0.5);
        assert_eq!(shaper.admit(0, 1000), PacketFate::Due { at_ns: 52 * MS });
    }

    #[test]
    fn a_shorter_delay_does_not_reorder() {
        let mut shaper = Shaper::new(&settings(), 1);
        let PacketFate::Due { at_ns: first } = shaper.admit(0, 1000) else {
            panic!("the first packet is on its way");
        };
        shaper.change(&LinkSettings { one_way_delay: Duration::ZERO, ..settings() });
        let PacketFate::Due { at_ns: second } = shaper.admit(MS, 1000) else {
            panic!("the second packet is on its way");
        };
        assert!(second >= first);
    }
}
