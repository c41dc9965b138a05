//! One lane of a target.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{
    Detail, DraftId, DraftKind, DraftParameters, SharedDraft, TargetOp, TargetOutcome,
};
use hakobu_core::entry::{AccountId, Attributes, EntryMetadata};
use hakobu_core::extended::{Extended, ExtendedRef};
use hakobu_core::extent::UNKNOWN_BYTES;
use hakobu_core::listing::{DirectoryListing, Listing};
use hakobu_core::losses::Loss;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::apply::apply;
use super::attributes::EntryLosses;
use super::directories::DirectoryCache;
use super::draft::LocalDraft;
use super::leftovers::{clear_other_leases, remove_leftovers};
use super::new_file::EntryMaker;
use super::shared::LocalTargetState;
use super::store::store;
use super::writer::DraftWriter;
use crate::common::buffers::Buffers;
use crate::common::immediate::{AtOnce, ImmediateTarget, ImmediateWork};
use crate::local::accounts;
use crate::local::digests::{self, Digester};
use crate::local::errno::{fault, foreign};
use crate::local::extended::ExtendedReader;
use crate::local::inspection::inspect;
use crate::local::list::{ListParameters, Lister};
use crate::local::resolve_beneath::STEP;

/// One lane of a [`LocalTarget`](super::LocalTarget).
pub type LocalTargetLane = AtOnce<LocalTargetWriter>;

/// The state with which a lane of a target works.
#[derive(Debug)]
pub struct LocalTargetWriter {
    shared: Arc<LocalTargetState>,
    directories: DirectoryCache,
    maker: EntryMaker,
    lister: Lister,
    extended: ExtendedReader,
    digester: Digester,
    buffers: Buffers,
    /// The draft that was written last, to avoid a lookup in the shared table for every piece.
    last: Option<(DraftId, DraftWriter)>,
}

impl LocalTargetLane {
    /// Returns the open draft of that number, for writing without a
    /// [`PieceBuffer`](hakobu_core::endpoint::PieceBuffer).
    ///
    /// # Errors
    /// `NotFound` if there is none, or if it is finished or abandoned.
    pub fn draft_writer(&mut self, draft: DraftId) -> Result<&mut DraftWriter> {
        self.work.draft_writer(draft)
    }
}

impl ImmediateWork for LocalTargetWriter {
    type Op = TargetOp;

