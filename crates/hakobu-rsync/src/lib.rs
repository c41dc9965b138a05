//! The transport that leaves the data to rsync: several connections at once to an unchanged daemon, each an installed
//! `rsync` that gets a batch of names.
//!
//! A final rsync over all entries applies what rsync cannot handle within one batch: directories' times and modes,
//! symbolic links and nodes, further hard links of files. Extra entries of the target are found by listing it, and
//! removed by name once that is agreed to.

mod child;
mod endpoints;
mod lanes;
mod listing;
mod losses;
mod lost_connections;
mod options;
mod output;
mod pace;
mod plan;
mod pool;
mod record;
mod remote;
mod remote_rsync;
mod removal;
mod rsync_errors;
mod rsync_run;
mod scan;
mod target_index;
mod traffic;
mod unsupported;
mod versions;

use std::sync::atomic::Ordering::Relaxed;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Event;
use hakobu_core::location::Location;
use hakobu_core::losses::LossKind;
use hakobu_core::report::{ReportMachine, ReportMachines, UsedTransport};

use self::endpoints::RsyncEndpoints;
use self::lanes::RsyncLanes;
use self::record::RsyncRecord;
use self::remote::Remote;
use self::remote_rsync::RemoteAccess;
use self::rsync_run::RsyncRun;
pub use self::unsupported::check;
use hakobu_agent::controller::controller;
use hakobu_agent::lock::JobLock;
use hakobu_core::outcome::{RunEnvironment, Transfer};
use hakobu_core::request::{CopyRequest, Transport};

/// Returns true if rsync is to move the data: an endpoint is a module of a daemon, or the user requests it.
pub fn concerns(request: &CopyRequest) -> bool {
    let mut ends = request.sources.iter().chain([&request.target]);
    let mut paired = request.pairs.iter().flat_map(|pair| [&pair.0, &pair.1]);
    request.transport == Transport::Rsync
        || ends.any(|end| end.rsync_host().is_some())
        || paired.any(|end| end.rsync_host().is_some())
}

/// Copies. All errors are in the result.
pub fn run(request: &CopyRequest, surroundings: &mut RunEnvironment<'_>) -> Transfer {
    let mut transfer = Transfer { transport: UsedTransport::Rsync, ..Transfer::default() };
    let ran = try_run(request, surroundings, &mut transfer);
    if let Err(error) = ran {
        transfer.summary.fatal.get_or_insert(error);
    }
    if surroundings.cancel.load(Relaxed) && transfer.summary.fatal.is_some() {
        transfer.summary.fatal = Some(Error::new(ErrorKind::Cancelled, "copying", "stopped as asked"));
    }
    transfer
}

fn try_run(
    request: &CopyRequest,
    surroundings: &mut RunEnvironment<'_>,
    transfer: &mut Transfer,
) -> Result<()> {
    check(request)?;
    let is_far = |end: &&Location| end.rsync_host().is_some();
    let far = request.sources.iter().chain([&request.target]).find(is_far);
    let far =
        far.ok_or_else(|| Error::new(ErrorKind::Usage, "looking at the locations", "there is no far end"))?;
    let outward = is_far(&&request.target);
    let (observer, cancel) = (surroundings.observer, surroundings.cancel.clone());
    let way = RemoteAccess::find(request, Remote::of(far)?, outward, observer, &cancel)?;
    way.tell();
    surroundings.prompts.connecting(&way.remote.host().destination());
    let ends = RsyncEndpoints::find(&way, surroundings.prompts).map_err(|error| error.at(far.as_typed()));
    surroundings.prompts.connected();
    let ends = ends?;
    transfer.sources = vec![ends.source_name.clone()];
    transfer.target = Some(ends.target_name.clone());
    transfer.machines = machines(&way, outward);
    transfer.route = vec!["this machine".to_owned(), way.remote.host().destination()];
    if !outward {
        transfer.route.reverse();
    }
    let choice = format!("route: {}", transfer.route.join(" -> "));
    observer.event(Event::Decision { choice, reason: "one end is on this machine".to_owned() });
    let (sources, target) = (transfer.sources.clone(), ends.target_name.clone());
    observer.event(Event::Located { sources, target, machines: Box::new(transfer.machines.clone()) });
    let identity = identity(&ends);
    transfer.job = Some(identity.iter().map(|byte| format!("{byte:02x}")).collect());
    let _lock = JobLock::take(&identity)?;
    let record = RsyncRecord::new(observer, RsyncLanes::counts(&way).1, request.deletion.is_some())
        .itemizing(request.itemize && !request.dry_run);
    let course = RsyncRun::new(&way, &ends, &record)?;
    let ran = course.run(transfer, surroundings).map_err(|error| error.at(far.as_typed()));
    transfer.verified = !request.dry_run;
    course.add_losses(&mut transfer.summary.losses);
    transfer.rights_withheld = transfer.summary.losses.iter().any(|loss| loss.what == LossKind::SetId);
    drop(course);
    finish(&way, record, transfer, ran)
}

/// Returns the machines of a run. Of the far one, nothing but its name is known.
fn machines(way: &RemoteAccess<'_>, outward: bool) -> ReportMachines {
    let here = controller(None);
    let far = ReportMachine { name: Some(way.remote.host().destination()), ..ReportMachine::default() };
    let (source, target) = if outward { (here.clone(), far) } else { (far, here.clone()) };
    ReportMachines { controller: Some(here), source: Some(source), target: Some(target) }
}

/// Assembles the final result.
fn finish(
    way: &RemoteAccess<'_>,
    mut record: RsyncRecord<'_>,
    transfer: &mut Transfer,
    ran: Result<u16>,
) -> Result<()> {
    let (lanes, error) = match ran {
        Ok(lanes) => (lanes, None),
        Err(error) => (0, Some(error)),
    };
    record.conflicts_stay();
    let before = std::mem::take(&mut transfer.summary);
    let mut summary = record.into_summary(lanes);
    summary.counters.entries_only_in_target = before.counters.entries_only_in_target;
    summary.counters.entries_in_target = before.counters.entries_in_target;
    summary.only_in_target = before.only_in_target;
    summary.losses = before.losses;
    let lost = summary.losses.iter().map(|loss| loss.what).chain(way.losses());
    let missed = lost.filter(|kind| way.request.require.contains(kind)).map(LossKind::name).next();
    transfer.summary = summary;
    if let (Some(name), None) = (missed, &error) {
        let words = format!("--require {name} is not met: the target could not keep it");
        return Err(Error::new(ErrorKind::Requirement, "copying", words));
    }
    error.map_or(Ok(()), Err)
}

/// Returns the identity of the job. It depends only on the endpoints.
fn identity(ends: &RsyncEndpoints) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("hakobu rsync job identity 1");
    for name in [&ends.source_name, &ends.target_name] {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name);
    }
    let mut identity = [0; 16];
    identity.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    identity
}
