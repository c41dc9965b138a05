//! Directories that still have pending work in or below them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::pending_entries::PendingEntries;
use crate::counters::LaneCounters;
use crate::endpoint::Change;
use crate::entry::{Attributes, EntryKind, FileTime};
use crate::error::{Error, ErrorKind, Result};
use crate::event::EntryAction;
use crate::exchange::{DirectoryEnd, DirectoryOutcome, DirectoryShare, SharePlace};
use crate::handle::Cursor;
use crate::listing::{DirectoryListing, Listing};
use crate::path::EntryPath;

/// A directory at the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The index of the source's root.
    pub root: u16,
    /// The path of the directory.
    pub path: EntryPath,
    /// The single entry to copy from it, if the user named that entry.
    pub only: Option<SingleEntry>,
}

/// One entry of a directory, and its name at the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SingleEntry {
    /// The entry's name at the source.
    pub name: Vec<u8>,
    /// The entry's name at the target.
    pub target_name: Vec<u8>,
}

impl Origin {
    /// Returns an origin that stands for a whole directory.
    pub fn whole(root: u16, path: EntryPath) -> Self {
        Self { root, path, only: None }
    }

    /// Returns the path to show to users: that of the directory, or of its only entry.
    pub fn named(&self) -> EntryPath {
        let named = self.only.as_ref().and_then(|only| self.path.join(&only.name).ok());
        named.unwrap_or_else(|| self.path.clone())
    }
}

/// The counter that a directory adds to once it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountedDirectory {
    /// The target did not have it.
    Created,
    /// It replaced something else.
    Updated,
    /// Its attributes differed.
    AttributesOnly,
    /// It was equal. Entries may still have been written into it.
    Unchanged,
    /// It differs, in a run that only compares.
    Different,
    /// The source does not have it. It is removed, or only counted.
    OnlyInTarget,
    /// None: it only leads to an entry that the user named.
    Not,
}

impl From<DirectoryOutcome> for CountedDirectory {
    fn from(outcome: DirectoryOutcome) -> Self {
        match outcome {
            DirectoryOutcome::Created => Self::Created,
            DirectoryOutcome::Updated => Self::Updated,
            DirectoryOutcome::AttributesOnly => Self::AttributesOnly,
            DirectoryOutcome::Unchanged => Self::Unchanged,
        }
    }
}

/// The part of a directory that another run has given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GivenPart {
    /// Nothing: this run has found it.
    Nothing,
    /// All in it, or only its attributes.
    Directory,
    /// Names of files with further names.
    Names,
    /// Some of many entries.
    Slice,
}

/// The attributes of a directory that have to be set in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TouchedAttributes {
    /// None, unless something is written into it.
    Not,
    /// Its attributes.
    Yes,
    /// Its attributes and its extended attributes.
    WithExtended,
}

impl TouchedAttributes {
    /// Returns the value for a directory. `touched`: it is new or differs. `extended`: so may its extended attributes.
    pub fn new(touched: bool, extended: bool) -> Self {
        match (touched, extended) {
            (false, _) => Self::Not,
            (true, false) => Self::Yes,
            (true, true) => Self::WithExtended,
        }
    }
}

/// The handling of a directory that the source does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExtraDirectory {
    /// True if it is removed, false if it is only counted.
    pub removed: bool,
    /// The number of leading names in its path that belong to the directory that stays.
    pub kept_names: u16,
    /// The kind of the source's entry at its path, which is not a directory.
    pub in_the_way_of: Option<EntryKind>,
}

