//! Runs a copy.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hakobu_agent::controller::controller;
use hakobu_core::digest::{Digest, hex};
use hakobu_core::engine::RunSummary;
use hakobu_core::error::ErrorKind;
use hakobu_core::event::{Event, Observer};
use hakobu_core::job::Mode;
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::losses::{Loss, LossKind};
use hakobu_core::outcome::{Pass, RunEnvironment, Transfer};
use hakobu_core::report::ReportRequests;
use hakobu_core::report::{
    Bottleneck, Report, ReportDeletion, ReportDifference, ReportDisk, ReportEnd, ReportLimits, ReportLoss,
    ReportPair, ReportPass, Timeline, TimelineRecorder, Verified,
};
use hakobu_core::request::{CopyRequest, Verify};

use crate::prompts::Terminal;

/// Copies as requested. The report is filled but for what only the program knows: version,
/// command, user, the times, and what was typed.
pub fn copy(request: &CopyRequest, surroundings: &mut RunEnvironment<'_>) -> Report {
    if request.limits.is_some() {
        let words = request.limits.words();
        surroundings.observer.event(Event::Notice { words });
    }
    let observed = OverTime::new(surroundings.observer);
    let RunEnvironment { prompts, cancel, limits, .. } = surroundings;
    let (prompts, cancel, limits) = (&mut **prompts, cancel.clone(), limits.clone());
    let mut surroundings = RunEnvironment { prompts, observer: &observed, cancel, limits };
    let transfer = hakobu_transfer::copy::copy(request, &mut surroundings);
    let limits = held_to(request, &surroundings.limits);
    let timeline = observed.finish(&transfer);
    Report { timeline, limits, ..report(transfer, request) }
}

/// Returns the limits of the run from its start on.
fn held_to(request: &CopyRequest, live: &LiveLimits) -> Vec<ReportLimits> {
    let first = request.limits.is_some().then(|| ReportLimits::since(Duration::ZERO, &request.limits));
    let set = live.set_since();
    first.into_iter().chain(set.iter().map(|(since, limits)| ReportLimits::since(*since, limits))).collect()
}

/// As [`copy`], and the digest by whatever algorithm was asked for.
pub fn digest(
    request: &CopyRequest,
    observer: &dyn Observer,
    mut prompts: Terminal,
) -> (Report, Option<Digest>) {
    let cancel = prompts.cancel().clone();
    let limits = Arc::new(LiveLimits::new(request.limits.clone(), Instant::now));
    let mut surroundings = RunEnvironment { prompts: &mut prompts, observer, cancel, limits };
    let mut transfer = hakobu_transfer::copy::copy(request, &mut surroundings);
    let digest = transfer.summary.digest.take();
    (report(transfer, request), digest)
}

/// Records the progress of a run over time. If the engine is on another host, its figures arrive here as well.
struct OverTime<'a> {
    observer: &'a dyn Observer,
    began: Instant,
    recorder: Mutex<TimelineRecorder>,
}

impl<'a> OverTime<'a> {
    fn new(observer: &'a dyn Observer) -> Self {
        Self { observer, began: Instant::now(), recorder: Mutex::default() }
    }

    fn finish(self, transfer: &Transfer) -> Option<Timeline> {
        let figures = &transfer.summary.counters;
        let of_passes =
            transfer.passes.iter().fold(0, |sum: u64, pass| sum.saturating_add(pass.written_bytes));
        let written_bytes = figures.target_written_bytes.max(of_passes);
        let recorder = self.recorder.into_inner().unwrap_or_else(PoisonError::into_inner);
        recorder.finish(self.began.elapsed(), written_bytes, figures)
    }
}

impl Observer for OverTime<'_> {
    fn event(&self, event: Event) {
        if let Event::Progress(figures) = &event {
            let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
            recorder.record(self.began.elapsed(), figures);
        }
        self.observer.event(event);
    }
}

