//! Ledgers that were restored from backups.

use std::sync::Arc;

use hakobu_core::error::{Error, Result};

use super::session::{SessionThread, SqlRequest, values};
use super::{PostgresSettings, migrations};
use crate::ids::Moment;

const RESTORING: &str = "restoring the ledger";

/// Makes the leases of the time after a backup have no say in a ledger that was restored from it: the epochs of its units begin at
/// the given moment, above all that were given before. A control plane that leads is deposed.
///
/// # Errors
/// Those of [`super::PostgresLedger::open`].
pub fn mark_restored(settings: &PostgresSettings, now: Moment) -> Result<()> {
    let mut thread = SessionThread::new(Arc::new(settings.clone()), "hakobu-restore".to_owned())?;
    mark(&mut thread, now).map_err(|error: Error| error.at(settings.place()))
}

fn mark(thread: &mut SessionThread, now: Moment) -> Result<()> {
    thread.connect()?;
    migrations::migrate(thread)?;
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
