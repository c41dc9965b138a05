//! A target within a grant: each operation is checked once, before the endpoint sees it.
//!
//! An operation beyond the grant is refused as a whole, since the engine never requests one. Checks that depend on the
//! state of the target (a parent directory to be made, an owner that may not be set) are left to the endpoint, which
//! also has the grant.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::capabilities::Capabilities;
use hakobu_core::counters::RemoteStats;
use hakobu_core::endpoint::{
    Change, Completion, CompletionWait, DraftId, DraftKind, DraftParameters, Endpoint, Lane, LinkStats,
    PieceBuffer, TargetEndpoint, TargetLane, TargetOp, TargetOutcome, Ticket,
};
use hakobu_core::grant::Grant;
use hakobu_core::pack::{PACK_BYTES_MAX, PackContent, PackReader, PackRecord};
use hakobu_core::path::EntryPath;
use hakobu_core::requests::RequestCounts;
use hakobu_core::{Error, ErrorKind, Result};

use super::allowance::Allowance;

/// A target that receives only operations within its grant.
pub struct Granted<E> {
    inner: E,
    permit: Arc<GrantUsage>,
}

/// The grant and the usage of its allowance.
struct GrantUsage {
    grant: Grant,
    allowance: Allowance,
    /// The number of bytes taken for each draft.
    drafts: Mutex<HashMap<DraftId, u64>>,
}

impl<E: TargetEndpoint> Granted<E> {
    /// Wraps a target with a grant.
    pub fn new(inner: E, grant: Grant) -> Self {
        let permit = GrantUsage { grant, allowance: Allowance::default(), drafts: Mutex::default() };
        Self { inner, permit: Arc::new(permit) }
    }
}

impl<E: TargetEndpoint> Endpoint for Granted<E> {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn may_open_lane(&self, has_work: bool) -> bool {
        self.inner.may_open_lane(has_work)
    }

    fn passed(&self) -> Option<LinkStats> {
        self.inner.passed()
    }

    fn run_bytes(&self, size_bytes: u64) -> u64 {
        self.inner.run_bytes(size_bytes)
    }

    fn requests(&self) -> RequestCounts {
        self.inner.requests()
    }

    fn lanes_are_complete(&self) {
        self.inner.lanes_are_complete();
    }

    fn interrupt(&self) {
        self.inner.interrupt();
    }
}

impl<E: TargetEndpoint> TargetEndpoint for Granted<E> {
    fn open_target_lane(&self, index: usize) -> Result<Box<dyn TargetLane>> {
        let inner = self.inner.open_target_lane(index)?;
        let permit = Arc::clone(&self.permit);
        let (refused, taken) = (VecDeque::new(), HashMap::new());
        Ok(Box::new(GrantedLane { inner, permit, refused, taken }))
    }

    fn spreads_writers(&self) -> bool {
        self.inner.spreads_writers()
    }
}

/// The bytes that a pending operation has taken of the allowance. They are returned if it fails.
enum TakenAllowance {
    /// A pack, with the bytes of each entry.
    Pack(Vec<u64>),
    /// A draft that is begun.
    Begun(DraftId),
    /// A draft that is finished. It no longer exists afterwards, whatever the result.
    Finished(DraftId),
}

struct GrantedLane {
    inner: Box<dyn TargetLane>,
    permit: Arc<GrantUsage>,
    /// Completions of refused operations.
    refused: VecDeque<Completion<TargetOutcome>>,
    taken: HashMap<Ticket, TakenAllowance>,
}

impl Lane<TargetOp> for GrantedLane {
    fn submit(&mut self, ticket: Ticket, mut operation: TargetOp) -> std::result::Result<(), TargetOp> {
        let taken = match self.permit.check(&mut operation) {
            Ok(taken) => taken,
            Err(error) => {
                self.refused.push_back(Completion { ticket, result: Err(error) });
                return Ok(());
            }
        };
        if let Err(back) = self.inner.submit(ticket, operation) {
            self.permit.give_back(taken.as_ref(), &[]);
            return Err(back);
        }
        self.taken.extend(taken.map(|taken| (ticket, taken)));
        Ok(())
    }

