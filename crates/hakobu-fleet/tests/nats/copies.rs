//! Trees that brokers copy while things happen to NATS.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hakobu_fleet::bus::LeaderBus;
use hakobu_fleet::ids::RunId;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::run::RunOutcome;
use hakobu_fleet::run_request::{FleetRequest, LocationText};
use hakobu_testkit::nats::NatsServer;
use tempfile::TempDir;

use crate::fleet::Fleet;
use crate::servers::{Passwords, accounts, site, wait_until};
use crate::trees;

const LIMIT: Duration = Duration::from_secs(180);
const LEASE: Duration = Duration::from_secs(10);

/// A run of three brokers.
struct NatsRun {
    folder: TempDir,
    _passwords: Passwords,
    fleet: Fleet,
    run: RunId,
}

impl NatsRun {
    fn start(url: &str) -> Self {
        use std::os::unix::ffi::OsStrExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().join("source"), folder.path().join("target"));
        fs::create_dir(&source).unwrap();
        trees::make(&source, 120, 60);
        let passwords = Passwords::new();
        let mut fleet =
            Fleet::with_buses(Box::new(MemoryLedger::default()), LEASE, site("site-a"), |control| {
                let bus: Arc<dyn LeaderBus> = Arc::new(passwords.leader(url, Arc::new(control.clone())));
                Ok(vec![bus])
            });
        for number in 0..3 {
            let name = format!("b{number}");
            fleet.add_broker_at(&name, Arc::new(passwords.broker(url, "site-a", &name)));
        }
        let text = |path: &Path| LocationText(path.as_os_str().as_bytes().to_vec());
        let request =
            FleetRequest { sources: vec![text(&source)], target: text(&target), ..FleetRequest::default() };
        let run = fleet.start(&request);
        Self { folder, _passwords: passwords, fleet, run }
    }

    /// Waits until so many units are committed.
    fn wait_for_units(&self, count: u64) {
        let run = self.run;
        wait_until("units", || {
            let row = self.fleet.plane.handle().ask(move |leader| leader.ledger().run(run));
            let row = row.unwrap().unwrap().unwrap();
            row.ended.is_some() || row.units.committed >= count
        });
    }

    fn finish(mut self) {
        let row = self.fleet.finish(self.run, LIMIT);
        assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0), "{row:?}");
        trees::assert_equal(&self.folder.path().join("source"), &self.folder.path().join("target"));
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
    let run = NatsRun::start(&server.url());
    run.wait_for_units(2);
    server.kill();
    std::thread::sleep(Duration::from_secs(2));
    server.restart().unwrap();
    run.finish();
}
