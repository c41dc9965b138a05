//! Looks up single entries.

use hakobu_core::Result;
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::listing::Detail;
use hakobu_core::path::EntryPath;

use super::api::{ListQuery, ListStart, ObjectApi};
use super::attributes::AttributeReader;
use super::entry::{DescribedObject, described, implied_directory};
use super::keys::{KeyRoot, check_page};
use super::metadata::ObjectExtended;

/// Returns the entry of a path with what a listing of that detail shows, or `None` if there is none. A root always exists,
/// as a directory.
pub(crate) async fn look(
    reader: AttributeReader<'_>,
    path: &EntryPath,
    detail: Detail,
) -> Result<Option<EntryMetadata>> {
    let Some((key, entry)) = find(reader.api, reader.root, path).await? else { return Ok(None) };
    let mut metadata = entry.metadata;
    reader.show((&key, &entry.extended), detail, &mut metadata).await?;
    Ok(Some(metadata))
}

/// Returns the entry of a path with its key, or `None` if there is none. A root always exists, as a directory.
pub(crate) async fn find(
    api: &dyn ObjectApi,
    root: &KeyRoot,
    path: &EntryPath,
) -> Result<Option<(String, DescribedObject)>> {
    if !path.is_root() {
        let key = root.key(path)?;
        if let Some(head) = api.head(&key).await? {
            let entry = described(api.limits(), &head, false);
            // Azure has a directory's own object under the name without a slash as well.
            let key = if entry.metadata.kind == EntryKind::Directory { root.directory(path)? } else { key };
            return Ok(Some((key, entry)));
        }
    }
    let prefix = root.directory(path)?;
    let query =
        ListQuery { prefix: &prefix, delimiter: false, start: ListStart::First, until: None, entries: 1 };
    let page = api.list(query).await?;
    check_page(&page, &prefix)?;
    let implied = DescribedObject {
        metadata: implied_directory(),
        digest: None,
        checksum: None,
        is_proven: false,
        extended: ObjectExtended::None,
        stored_inode: None,
        owner: None,
        lacks_number: false,
    };
    match page.objects.first() {
        // In a store with an order of its own, the root's object is not among those in it.
        Some(first) if first.key == prefix || path.is_root() && has_hidden_object(api, &prefix) => {
            let head = api.head(&prefix).await?;
            let entry = head.map_or(implied, |head| described(api.limits(), &head, true));
            Ok(Some((prefix, entry)))
        }
        None if !path.is_root() => Ok(None),
        _ => Ok(Some((prefix, implied))),
    }
}

/// Returns true if a directory's own object is not listed with those in it.
fn has_hidden_object(api: &dyn ObjectApi, prefix: &str) -> bool {
    !api.limits().lists_bytewise && !prefix.is_empty()
}
