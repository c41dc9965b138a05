//! Finds the bottleneck of a run from the lanes' times, the activity of the threads at the remote host, and the
//! kernel's figures on the connections between them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::file_server::{self, FileServer, FileServerSide, FileServerWork};
use crate::counters::{CounterTotals, LaneStage};

/// The scan is named as the bottleneck only above this share: a lane that lists while others transfer data rarely
/// matters to the user. Above it, a requested limit is named as well, whatever else is busy.
const DOMINATING_SHARE: f64 = 0.5;
/// Threads that run, or wait for a processor, for this share of their time are limited by the processor.
const PROCESSOR_SHARE: f64 = 0.7;
/// The lower threshold for the busier end when both ends together use most of the time.
const TURNS_SHARE: f64 = 0.5;
/// A remote host that works on the target for this share of its time is limited by that work.
const WORK_SHARE: f64 = 0.5;
/// A window or buffer is the bottleneck if it blocks a connection for this share of the time in which that has data to
/// send.
const WINDOW_SHARE: f64 = 0.5;
/// Connections that have data to send for less than this share of the time are not the bottleneck.
const BUSY_SHARE: f64 = 0.3;

/// The name of the network between the machines, as a bottleneck and among the resources.
pub const NETWORK: &str = "network";

/// The name of the requested limit on operations.
pub const OPERATION_LIMIT: &str = "operation limit";
/// The name of the requested limit on the source's latency.
pub const LATENCY_LIMIT: &str = "source latency limit";

/// The advice if a run that only compares is limited by reading at the target.
const TARGET_IS_READ: &str = "the target's disk or file server is fully used: check what else reads from it, or read from faster disks";

/// The bottleneck of a run, with the shares that led to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// The name of the bottleneck.
    pub stage: String,
    /// The share of time in which it was busy, 0 to 1.
    pub share: f64,
    /// Advice for the user.
    #[serde(default)]
    pub advice: String,
    /// The share of the lanes' time by stage, 0 to 1; only stages that took any.
    #[serde(default)]
    pub stages: BTreeMap<String, f64>,
    /// The utilisation of each resource that can limit, 0 to 1, as far as known. These do not sum up to 1.
    #[serde(default)]
    pub resources: BTreeMap<String, f64>,
    /// The file server, if its latency is the bottleneck.
    #[serde(default)]
    pub file_server: Option<FileServer>,
}

/// A possible bottleneck of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// A stage of the lanes.
    Stage(LaneStage),
    /// The requested limit on operations.
    Operations,
    /// The requested limit on the source's latency.
    SourceLatency,
    /// The processors of the source's machine, or of the only machine.
    SourceProcessor,
    /// The processors of the target's machine.
    TargetProcessor,
    /// Writing at the target.
    TargetWrite,
    /// The network: its bandwidth, or other traffic on it.
    Network,
    /// The network and whatever carries the data, if there are no figures from TCP.
    Between,
    /// The target's receive window, too small for the round-trip time.
    Window,
    /// The source's send buffer, too small for the round-trip time.
    Buffer,
    /// Waiting for each answer before the next request.
    RoundTrips,
    /// The latency of the file server that the source is on.
    SourceServer,
    /// The latency of the file server that the target is on.
    TargetServer,
}

impl Limit {
    /// All limits that are no stage.
    const BESIDE_STAGES: [Self; 12] = [
        Self::Operations,
        Self::SourceLatency,
        Self::SourceProcessor,
        Self::TargetProcessor,
        Self::TargetWrite,
        Self::Network,
        Self::Between,
        Self::Window,
        Self::Buffer,
        Self::RoundTrips,
        Self::SourceServer,
        Self::TargetServer,
    ];

