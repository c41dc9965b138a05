//! Objects in parts: at a server that knows none, and as Google's servers have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hakobu_core::{ErrorKind, Result};
use hakobu_endpoints::object::api::{
    CompleteUpload, ListStart, ObjectProperties, PartTag, PutCondition, PutPart, StoredChecksum,
    StoredObject, UploadId,
};
use hakobu_testkit::http::{ScriptedAnswer, ScriptedServer};
use hakobu_testkit::stores::StoreServer;

use super::{behind, of};
use crate::{BUCKET, TestLane, noise};

const KEY: &str = "large/one two";
/// The least size of a part that is not the last.
const PART: usize = 5 << 20;

fn begin(lane: &TestLane) -> UploadId {
    let properties = ObjectProperties {
        metadata: vec![("mtime".to_owned(), "7".to_owned())],
        content_type: Some("x/y".to_owned()),
        storage_class: None,
    };
    lane.runtime.run(lane.api.begin_upload(KEY, &properties)).unwrap()
}

fn part(lane: &TestLane, upload: &UploadId, number: u32, content: &[u8]) -> Result<PartTag> {
    let content = vec![content.to_vec().into()];
    lane.runtime.run(lane.api.put_part(PutPart { key: KEY, upload, number, content, crc64: None }))
}

fn complete(
    lane: &TestLane,
    upload: &UploadId,
    parts: &[PartTag],
    condition: &PutCondition,
) -> Result<StoredObject> {
    lane.runtime.run(lane.api.complete_upload(CompleteUpload {
        key: KEY,
        upload,
        parts,
        properties: None,
        crc64: None,
        condition,
    }))
}

#[test]
fn parts_that_are_objects_become_one_and_are_gone() {
    let server = StoreServer::fake_gcs().unwrap();
    let lane = of(&server);
    // More than one request can put together, and more than 32 of those.
    let pieces: Vec<Vec<u8>> = (0..1100_usize).map(|index| index.to_string().into_bytes()).collect();
    let upload = begin(&lane);
    part(&lane, &upload, 5, b"one that is replaced").unwrap();
    let parts: Vec<PartTag> =
        (1..).zip(&pieces).map(|(number, piece)| part(&lane, &upload, number, piece).unwrap()).collect();
    assert_eq!(lane.runtime.run(lane.api.list_parts(KEY, &upload)).unwrap().unwrap(), parts);
    assert!(lane.keys("", 1000).is_empty(), "listings leave parts out");
    let unfinished = lane.runtime.run(lane.api.list_uploads("large/")).unwrap();
    assert_eq!((unfinished.len(), &unfinished[0].key[..], &unfinished[0].upload), (1, KEY, &upload));
    assert!(lane.runtime.run(lane.api.list_uploads("other/")).unwrap().is_empty());
    let stored = complete(&lane, &upload, &parts, &PutCondition::IfAbsent).unwrap();
    assert!(stored.is_checked);
    assert_eq!(lane.get(KEY, None).unwrap(), pieces.concat());
    let head = lane.runtime.run(lane.api.head(KEY)).unwrap().unwrap();
    assert_eq!(
        (head.metadata, head.content_type.as_deref()),
        (vec![("mtime".to_owned(), "7".to_owned())], Some("x/y"))
    );
    assert!(matches!(head.checksum, Some(StoredChecksum::Crc32c(_))));
    assert!(lane.runtime.run(lane.api.list_uploads("")).unwrap().is_empty());
    assert_eq!(lane.runtime.run(lane.api.list_parts(KEY, &upload)).unwrap(), None);
    assert_eq!(
        complete(&lane, &upload, &parts, &PutCondition::None).unwrap_err().kind,
        ErrorKind::SourceVanished
    );
    // An upload that is given up leaves nothing.
    let upload = begin(&lane);
    part(&lane, &upload, 1, b"x").unwrap();
    lane.runtime.run(lane.api.abort_upload(KEY, &upload)).unwrap();
    assert!(lane.runtime.run(lane.api.list_uploads("")).unwrap().is_empty());
    lane.runtime.run(lane.api.abort_upload(KEY, &upload)).unwrap();
}

#[test]
fn nothing_else_gets_the_name_of_a_part() {
    let server = StoreServer::fake_gcs().unwrap();
    let lane = of(&server);
    let key = format!(".hakobu.parts/{}/00001", "0".repeat(32));
    assert_eq!(lane.put(&key, b"x").unwrap_err().kind, ErrorKind::Unsupported);
    lane.put(".hakobu.parts/mine", b"x").unwrap();
    assert_eq!(lane.keys("", 1000), [".hakobu.parts/mine"]);
}

