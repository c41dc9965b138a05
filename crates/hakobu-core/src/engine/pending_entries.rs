//! Lists both sides of a directory in pages and finds the entries that can be compared.
//!
//! If both sides list in one order, that of [`Listing`] or that of keys, everything up to the smaller of the two last known entries is known
//! on both sides and can be compared. A file and a directory of one name are not adjacent in that order, however: `a`,
//! `a-b` and `a.c` come before the directory `a`. A file is therefore held back until the place of the directory of its
//! name is known on both sides as well. The number of files held back is at most the length of a name in bytes.

use std::cmp::Ordering;

use super::node::Prefetched;
use crate::entry::EntryKind;
use crate::entry_order::order;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::Cursor;
use crate::key_spelling::KeySpelling;
use crate::listing::Listing;

/// The entries of a directory that are known on both sides and have not been taken.
#[derive(Debug)]
pub(super) struct PendingEntries {
    pub source: SideEntries,
    pub target: SideEntries,
}

/// The known entries of one side.
#[derive(Debug, Default)]
pub(super) struct SideEntries {
    /// The known entries, in the order of the pages.
    listing: Listing,
    order: PageOrder,
    /// The last entry of the last page, whether it was taken or not.
    last_listed: Option<EntryOrder>,
    /// The number of entries at the start that are held back because a directory of their name may follow.
    stayed: usize,
    next: ListingPosition,
    /// Listings of directories further down that came with the last page. Those of earlier pages are discarded.
    pub below: Prefetched,
}

/// The position at which a listing continues.
#[derive(Debug, Default)]
enum ListingPosition {
    #[default]
    Begin,
    GoOn(Cursor),
    End,
}

/// The place of an entry in the order: its name and its kind.
type EntryOrder = (Vec<u8>, EntryKind);

/// The order of entries across the pages of a directory: that of the keys in a spelling, or that of [`Listing`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageOrder(pub Option<KeySpelling>);

impl PageOrder {
    fn compare(self, a: (&[u8], EntryKind), b: (&[u8], EntryKind)) -> Ordering {
        match self.0 {
            Some(spelling) => spelling.compare(a, b),
            None => order(a, b),
        }
    }
}

impl PendingEntries {
    /// Returns a directory with nothing listed yet. Without `is_at_source` the source's side is complete and empty.
    pub fn new(is_at_source: bool, order: PageOrder) -> Self {
        let side = || SideEntries { order, ..SideEntries::default() };
        let mut source = side();
        if !is_at_source {
            source.end();
        }
        Self { source, target: side() }
    }

    /// Returns true if everything has been taken.
    pub fn is_done(&self) -> bool {
        [&self.source, &self.target].iter().all(|side| side.has_ended() && side.listing.is_empty())
    }

    /// Takes the entries that can be compared, from the source and from the target. For each name taken, they are all
    /// entries that the two sides have. Both are in the order of [`Listing`].
    ///
    /// # Errors
    /// If an entry cannot be added to a listing.
    pub fn take(&mut self) -> Result<(Listing, Listing)> {
        let order = self.source.order;
        let go_on = [&self.source, &self.target].into_iter().filter(|side| !side.has_ended());
        let mut last: Option<EntryOrder> = None;
        for side in go_on {
            // A side that continues and has no known entries may still list anything.
            let Some(known) = side.last() else { return Ok(Default::default()) };
            last = Some(match last {
                Some(last) if order.compare(as_ref(&last), as_ref(&known)) == Ordering::Less => last,
                _ => known,
            });
        }
        match last {
            None => Ok((self.source.take_all(), self.target.take_all())),
            Some(last) => Ok((self.source.take_until(&last)?, self.target.take_until(&last)?)),
        }
    }
}

impl SideEntries {
    /// Returns true if more has to be listed before anything can be taken.
    pub fn wants_more(&self) -> bool {
        !self.has_ended() && self.listing.len() == self.stayed
    }

    /// Takes the cursor of the next page; `None` is the beginning.
    pub fn take_cursor(&mut self) -> Option<Cursor> {
        match std::mem::take(&mut self.next) {
            ListingPosition::GoOn(cursor) => Some(cursor),
            ListingPosition::Begin | ListingPosition::End => None,
        }
    }

