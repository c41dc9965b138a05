//! Units: the shares of a run that are handed out, and the bytes in which a ledger keeps their work.

use std::collections::{HashMap, HashSet};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::EntryPath;
use serde::{Deserialize, Serialize};

use crate::ids::UnitKey;
use crate::lease::UnitState;
use crate::limits::{check_at_most, malformed};
use crate::link_name::LinkRange;
use crate::names::GroupName;
use crate::open_directory::DirectoryRange;
use crate::open_file::{ItemRange, OpenFilePosition};

/// The maximum number of items of a unit.
pub const UNIT_ITEMS_MAX: usize = 10_000;
/// The maximum length of a unit's work as kept, in bytes: one message of the bus.
pub const UNIT_WORK_BYTES_MAX: usize = 1 << 20;
/// The first byte of kept work: the version of its form.
const WORK_FORM: u8 = 1;

/// The part of an item that belongs to the unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ItemPart {
    /// All of a file, or of a directory with everything below it.
    Whole,
    /// The entries of a directory that have these names: a slice of it.
    Names(Vec<Vec<u8>>),
    /// A range of an open file.
    Range(ItemRange),
}

/// One entry of the source, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitItem {
    /// The index of the source's root.
    pub root: u16,
    /// The path below that root.
    pub path: EntryPath,
    /// The place below the target's root.
    pub target: EntryPath,
    /// The number of leading names of `target` that belong to what the user named.
    pub top_names: u16,
    /// True if it is certain that the directories above it are those that were copied last.
    pub is_above_settled: bool,
    /// The part.
    pub part: ItemPart,
}

/// The work of a unit. The phase of the run says what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitWork {
    /// Everything that the request of the run names.
    All,
    /// Entries that failed in an earlier run, by the index of the source's root and the path below it.
    Again(Vec<(u16, EntryPath)>),
    /// Entries of the source.
    Items(Vec<UnitItem>),
    /// The recorded names of files with several, in a range: the ledger has them.
    Links(LinkRange),
    /// The open directories in a range: the ledger has them.
    Directories(DirectoryRange),
    /// An open file, all ranges of which are written: the ledger has it.
    File(OpenFilePosition),
}

/// A unit without its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitRecord {
    /// The unit.
    pub key: UnitKey,
    /// The group whose brokers may lease it.
    pub group: GroupName,
    /// Its state.
    pub state: UnitState,
}