fn report(transfer: Transfer, request: &CopyRequest) -> Report {
    let summary = transfer.summary;
    let mut report = Report {
        job: transfer.job,
        transport: transfer.transport,
        cipher: transfer.cipher.map(str::to_owned),
        lanes_max: summary.lanes,
        compression_levels: summary.levels.iter().collect(),
        ..Report::default()
    };
    let (source_disks, target_disk) = transfer.disks;
    let disks = source_disks.into_iter().chain(std::iter::repeat(None));
    let mut sources = transfer.sources.iter().zip(disks).map(|(place, disk)| resolved(place, disk));
    report.source = sources.next().unwrap_or_default();
    report.further_sources = sources.collect();
    report.target = transfer.target.map(|place| resolved(&place, target_disk)).unwrap_or_default();
    report.machines = transfer.machines;
    report.machines.controller.get_or_insert_with(|| controller(None));
    report.set_figures(&summary.counters);
    report.requests = ReportRequests::new(&summary.requests, &summary.planned_requests);
    report.bytes.wire_sent = transfer.wire_bytes.map(|(sent, _)| sent);
    report.bytes.wire_received = transfer.wire_bytes.map(|(_, received)| received);
    report.outages.count = transfer.outages.count;
    report.outages.seconds = transfer.outages.time.as_secs_f64();
    report.seconds.connect = transfer.connect.as_secs_f64();
    report.seconds.scan = Duration::from_nanos(summary.scan_ns).as_secs_f64();
    report.seconds.transfer = Duration::from_nanos(summary.transfer_ns).as_secs_f64();
    report.seconds.held_still = transfer.held_still.map(|time| time.as_secs_f64());
    // Shared blocks were not read, so nothing was checked.
    let all_cloned = summary.counters.cloned_bytes > 0 && summary.counters.source_read_bytes == 0;
    // A run that ended before any data arrived has no rate.
    let is_nothing = summary.fatal.is_some() && summary.counters.target_written_bytes == 0;
    // A store compares what it receives with a checksum, or does not return it.
    let to_store = &summary.requests.target;
    let by_store = request.verify != Verify::None
        && !request.dry_run
        && !request.mode.only_reads()
        && to_store.put > 0
        && to_store.unchecked == 0;
    report.verified = match (transfer.verified || by_store) && !all_cloned && !is_nothing {
        true if request.verify == Verify::Medium => Verified::Medium,
        true => Verified::Wire,
        false => Verified::None,
    };
    report.resumed = summary.counters.bytes_resumed > 0;
    report.differences = summary.differences.iter().map(ReportDifference::from).collect();
    report.deletions = summary.deleted.iter().map(ReportDeletion::from).collect();
    report.differing_bytes = summary.differing_bytes;
    report.sampled = request.sample.is_some();
    report.only_compared = request.mode == Mode::Compare;
    if report.only_compared {
        report.bottleneck.iter_mut().for_each(Bottleneck::name_comparison);
    }
    report.pairs = pairs(&transfer.pairs, &summary);
    let pass = |pass: &Pass| ReportPass { seconds: pass.seconds, written_bytes: pass.written_bytes };
    report.passes = transfer.passes.iter().map(pass).collect();
    report.digest_blake3 = summary.digest.as_ref().map(hex);
    if report.digest_blake3.is_none() {
        report.digest_blake3_reason =
            Some(no_digest(request, &report, summary.counters.cloned_bytes > 0).to_owned());
    }
    // A user who does not ask for owners does not miss them.
    let wanted = |loss: &&Loss| request.preserve.owner || loss.what != LossKind::Owner;
    report.losses = summary.losses.iter().filter(wanted).map(ReportLoss::from).collect();
    report.rights_withheld = transfer.rights_withheld;
    report.peak_memory_bytes.source = transfer.peak_memory_bytes.0;
    report.peak_memory_bytes.target = transfer.peak_memory_bytes.1;
    let interrupted = summary.fatal.as_ref().is_some_and(|error| error.kind == ErrorKind::Cancelled);
    let failures = (&summary.failures[..], summary.failures_of_source);
    report.conclude_counted(failures, summary.fatal.as_ref(), interrupted);
    report
}

/// Returns the results of the pairs; the roots are numbered in the order of the pairs.
fn pairs(pairs: &[(Vec<u8>, Vec<u8>)], summary: &RunSummary) -> Vec<ReportPair> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let pair = |(index, (source, target)): (usize, &(Vec<u8>, Vec<u8>))| {
        let of_several = summary.digests.iter().find(|(root, _)| usize::from(*root) == index);
        let digest =
            of_several.map(|(_, digest)| digest).or(summary.digest.as_ref().filter(|_| pairs.len() == 1));
        ReportPair { source: text(source), target: text(target), digest_blake3: digest.map(hex) }
    };
    pairs.iter().enumerate().map(pair).collect()
}

fn resolved(place: &[u8], identity: Option<ReportDisk>) -> ReportEnd {
    let resolved = Some(String::from_utf8_lossy(place).into_owned());
    ReportEnd { resolved, identity, ..ReportEnd::default() }
}

/// Why there is no digest of the whole.
fn no_digest(request: &CopyRequest, report: &Report, cloned: bool) -> &'static str {
    if request.dry_run {
        "nothing was read"
    } else if request.verify == Verify::None {
        "not asked for"
    } else if cloned && report.requests.target.is_some_and(|requests| requests.copy > 0) {
        "the store copied it by itself, so no byte was read; --verify wire reads"
    } else if cloned {
        "its blocks are shared with the source (reflink), so no byte was read; --verify wire reads"
    } else if report.bytes.zeros_skipped >= 1 << 30 {
        "it has holes of 1 GiB or more, of which none was taken; --verify wire takes one"
    } else if report.entries.created + report.entries.updated == 0 {
        "no file was copied"
    } else {
        "only a single file has one"
    }
}
