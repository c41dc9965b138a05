//! Failures that pass: what is repeated, and what must not be done twice.

use std::collections::HashSet;

use hakobu_core::ErrorKind;
use hakobu_endpoints::object::api::{ListStart, PutCondition};
use hakobu_testkit::http::{ReceivedRequest, ScriptedAnswer, ScriptedServer};
use hakobu_testkit::stores::StoreServer;

use super::{BUCKET, TestLane, noise};

/// Starts a server behind one that answers each first request by its script, and forwards all further ones.
fn first_fails(
    script: impl Fn(&ReceivedRequest) -> ScriptedAnswer + Send + 'static,
) -> (StoreServer, ScriptedServer, TestLane) {
    let store = StoreServer::versitygw().unwrap();
    store.make_bucket(BUCKET).unwrap();
    let mut seen = HashSet::new();
    let server = ScriptedServer::start(Some(store.port()), move |request| {
        let is_new = seen.insert((request.method.clone(), request.target.clone()));
        if is_new { script(request) } else { ScriptedAnswer::Forward }
    })
    .unwrap();
    let lane = TestLane::behind(&server);
    (store, server, lane)
}

#[test]
fn what_passes_is_repeated() {
    let busy = "<Error><Code>SlowDown</Code></Error>";
    for answer in [
        ScriptedAnswer::with(503, &[], busy),
        ScriptedAnswer::with(500, &[], ""),
        ScriptedAnswer::with(429, &[], ""),
        ScriptedAnswer::with(408, &[], ""),
        ScriptedAnswer::with(502, &[], "<html>bad gateway"),
        ScriptedAnswer::with(400, &[], "<Error><Code>RequestTimeout</Code></Error>"),
        ScriptedAnswer::with(400, &[], "<Error><Code>BadDigest</Code></Error>"),
        ScriptedAnswer::Cut(Vec::new()),
        ScriptedAnswer::Cut(b"HTTP/1.1 200 OK\r\nConte".to_vec()),
        ScriptedAnswer::Silence(Vec::new()),
    ] {
        let name = format!("{answer:.40?}");
        let (_store, server, lane) = first_fails(move |_| answer.clone());
        lane.put("a", b"content").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(lane.get("a", None).unwrap(), b"content", "{name}");
        assert_eq!(lane.page("", false, ListStart::First, 10).unwrap().objects.len(), 1, "{name}");
        assert_eq!(server.requests().len(), 6, "{name}");
        assert_eq!(lane.bucket.requests().retries, 3, "{name}");
    }
}

#[test]
fn a_failure_that_stays_ends_in_time() {
    for (answer, kind) in [
        (ScriptedAnswer::with(503, &[], ""), ErrorKind::TimedOut),
        (ScriptedAnswer::Cut(Vec::new()), ErrorKind::ConnectionLost),
        (ScriptedAnswer::Silence(Vec::new()), ErrorKind::TimedOut),
    ] {
        let server = ScriptedServer::start(None, move |_| answer.clone()).unwrap();
        let error = TestLane::behind(&server).put("a", b"x").unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(server.requests().len() > 1);
    }
}

#[test]
fn an_upload_that_succeeded_without_its_answer_is_no_conflict() {
    let (_store, server, lane) = first_fails(|request| match request.method.as_str() {
        "PUT" => ScriptedAnswer::ForwardAndCut(0),
        _ => ScriptedAnswer::Forward,
    });
    let stored = lane.put_if("a", b"content", &PutCondition::IfAbsent).unwrap();
    assert!(stored.is_checked);
    let methods: Vec<_> = server.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["PUT", "PUT", "HEAD"]);
}

#[test]
fn somebody_elses_object_stays_a_conflict_after_a_retry() {
    let (store, _server, lane) = first_fails(|_| ScriptedAnswer::Cut(Vec::new()));
    let other = TestLane::new(super::settings(&store.endpoint));
    other.put("a", b"CONTENT").unwrap();
    let error = lane.put_if("a", b"content", &PutCondition::IfAbsent).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert_eq!(other.get("a", None).unwrap(), b"CONTENT");
}

#[test]
fn a_body_goes_on_where_its_connection_broke() {
    let content = noise(500_000);
    let (_store, server, lane) = first_fails(|request| match request.method.as_str() {
        "GET" => ScriptedAnswer::ForwardAndCut(200_000),
        _ => ScriptedAnswer::Forward,
    });
    lane.put("a", &content).unwrap();
    assert_eq!(lane.get("a", None).unwrap(), content);
    let gets: Vec<_> = server.requests().into_iter().filter(|request| request.method == "GET").collect();
    assert_eq!(gets.len(), 2);
    assert!(gets[1].header("range").unwrap().ends_with("-499999") && gets[1].header("if-match").is_some());
}

#[test]
fn a_body_does_not_go_on_with_another_object() {
    let content = noise(500_000);
    let store = StoreServer::versitygw().unwrap();
    store.make_bucket(BUCKET).unwrap();
    let other = TestLane::new(super::settings(&store.endpoint));
    other.put("a", &content).unwrap();
    let server = ScriptedServer::start(Some(store.port()), move |request| match request.number {
        0 => ScriptedAnswer::ForwardAndCut(200_000),
        1 => {
            other.put("a", &[7; 500_000]).unwrap();
            ScriptedAnswer::Forward
        }
        _ => ScriptedAnswer::Forward,
    })
    .unwrap();
    let error = TestLane::behind(&server).get("a", None).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SourceChanged, "{error}");
}

#[test]
fn a_success_with_an_error_in_it_is_none() {
    let (_store, server, lane) = first_fails(|request| match request.header("x-amz-copy-source") {
        Some(_) => ScriptedAnswer::with(
            200,
            &[],
            "<?xml version=\"1.0\"?>\n  <Error><Code>InternalError</Code><Message>m</Message></Error>",
        ),
        None => ScriptedAnswer::Forward,
    });
    lane.put("a", b"content").unwrap();
    let source = hakobu_endpoints::object::api::CopySource {
        bucket: None,
        key: "a",
        version: None,
        unmodified_since: None,
    };
    let copy = hakobu_endpoints::object::api::CopyObject {
        source,
        key: "b",
        properties: None,
        condition: &PutCondition::None,
        renews: None,
    };
    lane.runtime.run(lane.api.copy(copy)).unwrap();
    assert_eq!(server.requests().len(), 3);
    assert_eq!(lane.get("b", None).unwrap(), b"content");
}

#[test]
fn each_object_is_sent_with_its_length() {
    let server = ScriptedServer::start(None, |_| ScriptedAnswer::with(200, &["ETag: \"e\""], "")).unwrap();
    let lane = TestLane::behind(&server);
    for content in [&b""[..], b"abc", &noise(600_000)] {
        lane.put("a", content).unwrap();
        let request = server.requests().pop().unwrap();
        assert_eq!(request.header("content-length"), Some(content.len().to_string().as_str()));
        assert_eq!((request.header("transfer-encoding"), request.header("expect")), (None, None));
        assert!(request.body == content);
    }
}
