//! Backups of a ledger while it is used, and ledgers from backups.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};

use super::errors::error_during;
use super::{FILE_MODE, SqliteLedger, lock, migrations, place_of, prepare};
use crate::ids::{Epoch, Moment};

const BACKING_UP: &str = "writing the backup of the ledger";
const RESTORING: &str = "restoring the ledger";
/// The number of pages that are copied before other work is let in.
const PAGES_PER_STEP: i32 = 1024;

impl SqliteLedger {
    /// Writes the ledger as it is now to a file that does not exist. It appears under its name only when it is complete.
    ///
    /// # Errors
    /// `Conflict` if the file exists, and those of the disk.
    pub fn back_up(&self, to: &Path) -> Result<()> {
        write_copy(&self.connection, to, BACKING_UP, |_| Ok(()))
    }
}

/// Writes a ledger that a running control plane may be using to a file that does not exist.
///
/// # Errors
/// Those of [`SqliteLedger::back_up`] and [`SqliteLedger::open`], `NotFound` if there is no ledger.
pub fn back_up_file(ledger: &Path, to: &Path) -> Result<()> {
    let connection = existing(ledger, BACKING_UP)?;
    write_copy(&connection, to, BACKING_UP, |_| Ok(()))
}

/// Makes a ledger from a backup, under a name at which there is none. Leases of the time after the backup have no say in it: the
/// epochs of its units begin at the given moment, above all that were given before.
///
/// # Errors
/// `Conflict` if there is a ledger, `NotFound` if there is no backup, those of [`SqliteLedger::open`] and of the disk.
pub fn restore(backup: &Path, ledger: &Path, now: Moment) -> Result<()> {
    let _lock = lock(ledger)?;
    let connection = existing(backup, RESTORING)?;
    write_copy(&connection, ledger, RESTORING, |copy| {
        migrations::migrate(copy, backup)?;
        let failed = |error: rusqlite::Error| error_during(RESTORING, error);
        let transaction = copy.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let last: i64 = transaction
            .query_row(
                "SELECT max((SELECT value FROM setting WHERE name = 'first_epoch'), \
                 (SELECT coalesce(max(epoch), 0) FROM unit), (SELECT coalesce(max(epoch), 0) FROM committed))",
                [],
                |row| row.get(0),
            )
            .map_err(failed)?;
        let last = Epoch::new(last.cast_unsigned())?;
        let next = last.next().map_or(last, |next| next.max(Epoch::new(now.get()).unwrap_or(next)));
        transaction
            .execute("UPDATE setting SET value = ? WHERE name = 'first_epoch'", params![next.signed()])
            .and_then(|_| {
                let sql = "UPDATE unit SET epoch = ?, broker = NULL, deadline = NULL";
                transaction.execute(sql, params![next.signed()])
            })
            // Its key file may be lost: the next leader says with which it goes on.
            .and_then(|_| transaction.execute("DELETE FROM mark WHERE name = 'key'", []))
            .map_err(failed)?;
        transaction.commit().map_err(failed)
    })
}

/// Opens a ledger or a backup that exists, of a version that this program knows.
fn existing(path: &Path, during: &'static str) -> Result<Connection> {
    let failed = |error: rusqlite::Error| error_during(during, error).at(place_of(path));
    fs::metadata(path).map_err(|error| Error::io(during, &error).at(place_of(path)))?;
    // Reading a write-ahead log needs a file beside it, which may have to be created.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    match migrations::version_of(&connection, path).map_err(|error| error.at(place_of(path)))? {
        0 => {
            let error = Error::new(ErrorKind::Usage, during, "it is empty");
            Err(error.at(place_of(path)).hint("name the file of a ledger"))
        }
        _ => Ok(connection),
    }
}

/// Copies a ledger to a new file, lets it be changed, and gives it its name when it is on stable storage.
fn write_copy(
    from: &Connection,
    to: &Path,
    during: &'static str,
    change: impl FnOnce(&mut Connection) -> Result<()>,
) -> Result<()> {
    let at_target = |error: Error| error.at(place_of(to));
    if to.symlink_metadata().is_ok() {
        let error = Error::new(ErrorKind::Conflict, during, "a file of that name exists");
        return Err(at_target(error).hint("name another file, or move that one away"));
    }
    let draft = beside(to, ".partial");
    let written = write_draft(from, &draft, during, change).and_then(|()| {
        let renamed = fs::rename(&draft, to).and_then(|()| sync_folder(to));
        renamed.map_err(|error| Error::io(during, &error))
    });
    if written.is_err() {
        remove_draft(&draft);
    }
    written.map_err(at_target)
}

fn write_draft(
    from: &Connection,
    draft: &Path,
    during: &'static str,
    change: impl FnOnce(&mut Connection) -> Result<()>,
) -> Result<()> {
    let failed = |error: rusqlite::Error| error_during(during, error);
    let failed_io = |error: std::io::Error| Error::io(during, &error);
    remove_draft(draft);
    let file =
        OpenOptions::new().create_new(true).write(true).mode(FILE_MODE).open(draft).map_err(failed_io)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut copy = Connection::open_with_flags(draft, flags).map_err(failed)?;
    {
        let backup = Backup::new(from, &mut copy).map_err(failed)?;
        backup.run_to_completion(PAGES_PER_STEP, Duration::ZERO, None).map_err(failed)?;
    }
    prepare(&copy)?;
    change(&mut copy)?;
    // One file, without a log beside it.
    copy.execute_batch("PRAGMA journal_mode = DELETE").map_err(failed)?;
    copy.close().map_err(|(_, error)| failed(error))?;
    file.sync_all().map_err(failed_io)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// Removes a draft with its logs, if there is one. Nobody else writes to these names.
fn remove_draft(draft: &Path) {
    for ending in ["", "-journal", "-wal", "-shm"] {
        let _ = fs::remove_file(beside(draft, ending));
    }
}

fn sync_folder(file: &Path) -> std::io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
