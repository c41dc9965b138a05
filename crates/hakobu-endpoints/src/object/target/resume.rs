//! Goes on with an upload that an earlier run has begun.

use std::collections::BTreeMap;
use std::path::Path;

use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{DraftKind, DraftParameters, Earlier, EarlierWork};
use hakobu_core::extent::{CHUNK_BYTES, Extent};
use hakobu_core::{Error, ErrorKind, Result};

use super::draft::ObjectDraft;
use super::draft_journal::OpenJournal;
use super::lane::ObjectWriter;
use super::parts::PartPlan;
use crate::local::journal::{Chunks, told};
use crate::object::api::PartTag;
use crate::object::upload_journal::{EarlierUpload, JournaledPart, UploadJournal, UploadSubject};

impl ObjectDraft {
    /// Records that a chunk is complete, and with it perhaps the part that it is in.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub(super) fn completed(&self, extent: Extent, value: Option<Digest>, kept: bool) -> Result<()> {
        let mut open = self.journal.open();
        let Some(open) = open.as_mut() else { return Ok(()) };
        for offset in (extent.offset..extent.end()).step_by(CHUNK_BYTES as usize) {
            open.chunks.insert(offset, kept.then_some(value));
        }
        let (number, _) = self.plan.part(extent.offset);
        let Some((tag, part, crc64)) = self.stored_part(number) else {
            return Ok(());
        };
        let chunks = || (part.offset..part.end()).step_by(CHUNK_BYTES as usize);
        let Some(values) = chunks().map(|offset| open.chunks.get(&offset).copied().flatten()).collect()
        else {
            return Ok(());
        };
        open.chunks.retain(|offset, _| *offset < part.offset || *offset >= part.end());
        let values: Vec<Option<Digest>> = values;
        let values = values.into_iter().collect::<Option<Vec<Digest>>>().unwrap_or_default();
        open.journal.add(&JournaledPart { tag, extent: part, crc64, values })
    }
}

impl ObjectWriter {
    /// Opens the journal of a draft, and takes over the parts that the store still has. Returns `None` if the draft has
    /// no journal.
    ///
    /// # Errors
    /// `SourceChanged` if that was asked for, and the upload is of another version.
    pub(super) async fn resume(
        &self,
        draft: &ObjectDraft,
        begin: &DraftParameters,
    ) -> Result<Option<EarlierWork>> {
        let (Some(folder), Some(version)) = (&self.journals, begin.version) else { return Ok(None) };
        let PartPlan::Equal(part_bytes) = draft.plan else { return Ok(None) };
        if begin.kind != DraftKind::File || begin.size_bytes <= part_bytes {
            return Ok(None);
        }
        let subject = UploadSubject {
            location: format!("{} {}", self.bucket, draft.key),
            version,
            size_bytes: begin.size_bytes,
            part_bytes,
        };
        let Some((journal, earlier)) = open_journal(folder, &subject)? else { return Ok(None) };
        let (upload, parts) = match earlier {
            EarlierUpload::None => (None, Vec::new()),
            EarlierUpload::Other { of_version: true, .. } if begin.earlier == Earlier::Refuse => {
                let words =
                    "it has changed since an earlier run began to copy it; run the command with --restart";
                return Err(Error::new(ErrorKind::SourceChanged, "beginning an object", words));
            }
            EarlierUpload::Other { upload, .. } => {
                self.api.abort_upload(&draft.key, &upload).await?;
                (None, Vec::new())
            }
            EarlierUpload::Same { upload, .. } if begin.earlier == Earlier::Forget => {
                self.api.abort_upload(&draft.key, &upload).await?;
                (None, Vec::new())
            }
            EarlierUpload::Same { upload, parts } => match self.api.list_parts(&draft.key, &upload).await? {
                Some(listed) => {
                    (Some(upload), parts.into_iter().filter(|part| is_there(part, &listed)).collect())
                }
                None => (None, Vec::new()),
            },
        };
        let has_upload = upload.is_some();
        if let Some(upload) = upload {
            // Only this lane has the draft so far.
            let _new = draft.upload.set(upload);
        }
        let mut chunks = Chunks::new();
        for part in parts {
            if !part.extent.length.is_multiple_of(CHUNK_BYTES) {
                // The last one is sent again, because an incomplete chunk has no value.
                continue;
            }
            for (index, offset) in
                (part.extent.offset..part.extent.end()).step_by(CHUNK_BYTES as usize).enumerate()
            {
                chunks.insert(offset, part.values.get(index).copied());
            }
            draft.resumed(part.tag, part.extent, part.crc64);
        }
        let open = OpenJournal { journal, subject, has_upload, chunks: BTreeMap::new() };
        *draft.journal.open() = Some(open);
        Ok(Some(told(begin.size_bytes, &chunks)))
    }
}

fn open_journal(folder: &Path, subject: &UploadSubject) -> Result<Option<(UploadJournal, EarlierUpload)>> {
    std::fs::create_dir_all(folder).map_err(|error| {
        Error::io("making the folder of journals", &error).at(folder.as_os_str().as_encoded_bytes())
    })?;
    UploadJournal::open(folder, subject)
}

/// Returns true if the store still has a part as it was journaled.
fn is_there(part: &JournaledPart, listed: &[PartTag]) -> bool {
    listed.iter().any(|there| {
        there.number == part.tag.number
            && there.size_bytes == part.extent.length
            && there.crc64.is_none_or(|crc64| crc64 == part.crc64)
            && (there.etag.is_empty() || there.etag == part.tag.etag)
    })
}