/// A directory on both sides, kept until everything below it is done.
#[derive(Debug)]
pub(super) struct DirectoryNode {
    /// The directory at the source. There are several if sources are merged into one directory; of two entries with one
    /// name, that of the first origin counts. There are none for a directory that is not scanned, or that only the
    /// target has.
    pub origins: Vec<Origin>,
    /// The directory at the target.
    pub target: EntryPath,
    /// The attributes to set in the end; `None` for a directory that is not itself copied.
    pub attributes: Option<Attributes>,
    /// The counter that it adds to in the end.
    counted: CountedDirectory,
    /// True if its extended attributes have to be set.
    pub extended: bool,
    /// Set for a directory that only the target has.
    doomed: Option<ExtraDirectory>,
    /// The number of leading names in the target path that belong to the top, which filter rules are relative to.
    top_names: u16,
    /// The parent directory, if that is copied as well.
    pub parent: Option<Arc<DirectoryNode>>,
    /// The number of pending tasks in and below it, including its own scan.
    pending: AtomicU64,
    /// True if its attributes have to be set: it is new or differs, or something was written into it.
    touched: AtomicBool,
    /// True if a plan deletes something in it.
    shrinks: AtomicBool,
    /// True if it is among the failures; each is reported once.
    failed: AtomicBool,
    /// True if another run works on something in or below it.
    open: AtomicBool,
    /// True if slices of it were given away.
    has_slices: AtomicBool,
    /// True if something in it could not be removed.
    stuck: AtomicBool,
    /// True if a filter rule excludes something in it, so that it stays.
    spared: AtomicBool,
    /// The part of it that another run has given away.
    given: GivenPart,
    /// True if it is certain that the directories above it are those that were copied last.
    is_above_settled: bool,
    /// The proof that it is the directory that was copied last.
    proof: DirectoryProof,
    /// The time of the last change of the source's directory when it was listed, if its upload must prove something.
    pub listed_ctime: Option<FileTime>,
}

/// The proof that neither a directory of the source nor one above it has been replaced by another one since it was
/// copied. Without it, old times of the entries in it prove nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DirectoryProof {
    /// There is no proof, and none is needed.
    #[default]
    NotNeeded,
    /// It and all directories above it are settled.
    Settled,
    /// It is settled itself, but not all directories above it.
    SettledAlone,
    /// It may be another directory. Once all in it has been examined, its attributes are set, which renews the time of
    /// their upload.
    Missing,
}

impl DirectoryNode {
    /// Returns a directory whose scan is pending.
    pub fn new(
        place: (Vec<Origin>, EntryPath),
        end: (Option<Attributes>, CountedDirectory),
        parent: Option<Arc<DirectoryNode>>,
        touched: TouchedAttributes,
    ) -> Arc<Self> {
        Self::with_proof(place, end, parent, (touched, DirectoryProof::default(), None))
    }

    /// Returns a directory whose scan is pending, with the proof for it.
    pub fn with_proof(
        place: (Vec<Origin>, EntryPath),
        end: (Option<Attributes>, CountedDirectory),
        parent: Option<Arc<DirectoryNode>>,
        proof: (TouchedAttributes, DirectoryProof, Option<FileTime>),
    ) -> Arc<Self> {
        Arc::new(Self::build(place, end, parent, proof))
    }

    /// Returns a directory that another run has given away.
    pub fn given(
        share: &DirectoryShare,
        end: (Option<Attributes>, CountedDirectory),
        proof: (TouchedAttributes, DirectoryProof, Option<FileTime>),
    ) -> Arc<Self> {
        let DirectoryShare { place, is_above_settled } = share;
        let origin = Origin::whole(place.root, place.source.clone());
        Arc::new(Self {
            top_names: place.top_names,
            given: GivenPart::Directory,
            is_above_settled: *is_above_settled,
            ..Self::build((vec![origin], place.target.clone()), end, None, proof)
        })
    }

    /// Returns the directory of names that another run has given away. It is not itself copied.
    pub fn of_names(origin: Origin, target: EntryPath, top_names: u16) -> Arc<Self> {
        Self::of_entries((origin, target, top_names), GivenPart::Names)
    }

    /// Returns the directory of a slice that another run has given away. It is not itself copied.
    pub fn of_slice(place: &SharePlace) -> Arc<Self> {
        let origin = Origin::whole(place.root, place.source.clone());
        Self::of_entries((origin, place.target.clone(), place.top_names), GivenPart::Slice)
    }

    fn of_entries((origin, target, top_names): (Origin, EntryPath, u16), given: GivenPart) -> Arc<Self> {
        let end = (None, CountedDirectory::Not);
        let proof = (TouchedAttributes::Not, DirectoryProof::NotNeeded, None);
        let node = Self::build((vec![origin], target), end, None, proof);
        Arc::new(Self { top_names, given, ..node })
    }

    /// Returns a directory in which everything is done, apart from its own attributes.
    pub fn ending(end: &DirectoryEnd) -> Arc<Self> {
        let counted = end.outcome.map_or(CountedDirectory::Not, CountedDirectory::from);
        let share = DirectoryShare { place: end.place.clone(), is_above_settled: false };
        let touched = TouchedAttributes::new(end.is_touched, end.extended);
        let proof = if end.is_unproven { DirectoryProof::Missing } else { DirectoryProof::NotNeeded };
        Self::given(&share, (Some(end.attributes), counted), (touched, proof, end.listed_ctime))
    }

