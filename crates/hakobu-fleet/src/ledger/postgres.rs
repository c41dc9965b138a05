//! A ledger in PostgreSQL, for two or more control planes of which one leads.
//!
//! Each transaction raises a number in a row that also has the leader's term. So a control plane that was deposed, knowing it or
//! not, changes nothing; and one whose connection is lost during a commit sees, connected anew, if it took place.

mod campaign;
mod errors;
mod migrations;
mod packs;
mod queries;
mod restored;
mod row_buffers;
mod session;
mod settings;
mod sweep;
mod texts;
mod tls;
mod transaction;
mod unit_cache;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use hakobu_core::error::{Error, ErrorKind, Result};

pub use self::migrations::SCHEMA_VERSION;
pub use self::restored::mark_restored;
use self::session::{SessionThread, SqlReply, SqlRequest, values};
pub use self::settings::PostgresSettings;
use self::texts::{READING, UnitNumbers, WRITING};
use self::transaction::PostgresTransaction;
use self::unit_cache::UnitCache;
use super::apply::{apply_batch, check_batch};
use super::leadership::{Leadership, LeadershipView};
use super::rows::{UNIT_COLUMNS, column, corrupt, id, run_row, unit_record};
use crate::change::{LedgerAnswer, LedgerChange};
use crate::ids::{Epoch, RunId, UnitId, UnitKey};
use crate::transition::UnitTransition;

/// The time for which a lost connection is tried again before the caller learns of it.
const RETRY_LIMIT: Duration = Duration::from_secs(30);
/// The pauses before connecting again, from the first to the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The number of units whose work, up to 1 MiB each, is read together.
const WORKS_TOGETHER_MAX: usize = 256;

/// A ledger in a database. It must be used outside of asynchronous code, because each call waits for the server.
pub struct PostgresLedger {
    thread: SessionThread,
    settings: Arc<PostgresSettings>,
    /// The name of the sessions of this control plane, by which another one ends them.
    name: String,
    leadership: Option<LeadershipView>,
    /// The term and the number of its last transaction, if nothing happened since they were read.
    known: Option<(u64, u64)>,
    numbers: UnitNumbers,
}

impl std::fmt::Debug for PostgresLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresLedger").field("place", &self.settings.place()).finish_non_exhaustive()
    }
}

/// A transaction whose commit may or may not have taken place.
struct DoubtfulCommit<T> {
    term: u64,
    batch: u64,
    result: T,
}

impl PostgresLedger {
    /// Connects, and brings the tables to this program's version. Nothing can be written before this control plane leads: see
    /// [`PostgresLedger::campaign`].
    ///
    /// # Errors
    /// `ConnectionLost` if the server does not answer, `Unauthenticated`, `NotFound` if there is no such database, `Unsupported`
    /// if its version is newer than this program, `Usage` if it is none of this program.
    pub fn open(settings: &PostgresSettings) -> Result<Self> {
        let mut random = [0; 8];
        rand::fill(&mut random)
            .map_err(|_| Error::new(ErrorKind::Io, "opening the ledger", "there are no random numbers"))?;
        let name = format!("hakobu-{:016x}", u64::from_ne_bytes(random));
        let settings = Arc::new(settings.clone());
        let mut thread = SessionThread::new(settings.clone(), name.clone())?;
        let opened = thread.connect().and_then(|()| migrations::migrate(&mut thread));
        opened.map_err(|error| error.at(settings.place()))?;
        let (leadership, known, numbers) = (None, None, UnitNumbers::default());
        Ok(Self { thread, settings, name, leadership, known, numbers })
    }

    /// Returns the URL of the database, without password and parameters.
    pub fn place(&self) -> &str {
        self.settings.place()
    }

