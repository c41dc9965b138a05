//! The engine: copies or compares the entries of a source and a target with several lanes at a time.
//!
//! [`run`] starts one thread per lane. Each lane takes tasks from one [`queue::TaskQueue`]: directories to scan and
//! compare, packs of small files, and large files whose chunks several lanes share. The scan feeds the queue while the
//! copy runs. An operation that was not acknowledged counts as not done. No lane waits for one particular answer while
//! there is other work.

mod accounts;
mod bulky_attributes;
mod entrance;
mod examinations;
mod gate;
mod inode_owners;
mod inodes;
mod join;
mod lane;
mod large;
mod links;
mod move_search;
mod node;
mod pending_entries;
mod planned;
mod queue;
mod record;
mod room;
mod shared;
mod shares;
mod tuner;
mod tuning;
mod whole_file;
mod work_sizes;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

pub use self::record::{
    DELETIONS_KEPT_MAX, DIFFERENCES_KEPT_MAX, FAILURES_KEPT_MAX, ONLY_IN_TARGET_KEPT_MAX, RunSummary,
};
pub use self::room::FREE_SPACE;
pub use self::shared::{Clock, Setup};

use self::accounts::Accounts;
use self::bulky_attributes::BulkyAttributes;
use self::entrance::LaneEntrance;
use self::gate::LaneGate;
use self::lane::Worker;
use self::links::Links;
use self::queue::TaskQueue;
use self::record::RunRecord;
use self::shared::EngineState;
use self::tuning::Tuning;
use self::work_sizes::WorkSizes;
use crate::capabilities::Capabilities;
use crate::endpoint::DraftKind;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::evidence::ListingEvidence;
use crate::extended::{Classes, ExtendedAsk};
use crate::filter::Filter;
use crate::job::{LANES_MAX, Mode, Removal};
use crate::pacer::{LimitAdjuster, Pacer};

/// The interval at which the observer receives the figures.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// After a stop, lanes have this many intervals to end by themselves; then the endpoints are interrupted.
const STOP_INTERVALS: u32 = 10;

/// Runs a job to its end.
///
/// The returned summary lists the failures of single entries. An error that ended the run early is its `fatal` error.
pub fn run(setup: &Setup<'_>) -> RunSummary {
    let lanes = usize::from(setup.job.lanes.clamp(1, LANES_MAX));
    let lanes_max = usize::from(setup.job.lanes_max.min(LANES_MAX)).max(lanes);
    let record = RunRecord::new(lanes_max, setup.source.capabilities(), setup.target.capabilities());
    let filter = match shares::check(setup).and_then(|()| Filter::new(&setup.job.filter)) {
        Ok(filter) => filter,
        Err(error) => {
            record.fatal(error);
            return record.into_summary(setup.clock.now_ns());
        }
    };
    let portions = WorkSizes::new(setup.source.capabilities(), setup.target.capabilities());
    if let Some((choice, reason)) = portions.told() {
        setup.observer.event(Event::Decision { choice, reason });
    }
    let queue = TaskQueue::new(setup.target.spreads_writers(), portions.directories);
    let (removals, cannot_clone) = (AtomicU64::new(0), AtomicBool::new(false));
    let (ask, links, accounts) = (what_to_keep(setup), Links::default(), Accounts::default());
    let masked = missed(setup) & Classes::ACL;
    let of_trees = setup.job.items.iter().any(|item| item.place == DraftKind::File);
    // NFSv4 lists are never compared; the entries that have one are counted.
    let uncompared = ask.miss.without(Classes::NFS4_ACL);
    if setup.job.mode == Mode::Compare && of_trees && !uncompared.is_empty() {
        let advice = match setup.target.capabilities().special_files {
            true => "; as root there and with --allow setuid, all that its file system holds is compared",
            false => "",
        };
        let words = format!(
            "not compared, because the target's side may not set them or cannot hold them: {}{advice}",
            uncompared.words()
        );
        setup.observer.event(Event::Notice { words });
    }
    let able = able(setup);
    let ends = (setup.source.capabilities(), setup.target.capabilities());
    let evidence = ListingEvidence::new(ends.0, ends.1, &able, !ask.keep.is_empty());
    if !setup.job.dry_run && !setup.job.mode.only_reads() {
        setup.source.meet_time_step(able.time_step_ns);
    }
    let opened = setup.requests();
    let now_ns = setup.clock.now_ns();
    let backlog = setup.changes.backlog();
    let pacer = Pacer::new(now_ns, backlog);
    let mut keeper = LimitAdjuster::new(setup.job.limits.clone(), &pacer, now_ns, backlog);
    let shared = EngineState {
        setup,
        portions,
        queue,
        record,
        removals,
        filter,
        able,
        evidence,
        ask,
        masked,
        links,
        accounts,
        bulky_attributes: BulkyAttributes::default(),
        entrance: LaneEntrance::default(),
        gate: LaneGate::new(lanes),
        cannot_clone,
        pacer,
    };
    std::thread::scope(|scope| {
        let (ended, end) = mpsc::channel();
        let mut started = 0;
        let start = |lanes: usize| {
            for index in started..lanes {
                let (shared, ended) = (&shared, EndGuard(ended.clone()));
                scope.spawn(move || {
                    let (_ended, _panicked) = (ended, PanicGuard(shared));
                    let result = work(shared, index);
                    if let Err(error) = result {
                        shared.stop(error);
                    }
                });
            }
            started = started.max(lanes);
            started
        };
        watch(&shared, (lanes, start), &mut keeper, &end);
    });
    setup.changes.keep_backlog(keeper.backlog(&shared.pacer, setup.clock.now_ns()));
    shared.miss_listed();
    let requests = setup.requests();
    let planned_requests = shared.planned_requests(&opened, &requests);
    let summary = shared.record.into_summary(setup.clock.now_ns());
    RunSummary { requests, planned_requests, ..summary }
}