/// The entries that belong to a unit.
#[derive(Debug)]
pub enum WorkCoverage<'a> {
    /// All entries of the run.
    All,
    /// Some entries.
    Paths {
        /// These entries, with everything below them.
        whole: HashSet<(u16, &'a [u8])>,
        /// The attributes of these directories.
        ends: HashSet<(u16, &'a [u8])>,
        /// Entries of these directories that have these names, with everything below them.
        slices: HashMap<(u16, &'a [u8]), HashSet<&'a [u8]>>,
        /// Ranges of these files.
        ranges: HashSet<(u16, &'a [u8])>,
    },
}

impl WorkCoverage<'_> {
    /// Returns true if the attributes of a directory may be left to be set.
    pub fn has_end(&self, root: u16, path: &EntryPath) -> bool {
        let is_end = match self {
            Self::All => true,
            Self::Paths { ends, .. } => ends.contains(&(root, path.as_bytes())),
        };
        is_end || self.has(root, path)
    }

    /// Returns true if a range of an open file belongs to the unit.
    pub fn has_range(&self, position: &OpenFilePosition) -> bool {
        match self {
            Self::All => false,
            Self::Paths { ranges, .. } => ranges.contains(&(position.root, position.path.as_bytes())),
        }
    }

    /// Returns true if an entry is one of the items, or lies below one.
    pub fn has(&self, root: u16, path: &EntryPath) -> bool {
        let Self::Paths { whole, slices, .. } = self else { return true };
        let path = path.as_bytes();
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(slash, _)| slash);
        let in_slice = |above: &[u8], below: &[u8]| {
            let name = below.split(|byte| *byte == b'/').next().unwrap_or_default();
            !name.is_empty() && slices.get(&(root, above)).is_some_and(|names| names.contains(name))
        };
        let mut splits = slashes.map(|slash| (&path[..slash], &path[slash + 1..])).chain([(&b""[..], path)]);
        whole.contains(&(root, path))
            || splits.any(|(above, below)| whole.contains(&(root, above)) || in_slice(above, below))
    }

    /// Returns true if all of an item belongs to the unit.
    pub fn has_item(&self, item: &UnitItem) -> bool {
        match (self, &item.part) {
            _ if self.has(item.root, &item.path) => true,
            (Self::Paths { slices, .. }, ItemPart::Names(names)) => slices
                .get(&(item.root, item.path.as_bytes()))
                .is_some_and(|known| names.iter().all(|name| known.contains(&name[..]))),
            _ => false,
        }
    }
}

/// The kept form of an item.
#[derive(Serialize, Deserialize)]
struct KeptItem {
    root: u16,
    path: Vec<u8>,
    /// The path at the target, unless it is that at the source.
    target: Option<Vec<u8>>,
    top_names: u16,
    is_above_settled: bool,
    part: ItemPart,
}

/// The kept form of the work.
#[derive(Serialize, Deserialize)]
enum KeptWork {
    Items(Vec<KeptItem>),
    Links(LinkRange),
    Directories(DirectoryRange),
    All,
    Again(Vec<(u16, Vec<u8>)>),
    File(u16, Vec<u8>),
}

impl UnitItem {
    /// Creates an item that is all of an entry with one path at both ends.
    pub fn whole(root: u16, path: EntryPath) -> Self {
        let target = path.clone();
        Self { root, path, target, top_names: 0, is_above_settled: false, part: ItemPart::Whole }
    }
}

impl UnitWork {
    /// Returns the bytes to keep.
    ///
    /// # Errors
    /// `Usage` if the work is more than one unit may have.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.check()?;
        let kept = match self {
            Self::Items(items) => KeptWork::Items(items.iter().map(UnitItem::kept).collect()),
            Self::Links(range) => KeptWork::Links(range.clone()),
            Self::Directories(range) => KeptWork::Directories(range.clone()),
            Self::All => KeptWork::All,
            Self::File(position) => KeptWork::File(position.root, position.path.as_bytes().to_vec()),
            Self::Again(paths) => {
                KeptWork::Again(paths.iter().map(|(root, path)| (*root, path.as_bytes().to_vec())).collect())
            }
        };
        let bytes = postcard::to_extend(&kept, vec![WORK_FORM]).map_err(|error| undecodable(&error))?;
        check_at_most("the bytes of a unit's work", bytes.len(), UNIT_WORK_BYTES_MAX)?;
        Ok(bytes)
    }

    /// Reads what [`UnitWork::encode`] returned.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Some((&WORK_FORM, rest)) = bytes.split_first() else {
            return Err(undecodable(&"its form is not known"));
        };
        let (kept, rest) = postcard::take_from_bytes(rest).map_err(|error| undecodable(&error))?;
        if !rest.is_empty() {
            return Err(undecodable(&"bytes follow it"));
        }
        let work = match kept {
            KeptWork::Items(items) => {
                Self::Items(items.into_iter().map(KeptItem::item).collect::<Result<_>>()?)
            }
            KeptWork::Links(range) => Self::Links(range),
            KeptWork::Directories(range) => Self::Directories(range),
            KeptWork::All => Self::All,
            KeptWork::File(root, path) => Self::File(OpenFilePosition { root, path: kept_path(path)? }),
            KeptWork::Again(paths) => {
                let paths = paths.into_iter().map(|(root, path)| Ok((root, kept_path(path)?)));
                Self::Again(paths.collect::<Result<_>>()?)
            }
        };
        work.check().map_err(|error| undecodable(&error))?;
        Ok(work)
    }

    /// Returns the entries that belong to this work.
    pub fn coverage(&self) -> WorkCoverage<'_> {
        let items: &[UnitItem] = match self {
            Self::Items(items) => items,
            Self::Again(paths) => {
                // The directories that they are in get their attributes again.
                let above = |path: &'_ EntryPath| path.as_bytes().iter().rposition(|byte| *byte == b'/');
                let ends =
                    paths.iter().map(|(root, path)| (*root, &path.as_bytes()[..above(path).unwrap_or(0)]));
                let whole = paths.iter().map(|(root, path)| (*root, path.as_bytes()));
                let (slices, ranges) = (HashMap::new(), HashSet::new());
                return WorkCoverage::Paths { whole: whole.collect(), ends: ends.collect(), slices, ranges };
            }
            Self::All => return WorkCoverage::All,
            Self::Links(_) | Self::Directories(_) | Self::File(_) => &[],
        };
        let (mut whole, mut ranges) = (HashSet::new(), HashSet::new());
        if let Self::File(position) = self {
            // It is copied anew if it is another one by now, which may be a directory.
            whole.insert((position.root, position.path.as_bytes()));
        }
        let mut slices: HashMap<_, HashSet<&[u8]>> = HashMap::new();
        for item in items {
            let place = (item.root, item.path.as_bytes());
            match &item.part {
                ItemPart::Whole => drop(whole.insert(place)),
                ItemPart::Names(names) => {
                    slices.entry(place).or_default().extend(names.iter().map(|name| &name[..]));
                }
                ItemPart::Range(_) => drop(ranges.insert(place)),
            }
        }
        WorkCoverage::Paths { whole, ends: HashSet::new(), slices, ranges }
    }

    /// Checks the lengths, except that of all the work together.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Items(items) => {
                let entries = items.iter().map(UnitItem::entries).sum();
                check_at_most("the items of a unit", entries, UNIT_ITEMS_MAX)?;
                if items.len() > 1 && items.iter().any(UnitItem::is_range) {
                    return Err(malformed("the work of a unit", "a range is not its only item"));
                }
                items.iter().try_for_each(UnitItem::check)
            }
            Self::Links(range) => range.check(),
            Self::Directories(range) => range.check(),
            Self::All | Self::File(_) => Ok(()),
            Self::Again(paths) => check_at_most("the entries of a unit", paths.len(), UNIT_ITEMS_MAX),
        }
    }
}

