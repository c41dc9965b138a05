//! Holes that both sides have: equal without reading either.

use super::chunks::{Chunk, HOLES_WITHOUT_DIGEST_BYTES, Values};
use super::*;
use crate::extent::chunk_count;

impl Worker<'_> {
    /// Passes over a chunk that lies in a hole on both sides, and over as much behind it as does and nobody has taken.
    /// `Some(false)`: the chunk is to be compared. `None`: the run was stopped.
    pub(super) fn skip_holes_of_both(
        &mut self,
        file: &Arc<LargeFile>,
        chunk: Extent,
    ) -> Result<Option<bool>> {
        let metadata = &file.source.metadata;
        if !metadata.sparse || metadata.kind != Kind::File || file.has_failed() {
            return Ok(Some(false));
        }
        let rest = Extent { offset: chunk.offset, length: file.size_bytes() - chunk.offset };
        let find = SourceOp::FindHole { file: file.source.clone(), extent: rest };
        let Ok(SourceOutcome::HoleUntil(end)) = self.ask_source(find) else { return Ok(Some(false)) };
        // What lies in a hole is known by its digest as well, where that is to be had, as long as that is soon done.
        let hashes = self.takes_digest(file) && !file.is_compared_by_tags();
        let is_short = || end - chunk.offset < HOLES_WITHOUT_DIGEST_BYTES;
        if end < chunk.end() || hashes && is_short() && file.hole(chunk.length) < HOLES_WITHOUT_DIGEST_BYTES {
            return Ok(Some(false));
        }
        let ours = Extent { length: end - chunk.offset, ..rest };
        let ticket = self.submit(TargetOp::Hole { draft: file.draft, extent: ours }, Pending::Told)?;
        let Some(told) = self.told(ticket)? else { return Ok(None) };
        // One that cannot tell is compared.
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
        let chunk = Chunk { file, extent, written_bytes: 0, attempt: 0, completes: true };
        // A new file in which an earlier run has left something.
        if file.kind == DraftKind::Update {
            self.zero(&chunk, extent, false)?;
        }
        self.complete(&chunk, &Values::new(), false)
    }
}
