//! The versions of the schema, and the steps from each to the next.

use std::path::Path;

use hakobu_core::error::{Error, ErrorKind, Result};
use rusqlite::{Connection, TransactionBehavior};

use super::errors::{error_during, read_error};

/// The steps: the first makes version 1 of nothing. One that was in a release is never changed.
const STEPS: [&str; 6] = [
    include_str!("../../../migrations/0001.sql"),
    include_str!("../../../migrations/0002.sql"),
    include_str!("../../../migrations/0003.sql"),
    include_str!("../../../migrations/0004.sql"),
    include_str!("../../../migrations/0005.sql"),
    include_str!("../../../migrations/0006.sql"),
];
/// The mark of a ledger among SQLite's files: "hkLG".
const APPLICATION: i32 = 0x686b_4c47;

/// The version that this program writes.
pub const SCHEMA_VERSION: usize = STEPS.len();

/// Returns the version of a ledger; 0 if the file is empty.
///
/// # Errors
/// `Usage` if the file holds something else, `Unsupported` if its version is newer than this program, `Corrupt`.
pub(super) fn version_of(connection: &Connection, path: &Path) -> Result<usize> {
    let pragma = |name: &str| -> Result<i64> {
        connection.pragma_query_value(None, name, |row| row.get(0)).map_err(read_error)
    };
    let (application, version, schema) =
        (pragma("application_id")?, pragma("user_version")?, pragma("schema_version")?);
    let place = path.as_os_str().as_encoded_bytes();
    if application != i64::from(APPLICATION) {
        if (application, version, schema) == (0, 0, 0) {
            return Ok(0);
        }
        let error = Error::new(ErrorKind::Usage, "opening the ledger", "another program's database");
        return Err(error.at(place).hint("name the file of a ledger, or one that does not exist"));
    }
    match usize::try_from(version) {
        Ok(version) if version <= SCHEMA_VERSION => Ok(version),
        _ => {
            let detail =
                format!("its version is {version}, and this program knows versions up to {SCHEMA_VERSION}");
            let error = Error::new(ErrorKind::Unsupported, "opening the ledger", detail);
            Err(error
                .at(place)
                .hint("use the newer hakobu that wrote it, or restore a backup of the older one"))
        }
    }
}

/// Brings a ledger to this program's version, each step in a transaction of its own.
///
/// # Errors
/// Those of [`version_of`] and of the disk. The ledger then has the version of the last complete step.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<()> {
    let version = version_of(connection, path)?;
    migrate_with(connection, version, &STEPS)
}

fn migrate_with(connection: &mut Connection, version: usize, steps: &[&str]) -> Result<()> {
    let failed = |error: rusqlite::Error| error_during("bringing the ledger to this version", error);
    for (version, step) in (1i64..).zip(steps).skip(version) {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        transaction.execute_batch(step).map_err(failed)?;
        transaction.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
        transaction.pragma_update(None, "user_version", version).map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [&str; 2] =
        ["CREATE TABLE a (x); INSERT INTO a VALUES (1)", "ALTER TABLE a ADD COLUMN y DEFAULT 2"];

    fn count(connection: &Connection, sql: &str) -> i64 {
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn each_step_is_made_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_with(&mut connection, 0, &TWO[..1]).unwrap();
        assert_eq!(count(&connection, "PRAGMA user_version"), 1);
        migrate_with(&mut connection, 1, &TWO).unwrap();
        assert_eq!(count(&connection, "PRAGMA user_version"), 2);
        assert_eq!(count(&connection, "SELECT y FROM a"), 2);
        migrate_with(&mut connection, 2, &TWO).unwrap();
    }

    #[test]
    fn a_step_that_fails_leaves_the_version_before() {
        let mut connection = Connection::open_in_memory().unwrap();
        let wrong = ["CREATE TABLE a (x)", "INSERT INTO a VALUES (1); CREATE TABLE a (x)"];
        assert!(migrate_with(&mut connection, 0, &wrong).is_err());
        assert_eq!(count(&connection, "PRAGMA user_version"), 1);
        assert_eq!(count(&connection, "SELECT count(*) FROM a"), 0);
    }
}
