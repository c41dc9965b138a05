//! Large files: begun, written by any lane, compared, finished or abandoned.

use std::sync::{Arc, MutexGuard, PoisonError};

use futures_util::FutureExt;
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{DraftId, DraftKind, DraftParameters, PieceBuffer, TargetOutcome};
use hakobu_core::entry::{Attributes, EntryKind};
use hakobu_core::extent::{Extent, UNKNOWN_BYTES};
use hakobu_core::losses::Loss;
use hakobu_core::path::EntryPath;
use hakobu_core::tag::piece_value;
use hakobu_core::units::format_lack;
use hakobu_core::zeros::stretches;
use hakobu_core::{Error, ErrorKind, Result};
use std::collections::HashMap;

use super::draft::{OpenDraft, SftpDraft};
use super::lane::SftpTargetWriter;
use super::writer_context::SftpWriterContext;
use crate::sftp::read_file::read_range;
use crate::sftp::requests::{ServerRefusal, attrs, done};
use crate::sftp::wire::{Handle, open};

/// The file that accepts content and discards it.
const NOWHERE: &[u8] = b"/dev/null";
/// The size in bytes from which the free space is checked first.
const ROOM_ASKED_FROM_BYTES: u64 = 1 << 20;

impl SftpTargetWriter {
    fn opened_drafts(&self) -> MutexGuard<'_, HashMap<DraftId, Arc<OpenDraft>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a draft that some lane has begun, opened by this lane.
    fn opened(&self, id: DraftId, draft: &SftpDraft) -> Arc<OpenDraft> {
        let opened = || {
            let (connection, whole) = (self.context.sftp_root.server.connection.clone(), draft.whole.clone());
            let how = if draft.kind == DraftKind::Compare { open::READ } else { open::WRITE };
            let opening = async move {
                connection.open(&whole, how, None).await.map_err(|refusal| refusal.error("opening the draft"))
            };
            Arc::new(OpenDraft::new(opening.boxed().shared()))
        };
        let mut drafts = self.opened_drafts();
        if !drafts.contains_key(&id) {
            self.close_ended(&mut drafts);
        }
        Arc::clone(drafts.entry(id).or_insert_with(opened))
    }

    /// Closes the handles of drafts that other lanes have ended, because servers limit the number of handles.
    fn close_ended(&self, drafts: &mut HashMap<DraftId, Arc<OpenDraft>>) {
        let ended: Vec<_> =
            drafts.keys().copied().filter(|id| self.context.shared.draft(*id).is_err()).collect();
        for opened in ended.iter().filter_map(|id| drafts.remove(id)) {
            if let Some(Ok(handle)) = opened.handle.peek() {
                drop(self.context.sftp_root.server.connection.close(handle));
            }
        }
    }

    pub(super) async fn begin(&self, id: DraftId, begin: &DraftParameters) -> Result<TargetOutcome> {
        let shared = &self.context.shared;
        let (path, size_bytes) = (&begin.path, begin.size_bytes);
        let (draft, parent) = self.context.draft_of(begin)?;
        shared.allowance.take(&shared.grant, size_bytes)?;
        let begun = match shared.add_draft(id, draft) {
            Ok(draft) => {
                let (context, opens) = (Arc::clone(&self.context), Arc::clone(&draft));
                // Writes that are submitted before the draft is open wait for this future as well.
                let opening = async move { context.open_draft(&opens, &parent).await }.boxed().shared();
                self.opened_drafts().insert(id, Arc::new(OpenDraft::new(opening.clone())));
                let opened = opening.await;
                let opened = opened.map(drop);
                if opened.is_err() {
                    self.context.give_up(&draft).await;
                    shared.forget_draft(id);
                }
                opened
            }
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            shared.allowance.give_back(&shared.grant, size_bytes);
            return Err(error.at(path));
        }
        Ok(TargetOutcome::Done)
    }

    /// Writes a piece. An error is stored in the draft.
    pub(super) async fn write(
        &self,
        id: DraftId,
        offset: u64,
        buffer: PieceBuffer,
        waits: bool,
    ) -> Result<TargetOutcome> {
        let draft = self.context.shared.draft(id)?;
        draft.take(offset, buffer.filled().len() as u64)?;
        let opened = self.opened(id, &draft);
        let number = opened.begin();
        let written = self.write_to(&opened, (offset, draft.sparse), buffer).await;
        opened.end(number);
        if let Err(error) = written {
            let error = error.at(&draft.path);
            draft.fail(error.clone());
            return Err(error);
        }
        if waits {
            opened.ended(number).await;
        }
        draft.failure().filter(|_| waits).map_or(Ok(TargetOutcome::Done), Err)
    }

