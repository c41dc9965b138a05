//! The limits under which copies are predicted and measured, one at a time, and the data that is copied.

use std::time::Duration;

use crate::bench::sources::{GIB, MIB, Source};

/// The way in which the machine is throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    /// Not at all. Processors are the limit, as everything is in memory.
    None,
    /// The near process gets this many percent of a processor.
    SourceProcessor(u32),
    /// The far process gets this many percent of a processor.
    TargetProcessor(u32),
    /// The source is on a disk that reads at most this many bytes per second.
    SourceDisk(u64),
    /// The target is on a disk that writes at most this many bytes per second.
    TargetDisk(u64),
    /// The link has this rate in bits per second.
    Line(u64),
    /// Connections have windows of at most this many bytes. The link's rate is unlimited.
    Window(u64),
    /// The source is on a file server, mounted with sshfs.
    SourceServer,
    /// The target is on a file server, mounted with sshfs.
    TargetServer,
}

/// A limit and the data that is copied under it.
#[derive(Debug)]
pub struct Limit {
    pub key: &'static str,
    pub title: &'static str,
    pub throttle: Throttle,
    /// The round-trip time between the ends, or to the file server. `Duration::MAX` if nothing crosses a network.
    pub round_trip: Duration,
    pub works: &'static [Work],
}

/// The data that is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    File {
        bytes: u64,
    },
    /// Files of 10 KiB, a hundred in each directory.
    Tree {
        files: u64,
    },
}

const WHOLE: &[Work] = &[Work::File { bytes: 2 * GIB }, Work::Tree { files: 100_000 }];
/// Less data over a file server, where each file costs several round trips, one after the other.
const FEW: &[Work] = &[Work::File { bytes: 2 * GIB }, Work::Tree { files: 5_000 }];

/// All limits.
pub const LIMITS: &[Limit] = &[
    limit("local", "nothing but processors: memory to memory on one machine", Throttle::None, None, WHOLE),
    limit("loopback", "nothing but processors: both ends on two cores", Throttle::None, Some(0), WHOLE),
    limit("source-disk", "source disk: 80 MB/s", Throttle::SourceDisk(80_000_000), Some(0), WHOLE),
    limit("source-processor", "source processor: 0.3 of one", Throttle::SourceProcessor(30), Some(0), WHOLE),
    limit("line", "network rate: 400 Mbit/s", Throttle::Line(400_000_000), Some(0), WHOLE),
    limit("long-line", "network rate: 400 Mbit/s, 40 ms", Throttle::Line(400_000_000), Some(40), WHOLE),
    limit("window", "round trip: 100 ms with windows of 1 MiB", Throttle::Window(MIB), Some(100), WHOLE),
    limit("target-disk", "target disk: 60 MB/s", Throttle::TargetDisk(60_000_000), Some(0), WHOLE),
    limit("target-processor", "target processor: 0.3 of one", Throttle::TargetProcessor(30), Some(0), WHOLE),
    limit("source-server", "slow file server as source: sshfs, 5 ms", Throttle::SourceServer, Some(5), FEW),
    limit("target-server", "slow file server as target: sshfs, 5 ms", Throttle::TargetServer, Some(5), FEW),
];

const fn limit(
    key: &'static str,
    title: &'static str,
    throttle: Throttle,
    round_trip_ms: Option<u64>,
    works: &'static [Work],
) -> Limit {
    let round_trip = match round_trip_ms {
        Some(ms) => Duration::from_millis(ms),
        None => Duration::MAX,
    };
    Limit { key, title, throttle, round_trip, works }
}

impl Limit {
    /// Returns true if both ends are local directories for hakobu.
    pub fn is_local(&self) -> bool {
        self.round_trip == Duration::MAX
            || matches!(self.throttle, Throttle::SourceServer | Throttle::TargetServer)
    }

    /// Returns true if there is an emulated link.
    pub fn has_link(&self) -> bool {
        let is_linked = matches!(
            self.throttle,
            Throttle::Line(_) | Throttle::Window(_) | Throttle::SourceServer | Throttle::TargetServer
        );
        is_linked && self.round_trip != Duration::MAX
    }
}

impl Work {
    pub fn smaller(self, divisor: u64) -> Self {
        match self {
            Self::File { bytes } => Self::File { bytes: bytes / divisor },
            Self::Tree { files } => Self::Tree { files: files / divisor },
        }
    }

    pub fn source(self) -> Source {
        match self {
            Self::File { bytes } => Source::File { bytes },
            Self::Tree { files } => {
                Source::Tree { files, directories: (files / 100).max(1), file_bytes: 10 << 10 }
            }
        }
    }

    pub fn words(self) -> String {
        match self {
            Self::File { bytes } if bytes % GIB == 0 => format!("a file of {} GiB", bytes / GIB),
            Self::File { bytes } => format!("a file of {} MiB", bytes / MIB),
            Self::Tree { files } => format!("{files} files of 10 KiB"),
        }
    }
}
