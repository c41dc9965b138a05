//! The exchange of one unit: its places are those of the whole run, whether or not the target exists yet.

use std::sync::{Mutex, PoisonError};

use hakobu_core::error::Error;
use hakobu_core::exchange::{
    DirectoryEnd, DirectoryShare, DirectorySlice, NameShare, SharePlace, WorkDemand, WorkExchange, WorkShare,
};
use hakobu_core::extent::Extent;
use hakobu_core::open_file::OpenLargeFile;
use hakobu_core::path::EntryPath;
use hakobu_core::target_lease::TargetLease;

/// An exchange whose unit has been taken.
///
/// A target that does not exist has its parent as the root of the run, and its own name leads all places in it. For later
/// units it is the root itself. Outside, places are always named as for these.
pub struct UnitExchange<'a> {
    outer: &'a dyn WorkExchange,
    shares: Mutex<Option<Vec<WorkShare>>>,
    lease: TargetLease,
    /// The target below the run's root, if it does not exist yet.
    new_target: Option<EntryPath>,
}

impl<'a> UnitExchange<'a> {
    /// Takes the unit of an exchange.
    pub fn begin(outer: &'a dyn WorkExchange, new_target: Option<EntryPath>) -> Self {
        let shares = outer.begin();
        let lease = match shares {
            Some(_) => outer.lease().clone(),
            None => outer.lease().clone().of_items(),
        };
        Self { outer, shares: Mutex::new(shares), lease, new_target }
    }

    /// Returns true if the unit is a part that an earlier unit gave away. That one has made the target, if it was not there.
    pub fn is_given(&self) -> bool {
        let shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.iter().flatten().any(|share| !matches!(share, WorkShare::Entry(_)))
    }

    /// Returns the identity of the run: the first half is that of the job, the second is that of the lease, so that each has
    /// locks, drafts and marks of its own.
    pub fn identity(&self, of_job: &[u8; 16]) -> [u8; 16] {
        let mut identity = *of_job;
        identity[8..].copy_from_slice(&self.lease.key());
        identity
    }

    /// Names a place as in this run.
    fn enter(&self, place: &mut SharePlace) {
        let Some(top) = &self.new_target else { return };
        place.target = place.target.names().fold(top.clone(), joined);
        place.top_names = place.top_names.saturating_add(count(top));
    }

    /// Names a place as if the target had been there.
    fn leave(&self, place: &mut SharePlace) {
        let Some(top) = self.new_target.as_ref().filter(|top| place.target.is_within(top)) else { return };
        place.target = place.target.names().skip(top.names().count()).fold(EntryPath::root(), joined);
        place.top_names = place.top_names.saturating_sub(count(top));
    }
}

fn count(path: &EntryPath) -> u16 {
    u16::try_from(path.names().count()).unwrap_or(u16::MAX)
}

/// Returns a path with one more name, which comes from a path and so can be one.
fn joined(path: EntryPath, name: &[u8]) -> EntryPath {
    path.join(name).unwrap_or(path)
}

