//! Copies inside the store: no byte of content comes here.

use std::sync::atomic::Ordering::Relaxed;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;
use hakobu_core::endpoint::{DraftId, TargetOutcome};
use hakobu_core::extent::Extent;
use hakobu_core::handle::SharedFile;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::lane::ObjectWriter;
use super::parts::COPIED_PART_BYTES;
use super::placed;
use crate::object::api::{
    CompleteUpload, CopyObject, CopyPart, CopySource, ObjectProperties, PartTag, PutCondition, PutObject,
    StoreLimits, UploadId,
};
use crate::object::copy_place::{OpenedObject, SeenObject};

const COPYING: &str = "copying the object inside the store";
/// The maximum number of parts that one lane has the store copy at a time.
const PARTS_AT_ONCE: usize = 16;

impl ObjectWriter {
    /// Copies objects into a directory, with everything that the store keeps of them.
    pub(super) async fn copy_in_store(
        &self,
        directory: &EntryPath,
        copies: &[(Vec<u8>, SharedFile)],
    ) -> Result<TargetOutcome> {
        let copy = |(name, from): &(Vec<u8>, SharedFile)| {
            let (path, from) = (directory.join(name), from.clone());
            async move {
                let path = path?;
                let copied = async { self.copy(&self.key_to_write(&path)?, opened(&from)?).await };
                copied.await.map_err(|error| placed(may_be_streamed(error), &path))
            }
        };
        // A store that refuses one copy is not asked for the others.
        let mut copied = Vec::with_capacity(copies.len());
        while !self.has_copied.load(Relaxed)
            && let Some(next) = copies.get(copied.len())
        {
            let first = copy(next).await;
            if let Err(error) = &first
                && error.kind == ErrorKind::Unsupported
            {
                copied.resize(copies.len(), first);
                break;
            }
            self.has_copied.fetch_or(first.is_ok(), Relaxed);
            copied.push(first);
        }
        let rest = copies.get(copied.len()..).unwrap_or_default();
        copied.extend(join_all(rest.iter().map(copy)).await);
        let mut failures = Vec::new();
        for (index, copied) in (0..).zip(copied) {
            match copied {
                Ok(()) => {}
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => failures.push((index, error)),
            }
        }
        Ok(TargetOutcome::PackWritten { failures, losses: Vec::new() })
    }

    /// Copies a large object in place of a draft. It is visible afterwards, because it is complete.
    pub(super) async fn copy_draft(&self, id: DraftId, from: &SharedFile) -> Result<TargetOutcome> {
        let draft = self.drafts.find(id)?;
        let copied = async {
            let from = opened(from)?;
            match draft.size_bytes() <= self.api.limits().copy_bytes_max {
                true => self.copy(&draft.key, from).await,
                false => match &from.seen {
                    SeenObject::Head(head) => {
                        let properties = ObjectProperties {
                            content_type: head.content_type.clone(),
                            metadata: head.metadata.clone(),
                            storage_class: None,
                        };
                        let (bucket, version) = (Some(&*from.bucket), Some(&head.version));
                        let source = CopySource { bucket, key: &from.key, version, unmodified_since: None };
                        self.copy_in_parts(&draft.key, (source, head.size_bytes), &properties).await
                    }
                    SeenObject::Listed(_) => {
                        Err(Error::new(ErrorKind::Unsupported, COPYING, "its version is not known"))
                    }
                },
            }
        };
        copied.await.map_err(|error| placed(may_be_streamed(error), &draft.path))?;
        draft.set_copied();
        Ok(TargetOutcome::Done)
    }

    async fn copy(&self, key: &str, from: &OpenedObject) -> Result<()> {
        let (version, unmodified_since) = match &from.seen {
            SeenObject::Head(head) => (Some(&head.version), None),
            SeenObject::Listed(uploaded) => (None, Some(*uploaded)),
        };
        let source = CopySource { bucket: Some(&from.bucket), key: &from.key, version, unmodified_since };
        let condition = PutCondition::None;
        self.api
            .copy(CopyObject { source, key, properties: None, condition: &condition, renews: None })
            .await
            .map(drop)
    }

