//! A control plane with brokers in this process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::location::Location;
use hakobu_core::request::{CopyRequest, Deletion};
use hakobu_fleet::bus::{BrokerBus, LeaderBus};
use hakobu_fleet::change::{LedgerAnswer, LedgerChange};
use hakobu_fleet::control_loop::ControlHandle;
use hakobu_fleet::control_plane::ControlPlane;
use hakobu_fleet::fleet_clock::{FleetClock, MachineClock};
use hakobu_fleet::ids::RunId;
use hakobu_fleet::leader::LeaderSettings;
use hakobu_fleet::lease_token::LeaseKey;
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_fleet::reach::BrokerReach;
use hakobu_fleet::run::{NewRun, RunRow};
use hakobu_fleet::run_request::{FleetRequest, RequestReader, RunVerb};
use hakobu_fleet::secrets::SecretPlaces;
use hakobu_fleet::sent_credentials::CredentialReader;
use hakobu_fleet::unit::UnitWork;
use hakobu_fleet::worker::{BrokerWorker, RangeSizes, WorkerSettings};

/// Reads requests without options. A `sync` deletes.
pub struct PlainReader;

impl RequestReader for PlainReader {
    fn read(&self, request: &FleetRequest) -> Result<CopyRequest> {
        let location = |text: &[u8]| {
            let text = String::from_utf8_lossy(text);
            Location::parse(text.as_bytes())
                .map_err(|error| Error::new(ErrorKind::Usage, "reading a location", error.to_string()))
        };
        let sources = request.sources.iter().map(|text| location(&text.0)).collect::<Result<_>>()?;
        let deletion =
            (request.verb == RunVerb::Sync).then(|| Deletion { agreed: true, ..Deletion::default() });
        Ok(CopyRequest { sources, target: location(&request.target.0)?, deletion, ..CopyRequest::default() })
    }
}

/// Keeps notices, and prints them, so that they are shown if a test fails.
#[derive(Default)]
pub struct PrintedNotices(Mutex<Vec<String>>);

impl PrintedNotices {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for PrintedNotices {
    fn event(&self, event: Event) {
        if let Event::Notice { words } = event {
            println!("{words}");
            self.0.lock().unwrap().push(words);
        }
    }
}

pub struct Fleet {
    pub plane: ControlPlane,
    /// The sizes of ranges of large files, for the brokers that are added from now on.
    pub ranges: RangeSizes,
    /// The notices of all brokers.
    pub notices: Arc<PrintedNotices>,
    group: GroupName,
    brokers: Vec<(BrokerName, Arc<AtomicBool>, JoinHandle<()>)>,
    processes: u64,
}

pub fn group() -> GroupName {
    GroupName::new("local").unwrap()
}

impl Fleet {
    pub fn new(ledger: Box<dyn Ledger>, lease: Duration) -> Self {
        Self::with_buses(ledger, lease, group(), |_| Ok(Vec::new()))
    }

    /// Starts a control plane that has further buses.
    pub fn with_buses(
        ledger: Box<dyn Ledger>,
        lease: Duration,
        group: GroupName,
        buses: impl FnOnce(&ControlHandle) -> Result<Vec<Arc<dyn LeaderBus>>>,
    ) -> Self {
        let key = LeaseKey::new(b"a secret of a test");
        let settings = LeaderSettings { lease, split_after: Duration::from_millis(100), key };
        let clock: Arc<dyn FleetClock> = Arc::new(MachineClock);
        let plane = ControlPlane::start(ledger, clock, settings, buses).unwrap();
        let (ranges, notices) = (RangeSizes::default(), Arc::default());
        Self { plane, ranges, notices, group, brokers: Vec::new(), processes: 0 }
    }

    pub fn add_broker(&mut self, name: &str) {
        let bus: Arc<dyn BrokerBus> = Arc::new(self.plane.local().broker(&self.group));
        self.add_broker_at(name, bus);
    }

    pub fn add_broker_at(&mut self, name: &str, bus: Arc<dyn BrokerBus>) {
        self.add_broker_of(&BrokerName::new(name).unwrap(), "test", bus);
    }

    /// Starts a broker whose program has a version.
    pub fn add_broker_of(&mut self, name: &BrokerName, version: &str, bus: Arc<dyn BrokerBus>) {
        self.processes += 1;
        let ending = Arc::new(AtomicBool::new(false));
        let settings = WorkerSettings {
            name: name.clone(),
            version: version.to_owned(),
            slots: 1,
            process: self.processes,
            reach: BrokerReach::default(),
        };
        let worker = BrokerWorker::new(
            settings,
            (bus, Arc::new(PlainReader)),
            (Arc::new(MachineClock), self.notices.clone()),
            (ending.clone(), Arc::default()),
        )
        .with_ranges(self.ranges)
        .with_credentials(CredentialReader::new(SecretPlaces::default()).unwrap());
        self.brokers.push((name.clone(), ending, std::thread::spawn(move || worker.run())));
    }

    pub fn start(&self, request: &FleetRequest) -> RunId {
        self.start_with(request, UnitWork::All)
    }

    pub fn start_with(&self, request: &FleetRequest, work: UnitWork) -> RunId {
        self.start_in(self.group.clone(), request, work)
    }

    /// Starts a run of another group.
    pub fn start_in(&self, group: GroupName, request: &FleetRequest, work: UnitWork) -> RunId {
        let run = NewRun {
            relationship: None,
            group,
            request: request.json().unwrap(),
            started: MachineClock.moment(),
            units: vec![work],
        };
        match self.plane.handle().apply(LedgerChange::StartRun(Box::new(run))).unwrap() {
            LedgerAnswer::RunStarted(run) => run,
            other => panic!("{other:?}"),
        }
    }

    /// Waits for the end of a run.
    pub fn finish(&self, run: RunId, limit: Duration) -> RunRow {
        let began = Instant::now();
        loop {
            let row =
                self.plane.handle().ask(move |leader| leader.ledger().run(run)).unwrap().unwrap().unwrap();
            if row.ended.is_some() {
                let counters = &row.counters;
                // Those that a retry links may not have failed.
                let is_retry = FleetRequest::parse(&row.request).unwrap().is_retry;
                assert!(
                    is_retry || counters.figures().entries_done <= counters.entries_scanned,
                    "{counters:?}"
                );
                return row;
            }
            assert!(began.elapsed() < limit, "it is not done after {limit:?}: {row:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks a broker to end, and waits for it.
    pub fn end_broker(&mut self, name: &BrokerName) {
        let at = self.brokers.iter().position(|(other, ..)| other == name).unwrap();
        let (_, ending, thread) = self.brokers.remove(at);
        ending.store(true, Ordering::Release);
        thread.join().unwrap();
    }

    /// Asks brokers to end, and waits for them.
    pub fn end_brokers(&mut self) {
        for (_, ending, _) in &self.brokers {
            ending.store(true, Ordering::Release);
        }
        while let Some(name) = self.brokers.first().map(|(name, ..)| name.clone()) {
            self.end_broker(&name);
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end_brokers();
    }
}
