//! Packs of names of links, and of open directories.

use hakobu_core::error::Result;
use rusqlite::params;

use super::statements::Statements;
use crate::ids::RunId;
use crate::ledger::rows::{link_name, open_directory};
use crate::link_name::{LinkNameRow, LinkPack, LinkPosition, LinkRange, PackLimits};
use crate::open_directory::{DirectoryPack, DirectoryPosition, DirectoryRange};

/// The places between which names of links are read: behind one, up to another.
type LinkPlaces<'a> = (Option<&'a LinkPosition>, Option<&'a LinkPosition>);
/// The places between which open directories are read.
type DirectoryPlaces<'a> = (Option<&'a DirectoryPosition>, Option<&'a DirectoryPosition>);

/// Returns the pack of names between two places.
pub(super) fn link_pack(
    statements: &mut Statements<'_>,
    run: RunId,
    (after, until): LinkPlaces<'_>,
    limits: PackLimits,
) -> Result<Option<LinkPack>> {
    let first_place = LinkPosition::FIRST;
    let from = after.unwrap_or(&first_place);
    let sql = "SELECT file_system, inode, root, path, size, detail FROM link_name \
                   WHERE run = ? AND (file_system, inode, root, path) > (?, ?, ?, ?) \
                   ORDER BY file_system, inode, root, path";
    let values = params![run.signed(), from.file_system, from.inode, from.root, from.path];
    let collect = |rows: &mut dyn Iterator<Item = Result<LinkNameRow>>| {
        let is_within = |row: &LinkNameRow| until.is_none_or(|until| row.position() <= *until);
        LinkPack::collect(rows.take_while(|row| row.as_ref().map_or(true, is_within)), limits)
    };
    let Some(mut pack) = statements.fold(sql, values, link_name, collect)?? else {
        return Ok(None);
    };
    if let Some(inode) = pack.continues(after) {
        let from = LinkPosition::before(inode);
        let sql = "SELECT file_system, inode, root, path, size, detail FROM link_name \
                       WHERE run = ? AND file_system = ? AND inode = ? ORDER BY root, path LIMIT 1";
        let values = params![run.signed(), from.file_system, from.inode];
        pack.set_earlier(statements.first(sql, values, link_name)?);
    }
    Ok(Some(pack))
}

/// Returns the pack of directories between two places.
pub(super) fn directory_pack(
    statements: &mut Statements<'_>,
    run: RunId,
    (after, until): DirectoryPlaces<'_>,
    limits: PackLimits,
) -> Result<Option<DirectoryPack>> {
    let sql = "SELECT root, path, detail FROM open_directory WHERE run = ? AND (height, root, path) > (?, ?, ?) \
                   ORDER BY height, root, path";
    let height = after.map_or(i64::MIN, |after| -i64::from(after.depth));
    let (root, path) = after.map_or((0, &[][..]), |after| (after.root, &after.path[..]));
    let values = params![run.signed(), height, root, path];
    statements.fold(sql, values, open_directory, |rows| {
        let rows =
            rows.take_while(|row| row.as_ref().map_or(true, |row| until.is_none_or(|until| until.has(row))));
        DirectoryPack::collect(rows, limits)
    })?
}

/// Returns the names of links in a range.
pub(super) fn links_in(
    statements: &mut Statements<'_>,
    run: RunId,
    range: &LinkRange,
) -> Result<Option<LinkPack>> {
    link_pack(statements, run, (range.after.as_ref(), Some(&range.until)), PackLimits::NONE)
}

/// Returns the open directories in a range.
pub(super) fn directories_in(
    statements: &mut Statements<'_>,
    run: RunId,
    range: &DirectoryRange,
) -> Result<Option<DirectoryPack>> {
    directory_pack(statements, run, (range.after.as_ref(), Some(&range.until)), PackLimits::NONE)
}