impl UnitItem {
    fn kept(&self) -> KeptItem {
        let is_elsewhere = self.target != self.path;
        KeptItem {
            root: self.root,
            path: self.path.as_bytes().to_vec(),
            target: is_elsewhere.then(|| self.target.as_bytes().to_vec()),
            top_names: self.top_names,
            is_above_settled: self.is_above_settled,
            part: self.part.clone(),
        }
    }

    /// Returns the number of entries that it names.
    pub fn entries(&self) -> usize {
        match &self.part {
            ItemPart::Whole | ItemPart::Range(_) => 1,
            ItemPart::Names(names) => names.len().max(1),
        }
    }

    /// Returns the number of bytes of its paths and names.
    pub fn bytes(&self) -> usize {
        let names = match &self.part {
            ItemPart::Whole => 0,
            ItemPart::Names(names) => names.iter().map(Vec::len).sum(),
            ItemPart::Range(range) => range.detail.len(),
        };
        self.path.as_bytes().len() + self.target.as_bytes().len() + names
    }

    /// Returns the paths of the entries that it names.
    pub fn paths(&self) -> Vec<EntryPath> {
        match &self.part {
            ItemPart::Whole | ItemPart::Range(_) => vec![self.path.clone()],
            ItemPart::Names(names) => names.iter().filter_map(|name| self.path.join(name).ok()).collect(),
        }
    }

    /// Returns true if it is a range of an open file.
    pub fn is_range(&self) -> bool {
        matches!(self.part, ItemPart::Range(_))
    }

    /// Returns its place among the open files.
    pub fn position(&self) -> OpenFilePosition {
        OpenFilePosition { root: self.root, path: self.path.clone() }
    }

    fn check(&self) -> Result<()> {
        match &self.part {
            ItemPart::Whole => Ok(()),
            ItemPart::Names(names) => {
                names.iter().try_for_each(|name| self.path.join(name).and(self.target.join(name)).map(drop))
            }
            ItemPart::Range(range) => range.check(),
        }
    }
}

impl KeptItem {
    fn item(self) -> Result<UnitItem> {
        let path = kept_path(self.path)?;
        let target = self.target.map_or_else(|| Ok(path.clone()), kept_path)?;
        let Self { root, top_names, is_above_settled, part, .. } = self;
        Ok(UnitItem { root, path, target, top_names, is_above_settled, part })
    }
}

fn kept_path(path: Vec<u8>) -> Result<EntryPath> {
    EntryPath::new(path).map_err(|error| undecodable(&error))
}

