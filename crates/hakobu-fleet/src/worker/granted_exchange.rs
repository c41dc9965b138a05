//! The exchange of work of one unit: it begins with the unit's work, and what it gives away becomes further units.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hakobu_core::error::{Error, Result};
use hakobu_core::exchange::{
    DirectoryEnd, DirectoryShare, DirectorySlice, EntryShare, NameShare, WorkDemand, WorkExchange, WorkShare,
};
use hakobu_core::extent::Extent;
use hakobu_core::open_file::{OpenFileEnd, OpenLargeFile};
use hakobu_core::target_lease::TargetLease;

use super::broker_unit::BrokerUnit;
use super::range_sizes::{RANGES_MAX, RangeSizes};
use crate::change::COMMIT_ROWS_MAX;
use crate::fleet_clock::FleetClock;
use crate::kept_shares::{open_file, torn_error};
use crate::link_name::LinkNameRow;
use crate::message::{CommittedWork, GrantedUnit, GrantedWork, SentDirectory, SentFile, SentName};
use crate::open_directory::OpenDirectoryRow;
use crate::open_file::{OpenFilePosition, OpenFileRow};
use crate::unit::{UNIT_ITEMS_MAX, UnitItem, UnitWork};

/// The number of entries after which a unit has enough.
const ENTRIES_ENOUGH: u64 = 2_000;
/// The number of bytes after which a unit has enough.
const BYTES_ENOUGH: u64 = 256 << 20;
/// The time before which a unit does not have enough: beginning and ending another one takes some of it.
const TIME_ENOUGH: Duration = Duration::from_secs(5);
/// The number of rows of the result after which a unit has enough.
const ROWS_ENOUGH: u64 = (COMMIT_ROWS_MAX / 8) as u64;

/// The number of bytes of paths and names after which a unit keeps the entries of large directories: a commit is one message.
const SLICE_BYTES_MAX: u64 = 16 << 20;

/// The exchange of a unit.
pub struct GrantedExchange<'a> {
    state: &'a BrokerUnit,
    clock: &'a dyn FleetClock,
    /// True if the broker ends.
    is_ending: &'a (dyn Fn() -> bool + Sync),
    begins: Mutex<Option<Vec<WorkShare>>>,
    takes_names: bool,
    /// True if it ends an open file.
    is_file: bool,
    /// True if nothing else of the run is left to do, if this unit gives nothing away.
    is_all: bool,
    given: Mutex<Vec<DirectoryShare>>,
    slices: Mutex<Vec<DirectorySlice>>,
    /// The number of bytes of paths and names in the slices.
    slice_bytes: AtomicU64,
    /// The sizes of ranges of large files; `None` if none are given away.
    ranges: Option<RangeSizes>,
    files: Mutex<Vec<(OpenLargeFile, Vec<Extent>)>>,
    /// The number of ranges in these.
    file_ranges: AtomicU64,
    torn: Mutex<Vec<(OpenFilePosition, Error)>>,
    names: Mutex<Vec<NameShare>>,
    ends: Mutex<Vec<DirectoryEnd>>,
    rows: AtomicU64,
    has_given: AtomicBool,
}