    /// Adds the next page. `next`: the cursor of the page after it, if there is one.
    ///
    /// # Errors
    /// `Io` if the listing is not in order, since entries could then be mistaken for missing.
    pub fn add(&mut self, mut portion: Listing, next: Option<Cursor>, below: Prefetched) -> Result<()> {
        self.below = below;
        portion.sort_by(|a, b| self.order.compare(a, b));
        let first = (!portion.is_empty()).then(|| portion.place(0));
        let follows = match (&self.last_listed, first) {
            (Some(listed), Some(first)) => self.order.compare(as_ref(listed), first) == Ordering::Less,
            _ => true,
        };
        if let Some(last) = portion.len().checked_sub(1) {
            let (name, kind) = portion.place(last);
            self.last_listed = Some((name.to_vec(), kind));
        }
        if self.listing.is_empty() {
            self.listing = portion;
        } else {
            // Entries that stayed were copied, and the copy does not count as exact.
            copy(&portion, 0..portion.len(), &mut self.listing)?;
        }
        if !follows || !self.is_in_order() {
            let words = "its entries do not come in order, so nobody can tell what is missing; try it again";
            return Err(Error::new(ErrorKind::Io, "listing", words));
        }
        self.next = next.map_or(ListingPosition::End, ListingPosition::GoOn);
        Ok(())
    }

    /// Marks the listing as complete.
    pub fn end(&mut self) {
        self.next = ListingPosition::End;
    }

    fn is_in_order(&self) -> bool {
        let place = |index| self.listing.place(index);
        (1..self.listing.len())
            .all(|index| self.order.compare(place(index - 1), place(index)) == Ordering::Less)
    }

    fn has_ended(&self) -> bool {
        matches!(self.next, ListingPosition::End)
    }

    fn last(&self) -> Option<EntryOrder> {
        let (name, kind) = self.listing.place(self.listing.len().checked_sub(1)?);
        Some((name.to_vec(), kind))
    }

    fn take_all(&mut self) -> Listing {
        self.stayed = 0;
        let mut taken = std::mem::take(&mut self.listing);
        taken.sort();
        taken
    }

    /// Takes all entries up to a place, except files whose name a directory after that place may have.
    fn take_until(&mut self, last: &EntryOrder) -> Result<Listing> {
        let (mut taken, mut stays) = (Listing::default(), Listing::default());
        let mut index = 0;
        while index < self.listing.len() {
            let (name, kind) = self.listing.place(index);
            if self.order.compare((name, kind), as_ref(last)) == Ordering::Greater {
                break;
            }
            let is_before_twin = kind != EntryKind::Directory
                && self.order.compare((name, EntryKind::Directory), as_ref(last)) == Ordering::Greater;
            copy(&self.listing, index..index + 1, if is_before_twin { &mut stays } else { &mut taken })?;
            index += 1;
        }
        self.stayed = stays.len();
        copy(&self.listing, index..self.listing.len(), &mut stays)?;
        self.listing = stays;
        taken.sort();
        Ok(taken)
    }
}

fn as_ref((name, kind): &EntryOrder) -> (&[u8], EntryKind) {
    (name, *kind)
}