    /// Begins to ask for the leadership under a name, which is shown to people. It is asked for until the answer is dropped.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn campaign(&mut self, name: &str) -> Result<Leadership> {
        let leadership = campaign::start(self.settings.clone(), name, &self.name)?;
        self.leadership = Some(leadership.view());
        Ok(leadership)
    }

    /// Adds the database to an error.
    fn at<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.at(self.settings.place()))
    }

    fn apply_checked(&mut self, changes: &[LedgerChange]) -> Result<Vec<LedgerAnswer>> {
        check_batch(changes)?;
        let wanted = WantedRows::of(changes);
        let answers = self.write(&wanted, |transaction| apply_batch(transaction, changes));
        self.at(answers)
    }

    /// Makes a transaction, again if the connection is lost, and once in all.
    fn write<T>(
        &mut self,
        wanted: &WantedRows,
        mut change: impl FnMut(&mut PostgresTransaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let term = |ledger: &Self| ledger.leadership.as_ref().and_then(LeadershipView::last_term);
        let mut leading = term(self).ok_or_else(deposed)?;
        let (deadline, mut pause, mut doubtful) = (Instant::now() + RETRY_LIMIT, PAUSES.0, None);
        loop {
            // Without an answer of the database it is still the leader as far as it knows.
            leading = term(self).unwrap_or(leading);
            let error = match self.attempt(leading, wanted, &mut change, &mut doubtful) {
                Ok(Some(result)) => return Ok(result),
                Ok(None) => None,
                Err(error) if error.may_retry() => Some(error),
                Err(error) => return Err(error),
            };
            if Instant::now() >= deadline {
                let silent = Error::new(ErrorKind::TimedOut, WRITING, "other transactions do not end");
                return Err(error.unwrap_or(silent));
            }
            if error.is_some() {
                self.known = None;
                self.thread.disconnect();
                thread::sleep(pause);
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }

    /// Makes a transaction. Returns `None` if what was known of the last one was not true.
    fn attempt<T>(
        &mut self,
        term: u64,
        wanted: &WantedRows,
        change: &mut impl FnMut(&mut PostgresTransaction<'_>) -> Result<T>,
        doubtful: &mut Option<DoubtfulCommit<T>>,
    ) -> Result<Option<T>> {
        self.thread.connect()?;
        let last = match self.known {
            Some((known, last)) if known == term => last,
            _ => self.last_batch(term)?,
        };
        if let Some(commit) = doubtful.take_if(|commit| commit.term == term && commit.batch == last) {
            return Ok(Some(commit.result));
        }
        let batch = last.saturating_add(1);
        let fence = "UPDATE ledger SET batch = $1 WHERE term = $2 AND batch = $3 AND version = $4 RETURNING first_epoch";
        let numbers = values![
            batch.cast_signed(),
            term.cast_signed(),
            last.cast_signed(),
            SCHEMA_VERSION.cast_signed(),
        ];
        let mut requests = vec![SqlRequest::new("BEGIN", values![]), SqlRequest::new(fence, numbers)];
        requests.extend(wanted.requests());
        let replies = self.thread.send(WRITING, requests)?;
        let first_epoch = replies.get(1).and_then(|reply| reply.rows.first()).map(|row| id::<Epoch>(row, 0));
        let Some(first_epoch) = first_epoch.transpose()? else {
            self.known = None;
            self.thread.batch(WRITING, "ROLLBACK")?;
            return Ok(None);
        };
        *doubtful = None;
        let (units, runs) = wanted.read(&replies[2..])?;
        let mut transaction =
            PostgresTransaction::new(&mut self.thread, &mut self.numbers, first_epoch, units, runs);
        let result = match change(&mut transaction) {
            Ok(result) => result,
            Err(error) => return Err(self.undo(error)),
        };
        let mut requests = transaction.finish();
        requests.push(SqlRequest::new("COMMIT", values![]));
        match self.thread.send(WRITING, requests) {
            Ok(_) => {
                self.known = Some((term, batch));
                Ok(Some(result))
            }
            Err(error) => {
                if error.may_retry() {
                    *doubtful = Some(DoubtfulCommit { term, batch, result });
                }
                Err(self.undo(error))
            }
        }
    }

    /// Ends a transaction that failed, and returns its error.
    fn undo(&mut self, error: Error) -> Error {
        self.known = None;
        if error.may_retry() || self.thread.batch(WRITING, "ROLLBACK").is_err() {
            self.thread.disconnect();
        }
        error
    }

    /// Reads the number of the last transaction of a term.
    ///
    /// # Errors
    /// `Locked` if it is over, `Unsupported` if a newer program has changed the tables.
    fn last_batch(&mut self, term: u64) -> Result<u64> {
        let sql = "SELECT version, term, batch FROM ledger";
        let replies = self.thread.send(READING, vec![SqlRequest::new(sql, values![])])?;
        let row = replies.first().and_then(|reply| reply.rows.first());
        let row = row.ok_or_else(|| corrupt("the row of the term is missing"))?;
        migrations::check_version(column(row, 0)?)?;
        let (current, batch) =
            (column::<i64>(row, 1)?.cast_unsigned(), column::<i64>(row, 2)?.cast_unsigned());
        if current != term {
            if let Some(leadership) = &self.leadership {
                leadership.depose(term);
            }
            self.numbers = UnitNumbers::default();
            return Err(deposed());
        }
        if self.known.is_none_or(|(known, _)| known != term) {
            // Numbers must be above those that another leader gave.
            self.numbers = UnitNumbers::default();
        }
        self.known = Some((term, batch));
        Ok(batch)
    }

    /// Sends a statement outside of a transaction, again if the connection is lost.
    fn read(&mut self, request: &SqlRequest) -> Result<SqlReply> {
        let (deadline, mut pause) = (Instant::now() + RETRY_LIMIT, PAUSES.0);
        loop {
            let sent = self.thread.connect().and_then(|()| self.thread.send(READING, vec![request.clone()]));
            match sent {
                Ok(replies) => {
                    let reply = replies.into_iter().next_back();
                    return reply.ok_or_else(|| corrupt("an answer is missing"));
                }
                Err(error) if error.may_retry() && Instant::now() < deadline => {
                    self.known = None;
                    self.thread.disconnect();
                    thread::sleep(pause);
                    pause = (pause * 2).min(PAUSES.1);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the error of a control plane that does not lead.
fn deposed() -> Error {
    Error::new(ErrorKind::Locked, WRITING, "this control plane does not lead")
        .hint("ask the one that leads; this one serves what can be read")
}

/// The rows that the changes of a batch need.
#[derive(Debug, Default)]
struct WantedRows {
    runs: Vec<i64>,
    units: Vec<UnitKey>,
    works: Vec<i64>,
}

impl WantedRows {
    fn of(changes: &[LedgerChange]) -> Self {
        let mut wanted = Self::default();
        for change in changes {
            wanted.add(change);
        }
        wanted.runs.sort_unstable();
        wanted.runs.dedup();
        wanted.works.truncate(WORKS_TOGETHER_MAX);
        wanted
    }

    fn add(&mut self, change: &LedgerChange) {
        let (key, wants_work) = match change {
            LedgerChange::Unit(key, transition) => (key, matches!(transition, UnitTransition::Lease { .. })),
            LedgerChange::Commit { key, result, .. } => (key, result.names_entries()),
            LedgerChange::Audited(_, inner) => return self.add(inner),
            _ => return,
        };
        self.runs.push(key.run.signed());
        self.units.push(*key);
        if wants_work {
            self.works.push(key.unit.signed());
        }
    }

    fn requests(&self) -> Vec<SqlRequest> {
        if self.units.is_empty() {
            return Vec::new();
        }
        let units: Vec<i64> = self.units.iter().map(|key| key.unit.signed()).collect();
        let runs: Vec<i64> = self.units.iter().map(|key| key.run.signed()).collect();
        let of_units =
            format!("SELECT {UNIT_COLUMNS} FROM unit JOIN run ON run.id = unit.run WHERE unit.id = ANY($1)");
        let of_runs = format!("SELECT {} FROM run WHERE id = ANY($1)", super::rows::RUN_COLUMNS);
        let of_committed = "SELECT run, unit, epoch FROM committed WHERE (run, unit) IN \
                            (SELECT * FROM unnest($1::bigint[], $2::bigint[]))";
        vec![
            SqlRequest::new(of_units, values![units.clone()]),
            SqlRequest::new(
                "SELECT unit, work FROM unit_work WHERE unit = ANY($1)",
                values![self.works.clone()],
            ),
            SqlRequest::new(of_committed, values![runs, units]),
            SqlRequest::new(of_runs, values![self.runs.clone()]),
        ]
    }

    /// Reads the answers to the requests. What they do not have is not there.
    fn read(
        &self,
        replies: &[SqlReply],
    ) -> Result<(UnitCache, std::collections::BTreeMap<RunId, Option<crate::run::RunRow>>)> {
        let (mut units, mut runs) = (UnitCache::default(), std::collections::BTreeMap::new());
        let [of_units, of_works, of_committed, of_runs] = replies else { return Ok((units, runs)) };
        for key in &self.units {
            units.set_stored(key.unit, None);
            units.set_committed(*key, None);
            runs.insert(key.run, None);
        }
        for row in &of_units.rows {
            let record = unit_record(row)?;
            units.set_stored(record.key.unit, Some(record));
        }
        for row in &of_works.rows {
            units.set_work(id::<UnitId>(row, 0)?, column(row, 1)?);
        }
        for row in &of_committed.rows {
            let key = UnitKey { run: id(row, 0)?, unit: id(row, 1)? };
            units.set_committed(key, Some(id(row, 2)?));
        }
        for row in &of_runs.rows {
            let run = run_row(row)?;
            runs.insert(run.id, Some(run));
        }
        Ok((units, runs))
    }
}