impl<'a> GrantedExchange<'a> {
    /// Creates the exchange of a unit that copies, links, or sets the attributes of directories. `ranges`: the sizes of the ranges
    /// of large files, if it may give some away.
    ///
    /// # Errors
    /// `Corrupt` if its work cannot be read.
    pub fn new(
        state: &'a Arc<BrokerUnit>,
        granted: &GrantedUnit,
        clock: &'a dyn FleetClock,
        (is_ending, ranges): (&'a (dyn Fn() -> bool + Sync), Option<RangeSizes>),
    ) -> Result<Self> {
        let GrantedUnit { work, .. } = granted;
        Ok(Self {
            ranges: ranges.filter(|_| matches!(work, GrantedWork::Copy(_))),
            files: Mutex::default(),
            file_ranges: AtomicU64::new(0),
            torn: Mutex::default(),
            state,
            clock,
            is_ending,
            begins: Mutex::new(begins(work)?),
            takes_names: matches!(work, GrantedWork::Copy(_)),
            is_file: matches!(work, GrantedWork::File(..)),
            is_all: match work {
                GrantedWork::Copy(bytes) => UnitWork::decode(bytes)? == UnitWork::All,
                GrantedWork::Ends { is_examined, is_last, .. } => *is_examined && *is_last,
                GrantedWork::Names(_)
                | GrantedWork::Removal { .. }
                | GrantedWork::Verify
                | GrantedWork::File(..) => false,
            },
            given: Mutex::default(),
            slices: Mutex::default(),
            slice_bytes: AtomicU64::new(0),
            names: Mutex::default(),
            ends: Mutex::default(),
            rows: AtomicU64::new(0),
            has_given: AtomicBool::new(false),
        })
    }

    /// Returns what the unit has given away, as its result.
    ///
    /// # Errors
    /// `Usage` if something cannot be kept.
    pub fn result(self) -> Result<CommittedWork> {
        let given = self.given.into_inner().unwrap_or_else(PoisonError::into_inner);
        let slices = self.slices.into_inner().unwrap_or_else(PoisonError::into_inner);
        let names = self.names.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ends = self.ends.into_inner().unwrap_or_else(PoisonError::into_inner);
        let files = self.files.into_inner().unwrap_or_else(PoisonError::into_inner);
        let torn = self.torn.into_inner().unwrap_or_else(PoisonError::into_inner);
        let given = given.iter().map(UnitItem::of).chain(slices.into_iter().map(UnitItem::of_slice));
        let (mut given, mut rows) = (packed(given)?, Vec::new());
        for (file, ranges) in &files {
            let row = OpenFileRow::of(file)?;
            for range in ranges {
                given.push(UnitWork::Items(vec![UnitItem::of_range(file, &row, *range)]).encode()?);
            }
            rows.push(SentFile::from(&row));
        }
        for (position, error) in torn {
            rows.push(SentFile::from(&OpenFileRow::torn(position, &error)?));
        }
        Ok(CommittedWork {
            given,
            files: rows,
            ends: ends
                .iter()
                .map(|end| OpenDirectoryRow::of(end).map(|row| SentDirectory::from(&row)))
                .collect::<Result<_>>()?,
            names: names
                .iter()
                .map(|name| LinkNameRow::of(name).map(|row| SentName::from(&row)))
                .collect::<Result<_>>()?,
            ..CommittedWork::default()
        })
    }
}

/// The number of bytes of paths in one piece of given work.
const PIECE_BYTES: usize = 128 << 10;

/// Returns given directories as work of units.
fn packed(items: impl Iterator<Item = UnitItem>) -> Result<Vec<Vec<u8>>> {
    let mut pieces = Vec::new();
    let (mut piece, mut bytes, mut entries) = (Vec::new(), 0, 0);
    for item in items {
        bytes += item.bytes();
        entries += item.entries();
        piece.push(item);
        if entries >= UNIT_ITEMS_MAX / 4 || bytes >= PIECE_BYTES {
            pieces.push(UnitWork::Items(std::mem::take(&mut piece)).encode()?);
            (bytes, entries) = (0, 0);
        }
    }
    if !piece.is_empty() {
        pieces.push(UnitWork::Items(piece).encode()?);
    }
    Ok(pieces)
}

/// Returns the shares that a unit begins with; `None` stands for everything.
fn begins(work: &GrantedWork) -> Result<Option<Vec<WorkShare>>> {
    let shares = match work {
        GrantedWork::Copy(bytes) => match UnitWork::decode(bytes)? {
            UnitWork::Items(items) => items.iter().map(UnitItem::share).collect::<Result<_>>()?,
            UnitWork::Again(paths) => paths
                .into_iter()
                .map(|(root, source)| WorkShare::Entry(EntryShare { root, source }))
                .collect(),
            UnitWork::All | UnitWork::Links(_) | UnitWork::Directories(_) | UnitWork::File(_) => {
                return Ok(None);
            }
        },
        GrantedWork::Names(names) => names
            .iter()
            .map(|name| LinkNameRow::try_from(name.clone())?.share().map(WorkShare::Name))
            .collect::<Result<_>>()?,
        GrantedWork::Ends { ends, is_examined, .. } => ends
            .iter()
            .map(|row| {
                let mut end = OpenDirectoryRow::try_from(row.clone())?.end()?;
                end.is_examined &= is_examined;
                Ok(WorkShare::End(end))
            })
            .collect::<Result<_>>()?,
        GrantedWork::File(file, torn) => {
            let OpenFileRow { position, detail, .. } = file.clone().try_into()?;
            let torn = torn.as_deref().map(torn_error).transpose()?;
            vec![WorkShare::File(OpenFileEnd { file: open_file(&position, &detail)?, torn })]
        }
        GrantedWork::Removal { .. } | GrantedWork::Verify => return Ok(None),
    };
    Ok(Some(shares))
}

impl WorkExchange for GrantedExchange<'_> {
    fn begin(&self) -> Option<Vec<WorkShare>> {
        self.begins.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn demand(&self, entries: u64, bytes: u64) -> WorkDemand {
        // Work is never only passed on. The end of a file meets a directory if one has taken its place: ranges that are given away
        // below that would come too late.
        if entries == 0 || self.is_file {
            return WorkDemand::Nothing;
        }
        let has_enough = (entries >= ENTRIES_ENOUGH || bytes >= BYTES_ENOUGH)
            && self.state.age(self.clock.elapsed_ms()) >= TIME_ENOUGH;
        let has_rows = self.rows.load(Ordering::Relaxed) >= ROWS_ENOUGH;
        let gives = has_enough || has_rows || self.state.splits() || (self.is_ending)();
        match gives || self.has_given.load(Ordering::Relaxed) {
            true => {
                self.has_given.store(true, Ordering::Relaxed);
                WorkDemand::All
            }
            false => WorkDemand::Nothing,
        }
    }

    fn give(&self, shares: Vec<DirectoryShare>) {
        self.rows.fetch_add(shares.len() as u64, Ordering::Relaxed);
        self.given.lock().unwrap_or_else(PoisonError::into_inner).extend(shares);
    }

    fn slice_demand(&self, entries: u64) -> WorkDemand {
        // Looking at entries by their names costs more than listing them, so this is only of use to others.
        let is_wanted = self.state.splits() || (self.is_ending)();
        let is_full = self.slice_bytes.load(Ordering::Relaxed) >= SLICE_BYTES_MAX;
        if entries > 0 && is_wanted && !is_full && !self.is_file {
            WorkDemand::All
        } else {
            WorkDemand::Nothing
        }
    }

    fn give_slices(&self, slices: Vec<DirectorySlice>) {
        self.rows.fetch_add(1, Ordering::Relaxed);
        let bytes = |slice: &DirectorySlice| {
            slice.place.source.as_bytes().len() + slice.names.iter().map(Vec::len).sum::<usize>()
        };
        self.slice_bytes.fetch_add(slices.iter().map(bytes).sum::<usize>() as u64, Ordering::Relaxed);
        self.slices.lock().unwrap_or_else(PoisonError::into_inner).extend(slices);
    }

    fn takes_names(&self) -> bool {
        self.takes_names
    }

    fn give_names(&self, names: Vec<NameShare>) {
        self.rows.fetch_add(names.len() as u64, Ordering::Relaxed);
        self.names.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    fn range_bytes(&self, left_bytes: u64) -> Option<u64> {
        // Alone, a broker is as fast without.
        let is_wanted = self.state.splits() || (self.is_ending)();
        let is_full = self.file_ranges.load(Ordering::Relaxed) >= RANGES_MAX;
        self.ranges.filter(|_| is_wanted && !is_full)?.length_bytes(left_bytes)
    }

    fn give_ranges(&self, file: OpenLargeFile, ranges: Vec<Extent>) {
        self.rows.fetch_add(1, Ordering::Relaxed);
        self.file_ranges.fetch_add(ranges.len() as u64, Ordering::Relaxed);
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push((file, ranges));
    }

    fn tear(&self, file: &OpenLargeFile, error: Error) {
        self.rows.fetch_add(1, Ordering::Relaxed);
        let position = OpenFilePosition { root: file.place.root, path: file.place.source.clone() };
        self.torn.lock().unwrap_or_else(PoisonError::into_inner).push((position, error));
    }

    fn leave_open(&self, directories: Vec<DirectoryEnd>) {
        self.rows.fetch_add(directories.len() as u64, Ordering::Relaxed);
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).extend(directories);
    }

    fn completes(&self) -> bool {
        self.is_all && self.rows.load(Ordering::Relaxed) == 0
    }

    fn lease(&self) -> &TargetLease {
        &self.state.target_lease
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::entry::{EntryKind, EntryMetadata};
    use hakobu_core::exchange::SharePlace;
    use hakobu_core::open_file::OpenFileVersion;
    use hakobu_core::path::EntryPath;

    use super::*;
    use crate::fleet_clock::MachineClock;
    use crate::ids::{Epoch, RunId, UnitId, UnitKey};
    use crate::lease_token::LeaseKey;
    use crate::message::{LeaseName, SentLimits};
    use crate::names::{BrokerName, GroupName};
    use crate::worker::broker_unit::UnitControls;

    /// Returns what a unit gives away of a directory while others are idle.
    fn demands(work: GrantedWork) -> (WorkDemand, WorkDemand, Option<u64>) {
        let key = UnitKey { run: RunId::new(1).unwrap(), unit: UnitId::new(1).unwrap() };
        let (group, broker) = (GroupName::new("g").unwrap(), BrokerName::new("b").unwrap());
        let epoch = Epoch::new(1).unwrap();
        let token = LeaseKey::new(b"secret").token(key, epoch, &group, &broker);
        let lease = LeaseName { key, epoch, token };
        let (request, limits, credentials) = (String::new(), SentLimits::default(), Vec::new());
        let granted = GrantedUnit { lease, lease_ms: 1000, request, limits, work, credentials };
        let state = Arc::new(BrokerUnit::new(&granted, UnitControls::default(), 0, || 1));
        state.set_splits(true);
        let ranges = RangeSizes::of_at_least(1);
        let exchange =
            GrantedExchange::new(&state, &granted, &MachineClock, (&|| false, Some(ranges))).unwrap();
        (exchange.demand(9, 9), exchange.slice_demand(9), exchange.range_bytes(9))
    }

    #[test]
    fn a_unit_that_ends_a_file_gives_nothing_away() {
        let all = GrantedWork::Copy(UnitWork::All.encode().unwrap());
        assert_eq!(demands(all), (WorkDemand::All, WorkDemand::All, Some(1)));
        let path = EntryPath::new("a").unwrap();
        let place = SharePlace { root: 0, source: path.clone(), target: path, top_names: 0 };
        let version = OpenFileVersion::of(&EntryMetadata::new(EntryKind::File));
        let file = OpenLargeFile { place, version, draft: Vec::new(), replaces: false };
        let file = GrantedWork::File((&OpenFileRow::of(&file).unwrap()).into(), None);
        assert_eq!(demands(file), (WorkDemand::Nothing, WorkDemand::Nothing, None));
    }
}
