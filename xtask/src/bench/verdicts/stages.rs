//! The resources that are slowed down, one at a time, and the verdict that is right for each.

use crate::bench::slow_hosts::{SlowNetwork, SlowPart};
use crate::bench::sources::BenchSource;

/// Returns the words of the table for a source.
pub fn words(source: BenchSource) -> String {
    match source {
        BenchSource::Tree { files, file_bytes, .. } => format!("{files} × {} kB", file_bytes / 1000),
        source => format!("{} MB", source.bytes() / 1_000_000),
    }
}

/// One row.
#[derive(Debug)]
pub struct SlowStage {
    pub key: &'static str,
    /// The slow resource, in the words of the table.
    pub title: &'static str,
    /// A description of how it is slowed down.
    pub how: &'static str,
    pub slow: SlowPart,
    pub network: SlowNetwork,
    /// The right verdict, in hakobu's words.
    pub verdict: &'static str,
    pub file: BenchSource,
    pub tree: BenchSource,
}

/// The rate of a slow disk in bytes per second.
const DISK_BYTES_PER_SECOND: u64 = 40_000_000;
/// The share of one processor that a slow host has, in percent.
const PROCESSOR_PERCENT: u32 = 20;

const fn file(bytes: u64) -> BenchSource {
    BenchSource::File { bytes }
}

const fn tree(files: u64, file_bytes: u64) -> BenchSource {
    BenchSource::Tree { files, directories: files / 50, file_bytes }
}

pub const STAGES: [SlowStage; 9] = [
    SlowStage {
        key: "source-read",
        title: "source read",
        how: "ext4 on a loop device with 40 MB/s for reading (block layer's throttle of a control group), not in the page \
              cache",
        slow: SlowPart::SourceDisk(DISK_BYTES_PER_SECOND),
        network: SlowNetwork::Loopback,
        verdict: "source read",
        file: file(200_000_000),
        tree: tree(4_000, 50_000),
    },
    SlowStage {
        key: "source-processor",
        title: "source CPU",
        how: "a control group with a fifth of a processor",
        slow: SlowPart::SourceProcessor(PROCESSOR_PERCENT),
        network: SlowNetwork::Loopback,
        verdict: "source processor",
        file: file(1_500_000_000),
        tree: tree(60_000, 4_096),
    },
    SlowStage {
        key: "network",
        title: "network rate",
        how: "a link of 200 Mbit/s with a round trip of 5 ms",
        slow: SlowPart::Network,
        network: SlowNetwork::Rate(200_000_000, 5),
        verdict: "network",
        file: file(100_000_000),
        tree: tree(2_000, 50_000),
    },
    SlowStage {
        key: "window",
        title: "RTT with a small window",
        how: "a link of 1 Gbit/s with a round trip of 40 ms, `tcp_rmem` at the target 256 KiB at most",
        slow: SlowPart::Network,
        network: SlowNetwork::TargetWindow(1_000_000_000, 40, 256 << 10),
        verdict: "target's receive window",
        file: file(100_000_000),
        tree: tree(2_000, 50_000),
    },
    SlowStage {
        key: "target-write",
        title: "target write",
        how: "ext4 on a loop device with 40 MB/s for writing; 1 % of what the page cache may hold unwritten is for it",
        slow: SlowPart::TargetDisk(DISK_BYTES_PER_SECOND),
        network: SlowNetwork::Loopback,
        verdict: "target write",
        file: file(250_000_000),
        tree: tree(5_000, 50_000),
    },
    SlowStage {
        key: "target-processor",
        title: "target CPU",
        how: "a control group with a fifth of a processor, for sshd and all that it starts",
        slow: SlowPart::TargetProcessor(PROCESSOR_PERCENT),
        network: SlowNetwork::Loopback,
        verdict: "target processor",
        file: file(1_500_000_000),
        tree: tree(60_000, 4_096),
    },
    SlowStage {
        key: "source-server",
        title: "file-server latency, at the source",
        how: "sshfs over a link of 1 Gbit/s with a round trip of 20 ms; the target is here",
        slow: SlowPart::SourceServer,
        network: SlowNetwork::Rate(1_000_000_000, 20),
        verdict: "latency of the source's file server",
        file: file(300_000_000),
        tree: tree(1_000, 4_096),
    },
    SlowStage {
        key: "target-server",
        title: "file-server latency, at the target",
        how: "sshfs over a link of 1 Gbit/s with a round trip of 20 ms; the source is here",
        slow: SlowPart::TargetServer,
        network: SlowNetwork::Rate(1_000_000_000, 20),
        verdict: "latency of the target's file server",
        file: file(300_000_000),
        tree: tree(300, 4_096),
    },
    SlowStage {
        key: "server-rate",
        title: "a file server's rate, not its latency",
        how: "sshfs over a link of 50 Mbit/s with a round trip of 1 ms; the target is here",
        slow: SlowPart::SourceServer,
        network: SlowNetwork::Rate(50_000_000, 1),
        verdict: "source read",
        file: file(30_000_000),
        tree: tree(600, 50_000),
    },
];
