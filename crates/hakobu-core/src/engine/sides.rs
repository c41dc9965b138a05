//! Both sides of a directory, listed in portions at the same time.
//!
//! Where both list in the order of [`Listing`], what comes before the last entry that is known of each is known of both, and can be
//! compared. But a file and a directory of one name do not stand together: `a`, `a-b` and `a.c` come before the directory `a`. So a
//! file stays until that place is known of both sides as well. There are never more of these than a name has bytes.

use std::cmp::Ordering;

use super::node::Prefetched;
use crate::entry::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::Cursor;
use crate::listing::{Listing, order};

/// What is known of a directory at both sides and has not been taken.
#[derive(Debug)]
pub(super) struct Sides {
    pub source: Side,
    pub target: Side,
}

/// What is known of it at one side.
#[derive(Debug, Default)]
pub(super) struct Side {
    listing: Listing,
    /// How many entries, the first of them, have stayed because they may come as directories.
    stayed: usize,
    next: Next,
    /// What is known of directories below, as far as they came along with the last portion. None of an earlier one is left.
    pub below: Prefetched,
}

/// How a listing goes on.
#[derive(Debug, Default)]
enum Next {
    #[default]
    Begin,
    GoOn(Cursor),
    End,
}

/// The place of an entry in the order: its name and its kind.
type Place = (Vec<u8>, Kind);

impl Sides {
    /// Returns a directory of which nothing is known, or that the source lacks.
    pub fn new(is_at_source: bool) -> Self {
        let mut source = Side::default();
        if !is_at_source {
            source.end();
        }
        Self { source, target: Side::default() }
    }

    /// Returns whether everything has been taken.
    pub fn is_done(&self) -> bool {
        [&self.source, &self.target].iter().all(|side| side.has_ended() && side.listing.is_empty())
    }

    /// Takes what can be compared, of the source and of the target: all that they have of some names.
    ///
    /// # Errors
    /// When an entry cannot be in a listing.
    pub fn take(&mut self) -> Result<(Listing, Listing)> {
        let go_on = [&self.source, &self.target].into_iter().filter(|side| !side.has_ended());
        let mut last: Option<Place> = None;
        for side in go_on {
            // Of one that goes on and of which nothing is known, anything may come.
            let Some(known) = side.last() else { return Ok(Default::default()) };
            last = Some(match last {
                Some(last) if order(as_ref(&last), as_ref(&known)) == Ordering::Less => last,
                _ => known,
            });
        }
        match last {
            None => Ok((self.source.take_all(), self.target.take_all())),
            Some(last) => Ok((self.source.take_until(&last)?, self.target.take_until(&last)?)),
        }
    }
}

impl Side {
    /// Returns whether more has to be known before anything can be taken.
    pub fn wants_more(&self) -> bool {
        !self.has_ended() && self.listing.len() == self.stayed
    }

    /// Returns where the next portion begins; `None` is the beginning.
    pub fn take_cursor(&mut self) -> Option<Cursor> {
        match std::mem::take(&mut self.next) {
            Next::GoOn(cursor) => Some(cursor),
            Next::Begin | Next::End => None,
        }
    }

    /// Adds the next portion, and where the one behind it begins, if there is one.
    ///
    /// # Errors
    /// `Io` if it is not in order: what has been passed would be taken for missing.
    pub fn add(&mut self, portion: Listing, next: Option<Cursor>, below: Prefetched) -> Result<()> {
        self.below = below;
        if self.listing.is_empty() {
            self.listing = portion;
        } else {
            copy(&portion, 0..portion.len(), &mut self.listing)?;
        }
        if !self.listing.is_sorted() {
            let words = "its entries do not come in order, so nobody can tell what is missing; try it again";
            return Err(Error::new(ErrorKind::Io, "listing", words));
        }
        self.next = next.map_or(Next::End, Next::GoOn);
        Ok(())
    }

    /// There is no more of it.
    pub fn end(&mut self) {
        self.next = Next::End;
    }

    fn has_ended(&self) -> bool {
        matches!(self.next, Next::End)
    }

    fn last(&self) -> Option<Place> {
        let (name, kind) = self.listing.place(self.listing.len().checked_sub(1)?);
        Some((name.to_vec(), kind))
    }

