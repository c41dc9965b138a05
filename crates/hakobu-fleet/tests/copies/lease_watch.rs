//! The leases of a ledger, seen from outside while a control plane uses it.
//!
//! Each lease and each return raises the epoch of a unit by one. So the epoch tells how often a unit was given out again, also
//! after it was committed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hakobu_testkit::postgres::PostgresServer;
use rusqlite::{Connection, OpenFlags};

/// The time for what the ledger must show.
const LIMIT: Duration = Duration::from_secs(60);
/// The time between two looks at a file.
const FILE_LOOK: Duration = Duration::from_millis(20);
/// The time between two looks at a database, each of which starts a process.
const DATABASE_LOOK: Duration = Duration::from_millis(200);
/// The units that are open, with their brokers, and those that are committed.
const FILE_UNITS: &str =
    "SELECT id, epoch, broker FROM unit UNION ALL SELECT unit, epoch, NULL FROM committed";
const DATABASE_UNITS: &str = "SELECT id || ' ' || epoch || ' ' || coalesce(broker, '') FROM unit \
                              UNION ALL SELECT unit || ' ' || epoch || ' ' FROM committed";

/// A lease of a unit, or its state between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenLease {
    pub unit: u64,
    /// Even: the unit is ready.
    pub epoch: u64,
    /// None: the unit is ready or committed.
    pub broker: Option<String>,
}

/// The leases that were seen so far.
#[derive(Default)]
struct SeenLeases {
    looks: u64,
    now: Vec<SeenLease>,
    /// The first look at each epoch of each unit, and the broker that had it then.
    first: BTreeMap<(u64, u64), (Instant, Option<String>)>,
}

/// Looks at the units of a ledger again and again.
pub struct LeaseWatch {
    seen: Arc<Mutex<SeenLeases>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LeaseWatch {
    /// Watches a ledger in a file.
    pub fn of_file(ledger: &Path) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(ledger, flags).unwrap();
        Self::start(FILE_LOOK, move || {
            let mut units = connection.prepare(FILE_UNITS).ok()?;
            let unit = |row: &rusqlite::Row<'_>| {
                let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
                Ok(SeenLease { unit: number(0)?, epoch: number(1)?, broker: row.get(2)? })
            };
            units.query_map([], unit).ok()?.collect::<Result<_, _>>().ok()
        })
    }

    /// Watches a ledger in a database.
    pub fn of_database(server: Arc<PostgresServer>) -> Self {
        Self::start(DATABASE_LOOK, move || {
            let unit = |line: &str| {
                let mut words = line.split(' ');
                let mut number = || words.next()?.parse().ok();
                let (unit, epoch) = (number()?, number()?);
                let broker = words.next().filter(|name| !name.is_empty()).map(str::to_owned);
                Some(SeenLease { unit, epoch, broker })
            };
            server.sql(DATABASE_UNITS).ok()?.lines().map(unit).collect()
        })
    }

    /// Looks by a function, which returns nothing while the ledger does not answer.
    fn start(every: Duration, mut look: impl FnMut() -> Option<Vec<SeenLease>> + Send + 'static) -> Self {
        let (seen, ends) = (Arc::<Mutex<SeenLeases>>::default(), Arc::<AtomicBool>::default());
        let (into, until) = (seen.clone(), ends.clone());
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Acquire) {
                if let Some(now) = look() {
                    let mut seen = lock(&into);
                    for lease in &now {
                        let first = seen.first.entry((lease.unit, lease.epoch));
                        first.or_insert_with(|| (Instant::now(), lease.broker.clone()));
                    }
                    seen.looks += 1;
                    seen.now = now;
                }
                std::thread::park_timeout(every);
            }
        });
        Self { seen, ends, thread: Some(thread) }
    }

    /// Returns the leases that brokers have now.
    pub fn leases(&self) -> Vec<SeenLease> {
        let before = lock(&self.seen).looks;
        // The first of these may have begun before.
        self.wait("two looks at the ledger", |seen| {
            (seen.looks > before + 1)
                .then(|| seen.now.iter().filter(|lease| lease.broker.is_some()).cloned().collect())
        })
    }

    /// Returns the leases that a broker has now.
    pub fn leases_of(&self, broker: &str) -> Vec<SeenLease> {
        self.leases().into_iter().filter(|lease| lease.broker.as_deref() == Some(broker)).collect()
    }

    /// Returns the leases that a broker has or had.
    pub fn all_leases_of(&self, broker: &str) -> Vec<SeenLease> {
        let seen = lock(&self.seen);
        let of_broker = seen.first.iter().filter(|(_, (_, by))| by.as_deref() == Some(broker));
        let lease = |(unit, epoch): (u64, u64)| SeenLease { unit, epoch, broker: Some(broker.to_owned()) };
        of_broker.map(|(key, _)| lease(*key)).collect()
    }

    /// Waits until a broker has a lease. Returns it.
    pub fn wait_for_lease(&self) -> SeenLease {
        self.wait("a lease", |seen| seen.now.iter().find(|lease| lease.broker.is_some()).cloned())
    }

    /// Waits until the unit of a lease is leased again. Returns the moment, and the new lease if it is still there.
    pub fn wait_for_next_lease(&self, lease: &SeenLease) -> (Instant, Option<SeenLease>) {
        self.wait("another lease of the unit", |seen| {
            let mut later = seen.first.range((lease.unit, lease.epoch + 1)..=(lease.unit, u64::MAX));
            let (_, (at, _)) = later.find(|((_, epoch), _)| epoch % 2 == 1)?;
            Some((*at, seen.now.iter().find(|now| now.unit == lease.unit).cloned()))
        })
    }

    /// Returns the moment at which the unit of a lease was seen as returned, if it was.
    pub fn returned_at(&self, lease: &SeenLease) -> Option<Instant> {
        let seen = lock(&self.seen);
        let mut later = seen.first.range((lease.unit, lease.epoch + 1)..=(lease.unit, u64::MAX));
        later.next().map(|(_, (at, _))| *at)
    }

    /// Returns the number of times that each unit was returned without being committed, if it was.
    pub fn returned(&self) -> BTreeMap<u64, u64> {
        let seen = lock(&self.seen);
        let last: BTreeMap<u64, u64> = seen.first.keys().copied().collect();
        last.into_iter().map(|(unit, epoch)| (unit, epoch / 2)).filter(|(_, times)| *times > 0).collect()
    }

    /// Fails if a unit was given out again more often than these leases were lost.
    #[track_caller]
    pub fn assert_returned_of(&self, lost: &[SeenLease]) {
        let returned = self.returned();
        println!("{} leases were lost, and {} units returned", lost.len(), returned.values().sum::<u64>());
        for (unit, times) in &returned {
            let had = lost.iter().filter(|lease| lease.unit == *unit).count() as u64;
            assert!(*times <= had, "unit {unit} was returned {times} times, and lost {had} times: {lost:?}");
        }
    }

    fn wait<T>(&self, what: &str, look: impl Fn(&SeenLeases) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(found) = look(&lock(&self.seen)) {
                return found;
            }
            assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for LeaseWatch {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _has_panicked = thread.join();
        }
    }
}

fn lock(seen: &Mutex<SeenLeases>) -> MutexGuard<'_, SeenLeases> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
