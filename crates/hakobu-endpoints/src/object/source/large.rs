//! Ranges of large objects: one request brings a run of chunks, which are passed on piece by piece.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt;
use hakobu_core::endpoint::{PieceBuffer, SourceFile, SourceOutcome};
use hakobu_core::extended::ExtendedAsk;
use hakobu_core::extent::{CHUNK_BYTES, Extent};
use hakobu_core::{Error, ErrorKind, Result};

use super::lane::ObjectReader;
use crate::local::errno::{changed, vanished};
use crate::object::api::{BodyStream, ObjectHead, ObjectVersion, StoreLimits};
use crate::object::entry::described;

/// The bytes that one request for a large object asks for.
pub(crate) const RANGE_BYTES: u64 = 4 * CHUNK_BYTES;

/// The versions of the objects that are being read in ranges, by root and path. All ranges are of one version.
#[derive(Default)]
pub(super) struct PinnedVersions(Mutex<HashMap<(u16, Vec<u8>), ObjectVersion>>);

impl PinnedVersions {
    fn get(&self, file: &SourceFile) -> Option<ObjectVersion> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key(file)).cloned()
    }

    /// Pins the version of an object that was found, unless another one is pinned.
    ///
    /// # Errors
    /// `SourceChanged` if it is another one, or not the object that was listed.
    pub(super) fn pin(&self, limits: &StoreLimits, file: &SourceFile, head: &ObjectHead) -> Result<()> {
        // Two objects of one second differ in the time that their metadata has, if listings show that.
        let has_listed_time =
            !limits.lists_metadata || described(limits, head, false).metadata.mtime == file.metadata.mtime;
        // Listings may have fractions of a second that answers lack.
        let (now, listed) = (head.uploaded, file.metadata.ctime);
        let is_listed = head.size_bytes == file.metadata.size_bytes
            && (now == listed || now.nanoseconds == 0 && now.seconds == listed.seconds)
            && has_listed_time;
        if !is_listed {
            return Err(changed("reading"));
        }
        let mut pinned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match pinned.entry(key(file)).or_insert_with(|| head.version.clone()) == &head.version {
            true => Ok(()),
            false => Err(changed("reading")),
        }
    }

    fn forget(&self, file: &SourceFile) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(file));
    }
}

fn key(file: &SourceFile) -> (u16, Vec<u8>) {
    (file.root, file.path.as_bytes().to_vec())
}

/// A range of an object that arrives.
pub(super) struct OpenRange {
    file: Arc<SourceFile>,
    /// The offset in the object of the next byte.
    offset: u64,
    end: u64,
    /// Bytes that have arrived and were not taken.
    rest: Bytes,
    chunks: BodyStream,
}

impl ObjectReader {
    /// Reads one piece. Pieces that follow each other come from one request.
    pub(super) async fn read(
        &self,
        file: &Arc<SourceFile>,
        extent: Extent,
        mut buffer: PieceBuffer,
    ) -> Result<SourceOutcome> {
        let mut open = self.open.lock().await;
        let follows = open.as_ref().is_some_and(|range| {
            Arc::ptr_eq(&range.file, file) && range.offset == extent.offset && range.end >= extent.end()
        });
        if !follows {
            *open = None;
            *open = Some(self.open_range(file, extent).await?);
        }
        let Some(range) = open.as_mut() else { return Err(changed("reading")) };
        let filled = range.fill(extent, &mut buffer).await;
        if filled.is_err() || range.offset == range.end {
            *open = None;
        }
        filled.map(|()| SourceOutcome::Read(buffer))
    }

    async fn open_range(&self, file: &Arc<SourceFile>, extent: Extent) -> Result<OpenRange> {
        let key = self.root(file.root)?.key(&file.path)?;
        let end = (extent.offset + 1).next_multiple_of(RANGE_BYTES).max(extent.end());
        let range =
            Extent { offset: extent.offset, length: end.min(file.metadata.size_bytes) - extent.offset };
        let pinned = self.versions.get(file);
        let body = self.api.get(&key, Some(range), pinned.as_ref()).await?;
        self.versions.pin(self.api.limits(), file, &body.head)?;
        let (offset, end) = (range.offset, range.end());
        Ok(OpenRange { file: Arc::clone(file), offset, end, rest: Bytes::new(), chunks: body.chunks })
    }

    /// Checks that an object is still the version that was read, and returns its extended attributes.
    pub(super) async fn revalidate(&self, file: &Arc<SourceFile>, ask: ExtendedAsk) -> Result<SourceOutcome> {
        let key = self.root(file.root)?.key(&file.path)?;
        let head = self.api.head(&key).await?;
        let head = head.ok_or_else(|| vanished("reading"))?;
        let is_same = self.versions.pin(self.api.limits(), file, &head);
        self.versions.forget(file);
        is_same?;
        let entry = described(self.api.limits(), &head, false);
        self.extended((file.root, &file.path), (&key, &entry.extended), ask).await
    }
}

impl OpenRange {
    /// Fills a buffer with the next piece.
    async fn fill(&mut self, extent: Extent, buffer: &mut PieceBuffer) -> Result<()> {
        let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
        let Some(room) = buffer.room().get_mut(..length) else {
            return Err(Error::new(ErrorKind::Usage, "reading", "more than one piece"));
        };
        let mut filled = 0;
        while filled < length {
            if self.rest.is_empty() {
                self.rest = self.chunks.next().await.ok_or_else(|| changed("reading"))??;
                continue;
            }
            let some = self.rest.split_to(self.rest.len().min(length - filled));
            room[filled..filled + some.len()].copy_from_slice(&some);
            filled += some.len();
        }
        self.offset += extent.length;
        buffer.set_read(extent.offset, length);
        Ok(())
    }
}