/// Another server with uploads as S3 and Google have them answers. It knows no checksums of Google's.
#[test]
fn parts_go_as_to_googles_servers() {
    let store = StoreServer::moto().unwrap();
    store.make_bucket(BUCKET).unwrap();
    let server = ScriptedServer::start(Some(store.port()), |_| ScriptedAnswer::Forward).unwrap();
    let lane = behind(&server);
    let content = noise(PART + 1000);
    let (one, two) = content.split_at(PART);
    let upload = begin(&lane);
    let second = part(&lane, &upload, 2, two).unwrap();
    let first = part(&lane, &upload, 1, one).unwrap();
    let listed = lane.runtime.run(lane.api.list_parts(KEY, &upload)).unwrap().unwrap();
    assert_eq!(listed.iter().map(|part| &part.etag).collect::<Vec<_>>(), [&first.etag, &second.etag]);
    let stored = complete(&lane, &upload, &[first, second], &PutCondition::None).unwrap();
    assert!(!stored.is_checked, "the server returns no checksum");
    assert_eq!(lane.get(KEY, None).unwrap(), content);
    let requests = server.requests();
    let begun = &requests[0];
    assert_eq!((&begun.method[..], &begun.target[..]), ("POST", "/bucket/large/one%20two?uploads"));
    assert_eq!((begun.header("x-goog-meta-mtime"), begun.header("content-type")), (Some("7"), Some("x/y")));
    let sent = requests.iter().find(|request| request.target.contains("partNumber=2")).unwrap();
    let hash = sent.header("x-goog-hash").map(str::to_owned);
    assert!(hash.as_ref().is_some_and(|hash| hash.starts_with("crc32c=")), "{:?}", sent.headers);
    let upload = begin(&lane);
    part(&lane, &upload, 1, b"x").unwrap();
    lane.runtime.run(lane.api.abort_upload(KEY, &upload)).unwrap();
    assert_eq!(lane.runtime.run(lane.api.list_parts(KEY, &upload)).unwrap(), None);
}

#[test]
fn an_upload_that_is_gone_is_noticed() {
    let server = ScriptedServer::start(None, |_| {
        ScriptedAnswer::with(404, &[], "<Error><Code>NoSuchUpload</Code></Error>")
    })
    .unwrap();
    let lane = behind(&server);
    let upload = UploadId("gone".to_owned());
    assert_eq!(part(&lane, &upload, 1, b"x").unwrap_err().kind, ErrorKind::SourceVanished);
    assert_eq!(lane.runtime.run(lane.api.list_parts(KEY, &upload)).unwrap(), None);
    lane.runtime.run(lane.api.abort_upload(KEY, &upload)).unwrap();
}

#[test]
fn the_checksum_of_the_whole_is_compared() {
    // The checksum of 123456789, which is sent in two parts.
    for (sum, is_right) in [("4waSgw==", true), ("AAAAAA==", false)] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let server = ScriptedServer::start(None, move |request| {
            counted.fetch_add(1, Ordering::Relaxed);
            if request.target.ends_with("?uploads") {
                let body =
                    "<InitiateMultipartUploadResult><UploadId>id</UploadId></InitiateMultipartUploadResult>";
                return ScriptedAnswer::with(200, &[], body);
            }
            if request.method == "PUT" {
                return ScriptedAnswer::with(200, &["ETag: \"e\""], "");
            }
            let hash = format!("x-goog-hash: crc32c={sum}");
            let headers = [hash.as_str(), "x-goog-generation: 5"];
            ScriptedAnswer::with(200, &headers, "<CompleteMultipartUploadResult/>")
        })
        .unwrap();
        let lane = behind(&server);
        let upload = begin(&lane);
        let parts = [part(&lane, &upload, 1, b"1234").unwrap(), part(&lane, &upload, 2, b"56789").unwrap()];
        let stored = complete(&lane, &upload, &parts, &PutCondition::None);
        match is_right {
            true => assert!(stored.unwrap().is_checked),
            false => assert_eq!(stored.unwrap_err().kind, ErrorKind::Corrupt),
        }
        assert_eq!(count.load(Ordering::Relaxed), 4);
    }
}

#[test]
fn pages_of_a_large_listing_skip_what_belongs_to_uploads() {
    let server = StoreServer::fake_gcs().unwrap();
    let lane = of(&server);
    let upload = begin(&lane);
    for number in 1..=30 {
        part(&lane, &upload, number, b"x").unwrap();
    }
    lane.put(".a", b"x").unwrap();
    lane.put("z", b"x").unwrap();
    for entries in [1, 7, 1000] {
        assert_eq!(lane.keys("", entries), [".a", "z"], "{entries}");
    }
    assert!(lane.page(".hakobu.parts/", false, ListStart::First, 1000).unwrap().objects.is_empty());
}
