//! The phases of a run: which units come next when none is left.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::EntryPath;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ids::Moment;
use crate::ledger::Ledger;
use crate::link_name::{LinkPosition, LinkRange, PackLimits};
use crate::open_directory::{DirectoryPosition, DirectoryRange};
use crate::open_file::OpenFilePosition;
use crate::run::{RunEnd, RunOutcome, RunPhase, RunRow, RunStep};
use crate::run_figures::RunFigures;
use crate::run_phases::has_extra;
use crate::run_report;
use crate::run_request::FleetRequest;
use crate::unit::UnitWork;

/// The number of packs that one step makes units of.
const STEP_PACKS_MAX: usize = 512;
/// The place behind all open files, from which the copying phase of a retry goes on after it has looked at the whole tree.
const WHOLE_TREE: (u16, Vec<u8>) = (u16::MAX, Vec::new());

/// The next step of a run that has no units left.
#[derive(Debug)]
pub enum NextStep {
    /// Units are added.
    Units(RunStep),
    /// The run ends.
    End(RunEnd),
}

/// Returns the next step of a run that has no units left.
///
/// # Errors
/// Those of the ledger.
pub fn next_step(
    ledger: &mut dyn Ledger,
    row: &RunRow,
    request: &FleetRequest,
    now: Moment,
) -> Result<NextStep> {
    if row.units.committed == 0 && row.units.given_up > 0 {
        // Without any result there is nothing to link, to remove or to compare.
        let given_up = ledger.failures(row.id, None, None, 1)?.pop().map(|failure| failure.row.failure.error);
        return Ok(NextStep::End(end(ledger, row, request, (RunOutcome::Failed, now), given_up.as_ref())?));
    }
    for phase in RunPhase::ALL {
        if phase < row.phase {
            continue;
        }
        let cursor = if phase == row.phase { &row.cursor[..] } else { &[] };
        let is_new = phase > row.phase;
        let (units, cursor) = match phase {
            RunPhase::Copy => match file_units(ledger, row, read_cursor(cursor)?)? {
                (units, _) if units.is_empty() && needs_whole_tree(ledger, row, request)? => {
                    (vec![UnitWork::All], write_cursor(&Some(WHOLE_TREE))?)
                }
                files => files,
            },
            RunPhase::Links => link_units(ledger, row, read_cursor(cursor)?)?,
            RunPhase::Directories => directory_units(ledger, row, read_cursor(cursor)?)?,
            RunPhase::Removal if is_new && removes(row, request) => (vec![UnitWork::All], Vec::new()),
            RunPhase::Verify if is_new && request.verify => (vec![UnitWork::All], Vec::new()),
            RunPhase::Removal | RunPhase::Verify => continue,
            RunPhase::Ended => break,
        };
        if !units.is_empty() {
            return Ok(NextStep::Units(RunStep { run: row.id, step: row.step, phase, cursor, units }));
        }
    }
    let outcome = if row.failures == 0 { RunOutcome::Complete } else { RunOutcome::Partial };
    Ok(NextStep::End(end(ledger, row, request, (outcome, now), None)?))
}

fn end(
    ledger: &mut dyn Ledger,
    row: &RunRow,
    request: &FleetRequest,
    (outcome, ended): (RunOutcome, Moment),
    error: Option<&Error>,
) -> Result<RunEnd> {
    let report = run_report::report(ledger, row, request, (outcome, ended), error)?;
    Ok(RunEnd { run: row.id, ended, outcome, dropped: RunFigures::default(), report })
}

/// Returns true for a retry that has met files with several names, and has not looked at the whole tree yet: the names that did
/// not fail have to be found, so that all are linked to each other.
fn needs_whole_tree(ledger: &mut dyn Ledger, row: &RunRow, request: &FleetRequest) -> Result<bool> {
    let one = PackLimits { names: 1, ..PackLimits::default() };
    Ok(request.is_retry
        && row.phase == RunPhase::Copy
        && row.cursor.is_empty()
        && ledger.link_pack(row.id, None, one)?.is_some())
}

