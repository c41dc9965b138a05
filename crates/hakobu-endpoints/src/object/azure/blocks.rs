//! Objects in parts: Put Block, Put Block List and Get Block List.
//!
//! Azure has no uploads: blocks of a key wait until a list of them is stored, or for a week. The ID of an upload has the
//! properties that the object gets with the list.

use bytes::Bytes;
use hakobu_core::{ErrorKind, Result};
use http::Method;

use super::container::LIMITS;
use super::get::{INSPECTING, METADATA_PREFIX};
use super::put::{has_metadata, is_checked, version_of};
use super::request::{AzureFailure, AzureLane, AzureRequest};
use super::spelling::{block_id, of_block_id};
use crate::object::api::{
    CompleteUpload, ObjectHead, ObjectProperties, PartTag, PutPart, StoredObject, UploadId,
};
use crate::object::counts::RequestKind;
use crate::object::s3::xml::{XmlEvent, push_element, read_xml};

const SENDING: &str = "sending a part of";
const COMPLETING: &str = "completing the upload of";
const LISTING_PARTS: &str = "listing the parts of";
/// The beginning of the IDs of uploads.
const UPLOAD_MARK: &str = "hakobu-blocks-1";

/// Returns the ID of an upload: a line for each property.
pub(super) fn upload_id(properties: &ObjectProperties) -> UploadId {
    let mut id = UPLOAD_MARK.to_owned();
    let mut line = |name: &str, value: &str| id.extend(["\n", name, ":", value]);
    if let Some(content_type) = &properties.content_type {
        line("type", content_type);
    }
    if let Some(class) = &properties.storage_class {
        line("tier", class);
    }
    for (name, value) in &properties.metadata {
        line(&format!("{METADATA_PREFIX}{name}"), value);
    }
    UploadId(id)
}

/// Returns the properties in the ID of an upload; `None` if it is none of this kind.
fn of_upload_id(UploadId(id): &UploadId) -> Option<ObjectProperties> {
    let mut lines = id.split('\n');
    if lines.next() != Some(UPLOAD_MARK) {
        return None;
    }
    let mut properties = ObjectProperties::default();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        match (name, name.strip_prefix(METADATA_PREFIX)) {
            ("type", _) => properties.content_type = Some(value.to_owned()),
            ("tier", _) => properties.storage_class = Some(value.to_owned()),
            (_, Some(name)) => properties.metadata.push((name.to_owned(), value.to_owned())),
            _ => return None,
        }
    }
    Some(properties)
}

impl AzureLane {
    pub(super) async fn put_part(&self, part: PutPart<'_>) -> Result<PartTag> {
        let PutPart { key, upload: _, number, content, crc64 } = part;
        let size_bytes: u64 = content.iter().map(|piece| piece.len() as u64).sum();
        let sum = crc64.ok_or_else(|| self.error_of(ErrorKind::Usage, SENDING, key, "it has no checksum"))?;
        let id = block_id(number, sum);
        let request = AzureRequest::new(RequestKind::Put, Method::PUT, SENDING)
            .key(key)
            .query("blockid", id.as_str())
            .query("comp", "block")
            .crc64(crc64)?
            .content(content);
        let answer = self.perform(&request).await.map_err(|failure| self.error(&request, failure))?;
        let is_checked = is_checked(&answer.headers, crc64)
            .map_err(|cause| self.error_of(ErrorKind::Corrupt, SENDING, key, cause))?;
        Ok(PartTag { number, size_bytes, etag: id, crc64: is_checked.then_some(sum) })
    }

    pub(super) async fn list_parts(&self, key: &str) -> Result<Option<Vec<PartTag>>> {
        let request = AzureRequest::new(RequestKind::List, Method::GET, LISTING_PARTS)
            .key(key)
            .query("blocklisttype", "uncommitted")
            .query("comp", "blocklist");
        let answer = match self.perform(&request).await {
            Ok(answer) => answer,
            Err(AzureFailure::Refused { refusal, .. }) if refusal.is_missing_blob() => return Ok(None),
            Err(failure) => return Err(self.error(&request, failure)),
        };
        let wrong = |cause| self.error_of(ErrorKind::Protocol, LISTING_PARTS, key, cause);
        let parts = read_blocks(&answer.body).map_err(|error| error.at(self.container.location_of(key)))?;
        match parts.len() > LIMITS.parts_max as usize * 2 {
            true => Err(wrong("the store lists more parts than an object can have")),
            false => Ok(Some(parts)),
        }
    }