    /// Writes a buffer. For a sparse file, blocks of zeros are skipped, because a new file reads as zeros there.
    async fn write_to(
        &self,
        opened: &OpenDraft,
        (offset, sparse): (u64, bool),
        buffer: PieceBuffer,
    ) -> Result<()> {
        let handle = opened.handle.clone().await?;
        let server = &self.context.sftp_root.server;
        let bytes = buffer.filled();
        let begin_writes = |offset: u64, bytes: &[u8]| -> Vec<_> {
            let length = even_part(bytes.len(), server.write_bytes);
            let parts = (offset..).step_by(length).zip(bytes.chunks(length));
            parts.map(|(offset, part)| server.connection.write(&handle, offset, part)).collect()
        };
        let writes = match sparse {
            false => begin_writes(offset, bytes),
            true => {
                let stretches = stretches(offset, bytes).filter(|stretch| !stretch.is_zero);
                stretches.flat_map(|stretch| begin_writes(stretch.offset, stretch.bytes)).collect()
            }
        };
        let length_bytes = bytes.len() as u64;
        self.store.buffers().return_piece(buffer);
        for write in writes {
            if let Err(refusal) = done(write).await {
                return Err(self.context.sftp_root.write_error("writing", refusal, length_bytes).await);
            }
        }
        Ok(())
    }

    /// Leaves a range of zeros unwritten, because a new file reads as zeros there.
    pub(super) async fn zero(&self, id: DraftId, extent: Extent, waits: bool) -> Result<TargetOutcome> {
        let draft = self.context.shared.draft(id)?;
        draft.take(extent.offset, extent.length)?;
        if waits {
            self.opened(id, &draft).settled().await;
        }
        draft.failure().filter(|_| waits).map_or(Ok(TargetOutcome::Done), Err)
    }

    /// Waits for all writes of this lane.
    pub(super) async fn completed(&self, id: DraftId) -> Result<TargetOutcome> {
        let draft = self.context.shared.draft(id)?;
        self.opened(id, &draft).settled().await;
        draft.failure().map_or(Ok(TargetOutcome::Done), Err)
    }

    /// Reads a range back and returns the values of its pieces.
    pub(super) async fn sign(&self, id: DraftId, extent: Extent) -> Result<TargetOutcome> {
        let draft = self.context.shared.draft(id)?;
        let handle = self.opened(id, &draft).handle.clone().await?;
        let size_bytes = draft.size_bytes();
        let bytes = read_range(&self.context.sftp_root, &handle, extent)
            .await
            .map_err(|error| error.at(&draft.path))?;
        let value = |piece: Extent| -> Result<Digest> {
            let begin = (piece.offset - extent.offset) as usize;
            let end = (begin + piece.length as usize).min(bytes.len());
            let bytes = bytes.get(begin..end).unwrap_or_default();
            piece_value(draft.tagger.as_ref(), size_bytes, piece.offset, bytes)
        };
        extent.pieces().map(value).collect::<Result<_>>().map(TargetOutcome::Hashes)
    }

    pub(super) async fn finish(&self, id: DraftId, attributes: &Attributes) -> Result<TargetOutcome> {
        let shared = &self.context.shared;
        let draft = shared.draft(id)?;
        let opened = self.opened(id, &draft);
        opened.settled().await;
        // From here on only this operation closes the handle. Servers reuse numbers, so a second close would hit
        // another file.
        self.opened_drafts().remove(&id);
        let finished = match draft.complete() {
            Ok(size_bytes) => self.context.finish(&draft, &opened, attributes, size_bytes).await,
            Err(error) => {
                if let Ok(handle) = opened.handle.clone().await {
                    drop(self.context.sftp_root.server.connection.close(&handle));
                }
                Err(error)
            }
        };
        if finished.is_err() {
            self.context.give_up(&draft).await;
            shared.allowance.give_back(&shared.grant, draft.size_bytes());
        }
        shared.forget_draft(id);
        let lost = finished.map_err(|error| error.at(&draft.path))?;
        if lost.is_empty() {
            return Ok(TargetOutcome::Done);
        }
        let example = draft.path.as_bytes();
        let losses =
            lost.into_iter().map(|what| Loss { what, count: 1, at_target: true, example: example.to_vec() });
        Ok(TargetOutcome::PackWritten { failures: Vec::new(), losses: losses.collect() })
    }

    /// Abandons a draft. A missing draft counts as abandoned.
    pub(super) async fn abandon(&self, id: DraftId) {
        let shared = &self.context.shared;
        let opened = self.opened_drafts().remove(&id);
        let Ok(draft) = shared.draft(id) else { return };
        if let Some(opened) = opened {
            opened.settled().await;
            if let Ok(handle) = opened.handle.clone().await {
                let _ = done(self.context.sftp_root.server.connection.close(&handle)).await;
            }
        }
        self.context.give_up(&draft).await;
        shared.forget_draft(id);
        shared.allowance.give_back(&shared.grant, draft.size_bytes());
    }
}