/// Returns true if something is to be removed from the target. Nothing is if anything failed: what failed may look as if it was
/// not at the source.
fn removes(row: &RunRow, request: &FleetRequest) -> bool {
    row.failures == 0 && has_extra(row, request)
}

/// Returns the units of the next open files, and the place up to which they go. Their drafts are removed by whoever lists their
/// directories afterwards, so this comes before anything else.
fn file_units(
    ledger: &mut dyn Ledger,
    row: &RunRow,
    after: Option<(u16, Vec<u8>)>,
) -> Result<(Vec<UnitWork>, Vec<u8>)> {
    let place = |(root, path): (u16, Vec<u8>)| -> Result<OpenFilePosition> {
        Ok(OpenFilePosition { root, path: EntryPath::new(path)? })
    };
    let after = after.map(place).transpose()?;
    let files = ledger.open_files(row.id, after.as_ref(), STEP_PACKS_MAX)?;
    let last = files.last().or(after.as_ref()).map(|last| (last.root, last.path.as_bytes().to_vec()));
    Ok((files.into_iter().map(UnitWork::File).collect(), write_cursor(&last)?))
}

/// Returns the units of the next names of links, and the place up to which they go.
fn link_units(
    ledger: &mut dyn Ledger,
    row: &RunRow,
    mut after: Option<LinkPosition>,
) -> Result<(Vec<UnitWork>, Vec<u8>)> {
    let mut units = Vec::new();
    while units.len() < STEP_PACKS_MAX {
        let Some(pack) = ledger.link_pack(row.id, after.as_ref(), PackLimits::default())? else { break };
        let until = pack.last;
        units.push(UnitWork::Links(LinkRange { after: after.replace(until.clone()), until }));
        // The rest of its last group needs a name to link to.
        if pack.is_continued {
            break;
        }
    }
    Ok((units, write_cursor(&after)?))
}

/// Returns the units of the next open directories of one depth, and the place up to which they go.
fn directory_units(
    ledger: &mut dyn Ledger,
    row: &RunRow,
    mut after: Option<DirectoryPosition>,
) -> Result<(Vec<UnitWork>, Vec<u8>)> {
    let mut units = Vec::new();
    // One unit can do the last ones, as it goes from the deepest to the highest.
    let mixed = PackLimits { mixes_depths: true, ..PackLimits::default() };
    if let Some(pack) = ledger.directory_pack(row.id, after.as_ref(), mixed)?
        && ledger.directory_pack(row.id, Some(&pack.last), mixed)?.is_none()
    {
        let until = pack.last;
        units.push(UnitWork::Directories(DirectoryRange { after: after.replace(until.clone()), until }));
        return Ok((units, write_cursor(&after)?));
    }
    let mut depth = None;
    while units.len() < STEP_PACKS_MAX {
        let Some(pack) = ledger.directory_pack(row.id, after.as_ref(), PackLimits::default())? else { break };
        let until = pack.last;
        if *depth.get_or_insert(until.depth) != until.depth {
            break;
        }
        units.push(UnitWork::Directories(DirectoryRange { after: after.replace(until.clone()), until }));
    }
    Ok((units, write_cursor(&after)?))
}

fn read_cursor<T: DeserializeOwned>(cursor: &[u8]) -> Result<Option<T>> {
    match cursor {
        [] => Ok(None),
        _ => postcard::from_bytes(cursor).map_err(|error| unreadable(&error)),
    }
}

fn write_cursor<T: Serialize>(place: &Option<T>) -> Result<Vec<u8>> {
    match place {
        None => Ok(Vec::new()),
        Some(_) => postcard::to_stdvec(place).map_err(|error| unreadable(&error)),
    }
}

fn unreadable(error: &postcard::Error) -> Error {
    Error::new(ErrorKind::Corrupt, "reading the place of a run's phase", error.to_string())
}
