//! Statements of a connection, which stay prepared for as long as they may be needed again.

use std::collections::HashMap;

use hakobu_core::error::Result;
use rusqlite::{Connection, Params, Row, Statement};

use super::errors::{corrupt, read_error, write_error};
use crate::ledger::rows::{LedgerRow, unsigned};

/// Statements by their text.
pub(super) struct Statements<'c> {
    connection: &'c Connection,
    prepared: HashMap<String, Statement<'c>>,
}

impl<'c> Statements<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection, prepared: HashMap::new() }
    }

    fn prepared(&mut self, sql: &str) -> rusqlite::Result<&mut Statement<'c>> {
        if !self.prepared.contains_key(sql) {
            self.prepared.insert(sql.to_owned(), self.connection.prepare(sql)?);
        }
        self.prepared.get_mut(sql).ok_or(rusqlite::Error::InvalidQuery)
    }

    /// Returns the rows of a query.
    pub(super) fn list<T>(
        &mut self,
        sql: &str,
        values: impl Params,
        read: impl Fn(&dyn LedgerRow) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.fold(sql, values, read, |rows| rows.collect())?
    }

    /// Returns the first row of a query.
    pub(super) fn first<T>(
        &mut self,
        sql: &str,
        values: impl Params,
        read: impl Fn(&dyn LedgerRow) -> Result<T>,
    ) -> Result<Option<T>> {
        self.fold(sql, values, read, |rows| rows.next().transpose())?
    }

    /// Passes the rows of a query to a function one by one, as many as it takes.
    pub(super) fn fold<T, R>(
        &mut self,
        sql: &str,
        values: impl Params,
        read: impl Fn(&dyn LedgerRow) -> Result<T>,
        take: impl FnOnce(&mut dyn Iterator<Item = Result<T>>) -> R,
    ) -> Result<R> {
        let mut rows =
            self.prepared(sql).and_then(|statement| statement.query(values)).map_err(read_error)?;
        let mut is_over = false;
        let mut items = std::iter::from_fn(|| {
            if is_over {
                return None;
            }
            match rows.next() {
                Ok(Some(row)) => Some(read(row)),
                Ok(None) => {
                    is_over = true;
                    None
                }
                Err(error) => {
                    is_over = true;
                    Some(Err(read_error(error)))
                }
            }
        });
        Ok(take(&mut items))
    }

    /// Executes a statement. Returns the number of rows that it changed.
    pub(super) fn execute(&mut self, sql: &str, values: impl Params) -> Result<usize> {
        self.prepared(sql).and_then(|statement| statement.execute(values)).map_err(write_error)
    }

    /// Inserts a row. Returns its number.
    pub(super) fn insert(&mut self, sql: &str, values: impl Params) -> Result<u64> {
        let number =
            self.prepared(sql).and_then(|statement| statement.insert(values)).map_err(write_error)?;
        match unsigned(number)? {
            0 => Err(corrupt("a row has no number")),
            number => Ok(number),
        }
    }
}

impl LedgerRow for Row<'_> {
    fn integer(&self, index: usize) -> Result<Option<i64>> {
        self.get(index).map_err(read_error)
    }

    fn text(&self, index: usize) -> Result<Option<String>> {
        self.get(index).map_err(read_error)
    }

    fn bytes(&self, index: usize) -> Result<Option<Vec<u8>>> {
        self.get(index).map_err(read_error)
    }
}
