//! Ledgers of the first version, which this program reads and brings to its own.

use hakobu_core::error::ErrorKind;
use hakobu_fleet::change::{LedgerAnswer, UnitResult};
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::ledger::postgres::SCHEMA_VERSION;
use hakobu_fleet::ledger::sqlite::SqliteLedger;
use hakobu_fleet::link_name::PackLimits;
use hakobu_fleet::run::RunPhase;
use hakobu_fleet::run_losses::RunLosses;
use hakobu_testkit::postgres::PostgresServer;
use rusqlite::Connection;

use crate::database::leading;
use crate::files::schema;
use crate::samples::*;

/// A ledger of the first version, as a program of that version wrote it.
const IN_A_FILE: &str = include_str!("version_1.sql");
const IN_A_DATABASE: &str = include_str!("version_1_postgres.sql");

/// Checks that everything is read which these have, and that the run goes on.
fn assert_read(ledger: &mut dyn Ledger) {
    let run = ledger.open_runs().unwrap().pop().unwrap();
    assert_eq!((run.phase, run.units.open(), run.counters.entries_created), (RunPhase::Copy, 2, 12));
    assert_eq!(run.losses, RunLosses::default());
    let ready = ledger.ready_units(run.id, None, 9).unwrap();
    assert_eq!(ledger.work(ready[0].key).unwrap(), Some(work(&["a/b"])));
    let leased = ledger.leased_units(None, 9).unwrap();
    assert_eq!(leased[0].state.holder.as_ref().unwrap().broker, broker("one"));
    assert_eq!(ledger.failures(run.id, None, None, 9).unwrap()[0].row, failure(ErrorKind::Io, b"f\xff"));
    let pack = ledger.link_pack(run.id, None, PackLimits::default()).unwrap().unwrap();
    assert_eq!((pack.groups.len(), pack.groups[0].inode.file_system), (1, u64::MAX));
    assert_eq!(ledger.relationships(None, 9).unwrap()[0].relationship.sources.len(), 2);
    assert_eq!((ledger.tokens().unwrap().len(), ledger.audit(None, 9).unwrap().len()), (1, 1));
    assert_eq!(ledger.brokers(None, None, 9).unwrap().len(), 1);
    let committed = commit_change(key(run.id, 1), "one", epoch(1), UnitResult::default());
    assert_eq!(apply(ledger, committed), LedgerAnswer::Committed, "it was, and says so again");
    // New rows have numbers of their own.
    let result = UnitResult { children: vec![work(&["a/b/c"])], losses: losses(), ..Default::default() };
    let commit = commit_change(leased[0].key, "one", leased[0].state.epoch, result);
    assert_eq!(apply(ledger, commit), LedgerAnswer::Committed);
    let units: Vec<u64> =
        ledger.ready_units(run.id, None, 9).unwrap().iter().map(|unit| unit.key.unit.get()).collect();
    assert!(units.len() == 2 && units[0] == 2 && units[1] > 3, "{units:?}");
    assert_eq!(ledger.run(run.id).unwrap().unwrap().losses, losses());
    assert!(start(ledger, vec![work(&["d"])]) > run.id);
}

#[test]
fn a_ledger_of_the_first_version_is_brought_to_this_one() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (directory.path().join("old.db"), directory.path().join("new.db"));
    Connection::open(&old).unwrap().execute_batch(IN_A_FILE).unwrap();
    let mut ledger = SqliteLedger::open(&old).unwrap();
    ledger.check_integrity().unwrap();
    assert_read(&mut ledger);
    drop(ledger);
    drop(SqliteLedger::open(&new).unwrap());
    assert_eq!(schema(&Connection::open(&old).unwrap()), schema(&Connection::open(&new).unwrap()));
}

/// Returns the columns, indexes and sequences of a schema.
fn schema_of(server: &PostgresServer, name: &str) -> String {
    let columns = "table_name, ordinal_position, column_name, data_type, is_nullable, is_identity, column_default, collation_name";
    server
        .sql(&format!(
            "SELECT {columns} FROM information_schema.columns WHERE table_schema = '{name}' ORDER BY 1, 2; \
             SELECT replace(indexdef, '{name}.', '') FROM pg_indexes WHERE schemaname = '{name}' ORDER BY 1; \
             SELECT sequencename, increment_by FROM pg_sequences WHERE schemaname = '{name}' ORDER BY 1; \
             SELECT relname, conname, contype FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid \
             WHERE connamespace = '{name}'::regnamespace ORDER BY 1, 2"
        ))
        .unwrap()
}

#[test]
fn a_database_of_the_first_version_is_brought_to_this_one() {
    let server = PostgresServer::start().unwrap();
    server.sql(IN_A_DATABASE).unwrap();
    assert_eq!(server.sql("SELECT version FROM ledger").unwrap().trim(), "1");
    let (mut ledger, _leadership) = leading(&server.url());
    assert_read(&mut ledger);
    assert_eq!(server.sql("SELECT version FROM ledger").unwrap().trim(), SCHEMA_VERSION.to_string());
    let _new = leading(&server.empty_place().unwrap());
    let (old, new) = (schema_of(&server, "public"), schema_of(&server, "place0"));
    assert!(old.lines().count() > 100, "{old}");
    assert_eq!(old, new);
}
