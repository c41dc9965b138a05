//! Trees that brokers copy while things happen to NATS.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hakobu_fleet::bus::nats::broker::NatsBrokerBus;
use hakobu_fleet::bus::{BrokerBus, LeaderBus};
use hakobu_fleet::change::{LedgerAnswer, LedgerChange};
use hakobu_fleet::ids::RunId;
use hakobu_fleet::leader::Leader;
use hakobu_fleet::ledger::sqlite::SqliteLedger;
use hakobu_fleet::names::BrokerName;
use hakobu_fleet::run::RunOutcome;
use hakobu_fleet::run_request::{FleetRequest, LocationText};
use hakobu_testkit::nats::NatsServer;
use tempfile::TempDir;

use crate::fleet::Fleet;
use crate::lease_watch::{LeaseWatch, SeenLease};
use crate::servers::{Answering, Passwords, RawClient, accounts, broker_name, site, wait_until};
use crate::trees;

const LIMIT: Duration = Duration::from_secs(180);
const LEASE: Duration = Duration::from_secs(10);

/// A run of three brokers.
pub struct NatsRun {
    folder: TempDir,
    passwords: Passwords,
    pub fleet: Fleet,
    run: RunId,
    watch: LeaseWatch,
    /// The leases that brokers had when something happened.
    in_flight: Vec<SeenLease>,
}

impl NatsRun {
    fn start(url: &str) -> Self {
        Self::start_by(url, "test", |bus| Arc::new(bus))
    }

    /// Starts a run with brokers of a version, whose buses `bus` makes.
    pub fn start_by(url: &str, version: &str, bus: impl Fn(NatsBrokerBus) -> Arc<dyn BrokerBus>) -> Self {
        use std::os::unix::ffi::OsStrExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().join("source"), folder.path().join("target"));
        fs::create_dir(&source).unwrap();
        trees::make(&source, 700, 60);
        let passwords = Passwords::new();
        let file = folder.path().join("ledger");
        let ledger = Box::new(SqliteLedger::open(&file).unwrap());
        let mut fleet = Fleet::with_buses(ledger, LEASE, site("site-a"), |control| {
            let bus: Arc<dyn LeaderBus> = Arc::new(passwords.leader(url, Arc::new(control.clone())));
            Ok(vec![bus])
        });
        for number in 0..3 {
            let name = broker_name(&format!("b{number}"));
            fleet.add_broker_of(&name, version, bus(passwords.broker(url, "site-a", name.as_str())));
        }
        let text = |path: &Path| LocationText(path.as_os_str().as_bytes().to_vec());
        let request = FleetRequest {
            sources: vec![text(&source.join(""))],
            target: text(&target),
            ..FleetRequest::default()
        };
        let run = fleet.start(&request);
        // Slow enough for something to happen in the middle.
        let limits = r#"{"version":1,"operations_per_second":1500}"#.to_owned();
        let limited = fleet.plane.handle().apply(LedgerChange::LimitRun(run, Some(limits)));
        assert_eq!(limited.unwrap(), LedgerAnswer::Done);
        let watch = LeaseWatch::of_file(&file);
        Self { folder, passwords, fleet, run, watch, in_flight: Vec::new() }
    }

    /// Notes the leases that brokers have now.
    fn note_leases(&mut self) {
        let leases = self.watch.leases();
        assert!(!leases.is_empty());
        self.in_flight.extend(leases);
    }

    /// Returns the bus of a further broker.
    pub fn bus(&self, url: &str, name: &BrokerName) -> NatsBrokerBus {
        self.passwords.broker(url, "site-a", name.as_str())
    }

    /// Has a broker take no further units, or lets it take them again.
    pub fn drain(&self, name: &BrokerName, is_draining: bool) {
        let drained = self.fleet.plane.handle().apply(LedgerChange::DrainBroker(name.clone(), is_draining));
        assert_eq!(drained.unwrap(), LedgerAnswer::Done);
    }

    /// Returns the number of units of a broker, if it is there.
    pub fn units_of(&self, name: &BrokerName) -> Option<usize> {
        let name = name.clone();
        let asked = self
            .fleet
            .plane
            .handle()
            .ask(move |leader| leader.live_brokers().get(&name).map(|live| live.units.len()));
        asked.unwrap()
    }

    /// Waits until a broker works.
    pub fn wait_for_work_of(&self, name: &BrokerName) {
        wait_until("work of a broker", || self.units_of(name).is_some_and(|units| units > 0));
    }

    /// Returns the versions of the brokers that are there.
    pub fn versions(&self) -> Vec<String> {
        let versions = |leader: &mut Leader| {
            leader.live_brokers().values().map(|live| live.version.clone()).collect::<Vec<_>>()
        };
        self.fleet.plane.handle().ask(versions).unwrap()
    }

    /// Waits until so many units are committed.
    pub fn wait_for_units(&self, count: u64) {
        let run = self.run;
        wait_until("units", || {
            let row = self.fleet.plane.handle().ask(move |leader| leader.ledger().run(run));
            let row = row.unwrap().unwrap().unwrap();
            assert_eq!(row.ended, None, "it is over before anything has happened");
            row.units.committed >= count
        });
    }

    /// Lets the run go on as fast as it can.
    pub fn lift_limits(&self) {
        let lifted = self.fleet.plane.handle().apply(LedgerChange::LimitRun(self.run, None));
        assert_eq!(lifted.unwrap(), LedgerAnswer::Done);
    }

    pub fn finish(mut self) {
        let row = self.fleet.finish(self.run, LIMIT);
        println!("{:?} {} ms", row.units, row.ended.unwrap().get() - row.started.get());
        assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0), "{row:?}");
        trees::assert_equal(&self.folder.path().join("source"), &self.folder.path().join("target"));
        self.watch.assert_returned_of(&self.in_flight);
        let counters = &row.counters;
        let again = counters.entries_updated + counters.entries_unchanged + counters.entries_attributes_only;
        assert!(again == 0 || !self.watch.returned().is_empty(), "{again} entries of no unit again: {row:?}");
        self.fleet.end_brokers();
    }
}

