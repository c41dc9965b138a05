//! Listings of large directories in several ranges at a time.
//!
//! A store lists one page after another, because only a page tells where the next one begins. But a listing can begin
//! anywhere, so a guess in the middle of the keys that are still to come divides them into two ranges.

use std::cmp::Reverse;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hakobu_core::listing::ENTRIES_MAX;
use hakobu_core::{Error, ErrorKind, Result};

use super::api::{ListCursor, ListQuery, ListStart, ListedObject, ObjectApi, ObjectPage};
use super::key_pages::{EMPTY_PAGES_MAX, endless};
use super::key_space::KeyAlphabet;
use super::keys::check_page;

/// The pages listed for each range that is divided. A range ends within a page, so that dividing costs up to one request.
pub(crate) const PAGES_PER_RANGE: usize = 24;
/// The maximum number of pages that are asked for at a time.
const RANGES_MAX: usize = 16;

/// An entry of a directory in a bucket.
#[derive(Clone, Debug)]
pub(crate) enum KeyEntry {
    Object(ListedObject),
    /// A directory: the beginning of keys, with the slash at the end.
    Prefix(String),
}

impl KeyEntry {
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Object(object) => &object.key,
            Self::Prefix(prefix) => prefix,
        }
    }
}

/// A range of keys that is listed page by page.
#[derive(Debug)]
struct KeyRange {
    /// The key after which it begins.
    after: String,
    /// The last key that it may have, after which the next range begins; `None` for the last range.
    until: Option<String>,
    /// The store's cursor after the last page.
    cursor: Option<ListCursor>,
    entries: Vec<KeyEntry>,
    /// The number of pages in a row with nothing in them.
    empty_pages: u32,
    is_over: bool,
    /// True if it was begun by a guess and no page of it has arrived.
    is_guess: bool,
}

impl KeyRange {
    fn new(after: String, until: Option<String>) -> Self {
        Self {
            after,
            until,
            cursor: None,
            entries: Vec::new(),
            empty_pages: 0,
            is_over: false,
            is_guess: false,
        }
    }

    /// Returns the last key that has been listed.
    fn last(&self) -> &str {
        self.entries.last().map_or(&self.after, KeyEntry::key)
    }

    /// Adds a page, up to the beginning of the next range.
    ///
    /// # Errors
    /// `Protocol` if the store lists without an end.
    fn add(&mut self, page: ObjectPage) -> Result<()> {
        let ObjectPage { objects, prefixes, next } = page;
        let mut entries: Vec<KeyEntry> = objects
            .into_iter()
            .map(KeyEntry::Object)
            .chain(prefixes.into_iter().map(KeyEntry::Prefix))
            .collect();
        entries.sort_by(|one, other| one.key().cmp(other.key()));
        let until = self.until.as_deref();
        let end = entries.partition_point(|entry| until.is_none_or(|until| entry.key() <= until));
        self.is_over = next.is_none() || end < entries.len();
        let is_behind =
            entries.first().is_none_or(|first| first.key() > self.last() || self.entries.is_empty());
        self.empty_pages = if entries.is_empty() { self.empty_pages + 1 } else { 0 };
        if !self.is_over && (self.cursor == next || self.empty_pages > EMPTY_PAGES_MAX || !is_behind) {
            return Err(endless());
        }
        entries.truncate(end);
        self.entries.append(&mut entries);
        self.cursor = next;
        self.is_guess = false;
        Ok(())
    }

    /// Returns a key that divides what is left of it.
    fn guess(&self, first: &str, alphabet: &KeyAlphabet) -> Option<String> {
        match &self.until {
            Some(until) => alphabet.middle(self.last(), until),
            None => alphabet.beyond(first.min(self.last()), self.last()),
        }
    }

    /// Returns how much is left of it, to be compared.
    fn left(&self) -> Reverse<usize> {
        let pairs = self.until.iter().flat_map(|until| self.last().bytes().zip(until.bytes()));
        Reverse(pairs.take_while(|(one, other)| one == other).count())
    }
}

/// Lists what is directly in a directory, whose keys begin with `prefix`, after a key. `alphabet` has the characters of the
/// keys before it, from `first` on.
///
/// # Errors
/// Those of the store.
pub(crate) async fn list_ranges(
    api: &dyn ObjectApi,
    prefix: &str,
    (first, after): (&str, &str),
    mut alphabet: KeyAlphabet,
) -> Result<Vec<KeyEntry>> {
    let entries = api.limits().list_page;
    let ask = |index: usize, after: String, cursor: Option<ListCursor>| async move {
        let start = cursor.as_ref().map_or(ListStart::After(&after), ListStart::Cursor);
        let query = ListQuery { prefix, delimiter: true, start, until: None, entries };
        let page = api.list(query).await?;
        check_page(&page, prefix)?;
        Ok::<_, Error>((index, page))
    };
    let mut ranges = vec![KeyRange::new(after.to_owned(), None)];
    let mut asked = FuturesUnordered::new();
    asked.push(ask(0, after.to_owned(), None));
    let (mut pages, mut divided) = (PAGES_PER_RANGE, 0);
    while let Some(answer) = asked.next().await {
        let (index, page) = answer?;
        pages += 1;
        if ranges.iter().map(|range| range.entries.len()).sum::<usize>() > ENTRIES_MAX {
            return Err(Error::new(ErrorKind::Unsupported, "listing", "it has too many entries"));
        }
        page.objects.iter().for_each(|object| alphabet.add(&object.key));
        page.prefixes.iter().for_each(|prefix| alphabet.add(prefix));
        if let Some(range) = ranges.get_mut(index) {
            range.add(page)?;
            if !range.is_over {
                asked.push(ask(index, range.last().to_owned(), range.cursor.clone()));
            }
        }
        while asked.len() < RANGES_MAX && divided < pages / PAGES_PER_RANGE {
            let Some((index, guess)) = divide(&ranges, first, &alphabet) else { break };
            divided += 1;
            let until = ranges[index].until.replace(guess.clone());
            let next = ranges.len();
            asked.push(ask(next, guess.clone(), None));
            ranges.push(KeyRange { is_guess: true, ..KeyRange::new(guess, until) });
        }
    }
    ranges.sort_by(|one, other| one.after.cmp(&other.after));
    let mut all: Vec<KeyEntry> = Vec::with_capacity(ranges.iter().map(|range| range.entries.len()).sum());
    for range in ranges {
        // A range that begins inside a directory lists that directory as the one before it does.
        let skipped = usize::from(
            range
                .entries
                .first()
                .is_some_and(|entry| all.last().is_some_and(|last| last.key() == entry.key())),
        );
        all.extend(range.entries.into_iter().skip(skipped));
    }
    Ok(all)
}

/// Returns the range with most left that can be divided, and the key at which to divide it.
fn divide(ranges: &[KeyRange], first: &str, alphabet: &KeyAlphabet) -> Option<(usize, String)> {
    let mut open: Vec<_> =
        ranges.iter().enumerate().filter(|(_, range)| !range.is_over && !range.is_guess).collect();
    open.sort_by_key(|(_, range)| Reverse(range.left()));
    let guess = |(index, range): (usize, &KeyRange)| {
        let begin = if index == 0 { first } else { &range.after };
        Some((index, range.guess(begin, alphabet)?))
    };
    open.into_iter().find_map(guess)
}
