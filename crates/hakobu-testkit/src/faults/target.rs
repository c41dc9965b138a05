//! The effects of faults on operations of a target.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use hakobu_core::endpoint::{Change, Check, DraftId, TargetLane, TargetOp, TargetOutcome};
use hakobu_core::entry::EntryMetadata;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::extended::UNREADABLE;
use hakobu_core::extent::Extent;
use hakobu_core::handle::SharedFile;
use hakobu_core::listing::Listing;
use hakobu_core::pack::{PackBuilder, PackContent, PackReader, PackRecord};

use super::lane::{Fallible, FaultyLane, insert};
use super::{FaultCondition, FaultState, OperationKind, lock, planned};

impl Fallible for TargetOp {
    type Inner = dyn TargetLane;

    fn kind(&self) -> OperationKind {
        match self {
            Self::Stat { .. } => OperationKind::Inspect,
            Self::List { .. } | Self::Page { .. } => OperationKind::List,
            Self::Digest { .. } => OperationKind::Digest,
            Self::Numbers { .. } => OperationKind::Names,
            Self::WritePack { .. } => OperationKind::Store,
            Self::Begin { .. } | Self::JoinDraft { .. } => OperationKind::Begin,
            Self::Write { .. } | Self::Patch { .. } | Self::Assemble { .. } => OperationKind::Write,
            Self::Reflink { .. } | Self::CopyInStore { .. } => OperationKind::Clone,
            Self::SetLength { .. } => OperationKind::Length,
            Self::Finish { .. } | Self::ShareDraft { .. } => OperationKind::Finish,
            Self::Abandon { .. } => OperationKind::Abandon,
            Self::Apply { .. } => OperationKind::Apply,
            Self::Barrier { .. } => OperationKind::Barrier,
            Self::HashRange { .. } | Self::WeakSums { .. } | Self::Hole { .. } => OperationKind::Sign,
            Self::Zero { .. } => OperationKind::Zero,
            Self::Complete { .. } => OperationKind::Complete,
        }
    }

    fn paths(&self, state: &FaultState) -> Vec<Vec<u8>> {
        match self {
            Self::Stat { path, .. } => vec![path.as_bytes().to_vec()],
            Self::List { directories, .. } => {
                directories.iter().map(|path| path.as_bytes().to_vec()).collect()
            }
            Self::Page { directory, .. }
            | Self::Digest { directory, .. }
            | Self::CopyInStore { directory, .. } => {
                vec![directory.as_bytes().to_vec()]
            }
            Self::WritePack { pack, .. } => directories_of(pack),
            Self::Begin { draft, begin, .. } => {
                let path = begin.path.as_bytes().to_vec();
                lock(&state.drafts).insert(*draft, path.clone());
                vec![path]
            }
            Self::JoinDraft { draft, shared } => {
                let path = shared.path.as_bytes().to_vec();
                lock(&state.drafts).insert(*draft, path.clone());
                vec![path]
            }
            Self::Apply { changes } => {
                changes.iter().map(Change::path).map(|path| path.as_bytes().to_vec()).collect()
            }
            Self::Barrier { .. } | Self::Numbers { .. } => Vec::new(),
            _ => {
                self.draft().and_then(|draft| lock(&state.drafts).get(&draft).cloned()).into_iter().collect()
            }
        }
    }

    fn draft(&self) -> Option<DraftId> {
        match self {
            Self::Begin { draft, .. }
            | Self::JoinDraft { draft, .. }
            | Self::ShareDraft { draft }
            | Self::Write { draft, .. }
            | Self::HashRange { draft, .. }
            | Self::Patch { draft, .. }
            | Self::WeakSums { draft, .. }
            | Self::Hole { draft, .. }
            | Self::Assemble { draft, .. }
            | Self::Zero { draft, .. }
            | Self::Complete { draft, .. }
            | Self::Reflink { draft, .. }
            | Self::SetLength { draft, .. }
            | Self::Finish { draft, .. }
            | Self::Abandon { draft, .. } => Some(*draft),
            Self::Stat { .. }
            | Self::List { .. }
            | Self::Page { .. }
            | Self::Digest { .. }
            | Self::Numbers { .. }
            | Self::WritePack { .. }
            | Self::CopyInStore { .. }
            | Self::Apply { .. }
            | Self::Barrier { .. } => None,
        }
    }

    fn has_digest(&self) -> bool {
        matches!(self, Self::Write { check, .. } if check.value.is_some())
    }

    fn needs_whole_draft(&self) -> bool {
        matches!(
            self,
            Self::Write { .. }
                | Self::Patch { .. }
                | Self::Assemble { .. }
                | Self::Zero { .. }
                | Self::Complete { .. }
                | Self::Finish { .. }
        )
    }

    fn refused(self, lane: &mut FaultyLane<Self>, error: &Error) {
        match self {
            Self::Write { draft, buffer, .. }
            | Self::Patch { draft, buffer, .. }
            | Self::Assemble { draft, buffer, .. } => {
                lane.inner.recycle(buffer);
                lock(&lane.state.spoiled).entry(draft).or_insert_with(|| error.clone());
            }
            // A draft that could not be finished is removed.
            Self::Finish { draft, .. } => drop(lane.ask(Self::Abandon { draft, keep: false })),
            _ => {}
        }
    }

    fn make_unheard(&mut self, state: &FaultState, error: &Error) -> bool {
        if let Self::Write { acknowledge, .. } = self {
            *acknowledge = true;
        }
        if let Self::Write { draft, .. } | Self::Begin { draft, .. } = self {
            lock(&state.spoiled).entry(*draft).or_insert_with(|| error.clone());
        }
        // These operations have no completion that could report the failure.
        !matches!(self, Self::Patch { .. } | Self::Assemble { .. })
    }

