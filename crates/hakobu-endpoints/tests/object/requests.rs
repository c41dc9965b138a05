//! Each kind of request, on servers that differ.

use hakobu_core::ErrorKind;
use hakobu_core::checksum::crc64;
use hakobu_core::extent::Extent;
use hakobu_core::store_settings::ServerEncryption;
use hakobu_endpoints::object::api::{
    CopyObject, CopySource, ListStart, ObjectProperties, ObjectVersion, PutCondition, PutObject,
    StoredChecksum,
};
use hakobu_endpoints::object::s3::{S3NewObjects, S3Settings};
use hakobu_testkit::http::{ScriptedAnswer, ScriptedServer};
use hakobu_testkit::stores::StoreServer;

use super::{TestLane, noise, read_all, settings};

fn both() -> [StoreServer; 2] {
    [StoreServer::versitygw().unwrap(), StoreServer::moto().unwrap()]
}

fn properties() -> ObjectProperties {
    ObjectProperties {
        content_type: Some("text/plain".to_owned()),
        metadata: vec![
            ("mtime".to_owned(), "1.5".to_owned()),
            ("file-mode".to_owned(), "0100644".to_owned()),
        ],
        storage_class: None,
    }
}

#[test]
fn objects_come_back_with_their_properties() {
    for server in both() {
        let lane = TestLane::of(&server);
        let content = noise(300_000);
        // In pieces, an empty one among them.
        let pieces = vec![content[..1].to_vec().into(), Vec::new().into(), content[1..].to_vec().into()];
        let (properties, condition) = (properties(), PutCondition::None);
        let stored = lane.runtime.run(lane.api.put(PutObject {
            key: "a/b c",
            content: pieces,
            properties: &properties,
            condition: &condition,
            crc64: Some(crc64(&content)),
        }));
        let stored = stored.unwrap();
        let head = lane.runtime.run(lane.api.head("a/b c")).unwrap().unwrap();
        assert_eq!((head.size_bytes, &head.version), (300_000, &stored.version));
        assert_eq!(head.content_type.as_deref(), Some("text/plain"));
        let mut metadata = head.metadata.clone();
        metadata.sort();
        let mut sent = properties.metadata.clone();
        sent.sort();
        assert_eq!(metadata, sent);
        if stored.is_checked {
            assert_eq!(head.checksum, Some(StoredChecksum::Crc64(crc64(&content))));
        }
        assert!(head.uploaded.seconds > 1_700_000_000);
        assert_eq!(lane.get("a/b c", None).unwrap(), content);
        for (offset, length) in [(0, 1), (17, 100_000), (299_999, 1)] {
            let range = Extent { offset, length };
            assert_eq!(
                lane.get("a/b c", Some(range)).unwrap(),
                content[offset as usize..range.end() as usize]
            );
        }
        let counts = lane.bucket.requests();
        assert_eq!((counts.put, counts.head, counts.get, counts.retries), (1, 1, 4, 0));
        assert_eq!(counts.sent_bytes, 300_000);
        assert!(counts.received_bytes >= 400_002);
        let clock = lane.bucket.clock().unwrap();
        assert!(clock.least_ns <= 0 && clock.most_ns >= 0, "{clock:?}: it is this machine's own clock");
    }
}

#[test]
fn the_store_says_if_it_checked_the_content() {
    let (versitygw, moto) = (StoreServer::versitygw().unwrap(), StoreServer::moto().unwrap());
    assert!(TestLane::of(&versitygw).put("a", b"content").unwrap().is_checked);
    // It ignores the checksum, and must not pass for a store that checks.
    assert!(!TestLane::of(&moto).put("a", b"content").unwrap().is_checked);
}

#[test]
fn content_that_is_not_what_was_announced_is_refused() {
    let server = StoreServer::versitygw().unwrap();
    let lane = TestLane::of(&server);
    let properties = ObjectProperties::default();
    let wrong = lane.runtime.run(lane.api.put(PutObject {
        key: "a",
        content: vec![(&b"content"[..]).into()],
        properties: &properties,
        condition: &PutCondition::None,
        crc64: Some(1),
    }));
    assert_eq!(wrong.unwrap_err().kind, ErrorKind::Corrupt);
    assert_eq!(lane.bucket.requests().put, 2, "once more, as it may be damage on the way");
    assert_eq!(lane.runtime.run(lane.api.head("a")).unwrap(), None);
}

