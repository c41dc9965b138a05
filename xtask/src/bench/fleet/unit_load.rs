//! Brokers that move nothing: they lease and commit units over NATS at a steady rate.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hakobu_core::event::{Event, Observer};
use hakobu_core::path::EntryPath;
use hakobu_fleet::bus::BrokerBus;
use hakobu_fleet::bus::nats::broker::NatsBrokerBus;
use hakobu_fleet::bus::nats::random_number;
use hakobu_fleet::bus::nats::settings::NatsOptions;
use hakobu_fleet::message::{
    BrokerCall, BrokerReport, BrokerRequest, CommittedWork, GrantedUnit, LeaderAnswer,
};
use hakobu_fleet::message_form::{decode, encode};
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_fleet::unit::{UnitItem, UnitWork};
use hakobu_testkit::nats::{NatsConfiguration, NatsServer};
use serde_json::json;

use super::FleetBench;
use super::process_meter::{peak_bytes, processor_seconds};
use super::results::{FleetBound, FleetRow};
use super::served::ServedFleet;
use crate::bench::session::say;

const GROUP: &str = "bench";
const UNITS_PER_SECOND: u32 = 1000;
const SECONDS: u64 = 600;
const BROKERS: u32 = 16;
/// The slots that each broker says it has, so that what the first unit gives away becomes as many units.
const SLOTS: u16 = 16;
/// The units that wait or are worked on.
const UNITS: usize = 512;
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
const REPORT_EVERY: Duration = Duration::from_secs(2);
/// The pause after there was no unit.
const PAUSE: Duration = Duration::from_millis(5);
const ROOT: &str = "some/directory/of-a-tree";

/// A broker that moves nothing.
struct IdleMover {
    bus: NatsBrokerBus,
    name: BrokerName,
    process: u64,
}

struct NoNotices;

impl Observer for NoNotices {
    fn event(&self, _event: Event) {}
}

impl FleetBench<'_> {
    /// Measures the control plane under many units.
    pub(super) fn units(&self) -> Result<Vec<FleetRow>> {
        let (scratch, program) = (&self.prepared.scratch, &self.prepared.program);
        let nats = NatsServer::start(&NatsConfiguration::default()).context("starting nats-server")?;
        let url = nats.url();
        let fleet =
            ServedFleet::start(scratch, program, &["--no-broker", "--nats", &url, "--nats-group", GROUP])?;
        let movers: Vec<IdleMover> =
            (0..BROKERS).map(|number| IdleMover::start(&url, number)).collect::<Result<_>>()?;
        movers.iter().try_for_each(IdleMover::join)?;
        let run = fleet.copy(GROUP, Path::new("/nowhere"), Path::new("/nowhere-else"), &[])?;
        movers.first().context("there is no broker")?.give_all()?;
        let (before_bytes, before_seconds) = (fleet.compact_bytes()?, processor_seconds(fleet.id())?);
        let time = Duration::from_secs(self.sized(SECONDS));
        let (began, committed) = (Instant::now(), AtomicU64::new(0));
        thread::scope(|scope| {
            let threads: Vec<_> = (0..BROKERS)
                .zip(&movers)
                .map(|(number, mover)| {
                    let committed = &committed;
                    scope.spawn(move || mover.pass(number, began, time, committed))
                })
                .collect();
            threads.into_iter().try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(_) => bail!("a broker failed"),
            })
        })?;
        scratch.go_on()?;
        let seconds = began.elapsed().as_secs_f64();
        let committed = committed.into_inner() as f64;
        let busy = (processor_seconds(fleet.id())? - before_seconds) / seconds;
        let memory = peak_bytes(fleet.id())? / f64::from(1 << 20);
        let bytes = fleet.compact_bytes()?.saturating_sub(before_bytes) as f64 / committed.max(1.0);
        fleet.client.order("POST", &format!("/api/v1/runs/{run}/cancel"), Some(&json!({})))?;
        let rate = committed / seconds;
        say(&format!(
            "{rate:.0} units a second, {busy:.2} processors, {memory:.0} MiB, {bytes:.0} bytes a unit"
        ));
        let row = |title: &str, unit, value, bound| FleetRow {
            title: title.to_owned(),
            unit,
            values: vec![value],
            bound,
            notes: format!("{seconds:.0} s"),
        };
        Ok(vec![
            row("units committed", "a second", rate, FleetBound::AtLeast(0.99 * f64::from(UNITS_PER_SECOND))),
            row("processors that serve takes for them", "", busy, FleetBound::AtMost(1.0)),
            row("ledger after compaction", "bytes a unit", bytes, FleetBound::AtMost(200.0)),
            row("memory of serve at most", "MiB", memory, FleetBound::AtMost(256.0)),
        ])
    }
}

