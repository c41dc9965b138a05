//! Packs of names of links, and of open directories, and open files, in PostgreSQL.

use hakobu_core::error::Result;

use super::session::{SqlReply, SqlRequest, SqlValue, values};
use crate::ids::RunId;
use crate::ledger::PAGE_ROWS_MAX;
use crate::ledger::rows::{link_name, open_directory, open_file_part, open_file_position};
use crate::link_name::{LinkPack, LinkPosition, LinkRange, PackLimits};
use crate::open_directory::{DirectoryPack, DirectoryPosition, DirectoryRange};
use crate::open_file::{OpenFilePosition, OpenFileRecord};

/// Sends one statement. A transaction and a ledger do that.
pub(super) type Ask<'a> = &'a mut dyn FnMut(&SqlRequest) -> Result<SqlReply>;
/// The places between which names of links are read: behind one, up to another.
type LinkBounds<'a> = (Option<&'a LinkPosition>, Option<&'a LinkPosition>);
/// The places between which open directories are read.
type DirectoryBounds<'a> = (Option<&'a DirectoryPosition>, Option<&'a DirectoryPosition>);

/// Returns the number of rows to read for a pack: one more than it has, which tells if the last group goes on. A pack without
/// limits was limited when it was made.
fn rows_of(limits: PackLimits) -> i64 {
    let rows =
        if limits == PackLimits::NONE { usize::MAX } else { limits.names.clamp(1, 10 * PAGE_ROWS_MAX) + 1 };
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// The condition and the order of rows behind a place, as the index has them: `{0}` is its leading columns.
fn behind(columns: &str, first: usize, operator: &str) -> String {
    let count = columns.split(", ").count();
    let values: Vec<String> = (first..first + count).map(|number| format!("${number}")).collect();
    let (values, path) = (values.join(", "), first + count);
    format!(
        "({columns}, substring(path FROM 1 FOR 2000), path) {operator} ({values}, substring(${path}::bytea FROM 1 FOR 2000), \
         ${path}::bytea)"
    )
}

/// Returns the pack of names between two places.
pub(super) fn link_pack(
    ask: Ask<'_>,
    run: RunId,
    (after, until): LinkBounds<'_>,
    limits: PackLimits,
) -> Result<Option<LinkPack>> {
    const COLUMNS: &str = "file_system, inode, root";
    let place = |at: &LinkPosition| -> Vec<SqlValue> {
        values![at.file_system, at.inode, i64::from(at.root), at.path.clone()]
    };
    let first_place = LinkPosition::FIRST;
    let mut values = values![run.signed(), rows_of(limits)];
    values.extend(place(after.unwrap_or(&first_place)));
    let mut condition = behind(COLUMNS, 3, ">");
    if let Some(until) = until {
        values.extend(place(until));
        condition = format!("{condition} AND {}", behind(COLUMNS, 7, "<="));
    }
    let sql = format!(
        "SELECT file_system, inode, root, path, size, detail FROM link_name WHERE run = $1 AND {condition} \
         ORDER BY {COLUMNS}, substring(path FROM 1 FOR 2000), path LIMIT $2"
    );
    let rows = ask(&SqlRequest::new(sql, values))?.rows;
    let Some(mut pack) = LinkPack::collect(rows.iter().map(|row| link_name(row)), limits)? else {
        return Ok(None);
    };
    if let Some(inode) = pack.continues(after) {
        let from = LinkPosition::before(inode);
        let sql = "SELECT file_system, inode, root, path, size, detail FROM link_name WHERE run = $1 AND file_system = $2 \
                   AND inode = $3 ORDER BY root, substring(path FROM 1 FOR 2000), path LIMIT 1";
        let rows = ask(&SqlRequest::new(sql, values![run.signed(), from.file_system, from.inode]))?.rows;
        pack.set_earlier(rows.first().map(|row| link_name(row)).transpose()?);
    }
    Ok(Some(pack))
}

/// Returns the pack of directories between two places.
pub(super) fn directory_pack(
    ask: Ask<'_>,
    run: RunId,
    (after, until): DirectoryBounds<'_>,
    limits: PackLimits,
) -> Result<Option<DirectoryPack>> {
    const COLUMNS: &str = "height, root";
    let place = |at: &DirectoryPosition| -> Vec<SqlValue> {
        values![-i64::from(at.depth), i64::from(at.root), at.path.clone()]
    };
    let mut values = values![run.signed(), rows_of(limits)];
    values.extend(after.map_or_else(|| values![i64::MIN, 0i64, Vec::<u8>::new()], place));
    let mut condition = behind(COLUMNS, 3, ">");
    if let Some(until) = until {
        values.extend(place(until));
        condition = format!("{condition} AND {}", behind(COLUMNS, 6, "<="));
    }
    let sql = format!(
        "SELECT root, path, detail FROM open_directory WHERE run = $1 AND {condition} \
         ORDER BY {COLUMNS}, substring(path FROM 1 FOR 2000), path LIMIT $2"
    );
    let rows = ask(&SqlRequest::new(sql, values))?.rows;
    DirectoryPack::collect(rows.iter().map(|row| open_directory(row)), limits)
}

/// Returns up to so many open files behind one.
pub(super) fn open_files(
    ask: Ask<'_>,
    run: RunId,
    after: Option<&OpenFilePosition>,
    limit: i64,
) -> Result<Vec<OpenFilePosition>> {
    let (root, path) = after.map_or((-1, Vec::new()), |at| (i64::from(at.root), at.path.as_bytes().to_vec()));
    let sql = format!(
        "SELECT root, path FROM open_file WHERE run = $1 AND is_torn = 0 AND {} \
         ORDER BY root, substring(path FROM 1 FOR 2000), path LIMIT $2",
        behind("root", 3, ">")
    );
    let rows = ask(&SqlRequest::new(sql, values![run.signed(), limit, root, path]))?.rows;
    rows.iter().map(|row| open_file_position(row)).collect()
}

/// Returns an open file.
pub(super) fn open_file(
    ask: Ask<'_>,
    run: RunId,
    position: &OpenFilePosition,
) -> Result<Option<OpenFileRecord>> {
    let sql = "SELECT is_torn, detail FROM open_file WHERE run = $1 AND root = $2 \
               AND substring(path FROM 1 FOR 2000) = substring($3::bytea FROM 1 FOR 2000) AND path = $3::bytea";
    let values = values![run.signed(), i64::from(position.root), position.path.as_bytes().to_vec()];
    let rows = ask(&SqlRequest::new(sql, values))?.rows;
    let parts = rows.iter().map(|row| open_file_part(row)).collect::<Result<Vec<_>>>()?;
    Ok(OpenFileRecord::of(parts.into_iter()))
}

/// Returns the names of links in a range.
pub(super) fn links_in(ask: Ask<'_>, run: RunId, range: &LinkRange) -> Result<Option<LinkPack>> {
    link_pack(ask, run, (range.after.as_ref(), Some(&range.until)), PackLimits::NONE)
}

/// Returns the open directories in a range.
pub(super) fn directories_in(
    ask: Ask<'_>,
    run: RunId,
    range: &DirectoryRange,
) -> Result<Option<DirectoryPack>> {
    directory_pack(ask, run, (range.after.as_ref(), Some(&range.until)), PackLimits::NONE)
}
