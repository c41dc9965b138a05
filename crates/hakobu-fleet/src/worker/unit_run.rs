//! Carries out one unit with the mover of this program.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::job::{Mode, Removal};
use hakobu_core::losses::LossKind;
use hakobu_core::outcome::{RunEnvironment, Transfer};
use hakobu_core::prompts::NoPrompts;
use hakobu_core::request::CopyRequest;
use hakobu_transfer::copy::{copy, copy_after};
use hakobu_transfer::shared_run::SharedRun;

use super::BrokerWorker;
use super::broker_unit::{BrokerUnit, UnitControls};
use super::granted_exchange::GrantedExchange;
use super::unit_observer::UnitObserver;
use crate::message::{CommittedWork, GrantedUnit, GrantedWork};
use crate::run_losses::RunLosses;
use crate::run_request::{FleetRequest, RequestReader};
use crate::sent_credentials::{EndCredentials, read_credentials};
use crate::unit_counters::UnitCounters;

/// The outcome of a unit.
pub enum UnitOutcome {
    /// The unit is done, apart from what it gave away and what failed.
    Done(CommittedWork),
    /// The unit could not be done.
    Failed(Error),
}

/// The hosts of the last run, which its next unit uses again.
#[derive(Default)]
pub struct RunCache {
    pub controls: UnitControls,
    /// The text of the request, and what it stands for.
    request: String,
    copy_request: CopyRequest,
    is_retry: bool,
    credentials: EndCredentials,
    run: Option<SharedRun>,
}

impl BrokerWorker {
    /// Carries out a unit.
    pub(super) fn run_unit(
        &self,
        cache: &mut RunCache,
        granted: &GrantedUnit,
        state: &Arc<BrokerUnit>,
    ) -> UnitOutcome {
        match self.try_unit(cache, granted, state) {
            Ok(work) => UnitOutcome::Done(work),
            Err(error) => {
                // Its hosts may be the reason.
                cache.run = None;
                UnitOutcome::Failed(error)
            }
        }
    }

    fn try_unit(
        &self,
        cache: &mut RunCache,
        granted: &GrantedUnit,
        state: &Arc<BrokerUnit>,
    ) -> Result<CommittedWork> {
        let mut copy_request = cache.read(&granted.request, &*self.reader)?;
        let purpose = granted.lease.credentials_purpose();
        let credentials = read_credentials(self.credentials.as_deref(), &granted.credentials, &purpose)?;
        credentials.clone().apply(&mut copy_request);
        let leaves_extra = copy_request.deletion.is_none();
        let observer = UnitObserver::new(state, &*self.observer, leaves_extra);
        let UnitControls { cancel, limits, .. } = cache.controls.clone();
        let mut environment = RunEnvironment { prompts: &mut NoPrompts, observer: &observer, cancel, limits };
        let is_ending = || self.is_ending() || self.is_draining.load(Ordering::Acquire);
        let is_owner_wanted = copy_request.preserve.owner;
        let (mut transfer, work) = match granted.work {
            GrantedWork::Removal { created } => {
                (copy_after(&copy_request, created, &mut environment), CommittedWork::default())
            }
            GrantedWork::Verify => {
                let comparing = CopyRequest { mode: Mode::Compare, deletion: None, ..copy_request };
                (copy(&comparing, &mut environment), CommittedWork::default())
            }
            _ => {
                // A retry copies entries by themselves, so that nobody ends the directories in which drafts may be left.
                let ranges = (!cache.is_retry).then_some(self.ranges);
                let exchange = GrantedExchange::new(state, granted, &*self.clock, (&is_ending, ranges))?;
                let transfer = cache.run(credentials, copy_request)?.run(&exchange, &mut environment);
                (transfer, exchange.result()?)
            }
        };
        state.count(&transfer.summary.counters);
        observer.take_ranges(&transfer.summary.differences);
        if !is_owner_wanted {
            // Nobody asked for owners.
            transfer.summary.losses.retain(|loss| loss.what != LossKind::Owner);
        }
        finished(transfer, &granted.work, (work, observer))
    }
}

impl RunCache {
    /// Reads a request, which most units share with the unit before them.
    fn read(&mut self, request: &str, reader: &dyn RequestReader) -> Result<CopyRequest> {
        if self.request != request {
            let fleet_request = FleetRequest::parse(request)?;
            (self.copy_request, self.run) = (reader.read(&fleet_request)?, None);
            self.is_retry = fleet_request.is_retry;
            request.clone_into(&mut self.request);
        }
        Ok(self.copy_request.clone())
    }

    fn run(&mut self, credentials: EndCredentials, copy_request: CopyRequest) -> Result<&mut SharedRun> {
        if self.credentials != credentials || self.run.is_none() {
            self.credentials = credentials;
            // Entries that only the target has are counted, so that it is known if anything has to be removed afterwards.
            let removal = if copy_request.deletion.is_some() { Removal::Count } else { Removal::Leave };
            let copying = CopyRequest { deletion: None, removal, ..copy_request };
            self.run = Some(SharedRun::new(copying)?);
        }
        self.run.as_mut().ok_or_else(|| Error::new(ErrorKind::Io, "opening the hosts", "there are none"))
    }
}

/// Returns the result of a unit, unless an error ended it.
fn finished(
    transfer: Transfer,
    granted: &GrantedWork,
    (work, observer): (CommittedWork, UnitObserver<'_>),
) -> Result<CommittedWork> {
    if let Some(fatal) = transfer.summary.fatal {
        return Err(fatal);
    }
    let all = UnitCounters::from(&transfer.summary.counters);
    // Entries are counted by the units that copy, and so is what they lose. The others look at them again.
    let (counters, losses) = match granted {
        GrantedWork::Removal { .. } => (all.of_removal(), RunLosses::default()),
        GrantedWork::Verify => (all.of_comparison(), RunLosses::default()),
        GrantedWork::Copy(_) | GrantedWork::Names(_) | GrantedWork::Ends { .. } | GrantedWork::File(..) => {
            (all, RunLosses::new(&transfer.summary.losses))
        }
    };
    let unwritten = |error: serde_json::Error| {
        Error::new(ErrorKind::Io, "writing the result of a unit", error.to_string())
    };
    let counters = serde_json::to_string(&counters).map_err(unwritten)?;
    let losses = serde_json::to_string(&losses).map_err(unwritten)?;
    Ok(CommittedWork { counters, losses, failures: observer.into_failures(), ..work })
}
