//! How many lanes a run begins with, and how many it may have in the end: by the round trip, the processors, what is
//! copied, and who carries the data.

use std::time::Duration;

use hakobu_core::job::LANES_MAX;

use crate::request::Lanes;

/// From this round trip on, connections are limited by their windows rather than by the processor.
pub(crate) const LONG_ROUND_TRIP: Duration = Duration::from_millis(10);
/// How many lanes a long way gets: through ssh five connections with two sessions each, which fill 1 Gbit/s at 100 ms
/// where four carry 0.8 of it (`ssh/logins.rs`).
pub(crate) const LANES_ON_A_LONG_WAY: u16 = 10;
/// How many lanes there are at most where they are sessions of ssh.
pub(crate) const LANES_THROUGH_SSH: u16 = 10;
/// How many lanes there are at most where processors are what counts.
pub(crate) const LANES_OF_PROCESSORS: u16 = 8;
/// From this round trip on there are more: the longer the way, the longer a connection needs to find its rate, and to find it
/// again after a loss.
const VERY_LONG_ROUND_TRIP: Duration = Duration::from_millis(50);
const LANES_ON_A_VERY_LONG_WAY: u16 = 16;
/// How many lanes there are at most after others have been tried.
const LANES_TUNED_MAX: u16 = 32;
/// How many lanes a copy from disk to disk on one machine gets at least. More of them gained nothing, or lost.
const LANES_BETWEEN_DISKS: u16 = 4;
/// How many lanes an SFTP server nearby gets at most.
const LANES_OVER_SFTP: u16 = 4;
/// How many lanes a network file system gets: so many operations are under way then.
const LANES_OVER_A_NETWORK: u16 = 32;

/// What the count follows from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    /// What the user typed.
    pub wanted: Lanes,
    /// Whether the target is standard output.
    pub is_stream: bool,
    /// Whether only a digest is taken.
    pub is_digest: bool,
    /// Whether the ends are on different machines.
    pub is_apart: bool,
    /// Whether an end has no agent.
    pub over_sftp: bool,
    /// Whether an end is on a network file system.
    pub over_network: bool,
    /// Whether an end is a disk.
    pub has_disks: bool,
    /// The longer one of the two ends.
    pub round_trip: Duration,
    /// Processors of the source's machine, of the target's, and of this one.
    pub processors: (u16, u16, u16),
}

impl Circumstances {
    /// How many lanes a run begins with, and why. Of a count that was typed there is nothing to be said.
    pub fn at_the_beginning(&self) -> (u16, Option<String>) {
        if self.is_stream {
            return (1, Some("standard output takes its bytes in order".to_owned()));
        }
        if let Lanes::Count(count) = self.wanted {
            return (count.clamp(1, LANES_MAX), None);
        }
        let (lanes, why) = self.sensible();
        (lanes, Some(why))
    }

    fn sensible(&self) -> (u16, String) {
        let (source, target, here) = self.processors;
        if self.over_sftp && self.round_trip < LONG_ROUND_TRIP {
            let words = format!("each has ssh processes of its own, and here are {here} processors");
            (here.clamp(2, LANES_OVER_SFTP), words)
        } else if self.over_network && !self.has_disks {
            let words = "an end is on a network file system, where each operation waits for an answer";
            (LANES_OVER_A_NETWORK, words.to_owned())
        } else if self.is_digest {
            (source.min(LANES_MAX), format!("as many as processors: {source}"))
        } else if self.round_trip >= LONG_ROUND_TRIP {
            let lanes = if self.over_sftp { LANES_ON_A_LONG_WAY } else { lanes_on_the_way(self.round_trip) };
            (lanes, format!("a round trip takes {:.1} ms", self.round_trip.as_secs_f64() * 1e3))
        } else if self.has_disks {
            self.of_disks()
        } else {
            let words = format!("as many as processors, of which the ends have {source} and {target}");
            (source.min(target).min(LANES_OF_PROCESSORS), words)
        }
    }

    /// A lane waits while a disk reads or writes: others keep the processors, or the disks, busy.
    fn of_disks(&self) -> (u16, String) {
        let (source, target, _) = self.processors;
        let processors = source.min(target);
        match self.is_apart {
            true => {
                let words = format!(
                    "four more than processors, {source} and {target}, and at most {LANES_OF_PROCESSORS}, since \
                     disks make them wait"
                );
                (processors.saturating_add(4).min(LANES_OF_PROCESSORS), words)
            }
            false => {
                let words = "nothing travels, and disks want many requests at a time".to_owned();
                (processors.saturating_mul(2).max(LANES_BETWEEN_DISKS), words)
            }
        }
    }

