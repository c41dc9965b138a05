//! A ledger in one file, of SQLite.
//!
//! The file has a write-ahead log, and each transaction is on stable storage before it counts (`synchronous=FULL`). One process
//! at a time opens it: a lock on a file beside it says so.

pub mod backup;
mod errors;
mod migrations;
mod packs;
mod queries;
mod shared_disks;
mod statements;
mod sweep;
mod transaction;

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use self::errors::{error_during, write_error};
pub use self::migrations::SCHEMA_VERSION;
use self::statements::Statements;
use self::transaction::OpenTransaction;
use super::apply::{apply_batch, check_batch};
use crate::change::{LedgerAnswer, LedgerChange};

/// The ending of the name of the file whose lock says that a ledger is in use.
const LOCK_ENDING: &str = ".lock";
/// The time for which a lock is waited for. A process that the last owner was just starting has a copy of it until its program runs.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
/// The time for which another process that reads the ledger, such as a backup, may keep a write waiting.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The permissions of the file: names of files and people are in it.
const FILE_MODE: u32 = 0o600;
/// The settings of each connection.
const SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 67108864; \
                        PRAGMA cache_size = -16384; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;";

/// A ledger in a file.
#[derive(Debug)]
pub struct SqliteLedger {
    path: PathBuf,
    connection: Connection,
    /// Locked for as long as the ledger is open.
    _lock: File,
}

impl SqliteLedger {
    /// Opens a ledger, or creates one if there is no file.
    ///
    /// # Errors
    /// `Locked` if another process has it open, `Unsupported` if its version is newer than this program or its file system is
    /// shared with other machines, `Usage` if the file is none of this program, and those of the disk.
    pub fn open(path: &Path) -> Result<Self> {
        shared_disks::check_disk(path)?;
        let lock = lock(path)?;
        let mut connection = connect(path)?;
        let place = |error: Error| error.at(place_of(path));
        migrations::version_of(&connection, path).map_err(place)?;
        prepare(&connection).map_err(place)?;
        migrations::migrate(&mut connection, path).map_err(place)?;
        Ok(Self { path: path.to_owned(), connection, _lock: lock })
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks the whole file, which takes a while.
    ///
    /// # Errors
    /// `Corrupt` with the first faults.
    pub fn check_integrity(&mut self) -> Result<()> {
        let faults = Statements::new(&self.connection)
            .list("PRAGMA integrity_check(5)", [], |row| super::rows::column::<String>(row, 0));
        let faults = faults.map_err(|error| error.at(place_of(&self.path)))?;
        if faults == ["ok"] {
            return Ok(());
        }
        Err(errors::corrupt(faults.join("; ")).at(place_of(&self.path)))
    }

    fn apply_checked(&mut self, changes: &[LedgerChange]) -> Result<Vec<LedgerAnswer>> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(write_error)?;
        let answers = apply_batch(&mut OpenTransaction::new(&transaction), changes)?;
        transaction.commit().map_err(write_error)?;
        Ok(answers)
    }

    /// Applies a batch; see [`super::Ledger::apply`].
    fn apply_batch(&mut self, changes: &[LedgerChange]) -> Result<Vec<LedgerAnswer>> {
        check_batch(changes)?;
        self.apply_checked(changes).map_err(|error| error.at(place_of(&self.path)))
    }
}

/// Returns a path as the place of an error.
fn place_of(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Takes the lock of a ledger.
fn lock(path: &Path) -> Result<File> {
    const DURING: &str = "locking the ledger";
    let mut name = path.as_os_str().to_owned();
    name.push(LOCK_ENDING);
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(FILE_MODE).open(&name);
    let file = file.map_err(|error| Error::io(DURING, &error).at(name.as_encoded_bytes()))?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_PATIENCE / 20),
            Err(TryLockError::WouldBlock) => {
                let error = Error::new(ErrorKind::Locked, DURING, "another control plane uses it");
                return Err(error
                    .at(place_of(path))
                    .hint("stop that one first, or give this one a directory of its own"));
            }
            Err(TryLockError::Error(error)) => {
                return Err(Error::io(DURING, &error).at(name.as_encoded_bytes()));
            }
        }
    }
}

/// Opens the file, which is created with narrow permissions.
fn connect(path: &Path) -> Result<Connection> {
    const DURING: &str = "opening the ledger";
    let created = OpenOptions::new().create(true).truncate(false).write(true).mode(FILE_MODE).open(path);
    created.map_err(|error| Error::io(DURING, &error).at(place_of(path)))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)
        .map_err(|error| error_during(DURING, error).at(place_of(path)))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(|error| error_during(DURING, error).at(place_of(path)))?;
    Ok(connection)
}

/// Sets a connection up. Giving space back must be possible before the first table is made.
fn prepare(connection: &Connection) -> Result<()> {
    let failed = |error: rusqlite::Error| error_during("opening the ledger", error);
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL").map_err(failed)?;
    connection.execute_batch(SETTINGS).map_err(failed)
}