fn copy(from: &Listing, range: std::ops::Range<usize>, to: &mut Listing) -> Result<()> {
    range.into_iter().try_for_each(|index| to.push(from.name(index), *from.metadata(index)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::entry::EntryMetadata;

    /// Builds a listing; a name with a trailing slash is a directory.
    fn listing(names: &[&str]) -> Listing {
        let mut listing = Listing::default();
        for name in names {
            let kind = if name.ends_with('/') { EntryKind::Directory } else { EntryKind::File };
            listing.push(name.trim_end_matches('/').as_bytes(), EntryMetadata::new(kind)).unwrap();
        }
        listing
    }

    fn names(listing: &Listing) -> Vec<String> {
        let name = |(name, kind): (&[u8], EntryKind)| {
            String::from_utf8(name.to_vec()).unwrap() + if kind == EntryKind::Directory { "/" } else { "" }
        };
        (0..listing.len()).map(|index| name(listing.place(index))).collect()
    }

    fn in_order(order: PageOrder, names: &[&str]) -> Vec<String> {
        let mut listing = listing(names);
        listing.sort_by(|a, b| order.compare(a, b));
        self::names(&listing)
    }

    fn sorted(names: &[&str]) -> Vec<String> {
        in_order(PageOrder::default(), names)
    }

    /// Adds pages of the given sizes to each side when it wants more. Returns the entries taken each time.
    fn taken(
        order: PageOrder,
        (source, target): (&[&str], &[&str]),
        at_once: (usize, usize),
    ) -> Vec<[Vec<String>; 2]> {
        let mut sides = PendingEntries::new(true, order);
        let all = [(in_order(order, source), at_once.0), (in_order(order, target), at_once.1)];
        let mut taken = Vec::new();
        while !sides.is_done() {
            for (side, (names, at_once)) in [&mut sides.source, &mut sides.target].into_iter().zip(&all) {
                if side.wants_more() {
                    let begin: usize = side.take_cursor().map_or(0, |cursor| cursor.into_position().unwrap());
                    let end = (begin + at_once).min(names.len());
                    let portion: Vec<_> = names[begin..end].iter().map(|name| &**name).collect();
                    side.add(
                        listing(&portion),
                        (end < names.len()).then(|| Cursor::new(end)),
                        Prefetched::default(),
                    )
                    .unwrap();
                }
            }
            let (source, target) = sides.take().unwrap();
            taken.push([names(&source), names(&target)]);
            assert!(taken.len() < 1000, "it does not come to an end");
        }
        taken
    }

    #[test]
    fn what_is_known_of_both_is_taken_and_no_more() {
        let steps = taken(PageOrder::default(), (&["a", "b", "c", "d", "e"], &["b", "z"]), (2, 1));
        let text: Vec<_> = steps.iter().map(|[source, target]| (source.concat(), target.concat())).collect();
        let step = |source: &str, target: &str| (source.to_owned(), target.to_owned());
        // The last known name may still appear as a directory.
        assert_eq!(text, [step("a", ""), step("bc", "b"), step("de", "z")]);
    }

    #[test]
    fn a_file_waits_until_no_directory_of_its_name_can_come() {
        let steps = taken(PageOrder::default(), (&["a", "a-b", "a-c"], &["a-b", "a-d", "a/", "b"]), (1, 1));
        let with_a = |side: usize| {
            steps.iter().position(|step| step[side].iter().any(|name| name.trim_end_matches('/') == "a"))
        };
        assert_eq!(with_a(0), with_a(1));
        assert!(with_a(0).is_some());
    }

    #[test]
    fn of_a_directory_that_the_source_lacks_all_is_taken_in_portions() {
        let mut sides = PendingEntries::new(false, PageOrder::default());
        assert!(!sides.source.wants_more() && sides.target.wants_more());
        sides
            .target
            .add(listing(&["a", "b", "c/"]), Some(Cursor::new(3_usize)), Prefetched::default())
            .unwrap();
        assert_eq!(names(&sides.take().unwrap().1), ["a", "b", "c/"]);
        assert!(!sides.is_done());
        sides.target.end();
        assert!(sides.is_done());
    }

    #[test]
    fn pages_that_are_not_in_order_are_refused() {
        let mut side = SideEntries::default();
        side.add(listing(&["b", "c"]), Some(Cursor::new(2_usize)), Prefetched::default()).unwrap();
        let error = side.add(listing(&["a"]), None, Prefetched::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Io);
        let mut side = SideEntries::default();
        side.add(listing(&["b", "b"]), Some(Cursor::new(1_usize)), Prefetched::default()).unwrap();
        assert!(side.add(listing(&["b"]), None, Prefetched::default()).is_err());
    }

    proptest! {
        /// However the listings are split, each entry is taken once and in order, and all entries of one name together.
        #[test]
        fn any_portions_give_the_same(
            source in prop::collection::btree_set("[ab][ab.\u{1}-]{0,2}/?", 0..30),
            target in prop::collection::btree_set("[ab][ab.\u{1}-]{0,2}/?", 0..30),
            at_once in (1_usize..6, 1_usize..6),
            order in prop::sample::select(vec![PageOrder(None), PageOrder(Some(KeySpelling::S3))]),
        ) {
            let (source, target): (Vec<&str>, Vec<&str>) = (
                source.iter().map(|name| &**name).collect(),
                target.iter().map(|name| &**name).collect(),
            );
            let steps = taken(order, (&source, &target), at_once);
            let mut step_of: BTreeMap<&str, usize> = BTreeMap::new();
            for (number, step) in steps.iter().enumerate() {
                for name in step.iter().flatten() {
                    let earlier = step_of.insert(name.trim_end_matches('/'), number);
                    prop_assert!(earlier.is_none_or(|earlier| earlier == number), "{name}: {earlier:?}, {number}");
                }
                for side in step {
                    let names: Vec<_> = side.iter().map(|name| &**name).collect();
                    prop_assert_eq!(side, &sorted(&names));
                }
            }
            for (side, all) in [&source, &target].into_iter().enumerate() {
                let mut found: Vec<&str> = steps.iter().flat_map(|step| &step[side]).map(|name| &**name).collect();
                found.sort_unstable();
                prop_assert_eq!(&found, all);
            }
        }
    }
}