    fn reap(&mut self, wait: CompletionWait) -> Option<Completion<TargetOutcome>> {
        if let Some(refused) = self.refused.pop_front() {
            return Some(refused);
        }
        let completion = self.inner.reap(wait)?;
        let taken = self.taken.remove(&completion.ticket);
        match &completion.result {
            Ok(TargetOutcome::PackWritten { failures, .. }) => {
                let failed: Vec<u32> = failures.iter().map(|(index, _)| *index).collect();
                self.permit.give_back(taken.as_ref().filter(|_| !failed.is_empty()), &failed);
                self.permit.end_draft(taken.as_ref());
            }
            Ok(_) => self.permit.end_draft(taken.as_ref()),
            Err(_) => self.permit.give_back(taken.as_ref(), &[]),
        }
        Some(completion)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }
}

impl TargetLane for GrantedLane {
    fn piece_buffer(&mut self) -> PieceBuffer {
        self.inner.piece_buffer()
    }

    fn pack_buffer(&mut self) -> Vec<u8> {
        self.inner.pack_buffer()
    }

    fn recycle(&mut self, buffer: PieceBuffer) {
        self.inner.recycle(buffer);
    }

    fn beyond(&mut self) -> RemoteStats {
        self.inner.beyond()
    }
}

impl GrantUsage {
    fn drafts(&self) -> MutexGuard<'_, HashMap<DraftId, u64>> {
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks an operation, and takes the bytes that it writes.
    ///
    /// # Errors
    /// `BeyondGrant`, naming the path.
    fn check(&self, operation: &mut TargetOp) -> Result<Option<TakenAllowance>> {
        let grant = &self.grant;
        if !matches!(operation, TargetOp::Abandon { .. }) {
            grant.check_time()?;
        }
        match operation {
            TargetOp::Stat { path, .. } => grant.check_enter(path)?,
            TargetOp::List { directories, budget, .. } => {
                directories.iter().try_for_each(|path| grant.check_enter(path))?;
                // Contents of a directory that only leads to a granted path must not be listed.
                if !directories.iter().all(|path| grant.is_in_tree(path)) {
                    *budget = 0;
                }
            }
            TargetOp::Page { directory, .. } => grant.check_enter(directory)?,
            TargetOp::Digest { directory, names, .. } => {
                grant.check_enter(directory)?;
                names.iter().try_for_each(|name| grant.check_write(&directory.join(name)?))?;
            }
            TargetOp::WritePack { pack, .. } => {
                self.refuse_writing(DraftKind::File)?;
                return self.check_pack(pack).map(Some);
            }
            TargetOp::CopyInStore { directory, copies } => {
                self.refuse_writing(DraftKind::File)?;
                grant.check_enter(directory)?;
                copies.iter().try_for_each(|(name, _)| grant.check_write(&directory.join(name)?))?;
            }
            TargetOp::Begin { draft, begin, .. } => return self.check_begin(*draft, begin).map(Some),
            TargetOp::JoinDraft { shared, .. } => {
                self.refuse_writing(DraftKind::File)?;
                grant.check_write(&shared.path)?;
            }
            TargetOp::Apply { changes } => {
                self.refuse_writing(DraftKind::File)?;
                changes.iter().try_for_each(|change| self.check_change(change))?;
            }
            TargetOp::Finish { draft, .. } => return Ok(Some(TakenAllowance::Finished(*draft))),
            TargetOp::Abandon { draft, .. } => self.give_back(Some(&TakenAllowance::Finished(*draft)), &[]),
            // Operations on an existing draft.
            TargetOp::ShareDraft { .. }
            | TargetOp::HashRange { .. }
            | TargetOp::Hole { .. }
            | TargetOp::Patch { .. }
            | TargetOp::WeakSums { .. }
            | TargetOp::Assemble { .. }
            | TargetOp::Zero { .. }
            | TargetOp::Complete { .. }
            | TargetOp::SetLength { .. }
            | TargetOp::Write { .. }
            | TargetOp::Reflink { .. }
            // Operations that do not concern an existing entry.
            | TargetOp::Numbers { .. }
            | TargetOp::Barrier { .. } => {}
        }
        Ok(None)
    }