    pub(super) async fn complete_upload(&self, upload: CompleteUpload<'_>) -> Result<StoredObject> {
        let CompleteUpload { key, upload, parts, properties, crc64: _, condition } = upload;
        let begun = of_upload_id(upload);
        let wrong = || self.error_of(ErrorKind::Usage, COMPLETING, key, "the upload is none of Azure's");
        let properties = properties.cloned().or(begun).ok_or_else(wrong)?;
        let mut document = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>".to_owned();
        for part in parts {
            // A block is known by its content, so it does not matter if an earlier attempt has stored it already.
            push_element(&mut document, "Latest", &part.etag);
        }
        document.push_str("</BlockList>");
        let request = AzureRequest::new(RequestKind::Put, Method::PUT, COMPLETING)
            .key(key)
            .query("comp", "blocklist")
            .properties(&properties, &self.container.new_objects, false)?
            .condition(condition)?
            .content(vec![Bytes::from(document)]);
        let size_bytes: u64 = parts.iter().map(|part| part.size_bytes).sum();
        match self.perform(&request).await {
            Ok(answer) => Ok(StoredObject {
                version: version_of(&answer.headers),
                // The store has checked each block, and a list of other blocks is another list.
                is_checked: !parts.is_empty() && parts.iter().all(|part| part.crc64.is_some()),
            }),
            Err(AzureFailure::Refused { refusal, .. }) if refusal.is(&["InvalidBlockList"]) => {
                let cause = "the store does not have all parts any more; run the same command again";
                Err(self.error_of(ErrorKind::Corrupt, COMPLETING, key, cause))
            }
            Err(failure) => {
                let is_ours =
                    |head: &ObjectHead| head.size_bytes == size_bytes && has_metadata(head, &properties);
                self.own_success(&request, key, failure, is_ours).await
            }
        }
    }

    /// Checks that an object can be begun. The store learns of it with the first part.
    pub(super) fn begin_upload(&self, key: &str, properties: &ObjectProperties) -> Result<UploadId> {
        super::request::check_key(key, INSPECTING)?;
        Ok(upload_id(properties))
    }
}

/// Returns the blocks of a list that hakobu has sent, by number. Of several with one number, all are there.
fn read_blocks(document: &[u8]) -> Result<Vec<PartTag>> {
    let mut parts = Vec::new();
    let (mut name, mut size_bytes) = (String::new(), 0);
    read_xml(document, "BlockList", |event| {
        match event {
            XmlEvent::Close { name: "Name", text, .. } => name = text.to_owned(),
            XmlEvent::Close { name: "Size", text, .. } => size_bytes = text.trim().parse().unwrap_or(0),
            XmlEvent::Close { name: "Block", .. } => {
                if let Some((number, crc64)) = of_block_id(&name) {
                    parts.push(PartTag {
                        number,
                        size_bytes,
                        etag: std::mem::take(&mut name),
                        crc64: Some(crc64),
                    });
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    parts.sort_by_key(|part| part.number);
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_has_its_properties_in_its_id() {
        let properties = ObjectProperties {
            content_type: Some("text/plain; charset=utf-8".to_owned()),
            storage_class: Some("Cool".to_owned()),
            metadata: vec![
                ("mtime".to_owned(), "2026-01-02T03:04:05Z".to_owned()),
                ("type".to_owned(), String::new()),
            ],
        };
        assert_eq!(of_upload_id(&upload_id(&properties)), Some(properties));
        assert_eq!(of_upload_id(&upload_id(&ObjectProperties::default())), Some(ObjectProperties::default()));
        for other in ["", "hakobu-blocks-1\nnonsense", "hakobu-blocks-1\nother:x", "2~abc"] {
            assert_eq!(of_upload_id(&UploadId(other.to_owned())), None, "{other}");
        }
    }

    #[test]
    fn blocks_of_others_are_left_alone() {
        let block = |name: &str, size: &str| format!("<Block><Name>{name}</Name><Size>{size}</Size></Block>");
        let document = format!(
            "<BlockList><UncommittedBlocks>{}{}{}</UncommittedBlocks></BlockList>",
            block(&block_id(2, 7), "10"),
            block("AAAA", "3"),
            block(&block_id(1, 9), "20")
        );
        let parts = read_blocks(document.as_bytes()).unwrap();
        let told: Vec<_> = parts.iter().map(|part| (part.number, part.size_bytes, part.crc64)).collect();
        assert_eq!(told, [(1, 20, Some(9)), (2, 10, Some(7))]);
        assert_eq!(parts[0].etag, block_id(1, 9));
        assert!(read_blocks(b"<html></html>").is_err());
    }
}