    fn build(
        (origins, target): (Vec<Origin>, EntryPath),
        (attributes, counted): (Option<Attributes>, CountedDirectory),
        parent: Option<Arc<DirectoryNode>>,
        (touched, proof, listed_ctime): (TouchedAttributes, DirectoryProof, Option<FileTime>),
    ) -> Self {
        if let Some(parent) = &parent {
            parent.hold(1);
        }
        // The top is the directory whose contents the user named, or the entry that the user named.
        let top_names = match &parent {
            Some(parent) if !parent.is_above_top() => parent.top_names,
            _ => target.names().count() as u16,
        };
        let is_above_settled = parent.as_ref().is_none_or(|parent| parent.is_settled());
        Self {
            top_names,
            origins,
            target,
            attributes,
            counted,
            extended: touched == TouchedAttributes::WithExtended,
            doomed: None,
            parent,
            pending: AtomicU64::new(1),
            touched: AtomicBool::new(touched != TouchedAttributes::Not),
            shrinks: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            open: AtomicBool::new(false),
            has_slices: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            spared: AtomicBool::new(false),
            given: GivenPart::Nothing,
            is_above_settled,
            proof,
            listed_ctime,
        }
    }

    /// Returns true if it is certain that it is the directory that was copied last.
    pub fn is_settled(&self) -> bool {
        self.is_above_top() || self.proof == DirectoryProof::Settled
    }

    /// Returns true if its attributes are set although they may be equal.
    pub fn is_renewed(&self) -> bool {
        self.proof == DirectoryProof::Missing && self.counted == CountedDirectory::Unchanged
    }

    /// Returns true if its attributes must not be set unless all in it has been examined.
    pub fn is_unproven(&self) -> bool {
        self.proof == DirectoryProof::Missing
    }

    /// Returns true if it only leads to an entry that the user named.
    pub fn is_above_top(&self) -> bool {
        !self.origins.is_empty() && self.origins.iter().all(|origin| origin.only.is_some())
    }

    /// Returns true if the user named this directory.
    pub fn is_top(&self) -> bool {
        let is_found = self.given == GivenPart::Nothing;
        is_found && !self.is_above_top() && self.parent.as_ref().is_none_or(|parent| parent.is_above_top())
    }

    /// Returns true if this run only copies names in it that another run has given away as those of files with further names.
    pub fn has_given_names(&self) -> bool {
        self.given == GivenPart::Names
    }

    /// Returns true if this run only copies a slice of it.
    pub fn is_slice(&self) -> bool {
        self.given == GivenPart::Slice
    }

    /// Returns true if this run only copies entries in it that another run has found, filtered and counted.
    pub fn has_found_entries(&self) -> bool {
        matches!(self.given, GivenPart::Names | GivenPart::Slice)
    }

    /// Returns the place of an entry in it that has a name of its own at the source.
    pub fn place_of(&self, origin: &Origin, name: &[u8]) -> Result<SharePlace> {
        let (source, target) = (origin.path.join(name)?, self.target.join(name)?);
        Ok(SharePlace { root: origin.root, source, target, top_names: self.top_names })
    }

    /// Returns this directory as a share, if another run would do the same with it.
    pub fn share(&self) -> Option<DirectoryShare> {
        let [origin] = &self.origins[..] else { return None };
        let replaces = self.counted == CountedDirectory::Updated;
        let is_tree = origin.only.is_none() && !self.has_found_entries() && !self.is_doomed();
        (is_tree && !replaces && !self.is_top())
            .then(|| DirectoryShare { place: self.place(origin), is_above_settled: self.is_above_settled })
    }

    /// Returns true if entries of an origin can be given away as slices.
    pub fn has_slice_place(&self, origin: usize) -> bool {
        !self.has_given_names() && self.origins.get(origin).is_some_and(|origin| origin.only.is_none())
    }

    /// Returns the place of slices of it that an origin has.
    pub fn slice_place(&self, origin: usize) -> Option<SharePlace> {
        self.origins.get(origin).map(|origin| self.place(origin))
    }

    /// Returns the number of leading names in its path that belong to the top.
    pub fn top_names(&self) -> u16 {
        self.top_names
    }