    fn name(self, remote: bool) -> &'static str {
        match self {
            Self::Stage(stage) => name(stage, remote),
            Self::Operations => OPERATION_LIMIT,
            Self::SourceLatency => LATENCY_LIMIT,
            Self::SourceProcessor if !remote => "processor",
            Self::SourceProcessor => "source processor",
            Self::TargetProcessor => "target processor",
            Self::TargetWrite => "target write",
            Self::Network | Self::Between => NETWORK,
            Self::Window => "target's receive window",
            Self::Buffer => "source's send buffer",
            Self::RoundTrips => "round trips",
            Self::SourceServer => "latency of the source's file server",
            Self::TargetServer => "latency of the target's file server",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Stage(LaneStage::Scan) => {
                "listing and comparing takes most of the time: fewer entries or a faster file system at the source would help"
            }
            Self::Stage(LaneStage::Hash) => {
                "computing digests takes most of the time: a machine with more cores would help"
            }
            Self::Stage(LaneStage::Held) => "the limit was requested (--bwlimit)",
            Self::Operations => "the limit was requested (--iops-limit)",
            Self::SourceLatency => {
                "the limit was requested (--source-p99): with more reads at a time, those at the source took longer than that"
            }
            Self::Stage(LaneStage::Sync) => {
                "the target's disk takes most of the time to put data on stable storage; --durable none does not wait for it"
            }
            Self::Stage(LaneStage::Read) => {
                "the source's disk or file server is fully used: check what else reads from it, or read from faster disks"
            }
            Self::SourceProcessor => {
                "the processors are fully used: check what else runs (top), or give the machine more cores"
            }
            Self::TargetProcessor => {
                "the processors of the target's machine are fully used: check what else runs there (top), or give it more cores"
            }
            Self::TargetWrite => {
                "the target's disk or file server is fully used: check what else writes to it, or write to faster disks"
            }
            Self::Network => "the network is fully used: check for other traffic, or use a faster link",
            Self::Between => {
                "the path between the machines is fully used: if ssh carries the data, check whether ssh is busy (top), since \
                 hakobu's own data connections do without it; otherwise a faster link would help"
            }
            Self::Window => {
                "the target's receive window is too small for this round-trip time: raise net.ipv4.tcp_rmem there, or --lanes"
            }
            Self::Buffer => {
                "the source's send buffer is too small for this round-trip time: raise net.ipv4.tcp_wmem there, or --lanes"
            }
            Self::Stage(_) => "",
            Self::RoundTrips => {
                "the round-trip time is long, and too little was under way at a time to use the network; more --lanes may help"
            }
            Self::SourceServer | Self::TargetServer => {
                "each operation waits for answers of the file server: run hakobu on that server or close to it, or try more \
                 --lanes"
            }
        }
    }
}

/// The name of a bottleneck in a run that only compares.
const TARGET_READ: &str = "target read";

/// Returns the names that a bottleneck may have, some of them several times.
pub fn bottleneck_names() -> impl Iterator<Item = &'static str> {
    let limits = LaneStage::ALL.into_iter().map(Limit::Stage).chain(Limit::BESIDE_STAGES);
    limits.flat_map(|limit| [limit.name(false), limit.name(true)]).chain([TARGET_READ])
}

/// Shares of time, 0 to 1. Those of the remote host and the network path are optional.
struct TimeShares {
    /// Shares of the total time.
    stages: [f64; LaneStage::COUNT],
    /// Shares of the time with work: idle lanes say nothing about those that have work.
    working: [f64; LaneStage::COUNT],
    near_processor: f64,
    far: Option<RemoteShares>,
    way: Option<WayShares>,
}

struct RemoteShares {
    input: f64,
    work: f64,
    processor: f64,
}

struct WayShares {
    busy: f64,
    /// The part of the busy time in which neither window nor buffer was the limit.
    network: f64,
    window: f64,
    buffer: f64,
}

impl TimeShares {
    /// Returns `None` if nothing was measured.
    fn of(figures: &CounterTotals) -> Option<Self> {
        let total: f64 = figures.stage_ns.iter().map(|&ns| ns as f64).sum();
        if total <= 0.0 {
            return None;
        }
        let part = |part: u64, of: f64| if of > 0.0 { (part as f64 / of).min(1.0) } else { 0.0 };
        let working = total - figures.stage_ns[LaneStage::Idle as usize] as f64;
        let far_ns = figures.far_ns as f64;
        let busy_us = figures.way_busy_us as f64;
        Some(Self {
            stages: figures.stage_ns.map(|ns| part(ns, total)),
            working: figures.stage_ns.map(|ns| part(ns, working)),
            near_processor: part(figures.near_processor_ns.saturating_add(figures.near_queued_ns), working),
            far: (figures.far_ns > 0).then(|| RemoteShares {
                input: part(figures.far_input_ns, far_ns),
                work: part(figures.far_work_ns, far_ns),
                processor: part(figures.far_processor_ns.saturating_add(figures.far_queued_ns), far_ns),
            }),
            way: (figures.way_busy_us > 0).then(|| WayShares {
                busy: part(figures.way_busy_us.saturating_mul(1000), working),
                network: part(
                    figures
                        .way_busy_us
                        .saturating_sub(figures.way_window_us)
                        .saturating_sub(figures.way_buffer_us)
                        .saturating_mul(1000),
                    working,
                ),
                window: part(figures.way_window_us, busy_us),
                buffer: part(figures.way_buffer_us, busy_us),
            }),
        })
    }

