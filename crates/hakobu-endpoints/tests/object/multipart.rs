//! Objects in parts.

use hakobu_core::checksum::crc64;
use hakobu_core::extent::Extent;
use hakobu_core::{ErrorKind, Result};
use hakobu_endpoints::object::api::{
    CompleteUpload, CopyPart, CopySource, ObjectProperties, PartTag, PutCondition, PutPart, StoredChecksum,
    StoredObject, UploadId,
};
use hakobu_testkit::stores::StoreServer;

use super::{TestLane, noise};

const KEY: &str = "large/one two";
const PART: usize = 5 << 20;

impl TestLane {
    fn begin(&self) -> UploadId {
        let properties = ObjectProperties {
            metadata: vec![("mtime".to_owned(), "7".to_owned())],
            ..ObjectProperties::default()
        };
        self.runtime.run(self.api.begin_upload(KEY, &properties)).unwrap()
    }

    fn part(&self, upload: &UploadId, number: u32, content: &[u8], crc64: Option<u64>) -> Result<PartTag> {
        let content = vec![content.to_vec().into()];
        self.runtime.run(self.api.put_part(PutPart { key: KEY, upload, number, content, crc64 }))
    }

    fn complete(&self, upload: &UploadId, parts: &[PartTag], crc64: Option<u64>) -> Result<StoredObject> {
        let condition = &PutCondition::IfAbsent;
        self.runtime.run(self.api.complete_upload(CompleteUpload {
            key: KEY,
            upload,
            parts,
            properties: None,
            crc64,
            condition,
        }))
    }
}

#[test]
fn parts_become_one_object_that_was_checked() {
    for (server, checks) in [(StoreServer::versitygw().unwrap(), true), (StoreServer::moto().unwrap(), false)]
    {
        let lane = TestLane::of(&server);
        let content = noise(PART + 1000);
        let (one, two) = content.split_at(PART);
        let upload = lane.begin();
        let second = lane.part(&upload, 2, two, Some(crc64(two))).unwrap();
        // One that is replaced.
        lane.part(&upload, 1, &noise(PART + 1), None).unwrap();
        let first = lane.part(&upload, 1, one, Some(crc64(one))).unwrap();
        let listed = lane.runtime.run(lane.api.list_parts(KEY, &upload)).unwrap().unwrap();
        let sizes: Vec<_> = listed.iter().map(|part| (part.number, part.size_bytes)).collect();
        assert_eq!(sizes, [(1, PART as u64), (2, 1000)]);
        if checks {
            assert_eq!(listed, [first.clone(), second.clone()]);
            let wrong = lane.complete(&upload, &[first.clone(), second.clone()], Some(1)).unwrap_err();
            assert_eq!(wrong.kind, ErrorKind::Corrupt, "{wrong}");
        }
        assert_eq!(lane.keys("", 10), [""; 0], "not before it is complete");
        let stored = lane.complete(&upload, &[first, second], Some(crc64(&content))).unwrap();
        assert_eq!(stored.is_checked, checks);
        assert_eq!(lane.get(KEY, None).unwrap(), content);
        let head = lane.runtime.run(lane.api.head(KEY)).unwrap().unwrap();
        assert_eq!(head.metadata, [("mtime".to_owned(), "7".to_owned())]);
        assert_eq!(head.version, stored.version);
        if checks {
            assert_eq!(head.checksum, Some(StoredChecksum::Crc64(crc64(&content))));
        }
    }
}

#[test]
fn a_damaged_part_is_refused() {
    let server = StoreServer::versitygw().unwrap();
    let lane = TestLane::of(&server);
    let upload = lane.begin();
    assert_eq!(lane.part(&upload, 1, b"content", Some(1)).unwrap_err().kind, ErrorKind::Corrupt);
}

#[test]
fn uploads_are_listed_and_aborted() {
    for (server, is_exact) in
        [(StoreServer::versitygw().unwrap(), true), (StoreServer::moto().unwrap(), false)]
    {
        let lane = TestLane::of(&server);
        let (one, two) = (lane.begin(), lane.begin());
        lane.part(&one, 1, b"x", None).unwrap();
        let list = |prefix| lane.runtime.run(lane.api.list_uploads(prefix)).unwrap();
        let mut listed: Vec<_> =
            list("large/").into_iter().map(|upload| (upload.key, upload.upload.0)).collect();
        listed.sort();
        let mut begun: Vec<_> = [&one, &two].map(|upload| (KEY.to_owned(), upload.0.clone())).to_vec();
        begun.sort();
        assert_eq!(listed, begun);
        assert_eq!(list("other/"), []);
        for upload in [&one, &two, &one] {
            lane.runtime.run(lane.api.abort_upload(KEY, upload)).unwrap();
        }
        assert_eq!(list(""), []);
        assert_eq!(lane.runtime.run(lane.api.list_parts(KEY, &one)).unwrap(), None);
        // The other one fails inside.
        if is_exact {
            assert_eq!(lane.part(&one, 1, b"x", None).unwrap_err().kind, ErrorKind::SourceVanished);
        }
    }
}

#[test]
fn parts_are_copied_from_other_objects() {
    for server in [StoreServer::versitygw().unwrap(), StoreServer::moto().unwrap()] {
        let lane = TestLane::of(&server);
        let content = noise(PART + 10);
        lane.put("source", &content).unwrap();
        let upload = lane.begin();
        let copy = |number, offset, length| {
            let source = CopySource { bucket: None, key: "source", version: None, unmodified_since: None };
            let range = Extent { offset, length };
            lane.runtime.run(lane.api.copy_part(CopyPart {
                source,
                range,
                key: KEY,
                upload: &upload,
                number,
            }))
        };
        let parts = [copy(1, 10, PART as u64).unwrap(), copy(2, 0, 10).unwrap()];
        let expected = [&content[10..], &content[..10]].concat();
        lane.complete(&upload, &parts, None).unwrap();
        assert_eq!(lane.get(KEY, None).unwrap(), expected);
    }
}
