//! The removal of rows that only runs which have ended needed.

use hakobu_core::error::Result;
use rusqlite::{Connection, TransactionBehavior, params};

use super::errors::write_error;
use super::statements::Statements;
use crate::ledger::rows::column;

/// The rows to remove of one run, `?1`: at most `?2` at once.
const REMOVALS: [&str; 6] = [
    "DELETE FROM unit_work WHERE unit IN (SELECT id FROM unit WHERE run = ?1 ORDER BY id LIMIT ?2)",
    "DELETE FROM unit WHERE id IN (SELECT id FROM unit WHERE run = ?1 ORDER BY id LIMIT ?2)",
    "DELETE FROM committed WHERE run = ?1 AND unit IN (SELECT unit FROM committed WHERE run = ?1 LIMIT ?2)",
    "DELETE FROM link_name WHERE run = ?1 AND (file_system, inode, root, path) IN \
     (SELECT file_system, inode, root, path FROM link_name WHERE run = ?1 LIMIT ?2)",
    "DELETE FROM open_directory WHERE run = ?1 AND (height, root, path) IN \
     (SELECT height, root, path FROM open_directory WHERE run = ?1 LIMIT ?2)",
    "DELETE FROM open_file WHERE run = ?1 AND (root, path, is_torn) IN \
     (SELECT root, path, is_torn FROM open_file WHERE run = ?1 LIMIT ?2)",
];
/// The approximate number of bytes of a row: so much free space is given back for each row that may be removed.
const ROW_BYTES: usize = 64;
/// The length of a page in bytes, unless somebody changed it.
const PAGE_BYTES: usize = 4096;

/// Removes up to about so many rows. Returns true if more may be left.
pub(super) fn sweep(connection: &mut Connection, rows_max: usize) -> Result<bool> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(write_error)?;
    let mut left = rows_max;
    let mut statements = Statements::new(&transaction);
    while left > 0 {
        let sql = "SELECT id FROM run WHERE ended IS NOT NULL AND swept = 0 ORDER BY id LIMIT 1";
        let Some(run) = statements.first(sql, [], |row| column::<i64>(row, 0))? else { break };
        for sql in REMOVALS {
            // The work of a unit counts with the unit: both are removed, or neither.
            let limit = i64::try_from(left).unwrap_or(i64::MAX);
            let removed = statements.execute(sql, params![run, limit])?;
            if !sql.starts_with("DELETE FROM unit_work") {
                left = left.saturating_sub(removed);
            }
        }
        if left > 0 {
            statements.execute("UPDATE run SET swept = 1 WHERE id = ?", [run])?;
        }
    }
    drop(statements);
    transaction.commit().map_err(write_error)?;
    let pages = (rows_max.saturating_mul(ROW_BYTES) / PAGE_BYTES).clamp(16, 1 << 20);
    connection.execute_batch(&format!("PRAGMA incremental_vacuum({pages})")).map_err(write_error)?;
    let free: i64 =
        connection.pragma_query_value(None, "freelist_count", |row| row.get(0)).map_err(write_error)?;
    Ok(left == 0 || free > 0)
}