impl IdleMover {
    fn start(url: &str, number: u32) -> Result<Self> {
        let settings = NatsOptions { servers: url.to_owned(), ..NatsOptions::default() }.check()?;
        let name = BrokerName::new(format!("b{number}"))?;
        let bus = NatsBrokerBus::start(settings, GroupName::new(GROUP)?, name.clone(), Arc::new(NoNotices))?;
        Ok(Self { bus, name, process: random_number()? })
    }

    fn ask(&self, request: BrokerRequest) -> Result<LeaderAnswer> {
        let call = BrokerCall { broker: self.name.clone(), process: self.process, request };
        Ok(decode(&self.bus.call(encode(&call)?, ANSWER_LIMIT)?)?)
    }

    fn report(&self) -> Result<()> {
        let report = BrokerReport { version: "bench".to_owned(), slots: SLOTS, ..BrokerReport::default() };
        match self.ask(BrokerRequest::Report(report))? {
            LeaderAnswer::Orders(_) => Ok(()),
            answer => bail!("a report was answered with {answer:?}"),
        }
    }

    /// Reports until the control plane answers.
    fn join(&self) -> Result<()> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        while let Err(error) = self.report() {
            if Instant::now() >= deadline {
                return Err(error);
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Returns a unit, if there is one.
    fn lease(&self) -> Result<Option<GrantedUnit>> {
        match self.ask(BrokerRequest::Lease { offered: Vec::new() })? {
            LeaderAnswer::Leases(units) => Ok(units.into_iter().next()),
            answer => bail!("a request for units was answered with {answer:?}"),
        }
    }

    /// Commits a unit that gives items away.
    fn commit(&self, unit: GrantedUnit, items: Vec<UnitItem>) -> Result<()> {
        let given = vec![UnitWork::Items(items).encode()?];
        let result = CommittedWork { given, counters: "{}".to_owned(), ..CommittedWork::default() };
        match self.ask(BrokerRequest::Commit { lease: unit.lease, result: Box::new(result) })? {
            LeaderAnswer::Done => Ok(()),
            answer => bail!("a commit was answered with {answer:?}"),
        }
    }

    /// Takes the first unit of the run, and gives all of it away.
    fn give_all(&self) -> Result<()> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        let first = loop {
            if let Some(first) = self.lease()? {
                break first;
            }
            ensure!(Instant::now() < deadline, "the run has no unit");
            sleep(PAUSE);
        };
        self.commit(first, (0..UNITS).map(item).collect::<Result<_>>()?)
    }

    /// Leases and commits at a steady rate, each unit with one more.
    fn pass(&self, number: u32, began: Instant, time: Duration, committed: &AtomicU64) -> Result<()> {
        let mut reported = Instant::now();
        for turn in 0_u32.. {
            let due = Duration::from_secs(1).saturating_mul(turn * BROKERS + number) / UNITS_PER_SECOND;
            if due >= time {
                break;
            }
            sleep((began + due).saturating_duration_since(Instant::now()));
            if began.elapsed() >= time {
                break;
            }
            if reported.elapsed() >= REPORT_EVERY {
                self.report()?;
                reported = Instant::now();
            }
            let Some(unit) = self.lease()? else {
                sleep(PAUSE);
                continue;
            };
            let hakobu_fleet::message::GrantedWork::Copy(bytes) = &unit.work else { bail!("another phase") };
            let UnitWork::Items(items) = UnitWork::decode(bytes)? else { bail!("another kind of unit") };
            self.commit(unit, items)?;
            committed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn item(number: usize) -> Result<UnitItem> {
    Ok(UnitItem::whole(0, EntryPath::new(format!("{ROOT}/with-a-number-{number}"))?))
}