fn undecodable(cause: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, "reading the work of a unit", cause.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> EntryPath {
        EntryPath::new(text).unwrap()
    }

    proptest! {
        #[test]
        fn work_is_read_back(names in proptest::collection::vec("[a-z\u{e9}]{1,9}(/[a-z]{1,3}){0,3}", 0..9), root: u16) {
            let part = |index: usize| match index % 3 {
                0 => ItemPart::Whole,
                1 => ItemPart::Names(vec![vec![0xff, 0xfe], b"a".to_vec()]),
                _ => ItemPart::Names(Vec::new()),
            };
            let item = |(index, name): (usize, &String)| UnitItem {
                part: part(index),
                target: path(if index % 2 == 0 { "elsewhere" } else { name }),
                top_names: 1,
                is_above_settled: index % 2 == 0,
                ..UnitItem::whole(root, path(name))
            };
            let work = UnitWork::Items(names.iter().enumerate().map(item).collect());
            prop_assert_eq!(UnitWork::decode(&work.encode().unwrap()).unwrap(), work);
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_read(bytes: Vec<u8>) {
            let _ = UnitWork::decode(&bytes);
            let _ = UnitWork::decode(&[&[WORK_FORM], &bytes[..]].concat());
        }
    }

    #[test]
    fn too_much_work_is_refused() {
        let items = |count| UnitWork::Items(vec![UnitItem::whole(0, path("a")); count]);
        assert!(items(UNIT_ITEMS_MAX).encode().is_ok());
        assert_eq!(items(UNIT_ITEMS_MAX + 1).encode().unwrap_err().kind, ErrorKind::Usage);
        let long = path(&vec!["x".repeat(200); 20].join("/"));
        assert!(UnitWork::Items(vec![UnitItem::whole(0, long); 300]).encode().is_err());
        let slice = |names: Vec<Vec<u8>>| {
            let part = ItemPart::Names(names);
            UnitWork::Items(vec![UnitItem { part, ..UnitItem::whole(0, path("a")) }])
        };
        assert!(slice(vec![b"b".to_vec(); UNIT_ITEMS_MAX]).encode().is_ok());
        assert_eq!(
            slice(vec![b"b".to_vec(); UNIT_ITEMS_MAX + 1]).encode().unwrap_err().kind,
            ErrorKind::Usage
        );
        for name in [&b""[..], b"..", b"b/c", &[b'b'; 256]] {
            assert!(slice(vec![name.to_vec()]).encode().is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_range_is_alone_within_its_file_and_nothing_else_belongs_to_it() {
        let range = |offset| {
            let part = ItemPart::Range(ItemRange { offset, length: 5, size_bytes: 5, detail: vec![1] });
            UnitItem { part, ..UnitItem::whole(1, path("a/b")) }
        };
        let work = UnitWork::Items(vec![range(0)]);
        assert_eq!(UnitWork::decode(&work.encode().unwrap()).unwrap(), work);
        for wrong in [vec![range(1)], vec![range(0), range(0)], vec![range(0), UnitItem::whole(1, path("c"))]]
        {
            assert_eq!(UnitWork::Items(wrong).encode().unwrap_err().kind, ErrorKind::Usage);
        }
        let position = |root, text| OpenFilePosition { root, path: path(text) };
        let covers = work.coverage();
        assert!(covers.has_range(&position(1, "a/b")));
        assert!(!covers.has_range(&position(0, "a/b")) && !covers.has_range(&position(1, "a")));
        assert!(
            !covers.has(1, &path("a/b")) && !covers.has_item(&range(0)) && !covers.has_end(1, &path("a"))
        );
        let whole = UnitWork::Items(vec![UnitItem::whole(1, path("a"))]);
        assert!(whole.coverage().has_item(&range(0)) && !whole.coverage().has_range(&position(1, "a/b")));
        let end = UnitWork::File(position(1, "a/b"));
        assert_eq!(UnitWork::decode(&end.encode().unwrap()).unwrap(), end);
        assert!(end.coverage().has(1, &path("a/b/c")) && !end.coverage().has(1, &path("a")));
    }

    #[test]
    fn entries_outside_are_told_from_those_inside() {
        let work =
            UnitWork::Items(vec![UnitItem::whole(1, path("a/b")), UnitItem::whole(2, EntryPath::root())]);
        let covers = work.coverage();
        assert!(covers.has(1, &path("a/b")) && covers.has(1, &path("a/b/c")) && covers.has(2, &path("x/y")));
        assert!(covers.has(2, &EntryPath::root()) && !covers.has(1, &EntryPath::root()));
        assert!(!covers.has(0, &path("a/b")) && !covers.has(1, &path("a/bc")) && !covers.has(1, &path("a")));
    }

    #[test]
    fn a_slice_is_its_names_and_what_is_below_them() {
        let slice = |top: &str, names: &[&str]| {
            let part = ItemPart::Names(names.iter().map(|name| name.as_bytes().to_vec()).collect());
            UnitItem { part, ..UnitItem::whole(1, path(top)) }
        };
        let work = UnitWork::Items(vec![slice("a/b", &["x"]), slice("a/b", &["y"]), slice("", &["top"])]);
        let covers = work.coverage();
        for inside in ["a/b/x", "a/b/y", "a/b/x/below", "top", "top/a/b"] {
            assert!(covers.has(1, &path(inside)), "{inside}");
            assert!(!covers.has(0, &path(inside)), "{inside} of another root");
        }
        for outside in ["", "a", "a/b", "a/b/z", "a/b/xx", "a/x", "x", "a/b/z/x"] {
            assert!(!covers.has(1, &path(outside)) && !covers.has_end(1, &path(outside)), "{outside}");
        }
        assert!(covers.has_item(&slice("a/b", &["y", "x"])) && covers.has_item(&slice("top", &["z"])));
        assert!(!covers.has_item(&slice("a/b", &["x", "z"])) && !covers.has_item(&slice("a", &["b"])));
        assert!(!covers.has_item(&UnitItem::whole(1, path("a/b"))));
        assert!(covers.has_item(&UnitItem::whole(1, path("a/b/x"))));
    }
}
