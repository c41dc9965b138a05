//! Objects in parts.

use hakobu_core::checksum::crc64;
use hakobu_core::{ErrorKind, Result};
use hakobu_endpoints::object::api::{
    CompleteUpload, ObjectProperties, PartTag, PutCondition, PutPart, StoredObject, UploadId,
};

use super::super::noise;
use super::{AzureTestLane, azurite};

const KEY: &str = "large object";

impl AzureTestLane {
    fn begin(&self) -> UploadId {
        let metadata = vec![("k".to_owned(), "begun".to_owned())];
        let properties =
            ObjectProperties { content_type: Some("text/plain".to_owned()), metadata, storage_class: None };
        self.runtime.run(self.api.begin_upload(KEY, &properties)).unwrap()
    }

    fn part(&self, upload: &UploadId, number: u32, content: &[u8], sum: u64) -> Result<PartTag> {
        let content = vec![content.to_vec().into()];
        self.runtime.run(self.api.put_part(PutPart { key: KEY, upload, number, content, crc64: Some(sum) }))
    }

    fn complete(
        &self,
        upload: &UploadId,
        parts: &[PartTag],
        properties: Option<&ObjectProperties>,
    ) -> Result<StoredObject> {
        let (key, crc64, condition) = (KEY, None, &PutCondition::None);
        self.runtime.run(self.api.complete_upload(CompleteUpload {
            key,
            upload,
            parts,
            properties,
            crc64,
            condition,
        }))
    }
}

#[test]
fn parts_become_one_object_with_the_properties_of_its_end() {
    let server = azurite();
    let lane = AzureTestLane::of(&server);
    let content = noise(300_000);
    let upload = lane.begin();
    let parts: Vec<PartTag> = [(2, &content[100_000..]), (1, &content[..100_000])]
        .into_iter()
        .map(|(number, some)| lane.part(&upload, number, some, crc64(some)).unwrap())
        .collect();
    assert!(parts.iter().all(|part| part.crc64.is_some()), "each was checked");
    let listed = lane.runtime.run(lane.api.list_parts(KEY, &upload)).unwrap().unwrap();
    let in_order = [parts[1].clone(), parts[0].clone()];
    assert_eq!(listed, in_order);
    let stored = lane.complete(&upload, &in_order, None).unwrap();
    assert!(stored.is_checked);
    assert_eq!(lane.get(KEY, None).unwrap(), content);
    let head = lane.runtime.run(lane.api.head(KEY)).unwrap().unwrap();
    assert_eq!(head.metadata, [("k".to_owned(), "begun".to_owned())]);
    assert_eq!(head.content_type.as_deref(), Some("text/plain"));
    // Once more, with the same blocks and what is known at the end.
    let metadata = vec![("k".to_owned(), "ended".to_owned())];
    let properties = ObjectProperties { metadata, ..ObjectProperties::default() };
    lane.complete(&upload, &in_order, Some(&properties)).unwrap();
    let head = lane.runtime.run(lane.api.head(KEY)).unwrap().unwrap();
    assert_eq!(head.metadata, [("k".to_owned(), "ended".to_owned())]);
    assert_eq!(lane.get(KEY, None).unwrap(), content);
}

#[test]
fn a_part_with_another_checksum_is_refused() {
    let server = azurite();
    let lane = AzureTestLane::of(&server);
    let upload = lane.begin();
    let error = lane.part(&upload, 1, b"content", 7).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    assert_eq!(lane.runtime.run(lane.api.list_parts(KEY, &upload)).unwrap(), None);
}

#[test]
fn parts_that_are_gone_are_not_taken_for_the_object() {
    let server = azurite();
    let lane = AzureTestLane::of(&server);
    let upload = lane.begin();
    let part = lane.part(&upload, 1, b"content", crc64(b"content")).unwrap();
    let gone = lane.part(&upload, 2, b"more", crc64(b"more")).unwrap();
    let gone = PartTag { etag: gone.etag.replace('A', "B"), ..gone };
    let error = lane.complete(&upload, &[part, gone], None).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    assert_eq!(lane.runtime.run(lane.api.head(KEY)).unwrap(), None);
}
