//! What limits a run: where the lanes spend their time, what the threads at the other end do meanwhile, and what the kernel
//! says of the connections between.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::file_server::{self, End, FileServer, Work};
use crate::counters::{Snapshot, Stage};

/// The scan is named as the limit only above this share: a lane that lists while others move data is seldom what the user
/// should look at. Above it, a limit that was asked for is what counts, whatever else is busy.
const DOMINATING_SHARE: f64 = 0.5;
/// Threads that work, or wait for a processor to work on, for this share of their time are held up by that.
const PROCESSOR_SHARE: f64 = 0.7;
/// The same of the one that is shorter of them, where both ends are most of the time.
const TURNS_SHARE: f64 = 0.5;
/// A far side that works on the target for this share of its time is held up by that.
const WORK_SHARE: f64 = 0.5;
/// A window or buffer that holds a connection back for this share of the time in which it has something to send.
const WINDOW_SHARE: f64 = 0.5;
/// Connections that have something to send for less than this share of the time are not what holds anything up.
const BUSY_SHARE: f64 = 0.3;

/// The name of the line between the machines, as a limit and among the resources.
pub const NETWORK: &str = "network";

/// The name of a limit of operations that was asked for.
pub const OPERATION_LIMIT: &str = "operation limit";
/// The name of a limit of the source's latency that was asked for.
pub const LATENCY_LIMIT: &str = "source latency limit";

/// Where the lanes' time went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// The name of what limits.
    pub stage: String,
    /// How busy it was, 0 to 1.
    pub share: f64,
    /// What would help.
    #[serde(default)]
    pub advice: String,
    /// The share of each stage of the lanes that took any time.
    #[serde(default)]
    pub stages: BTreeMap<String, f64>,
    /// How busy each thing was that can limit, as far as is known. These do not sum up to 1.
    #[serde(default)]
    pub resources: BTreeMap<String, f64>,
    /// The file server, if its latency is what limits.
    #[serde(default)]
    pub file_server: Option<FileServer>,
}

/// What can limit a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// A stage of the lanes, as it is.
    Stage(Stage),
    /// The limit of operations that was asked for.
    Operations,
    /// The limit of the source's latency that was asked for.
    SourceLatency,
    /// The processors of the machine with the source, or of the only one.
    SourceProcessor,
    /// The same of the machine with the target.
    TargetProcessor,
    /// Writing at the target.
    TargetWrite,
    /// The line: its rate, or others on it.
    Network,
    /// The same where TCP's figures are not known: what carries the data, and the line.
    Between,
    /// The target's receive window against the round trip.
    Window,
    /// The source's send buffer against the round trip.
    Buffer,
    /// One answer is waited for before the next question.
    RoundTrips,
    /// The same of the file server that the source is on.
    SourceServer,
    /// And of that of the target.
    TargetServer,
}

impl Limit {
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
            Self::Stage(Stage::Scan) => {
                "the scan is what takes time: fewer entries, or a faster file system at the source"
            }
            Self::Stage(Stage::Hash) => {
                "the digest is what takes time; a machine with more cores has more of it"
            }
            Self::Stage(Stage::Held) => "it was limited as asked (--bwlimit)",
            Self::Operations => "it was limited as asked (--iops-limit)",
            Self::SourceLatency => {
                "it was limited as asked (--source-p99): reads at the source took longer than that where more was read"
            }
            Self::Stage(Stage::Sync) => {
                "the target's disk takes its time to make things durable; --durable none leaves that to its system"
            }
            Self::Stage(Stage::Read) => {
                "the source's disk or file server gives no more: see what else reads from it, or let it read from faster \
                 disks"
            }
            Self::SourceProcessor => {
                "the processors there have no time left: see what else runs (top), or give it more cores"
            }
            Self::TargetProcessor => {
                "the processors of the target's machine have no time left: see what else runs there (top), or give it more \
                 cores"
            }
            Self::TargetWrite => {
                "the target's disk or file server takes no more: see what else writes to it, or write to faster disks"
            }
            Self::Network => "the line carries no more, or others use it; a faster one would help",
            Self::Between => {
                "what lies between takes no more: where ssh carries the data see if that is busy (top), as connections of \
                 hakobu's own spare its work; else a faster line would help"
            }
            Self::Window => {
                "the target's system grants too small a window for this round trip: raise net.ipv4.tcp_rmem there, or \
                 --lanes"
            }
            Self::Buffer => {
                "the source's system holds too little for this round trip: raise net.ipv4.tcp_wmem there, or --lanes"
            }
            Self::Stage(_) => "",
            Self::RoundTrips => {
                "the way is long, and there was too little to do at a time to fill it; --lanes may help"
            }
            Self::SourceServer | Self::TargetServer => {
                "each operation waits for answers of the file server: let hakobu run on that server or next to it, or \
                 try more --lanes"
            }
        }
    }
}