    fn place(&self, origin: &Origin) -> SharePlace {
        let (source, target) = (origin.path.clone(), self.target.clone());
        SharePlace { root: origin.root, source, target, top_names: self.top_names }
    }

    /// Records that another run works on something in it or below it, so that it and its parents stay open.
    pub fn open(&self) {
        let mut node = Some(self);
        // Above a directory that is open, all are.
        while let Some(open) = node.filter(|node| !node.open.swap(true, Ordering::Relaxed)) {
            node = open.parent.as_deref();
        }
    }

    /// Records that other runs write entries of it by their names, so that it and its parents stay open.
    pub fn cut(&self) {
        self.has_slices.store(true, Ordering::Relaxed);
        self.open();
    }

    /// Returns true if another run works on something in it or below it.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns what is left to do for it once all runs are done with what is below it; `None` if it only has to be counted.
    pub fn end(&self, is_examined: bool) -> Option<DirectoryEnd> {
        let (attributes, origin) = (self.attributes?, self.first()?);
        let outcome = match self.counted {
            _ if self.failed.load(Ordering::Relaxed) => None,
            CountedDirectory::Created => Some(DirectoryOutcome::Created),
            CountedDirectory::Updated => Some(DirectoryOutcome::Updated),
            CountedDirectory::AttributesOnly => Some(DirectoryOutcome::AttributesOnly),
            CountedDirectory::Unchanged => Some(DirectoryOutcome::Unchanged),
            CountedDirectory::Different | CountedDirectory::OnlyInTarget | CountedDirectory::Not => None,
        };
        Some(DirectoryEnd {
            place: self.place(origin),
            attributes,
            outcome,
            is_touched: self.is_set(),
            extended: self.extended,
            is_unproven: self.is_unproven(),
            is_examined,
            listed_ctime: self.listed_ctime,
            has_slices: self.has_slices.load(Ordering::Relaxed),
        })
    }

    /// Returns the names of the path to the top.
    pub fn names_to_top(&self) -> impl Iterator<Item = &[u8]> {
        self.target.names().take(usize::from(self.top_names))
    }

    /// Returns its path relative to the top, for filter rules. The path ends in a slash unless it is empty.
    pub fn below_top(&self) -> Vec<u8> {
        let mut below = Vec::new();
        for name in self.target.names().skip(usize::from(self.top_names)) {
            below.extend_from_slice(name);
            below.push(b'/');
        }
        below
    }

    /// Returns a directory in `parent` that only the target has.
    pub fn doomed(target: EntryPath, parent: &Arc<DirectoryNode>, doomed: ExtraDirectory) -> Arc<Self> {
        parent.hold(1);
        Arc::new(Self {
            origins: Vec::new(),
            target,
            attributes: None,
            counted: CountedDirectory::OnlyInTarget,
            extended: false,
            doomed: Some(doomed),
            parent: Some(parent.clone()),
            pending: AtomicU64::new(1),
            touched: AtomicBool::new(false),
            shrinks: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            open: AtomicBool::new(false),
            has_slices: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            spared: AtomicBool::new(false),
            given: GivenPart::Nothing,
            is_above_settled: false,
            proof: DirectoryProof::default(),
            listed_ctime: None,
            top_names: parent.top_names,
        })
    }

    /// Returns true if only the target has it.
    pub fn is_doomed(&self) -> bool {
        self.doomed.is_some()
    }

    /// Returns the number of leading names in the path of anything below it that belong to the directory that stays.
    pub fn kept_names(&self) -> u16 {
        self.doomed.map_or_else(|| self.target.names().count() as u16, |doomed| doomed.kept_names)
    }

    /// Records that something in it could not be removed, so that it and its parents stay.
    pub fn stick(&self) {
        self.mark(|node| &node.stuck);
    }

    /// Records that a filter rule excludes something in it, so that it and its parents stay.
    pub fn spare(&self) {
        self.mark(|node| &node.spared);
    }

    /// Sets a flag of this directory and of its parents, up to the first one that the source has as well.
    fn mark(&self, flag: fn(&DirectoryNode) -> &AtomicBool) {
        let mut node = Some(self);
        while let Some(doomed) = node.filter(|node| node.is_doomed()) {
            flag(doomed).store(true, Ordering::Relaxed);
            node = doomed.parent.as_deref();
        }
    }

    /// Returns true if something in it could not be removed.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }

    /// Returns the first origin that is a whole directory, or else the first origin.
    pub fn first(&self) -> Option<&Origin> {
        self.origins.iter().find(|origin| origin.only.is_none()).or(self.origins.first())
    }

    /// Returns the path that failures are reported with.
    pub fn source(&self) -> &EntryPath {
        self.first().map_or(&self.target, |origin| &origin.path)
    }

    /// Records that something was written into it.
    pub fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }

    /// Records that a plan deletes something in it.
    pub fn shrink(&self) {
        self.shrinks.store(true, Ordering::Relaxed);
    }

    /// Returns true if a plan deletes something in it.
    pub fn shrinks(&self) -> bool {
        self.shrinks.load(Ordering::Relaxed)
    }

    /// Returns true if the target does not have it as a directory.
    pub fn is_new(&self) -> bool {
        matches!(self.counted, CountedDirectory::Created | CountedDirectory::Updated)
    }

    /// Returns true if its attributes are set by the run that copies.
    pub fn is_set(&self) -> bool {
        self.attributes.is_some() && self.touched.load(Ordering::Relaxed)
    }

    /// Records that it could not be listed, or that its attributes could not be set. Returns true the first time.
    pub fn fail(&self) -> bool {
        !self.failed.swap(true, Ordering::Relaxed)
    }

    /// Adds it to its counter, unless it is among the failures. Must be called once, after everything in it is done.
    pub fn count(&self, counters: &LaneCounters) {
        let counter = match self.counted {
            CountedDirectory::OnlyInTarget if self.spared.load(Ordering::Relaxed) => {
                &counters.entries_skipped
            }
            CountedDirectory::OnlyInTarget if self.is_removed() => &counters.entries_deleted,
            CountedDirectory::OnlyInTarget => &counters.entries_only_in_target,
            _ if self.failed.load(Ordering::Relaxed) => return,
            CountedDirectory::Created => &counters.entries_created,
            CountedDirectory::Updated => &counters.entries_updated,
            CountedDirectory::AttributesOnly => &counters.entries_attributes_only,
            CountedDirectory::Unchanged => &counters.entries_unchanged,
            CountedDirectory::Different => &counters.entries_different,
            CountedDirectory::Not => return,
        };
        counter.add(1);
        if self.counted == CountedDirectory::Created {
            counters.directories_created.add(1);
        }
    }

    /// Adds it to a counter if its attributes are left to another run: one whose attributes only differ is not touched.
    pub fn count_left(&self, counters: &LaneCounters) {
        let only_attributes = self.counted == CountedDirectory::AttributesOnly;
        match only_attributes && !self.failed.load(Ordering::Relaxed) {
            true => counters.entries_unchanged.add(1),
            false => self.count(counters),
        }
    }

    /// Returns the change that was made to it at the target, once everything in it is done and its attributes are set.
    pub fn change_made(&self) -> Option<EntryAction> {
        let failed = self.failed.load(Ordering::Relaxed);
        match self.counted {
            CountedDirectory::OnlyInTarget => self.is_removed().then_some(EntryAction::Delete),
            CountedDirectory::Created if !failed => Some(EntryAction::Directory),
            CountedDirectory::Updated if !failed => Some(EntryAction::Replace),
            CountedDirectory::AttributesOnly if !failed => Some(EntryAction::Attributes),
            _ => None,
        }
    }

    /// Adds `count` pending tasks.
    pub fn hold(&self, count: u64) {
        self.pending.fetch_add(count, Ordering::Relaxed);
    }

    /// Records that a task is done. Returns true if it was the last.
    pub fn release(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Returns true if it will be removed, as far as is known.
    fn is_removed(&self) -> bool {
        let stays =
            self.failed.load(Ordering::Relaxed) || self.is_stuck() || self.spared.load(Ordering::Relaxed);
        self.doomed.is_some_and(|doomed| doomed.removed) && !stays
    }

    /// Returns the error if the source's entry cannot replace it because a filter rule excludes something in it.
    pub fn held_by_rule(&self) -> Option<Error> {
        let doomed = self.doomed.filter(|doomed| !doomed.removed && self.spared.load(Ordering::Relaxed))?;
        let words = format!(
            "the target has a directory where the source has {}, and a filter rule leaves something in it alone; remove or \
             rename one of them, or change the rule",
            doomed.in_the_way_of?.words()
        );
        Some(Error::new(ErrorKind::Conflict, "copying", words))
    }

    /// Returns true if a change or an error follows, now that everything in it is done.
    pub fn has_end(&self) -> bool {
        match self.doomed {
            Some(_) => self.is_removed() || self.held_by_rule().is_some(),
            None => self.is_set() || self.attributes.is_some() && self.shrinks(),
        }
    }

    /// Returns the change to make to it, now that everything in it is done.
    pub fn change(&self) -> Option<Change> {
        if !self.has_end() {
            return None;
        }
        let path = self.target.clone();
        match self.doomed {
            Some(_) if !self.is_removed() => None,
            Some(ExtraDirectory { kept_names, .. }) => {
                Some(Change::Remove { path, directory: true, kept_names })
            }
            None => Some(Change::Directory { path, attributes: self.attributes?, extended: None }),
        }
    }
}