#[test]
fn conditions_hold() {
    let server = StoreServer::versitygw().unwrap();
    let lane = TestLane::of(&server);
    let first = lane.put_if("a", b"one", &PutCondition::IfAbsent).unwrap();
    let again = lane.put_if("a", b"two", &PutCondition::IfAbsent).unwrap_err();
    assert_eq!(again.kind, ErrorKind::Conflict);
    let second = lane.put_if("a", b"two", &PutCondition::IfVersion(first.version.clone())).unwrap();
    let stale = lane.put_if("a", b"three", &PutCondition::IfVersion(first.version.clone())).unwrap_err();
    assert_eq!(stale.kind, ErrorKind::Conflict);
    assert_eq!(lane.get("a", None).unwrap(), b"two");
    let read = |version: &ObjectVersion| {
        lane.runtime.run(async { read_all(lane.api.get("a", None, Some(version)).await?).await })
    };
    assert_eq!(read(&second.version).unwrap(), b"two");
    assert_eq!(read(&first.version).unwrap_err().kind, ErrorKind::SourceChanged);
}

#[test]
fn pages_cover_all_keys_once() {
    for server in both() {
        let lane = TestLane::of(&server);
        let mut keys: Vec<String> = (0..23).map(|index| format!("d/{index:02}")).collect();
        keys.extend(["d-e/x", "d/sub/one", "d/sub/two", "e"].map(str::to_owned));
        keys.sort();
        for key in &keys {
            lane.put(key, key.as_bytes()).unwrap();
        }
        for entries in [1, 7, 1000] {
            assert_eq!(lane.keys("", entries), keys);
        }
        let page = lane.page("d/", true, ListStart::First, 1000).unwrap();
        assert_eq!((page.objects.len(), page.prefixes), (23, vec!["d/sub/".to_owned()]));
        let after = lane.page("d/", false, ListStart::After("d/21"), 1000).unwrap();
        let after: Vec<_> = after.objects.iter().map(|object| object.key.as_str()).collect();
        assert_eq!(after, ["d/22", "d/sub/one", "d/sub/two"]);
        let object = &page.objects[0];
        assert_eq!((object.size_bytes, object.is_archived, &object.storage_class), (4, false, &None));
        assert!(object.version.etag.is_some() && object.uploaded.seconds > 1_700_000_000);
        assert_eq!(lane.page("none/", false, ListStart::First, 10).unwrap().objects, []);
    }
}

