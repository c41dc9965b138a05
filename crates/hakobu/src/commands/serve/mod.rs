//! The verb `serve`: a control plane, with a broker of its own.

pub mod arguments;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hakobu_agent::machine;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_fleet::api::{FleetInterface, InterfaceAddress, first_token};
use hakobu_fleet::bus::BrokerBus;
use hakobu_fleet::control_plane::ControlPlane;
use hakobu_fleet::data_folder::DataFolder;
use hakobu_fleet::fleet_clock::{FleetClock, MachineClock};
use hakobu_fleet::leader::LeaderSettings;
use hakobu_fleet::ledger::sqlite::backup::{back_up_file, restore};
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_fleet::run_request::RequestReader;
use hakobu_fleet::worker::{Worker, WorkerSettings};

use self::arguments::ServeArguments;
use crate::fleet_errands::LocalErrands;
use crate::fleet_reader::FleetReader;
use crate::{exit, messages, output, signals};

/// The duration of a lease.
const LEASE: Duration = Duration::from_secs(30);
/// The time for which a unit runs before it is asked to give something away.
const SPLIT_AFTER: Duration = Duration::from_millis(500);
/// The time between two looks at whether the program is asked to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Shows notices of brokers as lines on standard error.
pub struct NoticeLines;

impl Observer for NoticeLines {
    fn event(&self, event: Event) {
        if let Event::Notice { words } = event {
            output::tell_translated(&messages::note(&words));
        }
    }
}

/// Runs a control plane until it is asked to end; returns the exit code.
pub fn serve(typed: &ServeArguments) -> u8 {
    match run(typed) {
        Ok(()) => 0,
        Err(error) => exit::errors(&[error]),
    }
}

fn run(typed: &ServeArguments) -> Result<()> {
    let path = data_path(typed.data.as_deref())?;
    if let Some(to) = &typed.backup {
        return back_up_file(&DataFolder::open(&path)?.ledger_file(), to);
    }
    if let Some(from) = &typed.restore {
        return restore(from, &DataFolder::open(&path)?.ledger_file(), MachineClock.moment());
    }
    let ending = signals::cancel_flag().map_err(|error| Error::io("installing signal handlers", &error))?;
    let folder = DataFolder::open(&path)?;
    let settings =
        LeaderSettings { lease: LEASE, split_after: SPLIT_AFTER, key: folder.keys()?.lease_key()? };
    let ledger = Box::new(folder.open_ledger()?);
    let plane = ControlPlane::start(ledger, Arc::new(MachineClock), settings, |_| Ok(Vec::new()))?;
    let broker = match typed.no_broker {
        true => None,
        false => Some(start_broker(&plane, typed, &ending)?),
    };
    let interface = start_interface(&plane, typed)?;
    while !ending.load(Ordering::Acquire) {
        std::thread::sleep(LOOK_EVERY);
    }
    drop(interface);
    if let Some(broker) = broker {
        let _has_panicked = broker.join();
    }
    drop(plane);
    Ok(())
}

/// Returns the folder of the control plane.
fn data_path(typed: Option<&Path>) -> Result<PathBuf> {
    if let Some(typed) = typed {
        return Ok(typed.to_owned());
    }
    let state = machine::state_directory().map(|state| state.path().join("fleet"));
    state.ok_or_else(|| {
        let error = Error::new(
            ErrorKind::Usage,
            "opening the folder of the control plane",
            "there is no home directory",
        );
        error.hint("name a folder with --data")
    })
}

/// Starts the page and the API, and shows how to sign in.
fn start_interface(plane: &ControlPlane, typed: &ServeArguments) -> Result<FleetInterface> {
    let address = InterfaceAddress {
        listen: typed.listen,
        tls: typed.tls_certificate.clone().zip(typed.tls_key.clone()),
        hosts: typed.host.clone(),
    };
    let parts: (Arc<dyn FleetClock>, Arc<dyn RequestReader>) =
        (Arc::new(MachineClock), Arc::new(FleetReader));
    let interface = FleetInterface::start(address, plane.handle().clone(), parts, Arc::new(NoticeLines))?;
    let token = first_token(plane.handle(), &MachineClock)?;
    let url = interface.url();
    output::tell_translated(&messages::note(&format!("the control plane is at {url}")));
    output::tell_translated(&messages::note(&format!(
        "to sign in once, within an hour: {url}#/sign-in?token={token}"
    )));
    Ok(interface)
}

/// Starts the broker of this process.
fn start_broker(
    plane: &ControlPlane,
    typed: &ServeArguments,
    ending: &Arc<AtomicBool>,
) -> Result<JoinHandle<()>> {
    let group = GroupName::new(typed.group.clone())?;
    let bus: Arc<dyn BrokerBus> = Arc::new(plane.local().broker(&group));
    let settings = WorkerSettings {
        name: BrokerName::new("built-in")?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        slots: typed.slots,
        process: u64::from(std::process::id()),
    };
    let worker = Worker::new(
        settings,
        (bus, Arc::new(FleetReader)),
        (Arc::new(MachineClock), Arc::new(NoticeLines)),
        (ending.clone(), Arc::default()),
    )
    .with_errands(Arc::new(LocalErrands));
    let thread = std::thread::Builder::new().name("broker".to_owned()).spawn(move || worker.run());
    thread.map_err(|error| Error::io("starting the broker", &error))
}
