//! Units: the shares of a run that are handed out, and the bytes in which a ledger keeps their work.

use std::collections::HashSet;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::{EntryPath, NAME_BYTES_MAX};
use serde::{Deserialize, Serialize};

use crate::ids::UnitKey;
use crate::lease::UnitState;
use crate::limits::check_at_most;
use crate::link_name::LinkRange;
use crate::names::GroupName;
use crate::open_directory::DirectoryRange;

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
    /// The entries of a directory whose names lie in a range by their bytes, with everything below them.
    Names {
        /// The name behind which the range begins; from the first if there is none.
        after: Option<Vec<u8>>,
        /// The last name of the range; to the end if there is none.
        until: Option<Vec<u8>>,
    },
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

    /// Returns true if an entry is one of the items, or lies below one.
    pub fn has(&self, root: u16, path: &EntryPath) -> bool {
        let Self::Paths { whole: paths, .. } = self else { return true };
        let path = path.as_bytes();
        let above =
            path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(slash, _)| &path[..slash]);
        above.chain([&b""[..], path]).any(|above| paths.contains(&(root, above)))
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
                let ends = paths.iter().map(|(root, path)| {
                    (*root, &path.as_bytes()[..above(path).unwrap_or(0)])
                });
                let whole = paths.iter().map(|(root, path)| (*root, path.as_bytes()));
                return WorkCoverage::Paths { whole: whole.collect(), ends: ends.collect() };
            }
            Self::All => return WorkCoverage::All,
            Self::Links(_) | Self::Directories(_) => &[],
        };
        let whole = items.iter().map(|item| (item.root, item.path.as_bytes())).collect();
        WorkCoverage::Paths { whole, ends: HashSet::new() }
    }

    /// Checks the lengths, except that of all the work together.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Items(items) => {
                check_at_most("the items of a unit", items.len(), UNIT_ITEMS_MAX)?;
                items.iter().try_for_each(UnitItem::check)
            }
            Self::Links(range) => range.check(),
            Self::Directories(range) => range.check(),
            Self::All => Ok(()),
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

    fn check(&self) -> Result<()> {
        let ItemPart::Names { after, until } = &self.part else { return Ok(()) };
        [after, until]
            .into_iter()
            .flatten()
            .try_for_each(|name| check_at_most("the bytes of a name", name.len(), NAME_BYTES_MAX))
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
                1 => ItemPart::Names { after: None, until: Some(vec![0xff, 0xfe]) },
                _ => ItemPart::Names { after: Some(b"a".to_vec()), until: None },
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
        let name = |length| {
            let part = ItemPart::Names { after: Some(vec![b'a'; length]), until: None };
            UnitWork::Items(vec![UnitItem { part, ..UnitItem::whole(0, path("a")) }])
        };
        assert!(name(NAME_BYTES_MAX).encode().is_ok() && name(NAME_BYTES_MAX + 1).encode().is_err());
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
}