/// Shares of time, 0 to 1. Of the far end and of the way there may be none.
struct Shares {
    /// Of all time.
    stages: [f64; Stage::COUNT],
    /// Of the time with something to do: lanes without work say nothing about those that have some.
    working: [f64; Stage::COUNT],
    near_processor: f64,
    far: Option<FarShares>,
    way: Option<WayShares>,
}

struct FarShares {
    input: f64,
    work: f64,
    processor: f64,
}

struct WayShares {
    busy: f64,
    /// The part of it in which neither window nor buffer held it back.
    network: f64,
    window: f64,
    buffer: f64,
}

impl Shares {
    /// None where nothing was measured.
    fn of(figures: &Snapshot) -> Option<Self> {
        let total: f64 = figures.stage_ns.iter().map(|&ns| ns as f64).sum();
        if total <= 0.0 {
            return None;
        }
        let part = |part: u64, of: f64| if of > 0.0 { (part as f64 / of).min(1.0) } else { 0.0 };
        let working = total - figures.stage_ns[Stage::Idle as usize] as f64;
        let far_ns = figures.far_ns as f64;
        let busy_us = figures.way_busy_us as f64;
        Some(Self {
            stages: figures.stage_ns.map(|ns| part(ns, total)),
            working: figures.stage_ns.map(|ns| part(ns, working)),
            near_processor: part(figures.near_processor_ns.saturating_add(figures.near_queued_ns), working),
            far: (figures.far_ns > 0).then(|| FarShares {
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

    fn stage(&self, stage: Stage) -> f64 {
        self.working[stage as usize]
    }

    /// What limits, and how busy it was.
    fn judge(&self, remote: bool) -> (Limit, f64) {
        let has_work = self.stages.iter().sum::<f64>() > self.stages[Stage::Idle as usize];
        if !has_work {
            return (Limit::Stage(Stage::Idle), self.stages[Stage::Idle as usize]);
        }
        for stage in [Stage::Scan, Stage::Held] {
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
        // Ends that take turns at being short of processors keep each other waiting.
        let network = self.way.as_ref().map_or(0.0, |way| way.network);
        let most = self.near_processor.max(far_processor);
        if self.near_processor + far_processor >= 1.0 && most >= TURNS_SHARE && most > network {
            let near = self.near_processor >= far_processor;
            return (if near { Limit::SourceProcessor } else { Limit::TargetProcessor }, most);
        }
        let outward = self.stage(Stage::Send) + self.stage(Stage::Wait);
        let busiest = self.busiest(&[Stage::Read, Stage::Hash, Stage::Compress, Stage::Sync, Stage::Held]);
        match (&self.far, busiest) {
            // What has gone through the compressor may still be more than the line takes.
            (Some(far), (Stage::Compress, share)) if remote && network >= share => {
                self.judge_beyond(far, outward)
            }
            (_, (Stage::Compress, share)) if share > outward => (Limit::SourceProcessor, share),
            (_, (stage, share)) if share > outward => (Limit::Stage(stage), share),
            (Some(far), _) if remote => self.judge_beyond(far, outward),
            _ => {
                let (stage, share) = self.busiest(&[Stage::Send, Stage::Wait, Stage::Scan]);
                (Limit::Stage(stage), share)
            }
        }
    }

    /// What limits where the lanes wait for the other end.
    fn judge_beyond(&self, far: &FarShares, outward: f64) -> (Limit, f64) {
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

    /// Which of these stages takes most of the time.
    fn busiest(&self, stages: &[Stage]) -> (Stage, f64) {
        let shares = stages.iter().map(|stage| (*stage, self.stage(*stage)));
        shares.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or((Stage::Idle, 0.0))
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
    /// Reads the limit off the times of a run or of a part of it; `None` if there are none.
    pub fn of(figures: &Snapshot) -> Option<Self> {
        let shares = Shares::of(figures)?;
        let (limit, share) = shares.judge(figures.remote);
        let (limit, share, file_server) = match limit {
            Limit::Stage(Stage::Held) => {
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

    /// Whether more lanes would only wait for each other: for processors, or for a limit that was asked for.
    pub(crate) fn binds_all(figures: &Snapshot) -> bool {
        let limit = Shares::of(figures).map(|shares| shares.judge(figures.remote).0);
        matches!(limit, Some(Limit::SourceProcessor | Limit::TargetProcessor | Limit::Stage(Stage::Held)))
    }

    /// `source read 61 %`, for people.
    pub fn words(&self) -> String {
        format!("{} {:.0} %", self.stage, self.share * 100.0)
    }
}

/// By which of the limits that were asked for a run was held back most, and its part of all the time of that.
fn asked_for(figures: &Snapshot) -> (Limit, f64) {
    let held = by_limit(figures.stage_ns[Stage::Held as usize], held_ns(figures));
    let [rate, operations, latency] = held;
    let (limit, most) = match () {
        () if operations > rate && operations >= latency => (Limit::Operations, operations),
        () if latency > rate => (Limit::SourceLatency, latency),
        () => (Limit::Stage(Stage::Held), rate),
    };
    (limit, most as f64 / held.iter().map(|&ns| ns as f64).sum::<f64>().max(1.0))
}

/// For how long lanes were held back by the limit of operations, and by that of the source's latency.
pub(super) fn held_ns(figures: &Snapshot) -> [u64; 2] {
    [figures.held_by_operations_ns, figures.held_by_latency_ns]
}

/// The time in which lanes were held back, by the rate, by operations and by latency. Figures of another machine may not
/// fit each other.
fn by_limit(held_ns: u64, [operations_ns, latency_ns]: [u64; 2]) -> [u64; 3] {
    let operations_ns = operations_ns.min(held_ns);
    let latency_ns = latency_ns.min(held_ns - operations_ns);
    [held_ns - operations_ns - latency_ns, operations_ns, latency_ns]
}

/// The latency of a file server in the place of what waits for it, if that is what takes the time.
fn by_latency(limit: Limit, figures: &Snapshot) -> (Limit, Option<FileServer>) {
    let work = match limit {
        Limit::Stage(Stage::Scan) => Work::List,
        Limit::Stage(Stage::Read) => Work::Read,
        Limit::Stage(Stage::Send) if !figures.remote => Work::Write,
        Limit::TargetWrite => Work::Write,
        _ => return (limit, None),
    };
    match file_server::waited_for(figures, work) {
        Some((End::Source, server)) => (Limit::SourceServer, Some(server)),
        Some((End::Target, server)) => (Limit::TargetServer, Some(server)),
        None => (limit, None),
    }
}

/// The share of each stage that took any time; where lanes were held back, of each limit.
pub(super) fn shares(
    stage_ns: &[u64; Stage::COUNT],
    held_ns: [u64; 2],
    remote: bool,
) -> BTreeMap<String, f64> {
    let total: f64 = stage_ns.iter().map(|&ns| ns as f64).sum();
    let stages = Stage::ALL.into_iter().filter(|stage| *stage != Stage::Held);
    let stages = stages.map(|stage| (name(stage, remote), stage_ns[stage as usize]));
    let limits = [Stage::Held.name(), OPERATION_LIMIT, LATENCY_LIMIT];
    let limits = limits.into_iter().zip(by_limit(stage_ns[Stage::Held as usize], held_ns));
    let taken = stages.chain(limits).filter(|(_, ns)| *ns > 0);
    taken.map(|(name, ns)| (name.to_owned(), rounded(ns as f64 / total))).collect()
}

/// Without a way between the ends, what is sent is written at once.
fn name(stage: Stage, remote: bool) -> &'static str {
    match stage {
        Stage::Send if !remote => "target write",
        stage => stage.name(),
    }
}

/// Three digits behind the point: no timing is better than that.
fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}