    /// Copies an object as a new one, which is too large for one request or that no other request makes.
    pub(super) async fn copy_in_parts(
        &self,
        key: &str,
        (source, size_bytes): (CopySource<'_>, u64),
        properties: &ObjectProperties,
    ) -> Result<()> {
        if size_bytes == 0 {
            let condition = &PutCondition::None;
            let put = PutObject { key, content: Vec::new(), properties, condition, crc64: Some(0) };
            return self.api.put(put).await.map(drop);
        }
        let upload = self.api.begin_upload(key, properties).await?;
        let copied = self.copy_parts(key, &upload, (source, size_bytes), properties).await;
        if copied.is_err() {
            // The error at hand says more than another one.
            drop(self.api.abort_upload(key, &upload).await);
        }
        copied
    }

    async fn copy_parts(
        &self,
        key: &str,
        upload: &UploadId,
        (source, size_bytes): (CopySource<'_>, u64),
        properties: &ObjectProperties,
    ) -> Result<()> {
        let part = |(number, range): (u32, Extent)| {
            self.api.copy_part(CopyPart { source, range, key, upload, number })
        };
        let parts = part_ranges(size_bytes, self.api.limits());
        let mut copied = stream::iter(parts.map(part)).buffered(PARTS_AT_ONCE);
        let mut tags: Vec<PartTag> = Vec::new();
        while let Some(tag) = copied.next().await {
            tags.push(tag?);
        }
        drop(copied);
        let condition = &PutCondition::None;
        let properties = Some(properties);
        let complete = CompleteUpload { key, upload, parts: &tags, properties, crc64: None, condition };
        self.api.complete_upload(complete).await.map(drop)
    }
}

fn opened(from: &SharedFile) -> Result<&OpenedObject> {
    let words = "the source is not in this store";
    from.file().ok_or_else(|| Error::new(ErrorKind::Unsupported, COPYING, words))
}

/// Returns an error as one after which the content is read and written instead. The store may refuse copies that the
/// source's credentials allow to read.
fn may_be_streamed(error: Error) -> Error {
    match error.kind {
        ErrorKind::PermissionDenied | ErrorKind::NotFound | ErrorKind::Protocol => {
            Error { kind: ErrorKind::Unsupported, ..error }
        }
        _ => error,
    }
}

/// Returns the numbers and ranges of the parts of a large object.
fn part_ranges(size_bytes: u64, limits: &StoreLimits) -> impl Iterator<Item = (u32, Extent)> {
    let part_bytes =
        size_bytes.div_ceil(u64::from(limits.parts_max)).max(COPIED_PART_BYTES).min(limits.part_bytes_max);
    (1..)
        .zip((0..size_bytes).step_by(usize::try_from(part_bytes).unwrap_or(usize::MAX)))
        .map(move |(number, offset)| (number, Extent { offset, length: part_bytes.min(size_bytes - offset) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::s3::LIMITS;

    #[test]
    fn parts_cover_an_object_once() {
        let limits = LIMITS;
        for size_bytes in
            [1, COPIED_PART_BYTES, COPIED_PART_BYTES + 1, (5 << 30) + 7, 5 << 40, limits.object_bytes_max]
        {
            let parts: Vec<_> = part_ranges(size_bytes, &limits).collect();
            let mut end = 0;
            for (index, (number, range)) in parts.iter().enumerate() {
                assert_eq!((*number as usize, range.offset), (index + 1, end));
                assert!(range.length <= limits.part_bytes_max);
                end = range.end();
            }
            assert_eq!(end, size_bytes);
            assert!(parts.len() <= limits.parts_max as usize, "{size_bytes}: {}", parts.len());
        }
    }
}