    fn perform(&mut self, operation: TargetOp) -> Option<Result<TargetOutcome>> {
        let done = match operation {
            TargetOp::Write { draft, offset, buffer, check: _, acknowledge } => {
                let written = self.draft_writer(draft).and_then(|writer| {
                    writer.write(offset, buffer.filled())?;
                    if acknowledge { writer.flush() } else { Ok(()) }
                });
                self.buffers.return_piece(buffer);
                if written.is_ok() && !acknowledge {
                    return None;
                }
                written.map(|()| TargetOutcome::Done)
            }
            TargetOp::WritePack { pack, .. } => {
                let may = self.refuse_writing(DraftKind::File);
                let stored =
                    may.and_then(|()| store(&self.shared, &mut self.directories, &mut self.maker, &pack));
                self.buffers.return_pack(pack);
                stored
            }
            TargetOp::Stat { path, detail } => self.inspect(&path, detail).map(TargetOutcome::Stat),
            TargetOp::List { directories, budget, detail } => {
                Ok(TargetOutcome::Listed(self.list(directories, ListParameters { budget, detail })))
            }
            TargetOp::Page { .. } => {
                let words = "directories are listed as a whole";
                Err(Error::new(ErrorKind::Unsupported, "listing", words))
            }
            TargetOp::Begin { draft, begin, .. } => self.begin(draft, &begin),
            TargetOp::JoinDraft { draft, shared } => self.join(draft, &shared).map(|()| TargetOutcome::Done),
            TargetOp::ShareDraft { draft } => self.share(draft).map(TargetOutcome::DraftShared),
            TargetOp::Zero { draft, extent, acknowledge } => {
                let zeroed = self.draft_writer(draft).and_then(|writer| writer.zero(extent));
                if zeroed.is_ok() && !acknowledge {
                    return None;
                }
                zeroed.map(|()| TargetOutcome::Done)
            }
            TargetOp::HashRange { draft, extent, blocks } => {
                self.draft_writer(draft).and_then(|writer| match blocks {
                    true => writer.sign_blocks(extent).map(TargetOutcome::BlockHashes),
                    false => writer.sign(extent).map(TargetOutcome::Hashes),
                })
            }
            TargetOp::Patch { draft, extent, changed, buffer, value } => {
                let writer = self.draft_writer(draft);
                let patched = writer.and_then(|writer| writer.patch(extent, changed, buffer.filled(), value));
                self.buffers.return_piece(buffer);
                match patched {
                    Ok(()) => return None,
                    Err(error) => Err(error),
                }
            }
            TargetOp::Hole { draft, extent } => self
                .draft_writer(draft)
                .and_then(|writer| writer.hole_until(extent))
                .map(TargetOutcome::HoleUntil),
            TargetOp::WeakSums { draft, extent, block_bytes } => self
                .draft_writer(draft)
                .and_then(|writer| writer.sum_old(extent, block_bytes))
                .map(TargetOutcome::Sums),
            TargetOp::Assemble { draft, extent, copies, buffer, value } => {
                let writer = self.draft_writer(draft);
                let assembled =
                    writer.and_then(|writer| writer.assemble(extent, &copies, buffer.filled(), value));
                self.buffers.return_piece(buffer);
                match assembled {
                    Ok(()) => return None,
                    Err(error) => Err(error),
                }
            }
            TargetOp::Complete { draft, extent, value, kept } => self
                .draft_writer(draft)
                .and_then(|writer| writer.complete(extent, value, kept))
                .map(|()| TargetOutcome::Done),
            TargetOp::CopyInStore { .. } => Err(foreign()),
            TargetOp::Reflink { draft, from } => {
                let shared = match from.file() {
                    Some(file) => {
                        self.draft_writer(draft).and_then(|writer| writer.draft().share_blocks(file))
                    }
                    None => Err(foreign()),
                };
                shared.map(|()| TargetOutcome::Done)
            }
            TargetOp::SetLength { draft, size_bytes } => self.draft_writer(draft).and_then(|writer| {
                let set = writer.draft().set_size(size_bytes);
                set.inspect_err(|error| writer.draft().fail(error.clone())).map(|()| TargetOutcome::Done)
            }),
            TargetOp::Finish { draft, attributes, extended, digest: _ } => {
                self.finish(draft, &attributes, extended.as_ref().map(Extended::as_ref))
            }
            TargetOp::Abandon { draft, keep } => {
                self.abandon(draft, keep);
                Ok(TargetOutcome::Done)
            }
            TargetOp::Apply { changes } => self
                .refuse_writing(DraftKind::File)
                .and_then(|()| apply(&self.shared, &mut self.directories, &changes)),
            TargetOp::Barrier { durable, whole } => self.barrier(durable, whole),
            TargetOp::Digest { directory, names, key } => self
                .digester
                .takes(key)
                .and_then(|()| self.digests(&directory, &names))
                .map(TargetOutcome::Digests),
            TargetOp::Numbers { names } => {
                let number = |(of, name): (AccountId, Vec<u8>)| accounts::number_of(of, &name);
                let numbers: Result<_> = names.into_iter().map(number).collect();
                numbers.map(TargetOutcome::Numbers)
            }
        };
        Some(done)
    }
}

impl ImmediateTarget for LocalTargetWriter {
    fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }
}

impl LocalTargetWriter {
    pub(crate) fn new(shared: Arc<LocalTargetState>) -> Self {
        let number = shared.lanes.fetch_add(1, Relaxed).wrapping_add(1);
        Self {
            shared,
            directories: DirectoryCache::new(),
            maker: EntryMaker::new(number),
            lister: Lister::default(),
            extended: ExtendedReader::default(),
            digester: Digester::default(),
            buffers: Buffers::default(),
            last: None,
        }
    }

    fn draft_writer(&mut self, draft: DraftId) -> Result<&mut DraftWriter> {
        let known = matches!(&self.last, Some((id, last)) if *id == draft && last.draft().is_open());
        if !known {
            self.leave_draft();
            let found = self.shared.drafts.find(draft)?;
            self.last = Some((draft, DraftWriter::new(found)));
        }
        match &mut self.last {
            Some((_, writer)) => Ok(writer),
            None => Err(Error::new(ErrorKind::NotFound, "writing", "there is no draft of this number")),
        }
    }

    /// Flushes the buffered writes of the last draft before another one is written. An error is stored in the draft.
    fn leave_draft(&mut self) {
        if let Some((_, mut writer)) = self.last.take() {
            let _ = writer.flush();
        }
    }