#[test]
fn three_brokers_copy_a_tree_over_nats() {
    let server = NatsServer::start(&accounts()).unwrap();
    let run = NatsRun::start(&server.url());
    run.finish();
}

#[test]
fn a_server_that_is_killed_and_started_again_costs_time_only() {
    let mut server = NatsServer::start(&accounts()).unwrap();
    let mut run = NatsRun::start(&server.url());
    run.wait_for_units(2);
    server.kill();
    std::thread::sleep(Duration::from_secs(2));
    run.note_leases();
    server.restart().unwrap();
    run.finish();
}

/// Deletes the stream of the group, or its consumer alone.
fn delete_stream(raw: &RawClient, is_consumer_alone: bool) {
    let context = raw.jetstream();
    raw.run(async {
        let Ok(stream) = context.stream_by_subject("hakobu.offer.site-a").await else { return };
        let deleted = match is_consumer_alone {
            true => context.delete_consumer_from_stream("brokers-site-a", &stream).await.is_ok(),
            false => context.delete_stream(&stream).await.is_ok(),
        };
        println!("deleted {stream} (consumer alone: {is_consumer_alone}): {deleted}");
    });
}

#[test]
fn streams_and_consumers_that_are_deleted_are_made_again() {
    let server = NatsServer::start(&accounts()).unwrap();
    let raw = RawClient::connect(&server.url(), "control-site-a", "hakobu.control.site-a");
    let mut run = NatsRun::start(&server.url());
    for is_consumer_alone in [true, false] {
        run.wait_for_units(2);
        run.note_leases();
        delete_stream(&raw, is_consumer_alone);
        std::thread::sleep(Duration::from_millis(300));
    }
    run.finish();
    // Afterwards as well, and under another name.
    let fleet = Passwords::new();
    let leader = fleet.leader(&server.url(), Answering::new(<[u8]>::to_vec));
    let broker = fleet.broker(&server.url(), "site-a", "after");
    wait_until("an answer", || broker.call(Vec::new(), Duration::from_secs(2)).is_ok());
    for is_consumer_alone in [true, false, true, false] {
        delete_stream(&raw, is_consumer_alone);
        wait_until("an offer", || {
            leader.offer(&site("site-a"), b"offer".to_vec());
            broker.next_offer(Duration::from_millis(200)).unwrap().is_some()
        });
    }
}

#[test]
fn one_of_three_servers_is_killed_and_all_three() {
    let mut servers = NatsServer::cluster(&accounts()).unwrap();
    let urls: Vec<_> = servers.iter().map(NatsServer::url).collect();
    let mut run = NatsRun::start(&urls.join(","));
    run.wait_for_units(1);
    servers[0].kill();
    std::thread::sleep(Duration::from_secs(1));
    run.note_leases();
    servers[0].restart().unwrap();
    run.wait_for_units(4);
    servers.iter_mut().for_each(NatsServer::kill);
    std::thread::sleep(Duration::from_secs(1));
    run.note_leases();
    for server in &mut servers {
        server.restart().unwrap();
    }
    run.finish();
}
