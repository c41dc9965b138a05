//! A server that does what no store does. The client must neither believe it nor need much memory.

use hakobu_core::ErrorKind;
use hakobu_core::extent::Extent;
use hakobu_endpoints::object::api::ListStart;
use hakobu_testkit::http::{ScriptedAnswer, ScriptedServer};

use super::{TestLane, assert_names};

const DATE: &str = "Last-Modified: Fri, 27 Nov 2026 10:00:00 GMT";

fn answering(answer: ScriptedAnswer) -> (ScriptedServer, TestLane) {
    let server = ScriptedServer::start(None, move |_| answer.clone()).unwrap();
    let lane = TestLane::behind(&server);
    (server, lane)
}

fn listing(answer: ScriptedAnswer) -> ErrorKind {
    let (_server, lane) = answering(answer);
    lane.page("p/", true, ListStart::First, 1000).unwrap_err().kind
}

#[test]
fn endless_answers_are_cut_off() {
    let head = b"HTTP/1.1 200 OK\r\n".to_vec();
    let many = ScriptedAnswer::Endless(head.clone(), b"x-header: value\r\n".to_vec());
    assert_eq!(listing(many), ErrorKind::Protocol);
    let long = ScriptedAnswer::Endless(head, vec![b'a'; 64 << 10]);
    assert_eq!(listing(long), ErrorKind::Protocol);
    let body = b"HTTP/1.1 200 OK\r\n\r\n<ListBucketResult>".to_vec();
    assert_eq!(listing(ScriptedAnswer::Endless(body, vec![b' '; 64 << 10])), ErrorKind::Protocol);
    let refusal = b"HTTP/1.1 403 Forbidden\r\n\r\n<Error>".to_vec();
    assert_eq!(listing(ScriptedAnswer::Endless(refusal, vec![b' '; 64 << 10])), ErrorKind::PermissionDenied);
}

#[test]
fn documents_that_are_no_listings_are_refused() {
    let deep = format!("<ListBucketResult>{}", "<a>".repeat(100_000));
    let bomb = "<!DOCTYPE r [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;\">]><ListBucketResult>&b;</ListBucketResult>";
    for body in [deep.as_str(), bomb, "<html></html>", "{}", "", "<ListBucketResult>", "\u{feff}"] {
        assert_eq!(listing(ScriptedAnswer::with(200, &[], body)), ErrorKind::Protocol, "{body:.60}");
    }
    assert_eq!(listing(ScriptedAnswer::Bytes(b"SSH-2.0-server\r\n\r\n".to_vec())), ErrorKind::Protocol);
}

fn object(key: &str) -> String {
    format!(
        "<Contents><Key>{key}</Key><Size>1</Size><LastModified>2026-11-27T10:00:00Z</LastModified></Contents>"
    )
}

#[test]
fn keys_that_were_not_asked_for_are_refused() {
    for content in [
        object("../x"),
        object("other"),
        object(""),
        object("P/a"),
        "<CommonPrefixes><Prefix>../</Prefix></CommonPrefixes>".to_owned(),
        object("p/a").repeat(1001),
    ] {
        let body = format!("<ListBucketResult>{content}</ListBucketResult>");
        assert_eq!(listing(ScriptedAnswer::with(200, &[], body)), ErrorKind::Protocol, "{content:.60}");
    }
}

#[test]
fn a_key_that_is_no_path_is_shown_and_never_requested() {
    let body = format!("<ListBucketResult>{}</ListBucketResult>", object("p/../../x"));
    let (server, lane) = answering(ScriptedAnswer::with(200, &[], body));
    let page = lane.page("p/", false, ListStart::First, 1000).unwrap();
    assert_eq!(lane.get(&page.objects[0].key, None).unwrap_err().kind, ErrorKind::Unsupported);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn bodies_of_another_length_than_announced_are_no_content() {
    let range = Some(Extent { offset: 0, length: 10 });
    let with_range = |text: &str, body: &str| {
        let headers = [format!("Content-Range: {text}"), DATE.to_owned()];
        ScriptedAnswer::with(206, &[&headers[0], &headers[1]], body)
    };
    for (name, range, answer) in [
        (
            "no length",
            None,
            ScriptedAnswer::Cut(format!("HTTP/1.1 200 OK\r\n{DATE}\r\n\r\nabc").into_bytes()),
        ),
        ("no time", None, ScriptedAnswer::with(200, &[], "abc")),
        ("another range", range, with_range("bytes 5-14/20", "0123456789")),
        ("less than its range", range, with_range("bytes 0-9/20", "012345678")),
        ("more than its range", range, with_range("bytes 0-9/20", "01234567890")),
        ("no range", range, ScriptedAnswer::with(206, &[DATE], "0123456789")),
        ("all of it", range, ScriptedAnswer::with(200, &[DATE], "0123456789-0123456789")),
    ] {
        let (_server, lane) = answering(answer);
        let error = lane.get("a", range).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{name}: {error}");
        assert_names(&error, &["s3://bucket/a"]);
    }
}

#[test]
fn a_body_that_always_ends_early_fails() {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n{DATE}\r\nETag: \"e\"\r\n\r\n");
    let (server, lane) = answering(ScriptedAnswer::Cut([head.as_bytes(), b"abc"].concat()));
    let error = lane.get("a", None).unwrap_err();
    // The second answer has no range.
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_store_that_ignores_conditions_is_noticed() {
    let (_server, lane) = answering(ScriptedAnswer::with(200, &[DATE, "ETag: \"new\""], "abc"));
    let version =
        hakobu_endpoints::object::api::ObjectVersion { etag: Some("\"old\"".to_owned()), generation: None };
    let read = lane.runtime.run(lane.api.get("a", None, Some(&version)));
    assert_eq!(read.err().map(|error| error.kind), Some(ErrorKind::SourceChanged));
}

#[test]
fn an_answer_about_deletions_must_be_about_those_asked_for() {
    let body = "<DeleteResult><Error><Key>other</Key><Code>AccessDenied</Code></Error></DeleteResult>";
    let (_server, lane) = answering(ScriptedAnswer::with(200, &[], body));
    let keys = ["a", "b"].map(str::to_owned);
    assert_eq!(lane.runtime.run(lane.api.delete(&keys)).unwrap_err().kind, ErrorKind::Protocol);
    let body = "<DeleteResult><Error><Key>b</Key><Code>AccessDenied</Code></Error></DeleteResult>";
    let (_server, lane) = answering(ScriptedAnswer::with(200, &[], body));
    let outcomes = lane.runtime.run(lane.api.delete(&keys)).unwrap();
    assert!(outcomes[0].is_ok());
    assert_eq!(outcomes[1].as_ref().unwrap_err().kind, ErrorKind::PermissionDenied);
}
