//! The removal of rows that only runs which have ended needed.

use hakobu_core::error::Result;

use super::session::values;
use super::{PostgresLedger, WantedRows};
use crate::ledger::rows::column;

/// The rows to remove of one run, `$1`: at most `$2` at once.
const REMOVALS: [&str; 6] = [
    "DELETE FROM unit_work WHERE unit IN (SELECT id FROM unit WHERE run = $1 ORDER BY id LIMIT $2)",
    "DELETE FROM unit WHERE id IN (SELECT id FROM unit WHERE run = $1 ORDER BY id LIMIT $2)",
    "DELETE FROM committed WHERE ctid = ANY(ARRAY(SELECT ctid FROM committed WHERE run = $1 LIMIT $2))",
    "DELETE FROM link_name WHERE ctid = ANY(ARRAY(SELECT ctid FROM link_name WHERE run = $1 LIMIT $2))",
    "DELETE FROM open_directory WHERE ctid = ANY(ARRAY(SELECT ctid FROM open_directory WHERE run = $1 LIMIT $2))",
    "DELETE FROM open_file WHERE ctid = ANY(ARRAY(SELECT ctid FROM open_file WHERE run = $1 LIMIT $2))",
];

/// Removes up to about so many rows. Returns true if more may be left. The server gives their space back by itself.
pub(super) fn sweep(ledger: &mut PostgresLedger, rows_max: usize) -> Result<bool> {
    ledger.write(&WantedRows::default(), |transaction| {
        let mut left = rows_max as u64;
        while left > 0 {
            let sql = "SELECT id FROM run WHERE ended IS NOT NULL AND swept = 0 ORDER BY id LIMIT 1";
            let reply = transaction.query(sql, values![])?;
            let Some(row) = reply.rows.first() else { break };
            let run: i64 = column(row, 0)?;
            for sql in REMOVALS {
                // The work of a unit counts with the unit: both are removed, or neither.
                let limit = i64::try_from(left).unwrap_or(i64::MAX);
                let removed = transaction.query(sql, values![run, limit])?.count;
                if !sql.starts_with("DELETE FROM unit_work") {
                    left = left.saturating_sub(removed);
                }
            }
            if left > 0 {
                transaction.query("UPDATE run SET swept = 1 WHERE id = $1", values![run])?;
            }
        }
        Ok(left == 0)
    })
}