#[test]
fn unusual_keys_are_kept_as_they_are() {
    let common = [
        "a b",
        "a+b",
        "a%20b",
        "a&b<c>\"d'",
        "ä/あ",
        "a\u{203b}b",
        "\u{10000}",
        "\u{ffee}",
        "a~b!c*(d)",
        "a=b;c?d#e",
        "...",
        ".hidden",
        "dir/",
    ];
    let in_memory = ["a\u{1}b", "a\tb", "x", "x/y"];
    for (server, more) in both().into_iter().zip([&[][..], &in_memory[..]]) {
        let lane = TestLane::of(&server);
        let mut keys: Vec<&str> = common.iter().chain(more).copied().collect();
        keys.sort_unstable();
        for key in &keys {
            let content = if key.ends_with('/') { &b""[..] } else { key.as_bytes() };
            lane.put(key, content).unwrap_or_else(|error| panic!("{key:?}: {error}"));
        }
        let listed = lane.keys("", 1000);
        assert_eq!(listed, keys);
        for key in keys.iter().filter(|key| !key.ends_with('/')) {
            assert_eq!(lane.get(key, None).unwrap(), key.as_bytes(), "{key:?}");
        }
        let outcomes = lane.runtime.run(lane.api.delete(&listed)).unwrap();
        assert!(outcomes.len() == keys.len() && outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(lane.keys("", 1000), [""; 0]);
    }
}

#[test]
fn keys_that_are_no_paths_are_never_requested() {
    let server = StoreServer::moto().unwrap();
    let lane = TestLane::of(&server);
    for key in ["../other/a", "a//b", "/a", "a/./b", ""] {
        let kinds = [
            lane.put(key, b"x").unwrap_err().kind,
            lane.get(key, None).unwrap_err().kind,
            lane.runtime.run(lane.api.head(key)).unwrap_err().kind,
            lane.runtime.run(lane.api.delete(&[key.to_owned()])).unwrap().remove(0).unwrap_err().kind,
        ];
        assert_eq!(kinds, [ErrorKind::Unsupported; 4], "{key}");
    }
    let counts = lane.bucket.requests();
    assert_eq!((counts.put, counts.get, counts.head, counts.delete), (0, 0, 0, 0));
}

#[test]
fn deletions_go_by_the_thousand() {
    for server in both() {
        let lane = TestLane::of(&server);
        for key in ["a", "b", "c"] {
            lane.put(key, b"x").unwrap();
        }
        let keys: Vec<String> = ["a", "none", "b"].map(str::to_owned).to_vec();
        let outcomes = lane.runtime.run(lane.api.delete(&keys)).unwrap();
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(lane.bucket.requests().delete, 1);
        assert_eq!(lane.keys("", 1000), ["c"]);
    }
}

#[test]
fn copies_stay_inside_the_store() {
    for server in both() {
        let lane = TestLane::of(&server);
        let stored = lane.put("a b", b"content").unwrap();
        let (condition, new) = (PutCondition::None, properties());
        let copy = |key, version, properties| {
            let source = CopySource { bucket: None, key: "a b", version, unmodified_since: None };
            lane.runtime.run(lane.api.copy(CopyObject {
                source,
                key,
                properties,
                condition: &condition,
                renews: None,
            }))
        };
        let copied = copy("c/d", Some(&stored.version), None).unwrap();
        let head = lane.runtime.run(lane.api.head("c/d")).unwrap().unwrap();
        assert_eq!((head.size_bytes, &head.version), (7, &copied.version));
        copy("a b", None, Some(&new)).unwrap();
        let head = lane.runtime.run(lane.api.head("a b")).unwrap().unwrap();
        assert!(head.metadata.contains(&("mtime".to_owned(), "1.5".to_owned())));
        let source = CopySource { bucket: None, key: "none", version: None, unmodified_since: None };
        let missing = CopyObject { source, key: "e", properties: None, condition: &condition, renews: None };
        let missing = lane.runtime.run(lane.api.copy(missing)).unwrap_err();
        assert_eq!(missing.kind, ErrorKind::SourceVanished, "{missing}");
    }
    let server = StoreServer::versitygw().unwrap();
    let lane = TestLane::of(&server);
    let old = lane.put("a", b"one").unwrap();
    lane.put("a", b"two").unwrap();
    let source = CopySource { bucket: None, key: "a", version: Some(&old.version), unmodified_since: None };
    let stale =
        CopyObject { source, key: "b", properties: None, condition: &PutCondition::None, renews: None };
    assert_eq!(lane.runtime.run(lane.api.copy(stale)).unwrap_err().kind, ErrorKind::SourceChanged);
}

#[test]
fn the_wanted_properties_of_new_objects_are_sent_with_each() {
    let server = ScriptedServer::start(None, |_| ScriptedAnswer::with(200, &["etag: \"1\""], "")).unwrap();
    let new_objects = S3NewObjects {
        content_type: Some("text/csv".to_owned()),
        storage_class: Some("STANDARD_IA".to_owned()),
        encryption: Some(ServerEncryption::Kms(Some("alias/mine".to_owned()))),
        acl: Some("bucket-owner-full-control".to_owned()),
    };
    let lane = TestLane::new(S3Settings { new_objects, ..settings(&server.endpoint) });
    let (properties, condition) = (properties(), PutCondition::None);
    for key in ["a", "directory/"] {
        let content = vec![b"x".to_vec().into()];
        let put = PutObject { key, content, properties: &properties, condition: &condition, crc64: None };
        lane.runtime.run(lane.api.put(put)).unwrap();
    }
    let requests = server.requests();
    let header = |index: usize, name: &str| requests[index].header(name).unwrap_or_default().to_owned();
    // The type of a directory's object is no matter of its content.
    assert_eq!([0, 1].map(|index| header(index, "content-type")), ["text/csv", "text/plain"]);
    for (name, value) in [
        ("x-amz-storage-class", "STANDARD_IA"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-aws-kms-key-id", "alias/mine"),
        ("x-amz-acl", "bucket-owner-full-control"),
    ] {
        assert_eq!([0, 1].map(|index| header(index, name)), [value, value]);
    }
}
