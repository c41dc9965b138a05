//! The verb `broker`: a broker for a control plane on another machine.

pub mod arguments;
mod health;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_fleet::bus::nats::broker::NatsBrokerBus;
use hakobu_fleet::bus::nats::random_number;
use hakobu_fleet::fleet_clock::MachineClock;
use hakobu_fleet::names::{BrokerName, GroupName, NAME_BYTES_MAX};
use hakobu_fleet::reach::BrokerReach;
use hakobu_fleet::secrets::SecretPlaces;
use hakobu_fleet::sent_credentials::CredentialReader;
use hakobu_fleet::worker::{BrokerWorker, RangeSizes, WorkerSettings};

use self::arguments::BrokerArguments;
use crate::commands::shared::process_log::{LoggedProcess, ProcessLog};
use crate::{exit, signals};

/// The time between two looks at whether the broker has to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The time to wait for the first connection.
const START_LIMIT: Duration = Duration::from_secs(5);

/// Runs a broker until it is asked to end; returns the exit code.
pub fn broker(typed: &BrokerArguments) -> u8 {
    let named =
        broker_name(typed.name.as_deref()).and_then(|name| Ok((name, GroupName::new(typed.group.clone())?)));
    let (name, group) = match named {
        Ok(named) => named,
        Err(error) => return exit::errors(&[error]),
    };
    let process = LoggedProcess::Broker { broker: name.to_string(), group: group.to_string() };
    let log = Arc::new(ProcessLog::new(typed.json, process));
    match run(typed, (name, group), &log) {
        Ok(()) => 0,
        Err(error) => log.fail(&error),
    }
}

fn run(typed: &BrokerArguments, (name, group): (BrokerName, GroupName), log: &Arc<ProcessLog>) -> Result<()> {
    if typed.nats.nats.is_none() {
        let error =
            Error::new(ErrorKind::Usage, "starting a broker", "it is not said where the control plane is");
        return Err(error.hint("name the servers of NATS with --nats"));
    }
    let settings = typed.nats.options().check()?;
    let reach = reach(&typed.reaches)?;
    let (ending, stopping) =
        signals::ending_flags().map_err(|error| Error::io("installing signal handlers", &error))?;
    let version = env!("CARGO_PKG_VERSION");
    log.note(&format!("broker {name} of group {group}, hakobu {version}"));
    let bus = Arc::new(NatsBrokerBus::start(settings, group.clone(), name.clone(), log.clone())?);
    if let Some(address) = typed.health {
        health::listen(address, bus.clone(), (name.to_string(), group.to_string()))?;
    }
    wait_for_connection(&bus, &ending);
    let places =
        SecretPlaces { folder: typed.credentials.clone(), variables: typed.credential_variables.clone() };
    let mut worker = BrokerWorker::new(
        WorkerSettings {
            name,
            version: version.to_owned(),
            slots: typed.slots,
            process: random_number()?,
            reach,
        },
        (bus, Arc::new(crate::fleet_reader::FleetReader)),
        (Arc::new(MachineClock), log.clone()),
        (ending.clone(), stopping.clone()),
    )
    .with_errands(Arc::new(crate::fleet_errands::LocalErrands))
    .with_credentials(CredentialReader::new(places)?);
    if let Some(least_bytes) = typed.least_range {
        worker = worker.with_ranges(RangeSizes::of_at_least(least_bytes));
    }
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drain(log, (&ending, &stopping), &has_ended, Duration::from_secs(typed.drain_seconds));
        });
        worker.run();
        has_ended.store(true, Ordering::Release);
    });
    log.note("the broker has ended");
    Ok(())
}

/// Waits a moment for the first connection, so that a broker that starts well has nothing to complain about.
fn wait_for_connection(bus: &NatsBrokerBus, ending: &AtomicBool) {
    let ends = Instant::now() + START_LIMIT;
    while Instant::now() < ends && !ending.load(Ordering::Acquire) {
        let state = bus.state();
        if state.is_connected || state.trouble.is_some() {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Has the broker give its work back if it does not finish in time.
fn drain(
    log: &ProcessLog,
    (ending, stopping): (&AtomicBool, &AtomicBool),
    has_ended: &AtomicBool,
    limit: Duration,
) {
    let mut ends: Option<Instant> = None;
    while !has_ended.load(Ordering::Acquire) {
        if ending.load(Ordering::Acquire) && ends.is_none() {
            ends = Some(Instant::now() + limit);
            log.note("ending: no further units are taken, and those at hand are finished or given away");
        }
        if ends.is_some_and(|ends| Instant::now() >= ends) && !stopping.swap(true, Ordering::AcqRel) {
            log.note("the units at hand are given back");
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Returns the locations that a broker reaches, as they were typed.
///
/// # Errors
/// `Usage` for one that no run could have.
pub(crate) fn reach(typed: &[OsString]) -> Result<BrokerReach> {
    BrokerReach::new(&typed.iter().map(|location| location.as_bytes().to_vec()).collect::<Vec<_>>())
}

/// Returns the name of the broker: as typed, or else that of the host.
fn broker_name(typed: Option<&str>) -> Result<BrokerName> {
    if let Some(typed) = typed {
        return BrokerName::new(typed);
    }
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let allowed =
        |char: char| if char.is_ascii_alphanumeric() || char == '-' || char == '_' { char } else { '-' };
    let name: String = host.chars().map(allowed).take(NAME_BYTES_MAX).collect();
    BrokerName::new(name).map_err(|error| error.hint("name the broker with --name"))
}
