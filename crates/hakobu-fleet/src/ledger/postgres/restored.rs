//! Ledgers that were restored from backups.

use std::sync::Arc;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};

use super::campaign::TERM_WITHOUT_RENEWAL;
use super::session::{SessionThread, SqlRequest, values};
use super::{PostgresSettings, migrations};
use crate::ids::Moment;
use crate::ledger::rows::column;

const RESTORING: &str = "restoring the ledger";
/// The time after which a look shows if the leadership is renewed: more than two renewals.
pub const LOOK_TIME: Duration = Duration::from_secs(5);

/// Makes the leases of the time after a backup have no say in a ledger that was restored from it: the epochs of its units begin at
/// the given moment, above all that were given before. This takes [`LOOK_TIME`] if the ledger was just in use.
///
/// # Errors
/// Those of [`super::PostgresLedger::open`], `Locked` if a control plane leads.
pub fn mark_restored(settings: &PostgresSettings, now: Moment) -> Result<()> {
    let mut thread = SessionThread::new(Arc::new(settings.clone()), "hakobu-restore".to_owned())?;
    mark(&mut thread, now).map_err(|error: Error| error.at(settings.place()))
}

fn mark(thread: &mut SessionThread, now: Moment) -> Result<()> {
    thread.connect()?;
    migrations::migrate(thread)?;
    check_unused(thread)?;
    let raise = "UPDATE ledger SET term = term + 1, batch = 0, first_epoch = greatest($1, 1 + greatest(first_epoch, \
                 (SELECT coalesce(max(epoch), 0) FROM unit), (SELECT coalesce(max(epoch), 0) FROM committed)))";
    let requests = vec![
        SqlRequest::new("BEGIN", values![]),
        SqlRequest::new(raise, values![now.signed()]),
        SqlRequest::new(
            "UPDATE leader SET term = ledger.term, session = '', has_resigned = true FROM ledger",
            values![],
        ),
        SqlRequest::new(
            "UPDATE unit SET epoch = ledger.first_epoch, broker = NULL, deadline = NULL FROM ledger",
            values![],
        ),
        // Its key file may be lost: the next leader says with which it goes on.
        SqlRequest::new("DELETE FROM mark WHERE name = 'key'", values![]),
        SqlRequest::new("COMMIT", values![]),
    ];
    thread.send(RESTORING, requests).map(drop)
}

/// Refuses if a control plane leads. The row of one that is gone is in the backup, and is not renewed any more.
fn check_unused(thread: &mut SessionThread) -> Result<()> {
    let Some(before) = renewals(thread)? else { return Ok(()) };
    std::thread::sleep(LOOK_TIME);
    if renewals(thread)?.is_none_or(|now| now == before) {
        return Ok(());
    }
    let error = Error::new(ErrorKind::Locked, RESTORING, "a control plane leads with this ledger");
    Err(error.hint("stop all control planes of the ledger first"))
}

/// Returns the number of times that the leadership was renewed, if that was lately.
fn renewals(thread: &mut SessionThread) -> Result<Option<i64>> {
    let sql = format!(
        "SELECT renewals FROM leader WHERE NOT has_resigned AND session <> '' \
         AND clock_timestamp() - renewed < interval '{} seconds'",
        TERM_WITHOUT_RENEWAL.as_secs()
    );
    let replies = thread.send(RESTORING, vec![SqlRequest::new(sql, values![])])?;
    replies.first().and_then(|reply| reply.rows.first()).map(|row| column(row, 0)).transpose()
}