    fn take_all(&mut self) -> Listing {
        self.stayed = 0;
        std::mem::take(&mut self.listing)
    }

    /// Takes all entries up to a place, but for files whose name a directory behind it may have.
    fn take_until(&mut self, last: &Place) -> Result<Listing> {
        let (mut taken, mut stays) = (Listing::default(), Listing::default());
        let mut index = 0;
        while index < self.listing.len() {
            let (name, kind) = self.listing.place(index);
            if order((name, kind), as_ref(last)) == Ordering::Greater {
                break;
            }
            let is_before_twin =
                kind != Kind::Directory && order((name, Kind::Directory), as_ref(last)) == Ordering::Greater;
            copy(&self.listing, index..index + 1, if is_before_twin { &mut stays } else { &mut taken })?;
            index += 1;
        }
        self.stayed = stays.len();
        copy(&self.listing, index..self.listing.len(), &mut stays)?;
        self.listing = stays;
        Ok(taken)
    }
}

fn as_ref((name, kind): &Place) -> (&[u8], Kind) {
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
    use crate::entry::Metadata;

    /// A name that ends with a slash is that of a directory.
    fn listing(names: &[&str]) -> Listing {
        let mut listing = Listing::default();
        for name in names {
            let kind = if name.ends_with('/') { Kind::Directory } else { Kind::File };
            listing.push(name.trim_end_matches('/').as_bytes(), Metadata::new(kind)).unwrap();
        }
        listing
    }

    fn names(listing: &Listing) -> Vec<String> {
        let name = |(name, kind): (&[u8], Kind)| {
            String::from_utf8(name.to_vec()).unwrap() + if kind == Kind::Directory { "/" } else { "" }
        };
        (0..listing.len()).map(|index| name(listing.place(index))).collect()
    }

    fn sorted(names: &[&str]) -> Vec<String> {
        let mut listing = listing(names);
        listing.sort();
        self::names(&listing)
    }

    /// Gives each side portions of so many entries when it wants more, and returns what was taken each time.
    fn taken(source: &[&str], target: &[&str], at_once: (usize, usize)) -> Vec<[Vec<String>; 2]> {
        let mut sides = Sides::new(true);
        let all = [(sorted(source), at_once.0), (sorted(target), at_once.1)];
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
        let steps = taken(&["a", "b", "c", "d", "e"], &["b", "z"], (2, 1));
        let text: Vec<_> = steps.iter().map(|[source, target]| (source.concat(), target.concat())).collect();
        let step = |source: &str, target: &str| (source.to_owned(), target.to_owned());
        // The last that is known may come as a directory.
        assert_eq!(text, [step("a", ""), step("bc", "b"), step("de", "z")]);
    }

    #[test]
    fn a_file_waits_until_no_directory_of_its_name_can_come() {
        let steps = taken(&["a", "a-b", "a-c"], &["a-b", "a-d", "a/", "b"], (1, 1));
        let with_a = |side: usize| {
            steps.iter().position(|step| step[side].iter().any(|name| name.trim_end_matches('/') == "a"))
        };
        assert_eq!(with_a(0), with_a(1));
        assert!(with_a(0).is_some());
    }

    #[test]
    fn of_a_directory_that_the_source_lacks_all_is_taken_in_portions() {
        let mut sides = Sides::new(false);
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
    fn what_is_not_in_order_is_refused() {
        let mut side = Side::default();
        side.add(listing(&["b", "c"]), Some(Cursor::new(2_usize)), Prefetched::default()).unwrap();
        let error = side.add(listing(&["a"]), None, Prefetched::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Io);
        assert!(Side::default().add(listing(&["b", "a"]), None, Prefetched::default()).is_err());
    }

    proptest! {
        /// However the listings are cut, all is taken once, in order, and all that both sides have of a name together.
        #[test]
        fn any_portions_give_the_same(
            source in prop::collection::btree_set("[ab][ab.-]{0,2}/?", 0..30),
            target in prop::collection::btree_set("[ab][ab.-]{0,2}/?", 0..30),
            at_once in (1_usize..6, 1_usize..6),
        ) {
            let (source, target): (Vec<&str>, Vec<&str>) = (
                source.iter().map(|name| &**name).collect(),
                target.iter().map(|name| &**name).collect(),
            );
            let steps = taken(&source, &target, at_once);
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