impl WorkExchange for UnitExchange<'_> {
    fn begin(&self) -> Option<Vec<WorkShare>> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner).take();
        for share in shares.iter_mut().flatten() {
            self.enter(match share {
                WorkShare::Directory(share) => &mut share.place,
                WorkShare::Slice(slice) => &mut slice.place,
                WorkShare::Name(share) => &mut share.place,
                WorkShare::End(end) => &mut end.place,
                WorkShare::Range(range) => &mut range.file.place,
                WorkShare::File(end) => &mut end.file.place,
                WorkShare::Entry(_) => continue,
            });
        }
        shares
    }

    fn demand(&self, entries: u64, bytes: u64) -> WorkDemand {
        self.outer.demand(entries, bytes)
    }

    fn give(&self, mut shares: Vec<DirectoryShare>) {
        shares.iter_mut().for_each(|share| self.leave(&mut share.place));
        self.outer.give(shares);
    }

    fn slice_demand(&self, entries: u64) -> WorkDemand {
        self.outer.slice_demand(entries)
    }

    fn give_slices(&self, mut slices: Vec<DirectorySlice>) {
        slices.iter_mut().for_each(|slice| self.leave(&mut slice.place));
        self.outer.give_slices(slices);
    }

    fn takes_names(&self) -> bool {
        self.outer.takes_names()
    }

    fn give_names(&self, mut names: Vec<NameShare>) {
        names.iter_mut().for_each(|name| self.leave(&mut name.place));
        self.outer.give_names(names);
    }

    fn range_bytes(&self, left_bytes: u64) -> Option<u64> {
        self.outer.range_bytes(left_bytes)
    }

    fn give_ranges(&self, mut file: OpenLargeFile, ranges: Vec<Extent>) {
        self.leave(&mut file.place);
        self.outer.give_ranges(file, ranges);
    }

    fn tear(&self, file: &OpenLargeFile, error: Error) {
        let mut file = file.clone();
        self.leave(&mut file.place);
        self.outer.tear(&file, error);
    }

    fn leave_open(&self, mut directories: Vec<DirectoryEnd>) {
        directories.iter_mut().for_each(|end| self.leave(&mut end.place));
        self.outer.leave_open(directories);
    }

    fn lease(&self) -> &TargetLease {
        &self.lease
    }

    fn completes(&self) -> bool {
        self.outer.completes()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A unit that begins with the same each time, and gives nothing away.
    pub(crate) struct FixedUnit {
        /// The shares that it begins with.
        shares: Option<Vec<WorkShare>>,
        lease: TargetLease,
    }

    impl FixedUnit {
        pub(crate) fn new(shares: Option<Vec<WorkShare>>) -> Self {
            Self { shares, lease: TargetLease::endless([7; 8]) }
        }
    }

    impl WorkExchange for FixedUnit {
        fn begin(&self) -> Option<Vec<WorkShare>> {
            self.shares.clone()
        }

        fn demand(&self, _entries: u64, _bytes: u64) -> WorkDemand {
            WorkDemand::Nothing
        }

        fn give(&self, _shares: Vec<DirectoryShare>) {}

        fn slice_demand(&self, _entries: u64) -> WorkDemand {
            WorkDemand::Nothing
        }

        fn give_slices(&self, _slices: Vec<DirectorySlice>) {}

        fn takes_names(&self) -> bool {
            false
        }

        fn give_names(&self, _names: Vec<NameShare>) {}

        fn leave_open(&self, _directories: Vec<DirectoryEnd>) {}

        fn lease(&self) -> &TargetLease {
            &self.lease
        }
    }

    #[test]
    fn places_are_those_of_a_target_that_is_there() {
        let path = |text: &str| EntryPath::new(text).unwrap();
        let outer = FixedUnit::new(None);
        let unit = UnitExchange::begin(&outer, Some(path("new")));
        for (outside, top_names) in [("", 0), ("a", 1), ("a/b", 1)] {
            let place = |target: &str, top_names| SharePlace {
                root: 0,
                source: path("s"),
                target: path(target),
                top_names,
            };
            let mut moved = place(outside, top_names);
            unit.enter(&mut moved);
            let inside = if outside.is_empty() { "new".to_owned() } else { format!("new/{outside}") };
            assert_eq!(moved, place(&inside, top_names + 1));
            unit.leave(&mut moved);
            assert_eq!(moved, place(outside, top_names));
            let there = UnitExchange::begin(&outer, None);
            there.enter(&mut moved);
            there.leave(&mut moved);
            assert_eq!(moved, place(outside, top_names));
        }
        let identity = unit.identity(&[1; 16]);
        assert_eq!((&identity[..8], &identity[8..]), (&[1; 8][..], &[7; 8][..]));
        assert!(unit.lease().is_of_items() && unit.lease() == outer.lease());
    }
}
