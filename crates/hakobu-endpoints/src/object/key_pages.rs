//! Listings of keys, page by page.

use hakobu_core::{Error, ErrorKind, Result};

use super::api::{ListCursor, ListQuery, ListStart, ListedObject, ObjectApi, ObjectPage};
use super::keys::check_page;

/// The most pages in a row that a store may answer with nothing in them.
pub(crate) const EMPTY_PAGES_MAX: u32 = 10_000;

/// The pages of the keys that begin with a prefix.
pub(crate) struct KeyPages<'a> {
    api: &'a dyn ObjectApi,
    prefix: &'a str,
    start: ListStart<'a>,
    cursor: Option<ListCursor>,
    empty_pages: u32,
    /// True after the last page.
    pub(crate) is_over: bool,
}

impl<'a> KeyPages<'a> {
    pub(crate) fn new(api: &'a dyn ObjectApi, prefix: &'a str, start: ListStart<'a>) -> Self {
        Self { api, prefix, start, cursor: None, empty_pages: 0, is_over: false }
    }

    /// Returns the next page, of at most `entries` keys. After the last one, all are empty.
    ///
    /// # Errors
    /// `Protocol` if the store lists other keys, or without an end.
    pub(crate) async fn next(&mut self, entries: usize) -> Result<Vec<ListedObject>> {
        if self.is_over {
            return Ok(Vec::new());
        }
        let start = self.cursor.as_ref().map_or(self.start, ListStart::Cursor);
        let entries = entries.clamp(1, self.api.limits().list_page.max(1));
        let query = ListQuery { prefix: self.prefix, delimiter: false, start, until: None, entries };
        let page = self.api.list(query).await?;
        check_page(&page, self.prefix)?;
        let ObjectPage { objects, next, .. } = page;
        self.empty_pages = if objects.is_empty() { self.empty_pages + 1 } else { 0 };
        if next.is_some() && (self.cursor == next || self.empty_pages > EMPTY_PAGES_MAX) {
            return Err(endless());
        }
        self.is_over = next.is_none();
        self.cursor = next;
        Ok(objects)
    }
}

pub(crate) fn endless() -> Error {
    Error::new(ErrorKind::Protocol, "listing", "the store lists without an end; report it to its maker")
}
