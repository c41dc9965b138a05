//! Rows that a transaction adds, and writes many at a time.

use std::collections::BTreeMap;

use super::session::{SqlRequest, values};
use super::texts::storable;
use crate::failure::{NumberedFailure, number_of_kind};
use crate::ids::{Epoch, RunId, UnitKey};
use crate::link_name::{LinkNameRow, LinkPosition};
use crate::open_directory::OpenDirectoryRow;
use crate::open_file::{OpenFilePosition, OpenFileRow};

/// The number of rows that are written together.
const ROWS_MAX: usize = 5000;
/// The part of a path that is in the index, and the digest of the rest, as in the index.
const PATH_KEY: &str =
    "substring(path FROM 1 FOR 2000), (CASE WHEN length(path) > 2000 THEN sha256(path) ELSE ''::bytea END)";

/// Rows that wait. One statement must not have the same key twice: so the last of them stays.
#[derive(Default)]
pub(super) struct RowBuffers {
    committed: Vec<(UnitKey, Epoch)>,
    open_directories: BTreeMap<(RunId, i64, u16, Vec<u8>), Vec<u8>>,
    open_files: BTreeMap<(RunId, OpenFilePosition, bool), Vec<u8>>,
    link_names: BTreeMap<(RunId, LinkPosition), (i64, Vec<u8>)>,
    failures: Vec<(RunId, NumberedFailure)>,
}

impl RowBuffers {
    pub(super) fn committed(&mut self, key: UnitKey, epoch: Epoch) {
        self.committed.push((key, epoch));
    }

    pub(super) fn open_directory(&mut self, run: RunId, row: &OpenDirectoryRow) {
        let key = (run, -i64::from(row.depth()), row.root, row.path.as_bytes().to_vec());
        self.open_directories.insert(key, row.detail.clone());
    }

    pub(super) fn open_file(&mut self, run: RunId, row: &OpenFileRow) {
        self.open_files.insert((run, row.position.clone(), row.is_torn), row.detail.clone());
    }

    pub(super) fn link_name(&mut self, run: RunId, row: &LinkNameRow) {
        let size = i64::try_from(row.size).unwrap_or(i64::MAX);
        self.link_names.insert((run, row.position()), (size, row.detail.clone()));
    }

    pub(super) fn failure(&mut self, run: RunId, failure: &NumberedFailure) {
        self.failures.push((run, failure.clone()));
    }

    pub(super) fn is_full(&self) -> bool {
        let of_entries = self.open_directories.len() + self.open_files.len() + self.link_names.len();
        of_entries + self.failures.len() >= ROWS_MAX
    }

    /// Adds the statements that write the rows.
    pub(super) fn flush(&mut self, requests: &mut Vec<SqlRequest>) {
        if !self.committed.is_empty() {
            let rows = std::mem::take(&mut self.committed);
            let sql = "INSERT INTO committed (run, unit, epoch) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])";
            let column = |read: fn(&(UnitKey, Epoch)) -> i64| rows.iter().map(read).collect::<Vec<i64>>();
            let runs = column(|(key, _)| key.run.signed());
            let (units, epochs) = (column(|(key, _)| key.unit.signed()), column(|(_, epoch)| epoch.signed()));
            requests.push(SqlRequest::new(sql, values![runs, units, epochs]));
        }
        self.flush_open_directories(requests);
        self.flush_open_files(requests);
        self.flush_link_names(requests);
        self.flush_failures(requests);
    }

    fn flush_open_directories(&mut self, requests: &mut Vec<SqlRequest>) {
        let rows = std::mem::take(&mut self.open_directories);
        if rows.is_empty() {
            return;
        }
        let (mut runs, mut heights, mut roots, mut paths, mut details) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for ((run, height, root, path), detail) in rows {
            runs.push(run.signed());
            heights.push(height);
            roots.push(i64::from(root));
            paths.push(path);
            details.push(detail);
        }
        let sql = format!(
            "INSERT INTO open_directory (run, height, root, path, detail) SELECT * FROM \
             unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[]) \
             ON CONFLICT (run, height, root, {PATH_KEY}) DO UPDATE SET detail = excluded.detail"
        );
        requests.push(SqlRequest::new(sql, values![runs, heights, roots, paths, details]));
    }

    fn flush_open_files(&mut self, requests: &mut Vec<SqlRequest>) {
        let rows = std::mem::take(&mut self.open_files);
        if rows.is_empty() {
            return;
        }
        let (mut runs, mut roots, mut paths, mut torn, mut details) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for ((run, position, is_torn), detail) in rows {
            runs.push(run.signed());
            roots.push(i64::from(position.root));
            paths.push(position.path.as_bytes().to_vec());
            torn.push(i64::from(is_torn));
            details.push(detail);
        }
        let sql = format!(
            "INSERT INTO open_file (run, root, path, is_torn, detail) SELECT * FROM \
             unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[]) \
             ON CONFLICT (run, root, {PATH_KEY}, is_torn) DO UPDATE SET detail = excluded.detail"
        );
        requests.push(SqlRequest::new(sql, values![runs, roots, paths, torn, details]));
    }

    fn flush_link_names(&mut self, requests: &mut Vec<SqlRequest>) {
        let rows = std::mem::take(&mut self.link_names);
        if rows.is_empty() {
            return;
        }
        let (mut runs, mut file_systems, mut inodes, mut roots) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut paths, mut sizes, mut details) = (Vec::new(), Vec::new(), Vec::new());
        for ((run, position), (size, detail)) in rows {
            runs.push(run.signed());
            file_systems.push(position.file_system);
            inodes.push(position.inode);
            roots.push(i64::from(position.root));
            paths.push(position.path);
            sizes.push(size);
            details.push(detail);
        }
        let sql = format!(
            "INSERT INTO link_name (run, file_system, inode, root, path, size, detail) SELECT * FROM unnest($1::bigint[], \
             $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bigint[], $7::bytea[]) ON CONFLICT (run, file_system, \
             inode, root, {PATH_KEY}) DO UPDATE SET size = excluded.size, detail = excluded.detail"
        );
        requests
            .push(SqlRequest::new(sql, values![runs, file_systems, inodes, roots, paths, sizes, details]));
    }

    fn flush_failures(&mut self, requests: &mut Vec<SqlRequest>) {
        let rows = std::mem::take(&mut self.failures);
        if rows.is_empty() {
            return;
        }
        let (mut runs, mut numbers, mut kinds, mut steps, mut roots) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut paths, mut durings, mut places, mut details, mut hints) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (run, failure) in rows {
            let error = failure.row.failure.error;
            runs.push(run.signed());
            numbers.push(failure.number.signed());
            kinds.push(i64::from(number_of_kind(error.kind)));
            steps.push(error.step.name());
            roots.push(i64::from(failure.row.root));
            paths.push(failure.row.failure.path);
            durings.push(storable(&error.during));
            places.push(error.at);
            details.push(storable(&error.detail));
            hints.push(error.hint.as_deref().map(storable));
        }
        let sql = "INSERT INTO failure (run, number, kind, step, root, path, during, place, detail, hint) SELECT * FROM \
                   unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bytea[], $7::text[], \
                   $8::bytea[], $9::text[], $10::text[])";
        let values = values![runs, numbers, kinds, steps, roots, paths, durings, places, details, hints];
        requests.push(SqlRequest::new(sql, values));
    }
}