    fn has_entries(&self) -> bool {
        matches!(self, Self::List { .. } | Self::Page { .. } | Self::WritePack { .. } | Self::Apply { .. })
    }

    fn undescribe(outcome: TargetOutcome) -> TargetOutcome {
        let undescribe = |listing: &mut Listing| {
            for metadata in listing.all_metadata_mut() {
                *metadata = EntryMetadata { extended: UNREADABLE, ..EntryMetadata::new(metadata.kind) };
            }
        };
        match outcome {
            TargetOutcome::Listed(mut listings) => {
                listings.iter_mut().filter_map(|listing| listing.result.as_mut().ok()).for_each(undescribe);
                TargetOutcome::Listed(listings)
            }
            TargetOutcome::Page(mut page) => {
                undescribe(&mut page.listing);
                TargetOutcome::Page(page)
            }
            outcome => outcome,
        }
    }

    fn one_entry(
        self,
        lane: &mut FaultyLane<Self>,
        when: &FaultCondition,
        error: Error,
    ) -> Result<TargetOutcome> {
        match self {
            Self::List { ref directories, .. } => {
                let asked = directories.len();
                let outcome = lane.ask(self)?;
                let TargetOutcome::Listed(mut listings) = outcome else { return Ok(outcome) };
                let index = when.index_of(listings.iter().map(|listing| &listing.path));
                let index = index.unwrap_or_else(|| lane.random.below(asked));
                listings[index].result = Err(error);
                Ok(TargetOutcome::Listed(listings))
            }
            Self::WritePack { pack, mut inodes } => {
                let index = lane.random.below(records(&pack));
                let pack = without(&pack, index);
                inodes.retain(|(record, _)| *record as usize != index);
                inodes.iter_mut().for_each(|(record, _)| *record -= u32::from(*record as usize > index));
                all_but(lane, Self::WritePack { pack, inodes }, index, error)
            }
            Self::Apply { mut changes } => {
                let index = when.index_of(changes.iter().map(Change::path));
                let index = index.unwrap_or_else(|| lane.random.below(changes.len()));
                changes.remove(index);
                all_but(lane, Self::Apply { changes }, index, error)
            }
            _ => Err(error),
        }
    }

    fn stand_in(self, lane: &mut FaultyLane<Self>) -> std::result::Result<Result<TargetOutcome>, Self> {
        match self {
            Self::Reflink { draft, from } if lane.state.plan.clones => Ok(share(lane, draft, &from)),
            other => Err(other),
        }
    }
}

/// Executes an operation that lacks the entry with number `index`, which is reported as failed.
fn all_but(
    lane: &mut FaultyLane<TargetOp>,
    operation: TargetOp,
    index: usize,
    error: Error,
) -> Result<TargetOutcome> {
    let outcome = lane.ask(operation)?;
    let TargetOutcome::PackWritten { mut failures, losses } = outcome else { return Ok(outcome) };
    insert(&mut failures, index as u32, error);
    Ok(TargetOutcome::PackWritten { failures, losses })
}

/// Emulates sharing of blocks by copying them.
fn share(lane: &mut FaultyLane<TargetOp>, draft: DraftId, from: &SharedFile) -> Result<TargetOutcome> {
    let failed = |error: std::io::Error| Error::io("sharing blocks", &error);
    let Some(file) = from.file::<OwnedFd>() else { return Err(planned(ErrorKind::Unsupported)) };
    let file = File::from(file.try_clone().map_err(failed)?);
    let whole = Extent { offset: 0, length: file.metadata().map_err(failed)?.len() };
    for piece in whole.pieces() {
        let mut buffer = lane.inner.piece_buffer();
        let length = piece.length as usize;
        file.read_exact_at(&mut buffer.room()[..length], piece.offset).map_err(failed)?;
        buffer.set_filled(length);
        let (offset, check) = (piece.offset, Check::default());
        lane.ask(TargetOp::Write { draft, offset, buffer, check, acknowledge: true })?;
    }
    Ok(TargetOutcome::Done)
}

fn directories_of(pack: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = PackReader::new(pack);
    let mut directories = Vec::new();
    while let Ok(Some(record)) = reader.read() {
        if let PackRecord::Directory { path } = record {
            directories.push(path.as_bytes().to_vec());
        }
    }
    directories
}

fn records(pack: &[u8]) -> usize {
    let mut reader = PackReader::new(pack);
    let mut count = 0;
    while let Ok(Some(record)) = reader.read() {
        count += usize::from(!matches!(record, PackRecord::Directory { .. }));
    }
    count
}

/// Returns the pack without the file or symbolic link with number `skipped`.
fn without(pack: &[u8], skipped: usize) -> Vec<u8> {
    let mut reader = PackReader::new(pack);
    let mut builder = PackBuilder::default();
    let mut index = 0;
    while let Ok(Some(record)) = reader.read() {
        let (head, content) = match &record {
            PackRecord::Directory { path } => {
                builder.directory(path);
                continue;
            }
            PackRecord::Entry(head, content) => (head, *content),
        };
        index += 1;
        if index == skipped + 1 {
            continue;
        }
        match content {
            PackContent::File(content) => {
                builder.whole_file(head, content.bytes, content.sum);
            }
            PackContent::Symlink(text) => builder.symlink(head, text),
            PackContent::Special(kind, device) => builder.special(head, kind, device),
        }
    }
    builder.finish()
}