impl SftpWriterContext {
    /// Returns a new draft and the directory that contains it.
    fn draft_of(&self, begin: &DraftParameters) -> Result<(SftpDraft, EntryPath)> {
        let (path, size_bytes) = (&begin.path, begin.size_bytes);
        let refuse = |kind, words: &str| Err(Error::new(kind, "beginning a draft", words).at(path));
        if begin.kind != DraftKind::Compare {
            self.shared.may_write()?;
        }
        self.shared.grant.check_write(path)?;
        let Some((parent, _)) = path.split_last() else {
            return refuse(ErrorKind::Conflict, "the target itself is a directory");
        };
        if i64::try_from(size_bytes).is_err() {
            return refuse(ErrorKind::Protocol, "an impossible size");
        }
        let whole = match begin.kind {
            DraftKind::File | DraftKind::Update => {
                self.sftp_root.in_directory(&parent, &self.shared.names.name())
            }
            DraftKind::Compare => self.sftp_root.whole(path),
            DraftKind::Sink if self.sftp_root.whole(path) == NOWHERE => NOWHERE.to_vec(),
            DraftKind::Sink | DraftKind::Device | DraftKind::InPlace | DraftKind::Stream => {
                let words = "an sftp server shows no devices, and files are replaced there, not changed";
                return refuse(ErrorKind::Unsupported, words);
            }
        };
        Ok((SftpDraft::new(begin, whole, size_bytes)?, parent))
    }

    async fn open_draft(&self, draft: &SftpDraft, parent: &EntryPath) -> Result<Handle> {
        if draft.kind == DraftKind::Compare {
            self.sftp_root.check_way(parent).await?;
            let opened = self.sftp_root.server.connection.open_to_read(&draft.whole).await;
            return opened.map_err(|refusal| refusal.error("opening"));
        }
        if draft.kind == DraftKind::Sink {
            return self.open_nowhere().await;
        }
        self.directory(parent).await?;
        let size_bytes = draft.size_bytes();
        if size_bytes >= ROOM_ASKED_FROM_BYTES && size_bytes != UNKNOWN_BYTES && !draft.sparse {
            self.check_room(parent, size_bytes).await?;
        }
        self.shared.names.begin(&draft.whole);
        match self.create(&draft.whole).await {
            Ok(handle) => Ok(handle),
            Err(refusal) => {
                Err(self.sftp_root.write_error("making the file", refusal, size_bytes.min(1)).await)
            }
        }
    }

    /// Opens the discarding file, if it really is that device. A server may expose only a part of its machine, where
    /// the file of this name is an ordinary one.
    async fn open_nowhere(&self) -> Result<Handle> {
        let during = "opening what keeps nothing";
        let connection = &self.sftp_root.server.connection;
        let found = match attrs(connection.look(NOWHERE)).await {
            Err(ServerRefusal::NotFound) => None,
            found => found.map_err(|refusal| refusal.error(during))?,
        };
        if found.is_none_or(|found| found.kind != EntryKind::CharDevice) {
            let words = "the server shows none; if it shows only a part of its machine, name a file";
            return Err(Error::new(ErrorKind::Unsupported, during, words).at(NOWHERE));
        }
        connection.open(NOWHERE, open::WRITE, None).await.map_err(|refusal| refusal.error(during))
    }

    async fn check_room(&self, parent: &EntryPath, size_bytes: u64) -> Result<()> {
        let room =
            self.sftp_root.server.room(&self.sftp_root.whole(parent), self.shared.access.is_root).await;
        match room {
            Ok(Some(room)) if room.free_bytes < size_bytes => {
                let words = format_lack(size_bytes, room.free_bytes);
                Err(Error::new(ErrorKind::NoSpace, "making the file", words))
            }
            Err(ServerRefusal::Fatal(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Gives a draft its attributes and its final name.
    async fn finish(
        &self,
        draft: &SftpDraft,
        opened: &OpenDraft,
        attributes: &Attributes,
        size_bytes: u64,
    ) -> Result<super::writer_context::SftpEntryLosses> {
        let handle = opened.handle.clone().await?;
        if draft.kind == DraftKind::Sink {
            let closed = done(self.sftp_root.server.connection.close(&handle)).await;
            return closed.map(|()| Vec::new()).map_err(|refusal| refusal.error("closing"));
        }
        let lost = self.settle_open(&handle, attributes, Some(size_bytes), true).await?;
        let (parent, _) = draft.path.split_last().unwrap_or((EntryPath::root(), b""));
        // The path is checked again, because somebody may have put a symbolic link there meanwhile.
        self.sftp_root.glanced(&parent, self.sftp_root.glance(&parent)).await?;
        self.put_in_place(&draft.whole, &draft.path, true).await?;
        self.sftp_root.glanced(&parent, self.sftp_root.glance(&parent)).await?;
        self.sync_directory(&parent).await?;
        Ok(lost)
    }

    /// Removes a draft.
    async fn give_up(&self, draft: &SftpDraft) {
        draft.close();
        if matches!(draft.kind, DraftKind::File | DraftKind::Update) {
            self.discard(&draft.whole).await;
        }
    }
}

/// Returns the length of parts, about equal, of which none exceeds `max`.
fn even_part(length: usize, max: usize) -> usize {
    let parts = length.div_ceil(max).max(1);
    length.div_ceil(parts).max(1)
}

#[cfg(test)]
mod tests {
    use super::even_part;

    #[test]
    fn parts_are_even_and_not_too_long() {
        assert_eq!(
            [(0, 10), (10, 10), (11, 10), (262_144, 261_120)].map(|(a, b)| even_part(a, b)),
            [1, 10, 6, 131_072]
        );
    }
}
