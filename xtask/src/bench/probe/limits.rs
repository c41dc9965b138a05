//! The limits under which copies are predicted and measured, one at a time, and the data that is copied.

use crate::bench::slow_hosts::{SlowNetwork, SlowPart};
use crate::bench::sources::{BenchSource, GIB, MIB};

/// A limit and the data that is copied under it.
#[derive(Debug)]
pub struct ProbeLimit {
    pub key: &'static str,
    pub title: &'static str,
    pub slow: SlowPart,
    pub network: SlowNetwork,
    pub sources: &'static [BenchSource],
}

const FILE: BenchSource = BenchSource::File { bytes: 2 * GIB };
const WHOLE: &[BenchSource] = &[FILE, tree(100_000)];
/// Less data over a file server, where each file costs several round trips, one after the other.
const FEW: &[BenchSource] = &[FILE, tree(5_000)];

const fn tree(files: u64) -> BenchSource {
    BenchSource::Tree { files, directories: files / 100, file_bytes: 10 << 10 }
}

/// All limits.
pub const LIMITS: &[ProbeLimit] = &[
    ProbeLimit {
        key: "local",
        title: "nothing but processors: memory to memory on one machine",
        slow: SlowPart::Network,
        network: SlowNetwork::Local,
        sources: WHOLE,
    },
    here("loopback", "nothing but processors: both ends on two cores", SlowPart::Network),
    here("source-disk", "source disk: 80 MB/s", SlowPart::SourceDisk(80_000_000)),
    here("source-processor", "source processor: 0.3 of one", SlowPart::SourceProcessor(30)),
    line("line", "network rate: 400 Mbit/s", SlowNetwork::Rate(400_000_000, 0)),
    line("long-line", "network rate: 400 Mbit/s, 40 ms", SlowNetwork::Rate(400_000_000, 40)),
    line("window", "round trip: 100 ms with windows of 1 MiB", SlowNetwork::Windows(100, MIB)),
    here("target-disk", "target disk: 60 MB/s", SlowPart::TargetDisk(60_000_000)),
    here("target-processor", "target processor: 0.3 of one", SlowPart::TargetProcessor(30)),
    server("source-server", "slow file server as source: sshfs, 5 ms", SlowPart::SourceServer),
    server("target-server", "slow file server as target: sshfs, 5 ms", SlowPart::TargetServer),
];

const fn here(key: &'static str, title: &'static str, slow: SlowPart) -> ProbeLimit {
    ProbeLimit { key, title, slow, network: SlowNetwork::Loopback, sources: WHOLE }
}

const fn line(key: &'static str, title: &'static str, network: SlowNetwork) -> ProbeLimit {
    ProbeLimit { key, title, slow: SlowPart::Network, network, sources: WHOLE }
}

const fn server(key: &'static str, title: &'static str, slow: SlowPart) -> ProbeLimit {
    ProbeLimit { key, title, slow, network: SlowNetwork::Rate(1_000_000_000, 5), sources: FEW }
}

/// Returns the words of the table for a source.
pub fn words(source: BenchSource) -> String {
    match source {
        BenchSource::Tree { files, .. } => format!("{files} files of 10 KiB"),
        source if source.bytes() % GIB == 0 => format!("a file of {} GiB", source.bytes() / GIB),
        source => format!("a file of {} MiB", source.bytes() / MIB),
    }
}
