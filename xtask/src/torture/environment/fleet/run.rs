//! A run of a fleet, with a fault meanwhile.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::faults::FleetFault;
use super::{GROUP, LOOK_EVERY, START_LIMIT, TortureFleet};

/// The order of a run.
#[derive(Debug, Clone)]
pub struct FleetOrder<'a> {
    /// Locations and options, in the form of the interface.
    pub request: Value,
    /// The operations a second that are allowed for a time, and that time in milliseconds.
    pub slow: Option<(u32, u64)>,
    /// The fault.
    pub fault: Option<&'a FleetFault>,
    /// The time after which the run counts as hung.
    pub deadline: Duration,
}

/// The result of a run of a fleet.
#[derive(Debug, Default)]
pub struct FleetRunResult {
    /// The run at its end; null if it has not ended in time.
    pub view: Value,
    /// The report of the run.
    pub report: Value,
    /// The entries that failed.
    pub failures: Vec<Value>,
    /// The brokers that were seen at work on it.
    pub brokers: BTreeSet<String>,
    /// The phases that were seen.
    pub phases: BTreeSet<String>,
    /// True if the fault took place before the end of the run.
    pub took_place: bool,
    /// The processes that have ended by themselves.
    pub ended: Vec<String>,
    /// The ends of the logs.
    pub log: String,
}

/// A fault that takes place, and what ends it.
struct FleetFaultAtWork<'a> {
    fault: &'a FleetFault,
    /// The brokers that are concerned.
    brokers: Vec<String>,
    ends: Instant,
}

impl TortureFleet {
    /// Carries out an order.
    ///
    /// # Errors
    /// Returns an error if the fleet cannot be used any more, which then has to be dropped.
    pub fn run(&mut self, order: &FleetOrder<'_>) -> anyhow::Result<FleetRunResult> {
        self.limit(order.slow.map(|(operations, _)| operations))?;
        let input = json!({ "group": GROUP, "request": order.request });
        let started = self.interface.send("POST", "runs", Some(&input))?;
        let run = started["run"].as_u64().context("no number of a run in the answer")?;
        let mut result = FleetRunResult::default();
        let watched = self.watch(run, order, &mut result);
        if order.slow.is_some() {
            self.limit(None)?;
        }
        watched?;
        if order.fault.is_some() {
            self.wait_for_rest()?;
        }
        result.ended = self.ended();
        result.log = self.last_words();
        if !result.view.is_null() {
            result.report = self.interface.get(&format!("runs/{run}/report"))?;
            let failures = self.interface.get(&format!("runs/{run}/failures?limit=1000"))?;
            result.failures = failures["items"].as_array().cloned().unwrap_or_default();
        }
        Ok(result)
    }

    /// Follows a run to its end, or to the deadline.
    fn watch(&mut self, run: u64, order: &FleetOrder<'_>, result: &mut FleetRunResult) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut pending = order.fault;
        let mut faulty: Option<FleetFaultAtWork<'_>> = None;
        let mut lifted = order.slow.map(|(_, ms)| began + Duration::from_millis(ms));
        loop {
            // It does not answer while it is killed.
            let view = self.interface.get(&format!("runs/{run}")).unwrap_or_default();
            note(&view, result);
            if !view["ended_ms"].is_null() {
                result.view = view;
                break;
            }
            if began.elapsed() > order.deadline {
                break;
            }
            if let Some(fault) = pending
                && began.elapsed() >= Duration::from_millis(fault.after_ms())
                && (!fault.is_about_workers() || !at_work(&view).is_empty())
            {
                pending = None;
                faulty = Some(self.act(fault, &view)?);
                result.took_place = true;
            }
            if faulty.as_ref().is_some_and(|fault| fault.ends <= Instant::now()) {
                self.end_fault(faulty.take())?;
            }
            if lifted.is_some_and(|at| at <= Instant::now()) && self.limit(None).is_ok() {
                lifted = None;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.end_fault(faulty)
    }

    /// Limits the operations of the group, or lifts the limit.
    fn limit(&self, operations: Option<u32>) -> anyhow::Result<()> {
        let input = json!({ "version": 1, "operations_per_second": operations });
        let deadline = Instant::now() + START_LIMIT;
        loop {
            match self.interface.send("PUT", &format!("groups/{GROUP}/limits"), Some(&input)) {
                Err(error) if Instant::now() > deadline => return Err(error),
                // It has just been killed or started.
                Err(_) if self.serve.is_some() => std::thread::sleep(LOOK_EVERY),
                answer => return answer.map(|_| ()),
            }
        }
    }

    /// Carries out a fault.
    fn act<'a>(&mut self, fault: &'a FleetFault, view: &Value) -> anyhow::Result<FleetFaultAtWork<'a>> {
        let mut brokers = at_work(view);
        match fault {
            FleetFault::BrokersKilled { count, .. } => {
                let others: Vec<_> = self.members.names().filter(|name| !brokers.contains(name)).collect();
                brokers.extend(others);
                brokers.truncate(*count);
                brokers.retain(|name| self.members.kill(name));
            }
            FleetFault::BrokerStopped { .. } => {
                brokers.truncate(1);
                brokers.retain(|name| self.members.signal(name, Signal::STOP));
            }
            FleetFault::BrokerEnded { .. } => {
                brokers.truncate(1);
                brokers.retain(|name| self.members.signal(name, Signal::TERM));
            }
            FleetFault::ServeKilled { .. } => self.serve = None,
            FleetFault::NatsKilled { .. } => self.nats.kill(),
            FleetFault::StreamsDeleted { .. } => {
                self.nats.delete_streams()?;
            }
        }
        let ends = Instant::now() + Duration::from_millis(fault.lasts_ms());
        Ok(FleetFaultAtWork { fault, brokers, ends })
    }

    /// Takes a fault back.
    fn end_fault(&mut self, fault: Option<FleetFaultAtWork<'_>>) -> anyhow::Result<()> {
        let Some(FleetFaultAtWork { fault, brokers, .. }) = fault else { return Ok(()) };
        match fault {
            FleetFault::BrokersKilled { .. } => self.members.start_missing(),
            FleetFault::BrokerStopped { .. } => {
                let continued = |name: &String| self.members.signal(name, Signal::CONT);
                if !brokers.iter().all(continued) {
                    bail!("a broker that was stopped is not there");
                }
                Ok(())
            }
            FleetFault::BrokerEnded { .. } => {
                brokers.iter().try_for_each(|name| self.members.wait_for_end(name))?;
                self.members.start_missing()
            }
            FleetFault::ServeKilled { .. } => self.restart_serve(),
            FleetFault::NatsKilled { .. } => self.nats.restart(),
            FleetFault::StreamsDeleted { .. } => Ok(()),
        }
    }
}

/// Returns the names of the brokers that work on a run.
fn at_work(view: &Value) -> Vec<String> {
    let brokers = view["brokers"].as_array().into_iter().flatten();
    let works = |broker: &&Value| broker["units"].as_array().is_some_and(|units| !units.is_empty());
    brokers.filter(works).filter_map(|broker| broker["broker"].as_str().map(str::to_owned)).collect()
}

/// Notes who works on a run, and how far it is.
fn note(view: &Value, result: &mut FleetRunResult) {
    result.brokers.extend(at_work(view));
    result.phases.extend(view["phase"].as_str().map(str::to_owned));
}
