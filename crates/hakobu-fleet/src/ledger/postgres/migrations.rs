//! The versions of the tables in PostgreSQL, and the steps from each to the next.

use hakobu_core::error::{Error, ErrorKind, Result};

use super::session::{SessionThread, SqlRequest, values};
use crate::ledger::rows::column;

const DURING: &str = "opening the ledger";
/// The steps: the first makes version 1 of nothing. One that was in a release is never changed.
const STEPS: [&str; 6] = [
    include_str!("../../../migrations/postgres/0001.sql"),
    include_str!("../../../migrations/postgres/0002.sql"),
    include_str!("../../../migrations/postgres/0003.sql"),
    include_str!("../../../migrations/postgres/0004.sql"),
    include_str!("../../../migrations/postgres/0005.sql"),
    include_str!("../../../migrations/postgres/0006.sql"),
];

/// The version that this program writes.
pub const SCHEMA_VERSION: u64 = STEPS.len() as u64;

/// Brings the tables to this program's version. Control planes that start together wait for each other.
///
/// # Errors
/// `Unsupported` if their version is newer, `Usage` if there are tables of another program, and those of the server.
pub(super) fn migrate(thread: &mut SessionThread) -> Result<()> {
    if version(thread)? == Some(SCHEMA_VERSION) {
        return Ok(());
    }
    thread.batch(DURING, "BEGIN; SELECT pg_advisory_xact_lock(hashtext('hakobu ' || current_schema()))")?;
    let migrated = migrate_locked(thread);
    match migrated {
        Ok(()) => thread.batch(DURING, "COMMIT"),
        Err(error) => {
            thread.disconnect();
            Err(error)
        }
    }
}

fn migrate_locked(thread: &mut SessionThread) -> Result<()> {
    let before = version(thread)?;
    if before.is_none() && has_tables(thread)? {
        let error = Error::new(ErrorKind::Usage, DURING, "the database has tables of another program");
        return Err(error.hint("create a database for the ledger alone"));
    }
    for (version, step) in
        (1u64..).zip(STEPS).skip(usize::try_from(before.unwrap_or(0)).unwrap_or(usize::MAX))
    {
        thread.batch(DURING, step)?;
        thread.batch(DURING, &format!("UPDATE ledger SET version = {version}"))?;
    }
    Ok(())
}

/// Returns the version of the tables; `None` if there are none.
fn version(thread: &mut SessionThread) -> Result<Option<u64>> {
    // To be seen without naming the table, which may not be there.
    let sql = "SELECT table_schema FROM information_schema.columns WHERE table_schema = current_schema() \
               AND table_name = 'ledger' AND column_name = 'first_epoch'";
    let there = thread.send(DURING, vec![SqlRequest::new(sql, values![])])?;
    if there.first().is_none_or(|reply| reply.rows.is_empty()) {
        return Ok(None);
    }
    let replies = thread.send(DURING, vec![SqlRequest::new("SELECT version FROM ledger", values![])])?;
    let Some(row) = replies.first().and_then(|reply| reply.rows.first()) else { return Ok(None) };
    let version = column::<i64>(row, 0)?;
    check_version(version).map(Some)
}

/// Returns a version that this program knows.
///
/// # Errors
/// `Unsupported`
pub(super) fn check_version(version: i64) -> Result<u64> {
    match u64::try_from(version) {
        Ok(version) if version <= SCHEMA_VERSION => Ok(version),
        _ => {
            let detail =
                format!("its version is {version}, and this program knows versions up to {SCHEMA_VERSION}");
            Err(Error::new(ErrorKind::Unsupported, DURING, detail)
                .hint("use the newer hakobu that wrote it, or restore a backup of the older one"))
        }
    }
}

fn has_tables(thread: &mut SessionThread) -> Result<bool> {
    let sql = "SELECT 1::bigint FROM information_schema.tables WHERE table_schema = current_schema() LIMIT 1";
    let replies = thread.send(DURING, vec![SqlRequest::new(sql, values![])])?;
    Ok(replies.first().is_some_and(|reply| !reply.rows.is_empty()))
}