    fn stage(&self, stage: LaneStage) -> f64 {
        self.working[stage as usize]
    }

    /// Returns the bottleneck and its share.
    fn judge(&self, remote: bool) -> (Limit, f64) {
        let has_work = self.stages.iter().sum::<f64>() > self.stages[LaneStage::Idle as usize];
        if !has_work {
            return (Limit::Stage(LaneStage::Idle), self.stages[LaneStage::Idle as usize]);
        }
        for stage in [LaneStage::Scan, LaneStage::Held] {
            if self.stage(stage) > DOMINATING_SHARE {
                return (Limit::Stage(stage), self.stage(stage));
            }
        }
        let far_processor = self.far.as_ref().map_or(0.0, |far| far.processor);
        if self.near_processor >= PROCESSOR_SHARE && self.near_processor >= far_processor {
            return (Limit::SourceProcessor, self.near_processor);
        }
        if far_processor >= PROCESSOR_SHARE {
            return (Limit::TargetProcessor, far_processor);
        }
        // Ends that take turns at being short of processor time keep each other waiting.
        let network = self.way.as_ref().map_or(0.0, |way| way.network);
        let most = self.near_processor.max(far_processor);
        if self.near_processor + far_processor >= 1.0 && most >= TURNS_SHARE && most > network {
            let near = self.near_processor >= far_processor;
            return (if near { Limit::SourceProcessor } else { Limit::TargetProcessor }, most);
        }
        let outward = self.stage(LaneStage::Send) + self.stage(LaneStage::Wait);
        let busiest = self.busiest(&[
            LaneStage::Read,
            LaneStage::Hash,
            LaneStage::Compress,
            LaneStage::Sync,
            LaneStage::Held,
        ]);
        match (&self.far, busiest) {
            // The compressed data may still be more than the network can carry.
            (Some(far), (LaneStage::Compress, share)) if remote && network >= share => {
                self.judge_beyond(far, outward)
            }
            (_, (LaneStage::Compress, share)) if share > outward => (Limit::SourceProcessor, share),
            (_, (stage, share)) if share > outward => (Limit::Stage(stage), share),
            (Some(far), _) if remote => self.judge_beyond(far, outward),
            _ => {
                let (stage, share) = self.busiest(&[LaneStage::Send, LaneStage::Wait, LaneStage::Scan]);
                (Limit::Stage(stage), share)
            }
        }
    }

    /// Returns the bottleneck when the lanes wait for the remote host.
    fn judge_beyond(&self, far: &RemoteShares, outward: f64) -> (Limit, f64) {
        if far.work >= WORK_SHARE && far.work >= far.input {
            return (Limit::TargetWrite, far.work);
        }
        match &self.way {
            Some(way) if way.busy < BUSY_SHARE => (Limit::RoundTrips, outward),
            Some(way) if way.window >= WINDOW_SHARE && way.window >= way.buffer => {
                (Limit::Window, way.window)
            }
            Some(way) if way.buffer >= WINDOW_SHARE => (Limit::Buffer, way.buffer),
            Some(way) => (Limit::Network, way.network),
            None => (Limit::Between, outward),
        }
    }

    /// Returns the stage that takes the most time.
    fn busiest(&self, stages: &[LaneStage]) -> (LaneStage, f64) {
        let shares = stages.iter().map(|stage| (*stage, self.stage(*stage)));
        shares.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or((LaneStage::Idle, 0.0))
    }

    fn resources(&self, remote: bool) -> BTreeMap<String, f64> {
        let near = (Limit::SourceProcessor.name(remote), self.near_processor);
        let far = self.far.iter().flat_map(|far| {
            [
                (Limit::TargetProcessor.name(remote), far.processor),
                (Limit::TargetWrite.name(remote), far.work),
            ]
        });
        let way = self.way.iter().flat_map(|way| {
            [
                (NETWORK, way.network),
                (Limit::Window.name(remote), way.window),
                (Limit::Buffer.name(remote), way.buffer),
            ]
        });
        std::iter::once(near)
            .chain(far)
            .chain(way)
            .map(|(name, share)| (name.to_owned(), rounded(share)))
            .collect()
    }
}

impl Bottleneck {
    /// Names what a run that only compares did at the target: it read there, and wrote nothing.
    pub fn name_comparison(&mut self) {
        if self.stage == Limit::TargetWrite.name(true) {
            TARGET_READ.clone_into(&mut self.stage);
            TARGET_IS_READ.clone_into(&mut self.advice);
        }
    }

