//! Chooses the fault of a step. The effects of faults are in [`environment`](super::environment). To add one, implement
//! it there and choose it here.

use super::environment::faults::{CONNECT, CONNECT_ERRORS, Fault, INJECTED, Process, Trigger};
use super::environment::object_store::TortureStoreKind;
use super::file_systems::HistorySetting;
use super::rng::Rng;

/// Returns a random fault that is possible in a setting. `from_store`: the run copies a store back.
pub fn random(rng: &mut Rng, setting: &HistorySetting, from_store: bool) -> Fault {
    let remote_hosts: Vec<_> = setting.route.remote_hosts().collect();
    let seed = rng.next();
    if setting.has_store() && rng.percent(50) {
        let may_change = from_store || setting.source_store().is_some();
        // The others have their objects in memory.
        let outlives =
            |kind: Option<TortureStoreKind>| kind.is_none_or(|kind| kind == TortureStoreKind::Versitygw);
        let may_be_killed = outlives(setting.source_store()) && outlives(setting.target_store());
        return match rng.below(10) {
            0 | 1 if may_change => Fault::StoreChanges { seed },
            2 | 3 if may_be_killed => Fault::StoreKilled {
                after_ms: rng.pick(&[1, 5, 10, 15, 30]),
                down_ms: rng.pick(&[0, 50, 400]),
            },
            _ => Fault::StoreTrouble { seed, percent: rng.pick(&[2, 10, 25, 50]) },
        };
    }
    let target_is_store = setting.target_store().is_some() && !from_store;
    let process = |rng: &mut Rng| match (remote_hosts.first(), rng.below(3)) {
        (Some(_), 0) => Process::Agent(remote_hosts[rng.below(remote_hosts.len() as u64) as usize]),
        (Some(_), 1) => Process::Ssh,
        _ => Process::Controller,
    };
    let when = match trigger(rng, setting) {
        // Nobody looks into a store meanwhile.
        Trigger::DraftAppears if target_is_store => Trigger::AfterMs(20),
        Trigger::BytesArrived(_) | Trigger::EntriesArrived(_) | Trigger::EntriesLeft(_)
            if target_is_store && setting.target_store() != Some(TortureStoreKind::Versitygw) =>
        {
            Trigger::AfterMs(rng.pick(&[10, 20, 30, 60]))
        }
        other => other,
    };
    match rng.below(24) {
        0..7 => Fault::Kill { process: process(rng), when },
        7..9 => Fault::KillAll { when },
        9 => Fault::Interrupt { when },
        10 => Fault::StopFor { process: process(rng), ms: rng.pick(&[5, 50, 300]), when },
        11 if !remote_hosts.is_empty() => {
            Fault::LinkDown { host: remote_hosts[0], ms: rng.pick(&[50, 400]), when }
        }
        12 if setting.source_store().is_none()
            && !setting.source_is_image()
            && !setting.route.is_remote()
            && !from_store =>
        {
            Fault::SourceChanges { seed, when }
        }
        13 if !target_is_store => Fault::TargetDirectorySwapped { seed, when },
        14 if !target_is_store => Fault::TargetDirectoryRenamed { seed, when },
        15 if !target_is_store => Fault::TargetDirectoryRemoved { seed, when },
        16..19 if setting.may_lose_power() && !from_store => Fault::PowerCut { when },
        _ => {
            let has_agents = !remote_hosts.is_empty() && !setting.route.is_sftp();
            // A thread connects a few times only: first a UDP socket that finds its own address, then once for each lane.
            let (calls, errors, nths) = match has_agents && rng.percent(20) {
                true => (CONNECT, &CONNECT_ERRORS[..], &[1, 2, 3, 4][..]),
                false => {
                    let (calls, errors) = INJECTED[rng.below(INJECTED.len() as u64) as usize];
                    (calls, errors, &[1, 2, 3, 5, 8, 12, 20, 40][..])
                }
            };
            let process = match remote_hosts.first() {
                Some(host) if rng.percent(50) && has_agents => Process::Agent(*host),
                _ => Process::Controller,
            };
            let errno = rng.pick(errors);
            Fault::Inject {
                process,
                calls: calls.to_owned(),
                errno: errno.to_owned(),
                nth: rng.pick(nths),
                // No signal interrupts every call.
                from_then_on: rng.percent(45) && errno != "EINTR",
            }
        }
    }
}

/// Returns a random trigger. The times are short, since most runs end within milliseconds or soon after the login.
fn trigger(rng: &mut Rng, setting: &HistorySetting) -> Trigger {
    let moments: &[u64] =
        if setting.route.is_remote() { &[100, 300, 500, 700, 1000] } else { &[0, 1, 2, 3, 5, 8, 15] };
    match rng.below(9) {
        0 | 1 => Trigger::DraftAppears,
        2 => Trigger::BytesArrived(rng.pick(&[1, 1, 100_000, 1_000_000])),
        3 | 4 => Trigger::EntriesArrived(rng.pick(&[1, 1, 3, 10])),
        5 => Trigger::EntriesLeft(rng.pick(&[1, 1, 3])),
        _ => Trigger::AfterMs(rng.pick(moments)),
    }
}