/// Returns the target's capabilities, limited by the source: the coarser time step of the two counts, and inodes and
/// modes must be supported by both.
fn able(setup: &Setup<'_>) -> Capabilities {
    let (source, target) = (setup.source.capabilities(), setup.target.capabilities());
    Capabilities {
        time_step_ns: source.time_step_ns.max(target.time_step_ns),
        time_step_before_1970_ns: source.time_step_before_1970_ns.max(target.time_step_before_1970_ns),
        inodes: source.inodes && target.inodes,
        modes: source.modes && target.modes,
        ..target.clone()
    }
}

/// Returns which extended attributes are kept between these endpoints, and which are lost.
fn what_to_keep(setup: &Setup<'_>) -> ExtendedAsk {
    match setup.job.removal {
        Removal::Remove => ExtendedAsk::default(),
        _ => ExtendedAsk {
            keep: seen(setup) & setup.target.capabilities().extended,
            miss: missed(setup),
            readable: false,
        },
    }
}

/// Returns the extended attributes to keep, limited to those the source can show.
fn seen(setup: &Setup<'_>) -> Classes {
    let seen = setup.source.capabilities().extended;
    // A source that shows extended attributes but no access control lists has none. ACLs still count as seen, so that
    // new entries do not keep those inherited from the target's directories.
    let seen = if seen.is_empty() { seen } else { seen | Classes::ACL };
    let asked = setup.job.extended;
    let asked = if asked.contains(Classes::ACL) { asked | Classes::NFS4_ACL } else { asked };
    asked & seen
}

/// Returns the extended attributes to keep that the target cannot hold.
fn missed(setup: &Setup<'_>) -> Classes {
    seen(setup).without(setup.target.capabilities().extended)
}

/// Stops the other lanes when a lane panics. Otherwise they would wait forever for the tasks that it had taken.
struct PanicGuard<'a>(&'a EngineState<'a>);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(Error::new(ErrorKind::Io, "copying", "a defect in hakobu ended a lane"));
        }
    }
}

/// Reports the end of a lane, even if the lane panics.
struct EndGuard(mpsc::Sender<()>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        // The receiver is gone once the run is over.
        let _ = self.0.send(());
    }
}

/// Starts lanes, sends the figures to the observer, and applies limits, lane counts and stops until all lanes have
/// ended. `start` starts lanes up to the given number and returns how many have been started so far.
fn watch(
    shared: &EngineState<'_>,
    (lanes, mut start): (usize, impl FnMut(usize) -> usize),
    keeper: &mut LimitAdjuster,
    end: &mpsc::Receiver<()>,
) {
    let (mut started, mut ended, mut stopped_for) = (start(lanes), 0, 0);
    let mut tuning = Tuning::new(shared);
    loop {
        match end.recv_timeout(PROGRESS_INTERVAL) {
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            _ => {
                ended += 1;
                if ended == started {
                    return;
                }
                continue;
            }
        }
        if shared.setup.cancel.load(Relaxed) {
            shared.stop(Error::new(ErrorKind::Cancelled, "copying", "stopped as asked"));
        }
        shared.keep_limits(keeper);
        shared.give_shares();
        let is_lease_over = shared.is_lease_over();
        if shared.queue.is_stopped() {
            stopped_for += 1;
            // A peer that neither answers nor reads would block its lane forever. One that has not read yet must not do so
            // after the end of a lease.
            if stopped_for == STOP_INTERVALS || is_lease_over {
                shared.setup.target.interrupt();
                shared.setup.source.interrupt();
            }
        }
        // The total size of a stream is not known.
        let scan_done = shared.queue.scan_done() && !shared.setup.source.capabilities().stream;
        let mut figures = shared.record.snapshot(scan_done);
        figures.paused_until_s = keeper.paused_until_s();
        figures.lanes = shared.record.lanes_open().min(shared.gate.open()) as u64;
        if let Some(lanes) = tuning.as_mut().and_then(|tuning| tuning.look(shared, &figures)) {
            shared.gate.set(lanes);
            started = start(lanes);
        }
        shared.setup.observer.event(Event::Progress(Box::new(figures)));
    }
}

/// Runs one lane from opening its endpoints to its end.
fn work(shared: &EngineState<'_>, index: usize) -> Result<()> {
    let open = || {
        let source = shared.setup.source.open_source_lane(index)?;
        Ok((source, shared.setup.target.open_target_lane(index)?))
    };
    let is_over = || shared.queue.is_over();
    // A lane may be about to take a task that is seen waiting only once; only work seen twice in a row counts.
    let mut waited = false;
    let may_open = || {
        let waits = shared.queue.has_waiting();
        let has_work = waits && std::mem::replace(&mut waited, waits);
        shared.setup.source.may_open_lane(has_work) && shared.setup.target.may_open_lane(has_work)
    };
    let (source, target) = match shared.entrance.enter(index, is_over, may_open, open) {
        Ok(Some(ends)) => ends,
        Ok(None) => return Ok(()),
        // One lane can do all the work, so a further lane that cannot be opened is not a failure.
        Err(error) if index > 0 && !error.is_fatal() => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut worker = Worker::new(shared, index, source, target);
    if index == 0 {
        worker.begin()?;
    }
    worker.work()?;
    shared.lanes_are_complete();
    if index == 0 {
        worker.settle()?;
    }
    Ok(())
}
