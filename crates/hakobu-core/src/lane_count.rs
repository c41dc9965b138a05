//! Decides how many lanes a run begins with and may have at most, from what is known before it begins.

use std::time::Duration;

use crate::capabilities::Concurrency;
use crate::job::LANES_MAX;

/// The round-trip time from which connections are limited by their windows rather than by the processor.
pub const LONG_ROUND_TRIP: Duration = Duration::from_millis(10);
/// The number of lanes from that round-trip time on: through ssh five connections with two sessions each, which fill
/// 1 Gbit/s at 100 ms where four carry 0.8 of it (`ssh/logins.rs`).
const ON_A_LONG_WAY: u16 = 10;
/// The round-trip time from which there are more lanes: the longer it is, the longer a connection needs to find its
/// rate, and to find it again after a loss.
const VERY_LONG_ROUND_TRIP: Duration = Duration::from_millis(50);
const ON_A_VERY_LONG_WAY: u16 = 16;
/// The maximum number of lanes after others have been tried.
pub const TUNED_MAX: u16 = 32;
/// The maximum number of lanes that are ssh sessions.
pub const THROUGH_SSH: u16 = 10;
/// The maximum number of lanes if processors are the limit.
const OF_PROCESSORS: u16 = 8;
/// The minimum number of lanes of a copy between disks of one host. More gained nothing, or made it slower.
const BETWEEN_DISKS: u16 = 4;
/// The number of lanes to a network file system, so that as many operations are in progress.
const OVER_A_NETWORK: u16 = 32;

/// The known facts about the two ends of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndpointFacts {
    /// The longer round-trip time of the two hosts.
    pub round_trip: Duration,
    /// The number of processors of the source's host and of the target's.
    pub processors: (u16, u16),
    /// Processors of the machine that the engine runs on.
    pub here: u16,
    /// True if the ends are on different hosts.
    pub apart: bool,
    /// The number of lanes that are useful, if an endpoint specifies it.
    pub concurrency: Option<Concurrency>,
    /// True if an end is on a network file system.
    pub over_network: bool,
    /// True if an end is a block device.
    pub has_disks: bool,
    /// True if the run only reads the source, for a digest.
    pub is_digest: bool,
}

impl EndpointFacts {
    /// Returns the number of lanes to begin with unless ssh carries them, and the reason.
    pub fn lanes(&self) -> (u16, String) {
        let (source, target) = (self.processors.0.max(1), self.processors.1.max(1));
        if let Some(concurrency) = self.concurrency.filter(|_| self.round_trip < LONG_ROUND_TRIP) {
            let most = concurrency.near_max;
            match concurrency.processes {
                true => (
                    self.here.clamp(2, most.max(2)),
                    format!(
                        "each needs processes here, where there are {} processors; more than {most} would gain nothing",
                        self.here
                    ),
                ),
                false => (most, format!("more than {most} would gain nothing there")),
            }
        } else if self.over_network && !self.has_disks {
            let words = "an end is on a network file system, where each operation waits for an answer";
            (OVER_A_NETWORK, words.to_owned())
        } else if self.is_digest {
            (source.min(LANES_MAX), format!("as many as processors: {source}"))
        } else if self.round_trip >= LONG_ROUND_TRIP {
            let is_very_long = self.round_trip >= VERY_LONG_ROUND_TRIP;
            let lanes = if is_very_long { ON_A_VERY_LONG_WAY } else { ON_A_LONG_WAY };
            let lanes = self.concurrency.map_or(lanes, |most| lanes.min(most.far_max));
            (lanes, format!("a round trip takes {:.1} ms", self.round_trip.as_secs_f64() * 1e3))
        } else if self.has_disks && self.apart {
            // A lane waits while a disk reads or writes. More lanes keep processors and disks busy meanwhile.
            let words = format!(
                "four more than processors (source {source}, target {target}), at most {OF_PROCESSORS}, because \
                 disks make them wait"
            );
            (source.min(target).saturating_add(4).min(OF_PROCESSORS), words)
        } else if self.has_disks {
            let words = "no data is sent, and disks are faster with many requests at a time".to_owned();
            (source.min(target).saturating_mul(2).max(BETWEEN_DISKS), words)
        } else {
            let words = format!("as many as processors (source {source}, target {target})");
            (source.min(target).min(OF_PROCESSORS), words)
        }
    }

    /// Returns the maximum number of lanes of a run that begins with `lanes` and tunes their number.
    pub fn lanes_max(&self, lanes: u16) -> u16 {
        // Disks were found to gain nothing from more lanes, nor comparing, which hashes on both sides at a time.
        match self.apart && self.concurrency.is_none() && !self.has_disks {
            true => TUNED_MAX.max(lanes),
            false => lanes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_decides_how_many() {
        let near = EndpointFacts { processors: (4, 64), apart: true, ..EndpointFacts::default() };
        let long = |ms| EndpointFacts { round_trip: Duration::from_millis(ms), ..near };
        let disks = EndpointFacts { has_disks: true, ..near };
        let sessions = Some(Concurrency { near_max: 4, far_max: 10, processes: true });
        let requests = Some(Concurrency { near_max: 16, far_max: 64, processes: false });
        for (ends, lanes, most) in [
            (near, 4, 32),
            (EndpointFacts { processors: (64, 64), ..near }, 8, 32),
            (EndpointFacts { processors: (0, 0), ..near }, 1, 32),
            (long(10), 10, 32),
            (long(50), 16, 32),
            (EndpointFacts { concurrency: sessions, ..long(50) }, 10, 10),
            (EndpointFacts { concurrency: requests, ..near }, 16, 16),
            (EndpointFacts { concurrency: requests, ..long(50) }, 16, 16),
            (EndpointFacts { over_network: true, ..near }, 32, 32),
            (disks, 8, 8),
            (EndpointFacts { over_network: true, ..disks }, 8, 8),
            (EndpointFacts { apart: false, processors: (1, 1), ..disks }, 4, 4),
            (EndpointFacts { apart: false, is_digest: true, processors: (2, 2), ..disks }, 2, 2),
            (EndpointFacts { apart: false, ..near }, 4, 4),
        ] {
            assert_eq!((ends.lanes().0, ends.lanes_max(lanes)), (lanes, most), "{ends:?}");
        }
    }
}
