//! Looks up single entries.

use hakobu_core::Result;
use hakobu_core::entry::{EntryKind, EntryMetadata, FileTime};
use hakobu_core::path::EntryPath;

use super::api::{ListQuery, ListStart, ObjectApi};
use super::entry::{DescribedObject, described, plain};
use super::keys::{KeyRoot, check_page};

/// Returns the entry of a path, or `None` if there is none. A root always exists, as a directory.
pub(crate) async fn look(
    api: &dyn ObjectApi,
    root: &KeyRoot,
    path: &EntryPath,
) -> Result<Option<DescribedObject>> {
    let implied = || plain(EntryKind::Directory, 0, FileTime::default());
    if !path.is_root()
        && let Some(head) = api.head(&root.key(path)?).await?
    {
        return Ok(Some(described(api.limits(), &head, false)));
    }
    let prefix = root.directory(path)?;
    let query =
        ListQuery { prefix: &prefix, delimiter: false, start: ListStart::First, until: None, entries: 1 };
    let page = api.list(query).await?;
    check_page(&page, &prefix)?;
    let of_directory = |metadata: EntryMetadata| DescribedObject { metadata, digest: None };
    match page.objects.first() {
        // In a store with an order of its own, the root's object is not among those in it.
        Some(first) if first.key == prefix || path.is_root() && has_hidden_object(api, &prefix) => {
            let head = api.head(&prefix).await?;
            Ok(Some(
                head.map_or_else(|| of_directory(implied()), |head| described(api.limits(), &head, true)),
            ))
        }
        Some(_) => Ok(Some(of_directory(implied()))),
        None if path.is_root() => Ok(Some(of_directory(implied()))),
        None => Ok(None),
    }
}

/// Returns true if a directory's own object is not listed with those in it.
fn has_hidden_object(api: &dyn ObjectApi, prefix: &str) -> bool {
    !api.limits().lists_bytewise && !prefix.is_empty()
}