    /// Refuses writing drafts under a grant that only reads.
    fn refuse_writing(&self, kind: DraftKind) -> Result<()> {
        if !self.grant.only_reads || matches!(kind, DraftKind::Compare | DraftKind::Sink) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::BeyondGrant, "writing", "the job only compares"))
    }

    fn check_pack(&self, pack: &[u8]) -> Result<TakenAllowance> {
        let malformed = |words| Error::new(ErrorKind::Protocol, "reading a pack", words);
        if pack.len() > PACK_BYTES_MAX {
            return Err(malformed("it is too large"));
        }
        let mut here: Option<(EntryPath, bool)> = None;
        let mut bytes = Vec::new();
        let mut reader = PackReader::new(pack);
        while let Some(record) = reader.read()? {
            match record {
                PackRecord::Directory { path } => {
                    self.grant.check_enter(&path)?;
                    let is_granted = self.grant.is_in_tree(&path);
                    here = Some((path, is_granted));
                }
                PackRecord::Entry(head, content) => {
                    let (path, is_granted) =
                        here.as_ref().ok_or_else(|| malformed("a record before its directory"))?;
                    if !is_granted {
                        self.grant.check_write(&path.join(head.name)?)?;
                    }
                    bytes.push(if let PackContent::File(file) = content {
                        file.bytes.len() as u64
                    } else {
                        0
                    });
                }
            }
        }
        self.allowance.take(&self.grant, bytes.iter().sum())?;
        Ok(TakenAllowance::Pack(bytes))
    }

    fn check_begin(&self, draft: DraftId, begin: &DraftParameters) -> Result<TakenAllowance> {
        self.refuse_writing(begin.kind)?;
        self.grant.check_write(&begin.path)?;
        let in_place = begin.kind == DraftKind::InPlace && self.grant.is_in_tree(&begin.path);
        if in_place && !self.grant.may_write_in_place {
            let words = "the job does not allow to write to files where they lie";
            return Err(Error::new(ErrorKind::BeyondGrant, "beginning a draft", words).at(&begin.path));
        }
        if begin.kind == DraftKind::Device {
            self.grant.device(&begin.path)?;
        }
        let mut drafts = self.drafts();
        if drafts.contains_key(&draft) {
            let words = "a number that another draft has";
            return Err(Error::new(ErrorKind::Protocol, "beginning a draft", words).at(&begin.path));
        }
        self.allowance.take(&self.grant, begin.size_bytes)?;
        drafts.insert(draft, begin.size_bytes);
        Ok(TakenAllowance::Begun(draft))
    }

    fn check_change(&self, change: &Change) -> Result<()> {
        let grant = &self.grant;
        match change {
            Change::Remove { path, .. } => grant.check_remove(path),
            // A later write to one name also writes to the other.
            Change::Link { path, to, .. } => grant.check_write(path).and_then(|()| grant.check_write(to)),
            Change::Rename { path, from } => grant.check_write(path).and_then(|()| grant.check_write(from)),
            Change::MakeDirectory { path, .. }
            | Change::Directory { path, .. }
            | Change::Attributes { path, .. } => grant.check_write(path),
        }
    }

    /// Forgets the draft's bytes once they are at the target.
    fn end_draft(&self, taken: Option<&TakenAllowance>) {
        if let Some(TakenAllowance::Finished(draft)) = taken {
            self.drafts().remove(draft);
        }
    }

    /// Returns bytes that are not at the target: of a draft all; of a pack those of the `failed` entries, or all
    /// without any.
    fn give_back(&self, taken: Option<&TakenAllowance>, failed: &[u32]) {
        let bytes = match taken {
            None => return,
            Some(TakenAllowance::Pack(bytes)) if failed.is_empty() => bytes.iter().sum(),
            Some(TakenAllowance::Pack(bytes)) => {
                failed.iter().filter_map(|index| bytes.get(*index as usize)).sum()
            }
            Some(TakenAllowance::Begun(draft) | TakenAllowance::Finished(draft)) => {
                self.drafts().remove(draft).unwrap_or(0)
            }
        };
        self.allowance.give_back(&self.grant, bytes);
    }
}
