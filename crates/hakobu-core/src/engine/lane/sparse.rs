//! Skips holes that both sides have: they are equal without reading either.

use super::chunks::{HOLES_WITHOUT_DIGEST_BYTES, OpenChunk, Values};
use super::*;
use crate::extent::chunk_count;

impl Worker<'_> {
    /// Skips a chunk that lies in a hole on both sides, and the untaken chunks after it in the same hole. Returns
    /// `Some(false)` if the chunk has to be compared, and `None` if the run was stopped.
    pub(super) fn skip_holes_of_both(
        &mut self,
        file: &Arc<LargeFile>,
        chunk: Extent,
    ) -> Result<Option<bool>> {
        let metadata = &file.source.metadata;
        if !metadata.sparse || metadata.kind != EntryKind::File || file.has_failed() {
            return Ok(Some(false));
        }
        let rest = Extent { offset: chunk.offset, length: file.size_bytes() - chunk.offset };
        let find = SourceOp::FindHole { file: file.source.clone(), extent: rest };
        let Ok(SourceOutcome::HoleUntil(end)) = self.ask_source(find) else { return Ok(Some(false)) };
        // A digest covers holes as well, as long as hashing them is quick.
        let hashes = self.takes_digest(file) && !file.is_compared_by_tags();
        let is_short = || end - chunk.offset < HOLES_WITHOUT_DIGEST_BYTES;
        if end < chunk.end() || hashes && is_short() && file.hole(chunk.length) < HOLES_WITHOUT_DIGEST_BYTES {
            return Ok(Some(false));
        }
        let ours = Extent { length: end - chunk.offset, ..rest };
        let ticket = self.submit(TargetOp::Hole { draft: file.draft, extent: ours }, PendingPurpose::Told)?;
        let Some(told) = self.told(ticket)? else { return Ok(None) };
        // If the target cannot report holes, the chunk is compared.
        let both = match told {
            Ok(TargetOutcome::HoleUntil(theirs)) if theirs <= end => theirs,
            _ => return Ok(Some(false)),
        };
        if both < chunk.end() {
            return Ok(Some(false));
        }
        if hashes {
            file.forget_digest();
        }
        let more = file.take_chunks_until(both);
        for extent in [Some(chunk), more].into_iter().flatten() {
            self.keep_hole(file, extent)?;
        }
        Ok(Some(true))
    }

    fn keep_hole(&mut self, file: &Arc<LargeFile>, extent: Extent) -> Result<()> {
        let pieces = extent.length.div_ceil(PIECE_BYTES);
        file.compared(pieces, pieces);
        if file.kind == DraftKind::Compare {
            self.counters.bytes_kept.add(extent.length);
            let progress = file.count_done(chunk_count(extent.length));
            return self.end_file(file.clone(), progress);
        }
        let chunk = OpenChunk { file, extent, written_bytes: 0, attempt: 0, completes: true };
        // An earlier run may have left data in the new file.
        if file.kind == DraftKind::Update {
            self.zero(&chunk, extent, false)?;
        }
        self.complete(&chunk, &Values::new(), false)
    }
}
