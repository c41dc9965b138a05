//! Detects that the latency of a file server limits a run, as opposed to the throughput of the server, of its disk or
//! of the link to it.

use serde::{Deserialize, Serialize};

use crate::counters::{CounterTotals, LaneStage};

/// The maximum ratio of operation times to answer times at which latency counts as the cause. An operation consists of
/// several requests to the server, one after another. If it takes longer than this many times the answers, requests are
/// queued as well: the server, its disk or the link to it is saturated.
const ANSWERS_MAX: u64 = 2;
/// The minimum answer time. A server that answers faster is on this machine, or as close as that.
const ANSWER_NS_LEAST: u64 = 100_000;

/// A file server whose latency is the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileServer {
    /// The average duration of one operation in milliseconds: a small file, a piece of a large one, or an entry of a
    /// listing.
    pub operation_ms: f64,
    /// The time for one answer in milliseconds, measured before the run.
    pub answer_ms: f64,
}

/// The end of a run at which a file server may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileServerSide {
    Source,
    Target,
}

/// The kind of work that may be waiting for a file server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileServerWork {
    List,
    Read,
    Write,
}

/// Returns the server whose answers this work waits for, or `None` if latency is not the cause.
pub(super) fn waited_for(
    figures: &CounterTotals,
    work: FileServerWork,
) -> Option<(FileServerSide, FileServer)> {
    let stage = |stage: LaneStage| figures.stage_ns[stage as usize];
    let source = figures.source_answer_ns.map(|answer_ns| (FileServerSide::Source, answer_ns));
    let target = figures.target_answer_ns.map(|answer_ns| (FileServerSide::Target, answer_ns));
    let (server, took_ns, operations, requests) = match work {
        // If both ends are listed on file servers, the slower one takes most of the time.
        FileServerWork::List => {
            let near = target.filter(|_| !figures.remote);
            let slower = source.into_iter().chain(near).max_by_key(|(_, answer_ns)| *answer_ns);
            (slower, stage(LaneStage::Scan), figures.entries_scanned, figures.entries_scanned)
        }
        FileServerWork::Read => {
            (source, stage(LaneStage::Read), figures.source_reads, figures.source_requests)
        }
        FileServerWork::Write => {
            let took_ns = if figures.remote { figures.far_work_ns } else { stage(LaneStage::Send) };
            (target, took_ns, figures.target_operations, figures.target_requests)
        }
    };
    let ((end, answer_ns), each_ns) = server.zip(took_ns.checked_div(operations))?;
    let waited_ns = answer_ns.saturating_mul(requests).saturating_mul(ANSWERS_MAX);
    let waits = answer_ns >= ANSWER_NS_LEAST && took_ns <= waited_ns;
    waits.then(|| {
        (end, FileServer { operation_ms: milliseconds(each_ns), answer_ms: milliseconds(answer_ns) })
    })
}

/// Converts to milliseconds, rounded to two decimals.
fn milliseconds(ns: u64) -> f64 {
    (ns as f64 / 1e4).round() / 100.0
}
