//! Requests for objects: to an emulator, and to servers that answer as Google's do, or worse.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hakobu_core::extent::Extent;
use hakobu_core::{ErrorKind, Result};
use hakobu_endpoints::object::api::{
    CopyObject, CopySource, ListStart, ObjectProperties, ObjectVersion, PutCondition, PutObject,
    StoredChecksum, StoredObject,
};
use hakobu_endpoints::object::gcs::{GcsNewObjects, GcsSettings, PredefinedAcl};
use hakobu_testkit::http::{ReceivedRequest, ScriptedAnswer, ScriptedServer};
use hakobu_testkit::stores::StoreServer;

use super::{DONE, anonymous, behind, json, of, opened, refusal};
use crate::{TestLane, assert_names, impatient, noise};

fn properties(pairs: &[(&str, &str)]) -> ObjectProperties {
    let metadata = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ObjectProperties { metadata, content_type: Some("text/plain".to_owned()), storage_class: None }
}

fn copy(
    lane: &TestLane,
    source: &str,
    key: &str,
    properties: Option<&ObjectProperties>,
) -> Result<StoredObject> {
    let source = CopySource { bucket: None, key: source, version: None, unmodified_since: None };
    let condition = &PutCondition::None;
    lane.runtime.run(lane.api.copy(CopyObject { source, key, properties, condition, renews: None }))
}

#[test]
fn objects_go_and_return_with_all_that_they_have() {
    let server = StoreServer::fake_gcs().unwrap();
    let lane = of(&server);
    let content = noise(300_000);
    let key = "a b/c+%2F\u{1F600}?#";
    let properties = properties(&[("goog-reserved-posix-mode", "640"), ("mtime", "x")]);
    let put = PutObject {
        key,
        content: vec![Bytes::from(content[..7].to_vec()), Bytes::from(content[7..].to_vec())],
        properties: &properties,
        condition: &PutCondition::IfAbsent,
        crc64: None,
    };
    let stored = lane.runtime.run(lane.api.put(put)).unwrap();
    assert!(stored.is_checked && stored.version.generation.is_some());
    assert_eq!(lane.get(key, None).unwrap(), content);
    assert_eq!(lane.get(key, Some(Extent { offset: 5, length: 7 })).unwrap(), content[5..12]);
    let head = lane.runtime.run(lane.api.head(key)).unwrap().unwrap();
    assert_eq!((head.metadata.clone(), head.size_bytes), (properties.metadata.clone(), 300_000));
    assert_eq!(head.content_type.as_deref(), Some("text/plain"));
    assert!(matches!(head.checksum, Some(StoredChecksum::Crc32c(_))));
    // Listings, heads and contents agree on the version and the time.
    let page = lane.page("a b/", false, ListStart::First, 10).unwrap();
    let listed = &page.objects[0];
    assert_eq!((&listed.key[..], listed.metadata.as_ref()), (key, Some(&properties.metadata)));
    assert_eq!(
        (listed.uploaded, &listed.version, listed.checksum),
        (head.uploaded, &head.version, head.checksum)
    );
    let body = lane.runtime.run(lane.api.get(key, None, Some(&head.version))).unwrap();
    assert_eq!((body.head.uploaded, body.head.metadata), (head.uploaded, properties.metadata));
    let refused = lane.put_if(key, b"x", &PutCondition::IfAbsent).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert_names(&refused, &["gs://bucket/a b/c", "something else was stored with this key"]);
    lane.put_if(key, b"x", &PutCondition::IfVersion(head.version.clone())).unwrap();
    let replaced = lane.runtime.run(lane.api.get(key, None, Some(&head.version))).err().unwrap();
    assert_eq!(replaced.kind, ErrorKind::SourceChanged);
    let keys = [key.to_owned(), "missing".to_owned()];
    assert!(lane.runtime.run(lane.api.delete(&keys)).unwrap().into_iter().all(|outcome| outcome.is_ok()));
    assert_eq!(lane.runtime.run(lane.api.head(key)).unwrap(), None);
    assert_eq!(lane.get(key, None).unwrap_err().kind, ErrorKind::SourceVanished);
}