    /// Refuses writing drafts under a grant that only reads.
    fn refuse_writing(&self, kind: DraftKind) -> Result<()> {
        // A sink changes nothing.
        if !self.shared.grant.only_reads || matches!(kind, DraftKind::Compare | DraftKind::Sink) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::BeyondGrant, "writing", "the job only compares"))
    }

    fn inspect(&mut self, path: &EntryPath, detail: Detail) -> Result<Option<EntryMetadata>> {
        self.shared.grant.check_enter(path)?;
        let marks = &self.shared.marks;
        let mut inspected = inspect(&self.shared.root, path, (&mut self.extended, detail))?;
        inspected.iter_mut().for_each(EntryMetadata::tell_apart);
        if let (Some(found), true) = (&mut inspected, marks.has_doubts()) {
            let (parent, _) = path.split_last().unwrap_or_default();
            marks.doubts(&parent).into_iter().for_each(|since| found.doubt(since));
        }
        Ok(inspected)
    }

    fn list(&mut self, directories: Vec<EntryPath>, ask: ListParameters) -> Vec<DirectoryListing> {
        let shared = &self.shared;
        let enter = |path: &EntryPath| shared.grant.check_enter(path);
        let mut listed = self.lister.list_all(&shared.root, directories, ask, enter, fault);
        shared.marks.learn(&shared.root, &shared.grant, self.lister.met_marks());
        let met = self.lister.met_drafts();
        shared.leftovers.add(clear_other_leases(&shared.root, &shared.grant, &shared.key, met));
        // The transmitted listing does not show that inode numbers may repeat.
        for directory in &mut listed {
            directory
                .result
                .iter_mut()
                .flat_map(Listing::all_metadata_mut)
                .for_each(EntryMetadata::tell_apart);
        }
        if shared.marks.has_doubts() {
            for directory in &mut listed {
                let Ok(listing) = &mut directory.result else { continue };
                shared.marks.doubt_listing(&directory.path, listing);
            }
        }
        listed
    }

    /// Returns digests or tags of existing entries. They reveal content, so they are limited to granted paths.
    fn digests(&mut self, directory: &EntryPath, names: &[Vec<u8>]) -> Result<Vec<Result<Digest>>> {
        let Self { shared, digester, .. } = self;
        shared.grant.check_enter(directory)?;
        let opened = shared.root.open_beneath(directory, STEP);
        let opened = opened.map_err(|errno| fault("opening the directory", errno).at(directory))?;
        let digest = |name: &Vec<u8>| {
            let path = directory.join(name)?;
            shared.grant.check_write(&path)?;
            shared.refuse_device(&opened, name).map_err(|error| error.at(&path))?;
            let taken = digester.digest((&opened, name), None, || digests::open(&opened, name), fault);
            taken.map_err(|error| error.at(&path))
        };
        Ok(names.iter().map(digest).collect())
    }

    fn begin(&mut self, id: DraftId, begin: &DraftParameters) -> Result<TargetOutcome> {
        self.refuse_writing(begin.kind)?;
        let shared = Arc::clone(&self.shared);
        let DraftParameters { path, size_bytes, .. } = begin;
        let size_bytes = *size_bytes;
        shared.grant.check_write(path)?;
        if begin.kind == DraftKind::InPlace
            && shared.grant.is_in_tree(path)
            && !shared.grant.may_write_in_place
        {
            let words = "the job does not allow to write to files where they lie";
            return Err(Error::new(ErrorKind::BeyondGrant, "beginning a draft", words).at(path));
        }
        let Some((parent, name)) = path.split_last() else {
            return Err(Error::new(
                ErrorKind::Conflict,
                "making the file",
                "the target itself is a directory",
            ));
        };
        if i64::try_from(size_bytes).is_err() {
            return Err(Error::new(ErrorKind::Protocol, "beginning a draft", "an impossible size").at(path));
        }
        let known_bytes = if begin.sparse || size_bytes == UNKNOWN_BYTES { 0 } else { size_bytes };
        let outstanding_bytes = shared.drafts.reserve(id, path, known_bytes)?;
        let begun = shared.take_bytes(size_bytes).and_then(|()| {
            let draft = self.directories.enter(&shared, &parent).and_then(|directory| {
                let mut draft = LocalDraft::begin(&shared, directory, name, begin, outstanding_bytes)?;
                draft.journal_in_place(&shared, directory, begin)?;
                Ok(draft)
            });
            draft.inspect_err(|_| shared.return_bytes(size_bytes))
        });
        match begun {
            Ok(draft) => {
                let begun = draft.begun();
                shared.drafts.fill(id, Arc::new(draft));
                Ok(begun.map_or(TargetOutcome::Done, |begun| TargetOutcome::Begun(Box::new(begun))))
            }
            Err(error) => {
                shared.drafts.remove(id);
                Err(error.at(path))
            }
        }
    }

    /// Opens a draft that another run has left.
    fn join(&mut self, id: DraftId, left: &SharedDraft) -> Result<()> {
        self.refuse_writing(DraftKind::File)?;
        let shared = Arc::clone(&self.shared);
        shared.grant.check_write(&left.path)?;
        let (parent, name) = left.path.split_last().ok_or_else(|| {
            Error::new(ErrorKind::Conflict, "opening the draft", "the target itself is a directory")
        })?;
        // Its space belongs to whoever has begun it.
        shared.drafts.reserve(id, &left.path, 0)?;
        let directory = self.directories.enter(&shared, &parent);
        match directory.and_then(|directory| LocalDraft::join(&shared, directory, name, left)) {
            Ok(draft) => {
                shared.drafts.fill(id, Arc::new(draft));
                Ok(())
            }
            Err(error) => {
                shared.drafts.remove(id);
                Err(error.at(&left.path))
            }
        }
    }

    /// Leaves a draft to other runs.
    fn share(&mut self, id: DraftId) -> Result<Vec<u8>> {
        let writer = self.draft_writer(id)?;
        writer.flush()?;
        let draft = Arc::clone(writer.draft());
        if !draft.close() {
            return Err(
                Error::new(ErrorKind::NotFound, "sharing the draft", "the draft is closed").at(draft.path())
            );
        }
        let left = draft.leave(self.shared.options.durable);
        let removed = self.shared.drafts.remove(id);
        self.last = None;
        match left {
            Ok(name) => {
                self.shared.leftovers.spare(&name);
                Ok(name)
            }
            Err(error) => {
                if removed && !draft.is_joined {
                    self.shared.return_bytes(draft.size_bytes());
                }
                Err(error.at(draft.path()))
            }
        }
    }

    fn finish(
        &mut self,
        id: DraftId,
        attributes: &Attributes,
        extended: Option<ExtendedRef<'_>>,
    ) -> Result<TargetOutcome> {
        let writer = self.draft_writer(id)?;
        writer.flush()?;
        let draft = Arc::clone(writer.draft());
        // The lane that closes the draft ends it. Another lane may try to finish or abandon it as well.
        if !draft.close() {
            return Err(Error::new(ErrorKind::NotFound, "finishing", "the draft is closed").at(draft.path()));
        }
        let mut lost = EntryLosses::new();
        let finished = draft.finish(&self.shared, attributes, extended, &mut lost);
        let removed = self.shared.drafts.remove(id);
        self.last = None;
        if let Err(error) = finished {
            if removed && !draft.is_joined {
                self.shared.return_bytes(draft.size_bytes());
            }
            return Err(error.at(draft.path()));
        }
        if lost.is_empty() {
            return Ok(TargetOutcome::Done);
        }
        let example = draft.path().as_bytes();
        let losses = lost
            .into_iter()
            .map(|what| Loss { what, count: 1, at_target: true, example: example.to_vec() })
            .collect();
        Ok(TargetOutcome::PackWritten { failures: Vec::new(), losses })
    }

    /// Abandons a draft. A missing draft counts as abandoned.
    fn abandon(&mut self, id: DraftId, keep: bool) {
        if keep {
            self.shared.leftovers.keep();
        }
        if let Ok(writer) = self.draft_writer(id) {
            let draft = Arc::clone(writer.draft());
            let keep = keep || draft.is_anothers(&self.shared);
            if draft.abandon(keep) && self.shared.drafts.remove(id) && !draft.is_joined {
                self.shared.return_bytes(draft.size_bytes());
            }
        }
        self.last = None;
    }

    fn barrier(&self, durable: bool, whole: bool) -> Result<TargetOutcome> {
        let shared = &self.shared;
        let durable = durable && shared.options.durable;
        if durable {
            shared.devices.flush(&shared.root)?;
        }
        let removed = remove_leftovers(&shared.leftovers, &shared.root, (&shared.grant, &shared.key));
        let ended = shared.marks.end(&shared.options.job, durable, whole);
        removed.and(ended).map(|()| TargetOutcome::Done).map_err(|errno| {
            let mut error = fault("setting the time of a directory at the target", errno);
            error = error.hint("the same command sets it");
            error
        })
    }
}