    /// How many lanes there may be in the end, where it begins with so many.
    pub fn at_most(&self, lanes: u16) -> u16 {
        let is_tuned = self.wanted == Lanes::Auto && !self.is_stream;
        // Disks were found to gain nothing by more, and comparing hashes on both sides at a time.
        match is_tuned && self.is_apart && !self.over_sftp && !self.has_disks {
            true => LANES_TUNED_MAX.max(lanes),
            false => lanes,
        }
    }
}

/// How many lanes a run begins with on a way of this length, where ssh does not carry them.
pub(crate) fn lanes_on_the_way(round_trip: Duration) -> u16 {
    if round_trip >= VERY_LONG_ROUND_TRIP { LANES_ON_A_VERY_LONG_WAY } else { LANES_ON_A_LONG_WAY }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A short way between machines of 2 and 16 processors.
    const SHORT: Circumstances = Circumstances {
        wanted: Lanes::Auto,
        is_stream: false,
        is_digest: false,
        is_apart: true,
        over_sftp: false,
        over_network: false,
        has_disks: false,
        round_trip: Duration::from_micros(200),
        processors: (16, 2, 16),
    };

    fn count(circumstances: Circumstances) -> u16 {
        let (lanes, why) = circumstances.at_the_beginning();
        assert_eq!(why.is_none(), matches!(circumstances.wanted, Lanes::Count(_)), "{circumstances:?}");
        lanes
    }

    #[test]
    fn a_short_way_gets_as_many_as_processors_and_a_long_one_more() {
        assert_eq!(count(SHORT), 2);
        assert_eq!(count(Circumstances { processors: (64, 64, 64), ..SHORT }), LANES_OF_PROCESSORS);
        let of = |ms| count(Circumstances { round_trip: Duration::from_millis(ms), ..SHORT });
        assert_eq!([9, 10, 49, 50, 300].map(of), [2, 10, 10, 16, 16]);
    }

    #[test]
    fn disks_want_more_requests_than_there_are_processors() {
        let disks = Circumstances { has_disks: true, ..SHORT };
        assert_eq!(count(disks), 6);
        assert_eq!(count(Circumstances { processors: (64, 64, 64), ..disks }), LANES_OF_PROCESSORS);
        let on_one = Circumstances { is_apart: false, ..disks };
        assert_eq!(count(on_one), LANES_BETWEEN_DISKS);
        assert_eq!(count(Circumstances { processors: (16, 16, 16), ..on_one }), 32);
        assert_eq!(count(Circumstances { processors: (u16::MAX, u16::MAX, 1), ..on_one }), u16::MAX);
        // A disk that is reached over a network file system is a disk.
        assert_eq!(count(Circumstances { over_network: true, ..disks }), 6);
        assert_eq!(count(Circumstances { over_network: true, ..SHORT }), LANES_OVER_A_NETWORK);
    }

    #[test]
    fn over_sftp_the_processors_here_count_until_the_way_is_long() {
        let sftp = Circumstances { over_sftp: true, processors: (1, 1, 3), ..SHORT };
        assert_eq!(count(sftp), 3);
        assert_eq!(count(Circumstances { processors: (1, 1, 1), ..sftp }), 2);
        assert_eq!(count(Circumstances { processors: (1, 1, 64), ..sftp }), LANES_OVER_SFTP);
        let far = Circumstances { round_trip: Duration::from_millis(100), ..sftp };
        assert_eq!(count(far), LANES_ON_A_LONG_WAY, "ssh carries no more");
    }

    #[test]
    fn what_is_typed_holds_but_for_a_stream() {
        let typed = |count| Circumstances { wanted: Lanes::Count(count), ..SHORT };
        assert_eq!([0, 1, 7, 64, 999].map(|lanes| count(typed(lanes))), [1, 1, 7, LANES_MAX, LANES_MAX]);
        assert_eq!(typed(7).at_most(7), 7);
        let stream = Circumstances { is_stream: true, ..typed(7) };
        let (lanes, why) = stream.at_the_beginning();
        assert_eq!((lanes, stream.at_most(1)), (1, 1));
        assert!(why.unwrap().contains("standard output"));
        assert_eq!(count(Circumstances { is_digest: true, processors: (200, 1, 1), ..SHORT }), LANES_MAX);
    }

    #[test]
    fn others_are_tried_between_agents_alone_and_not_on_disks() {
        assert_eq!(SHORT.at_most(2), LANES_TUNED_MAX);
        assert_eq!(SHORT.at_most(40), 40);
        for fixed in [
            Circumstances { is_apart: false, ..SHORT },
            Circumstances { over_sftp: true, ..SHORT },
            Circumstances { has_disks: true, ..SHORT },
            Circumstances { is_stream: true, ..SHORT },
        ] {
            assert_eq!(fixed.at_most(4), 4, "{fixed:?}");
        }
    }
}