#[test]
fn pages_follow_each_other_in_the_order_of_bytes() {
    let server = StoreServer::fake_gcs().unwrap();
    let lane = of(&server);
    let mut keys = ["a", "a/", "a/b", "a/c/d", "a-b", "\u{ffee}", "\u{10000}"].map(str::to_owned);
    for key in &keys {
        lane.put(key, b"x").unwrap();
    }
    assert_eq!(lane.put("z//y", b"x").unwrap_err().kind, ErrorKind::Unsupported);
    keys.sort_unstable();
    for entries in [1, 2, 3, 1000] {
        assert_eq!(lane.keys("", entries), keys, "{entries}");
    }
    let page = lane.page("", true, ListStart::First, 1000).unwrap();
    assert_eq!((page.objects.len(), page.prefixes), (4, vec!["a/".to_owned()]));
    let after = lane.page("", false, ListStart::After("a/b"), 1000).unwrap();
    assert_eq!(
        after.objects.iter().map(|object| &*object.key).collect::<Vec<_>>(),
        ["a/c/d", "\u{ffee}", "\u{10000}"]
    );
}

#[test]
fn other_metadata_leaves_the_content_alone() {
    let server = StoreServer::fake_gcs().unwrap();
    let lane = of(&server);
    lane.put("a", b"content").unwrap();
    copy(&lane, "a", "b/c", Some(&properties(&[("one", "1")]))).unwrap();
    copy(&lane, "b/c", "d", None).unwrap();
    let before = lane.runtime.run(lane.api.head("d")).unwrap().unwrap();
    assert_eq!(before.metadata, properties(&[("one", "1")]).metadata);
    copy(&lane, "d", "d", Some(&properties(&[("one", "2"), ("two", "3")]))).unwrap();
    let after = lane.runtime.run(lane.api.head("d")).unwrap().unwrap();
    assert_eq!(after.metadata, properties(&[("one", "2"), ("two", "3")]).metadata);
    assert_eq!(after.version, before.version, "it is not stored again");
    assert_eq!(lane.get("d", None).unwrap(), b"content");
    assert_eq!(copy(&lane, "missing", "e", None).unwrap_err().kind, ErrorKind::SourceVanished);
}