/// The known state of a directory at the target.
#[derive(Debug)]
pub(super) enum TargetState {
    /// It does not exist.
    Absent,
    /// It does not exist, and an entry of another kind with its name has to be removed first.
    Occupied,
    /// It did not exist. At least one page of the source's directory has been read; the next one begins at the cursor.
    Rest(Cursor),
    /// It exists and has to be listed.
    Unknown,
    /// It exists, both sides list in order, and these entries have been listed but not compared.
    Sides(Box<PendingEntries>),
    /// Only entries with these names are copied, which another run has found.
    Named(Vec<Vec<u8>>),
    /// It exists, with this listing. Prefetched listings may belong to directories further down.
    Listed(Listing, Prefetched),
}

impl TargetState {
    /// Returns true if a part of it has been compared, or another run has found what is in it.
    pub fn is_begun(&self) -> bool {
        matches!(self, Self::Rest(_) | Self::Sides(_) | Self::Named(_))
    }
}

/// Listings that an endpoint sent along with those it was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefetched(Arc<Mutex<HashMap<EntryPath, Listing>>>);

impl Prefetched {
    /// Keeps the listings that succeeded. The others will be requested and report their error then.
    pub fn new(listings: impl Iterator<Item = DirectoryListing>) -> Self {
        let good = listings.filter_map(|listing| Some((listing.path, listing.result.ok()?)));
        Self(Arc::new(Mutex::new(good.collect())))
    }

    /// Takes the listing of a directory at the source. A second call returns `None`.
    pub fn known(&self, path: &EntryPath) -> Option<PrefetchedDirectory> {
        self.take(path).map(|listing| PrefetchedDirectory { listing, below: self.clone() })
    }

    /// Takes the listing of a directory. A second call returns `None`.
    pub fn take(&self, path: &EntryPath) -> Option<Listing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(path)
    }
}

/// The listing of one origin of a directory.
#[derive(Debug)]
pub(super) struct OriginListing {
    /// The index of the node's origin.
    pub origin: usize,
    /// Its entries.
    pub listing: Arc<Listing>,
    /// The start of the next page, if these entries are only the first page.
    pub rest: Option<Cursor>,
    /// Listings already received of directories below it.
    pub below: Prefetched,
}

impl OriginListing {
    /// Returns a part with all entries of an origin.
    pub fn whole(origin: usize, listing: Listing) -> Self {
        Self { origin, listing: Arc::new(listing), rest: None, below: Prefetched::default() }
    }
}

/// A directory to scan and compare.
#[derive(Debug)]
pub(super) struct DirectoryTask {
    /// The directory.
    pub node: Arc<DirectoryNode>,
    /// Its known state at the target.
    pub target: TargetState,
    /// The listing of its only origin, if it was received already.
    pub known: Option<PrefetchedDirectory>,
}

impl DirectoryTask {
    /// Returns a task for a directory that has not been listed at the source.
    pub fn new(node: Arc<DirectoryNode>, target: TargetState) -> Self {
        Self { node, target, known: None }
    }

    /// Returns true if another run can scan the directory from its beginning.
    pub fn may_be_given(&self) -> bool {
        let is_plain = !self.target.is_begun() && !matches!(self.target, TargetState::Occupied);
        is_plain && self.node.share().is_some()
    }
}

/// All entries of a source directory, received along with the listing of a directory above it.
#[derive(Debug)]
pub(super) struct PrefetchedDirectory {
    pub listing: Listing,
    /// Listings already received of directories below it.
    pub below: Prefetched,
}

#[cfg(test)]
mod tests;
