//! Whether the latency of a file server limits a run, told from a server, a line to it or a disk that carries no more.

use serde::{Deserialize, Serialize};

use crate::counters::{Snapshot, Stage};

/// An operation is several requests to the server, one after another. What takes no longer than this many times the
/// answers to them is made of waiting for them. What takes longer waits for its turn as well: the server, its disk or
/// the line to it is at its rate.
const ANSWERS_MAX: u64 = 2;
/// What answers sooner is on this machine, or as good as that.
const ANSWER_NS_LEAST: u64 = 100_000;

/// A file server whose latency limits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileServer {
    /// Milliseconds for one operation: a small file, a piece of a large one, an entry of a listing.
    pub operation_ms: f64,
    /// Milliseconds for one answer, before the run.
    pub answer_ms: f64,
}

/// The end of a run that a file server may be at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Target,
}

/// What may be waiting for a file server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    List,
    Read,
    Write,
}

/// The server whose answers some work waits for, if it is that.
pub(super) fn waited_for(figures: &Snapshot, work: Work) -> Option<(End, FileServer)> {
    let stage = |stage: Stage| figures.stage_ns[stage as usize];
    let source = figures.source_answer_ns.map(|answer_ns| (End::Source, answer_ns));
    let target = figures.target_answer_ns.map(|answer_ns| (End::Target, answer_ns));
    let (server, took_ns, operations, requests) = match work {
        // Where both ends are listed on file servers, most of the time is the slower one's.
        Work::List => {
            let near = target.filter(|_| !figures.remote);
            let slower = source.into_iter().chain(near).max_by_key(|(_, answer_ns)| *answer_ns);
            (slower, stage(Stage::Scan), figures.entries_scanned, figures.entries_scanned)
        }
        Work::Read => (source, stage(Stage::Read), figures.source_reads, figures.source_requests),
        Work::Write => {
            let took_ns = if figures.remote { figures.far_work_ns } else { stage(Stage::Send) };
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

/// Two digits behind the point: nobody needs more.
fn milliseconds(ns: u64) -> f64 {
    (ns as f64 / 1e4).round() / 100.0
}
