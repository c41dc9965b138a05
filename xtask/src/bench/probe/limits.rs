//! What limits a copy, one thing at a time, and what is copied under it.

use std::time::Duration;

use crate::bench::sources::{GIB, MIB, Source};

/// What is done to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    /// Nothing: processors are what limits, as all is in memory.
    None,
    /// The near process gets so many hundredths of a processor.
    SourceProcessor(u32),
    /// The far one does.
    TargetProcessor(u32),
    /// The source is on a disk that is read with so many bytes a second at most.
    SourceDisk(u64),
    /// The target is on one that is written so.
    TargetDisk(u64),
    /// A line of so many bits a second.
    Line(u64),
    /// Connections have so much under way at most; the line has no rate.
    Window(u64),
    /// The source is on a file server, mounted with sshfs.
    SourceServer,
    /// The target is.
    TargetServer,
}

/// A limit, and what is copied under it.
#[derive(Debug)]
pub struct Limit {
    pub key: &'static str,
    pub title: &'static str,
    pub throttle: Throttle,
    /// Of the line between the ends, or to the file server.
    pub round_trip: Duration,
    pub works: &'static [Work],
}

/// What is copied.
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
/// Over a file server each file costs several round trips, one after the other.
const FEW: &[Work] = &[Work::File { bytes: 2 * GIB }, Work::Tree { files: 5_000 }];

/// All that are measured.
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
    /// Whether both ends are directories of this machine for the program.
    pub fn is_local(&self) -> bool {
        self.round_trip == Duration::MAX
            || matches!(self.throttle, Throttle::SourceServer | Throttle::TargetServer)
    }

    /// Whether there is an emulated link.
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