    /// Derives the bottleneck from the times of a run or a part of it; `None` if there are none.
    pub fn of(figures: &CounterTotals) -> Option<Self> {
        let shares = TimeShares::of(figures)?;
        let (limit, share) = shares.judge(figures.remote);
        let (limit, share, file_server) = match limit {
            Limit::Stage(LaneStage::Held) => {
                let (limit, part) = asked_for(figures);
                (limit, share * part, None)
            }
            limit => {
                let (limit, file_server) = by_latency(limit, figures);
                (limit, share, file_server)
            }
        };
        Some(Self {
            stage: limit.name(figures.remote).to_owned(),
            share: rounded(share),
            advice: limit.advice().to_owned(),
            stages: self::shares(&figures.stage_ns, held_ns(figures), figures.remote),
            resources: shares.resources(figures.remote),
            file_server,
        })
    }

    /// Returns true if more lanes would only compete: for processors, or for a requested limit.
    pub(crate) fn binds_all(figures: &CounterTotals) -> bool {
        let limit = TimeShares::of(figures).map(|shares| shares.judge(figures.remote).0);
        matches!(limit, Some(Limit::SourceProcessor | Limit::TargetProcessor | Limit::Stage(LaneStage::Held)))
    }

    /// Returns text for people, such as `source read 61 %`.
    pub fn words(&self) -> String {
        format!("{} {:.0} %", self.stage, self.share * 100.0)
    }
}

/// Returns the requested limit that held the run back most, and its part of all held time.
fn asked_for(figures: &CounterTotals) -> (Limit, f64) {
    let held = by_limit(figures.stage_ns[LaneStage::Held as usize], held_ns(figures));
    let [rate, operations, latency] = held;
    let (limit, most) = match () {
        () if operations > rate && operations >= latency => (Limit::Operations, operations),
        () if latency > rate => (Limit::SourceLatency, latency),
        () => (Limit::Stage(LaneStage::Held), rate),
    };
    (limit, most as f64 / held.iter().map(|&ns| ns as f64).sum::<f64>().max(1.0))
}

/// Returns how long lanes were held back by the operation limit and by the source latency limit.
pub(super) fn held_ns(figures: &CounterTotals) -> [u64; 2] {
    [figures.held_by_operations_ns, figures.held_by_latency_ns]
}

/// Splits the held time into the parts of rate, operations and latency. Figures from another machine may be
/// inconsistent.
fn by_limit(held_ns: u64, [operations_ns, latency_ns]: [u64; 2]) -> [u64; 3] {
    let operations_ns = operations_ns.min(held_ns);
    let latency_ns = latency_ns.min(held_ns - operations_ns);
    [held_ns - operations_ns - latency_ns, operations_ns, latency_ns]
}

/// Replaces a bottleneck by the latency of a file server if that is the cause.
fn by_latency(limit: Limit, figures: &CounterTotals) -> (Limit, Option<FileServer>) {
    let work = match limit {
        Limit::Stage(LaneStage::Scan) => FileServerWork::List,
        Limit::Stage(LaneStage::Read) => FileServerWork::Read,
        Limit::Stage(LaneStage::Send) if !figures.remote => FileServerWork::Write,
        Limit::TargetWrite => FileServerWork::Write,
        _ => return (limit, None),
    };
    match file_server::waited_for(figures, work) {
        Some((FileServerSide::Source, server)) => (Limit::SourceServer, Some(server)),
        Some((FileServerSide::Target, server)) => (Limit::TargetServer, Some(server)),
        None => (limit, None),
    }
}

/// Returns the share of each stage that took any time; held time is split by limit.
pub(super) fn shares(
    stage_ns: &[u64; LaneStage::COUNT],
    held_ns: [u64; 2],
    remote: bool,
) -> BTreeMap<String, f64> {
    let total: f64 = stage_ns.iter().map(|&ns| ns as f64).sum();
    let stages = LaneStage::ALL.into_iter().filter(|stage| *stage != LaneStage::Held);
    let stages = stages.map(|stage| (name(stage, remote), stage_ns[stage as usize]));
    let limits = [LaneStage::Held.name(), OPERATION_LIMIT, LATENCY_LIMIT];
    let limits = limits.into_iter().zip(by_limit(stage_ns[LaneStage::Held as usize], held_ns));
    let taken = stages.chain(limits).filter(|(_, ns)| *ns > 0);
    taken.map(|(name, ns)| (name.to_owned(), rounded(ns as f64 / total))).collect()
}

/// Returns the name of a stage. On one machine, what is sent is written at once.
fn name(stage: LaneStage, remote: bool) -> &'static str {
    match stage {
        LaneStage::Send if !remote => "target write",
        stage => stage.name(),
    }
}

/// Rounds to three decimals: no timing is more exact than that.
fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}