#[test]
fn names_of_metadata_that_are_no_longer_wanted_are_removed() {
    let server = ScriptedServer::start(None, |request| {
        let left = if request.number == 0 { r#","metadata":{"mode":"33188","one":"1"}"# } else { "" };
        json(&format!(r#"{{"name":"a","generation":"7"{left}}}"#))
    })
    .unwrap();
    copy(&behind(&server), "a", "a", Some(&properties(&[("one", "1")]))).unwrap();
    let bodies: Vec<_> =
        server.requests().iter().map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect();
    assert_eq!(bodies.len(), 2);
    assert!(bodies[1].contains(r#""mode":null"#) && bodies[1].contains(r#""one":"1""#), "{bodies:?}");
    assert!(server.requests().iter().all(|request| request.method == "PATCH"));
}

#[test]
fn a_copy_goes_on_until_it_is_done() {
    let server = ScriptedServer::start(None, |request| match request.number {
        0 => json(r#"{"done":false,"rewriteToken":"one two"}"#),
        1 => json(r#"{"done":false,"rewriteToken":"three"}"#),
        _ => json(&format!(r#"{{"done":true,"resource":{DONE}}}"#)),
    })
    .unwrap();
    let stored = copy(&behind(&server), "a", "b", None).unwrap();
    assert_eq!(stored.version, ObjectVersion { etag: None, generation: Some(5) });
    let targets: Vec<_> = server.requests().into_iter().map(|request| request.target).collect();
    assert!(
        targets[1].contains("rewriteToken=one%20two") && targets[2].contains("rewriteToken=three"),
        "{targets:?}"
    );
    let endless = ScriptedServer::start(None, |_| json(r#"{"done":false}"#)).unwrap();
    assert_eq!(copy(&behind(&endless), "a", "b", None).unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn what_the_user_wants_of_new_objects_goes_along() {
    let server = ScriptedServer::start(None, |_| json(DONE)).unwrap();
    let new_objects = GcsNewObjects {
        content_type: Some("x/y".to_owned()),
        storage_class: Some("NEARLINE".to_owned()),
        acl: Some(PredefinedAcl::named("public-read").unwrap()),
    };
    let lane = opened(GcsSettings { new_objects, ..anonymous(&server.endpoint, impatient()) });
    lane.put("a", b"x").unwrap();
    let request = server.requests().remove(0);
    let body = String::from_utf8_lossy(&request.body).into_owned();
    assert!(request.target.contains("predefinedAcl=publicRead"), "{}", request.target);
    assert!(
        body.contains(r#""contentType":"x/y""#) && body.contains(r#""storageClass":"NEARLINE""#),
        "{body}"
    );
    assert!(body.contains(r#""crc32c":""#), "{body}");
}

#[test]
fn other_bytes_than_were_sent_are_noticed() {
    let server = ScriptedServer::start(None, |_| {
        json(r#"{"name":"a","size":"1","generation":"5","crc32c":"4waSgw=="}"#)
    })
    .unwrap();
    assert_eq!(behind(&server).put("a", b"x").unwrap_err().kind, ErrorKind::Corrupt);
    let server =
        ScriptedServer::start(None, |_| refusal(400, "invalid", "Provided CRC32C does not match")).unwrap();
    assert_eq!(behind(&server).put("a", b"x").unwrap_err().kind, ErrorKind::Corrupt);
    assert_eq!(server.requests().len(), 2, "it is sent once more");
}

#[test]
fn an_own_success_is_recognised() {
    let store = StoreServer::fake_gcs().unwrap();
    store.make_bucket(crate::BUCKET).unwrap();
    let server = ScriptedServer::start(Some(store.port()), |request| match request.number {
        // It is done, but nobody hears of it.
        0 => ScriptedAnswer::ForwardAndCut(0),
        _ => ScriptedAnswer::Forward,
    })
    .unwrap();
    let lane = behind(&server);
    lane.put_if("a", b"content", &PutCondition::IfAbsent).unwrap();
    assert_eq!(lane.put_if("a", b"content", &PutCondition::IfAbsent).unwrap_err().kind, ErrorKind::Conflict);
}

#[test]
fn what_passes_is_repeated() {
    for answer in [
        refusal(429, "rateLimitExceeded", "slow down"),
        refusal(403, "userRateLimitExceeded", "slow down"),
        refusal(500, "backendError", "x"),
        ScriptedAnswer::with(503, &[], ""),
        ScriptedAnswer::with(502, &[], "<html>bad gateway"),
        ScriptedAnswer::Cut(Vec::new()),
        ScriptedAnswer::Cut(b"HTTP/1.1 200 OK\r\nConte".to_vec()),
        ScriptedAnswer::Silence(Vec::new()),
    ] {
        let name = format!("{answer:.40?}");
        let server = ScriptedServer::start(None, move |request| match request.number {
            0 => answer.clone(),
            _ => json(DONE),
        })
        .unwrap();
        let lane = behind(&server);
        lane.put("a", b"x").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(lane.bucket.requests().retries, 1, "{name}");
    }
}

#[test]
fn an_interrupted_content_goes_on_where_it_was() {
    let store = StoreServer::fake_gcs().unwrap();
    store.make_bucket(crate::BUCKET).unwrap();
    let content = noise(200_000);
    opened(anonymous(&store.endpoint, impatient())).put("a", &content).unwrap();
    // The emulator knows itself by its own address, so this one has the interface in JSON only.
    let cuts = AtomicUsize::new(0);
    let server = ScriptedServer::start(Some(store.port()), move |request| {
        let is_content = request.target.contains("alt=media");
        match is_content && cuts.fetch_add(1, Ordering::Relaxed) == 0 {
            true => ScriptedAnswer::ForwardAndCut(50_000),
            false => ScriptedAnswer::Forward,
        }
    })
    .unwrap();
    let lane = behind(&server);
    assert_eq!(lane.get("a", None).unwrap(), content);
    let ranges = |server: &ScriptedServer| {
        let of = |request: &ReceivedRequest| request.header("range").map(str::to_owned);
        server.requests().iter().filter_map(of).collect::<Vec<_>>()
    };
    let [range] = &ranges(&server)[..] else { panic!("{:?}", ranges(&server)) };
    assert!(range.starts_with("bytes=4") && range.ends_with("-199999"), "{range}");
    let body = lane.runtime.run(lane.api.get("a", None, None)).unwrap();
    assert_eq!(body.head.metadata, [], "it comes from another request");
    // Google's servers have both.
    let both = ScriptedServer::start(None, |request| {
        let headers = ["x-goog-generation: 1795788191531093", "Content-Range: bytes 3-5/6"];
        match request.number {
            0 => {
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nx-goog-generation: 1795788191531093\r\n\r\nabc";
                ScriptedAnswer::Cut(head.into())
            }
            _ => ScriptedAnswer::with(206, &headers, "def"),
        }
    })
    .unwrap();
    assert_eq!(behind(&both).get("a b/c", None).unwrap(), b"abcdef");
    assert_eq!(ranges(&both), ["bytes=3-5"]);
    let again = &both.requests()[1];
    assert_eq!(
        (&again.target[..], again.header("x-goog-if-generation-match")),
        ("/bucket/a%20b/c", Some("1795788191531093"))
    );
}

#[test]
fn what_keeps_a_bucket_closed_is_said() {
    for (answer, kind, words) in [
        (
            refusal(404, "notFound", "The specified bucket does not exist."),
            ErrorKind::NotFound,
            "the bucket bucket does not exist",
        ),
        (
            refusal(401, "required", "Anonymous caller does not have access"),
            ErrorKind::PermissionDenied,
            "it is not public",
        ),
        (
            refusal(400, "required", "Bucket is a requester pays bucket but no user project provided."),
            ErrorKind::PermissionDenied,
            "--request-payer",
        ),
        (
            ScriptedAnswer::with(404, &[], "<html>"),
            ErrorKind::Protocol,
            "the endpoint must be that of a store",
        ),
        (ScriptedAnswer::with(200, &[], "<html>"), ErrorKind::Protocol, "the answer is no page of objects"),
        (
            ScriptedAnswer::Bytes(b"SSH-2.0-server\r\n\r\n".to_vec()),
            ErrorKind::Protocol,
            "the endpoint must be",
        ),
    ] {
        let server = ScriptedServer::start(None, move |_| answer.clone()).unwrap();
        let error = behind(&server).page("", false, ListStart::First, 10).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert_names(&error, &[words]);
    }
    let server = StoreServer::fake_gcs().unwrap();
    let lane = opened(anonymous(&server.endpoint, impatient()));
    for error in [
        lane.page("", false, ListStart::First, 10).unwrap_err(),
        lane.put("a", b"x").unwrap_err(),
        lane.get("a", None).unwrap_err(),
        lane.runtime.run(lane.api.head("a")).unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        assert_names(&error, &["the bucket bucket does not exist"]);
    }
}

#[test]
fn answers_that_nobody_asked_for_are_refused() {
    let item = |name: &str| {
        format!(r#"{{"name":"{name}","size":"1","generation":"5","timeCreated":"2026-11-27T10:00:00Z"}}"#)
    };
    let many = vec![item("p/a"); 11].join(",");
    for body in [
        format!(r#"{{"items":[{}]}}"#, item("other")),
        format!(r#"{{"items":[{many}]}}"#),
        r#"{"items":[{"name":"p/a"}]}"#.to_owned(),
        r#"{"prefixes":["../"]}"#.to_owned(),
        "[".repeat(100_000),
        String::new(),
        "null".to_owned(),
    ] {
        let server = ScriptedServer::start(None, move |_| json(&body)).unwrap();
        let error = behind(&server).page("p/", false, ListStart::First, 10).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    }
    let head = b"HTTP/1.1 200 OK\r\n\r\n{\"items\":[".to_vec();
    let endless = ScriptedAnswer::Endless(head, vec![b' '; 64 << 10]);
    let server = ScriptedServer::start(None, move |_| endless.clone()).unwrap();
    let error = behind(&server).page("p/", false, ListStart::First, 10).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    // Content that something on the way has compressed.
    let server = ScriptedServer::start(None, |_| {
        let headers = ["x-goog-stored-content-length: 9", "x-goog-generation: 1795788191531093"];
        ScriptedAnswer::with(200, &headers, "x")
    })
    .unwrap();
    assert_eq!(behind(&server).get("a", None).unwrap_err().kind, ErrorKind::Protocol);
    // A range that was not asked for.
    let server = ScriptedServer::start(None, |_| {
        let headers = ["Content-Range: bytes 1-1/9", "x-goog-generation: 1795788191531093"];
        ScriptedAnswer::with(206, &headers, "x")
    })
    .unwrap();
    let error = behind(&server).get("a", Some(Extent { offset: 0, length: 1 })).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
}
